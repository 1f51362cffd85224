//! Faulty denoisers, faulty samplers, bare numbers that are wrong: each fault is its own error, and the canvas is as it was.

use crate::support::{MASK, Phrases, Setup, spec};
use cofill::{
    Attention, Canvas, Decode, Denoiser, Distributions, Error, Needs, Pick, Picks, Policy, Prediction,
    RemaskingSampler, Result, Revision, Sampler, Scope, Slot, Snapshot, StepView, Verdict,
};

/// The honest answer to what `decode` asks.
fn answer(decode: &Decode) -> Prediction {
    Phrases::default().denoise(&[decode.query().unwrap()]).unwrap().remove(0)
}

/// Spoils the second answer of a decode: it must be refused, change nothing, and leave room for a good one.
#[track_caller]
fn check(sampler: &str, spoil: impl FnOnce(&mut Prediction), expected: impl FnOnce(&Error) -> bool) {
    let setup = Setup::masks(8);
    let mut decode = setup.decode(sampler).unwrap();
    decode.absorb(&answer(&decode)).unwrap();
    let (canvas, nfe) = (decode.canvas().clone(), decode.nfe());

    let mut bad = answer(&decode);
    spoil(&mut bad);
    let error = decode.absorb(&bad).expect_err("a spoilt prediction is refused");
    assert!(expected(&error), "{error:?}");
    assert_eq!((decode.canvas(), decode.nfe()), (&canvas, nfe), "the decode is as it was");

    cofill::generate(&mut Phrases::default(), &mut decode).unwrap();
    assert_eq!(decode.canvas().tokens(), setup.must_run(sampler).tokens, "as if nothing had happened");
}

fn not_finite(field: &'static str) -> impl FnOnce(&Error) -> bool {
    move |error| matches!(error, Error::NotFinite { what, index: 1, .. } if *what == field)
}

fn bad_value(field: &'static str) -> impl FnOnce(&Error) -> bool {
    move |error| matches!(error, Error::BadValue { what, index: 2, .. } if *what == field)
}

#[test]
fn numbers_that_cannot_be_ranked() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        check("topk:2", |p| p.rows[1].confidence = bad, not_finite("confidence"));
        check("topk:2", |p| p.rows[1].uncertainty = bad, not_finite("uncertainty"));
        check("topk:2", |p| p.rows[1].margin = bad, not_finite("margin"));
        check("topk:2", |p| p.rows[1].entropy = bad, not_finite("entropy"));
    }
}

#[test]
fn numbers_outside_their_range() {
    check("topk:2", |p| p.rows[2].confidence = 1.01, bad_value("confidence"));
    check("topk:2", |p| p.rows[2].confidence = -0.01, bad_value("confidence"));
    check("topk:2", |p| p.rows[2].margin = 2.0, bad_value("margin"));
    check("topk:2", |p| p.rows[2].entropy = -0.5, bad_value("entropy"));
}

/// The same attention with one entry changed.
fn with_entry(p: &Prediction, at: (usize, usize), value: f64) -> Option<Attention> {
    let honest = p.attention.as_ref().unwrap();
    Some(Attention::from_fn(honest.len(), |q, k| if (q, k) == at { value } else { honest.get(q, k) }))
}

#[test]
fn attention_that_is_none() {
    let range = |e: &Error| matches!(e, Error::BadAttention { query: 1, key: 2, .. });
    check("topk:2+ad", |p| p.attention = with_entry(p, (1, 2), f64::NAN), range);
    check("topk:2+ad", |p| p.attention = with_entry(p, (1, 2), -0.1), range);
    check("topk:2+ad", |p| p.attention = with_entry(p, (1, 2), 1.1), range);
    let missing = |e: &Error| matches!(e, Error::Missing { what: "attention" });
    check("topk:2+ad", |p| p.attention = None, missing);
    let length = |e: &Error| matches!(e, Error::Length { what: "attention", want: 6, got: 5, .. });
    check("topk:2+ad", |p| p.attention = Some(Attention::from_fn(5, |_, _| 0.0)), length);
    // Whoever does not ask for attention does not look at it.
    let mut decode = Setup::masks(8).decode("topk:2").unwrap();
    let mut odd = answer(&decode);
    odd.attention = Some(Attention::from_fn(3, |_, _| f64::NAN));
    assert!(decode.absorb(&odd).is_ok());
}

