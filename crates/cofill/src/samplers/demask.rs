//! DEMASK: commit what a trained head says hardly changes each other.
//!
//! D\[i, s\] is the predicted influence of s on i ([`Layers::Learned`]). Candidates come by confidence; i joins S if
//!
//! ```text
//! Σ_{s∈S} D[i,s], added up over everybody who joined,  ≤ τ        and  c_i ≥ θ
//! ```
//!
//! and is passed over otherwise; the surest always goes. Why this sum: the joint of S is a chain of conditionals and what is committed is
//! the product of marginals, so they are apart by at most Σ_j TV(p_j | those before, p_j), and if influences add up at most (the
//! paper's assumption), by at most the sum above.
//!
//! In the spirit of the paper (arXiv 2604.02560), of which the abstract and summaries were at hand, and no code: a predictor on the
//! final hidden states, a greedy set of bounded cumulated influence, a threshold on confidence. That a candidate that does not fit is passed
//! over and not the last, and the defaults, are ours.

use crate::spec::{Entry, Param, Values};
use crate::{Layers, Needs, Picks, Policy, Result, Sampler, Slot, StepView, Verdict};

/// How much influence a set may have within it, and how sure its members must be.
pub(crate) struct Demask {
    tau: f64,
    theta: f64,
    order: Vec<Slot>, // scratch
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (tau, theta) = (v.param(0), v.param(1));
        Ok(Policy::Commits(Box::new(Demask { tau, theta, order: Vec::new() })))
    };
    Entry::new("demask", "learned influence among the chosen at most tau", build)
        .params([Param::number("TAU", 0.0, f64::INFINITY).default(0.3), Param::number("THETA", 0.0, 1.0).default(0.0)])
        .source("Ringel et al. 2026 (DEMASK), in its spirit; the head is ours")
}

impl Sampler for Demask {
    fn needs(&self) -> Needs {
        Needs::default().attention(Layers::Learned)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let influence = view.attention();
        self.order.clear();
        self.order.extend(view.slots());
        let surer = |a: &Slot, b: &Slot| view.confidence(*b).total_cmp(&view.confidence(*a)).then(a.cmp(b));
        self.order.sort_unstable_by(surer);
        let mut spent = 0.0; // Σ over the chosen, each by those before it
        for &slot in &self.order {
            let c = view.confidence(slot);
            let cost: f64 = picks.iter().map(|chosen| influence.get(slot.0, chosen.slot.0)).sum();
            if picks.is_empty() || (c >= self.theta && spent + cost <= self.tau) {
                picks.push(view, slot, c);
                spent += cost;
            }
        }
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attention, Snapshot, toy};

    /// 1 is changed by 0 with .4, 2 by 0 with .1 and by 1 with .3, 3 by nobody.
    const D: [[f64; 4]; 4] = [[0.0, 0.9, 0.9, 0.9], [0.4, 0.0, 0.9, 0.9], [0.1, 0.3, 0.0, 0.9], [0.0, 0.0, 0.0, 0.0]];

    fn picked(sampler: &str) -> Vec<usize> {
        let step = Snapshot::new(&[0.9, 0.8, 0.7, 0.6]).attention(Attention::from_rows(&D).unwrap());
        step.select(&sampler.parse().unwrap()).unwrap().positions()
    }

    #[test]
    fn influence_adds_up_and_who_does_not_fit_is_passed_over() {
        // 0 goes. With .05 neither 1 (.4) nor 2 (.1) fits, and 3 costs nothing. With .1, 2 fits exactly.
        assert_eq!(picked("demask:0.05"), [0, 3]);
        assert_eq!(picked("demask:0.1"), [0, 2, 3]);
        // With .5, 1 spends .4, and 2 would cost .1 + .3 more: .8 in all.
        assert_eq!(picked("demask:0.5"), [0, 1, 3]);
        assert_eq!(picked("demask:0.8"), [0, 1, 2, 3]);
    }

    #[test]
    fn only_those_who_come_later_are_charged() {
        // Everything above the diagonal is .9: what 0 suffers from 1 costs nothing, for 0 was chosen first.
        assert_eq!(picked("demask:0"), [0, 3]);
    }

    #[test]
    fn who_is_not_sure_enough_waits_unless_nobody_is() {
        assert_eq!(picked("demask:9,0.65"), [0, 1, 2]);
        assert_eq!(picked("demask:9,0.95"), [0]);
    }

    #[test]
    fn the_toys_true_influence_lets_every_couple_be_right() {
        // Two couples and two words: one of each couple and both words, then the partners. Fewer steps are impossible.
        let steps = toy::decode_toy(toy::Toy::phrases(6), "demask:0.1", None);
        assert_eq!(steps.len(), 2);
        let tokens: Vec<_> = {
            let mut tokens = vec![24; 6];
            steps.iter().flat_map(|step| &step.commits).for_each(|commit| tokens[commit.position] = commit.token);
            tokens
        };
        assert!(toy::Toy::phrases(6).log_probability(&tokens).is_finite(), "no couple is broken");
        // Without a bound all goes at once, and `Alan Kelly` does not exist.
        assert_eq!(toy::decode_toy(toy::Toy::phrases(6), "demask:1e9", None).len(), 1);
    }
}
