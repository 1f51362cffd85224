//! An oracle: who can be committed together, found out by trying.
//!
//! It decodes one at a time on copies of the canvas, each choice revealed before the next is made: a forward for each, all counted. That
//! is its *reference*: for every candidate the token it is given in the end, and its distribution at that moment. Then it commits, in this
//! step and in the following ones, every candidate whose proposal the reference confirms: the same token, and
//! KL(p now ‖ p with all before it revealed) ≤ ε; the surest first, at most K a step. When nobody is confirmed, it makes a new reference
//! from the canvas as it is, which confirms at least the surest.
//!
//! So it writes what `topk:1` writes (unless it had to begin anew, which is rare), and in each step as much of it as the step's pass
//! proposes. A discount or a graph made of attention tries to guess who would change once others are revealed; this one knows, and is
//! the bound of what such guesses can reach. It is a bound in tokens per *step*, not per forward: a reference takes as many forwards
//! as there are candidates. So results and traces have its steps beside its NFE. No paper; ours.
//!
//! ε counts only where it is small: KL as computed here is below 28, so that by default the token alone decides. With ε = .1 the steps say
//! how much is *independent* of what one at a time revealed before; without, how much is decided already. Under blocks there is a
//! reference for each. Above temperature 0 every step draws its own tokens, a reference confirms fewer of them, and what is written
//! need not be what `topk:1` draws.

use crate::divergence::kl;
use crate::spec::{Entry, Param, Values};
use crate::{Error, Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, TokenId, Verdict};

/// The oracle's limits, what it knows, and how it is finding out.
pub(crate) struct Oracle {
    k: usize,
    epsilon: f64,
    reference: Vec<Option<Written>>, // [position]
    trial: Option<Trial>,
}

/// What one at a time wrote at a position.
#[derive(Debug, Clone)]
struct Written {
    token: TokenId,
    p: Vec<f32>, // [vocab] when it was written
}

/// One at a time, as far as it has come in this step.
struct Trial {
    first: Vec<(Pick, Vec<f32>)>, // [slot] what the step's first pass proposed, and p; [vocab]
    revealed: Vec<(Slot, TokenId)>,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (k, epsilon) = (v.count(0), v.param(1));
        Ok(Policy::Commits(Box::new(Oracle { k, epsilon, reference: Vec::new(), trial: None })))
    };
    Entry::new("oracle", "what one at a time would write anyway", build)
        .params([
            Param::count("K", 1, u32::MAX.into()).default(64.0),
            Param::number("EPSILON", 0.0, f64::INFINITY).default(100.0),
        ])
        .source("ours; a bound, not a decoder")
}

impl Oracle {
    /// Commits those that the reference confirms, the surest K of them; `false` when it confirms nobody.
    fn commit<'a>(&self, proposed: impl Iterator<Item = (Pick, &'a [f32])>, picks: &mut Picks) -> bool {
        let confirms = |(pick, p): &(Pick, &[f32])| {
            let written = self.reference[pick.position].as_ref();
            written.is_some_and(|written| written.token == pick.token && kl(p, &written.p) <= self.epsilon)
        };
        let mut confirmed: Vec<Pick> = proposed.filter(confirms).map(|(pick, _)| pick).collect();
        confirmed.sort_by(|a, b| b.confidence.total_cmp(&a.confidence)); // stable: ties by position
        confirmed.truncate(self.k);
        confirmed.iter().for_each(|&pick| picks.add(pick));
        !confirmed.is_empty()
    }

    /// One more at a time: writes the surest of those that are left, as this pass sees them.
    fn write(&mut self, trial: &mut Trial, view: &StepView<'_>) {
        let left = view.slots().filter(|slot| trial.revealed.iter().all(|(revealed, _)| revealed != slot));
        let surer = |best: Slot, slot: Slot| if view.confidence(slot) > view.confidence(best) { slot } else { best };
        let slot = left.reduce(surer).expect("a trial ends when all are written");
        let written = Written { token: view.stats(slot).token, p: view.distribution(slot).to_vec() };
        trial.revealed.push((slot, written.token));
        self.reference[view.position(slot)] = Some(written);
    }
}

