//! Fixed step budgets: how many tokens each step commits is settled before the first forward.
//!
//! These are the official decoders' schedules, as stopping rules, so that they can be reproduced step by step and
//! combined with any ranking.

use crate::rule::{StoppingRule, Tally};
use crate::{Error, Job, Needs, Result, StepView};

/// LLaDA: m masks over s steps, m/s each, the first m mod s one more.
pub fn llada_counts(masks: usize, steps: usize) -> Vec<usize> {
    (0..steps).map(|i| masks / steps + usize::from(i < masks % steps)).collect()
}

/// Dream: with t going linearly from 1 to `eps`, step i commits ⌊m (1 − t_{i+1}/t_i)⌋ of the m that are left, the last step all.
/// The first step of a long schedule commits nothing.
pub fn dream_counts(masks: usize, steps: usize, eps: f64) -> Vec<usize> {
    let mut left = masks;
    let take = |i| {
        let count = dream_count(left, i, steps, eps);
        left -= count;
        count
    };
    (0..steps).map(take).collect()
}

fn dream_count(left: usize, step: usize, steps: usize, eps: f64) -> usize {
    if step + 1 >= steps {
        return left;
    }
    (left as f64 * dream_transfer(step, steps, eps)) as usize
}

/// 1 − t_{i+1}/t_i: the share of the remaining masks that step i of Dream's schedule commits.
pub(crate) fn dream_transfer(step: usize, steps: usize, eps: f64) -> f64 {
    let t = |i: usize| 1.0 + (eps - 1.0) * i as f64 / steps as f64;
    if step + 1 >= steps { 1.0 } else { 1.0 - t(step + 1) / t(step) }
}

/// Blocks share a budget equally.
pub(crate) fn steps_per_block(steps: usize, job: &Job) -> Result<usize> {
    let blocks = job.blocks.max(1);
    match steps.is_multiple_of(blocks) {
        true => Ok(steps / blocks),
        false => Err(Error::StepsPerBlock { steps, blocks }),
    }
}

/// A budget of forwards, spread over the job by an official schedule.
#[derive(Debug, Clone)]
pub struct Quota {
    steps: usize,
    schedule: QuotaSchedule,
    per_block: usize,
    masks_in_block: usize,
    k: usize,
    last: bool,
}

/// How a budget is spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QuotaSchedule {
    /// LLaDA's, see [`llada_counts`].
    Llada,
    /// Dream's, see [`dream_counts`].
    Dream {
        /// The last timestep; 1e-3 in the official code.
        eps: f64,
    },
}

impl Quota {
    /// `steps` forwards in all.
    pub fn new(steps: usize, schedule: QuotaSchedule) -> Quota {
        Quota { steps, schedule, per_block: steps, masks_in_block: 0, k: 0, last: false }
    }
}

impl StoppingRule for Quota {
    fn needs(&self) -> Needs {
        Needs::default().history() // a step's count depends on how many were before it
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.per_block = steps_per_block(self.steps, job)?;
        Ok(self.steps)
    }

    fn open(&mut self, view: &StepView<'_>) -> bool {
        let step = view.block.step;
        if step == 0 {
            self.masks_in_block = view.len();
        }
        self.last = step + 1 >= self.per_block;
        self.k = match self.schedule {
            // What should be committed after this step, less what is: a veto's leavings are made up for.
            QuotaSchedule::Llada => {
                let (m, s) = (self.masks_in_block, self.per_block);
                let due = (step + 1) * (m / s) + (step + 1).min(m % s);
                due.saturating_sub(m - view.len())
            }
            QuotaSchedule::Dream { eps } => dream_count(view.len(), step, self.per_block, eps),
        };
        self.k > 0
    }

    fn admits(&self, set: &Tally) -> bool {
        set.n <= self.k
    }

    fn is_full(&self, set: &Tally) -> bool {
        set.n >= self.k
    }

    fn is_last(&self) -> bool {
        self.last
    }
}

