//! P2, path planning: each step decides anew which positions stay masked, so a commit can be taken back.
//!
//! At step i of T, κ = i/T of the free positions are to be unmasked. Every free position is scored by the log-probability of
//! what would be written there now; scores of already unmasked ones are multiplied by η (scores are ≤ 0, so η > 1 makes them
//! easier to take back, and η = 0 protects them). The lowest ⌊N (1 − κ)⌋ are masked, ties to the advantage of unmasking; masked
//! positions that escape get their token, unmasked ones keep theirs.

use crate::spec::{Entry, Param, Values};
use crate::{Job, Needs, Pick, Policy, RemaskingSampler, Result, Revision, Scope, Slot, StepView, Verdict};

/// P2's budget and temper.
pub(crate) struct P2 {
    steps: usize,
    eta: f64,
    score: Score,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Score {
    LogConfidence,
    Random,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let score = if v.flag(0) == "random" { Score::Random } else { Score::LogConfidence };
        Ok(Policy::Remasks(Box::new(P2 { steps: v.count(0), eta: v.option(0), score })))
    };
    Entry::new("p2", "replans every step; may remask", build)
        .params([Param::count("STEPS", 1, 65_536)])
        .flags(["confidence", "random"])
        .options([Param::number("eta", 0.0, f64::INFINITY).default(1.0)])
        .source("Peng et al. 2025 (P2)")
}

/// ⌊N (1 − κ)⌋ with κ = i/T, in integers: in f64, 10·(1 − 9/10) rounds down to 0.
fn n_mask(free: usize, i: usize, steps: usize) -> usize {
    (free as u128 * steps.saturating_sub(i) as u128 / steps as u128) as usize
}

/// Which of the scored positions are to be masked: those strictly below the `n_mask`-th smallest score, counted from 0.
fn lowest(scores: &[f64], n_mask: usize) -> Vec<bool> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.get(n_mask) {
        Some(&cutoff) => scores.iter().map(|&s| s < cutoff).collect(),
        None => vec![true; scores.len()],
    }
}

impl P2 {
    fn log_score(&self, view: &StepView<'_>, row: usize) -> f64 {
        // ln of 0 must stay a number: η = 0 times −∞ would be NaN.
        let ln = |p: f64| p.max(f64::MIN_POSITIVE).ln();
        match self.score {
            Score::LogConfidence => ln(view.wide.stats[row].confidence),
            Score::Random => ln(view.noise_at(view.wide.positions[row])),
        }
    }
}

impl RemaskingSampler for P2 {
    fn needs(&self) -> Needs {
        Needs::default().scope(Scope::Free).history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        job.refuse_blocks("p2")?;
        Ok(self.steps)
    }

    fn revise(&mut self, view: &StepView<'_>, revision: &mut Revision) -> Result<Verdict> {
        let positions = view.wide.positions;
        let n_mask = n_mask(positions.len(), view.step + 1, self.steps);
        let was_masked = |row: usize| view.is_masked(positions[row]);
        let scores: Vec<f64> = (0..positions.len())
            .map(|row| self.log_score(view, row) * if was_masked(row) { 1.0 } else { self.eta })
            .collect();
        let masked = lowest(&scores, n_mask);
        for (row, &position) in positions.iter().enumerate() {
            match (was_masked(row), masked[row]) {
                (true, false) => {
                    let slot = view.candidates.positions.binary_search(&position).expect("without blocks all are");
                    revision.picks.add(Pick::of(view, Slot(slot), scores[row]));
                }
                (false, true) => revision.remask.push(position),
                _ => {}
            }
        }
        if revision.picks.is_empty() && revision.remask.is_empty() { Ok(Verdict::Wait) } else { Ok(Verdict::Commit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, decode_toy};

    #[test]
    fn t19_who_is_masked() {
        // Free 0..5, of which 3 and 4 are unmasked; κ = .6, so ⌊5·.4⌋ = 2 are to be masked.
        let score = [-0.1, -0.2, -1.0, -2.0, -0.05];
        let masked = |eta: f64| {
            let mut s = score;
            s[3] *= eta;
            s[4] *= eta;
            let masked = lowest(&s, 2);
            (0..5).filter(|&i| masked[i]).collect::<Vec<_>>()
        };
        assert_eq!(masked(1.0), [2, 3], "3 is masked again");
        assert_eq!(masked(0.0), [1, 2]);
        assert_eq!(masked(2.0), [2, 3]);
    }

    #[test]
    fn kappa_is_exact() {
        let planned: Vec<usize> = (1..=10).map(|i| n_mask(10, i, 10)).collect();
        assert_eq!(planned, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!([n_mask(5, 3, 5), n_mask(7, 1, 3), n_mask(7, 2, 3)], [2, 4, 2]); // ⌊7·2/3⌋, ⌊7/3⌋
        let steps = decode_toy(Toy::phrases(10), "p2:10@eta=0", None);
        assert!(steps.len() == 10 && steps.iter().all(|step| step.commits.len() == 1));
    }

    #[test]
    fn ties_and_ends() {
        assert_eq!(lowest(&[-1.0, -1.0, -2.0], 2), [false, false, true], "a tie at the cutoff masks fewer");
        assert_eq!(lowest(&[-1.0, -2.0], 0), [false, false], "κ = 1 unmasks all");
        assert_eq!(lowest(&[-1.0, -2.0], 2), [true, true]);
    }

    #[test]
    fn a_decode_takes_its_steps_and_leaves_no_mask() {
        for sampler in ["p2:6", "p2:6@eta=3", "p2:6@random@eta=2", "p2:1", "p2:40"] {
            let steps = decode_toy(Toy::phrases(16), sampler, None);
            let (mut committed, mut remasked) = (0, 0);
            for step in &steps {
                committed += step.commits.len();
                remasked += step.remasked.len();
            }
            assert_eq!(committed - remasked, 16, "{sampler}");
        }
        let remasked: usize =
            decode_toy(Toy::phrases(16), "p2:8@random@eta=2", None).iter().map(|s| s.remasked.len()).sum();
        assert!(remasked > 0, "a random score takes some back");
    }
}