#[test]
fn attention_of_the_whole_canvas() {
    // DAWN asks for all eight rows, so that is what must come.
    let length = |e: &Error| matches!(e, Error::Length { what: "attention", want: 8, got: 7, .. });
    check("dawn", |p| p.attention = Some(Attention::from_fn(7, |_, _| 0.0)), length);
    check("dawn", |p| p.attention = None, |e| matches!(e, Error::Missing { what: "attention" }));
    check("dawn", |p| p.rows.truncate(7), |e| matches!(e, Error::Length { what: "rows", want: 8, got: 7, .. }));
}

#[test]
fn distributions_that_are_none() {
    check("credit:1", |p| p.distributions = None, |e| matches!(e, Error::Missing { what: "distributions" }));
    // Nothing is boosted to a confidence of 1, so one of the eight was committed and seven rows are due.
    let length = |e: &Error| matches!(e, Error::Length { what: "distributions", want: 7, got: 1, .. });
    check("credit:1", |p| p.distributions = Some(Distributions::new(25, vec![0.04; 25]).unwrap()), length);
    let nan = |e: &Error| matches!(e, Error::NotFinite { what: "distributions", index: 0, .. });
    check("credit:1", |p| p.distributions = Some(Distributions::new(25, vec![f32::NAN; 175]).unwrap()), nan);
}

#[test]
fn rows_that_were_not_asked_for() {
    let fewer = |e: &Error| matches!(e, Error::Length { what: "rows", want: 6, got: 5, .. });
    check("topk:2", |p| p.rows.truncate(5), fewer);
    let more = |e: &Error| matches!(e, Error::Length { what: "rows", want: 6, got: 7, .. });
    check("topk:2", |p| p.rows.push(p.rows[0]), more);
}

#[test]
fn the_mask_as_a_proposal() {
    // topk:1 has committed position 2, the surest word; row 2 of the rest is position 3.
    let proposed = |e: &Error| matches!(e, Error::MaskProposed { position: 3, mask_id: MASK });
    check("topk:1", |p| p.rows[2].token = MASK, proposed);
}

#[test]
fn a_probe_may_be_spoilt_and_asked_again() {
    let setup = Setup::masks(8);
    let mut decode = setup.decode("punt").unwrap();
    assert!(decode.absorb(&answer(&decode)).unwrap().is_none(), "eight candidates are tested by probes");
    let mut bad = answer(&decode);
    bad.rows[0].confidence = f64::NAN;
    assert!(matches!(decode.absorb(&bad), Err(Error::NotFinite { .. })));
    cofill::generate(&mut Phrases::default(), &mut decode).unwrap();
    let alone = setup.must_run("punt");
    assert_eq!((decode.canvas().tokens(), decode.nfe()), (alone.tokens.as_slice(), alone.nfe));
}

#[test]
fn absorb_after_the_end() {
    let mut decode = Setup::masks(2).decode("topk:2").unwrap();
    let prediction = answer(&decode);
    decode.absorb(&prediction).unwrap();
    let canvas = decode.canvas().clone();
    assert!(matches!(decode.absorb(&prediction), Err(Error::NothingAsked)));
    let mut capped = Setup::masks(2).capped(1).decode("topk:1").unwrap();
    capped.absorb(&prediction).unwrap();
    assert!(matches!(capped.absorb(&prediction), Err(Error::NothingAsked)), "a cap is an end too");
    assert_eq!((decode.canvas(), decode.nfe(), capped.nfe()), (&canvas, 1, 1));
}

/// A sampler made of a function.
struct Act<F>(F);

impl<F: FnMut(&StepView<'_>, &mut Picks) -> Verdict + Send> Sampler for Act<F> {
    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        Ok((self.0)(view, picks))
    }
}