impl Sampler for Oracle {
    fn needs(&self) -> Needs {
        Needs::default().distributions().history().reveals()
    }

    /// Most, if every step finds nobody confirmed and begins anew: as many forwards as candidates, of which one is committed.
    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.trial = None;
        self.reference = vec![None; job.length];
        Ok(job.masks * (job.masks + 1) / 2)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if self.reference.len() < view.job.length {
            return Err(Error::Contract { who: "caller", problem: "it shows a step without `begin`".into() });
        }
        let mut trial = match self.trial.take() {
            Some(trial) => trial,
            None => {
                let pick = |slot: Slot| Pick::of(view, slot, view.confidence(slot));
                if self.commit(view.slots().map(|slot| (pick(slot), view.distribution(slot))), picks) {
                    return Ok(Verdict::Commit);
                }
                let first = view.slots().map(|slot| (pick(slot), view.distribution(slot).to_vec())).collect();
                Trial { first, revealed: Vec::new() }
            }
        };
        self.write(&mut trial, view);
        if trial.revealed.len() < view.len() {
            let revealed = trial.revealed.clone();
            self.trial = Some(trial);
            return Ok(Verdict::Reveal(revealed));
        }
        let confirmed = self.commit(trial.first.iter().map(|(pick, p)| (*pick, p.as_slice())), picks);
        debug_assert!(confirmed, "what is written first is the first pass's surest, as that pass has it");
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::toy::{Toy, decode_toy};
    use crate::{Canvas, Decode, Denoiser, Distributions, Prediction, Query, Result, RowStats, SamplerSpec, TokenId};

    const MASK: TokenId = 9;

