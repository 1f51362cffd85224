//! Every example sampler on every kind of canvas: decoded once, then one claim per test.

use crate::support::{EXAMPLES, MASK, Outcome, Phrases, Setup, positions, spec};
use cofill::toy::Toy;
use cofill::{
    Attention, Canvas, Decode, Denoiser, Error, Finish, Prediction, Query, Registry, RowStats, Schedule, Snapshot,
    Step, TokenId, generate,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One decode that came to its end.
struct Run {
    sampler: &'static str,
    setup: Setup,
    outcome: Outcome,
}

impl Run {
    fn name(&self) -> &'static str {
        let spec = spec(self.sampler);
        let stock = Registry::stock().get(&spec.entry().name);
        &stock.expect("every sampler of the tests is ours").name
    }

    fn label(&self) -> String {
        format!("`{}` on {}", self.sampler, self.setup)
    }
}

/// All examples on all setups, but for budgets that the blocks do not divide.
static RUNS: LazyLock<Vec<Run>> = LazyLock::new(|| {
    let mut runs = Vec::new();
    for setup in setups() {
        for &sampler in EXAMPLES {
            match setup.run(sampler) {
                Ok(outcome) => runs.push(Run { sampler, setup: setup.clone(), outcome }),
                Err(Error::StepsPerBlock { .. }) => {}
                Err(Error::NoBlocks { .. }) if is_blockless(sampler) => {}
                Err(error) => panic!("`{sampler}` on {setup}: {error}"),
            }
        }
    }
    runs
});

/// Samplers that plan over the whole canvas and know no blocks.
fn is_blockless(sampler: &str) -> bool {
    ["p2", "threshold-dream"].contains(&spec(sampler).entry().name.as_str())
}

/// Short and long, with a prompt, with holes to fill; with and without blocks; greedy and sampled.
fn setups() -> Vec<Setup> {
    let prompted = Canvas::prompt(&[0, 4, 16, 8], 12, MASK);
    // The first mask is at 1, so blocks of 4 are 1-4 (a fixed verb among them), 5-8, 9-12 (all fixed) and 13-16.
    let mut infill = vec![MASK; 18];
    for (position, token) in [(0, 1), (2, 18), (9, 8), (10, 13), (11, 21), (12, 0), (17, 20)] {
        infill[position] = token;
    }
    let canvases = [1, 2, 7, 16, 24].map(|length| Canvas::prompt(&[], length, MASK));
    let mut setups = Vec::new();
    for canvas in canvases.into_iter().chain([prompted, Canvas::new(infill, MASK)]) {
        for setup in [Setup::canvas(canvas.clone()), Setup::canvas(canvas).blocks(4)] {
            setups.extend([setup.clone(), setup.sampled(0.8, 3)]);
        }
    }
    setups
}

#[test]
fn the_examples_cover_the_registry() {
    let examples: BTreeSet<String> = EXAMPLES.iter().map(|text| spec(text).entry().name.clone()).collect();
    let registry: BTreeSet<String> = Registry::stock().entries().iter().map(|entry| entry.name.clone()).collect();
    assert_eq!(examples, registry, "add an example of the new sampler to support.rs");
}

#[test]
fn every_sampler_runs_on_most_setups() {
    // 28 setups; a budget of 4 is refused by the 6 blocks of 24 positions and the like, never by a whole canvas.
    for &sampler in EXAMPLES {
        let runs = RUNS.iter().filter(|run| run.sampler == sampler).count();
        assert!(runs >= 14, "`{sampler}` ran on {runs} setups");
    }
}

#[test]
fn no_mask_is_left() {
    for run in RUNS.iter() {
        assert!(!run.outcome.tokens.contains(&MASK), "{}", run.label());
    }
}