/// Decodes `?  ?  19` with a faulty sampler until it is refused; the canvas must then be what it was before that step.
#[track_caller]
fn refused<F>(act: F) -> Error
where
    F: FnMut(&StepView<'_>, &mut Picks) -> Verdict + Send + 'static,
{
    refused_policy(Policy::Commits(Box::new(Act(act))))
}

#[track_caller]
fn refused_policy(policy: Policy) -> Error {
    let mut decode = Decode::new(Canvas::new(vec![MASK, MASK, 19], MASK), policy).unwrap();
    for _ in 0..10 {
        let before = decode.canvas().clone();
        if let Err(error) = decode.absorb(&answer(&decode)) {
            assert_eq!(decode.canvas(), &before, "half a step is no step");
            return error;
        }
    }
    panic!("ten forwards for two masks, and no complaint");
}

#[test]
fn a_sampler_that_commits_nothing() {
    let error = refused(|_, _| Verdict::Commit);
    assert!(matches!(error, Error::NothingSelected { step: 0 }), "{error:?}");
}

#[test]
fn a_sampler_from_elsewhere_that_cannot_decide() {
    /// It has picked somebody already when it fails.
    struct Broken;
    impl Sampler for Broken {
        fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
            picks.push(view, Slot(0), 0.0);
            Err(Error::Sampler("division by zero".into()))
        }
    }
    let error = refused_policy(Policy::Commits(Box::new(Broken)));
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!((error.to_string().as_str(), source.as_deref()), ("the sampler failed", Some("division by zero")));
}

#[test]
fn a_sampler_that_picks_twice() {
    let error = refused(|view, picks| {
        picks.push(view, Slot(1), 0.0);
        picks.push(view, Slot(1), 0.0);
        Verdict::Commit
    });
    assert!(matches!(error, Error::AlreadyCommitted { position: 1, .. }), "{error:?}");
}

#[test]
fn a_sampler_that_writes_where_it_may_not() {
    let at = |position: usize| {
        refused(move |view, picks| {
            picks.push(view, Slot(0), 0.0); // a good pick first, which must not be kept
            picks.add(Pick { position, ..Pick::of(view, Slot(1), 0.0) });
            Verdict::Commit
        })
    };
    assert!(matches!(at(2), Error::Contract { who: "sampler", .. }), "a given token");
    assert!(matches!(at(3), Error::Contract { who: "sampler", .. }), "beyond the canvas");
}

#[test]
fn a_sampler_that_writes_a_mask() {
    let error = refused(|view, picks| {
        picks.add(Pick { token: view.mask_id, ..Pick::of(view, Slot(0), 0.0) });
        Verdict::Commit
    });
    assert!(matches!(error, Error::MaskProposed { position: 0, mask_id: MASK }), "{error:?}");
}

#[test]
fn a_sampler_that_never_ends() {
    // Two masks, so two forwards were promised.
    let waits = refused(|_, _| Verdict::Wait);
    assert!(matches!(waits, Error::Stalled { masks: 2, nfe: 2 }), "{waits:?}");
    let probes = refused(|_, _| Verdict::Reveal(Vec::new()));
    assert!(matches!(probes, Error::Stalled { masks: 2, nfe: 2 }), "{probes:?}");
}

#[test]
fn a_remasking_sampler_that_takes_back_what_was_given() {
    struct Greedy;
    impl RemaskingSampler for Greedy {
        fn needs(&self) -> Needs {
            Needs::default().scope(Scope::Free)
        }
        fn begin(&mut self, job: &cofill::Job) -> Result<usize> {
            Ok(job.masks)
        }
        fn revise(&mut self, view: &StepView<'_>, revision: &mut Revision) -> Result<Verdict> {
            revision.picks.push(view, Slot(0), 0.0);
            revision.remask.push(2);
            Ok(Verdict::Commit)
        }
    }
    let error = refused_policy(Policy::Remasks(Box::new(Greedy)));
    assert!(matches!(error, Error::NotFree { position: 2 }), "{error:?}");
}

#[test]
fn a_samplers_own_error_is_passed_on() {
    struct Fails;
    impl Sampler for Fails {
        fn select(&mut self, _: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
            picks.forced = true;
            Err(Error::Missing { what: "patience" })
        }
    }
    let error = refused_policy(Policy::Commits(Box::new(Fails)));
    assert!(matches!(error, Error::Missing { what: "patience" }));
}

