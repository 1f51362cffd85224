//! dInfer's hierarchical decoder: one token per gap, and everything sure.
//!
//! Each contiguous run of masked positions gives its surest one if that is above `low`, so commits land apart and halve the
//! gaps; every candidate above τ goes too, and the surest of all always.

use crate::spec::{Entry, Param, Values};
use crate::{Picks, Policy, Result, Sampler, Slot, StepView, Verdict};

/// The sampler, with its two thresholds.
pub(crate) struct Hierarchy {
    tau: f64,
    low: f64,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        v.at_most((1, "LOW"), (0, "TAU"))?;
        Ok(Policy::Commits(Box::new(Hierarchy { tau: v.param(0), low: v.param(1) })))
    };
    Entry::new("hierarchy", "the surest of every masked run", build)
        .params([Param::number("TAU", 0.0, 1.0).default(0.9), Param::number("LOW", 0.0, 1.0).default(0.4)])
        .source("dInfer, hierarchy decoder")
}

impl Sampler for Hierarchy {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let slots: Vec<Slot> = view.slots().collect();
        let surest = view.surest();
        for run in slots.chunk_by(|&a, &b| view.position(a) + 1 == view.position(b)) {
            let best = run.iter().map(|&slot| view.confidence(slot)).fold(0.0, f64::max);
            for &slot in run {
                let c = view.confidence(slot);
                // Ties within a run all pass, as in dInfer.
                if (c == best && c > self.low) || c > self.tau || slot == surest {
                    picks.push(view, slot, c);
                }
            }
        }
        picks.forced = picks.len() == 1 && view.confidence(surest) <= self.low;
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{SamplerSpec, Snapshot};

    #[test]
    fn t18() {
        // Masked runs 0–2 and 4–5; 3 is unmasked.
        let check = |c: [f64; 6], want: &[usize], forced: bool| {
            let spec: SamplerSpec = "hierarchy:0.9,0.4".parse().unwrap();
            let picks = Snapshot::new(&c).candidates(&[0, 1, 2, 4, 5]).select(&spec).unwrap();
            assert_eq!((picks.positions().as_slice(), picks.forced), (want, forced));
        };
        check([0.3, 0.6, 0.95, 0.0, 0.35, 0.2], &[2], false);
        check([0.5, 0.6, 0.55, 0.0, 0.45, 0.2], &[1, 4], false);
        check([0.1, 0.2, 0.15, 0.0, 0.05, 0.2], &[1], true);
        check([0.92, 0.6, 0.95, 0.0, 0.35, 0.2], &[0, 2], false);
        check([0.5, 0.5, 0.3, 0.0, 0.1, 0.2], &[0, 1], false);
    }
}
