//! LocalLeap: near a confident position, a lower threshold is enough.

use crate::spec::{Entry, Param, Values};
use crate::{Picks, Policy, Result, Sampler, Slot, StepView, Verdict};

/// Commits c ≥ `anchor`, and c ≥ `relaxed` within `radius` positions of such an anchor; the surest always.
pub(crate) struct LocalLeap {
    anchor: f64,
    relaxed: f64,
    radius: usize,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        v.at_most((1, "RELAXED"), (0, "ANCHOR"))?;
        let (anchor, relaxed, radius) = (v.param(0), v.param(1), v.count(2));
        Ok(Policy::Commits(Box::new(LocalLeap { anchor, relaxed, radius })))
    };
    Entry::new("localleap", "a lower threshold near anchors", build)
        .params([
            Param::number("ANCHOR", 0.0, 1.0).default(0.9),
            Param::number("RELAXED", 0.0, 1.0).default(0.75),
            Param::count("RADIUS", 0, u32::MAX as u64).default(4.0),
        ])
        .source("LocalLeap, as bundled with DAWN")
}

impl Sampler for LocalLeap {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let is_anchor = |slot: Slot| view.confidence(slot) >= self.anchor;
        let anchors: Vec<usize> =
            view.slots().filter(|&slot| is_anchor(slot)).map(|slot| view.position(slot)).collect();
        let near = |slot: Slot| anchors.iter().any(|a| a.abs_diff(view.position(slot)) <= self.radius);
        for slot in view.slots() {
            if is_anchor(slot) || (view.confidence(slot) >= self.relaxed && near(slot)) {
                picks.push(view, slot, view.confidence(slot));
            }
        }
        Ok(picks.or_surest(view))
    }
}

#[cfg(test)]
mod tests {
    use crate::{SamplerSpec, Snapshot};

    #[test]
    fn the_threshold_is_lower_near_anchors() {
        let select = |sampler: &str, c: &[f64]| {
            let picks = Snapshot::new(c).select(&sampler.parse::<SamplerSpec>().unwrap()).unwrap();
            (picks.positions(), picks.forced)
        };
        // .9 at 1 anchors 0 and 2 (.75 is enough); 4 is two away from nobody.
        let c = [0.75, 0.9, 0.8, 0.74, 0.8];
        assert_eq!(select("localleap:0.9,0.75,1", &c), (vec![0, 1, 2], false));
        assert_eq!(select("localleap", &c), (vec![0, 1, 2, 4], false), "radius 4");
        assert_eq!(select("localleap", &[0.8, 0.85, 0.85]), (vec![1], true), "no anchor, no leap");
    }
}