#[test]
fn nfe_is_counted_and_bounded() {
    for run in RUNS.iter() {
        let (masks, steps, nfe) = (run.setup.canvas.n_masked(), run.outcome.steps.len(), run.outcome.nfe);
        let forwards: usize = run.outcome.steps.iter().map(|step| step.forwards).sum();
        assert_eq!(nfe, forwards, "{}", run.label());
        let first_number = || -> usize {
            let digits = run.sampler.split(':').nth(1).expect("a parameter");
            digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        let bound = match run.name() {
            "llada" | "dream" | "p2" => first_number(), // their budget
            "punt" => masks * (1 + masks.next_power_of_two().ilog2() as usize), // a probe per bit of the rank
            "lookum" => masks * (1 + first_number()),   // a probe per path
            "apd" => 2 * masks,                         // the companion's
            "oracle" => masks * (masks + 1) / 2,        // one at a time, in every step
            _ => masks,                                 // one commit a step is the least
        };
        assert!(nfe <= bound, "{}: {nfe} forwards, at most {bound}", run.label());
        if !["punt", "lookum", "oracle", "apd"].contains(&run.name()) {
            assert_eq!(steps, nfe, "{} does not probe", run.label());
        }
        if !["llada", "dream", "p2"].contains(&run.name()) {
            assert!(run.outcome.steps.iter().all(|step| !step.commits.is_empty()), "{} may not wait", run.label());
        }
    }
}

#[test]
fn what_was_not_masked_stays() {
    for run in RUNS.iter() {
        let start = run.setup.canvas.tokens();
        for (position, (&before, after)) in start.iter().zip(&run.outcome.tokens).enumerate() {
            assert!(before == MASK || before == *after, "{}: position {position}", run.label());
        }
    }
}

/// What the step's first forward said about every position, from the canvas it saw.
fn base_pass(run: &Run, canvas: &Canvas, step: &Step) -> Prediction {
    let rows: Vec<usize> = (0..canvas.tokens().len()).collect();
    let query = Query::new(canvas.tokens(), &rows, &run.setup.proposal).step(step.step);
    Toy::phrases(rows.len()).denoise(&[query]).unwrap().remove(0)
}

#[test]
fn what_is_committed_was_proposed_by_the_steps_first_pass() {
    for run in RUNS.iter().filter(|run| run.name() != "credit") {
        for (canvas, step) in run.setup.replay(&run.outcome.steps) {
            let base = base_pass(run, &canvas, step);
            for commit in &step.commits {
                let row = base.rows[commit.position];
                assert_eq!(
                    (commit.token, commit.confidence, commit.entropy),
                    (row.token, row.confidence, row.entropy),
                    "{}, step {}, position {}",
                    run.label(),
                    step.step,
                    commit.position
                );
            }
        }
    }
}

#[test]
fn credit_commits_what_was_once_proposed_there() {
    // Its credit may let an earlier winner beat the current proposal; a token that never won holds none.
    for run in RUNS.iter().filter(|run| run.name() == "credit") {
        let mut proposed: Vec<Vec<TokenId>> = vec![Vec::new(); run.setup.canvas.tokens().len()];
        for (canvas, step) in run.setup.replay(&run.outcome.steps) {
            for (seen, row) in proposed.iter_mut().zip(base_pass(run, &canvas, step).rows) {
                seen.push(row.token);
            }
            for commit in &step.commits {
                assert!(proposed[commit.position].contains(&commit.token), "{}, step {}", run.label(), step.step);
            }
        }
    }
}

#[test]
fn the_oracle_writes_what_one_at_a_time_writes_in_fewer_steps() {
    let mut saved = 0;
    for run in RUNS.iter().filter(|run| run.name() == "oracle") {
        let k = if run.sampler == "oracle" { 64 } else { 3 };
        assert!(run.outcome.steps.iter().all(|step| step.commits.len() <= k), "{}", run.label());
        // Above temperature 0 each step draws anew.
        if run.setup.proposal.temperature == 0.0 {
            let one = run.setup.must_run("topk:1");
            assert_eq!(run.outcome.tokens, one.tokens, "{}", run.label());
            // One at a time once, each block by itself; then a forward for every further step.
            let most = one.nfe + run.outcome.steps.len();
            assert!(run.outcome.nfe <= most, "{}: {} forwards, at most {most}", run.label(), run.outcome.nfe);
            saved += one.steps.len() - run.outcome.steps.len();
        }
    }
    assert!(saved > 100, "only {saved} steps fewer than one at a time");
}

#[test]
fn what_is_committed_unforced_is_as_sure_as_the_sampler_says() {
    let mut unforced = 0;
    for run in RUNS.iter().filter(|run| ["less", "clad"].contains(&run.name())) {
        let tau: f64 = run.sampler.split([':', ',', '@']).nth(1).expect("a parameter").parse().unwrap();
        for step in &run.outcome.steps {
            assert!(!step.forced || step.commits.len() == 1, "{}", run.label());
            assert!(step.forced || step.commits.iter().all(|commit| commit.confidence >= tau), "{}", run.label());
            unforced += usize::from(!step.forced);
        }
    }
    assert!(unforced > 50, "only {unforced} steps were not forced");
}

#[test]
fn steps_say_what_they_saw() {
    for run in RUNS.iter() {
        for (n, (canvas, step)) in run.setup.replay(&run.outcome.steps).enumerate() {
            let end = run.setup.schedule.current(&canvas).expect("a step starts with masks").1;
            let candidates = canvas.masked().filter(|&position| position < end).count();
            assert_eq!(
                (step.step, step.n_masked, step.candidates),
                (n, canvas.n_masked(), candidates),
                "{}",
                run.label()
            );
        }
    }
}

#[test]
fn a_block_is_finished_before_the_next_is_begun() {
    let mut later = 0;
    for run in RUNS.iter() {
        let Schedule::Blocks { len } = run.setup.schedule else { continue };
        let start = run.setup.canvas.window().start;
        let block = |position: usize| (position - start) / len;
        for (canvas, step) in run.setup.replay(&run.outcome.steps) {
            let current = block(canvas.masked().next().unwrap());
            assert!(positions(step).into_iter().all(|i| block(i) == current), "{}, step {}", run.label(), step.step);
            later += usize::from(current > 0);
        }
    }
    assert!(later > 0, "no second block was ever reached, so nothing was tested");
}

#[test]
fn the_same_seed_decodes_the_same_and_another_does_not() {
    let mut differs = 0;
    for &sampler in EXAMPLES {
        let run = |seed| Setup::masks(16).sampled(0.8, seed).must_run(sampler);
        assert_eq!(run(3), run(3), "`{sampler}`");
        differs += usize::from(run(3).tokens != run(4).tokens);
    }
    assert_eq!(differs, EXAMPLES.len(), "sixteen sampled words never agree between these two seeds");
}

#[test]
fn random_samplers_follow_the_seed_without_a_temperature_too() {
    for sampler in ["topk:1@random", "dream:8@origin", "dream:8@maskgit_plus@alg_temp=1", "p2:6@random", "lookum:3"] {
        let order = |seed| Setup::masks(12).sampled(0.0, seed).must_run(sampler).steps;
        assert_eq!(order(0), order(0), "`{sampler}`");
        assert!((1..6).any(|seed| order(seed) != order(0)), "`{sampler}`: five other seeds, one and the same order");
    }
    // Nobody else draws anything.
    for sampler in ["topk:2+ad", "eb:3", "punt", "dapd", "klass", "p2:6", "less", "clad:0.4", "oracle"] {
        let run = |seed| Setup::masks(12).sampled(0.0, seed).must_run(sampler);
        assert_eq!(run(0), run(1), "`{sampler}`");
    }
}

#[test]
fn attention_keeps_its_direction_through_a_decode() {
    // T2 of samplers.md, which the toy cannot tell: its attention is symmetric. 1 attends to 0, not 0 to 1.
    let row = |confidence| RowStats::new(0, confidence);
    let attention = Attention::from_rows(&[[0.0, 0.0, 0.0], [0.25, 0.0, 0.0], [0.0, 0.0, 0.0]]).unwrap();
    let rows = vec![row(0.75), row(0.5), row(0.5)];
    let prediction = Prediction::new(rows).attention(attention);
    let step = |decode: &mut Decode| positions(&decode.absorb(&prediction).unwrap().unwrap());
    // u1 = .5 − 1·.25·.25 < .5 = u2.
    assert_eq!(step(&mut Setup::masks(3).decode("topk:2+ad:1").unwrap()), [0, 2]);
    // DOS sees the whole canvas, and candidates are cut out of it: position 1 attends to 0, which is given.
    let canvas = Canvas::new(vec![0, MASK, MASK], MASK);
    assert_eq!(step(&mut Setup::canvas(canvas).decode("topk:1@experimental-dos+ad").unwrap()), [1]);
}

#[test]
fn a_carried_quota_hands_on_what_it_refused() {
    // Eight masks in four steps: two each. Of the first two only one is sure, so the next step may take 2 + 1.
    let mut policy = spec("threshold-dream:0.5,4").build().unwrap();
    let first = Snapshot::new(&[0.9, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]).ask(&mut policy).unwrap();
    assert_eq!(first.positions(), [0]);
    let second = Snapshot::new(&[0.9, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6]).step(1).ask(&mut policy).unwrap();
    assert_eq!(second.positions(), [0, 1, 2]);
}

/// Three positions; revealing 0 settles the others, revealing 1 leaves them as open as can be (5 nats).
struct Fork;

impl Denoiser for Fork {
    fn mask_id(&self) -> TokenId {
        MASK
    }

    fn vocab(&self) -> usize {
        25
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let answer = |query: &Query<'_>| {
            let entropy = match [query.tokens[0], query.tokens[1]].map(|token| token == MASK) {
                [true, true] => 1.0,
                [false, _] => 0.0,
                [true, false] => 5.0,
            };
            let row = |&i: &usize| {
                let entropy = if i == 2 { entropy + 1.0 } else { entropy }; // 2 is not among the two surest
                RowStats::new(0, 0.5).entropy(entropy)
            };
            Prediction::new(query.rows.iter().map(row).collect())
        };
        Ok(batch.iter().map(answer).collect())
    }
}