    /// Position j says [.8, .2] and is .8 − j/100 sure. `moves` says what else it says once another is revealed; it is then as sure as the
    /// larger of the two, less j/100.
    struct Moved {
        moves: Vec<(usize, usize, [f32; 2])>, // (position, revealed, p); the last that applies
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
                let row = |&j: &usize| {
                    let [a, b] = p(j);
                    RowStats::new(TokenId::from(b > a), f64::from(a.max(b)) - 0.01 * j as f64)
                };
                let all = query.rows.iter().flat_map(|&j| p(j)).collect();
                Ok(Prediction::new(query.rows.iter().map(row).collect()).distributions(Distributions::new(2, all)?))
            };
            batch.iter().map(answer).collect()
        }
    }

    /// What each step of `n` masks commits, in order, and its forwards; then the tokens.
    #[track_caller]
    fn check(
        sampler: &str,
        n: usize,
        moves: &[(usize, usize, [f32; 2])],
        want: &[(&[usize], usize)],
        text: &[TokenId],
    ) {
        let mut model = Moved { moves: moves.to_vec() };
        let mut run = |sampler: &str| {
            let policy = sampler.parse::<SamplerSpec>().unwrap().build().unwrap();
            let mut decode = Decode::new(Canvas::prompt(&[], n, MASK), policy).unwrap();
            let steps = crate::generate(&mut model, &mut decode).unwrap();
            assert_eq!(decode.steps(), steps.len());
            (steps, decode.canvas().tokens().to_vec())
        };
        let (steps, tokens) = run(sampler);
        let committed = |step: &crate::Step| step.commits.iter().map(|commit| commit.position).collect::<Vec<_>>();
        let got: Vec<_> = steps.iter().map(|step| (committed(step), step.forwards)).collect();
        let want: Vec<_> = want.iter().map(|(positions, forwards)| (positions.to_vec(), *forwards)).collect();
        assert_eq!((got, tokens.as_slice()), (want, text), "{sampler} {moves:?}");
        assert_eq!(run("topk:1").1, text, "{moves:?}: it is what one at a time writes");
    }

    const FLIP: [f32; 2] = [0.2, 0.8];

    #[test]
    fn what_one_at_a_time_would_write_anyway_goes_at_once() {
        // Nobody moves: one at a time takes four forwards, and then all are known.
        check("oracle", 4, &[], &[(&[0, 1, 2, 3], 4)], &[0; 4]);
        // Once 0 is revealed 1 wants the other token: it waits for a pass that proposes it, which is the next. 2 and 3 need not wait.
        check("oracle", 4, &[(1, 0, FLIP)], &[(&[0, 2, 3], 4), (&[1], 1)], &[0, 1, 0, 0]);
        // 2 is moved by 1; both 1 and 2 by 0.
        check("oracle", 4, &[(2, 1, FLIP)], &[(&[0, 1, 3], 4), (&[2], 1)], &[0, 0, 1, 0]);
        check("oracle", 3, &[(1, 0, FLIP), (2, 0, FLIP)], &[(&[0], 3), (&[1, 2], 1)], &[0, 1, 1]);
        // 2 is moved by 0 and back by 1, which one at a time reveals before it: never in doubt.
        check("oracle", 3, &[(2, 0, [0.45, 0.55]), (2, 1, [0.8, 0.2])], &[(&[0, 1, 2], 3)], &[0; 3]);
    }

    #[test]
    fn at_most_k_a_step_the_surest_first() {
        check("oracle:3", 4, &[], &[(&[0, 1, 2], 4), (&[3], 1)], &[0; 4]);
        check("oracle:1", 3, &[], &[(&[0], 3), (&[1], 1), (&[2], 1)], &[0; 3]);
        check("oracle", 1, &[], &[(&[0], 1)], &[0]);
    }

    #[test]
    fn a_small_epsilon_asks_for_the_same_distribution_too() {
        // KL([.8, .2] ‖ [.6, .4]) = .8 ln 4/3 + .2 ln 1/2 = .0915: the token stays, but it moved.
        check("oracle:64,0.1", 2, &[(1, 0, [0.6, 0.4])], &[(&[0, 1], 2)], &[0; 2]);
        check("oracle:64,0.09", 2, &[(1, 0, [0.6, 0.4])], &[(&[0], 2), (&[1], 1)], &[0; 2]);
        check("oracle:64,0", 3, &[], &[(&[0, 1, 2], 3)], &[0; 3]);
    }

    #[test]
    fn where_nobody_is_confirmed_it_begins_anew() {
        // 0 flips 1 and 2; 3 moves both on to [.3, .7]. One at a time writes 0, 1 (.79), 2 (.78), 3 (.77), so for 1 and 2 the reference has
        // [.2, .8]. The first pass proposes what it has for 0 and 3, and on their canvas, which one at a time never saw,
        // KL([.3, .7] ‖ [.2, .8]) = .3 ln 3/2 + .7 ln 7/8 = .0282. Within .02 nobody is confirmed: two more forwards for the two that are left.
        let moves = [(1, 0, FLIP), (2, 0, FLIP), (1, 3, [0.3, 0.7]), (2, 3, [0.3, 0.7])];
        check("oracle:64,0.02", 4, &moves, &[(&[0, 3], 4), (&[1, 2], 2)], &[0, 1, 1, 0]);
        check("oracle", 4, &moves, &[(&[0, 3], 4), (&[1, 2], 1)], &[0, 1, 1, 0]);
    }

    #[test]
    fn on_the_toy_the_second_word_of_a_couple_waits_and_nobody_else() {
        let steps = decode_toy(Toy::phrases(12), "oracle", None);
        let seen: Vec<_> = steps.iter().map(|step| (step.commits.len(), step.forwards)).collect();
        assert_eq!(seen, [(8, 12), (4, 1)]);
        assert!(steps[1].commits.iter().all(|commit| [1, 4, 7, 10].contains(&commit.position)));
    }
}
