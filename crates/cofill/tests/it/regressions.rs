//! Bugs that were found once. Each test is the claim that was false.

use crate::support::{MASK, Outcome, Phrases, Setup, spec};
use cofill::adas::AttentionDiscount;
use cofill::toy::Toy;
use cofill::trace::{Header, VERSION};
use cofill::trace_diff::{Difference, Why, diff};
use cofill::{
    Attention, Canvas, Decode, Denoiser, Distributions, Error, Finish, Layers, Picks, Policy, Pool, Prediction,
    Proposal, Result, Sampler, Schedule, Slot, Snapshot, StepView, Style, TokenId, Trace, Verdict,
};
use std::sync::{Arc, Mutex};

/// The honest answer to what `decode` asks.
fn answer(decode: &Decode) -> Prediction {
    Phrases::default().denoise(&[decode.query().unwrap()]).unwrap().remove(0)
}

/// A decode of two masks by a sampler that always says the same.
struct Always(fn(&StepView<'_>, &mut Picks) -> Verdict);

impl Sampler for Always {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        Ok((self.0)(view, picks))
    }
}

#[track_caller]
fn breaks_its_contract(sampler: fn(&StepView<'_>, &mut Picks) -> Verdict) {
    let canvas = Canvas::prompt(&[], 2, MASK);
    let mut decode = Decode::new(canvas.clone(), Policy::Commits(Box::new(Always(sampler)))).unwrap();
    let refused = decode.absorb(&answer(&decode));
    assert!(matches!(refused, Err(Error::Contract { who: "sampler", .. })), "{refused:?}");
    assert_eq!((decode.canvas(), decode.nfe()), (&canvas, 0), "the decode is as it was");
}

#[test]
fn samplers_that_say_impossible_things() {
    breaks_its_contract(|view, picks| {
        picks.push(view, Slot(0), 0.0);
        Verdict::Wait
    });
    breaks_its_contract(|_, _| Verdict::Reveal(vec![(Slot(9), 0)]));
    breaks_its_contract(|view, picks| {
        let pick = cofill::Pick::of(view, Slot(0), 0.0);
        picks.add(cofill::Pick { position: 1, ..pick });
        Verdict::Commit
    });
}

#[test]
fn a_probe_may_not_reveal_the_mask() {
    let policy = Policy::Commits(Box::new(Always(|_, _| Verdict::Reveal(vec![(Slot(0), MASK)]))));
    let mut decode = Decode::new(Canvas::prompt(&[], 2, MASK), policy).unwrap();
    assert!(matches!(decode.absorb(&answer(&decode)), Err(Error::MaskProposed { position: 0, .. })));
}

#[test]
fn plans_over_the_whole_canvas_refuse_blocks() {
    // In a second block, one subtracted below zero and the other ran out of steps.
    for sampler in ["threshold-dream:0.4,4", "p2:2"] {
        let refused = Setup::masks(16).blocks(8).run(sampler);
        assert!(matches!(refused, Err(Error::NoBlocks { blocks: 2, .. })), "{sampler}: {refused:?}");
        assert!(Setup::masks(16).blocks(16).run(sampler).is_ok(), "{sampler}: one block is no blocks");
    }
}

/// Writes down every job it is shown.
struct Diary(Arc<Mutex<Vec<cofill::Job>>>);

impl Sampler for Diary {
    fn begin(&mut self, job: &cofill::Job) -> Result<usize> {
        self.0.lock().unwrap().push(job.clone());
        Ok(job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        Ok(picks.or_surest(view))
    }
}

#[test]
fn a_sampler_begins_once_and_knows_everything() {
    // It used to begin with defaults, and again with every setting.
    let jobs = Arc::new(Mutex::new(Vec::new()));
    let policy = Policy::Commits(Box::new(Diary(jobs.clone())));
    let builder = Decode::builder(Canvas::prompt(&[1], 6, MASK), policy);
    let builder = builder.proposal(Proposal::sampled(0.5, 9)).schedule(Schedule::Blocks { len: 2 }).cap(3);
    assert!(jobs.lock().unwrap().is_empty(), "a builder begins nothing");
    let decode = builder.begin().unwrap();
    let jobs = jobs.lock().unwrap();
    assert_eq!(jobs.len(), 1);
    let cofill::Job { length, masks, window, blocks, seed, .. } = jobs[0].clone();
    assert_eq!((length, masks, window, blocks, seed), (7, 6, 1..7, 3, 9));
    assert_eq!(decode.query().unwrap().rows, [1, 2]);
}

#[test]
fn settings_are_checked_before_the_sampler_begins() {
    let jobs = Arc::new(Mutex::new(Vec::new()));
    let builder = || Decode::builder(Canvas::prompt(&[], 2, MASK), Policy::Commits(Box::new(Diary(jobs.clone()))));
    assert!(matches!(builder().schedule(Schedule::Blocks { len: 0 }).begin(), Err(Error::EmptyBlock)));
    assert!(matches!(builder().proposal(Proposal::sampled(-1.0, 0)).begin(), Err(Error::BadSetting { .. })));
    assert!(jobs.lock().unwrap().is_empty());
    assert_eq!(builder().cap(0).begin().unwrap().finish(), Some(Finish::Capped), "a cap of nothing is an end");
}

#[test]
fn top_k_takes_k_for_every_alpha_that_parses() {
    // α = 1e308 drove utilities to −∞, which stands for "chosen".
    let a = || Attention::from_fn(4, |_, _| 1.0);
    let picks = Snapshot::new(&[0.4, 0.3, 0.2, 0.1]).attention(a()).select(&spec("topk:4+ad:1e9")).unwrap();
    assert_eq!(picks.len(), 4);
    assert!(matches!("topk:4+ad:1e308".parse::<cofill::SamplerSpec>(), Err(Error::OutOfRange { .. })));
}

#[test]
fn a_discount_that_cannot_be_written_cannot_be_made() {
    let topk = spec("topk:4");
    let with = |ad: AttentionDiscount| topk.with_discount(Some(ad));
    let ad = AttentionDiscount::default();
    assert!(with(AttentionDiscount { alpha: f64::NAN, ..ad }).is_err());
    assert!(with(AttentionDiscount { layers: Layers::LastN(4), ..ad }).is_err());
    let made = with(AttentionDiscount { layers: Layers::Nth(3), ..ad }).unwrap();
    assert_eq!(spec(&made.to_string()), made);
    assert!(matches!(spec("dream:8@origin").with_discount(Some(ad)), Err(Error::NotDiscountable { .. })));
}

#[test]
fn filters_leave_something_to_propose() {
    let top_p = Proposal::greedy().style(Style::Filtered { top_p: Some(0.9), top_k: None });
    // The mask holds nearly all of the mass; what else there is is proposed without confidence.
    let row = top_p.propose(&[0.0, 9.0], 1, 0, 0).unwrap();
    assert_eq!((row.token, row.confidence), (0, 0.0));
    assert!(matches!(top_p.propose(&[], 0, 0, 5), Err(Error::NothingToPropose { position: 5 })));
}

#[test]
fn a_step_shown_without_a_beginning_is_an_error() {
    for sampler in ["klass", "credit", "dus"] {
        let p = Distributions::new(2, vec![0.5; 4]).unwrap();
        let asked = Snapshot::new(&[0.5; 2]).distributions(p).step(1).ask(&mut spec(sampler).build().unwrap());
        assert!(matches!(asked, Err(Error::Contract { who: "caller", .. })), "{sampler}: {asked:?}");
    }
}

#[test]
fn a_token_beyond_its_distribution_is_an_error() {
    let mut decode = Setup::masks(4).decode("credit:1").unwrap();
    let mut bad = answer(&decode);
    bad.distributions = Some(Distributions::new(2, vec![0.5; 8]).unwrap());
    assert!(matches!(decode.absorb(&bad), Err(Error::UnknownToken { last: 1, .. })));
}

#[test]
fn an_uncertainty_that_is_not_one_minus_c_is_an_error() {
    // A denoiser that leaves it at 0 would turn ADAS off without a word.
    let mut decode = Setup::masks(4).decode("topk:2+ad").unwrap();
    let mut bad = answer(&decode);
    bad.rows[1].uncertainty = 0.0;
    assert!(matches!(decode.absorb(&bad), Err(Error::BadValue { what: "uncertainty", index: 1, .. })));
}

#[test]
fn a_failed_decode_leaves_the_pool() {
    let stuck = Policy::Commits(Box::new(Always(|_, _| Verdict::Wait)));
    let mut pool = Pool::new();
    pool.add(Decode::new(Canvas::prompt(&[], 1, MASK), stuck).unwrap());
    assert!(pool.round(&mut Phrases::default()).unwrap()[0].step.is_ok(), "it may wait once");
    assert!(matches!(pool.round(&mut Phrases::default()).unwrap()[0].step, Err(Error::Stalled { .. })));
    assert!(pool.is_empty());
}

#[test]
fn credit_records_the_models_probability_of_what_it_writes() {
    for seed in 0..50 {
        let setup = Setup::masks(12).sampled(1.5, seed);
        let outcome = setup.must_run("credit:0.95@beta=1@alpha=3");
        for (canvas, step) in setup.replay(&outcome.steps) {
            for commit in &step.commits {
                let p = Toy::phrases(12).conditional(canvas.tokens(), commit.position)[commit.token as usize];
                assert!((p - commit.confidence).abs() < 1e-6, "seed {seed}, step {}: {p}, {commit:?}", step.step);
            }
        }
    }
}

fn trace_of(outcome: Outcome, length: usize, sampler: &str) -> Trace {
    let header = Header {
        cofill_trace: VERSION,
        sampler: spec(sampler).form(),
        model: "toy".into(),
        tokens: vec![MASK as TokenId; length],
        mask_id: MASK,
        block: None,
        temperature: 0.0,
        seed: 0,
        pieces: Vec::new(),
        probes: 0,
    };
    Trace { header, steps: outcome.steps, end: None }
}

#[test]
fn the_same_rule_is_never_said_to_differ() {
    // When the discounted favourite was refused, the diff blamed the rule: fast:7.5 against fast:7.5+ad on 36.
    for length in [12, 24, 36] {
        for i in 1..80 {
            for rule in ["fast", "eb"] {
                let base = format!("{rule}:{}", 0.25 * f64::from(i));
                let ad = format!("{base}+ad");
                let trace = |sampler: &str| trace_of(Setup::masks(length).must_run(sampler), length, sampler);
                let parted = diff(&trace(&base), &trace(&ad));
                let blamed = matches!(parted, Some(Difference::Step { why: Why::Rule { .. }, .. }));
                assert!(!blamed, "{base} on {length}: {parted:?}");
            }
        }
    }
}

#[test]
fn right_context_anchors_an_infill() {
    // DAWN saw only what stood left of the last mask. Position 1 is revealed, to the right of the only mask, and vouches for it.
    let canvas = Canvas::new(vec![MASK, 6], MASK);
    let mut decode = Decode::new(canvas, spec("dawn:0.3,1,0.07,0.9").build().unwrap()).unwrap();
    let mut prediction = answer(&decode);
    prediction.rows[1].confidence = 0.95;
    prediction.rows[1].uncertainty = 0.05;
    let step = decode.absorb(&prediction).unwrap().unwrap();
    assert!(!step.forced, "induced by its right neighbour, not forced: {step:?}");
}

#[test]
fn traces_do_not_name_what_is_not_there() {
    let header = r#"{"cofill_trace":1,"sampler":"topk:1","model":"toy","tokens":[24,24],"mask_id":24,"temperature":0.0,"seed":0}"#;
    let commit = r#"{"position":0,"token":1,"confidence":0.5,"entropy":1.0,"score":0.5,"utility":0.5}"#;
    let step = |number: usize, masked: usize, more: &str| {
        format!(
            r#"{{"step":{number},"forwards":1,"n_masked":{masked},"candidates":2,"commits":[{commit}],"forced":false{more}}}"#
        )
    };
    let read = |line: &str| Trace::read(format!("{header}\n{line}\n").as_bytes());
    assert!(read(&step(0, 2, "")).is_ok());
    let deferred = r#","deferred":{"position":1,"confidence":0.5,"instead":0,"by":999,"discount":1.0,"waits":true}"#;
    for (line, mentions) in [
        (step(0, 2, deferred), "999"),
        (step(0, 2, r#","colour":3"#), "colour"),
        (step(3, 2, ""), "step 3 where step 0"),
        (step(0, 1, ""), "n_masked"),
    ] {
        match read(&line) {
            Err(Error::Trace { line: 2, problem }) => assert!(problem.contains(mentions), "{problem}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    let whole = |nfe: usize| {
        let second = step(1, 1, "").replace(r#""position":0"#, r#""position":1"#);
        Trace::read(format!("{header}\n{}\n{second}\n{{\"nfe\":{nfe},\"tokens\":[1,1]}}\n", step(0, 2, "")).as_bytes())
    };
    assert!(whole(2).is_ok() && whole(1).is_err() && whole(3).is_err());
}

#[test]
fn the_forwards_of_a_capped_step_are_counted() {
    let mut decode = Setup::masks(8).capped(2).decode("punt:0.01").unwrap();
    let steps = cofill::generate(&mut Phrases::default(), &mut decode).unwrap();
    assert!(steps.is_empty() && decode.nfe() == 2, "two probes, no step");
    let mut trace = trace_of(Outcome { steps, tokens: Vec::new(), nfe: 2 }, 8, "punt:0.01");
    assert_eq!(trace.nfe(), 0);
    trace.end =
        Some(cofill::trace::End { nfe: 2, tokens: decode.canvas().tokens().to_vec(), appended: 0, cache: None });
    assert_eq!(trace.nfe(), 2);
}

#[test]
fn an_end_of_text_that_counts_for_nothing_goes_last() {
    // `demote` is `confidence_eos_eot_inf`. Only confidences said "last": the margin and the entropy of such a row are those of the tokens
    // that were not proposed, and a discount took others below the 0 that it has.
    let demote: Vec<TokenId> = (0..12).collect();
    let proposal = Proposal::greedy().demote(demote.clone());
    for sampler in [
        "topk:1",
        "topk:1@margin",
        "topk:1@entropy",
        "topk:1@random",
        "topk:3+ad:1000",
        "topk:3@margin+ad",
        "llada:12@entropy",
        "dream:12",
        "dream:12@topk_margin@alg_temp=0.5",
    ] {
        let mut decode = Setup { proposal: proposal.clone(), ..Setup::masks(12) }.decode(sampler).unwrap();
        let mut demoted = 0;
        while let Some(query) = decode.query() {
            let positions = query.rows.to_vec();
            let prediction = answer(&decode);
            let Some(step) = decode.absorb(&prediction).unwrap() else { continue };
            let went = step.commits.iter().filter(|commit| demote.contains(&commit.token)).count();
            let chosen = |position: &usize| step.commits.iter().any(|commit| commit.position == *position);
            let mut left = positions.iter().zip(&prediction.rows).filter(|(position, _)| !chosen(position));
            let waits = left.any(|(_, row)| !demote.contains(&row.token));
            assert!(went == 0 || !waits, "{sampler}: {step:?}");
            demoted += went;
        }
        assert!(demoted > 0, "{sampler}: nothing was to be held back");
    }
}