#[test]
fn lookum_prefers_the_path_that_leaves_less_open() {
    // Two paths of one token, drawn from {0, 1}. A quarter of the time both are 0 and a quarter both are 1; otherwise
    // e^0 / (e^0 + e^-5), with the same one nat more for position 2 in both, takes 0. In all .25 + .5·.99 = .75.
    let first = |seed| {
        let setup = Setup::masks(3).sampled(0.0, seed);
        let mut decode = setup.decode("lookum:2@pool=2@tokens=1").unwrap();
        positions(&generate(&mut Fork, &mut decode).unwrap()[0])[0]
    };
    let share = (0..600).filter(|&seed| first(seed) == 0).count() as f64 / 600.0;
    assert!((share - 0.75).abs() < 0.07, "{share}; four standard deviations are .07");
}

#[test]
fn a_cap_cuts_a_decode_short_and_changes_nothing_before() {
    for &sampler in EXAMPLES {
        let setup = Setup::masks(12);
        let whole = setup.must_run(sampler);
        for cap in 0..whole.nfe {
            let mut decode = setup.clone().capped(cap).decode(sampler).unwrap();
            let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
            assert_eq!(decode.finish(), Some(Finish::Capped), "`{sampler}` capped at {cap}");
            assert_eq!(decode.nfe(), cap, "`{sampler}`");
            assert!(decode.canvas().n_masked() > 0, "`{sampler}` capped at {cap} has masks left");
            assert_eq!(steps, whole.steps[..steps.len()], "`{sampler}` capped at {cap}");
        }
        let mut decode = setup.clone().capped(whole.nfe).decode(sampler).unwrap();
        generate(&mut Phrases::default(), &mut decode).unwrap();
        assert_eq!(decode.finish(), Some(Finish::Complete), "`{sampler}`: the last forward may use up the cap");
    }
}

