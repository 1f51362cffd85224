//! Fast-dLLM's factor rule, which exists in four forms that commit different numbers of tokens for the same f.
//!
//! Along confidences sorted in descending order, min c is the confidence of the last one, so the published rules on ranks are
//! rules on sets; that is what lets `+ad` go with each of them.

use crate::rule::{StoppingRule, Tally};

/// `f` bounds how much uncertainty a set of n may carry.
#[derive(Debug, Clone, Copy)]
pub struct FastDllm {
    /// f: larger commits more at once.
    pub factor: f64,
    /// Which of the four published inequalities.
    pub form: FactorForm,
}

/// The forms of the factor rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorForm {
    /// The ADAS paper: `n (1 − min c) < f`. For f ≥ 1 it admits ⌊f⌋ tokens whatever their confidence.
    Adas,
    /// As published with Fast-dLLM: `(n + 1)(1 − min c) < f`.
    Published,
    /// dllm's re-implementation: `c ≥ 1 − f/(n + 1)`, the first token free.
    Dllm,
    /// The published code (NVlabs, dInfer, DAWN): as `Dllm`, and its loop cannot tell "failed at the last rank" from "never
    /// failed", so the last candidate always goes along; two candidates always both go.
    Upstream,
}

impl StoppingRule for FastDllm {
    fn admits(&self, set: &Tally) -> bool {
        let (n, f) = (set.n as f64, self.factor);
        match self.form {
            FactorForm::Adas => n * set.max_uncertainty < f,
            FactorForm::Published => (n + 1.0) * set.max_uncertainty < f,
            // Compared as the published code compares: the threshold is rounded, not the product.
            FactorForm::Dllm => set.n == 1 || set.min_confidence >= 1.0 - f / (n + 1.0),
            FactorForm::Upstream => set.n == 1 || set.n == set.of || set.min_confidence >= 1.0 - f / (n + 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{SamplerSpec, Snapshot};

    /// How many each form keeps: upstream / published / dllm / ADAS; 0 stands for "none admissible, one forced".
    #[track_caller]
    fn check(c: &[f64], f: f64, kept: [usize; 4]) {
        for (form, kept) in ["fast-upstream", "fast-published", "fast-dllm", "fast"].iter().zip(kept) {
            let spec: SamplerSpec = format!("{form}:{f}").parse().unwrap();
            let picks = Snapshot::new(c).select(&spec).unwrap();
            let got = if picks.forced { 0 } else { picks.len() };
            assert_eq!(got, kept, "{form}:{f} on {c:?}");
        }
    }

    #[test]
    fn t13_the_four_forms() {
        let c = [0.99, 0.95, 0.80, 0.60, 0.40];
        check(&c, 1.0, [3, 3, 3, 3]);
        check(&c, 0.3, [2, 2, 2, 2]);
        check(&c, 2.0, [5, 3, 4, 4]);
        check(&[0.95, 0.10], 1.0, [2, 1, 1, 1]);
        check(&[0.5, 0.4, 0.3, 0.2], 0.3, [1, 0, 1, 0]);
        check(&[0.6, 0.55, 0.5, 0.45, 0.4], 3.0, [5, 4, 4, 4]);
    }

    #[test]
    fn t9_none_admissible_forces_the_best() {
        let picks = Snapshot::new(&[0.6, 0.5]).select(&"fast:0.3".parse().unwrap()).unwrap();
        assert_eq!((picks.positions(), picks.forced), (vec![0], true));
    }

    #[test]
    fn t10_floor_f_tokens_are_free() {
        let kept = |f: &str| Snapshot::new(&[0.01; 6]).select(&f.parse().unwrap()).unwrap().len();
        assert_eq!((kept("fast:3"), kept("fast:3.5")), (3, 3));
    }

    #[test]
    fn t26_strictness() {
        let kept = |f: &str| Snapshot::new(&[0.75, 0.5, 0.0]).select(&f.parse().unwrap()).unwrap().len();
        // Dyadic: 2·.5 = 1 is not < 1; 3·.5 = 1.5 is ≤ 1.5 but not < 1.5. (A third candidate keeps the quirk away.)
        assert_eq!((kept("fast:1"), kept("fast:1.5")), (1, 2));
        assert_eq!((kept("fast-dllm:1.5"), kept("fast-published:1.5")), (2, 1));
    }
}
