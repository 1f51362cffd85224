//! An oracle: who can be committed together, found out by trying.
//!
//! Candidates are ranked by confidence, and the surest is chosen. Then, again and again: one more forward with all chosen ones
//! revealed, and of those not chosen the surest that is *unmoved* joins them. Unmoved means that it still proposes the same token and
//! that KL(p before ‖ p now) ≤ ε, where `before` is the step's first pass. The step ends when K are chosen or nobody is unmoved. Whoever
//! is moved is passed over, not a reason to stop: the forward that moved it has judged everybody else as well. It is asked again after the next
//! choice, as all are.
//!
//! So a step commits what decoding one at a time in this order would have written, each within ε of what it said on its own. A discount
//! or a graph made of attention tries to guess who is unmoved; this one knows, and is the bound of what such guesses can reach: not
//! in forwards, of which it takes about one per token, but in tokens per *step*. Its traces and results say how many steps it took
//! beside its NFE. No paper; ours.

use crate::divergence::kl;
use crate::spec::{Entry, Param, Values};
use crate::{Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, TokenId, Verdict};

/// The oracle's limits, and the set it is growing.
pub(crate) struct Oracle {
    k: usize,
    epsilon: f64,
    trial: Option<Trial>,
}

/// The set of one step, as far as it has come.
struct Trial {
    left: Vec<Pick>, // surest first, as the step's first pass proposed them
    chosen: Vec<Pick>,
    before: Vec<Vec<f32>>, // [slot][vocab]
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (k, epsilon) = (v.count(0), v.param(1));
        Ok(Policy::Commits(Box::new(Oracle { k, epsilon, trial: None })))
    };
    Entry::new("oracle", "up to K that revealing each other does not move", build)
        .params([
            Param::count("K", 1, u32::MAX.into()).default(8.0),
            Param::number("EPSILON", 0.0, f64::INFINITY).default(0.1),
        ])
        .source("ours; a bound, not a decoder")
}

impl Trial {
    /// The surest is chosen by itself: nothing is revealed yet that could move it.
    fn start(view: &StepView<'_>) -> Trial {
        let mut left: Vec<Pick> = view.slots().map(|slot| Pick::of(view, slot, view.confidence(slot))).collect();
        left.sort_by(|a, b| b.confidence.total_cmp(&a.confidence)); // stable: ties by position
        let chosen = vec![left.remove(0)];
        Trial { left, chosen, before: view.slots().map(|slot| view.distribution(slot).to_vec()).collect() }
    }

    /// Chooses the surest candidate that what is revealed has not moved; `false` when all are moved.
    fn grow(&mut self, view: &StepView<'_>, epsilon: f64) -> bool {
        let unmoved = |pick: &Pick| {
            let same = view.stats(pick.slot).token == pick.token;
            same && kl(&self.before[pick.slot.0], view.distribution(pick.slot)) <= epsilon
        };
        let next = self.left.iter().position(unmoved);
        self.chosen.extend(next.map(|at| self.left.remove(at)));
        next.is_some()
    }
}

impl Sampler for Oracle {
    fn needs(&self) -> Needs {
        Needs::default().distributions().reveals()
    }

    /// A step that commits n makes at most n forwards beside its first: one that follows each choice. Most, in all, when every step
    /// commits one and finds everybody else moved.
    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.trial = None;
        Ok(if self.k == 1 { job.masks } else { 2 * job.masks })
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let (trial, grown) = match self.trial.take() {
            None => (Trial::start(view), true),
            Some(mut trial) => {
                let grown = trial.grow(view, self.epsilon);
                (trial, grown)
            }
        };
        if grown && trial.chosen.len() < self.k && !trial.left.is_empty() {
            let reveal = |pick: &Pick| -> (Slot, TokenId) { (pick.slot, pick.token) };
            let revealed = trial.chosen.iter().map(reveal).collect();
            self.trial = Some(trial);
            return Ok(Verdict::Reveal(revealed));
        }
        trial.chosen.into_iter().for_each(|pick| picks.add(pick));
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::toy::{Toy, decode_toy};
    use crate::{Canvas, Decode, Denoiser, Distributions, Prediction, Query, Result, RowStats, SamplerSpec, TokenId};

    const MASK: TokenId = 9;

    /// Surest first from left to right. `moves` says what the distribution of a position is once another is revealed; alone it is [.8, .2].
    struct Moved {
        moves: Vec<(usize, usize, [f32; 2])>, // (position, revealed, p)
    }

