//! PUNT: drop candidates whose distribution moves when others are revealed, found with ⌈log2 |M|⌉ extra forwards.
//!
//! Candidates are ranked by confidence. For each bit of the rank, from the highest: reveal those that are left and have the
//! bit unset (anchors), and drop every other one with KL(p before ‖ p after) > ε. Any two ranks differ in some bit, so every pair
//! is tested once. Rank 0 is always an anchor, so the set is never empty. Each test is one more forward.

use crate::divergence::kl;
use crate::spec::{Entry, Param, Values};
use crate::{Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, TokenId, Verdict};

/// PUNT's tolerance and the state of its tests.
pub(crate) struct Punt {
    epsilon: f64,
    test: Option<Test>,
}

/// The tests of one step.
struct Test {
    left: Vec<Ranked>,     // still in, by rank
    before: Vec<Vec<f32>>, // [slot][vocab]
    bit: u32,              // under test now
}

#[derive(Debug, Clone, Copy)]
struct Ranked {
    rank: usize,
    pick: Pick, // as the step's first pass proposed it
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| Ok(Policy::Commits(Box::new(Punt { epsilon: v.param(0), test: None })));
    Entry::new("punt", "keeps what revealing others does not move", build)
        .params([Param::number("EPSILON", 0.0, f64::INFINITY).default(0.1)])
        .source("Azangulov et al. 2025 (PUNT)")
}

/// How many bits ranks below `n` have: the extra forwards a step takes.
fn bits(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

fn is_anchor(rank: usize, bit: u32) -> bool {
    rank >> bit & 1 == 0
}

impl Test {
    fn start(view: &StepView<'_>) -> Test {
        let mut slots: Vec<Slot> = view.slots().collect();
        slots.sort_by(|&a, &b| view.confidence(b).total_cmp(&view.confidence(a))); // stable: ties by position
        let ranked = |(rank, slot)| Ranked { rank, pick: Pick::of(view, slot, view.confidence(slot)) };
        Test {
            left: slots.into_iter().enumerate().map(ranked).collect(),
            before: view.slots().map(|slot| view.distribution(slot).to_vec()).collect(),
            bit: bits(view.len()),
        }
    }

    /// Drops the candidates that moved by more than ε under the current bit's anchors.
    fn judge(&mut self, view: &StepView<'_>, epsilon: f64) {
        let (before, bit) = (&self.before, self.bit);
        let moved = |r: &Ranked| kl(&before[r.pick.slot.0], view.distribution(r.pick.slot)) > epsilon;
        self.left.retain(|r| is_anchor(r.rank, bit) || !moved(r));
    }

    /// The next canvas to look at, if any is left. A bit under which no candidate is tested costs no forward.
    fn next(&mut self) -> Option<Vec<(Slot, TokenId)>> {
        while self.bit > 0 {
            self.bit -= 1;
            let (anchors, tested): (Vec<&Ranked>, Vec<&Ranked>) =
                self.left.iter().partition(|r| is_anchor(r.rank, self.bit));
            if !tested.is_empty() {
                return Some(anchors.iter().map(|r| (r.pick.slot, r.pick.token)).collect());
            }
        }
        None
    }
}

impl Sampler for Punt {
    fn needs(&self) -> Needs {
        Needs::default().distributions().reveals()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.test = None;
        Ok(job.masks * (1 + bits(job.masks) as usize))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let mut test = match self.test.take() {
            None => Test::start(view),
            Some(mut test) => {
                test.judge(view, self.epsilon);
                test
            }
        };
        if let Some(reveal) = test.next() {
            self.test = Some(test);
            return Ok(Verdict::Reveal(reveal));
        }
        test.left.iter().for_each(|r| picks.add(r.pick));
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Canvas, Decode, Denoiser, Distributions, Prediction, Query, Result, RowStats, SamplerSpec, TokenId};

    /// Surest first from left to right; position j's distribution changes once one of its anchors is revealed.
    struct Anchored {
        moved_by: Vec<(usize, usize)>, // (j, anchor)
    }

    const MASK: TokenId = 9;

    impl Denoiser for Anchored {
        fn mask_id(&self) -> TokenId {
            MASK
        }
        fn vocab(&self) -> usize {
            2
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
            let answer = |query: &Query<'_>| {
                let moved = |j| self.moved_by.iter().any(|&(k, anchor)| k == j && query.tokens[anchor] != MASK);
                // A moved position also proposes another token, which must not be what is committed.
                let p = |&j: &usize| if moved(j) { [0.2, 0.8] } else { [0.8, 0.2] };
                let row = |&j: &usize| RowStats {
                    token: TokenId::from(moved(j)),
                    confidence: 0.8 - 0.01 * j as f64,
                    uncertainty: 0.2 + 0.01 * j as f64,
                    margin: 0.6,
                    entropy: 0.5,
                };
                let distributions = Distributions::new(2, query.rows.iter().flat_map(p).collect())?;
                Ok(Prediction::new(query.rows.iter().map(row).collect()).distributions(distributions))
            };
            batch.iter().map(answer).collect()
        }
    }

    /// What the first step commits, and how many forwards it took.
    fn first_step(n: usize, moved_by: &[(usize, usize)]) -> (Vec<usize>, usize) {
        let mut model = Anchored { moved_by: moved_by.to_vec() };
        let policy = "punt:0.1".parse::<SamplerSpec>().unwrap().build().unwrap();
        let mut decode = Decode::new(Canvas::prompt(&[], n, MASK), policy).unwrap();
        loop {
            let predictions = model.denoise(&[decode.query().unwrap()]).unwrap();
            if let Some(step) = decode.absorb(&predictions[0]).unwrap() {
                assert!(step.commits.iter().all(|commit| commit.token == 0), "the base pass decides what is written");
                return (step.commits.iter().map(|commit| commit.position).collect(), step.forwards);
            }
        }
    }

    #[test]
    fn t17_who_is_kept() {
        // ⌈log2 4⌉ = 2 and ⌈log2 5⌉ = 3 tests, and the base forward.
        assert_eq!(first_step(4, &[(3, 0)]), (vec![0, 1, 2], 3));
        assert_eq!(first_step(4, &[(1, 0), (3, 2)]), (vec![0, 2], 3));
        // 4 is dropped by 3, which is itself dropped later.
        assert_eq!(first_step(5, &[(4, 3), (3, 0)]), (vec![0, 1, 2], 4));
        assert_eq!(first_step(4, &[]), (vec![0, 1, 2, 3], 3));
        assert_eq!(first_step(1, &[]), (vec![0], 1), "one candidate needs no test");
    }
}
