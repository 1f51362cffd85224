//! When to stop adding candidates: Adm of Algorithm 1.
//!
//! A rule looks at the enlarged set S ∪ {i*} through a [`Tally`] of raw confidences and entropies; discounted utilities never
//! reach it. The tally is kept incrementally, so every check is O(1). Fast-dLLM's factor rules are in `fast_dllm.rs`, those on the whole
//! profile of confidences in `profile.rs`, the fixed step budgets of LLaDA and Dream in `quota.rs`.

use crate::{Job, Needs, Result, RowStats, StepView};

/// Decides whether an enlarged set may be committed. The first refusal ends a step.
///
/// ```
/// use cofill::{Greedy, Policy, Snapshot, StoppingRule, ranking::Confidence, rule::Tally};
///
/// /// At most half of what is left.
/// struct Half;
///
/// impl StoppingRule for Half {
///     fn admits(&self, set: &Tally) -> bool {
///         2 * set.n <= set.of
///     }
/// }
///
/// let greedy = Greedy::new(Box::new(Confidence), Box::new(Half))?;
/// let picks = Snapshot::new(&[0.2, 0.9, 0.5, 0.1]).ask(&mut Policy::Commits(Box::new(greedy)))?;
/// assert_eq!(picks.positions(), [1, 2]);
/// # Ok::<(), cofill::Error>(())
/// ```
pub trait StoppingRule: Send {
    /// What it must be shown.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Looks at the job before the first step; see [`Sampler::begin`](crate::Sampler::begin).
    fn begin(&mut self, job: &Job) -> Result<usize> {
        Ok(job.masks)
    }

    /// Opens a step. `false` means that this step commits nothing; only fixed budgets say so.
    fn open(&mut self, _view: &StepView<'_>) -> bool {
        true
    }

    /// Adm(S ∪ {i*}): whether the enlarged set may be committed.
    fn admits(&self, set: &Tally) -> bool;

    /// Whether nobody at all may join this set, so that nobody needs to be looked for.
    fn is_full(&self, _set: &Tally) -> bool {
        false
    }

    /// Whether this step must commit all that the rule admits, so that no veto may end it: the last step of a fixed budget.
    fn is_last(&self) -> bool {
        false
    }
}

/// A set of candidates, summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tally {
    /// |S|: the number of candidates in the set.
    pub n: usize,
    /// |M|: how many candidates there are in all.
    pub of: usize,
    /// min c: the least confidence in the set.
    pub min_confidence: f64,
    /// 1 − min c, without cancellation.
    pub max_uncertainty: f64,
    /// Σ (1 − c) over the set.
    pub sum_uncertainty: f64,
    /// Σ H over the set, in nats.
    pub sum_entropy: f64,
    /// max H over the set, in nats.
    pub max_entropy: f64,
}

impl Tally {
    /// The empty set, of `of` candidates.
    pub fn empty(of: usize) -> Tally {
        let (min_confidence, max_uncertainty) = (f64::INFINITY, f64::NEG_INFINITY);
        Tally { n: 0, of, min_confidence, max_uncertainty, sum_uncertainty: 0.0, sum_entropy: 0.0, max_entropy: 0.0 }
    }

    /// S ∪ {row}: the set with one more candidate.
    pub fn with(&self, row: &RowStats) -> Tally {
        Tally {
            n: self.n + 1,
            of: self.of,
            min_confidence: self.min_confidence.min(row.confidence),
            max_uncertainty: self.max_uncertainty.max(row.uncertainty),
            sum_uncertainty: self.sum_uncertainty + row.uncertainty,
            sum_entropy: self.sum_entropy + row.entropy,
            max_entropy: self.max_entropy.max(row.entropy),
        }
    }
}

/// Top-k: `|S| ≤ k`.
#[derive(Debug, Clone, Copy)]
pub struct TopK {
    /// The most candidates a step commits.
    pub k: usize,
}

impl StoppingRule for TopK {
    fn admits(&self, set: &Tally) -> bool {
        set.n <= self.k
    }

    fn is_full(&self, set: &Tally) -> bool {
        set.n >= self.k
    }
}

/// Fast-dLLM's confidence threshold: `min c ≥ τ`.
#[derive(Debug, Clone, Copy)]
pub struct Threshold {
    /// τ: the least confidence that is committed.
    pub tau: f64,
}

impl StoppingRule for Threshold {
    fn admits(&self, set: &Tally) -> bool {
        set.min_confidence >= self.tau
    }
}

/// EB-Sampler: `Σ H − max H < γ`. The most uncertain member is free, so one token always costs 0.
#[derive(Debug, Clone, Copy)]
pub struct EntropyBound {
    /// γ, in nats: the most entropy the set may have beside its largest.
    pub gamma: f64,
    /// What happens at equality.
    pub bound: Bound,
}

/// Whether a bound may be met exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// `<`, as the ADAS paper prints it.
    Strict,
    /// `≤`, as the EB paper and its code have it.
    Inclusive,
}

impl StoppingRule for EntropyBound {
    fn needs(&self) -> Needs {
        Needs::default().entropy()
    }