#[test]
fn impossible_proposals_are_refused_before_the_first_forward() {
    let decode = |temperature| Setup::masks(2).sampled(temperature, 0).decode("topk:1");
    for temperature in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(matches!(decode(temperature), Err(Error::BadSetting { what: "temperature", .. })), "{temperature}");
    }
    assert!(decode(0.7).is_ok());
}

#[test]
fn a_sampler_for_a_layer_the_model_does_not_have() {
    // The toy has one layer. Its refusal comes from the denoiser, through `generate`.
    let mut decode = Setup::masks(2).decode("topk:1+ad@layer=3").unwrap();
    let error = cofill::generate(&mut Phrases::default(), &mut decode).unwrap_err();
    assert!(matches!(error, Error::NoSuchLayer { layer: 3, last: 0 }), "{error:?}");
    assert_eq!(decode.canvas().n_masked(), 2);
    assert_eq!(spec("topk:1+ad@layer=0").build().unwrap().needs().attention, Some(cofill::Layers::Nth(0)));
}

/// What `sampler` says to bare numbers that are wrong.
#[track_caller]
fn snapshot_error(sampler: &str, step: &Snapshot) -> Error {
    step.select(&spec(sampler)).expect_err(sampler)
}

#[test]
fn bare_numbers_that_do_not_fit_together() {
    let c = [0.9, 0.5];
    let error = snapshot_error("topk:1", &Snapshot::new(&[]));
    assert!(matches!(error, Error::NoCandidates), "{error:?}");
    let error = snapshot_error("topk:1", &Snapshot::new(&c).candidates(&[]));
    assert!(matches!(error, Error::NoCandidates), "{error:?}");
    let error = snapshot_error("eb:1", &Snapshot::new(&c).entropy(&[0.1]));
    assert!(matches!(error, Error::Length { what: "entropy", want: 2, got: 1, .. }), "{error:?}");
    let error = snapshot_error("topk:1@margin", &Snapshot::new(&c).margin(&[0.1, 0.2, 0.3]));
    assert!(matches!(error, Error::Length { what: "margin", want: 2, got: 3, .. }), "{error:?}");
    let error = snapshot_error("topk:1+ad", &Snapshot::new(&c).attention(Attention::from_fn(3, |_, _| 0.0)));
    assert!(matches!(error, Error::Length { what: "attention", want: 2, got: 3, .. }), "{error:?}");
    for candidates in [&[1, 0][..], &[0, 0], &[2], &[0, 9]] {
        let error = snapshot_error("topk:1", &Snapshot::new(&c).candidates(candidates));
        assert!(matches!(&error, Error::BadCandidates { below: 2, given } if given == candidates), "{error:?}");
    }
}

#[test]
fn bare_numbers_that_are_missing_or_wrong() {
    let missing = |sampler: &str, field: &str| {
        let error = snapshot_error(sampler, &Snapshot::new(&[0.9, 0.5]));
        assert!(matches!(error, Error::Missing { what } if what == field), "{sampler}: {error:?}");
    };
    missing("eb:1", "entropy");
    missing("topk:1@entropy", "entropy");
    missing("topk:1@margin", "margin");
    missing("topk:1+ad", "attention");
    missing("dawn", "attention");
    let c = |bad: f64| snapshot_error("topk:1", &Snapshot::new(&[0.5, bad]));
    assert!(matches!(c(f64::NAN), Error::NotFinite { what: "confidence", index: 1, .. }));
    assert!(matches!(c(-0.5), Error::BadValue { what: "confidence", index: 1, .. }));
    assert!(matches!(c(1.5), Error::BadValue { what: "confidence", index: 1, .. }));
}

#[test]
fn one_step_is_not_enough_for_every_sampler() {
    let step = Snapshot::new(&[0.9, 0.5]).entropy(&[0.1, 0.2]);
    for sampler in ["klass", "credit", "punt", "lookum", "less", "oracle"] {
        let error = snapshot_error(sampler, &step);
        assert!(matches!(error, Error::NeedsDecode { .. }), "{sampler}: {error:?}");
        assert!(error.to_string().contains("run a whole decode"), "{error}");
    }
}
