//! Dream's `alg=origin`: every masked position is committed by the toss of a coin, with the schedule's share as its odds.

use crate::quota::{dream_transfer, steps_per_block};
use crate::{Job, Needs, Picks, Result, Sampler, StepView, Verdict};

/// Random commits in `steps` forwards; the last takes all that is left.
pub(crate) struct Origin {
    steps: usize,
    eps: f64,
    per_block: usize,
}

impl Origin {
    /// `eps` is the last timestep of Dream's schedule.
    pub(crate) fn new(steps: usize, eps: f64) -> Origin {
        Origin { steps, eps, per_block: steps }
    }
}

impl Sampler for Origin {
    fn needs(&self) -> Needs {
        Needs::default().history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.per_block = steps_per_block(self.steps, job)?;
        Ok(self.steps)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let odds = dream_transfer(view.block.step, self.per_block, self.eps);
        for slot in view.slots().filter(|&slot| view.noise(slot) < odds) {
            picks.push(view, slot, view.confidence(slot));
        }
        if picks.is_empty() { Ok(Verdict::Wait) } else { Ok(Verdict::Commit) }
    }
}

#[cfg(test)]
mod tests {
    use crate::toy::{Toy, decode_toy};

    #[test]
    fn commits_follow_the_schedule_on_average_and_the_seed_exactly() {
        let counts = || -> Vec<usize> {
            decode_toy(Toy::phrases(400), "dream:4@origin", None).iter().map(|s| s.commits.len()).collect()
        };
        assert_eq!(counts(), counts());
        assert_eq!(counts().iter().sum::<usize>(), 400);
        // Each step takes about a quarter of the whole; four standard deviations are 35.
        assert!(counts().iter().all(|&n| n.abs_diff(100) < 35), "{:?}", counts());
    }
}
