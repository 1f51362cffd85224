//! A language that a text must belong to: whatever a sampler commits, in whatever order, the text can be completed, and is.
//!
//! The language here is made by hand: every token is of one of three classes (its id modulo 3), neighbours are of different classes, and
//! ids that leave 5 modulo 7 are in no class. What an automaton in general does with it is tested where that lives.

use crate::support::{EXAMPLES, MASK, Phrases, Setup, spec};
use cofill::sampler::{Picks, Sampler};
use cofill::{
    Canvas, Constraint, ConstraintView, Decode, Denoiser, Error, Policy, Prediction, Proposal, Query, Result, RowStats,
    Step, StepView, TokenClasses, TokenId, Verdict, generate,
};

const N: usize = 3;

#[derive(Debug)]
struct Alternating(TokenClasses);

impl Alternating {
    fn new() -> Alternating {
        let class = |token: u32| if token == MASK || token % 7 == 5 { TokenClasses::NONE } else { token % N as u32 };
        Alternating(TokenClasses::new((0..=MASK).map(class).collect()))
    }

    /// The classes that a position may have.
    fn open(&self, token: TokenId, mask_id: TokenId) -> [bool; N] {
        std::array::from_fn(|class| token == mask_id || self.0.of(token) == Some(class))
    }
}

impl Constraint for Alternating {
    fn classes(&self) -> &TokenClasses {
        &self.0
    }

    /// The best filling, by dynamic programming over the class of the token before.
    fn constrain(&mut self, view: &ConstraintView<'_>, stats: &mut [RowStats]) -> Result<()> {
        let n = view.tokens.len();
        let weight = |position: usize, class: usize| match view.rows.binary_search(&position) {
            Ok(row) if view.tokens[position] == view.mask_id => view.classes.row(row)[class].log_probability.max(-1e4),
            _ => 0.0,
        };
        let mut best = vec![[f64::NEG_INFINITY; N]; n];
        let mut from = vec![[0; N]; n];
        for i in 0..n {
            let open = self.open(view.tokens[i], view.mask_id);
            for class in (0..N).filter(|&class| open[class]) {
                let before = (0..N).filter(|&b| b != class).map(|b| (b, if i == 0 { 0.0 } else { best[i - 1][b] }));
                let (b, value) = before.reduce(|a, b| if b.1 > a.1 { b } else { a }).unwrap();
                (best[i][class], from[i][class]) = (value + weight(i, class), b);
            }
        }
        let mut class = (0..N).reduce(|a, b| if best[n - 1][b] > best[n - 1][a] { b } else { a }).unwrap();
        assert!(best[n - 1][class] > f64::NEG_INFINITY, "the canvas cannot be completed");
        for i in (0..n).rev() {
            if let (true, Ok(row)) = (view.tokens[i] == view.mask_id, view.rows.binary_search(&i)) {
                let of = view.classes.row(row)[class];
                // A class without any probability is written by its first token.
                let token = if of.log_probability > f64::NEG_INFINITY { of.token } else { self.0.tokens(class)[0] };
                stats[row] = RowStats::new(token, of.log_probability.exp().min(1.0));
            }
            class = from[i][class];
        }
        Ok(())
    }

    fn is_completable(&self, tokens: &[TokenId], mask_id: TokenId) -> bool {
        let mut reached = [true; N];
        for (i, &token) in tokens.iter().enumerate() {
            let (open, before) = (self.open(token, mask_id), reached);
            reached = std::array::from_fn(|class| {
                open[class] && (i == 0 || (0..N).any(|other| other != class && before[other]))
            });
        }
        reached.contains(&true)
    }
}

fn decode(setup: &Setup, sampler: &str) -> Decode {
    let builder = Decode::builder(setup.canvas.clone(), spec(sampler).build().unwrap());
    let builder = builder.schedule(setup.schedule).proposal(setup.proposal.clone()).cap(setup.cap);
    builder.constraint(Box::new(Alternating::new()) as Box<dyn Constraint>).begin().unwrap()
}

