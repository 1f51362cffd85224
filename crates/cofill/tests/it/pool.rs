//! Decodes that share a pool become what they would have become alone.

use crate::support::{EXAMPLES, MASK, Outcome, Phrases, Setup};
use cofill::{
    Decode, Denoiser, Error, Finish, Picks, Policy, Pool, Prediction, Query, Result, Sampler, Step, StepView, Ticket,
    TokenId, Verdict,
};
use std::collections::BTreeMap;

/// Every example with a length, a schedule and a seed of its own.
fn setups() -> Vec<(Setup, &'static str)> {
    let setup = |(i, &sampler): (usize, &&'static str)| {
        let setup = Setup::masks(5 + i % 11).sampled(0.25 * (i % 3) as f64, i as u64);
        (setup, sampler)
    };
    EXAMPLES.iter().enumerate().map(setup).collect()
}

/// Rounds until nothing is left, with the steps of each decode.
fn drain(pool: &mut Pool, denoiser: &mut dyn Denoiser) -> BTreeMap<Ticket, Outcome> {
    let mut steps: BTreeMap<Ticket, Vec<Step>> = BTreeMap::new();
    let mut done = BTreeMap::new();
    while !pool.is_empty() {
        for event in pool.round(denoiser).unwrap() {
            steps.entry(event.ticket).or_default().extend(event.step.unwrap());
        }
        for (ticket, finish, decode) in pool.finished() {
            assert_eq!(finish, Finish::Complete);
            let (tokens, nfe) = (decode.canvas().tokens().to_vec(), decode.nfe());
            done.insert(ticket, Outcome { steps: steps.remove(&ticket).unwrap_or_default(), tokens, nfe });
        }
    }
    done
}

#[test]
fn sharing_a_pool_changes_no_decode() {
    let mut pool = Pool::new();
    let tickets: Vec<Ticket> =
        setups().iter().map(|(setup, sampler)| pool.add(setup.decode(sampler).unwrap())).collect();
    let shared = drain(&mut pool, &mut Phrases::default());
    for (ticket, (setup, sampler)) in tickets.iter().zip(setups()) {
        assert_eq!(shared[ticket], setup.must_run(sampler), "`{sampler}` on {setup}");
    }
}

#[test]
fn a_decode_may_join_late_and_another_be_cancelled() {
    let mut pool = Pool::new();
    let [long, short] = [("topk:2+ad", 12), ("eb:0.5", 9)].map(|(s, n)| (s, Setup::masks(n)));
    let stays = pool.add(long.1.decode(long.0).unwrap());
    let leaves = pool.add(short.1.decode(short.0).unwrap());
    let first = pool.round(&mut Phrases::default()).unwrap();
    assert_eq!(first.iter().map(|event| event.ticket).collect::<Vec<_>>(), [stays, leaves]);

    let left = pool.cancel(leaves).unwrap();
    assert_eq!(left.nfe(), 1, "a cancelled decode is handed back as it stands");
    assert!(left.canvas().n_masked() > 0 && left.finish().is_none());
    assert!(pool.get(leaves).is_none() && pool.cancel(leaves).is_none());
    let late = pool.add(short.1.decode(short.0).unwrap());
    assert_ne!(late, leaves, "a ticket is not used twice");
    assert_eq!(pool.len(), 2);

    let mut done = drain(&mut pool, &mut Phrases::default());
    assert_eq!(done.remove(&late), Some(short.1.must_run(short.0)));
    // Its first step was made before `drain` looked.
    let Outcome { steps, tokens, nfe } = long.1.must_run(long.0);
    assert_eq!(done.remove(&stays), Some(Outcome { steps: steps[1..].to_vec(), tokens, nfe }));
    assert!(done.is_empty());
}

#[test]
fn a_cancelled_decode_can_be_finished_elsewhere() {
    let setup = Setup::masks(10);
    let mut pool = Pool::new();
    let ticket = pool.add(setup.decode("fast:2+ad").unwrap());
    pool.round(&mut Phrases::default()).unwrap();
    let mut decode = pool.cancel(ticket).unwrap();
    cofill::generate(&mut Phrases::default(), &mut decode).unwrap();
    assert_eq!(decode.canvas().tokens(), setup.must_run("fast:2+ad").tokens);
}

#[test]
fn capped_decodes_are_finished_too_and_finished_ones_are_not_asked() {
    let mut pool = Pool::new();
    let capped = pool.add(Setup::masks(8).capped(2).decode("topk:1").unwrap());
    let other = pool.add(Setup::masks(8).decode("topk:2").unwrap());
    pool.round(&mut Phrases::default()).unwrap();
    pool.round(&mut Phrases::default()).unwrap();
    let third = pool.round(&mut Phrases::default()).unwrap();
    assert_eq!(third.iter().map(|event| event.ticket).collect::<Vec<_>>(), [other], "the capped one asks no more");
    let finished = pool.finished();
    let [(ticket, Finish::Capped, decode)] = finished.as_slice() else { panic!("{finished:?}") };
    assert_eq!((*ticket, decode.nfe(), decode.canvas().n_masked()), (capped, 2, 6));
}