#[test]
fn without_masks_nothing_is_asked() {
    for &sampler in EXAMPLES {
        let mut decode = Setup::canvas(Canvas::new(vec![0, 4, 16], MASK)).decode(sampler).unwrap();
        assert!(decode.query().is_none(), "`{sampler}`");
        assert_eq!(decode.finish(), Some(Finish::Complete));
        assert!(matches!(decode.absorb(&Prediction::default()), Err(Error::NothingAsked)));
        assert_eq!(decode.nfe(), 0);
        assert!(generate(&mut Phrases::default(), &mut decode).unwrap().is_empty());
    }
}

#[test]
fn only_a_remasking_sampler_takes_commits_back() {
    let remasked = |run: &Run| run.outcome.steps.iter().map(|step| step.remasked.len()).sum::<usize>();
    let by_p2: usize = RUNS.iter().filter(|run| run.name() == "p2").map(remasked).sum();
    assert!(by_p2 > 0, "a random score takes something back");
    for run in RUNS.iter().filter(|run| run.name() != "p2") {
        assert_eq!(remasked(run), 0, "{}", run.label());
        let commits: usize = run.outcome.steps.iter().map(|step| step.commits.len()).sum();
        assert_eq!(commits, run.setup.canvas.n_masked(), "{}: every mask is committed once", run.label());
    }
}

#[test]
fn blocks_of_nothing_and_budgets_that_do_not_divide_are_refused() {
    assert!(matches!(Setup::masks(8).blocks(0).decode("topk:2"), Err(Error::EmptyBlock)));
    // 24 positions are 6 blocks of 4; 4 steps cannot be shared by them.
    let refused = Setup::masks(24).blocks(4).decode("llada:4");
    assert!(matches!(refused, Err(Error::StepsPerBlock { steps: 4, blocks: 6 })));
}