/// Fast-dLLM's threshold for Dream without blocks: each step looks at no more than its quota, commits the first and those
/// of confidence ≥ τ, and hands what it refused on to the next step; steps are added at the end until all is done.
#[derive(Debug, Clone)]
pub struct CarriedThreshold {
    tau: f64,
    steps: usize,
    quota: usize,
    k: usize,
    left_before: usize,
}

impl CarriedThreshold {
    /// τ, and the steps the quota is made from.
    pub fn new(tau: f64, steps: usize) -> CarriedThreshold {
        CarriedThreshold { tau, steps, quota: 0, k: 0, left_before: 0 }
    }
}

impl StoppingRule for CarriedThreshold {
    fn needs(&self) -> Needs {
        Needs::default().history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        job.refuse_blocks("threshold-dream")?;
        self.quota = job.masks / self.steps;
        self.k = 0;
        self.left_before = job.masks;
        Ok(job.masks)
    }

    fn open(&mut self, view: &StepView<'_>) -> bool {
        let committed = self.left_before - view.len();
        let carried = self.k.saturating_sub(committed);
        let quota = if view.step < self.steps { self.quota } else { 0 };
        // The reference would end with masks left when the steps do not divide the masks; one more a step ends it.
        self.k = (quota + carried).max(1);
        self.left_before = view.len();
        true
    }

    fn admits(&self, set: &Tally) -> bool {
        set.n <= self.k && (set.n == 1 || set.min_confidence >= self.tau)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, decode_toy};

    #[test]
    fn t21_schedules() {
        assert_eq!(llada_counts(10, 4), [3, 3, 2, 2]);
        assert_eq!(llada_counts(3, 5), [1, 1, 1, 0, 0]);
        assert_eq!(dream_counts(8, 8, 1e-3), [0, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(dream_counts(16, 4, 1e-3), [3, 4, 4, 5]);
        assert_eq!(dream_counts(10, 4, 1e-3), [2, 2, 2, 4]);
        let long = dream_counts(256, 256, 1e-3);
        assert_eq!((long[0], long[255], long[1..255].iter().all(|&k| k == 1)), (0, 2, true));
        let short = dream_counts(512, 64, 1e-3);
        assert_eq!((short[0], short[63], short[1..63].iter().all(|&k| k == 8)), (7, 9, true));
    }

    /// How many each step of a decode commits.
    fn counts(sampler: &str, length: usize, block: Option<usize>) -> Vec<usize> {
        decode_toy(Toy::phrases(length), sampler, block).iter().map(|step| step.commits.len()).collect()
    }

    #[test]
    fn a_decode_follows_its_schedule() {
        assert_eq!(counts("llada:4", 10, None), [3, 3, 2, 2]);
        assert_eq!(counts("dream:4", 10, None), [2, 2, 2, 4]);
        assert_eq!(counts("dream:8@topk_margin", 8, None), [0, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(counts("llada:4+ad", 10, None), [3, 3, 2, 2], "any ranking, same counts");
        // Two blocks of 8 share six steps: 3 each.
        assert_eq!(counts("llada:6", 16, Some(8)), [3, 3, 2, 3, 3, 2]);
        // The official script goes on for two forwards that change nothing; we stop.
        assert_eq!(counts("llada:5", 3, None), [1, 1, 1]);
    }

    #[test]
    fn steps_must_divide_over_blocks() {
        let canvas = crate::Canvas::prompt(&[], 16, 0);
        let policy = "llada:5".parse::<crate::SamplerSpec>().unwrap().build().unwrap();
        let refused = crate::Decode::builder(canvas, policy).schedule(crate::Schedule::Blocks { len: 8 }).begin();
        assert!(matches!(refused, Err(Error::StepsPerBlock { steps: 5, blocks: 2 })));
    }

    #[test]
    fn refused_tokens_are_carried_to_the_next_step() {
        // Nothing passes τ = 1, so each step commits one of its (growing) quota, and steps are added: one per mask.
        assert_eq!(counts("threshold-dream:1,4", 8, None), [1; 8]);
        // Everything passes τ = 0: the quota is the schedule.
        assert_eq!(counts("threshold-dream:0,4", 8, None), [2; 4]);
        assert_eq!(counts("threshold-dream:0,4", 10, None), [2, 2, 2, 2, 1, 1]);
    }
}