#[test]
fn an_empty_pool_asks_nobody() {
    struct Never;
    impl Denoiser for Never {
        fn mask_id(&self) -> TokenId {
            MASK
        }
        fn vocab(&self) -> usize {
            25
        }
        fn denoise(&mut self, _: &[Query<'_>]) -> Result<Vec<Prediction>> {
            panic!("nothing was to be asked")
        }
    }
    assert!(Pool::new().round(&mut Never).unwrap().is_empty());
}

/// Waits for ever, though it promised to be quick.
struct Stuck;

impl Sampler for Stuck {
    fn select(&mut self, _: &StepView<'_>, _: &mut Picks) -> Result<Verdict> {
        Ok(Verdict::Wait)
    }
}

#[test]
fn an_error_of_one_decode_is_its_own() {
    let mut pool = Pool::new();
    let before = pool.add(Setup::masks(6).decode("topk:1").unwrap());
    let stuck = pool.add(Decode::new(Setup::masks(2).canvas, Policy::Commits(Box::new(Stuck))).unwrap());
    let after = pool.add(Setup::masks(7).decode("topk:1+ad").unwrap());

    // Two masks allow two forwards; the third is refused.
    for round in 0..3 {
        for event in pool.round(&mut Phrases::default()).unwrap() {
            match (event.step, round) {
                (Err(Error::Stalled { masks: 2, nfe: 2 }), 2) => assert_eq!(event.ticket, stuck),
                (Ok(Some(_)), _) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(pool.get(stuck).is_none(), "who failed has left");
    let done = drain(&mut pool, &mut Phrases::default());
    assert_eq!(done[&before].tokens, Setup::masks(6).must_run("topk:1").tokens);
    assert_eq!(done[&after].tokens, Setup::masks(7).must_run("topk:1+ad").tokens);
}

/// Forgets to answer the last query.
struct Forgetful(Phrases);

impl Denoiser for Forgetful {
    fn mask_id(&self) -> TokenId {
        self.0.mask_id()
    }

    fn vocab(&self) -> usize {
        self.0.vocab()
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        self.0.denoise(&batch[1..])
    }
}

#[test]
fn too_few_predictions_end_the_round_before_anything_changes() {
    let mut pool = Pool::new();
    let tickets = [4, 5, 6].map(|n| pool.add(Setup::masks(n).decode("topk:2").unwrap()));
    let round = pool.round(&mut Forgetful(Phrases::default()));
    assert!(matches!(round, Err(Error::Length { what: "predictions", want: 3, got: 2, .. })), "{round:?}");
    for ticket in tickets {
        let decode = pool.get(ticket).unwrap();
        assert_eq!((decode.nfe(), decode.canvas().n_masked()), (0, decode.canvas().tokens().len()));
    }
    let alone = cofill::generate(&mut Forgetful(Phrases::default()), &mut Setup::masks(4).decode("topk:2").unwrap());
    assert!(matches!(alone, Err(Error::Length { what: "predictions", want: 1, got: 0, .. })));
}

/// Fails like a model whose device is gone.
struct Gone;

impl Denoiser for Gone {
    fn mask_id(&self) -> TokenId {
        MASK
    }

    fn vocab(&self) -> usize {
        25
    }

    fn denoise(&mut self, _: &[Query<'_>]) -> Result<Vec<Prediction>> {
        Err(Error::Denoiser("device lost".into()))
    }
}

#[test]
fn a_failing_model_fails_the_round_and_the_decodes_can_go_on_with_another() {
    let mut pool = Pool::new();
    let ticket = pool.add(Setup::masks(5).decode("topk:2").unwrap());
    assert!(matches!(pool.round(&mut Gone), Err(Error::Denoiser(_))));
    let done = drain(&mut pool, &mut Phrases::default());
    assert_eq!(done[&ticket], Setup::masks(5).must_run("topk:2"));
}

#[test]
fn a_round_of_some_moves_nobody_else() {
    let setup = Setup::masks(8);
    let mut pool = Pool::new();
    let [moves, waits] = [0, 1].map(|_| pool.add(setup.decode("topk:2+ad").unwrap()));
    let mut model = Phrases::default();
    for n in 1..=3 {
        let events = pool.round_of(&[moves], &mut model).unwrap();
        assert_eq!(events.iter().map(|event| event.ticket).collect::<Vec<_>>(), [moves]);
        assert_eq!((pool.get(moves).unwrap().nfe(), pool.get(waits).unwrap().nfe()), (n, 0));
    }
    assert!(pool.round_of(&[], &mut model).unwrap().is_empty());
    let done = drain(&mut pool, &mut model);
    assert_eq!(done[&moves].tokens, done[&waits].tokens, "whoever waited becomes the same");
    assert_eq!(done[&waits], setup.must_run("topk:2+ad"));
}
