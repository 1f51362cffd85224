//! Stopping by the whole confidence profile: Fast-dLLM++.
//!
//! Fast-dLLM's factor rule treats every member of a set as if it were as unsure as the least sure one. Here each counts by itself. With
//! u = 1 − c, the proposed tokens are right together with a chance of at least L (Fréchet's bound); any other choice differs somewhere and
//! so has a chance of at most U:
//!
//! ```text
//! L = 1 − Σ u        U = max u        commit while L − U > δ        that is, with f = 1 − δ:   Σ u + max u < f
//! ```
//!
//! L > U means that committing the set at once is what the joint distribution would choose, whatever the dependencies. If all members are equally sure this is `(n + 1) u < f`, Fast-dLLM's rule as published; every surer member leaves room for more. Both
//! sums only grow along any order, so "the largest prefix that passes" is "stop at the first that does not", whatever the ranking,
//! and `+ad` goes with it.
//!
//! Read: the paper's abstract and project page (Kasa et al. 2026, arXiv 2606.02955) and its published code (`FastdLLM_plusplus`, commit 29fd034, the
//! LLaDA and the Dream version, which agree): the inequality, its strictness, the first rank always free, δ ≥ 0 with .25 in the
//! main tables and .02 to .30 recommended by task. Inferred: δ < 0, that is f > 1, where no guarantee is left, in the code's form; the
//! page caps L at 0 from below, which changes nothing for δ ≥ 0.

use crate::rule::{StoppingRule, Tally};

/// `f` bounds how much uncertainty a set may carry, summed over its members.
#[derive(Debug, Clone, Copy)]
pub struct ConfidenceProfile {
    /// f: larger commits more at once. 1 − δ in the paper's letters.
    pub factor: f64,
    /// Which inequality.
    pub form: ProfileForm,
}

/// The forms of the profile rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileForm {
    /// As published: `Σ (1 − c) + (1 − min c) < f`, the first token free.
    Published,
    /// Without the competitor, as the ADAS paper prints Fast-dLLM's rule with n instead of n + 1: `Σ (1 − c) < f`. Its counterpart is
    /// [`FactorForm::Adas`](crate::fast_dllm::FactorForm::Adas) at the same f, which it never takes less than.
    Sum,
}

/// 1 − δ at the paper's δ = .25.
pub const DEFAULT_FACTOR: f64 = 0.75;

impl StoppingRule for ConfidenceProfile {
    fn admits(&self, set: &Tally) -> bool {
        match self.form {
            ProfileForm::Published => set.n == 1 || set.sum_uncertainty + set.max_uncertainty < self.factor,
            ProfileForm::Sum => set.sum_uncertainty < self.factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attention, SamplerSpec, Snapshot};

    #[track_caller]
    fn check(sampler: &str, step: &Snapshot, want: &[usize], forced: bool) {
        let picks = step.select(&sampler.parse::<SamplerSpec>().unwrap()).unwrap();
        assert_eq!((picks.positions().as_slice(), picks.forced), (want, forced), "{sampler}");
    }

    #[test]
    fn uneven_confidences_leave_room() {
        // u = 1/16, 1/16, 1/8, 3/8. Σu = .0625, .125, .25, .625; with max u .125, .1875, .375, 1. The factor rule as published has
        // (n + 1) max u = .125, .1875, .5, 1.875.
        let step = Snapshot::new(&[0.9375, 0.9375, 0.875, 0.625]);
        check("fast-profile:0.5", &step, &[0, 1, 2], false);
        check("fast-published:0.5", &step, &[0, 1], false); // .5 is not < .5
        check("fast-profile:1.0625", &step, &[0, 1, 2, 3], false);
        check("fast-published:1.0625", &step, &[0, 1, 2], false);
        // Without the competitor, beside `fast`: n max u = .0625, .125, .375, 1.5.
        check("fast-sum:0.375", &step, &[0, 1, 2], false);
        check("fast:0.375", &step, &[0, 1], false);
        check("fast-sum:0.6875", &step, &[0, 1, 2, 3], false);
        check("fast:0.6875", &step, &[0, 1, 2], false);
    }

    #[test]
    fn the_bound_itself_is_too_much_and_the_first_is_free() {
        // u = 1/4, 1/4: Σu + max u = .5, then .75. The paper's δ = .25 is f = .75, and G > δ is strict.
        let step = Snapshot::new(&[0.75, 0.75]);
        check("fast-profile", &step, &[0], false);
        check("fast-profile:0.8", &step, &[0, 1], false);
        // Nobody is sure: the first goes all the same, and by the published rule nothing is forced.
        check("fast-profile:0", &step, &[0], false);
        check("fast-sum:0.25", &step, &[0], true);
        check("fast-sum:0.5", &step, &[0], false);
    }

    #[test]
    fn equal_confidences_are_the_factor_rule() {
        // u = 1/8 each: (n + 1)/8 < 1 up to n = 6, n/8 < 1 up to n = 7.
        let step = Snapshot::new(&[0.875; 9]);
        check("fast-profile:1", &step, &[0, 1, 2, 3, 4, 5], false);
        check("fast-published:1", &step, &[0, 1, 2, 3, 4, 5], false);
        check("fast-sum:1", &step, &[0, 1, 2, 3, 4, 5, 6], false);
        check("fast:1", &step, &[0, 1, 2, 3, 4, 5, 6], false);
    }

    #[test]
    fn the_sum_is_over_raw_confidences_in_a_discounted_order() {
        // 1 attends to 0: .75 − 8·.5·.125 = .25, so 2 (.5) goes before it. Σu = .125, .625, .875; with max u .25, 1.125, 1.375.
        let attention = Attention::from_fn(3, |q, k| if (q, k) == (1, 0) { 0.5 } else { 0.0 });
        let step = Snapshot::new(&[0.875, 0.75, 0.5]).attention(attention);
        check("fast-profile:1.25+ad:8", &step, &[0, 2], false);
        check("fast-profile:1.25", &step, &[0, 1], false); // .25, .625, 1.375
        check("fast-sum:0.875+ad:8", &step, &[0, 2], false);
        check("fast-sum:0.9+ad:8", &step, &[0, 2, 1], false);
    }
}