    impl Denoiser for Moved {
        fn mask_id(&self) -> TokenId {
            MASK
        }
        fn vocab(&self) -> usize {
            2
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
            let answer = |query: &Query<'_>| {
                let p = |j: usize| {
                    let applies = |m: &&(usize, usize, [f32; 2])| m.0 == j && query.tokens[m.1] != MASK;
                    self.moves.iter().rfind(applies).map_or([0.8, 0.2], |m| m.2)
                };
                let token = |j: usize| TokenId::from(p(j)[1] > p(j)[0]);
                let row = |&j: &usize| RowStats::new(token(j), 0.8 - 0.01 * j as f64);
                let p = query.rows.iter().flat_map(|&j| p(j)).collect();
                Ok(Prediction::new(query.rows.iter().map(row).collect()).distributions(Distributions::new(2, p)?))
            };
            batch.iter().map(answer).collect()
        }
    }

    /// What the first step of `n` masks commits, in order, and its forwards.
    fn first_step(sampler: &str, n: usize, moves: &[(usize, usize, [f32; 2])]) -> (Vec<usize>, usize) {
        let mut model = Moved { moves: moves.to_vec() };
        let policy = sampler.parse::<SamplerSpec>().unwrap().build().unwrap();
        let mut decode = Decode::new(Canvas::prompt(&[], n, MASK), policy).unwrap();
        loop {
            let predictions = model.denoise(&[decode.query().unwrap()]).unwrap();
            if let Some(step) = decode.absorb(&predictions[0]).unwrap() {
                assert!(step.commits.iter().all(|commit| commit.token == 0), "the first pass decides what is written");
                assert_eq!((decode.steps(), decode.nfe()), (1, step.forwards));
                return (step.commits.iter().map(|commit| commit.position).collect(), step.forwards);
            }
        }
    }

    #[test]
    fn whoever_is_moved_is_passed_over() {
        // Nobody moves: a forward after each choice but the last, after which nobody is left.
        assert_eq!(first_step("oracle", 4, &[]), (vec![0, 1, 2, 3], 4));
        // KL([.8, .2] ‖ [.2, .8]) = .6 ln 4 = .83 > .1. 1 is moved by 0; 2 and 3 go on without it, and the last forward finds nobody.
        let flip = [0.2, 0.8];
        assert_eq!(first_step("oracle", 4, &[(1, 0, flip)]), (vec![0, 2, 3], 4));
        // 2 is moved by 1, which is chosen; not by what is not chosen.
        assert_eq!(first_step("oracle", 4, &[(2, 1, flip)]), (vec![0, 1, 3], 4));
        assert_eq!(first_step("oracle", 4, &[(1, 0, flip), (2, 1, flip)]), (vec![0, 2, 3], 4));
        // Everybody is moved by the first.
        assert_eq!(first_step("oracle", 3, &[(1, 0, flip), (2, 0, flip)]), (vec![0], 2));
        // What one choice moved, another may move back: 1 is asked again after 2.
        assert_eq!(first_step("oracle", 3, &[(1, 0, flip), (1, 2, [0.8, 0.2])]), (vec![0, 2, 1], 3));
    }

    #[test]
    fn a_set_has_at_most_k_and_no_forward_is_wasted() {
        assert_eq!(first_step("oracle:1", 4, &[]), (vec![0], 1));
        assert_eq!(first_step("oracle:3", 4, &[]), (vec![0, 1, 2], 3));
        assert_eq!(first_step("oracle", 1, &[]), (vec![0], 1));
    }

    #[test]
    fn both_the_token_and_the_distribution_count() {
        // KL([.8, .2] ‖ [.6, .4]) = .8 ln 4/3 + .2 ln 1/2 = .0915 ≤ .1, and the token stays.
        assert_eq!(first_step("oracle", 2, &[(1, 0, [0.6, 0.4])]), (vec![0, 1], 2));
        assert_eq!(first_step("oracle:8,0.09", 2, &[(1, 0, [0.6, 0.4])]), (vec![0], 2));
        // However much is allowed, another token is another token.
        assert_eq!(first_step("oracle:8,100", 2, &[(1, 0, [0.4, 0.6])]), (vec![0], 2));
        assert_eq!(first_step("oracle:8,0", 2, &[]), (vec![0, 1], 2), "0 allows those that do not move at all");
    }

    #[test]
    fn on_the_toy_it_breaks_no_couple() {
        // Two steps are the least: the two words of a couple move each other, everything else is independent.
        let steps = decode_toy(Toy::phrases(12), "oracle:12", None);
        assert_eq!(steps.iter().map(|step| step.commits.len()).collect::<Vec<_>>(), [8, 4]);
        let together = |a: usize, b: usize| {
            steps.iter().any(|step| [a, b].iter().all(|i| step.commits.iter().any(|commit| commit.position == *i)))
        };
        assert!(![(0, 1), (3, 4), (6, 7), (9, 10)].into_iter().any(|(a, b)| together(a, b)));
    }
}