    fn admits(&self, set: &Tally) -> bool {
        let dependence = set.sum_entropy - set.max_entropy;
        match self.bound {
            Bound::Strict => dependence < self.gamma,
            Bound::Inclusive => dependence <= self.gamma,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{SamplerSpec, Snapshot};

    #[track_caller]
    fn check(sampler: &str, step: &Snapshot, want: &[usize], forced: bool) {
        let spec: SamplerSpec = sampler.parse().unwrap();
        let picks = step.select(&spec).unwrap();
        assert_eq!((picks.positions().as_slice(), picks.forced), (want, forced), "{sampler}");
    }

    #[test]
    fn t6_eb_strictness() {
        // Σ−max along 0, 1, 2, 3: 0, .25, .5, 1 (dyadic, so exact).
        let step = Snapshot::new(&[0.9, 0.8, 0.7, 0.6]).entropy(&[0.25, 0.25, 0.5, 1.0]);
        check("eb-original:0", &step, &[0], false);
        check("eb:0", &step, &[0], true);
        check("eb-original:0.25", &step, &[0, 1], false);
        check("eb:0.25", &step, &[0], false);
        check("eb-original:0.5", &step, &[0, 1, 2], false);
        check("eb:0.5", &step, &[0, 1], false);
        check("eb-original:1", &step, &[0, 1, 2, 3], false);
        check("eb:1", &step, &[0, 1, 2], false);
    }

    #[test]
    fn t7_the_largest_entropy_is_free() {
        // {0, 1} costs 1/1024 whatever the entropy of 1.
        let step = Snapshot::new(&[0.999, 0.2, 0.19]).entropy(&[1.0 / 1024.0, 3.0, 3.0]);
        check("eb:0.001", &step, &[0, 1], false);
        check("eb:0.0009765625", &step, &[0], false);
        check("eb-original:0.0009765625", &step, &[0, 1], false);
    }

    #[test]
    fn t8_eb_by_confidence_or_entropy() {
        let step = Snapshot::new(&[0.70, 0.65, 0.60]).entropy(&[1.2, 0.7, 0.9]);
        check("eb-original:1", &step, &[0, 1], false); // .7, then 1.6
        check("eb-original:1@entropy", &step, &[1, 2], false); // .7, then 1.6
    }

    #[test]
    fn t25_threshold_boundary() {
        check("threshold:0.875", &Snapshot::new(&[0.5, 0.875, 0.75]), &[1], false);
        check("threshold:0.875", &Snapshot::new(&[0.9375, 0.875, 0.5]), &[0, 1], false);
        check("threshold:0.875", &Snapshot::new(&[0.5, 0.75]), &[1], true);
        check("threshold:0.875", &Snapshot::new(&[0.75, 0.75]), &[0], true);
    }

    #[test]
    fn whoever_is_admitted_goes_before_anybody_is_forced() {
        let step =
            |c: &[f64], m: &[f64]| Snapshot::new(c).margin(m).entropy(&m.iter().map(|m| 1.0 - m).collect::<Vec<_>>());
        // By margin 1 leads, but .5 < .9, and 0 is sure enough.
        check("threshold:0.9@margin", &step(&[0.95, 0.5], &[0.1, 0.2]), &[0], false);
        check("threshold:0.9@entropy", &step(&[0.95, 0.5], &[0.1, 0.2]), &[0], false);
        check("fast:0.3@margin", &step(&[0.95, 0.5], &[0.1, 0.2]), &[0], false); // 1 · .05 < .3, 1 · .5 is not
        // Who sits the step out does not end it: 2 follows. Who is refused later does: 2 is not tried after 1.
        check("threshold:0.9@margin", &step(&[0.95, 0.5, 0.97], &[0.2, 0.3, 0.1]), &[0, 2], false);
        check("threshold:0.9@margin", &step(&[0.95, 0.5, 0.97], &[0.3, 0.2, 0.1]), &[0], false);
        // Nobody is sure enough: the first by margin is forced, as ever. γ = 0 admits nobody, whatever the order.
        check("threshold:0.9@margin", &step(&[0.6, 0.5], &[0.1, 0.2]), &[1], true);
        check("eb:0@margin", &step(&[0.95, 0.5], &[0.1, 0.2]), &[1], true);
        // Published rules whose first rank is free keep it: by their own words they admit anybody alone.
        check("fast-dllm:0.3@margin", &step(&[0.95, 0.5], &[0.1, 0.2]), &[1], false);
    }

    #[test]
    fn t27_eb_takes_certain_tokens_for_nothing() {
        // Order 0, 1, 2, 4, 3 with Σ−max 0, 0, 0, 0, .5.
        let step = Snapshot::new(&[1.0, 1.0, 1.0, 0.2, 0.8]).entropy(&[0.0, 0.0, 0.0, 2.0, 0.5]);
        check("eb:0.25", &step, &[0, 1, 2, 4], false);
    }

    #[test]
    fn t23_a_single_candidate_is_always_taken() {
        let step = Snapshot::new(&[0.01]).entropy(&[5.0]);
        for sampler in ["topk:1", "eb:10", "fast:1", "threshold:0.005"] {
            check(sampler, &step, &[0], false);
        }
        for sampler in ["eb:0", "fast:0.3", "threshold:0.9"] {
            check(sampler, &step, &[0], true);
        }
    }
}