/// Every canvas on the way can be completed, the last one is a text of the language, and the numbers are in order.
fn check(setup: &Setup, sampler: &str) -> Vec<Step> {
    let mut decode = decode(setup, sampler);
    let steps = generate(&mut Phrases::default(), &mut decode)
        .unwrap_or_else(|error| panic!("`{sampler}` on {setup}: {error}"));
    assert_eq!(decode.nfe(), steps.iter().map(|step| step.forwards).sum::<usize>(), "`{sampler}`");
    let language = Alternating::new();
    for (before, step) in setup.replay(&steps) {
        let mut after = before.clone();
        step.apply(&mut after).unwrap();
        assert!(language.is_completable(after.tokens(), MASK), "`{sampler}` on {setup}, step {}", step.step);
    }
    assert_eq!(decode.canvas().n_masked(), 0, "`{sampler}` on {setup}");
    steps
}

#[test]
fn whatever_a_sampler_commits_can_be_completed() {
    let gaps = Canvas::new(vec![0, MASK, MASK, 4, MASK, MASK, MASK, 2, MASK, MASK, MASK, MASK], MASK);
    for sampler in EXAMPLES {
        for setup in [Setup::masks(12), Setup::canvas(gaps.clone())] {
            check(&setup, sampler);
            check(&setup.clone().sampled(1.0, 3), sampler);
            if decodes_blocks(sampler) {
                check(&setup.blocks(4), sampler);
            }
        }
    }
}

fn decodes_blocks(sampler: &str) -> bool {
    Setup::masks(12).blocks(4).run(sampler).is_ok()
}

#[test]
fn commits_say_what_the_model_thought_of_them() {
    for step in check(&Setup::masks(12), "topk:3") {
        for commit in step.commits {
            // This language leaves the model's probabilities as they are.
            let clean = commit.clean_confidence.expect("the filling's tokens are those of their classes");
            assert!((clean - commit.confidence).abs() < 1e-12);
        }
    }
    let free = Setup::masks(12).must_run("topk:3");
    assert!(free.steps.iter().flat_map(|step| &step.commits).all(|commit| commit.clean_confidence.is_none()));
}

/// Writes token 0 everywhere, whatever is proposed.
struct Stubborn;

impl Sampler for Stubborn {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        view.slots().for_each(|slot| picks.push(view, slot, 0.0));
        let stubborn: Vec<_> = picks.iter().map(|pick| cofill::Pick { token: 0, ..*pick }).collect();
        *picks = Picks::default();
        stubborn.into_iter().for_each(|pick| picks.add(pick));
        Ok(Verdict::Commit)
    }
}

#[test]
fn a_sampler_with_its_own_ideas_is_held_to_the_filling() {
    let canvas = Canvas::prompt(&[], 6, MASK);
    let constraint: Box<dyn Constraint> = Box::new(Alternating::new());
    let mut decode =
        Decode::builder(canvas, Policy::Commits(Box::new(Stubborn))).constraint(constraint).begin().unwrap();
    let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    let tokens = decode.canvas().tokens();
    assert!(Alternating::new().is_completable(tokens, MASK) && decode.canvas().n_masked() == 0, "{tokens:?}");
    assert!(steps.iter().any(|step| step.forced), "zeros side by side are no text of the language");
}

#[test]
fn ends_that_go_last_still_do() {
    // Token 0 may be proposed and has no confidence, under a constraint as without.
    let setup = Setup { proposal: Proposal::greedy().demote(vec![0, 3, 6]), ..Setup::masks(12) };
    let steps = check(&setup, "topk:1");
    let demoted = |step: &Step| [0, 3, 6].contains(&step.commits[0].token);
    let first = steps.iter().position(demoted).unwrap_or(steps.len());
    assert!(steps[first..].iter().all(|step| step.commits[0].confidence == 0.0 || !demoted(step)));
}

/// Answers without classes, as a model that does not know them.
struct Classless(Phrases);

impl Denoiser for Classless {
    fn mask_id(&self) -> TokenId {
        MASK
    }
    fn vocab(&self) -> usize {
        self.0.vocab()
    }
    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let batch: Vec<Query<'_>> = batch.iter().map(|query| query.classes(None)).collect();
        self.0.denoise(&batch)
    }
}

#[test]
fn a_model_that_says_nothing_of_classes_is_named() {
    let mut decode = decode(&Setup::masks(4), "topk:1");
    let error = generate(&mut Classless(Phrases::default()), &mut decode).unwrap_err();
    assert!(matches!(error, Error::Missing { what: "classes" }), "{error}");
}
