//! The paper's argument, in numbers (section 3.3): committing coupled positions together costs their multi-information,
//! whatever the model; ADAS commits other positions first, at the same number of forwards.
//!
//! The toy knows its joint distribution, so the cost of a step is exact, and so is that of a decode, its sum.

use crate::support::{MASK, Outcome, Phrases, Setup, positions};
use cofill::toy::Toy;
use cofill::{Attention, Canvas, Denoiser, Prediction, Query, Result, Step, TokenId, generate};

/// The joint dependence error of a decode, in nats.
fn error(setup: &Setup, outcome: &Outcome) -> f64 {
    let toy = Toy::phrases(setup.canvas.tokens().len());
    setup.replay(&outcome.steps).map(|(canvas, step)| toy.multi_information(canvas.tokens(), &positions(step))).sum()
}

fn run(length: usize, sampler: &str) -> (usize, f64) {
    let setup = Setup::masks(length);
    let outcome = setup.must_run(sampler);
    (outcome.nfe, error(&setup, &outcome))
}

/// The other word of a couple. A sentence is 6 words: a name at 0-1, a verb, a place at 3-4, a word on when.
fn partner(length: usize, position: usize) -> Option<usize> {
    let other = match position % 6 {
        0 | 3 => position + 1,
        1 | 4 => position - 1,
        _ => return None,
    };
    (other < length).then_some(other)
}

#[test]
fn the_error_is_what_the_paper_defines() {
    // KL(q(x, y) ‖ q(x) q(y)) = Σ_x q(x) KL(q(y | x) ‖ q(y)), from nothing but the toy's conditionals.
    let length = 24;
    let toy = Toy::phrases(length);
    for first in (0..length).filter(|i| i % 3 == 0) {
        let second = partner(length, first).unwrap();
        let mut canvas = vec![MASK; length];
        let [q_x, q_y] = [first, second].map(|i| toy.conditional(&canvas, i));
        let mut kl = 0.0;
        for (x, q) in (0..).zip(&q_x).filter(|(_, q)| **q > 0.0) {
            canvas[first] = x;
            let given_x = toy.conditional(&canvas, second);
            kl += q * given_x.iter().zip(&q_y).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
        }
        let said = toy.multi_information(&vec![MASK; length], &[first, second]);
        assert!((said - kl).abs() < 1e-9, "{first}: {said} is not {kl}");
        assert!(kl > 0.1, "couples are coupled");
    }
}

#[test]
fn one_token_a_step_costs_nothing() {
    for sampler in ["topk:1", "topk:1+ad", "topk:1@random", "fast:0", "eb:0"] {
        assert_eq!(run(24, sampler), (24, 0.0), "{sampler}");
    }
}

/// Every step of these decodes.
fn adas_steps() -> Vec<(String, usize, Canvas, Step)> {
    let mut steps = Vec::new();
    for length in [6, 7, 12, 24, 36] {
        let setup = Setup::masks(length);
        let rankings = ["", "@margin", "@random"].into_iter();
        let topk = rankings.flat_map(|r| [1, 2, 3, 4, 5, 8, 12, 16].map(|k| format!("topk:{k}{r}+ad")));
        let fast = (1..30).map(|f| format!("fast:{}+ad", 0.5 * f64::from(f)));
        let eb = (1..30).map(|gamma| format!("eb:{gamma}+ad"));
        for sampler in topk.chain(fast).chain(eb) {
            let outcome = setup.must_run(&sampler);
            let whole =
                setup.replay(&outcome.steps).map(|(canvas, step)| (sampler.clone(), length, canvas, step.clone()));
            steps.extend(whole);
        }
    }
    steps
}

#[test]
fn half_a_couple_costs_the_other_half_more_than_any_confidence() {
    let length = 36;
    let decode = Setup::masks(length).decode("topk:1+ad").unwrap();
    let open = Phrases::default().denoise(&[decode.query().unwrap()]).unwrap().remove(0);
    let attention = open.attention.unwrap();
    for (i, j) in (0..length).filter_map(|i| Some((i, partner(length, i)?))) {
        // The loosest couple has A = .114 and 1 − c = .541: 40·.114·.541 = 2.5.
        let loss = 40.0 * attention.get(i, j) * open.rows[j].uncertainty;
        assert!(loss > 1.0, "{i} loses {loss} when {j} is chosen");
    }
}

#[test]
fn adas_commits_a_couple_only_when_everybody_who_waits_is_coupled_too() {
    // Once one word of an open couple is chosen the other loses more than 1 (see above), so its utility is negative,
    // while whoever was not discounted has c > 0. Margins and random scores lie in [0, 1] as well.
    let mut couples = 0;
    for (sampler, length, canvas, step) in adas_steps() {
        let committed = positions(&step);
        let whole = |&i: &usize| partner(length, i).is_some_and(|j| committed.contains(&j));
        if !committed.iter().any(whole) {
            continue;
        }
        couples += 1;
        for waiting in canvas.masked().filter(|i| !committed.contains(i)) {
            let held_back = partner(length, waiting).is_some_and(|j| committed.contains(&j));
            assert!(held_back, "`{sampler}` on {length}, step {}: {waiting} waits and nobody holds it back", step.step);
        }
    }
    assert!(couples > 0, "some steps take more than there are independent parts, or nothing was tested");
}

#[test]
fn a_step_of_adas_costs_nothing_where_that_is_possible() {
    // n picks cost nothing exactly when they come from n different parts; ADAS finds them whenever there are that many.
    let (mut free, mut dear) = (0, 0);
    for (sampler, length, canvas, step) in adas_steps() {
        let is_part = |i: &usize| partner(length, *i).is_none_or(|j| !canvas.is_masked(j) || *i < j);
        let parts = canvas.masked().filter(is_part).count();
        let error = Toy::phrases(length).multi_information(canvas.tokens(), &positions(&step));
        let possible = step.commits.len() <= parts;
        assert_eq!(error == 0.0, possible, "`{sampler}` on {length}, step {}: {error} nats", step.step);
        *(if possible { &mut free } else { &mut dear }) += 1;
    }
    assert!(free > 0 && dear > 0, "{free} steps had enough parts, {dear} had not");
}

#[test]
fn adas_lowers_the_error_of_topk_at_the_same_nfe() {
    let mut table = String::from("joint dependence error in nats; random is the mean of 20 seeds\n");
    table += "length    k  NFE    topk  topk+ad  random\n";
    for length in [12, 24, 36, 48] {
        for k in [2, 4, 8] {
            let (nfe, base) = run(length, &format!("topk:{k}"));
            let (nfe_ad, ad) = run(length, &format!("topk:{k}+ad"));
            let random = |seed| {
                let setup = Setup::masks(length).sampled(0.0, seed);
                error(&setup, &setup.must_run(&format!("topk:{k}@random")))
            };
            let random = (0..20).map(random).sum::<f64>() / 20.0;
            table += &format!("{length:>6}  {k:>3}  {nfe:>3}  {base:>6.3}  {ad:>7.3}  {random:>6.3}\n");
            assert_eq!((nfe, nfe_ad), (length.div_ceil(k), length.div_ceil(k)), "k tokens a step, with or without");
            assert!(ad < base, "length {length}, k {k}: {ad} is not below {base}");
        }
    }
    // Nothing is claimed of random: it mostly misses the couples too, and pays in confidence instead.
    println!("{table}");
}

/// Errors without and with `+ad`, for every parameter of the grid with which the two take the same number of forwards.
/// One forward for all and one for each say nothing and are left out.
fn matched(rule: &str, length: usize, grid: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let row = |x: f64| {
        let (nfe, base) = run(length, &format!("{rule}:{x}"));
        let (nfe_ad, ad) = run(length, &format!("{rule}:{x}+ad"));
        (nfe == nfe_ad && nfe > 1 && nfe < length).then_some((base, ad))
    };
    grid.filter_map(row).collect()
}

#[test]
fn adas_lowers_the_error_of_adaptive_rules_at_the_same_nfe() {
    let mut table =
        String::from("mean joint dependence error in nats, where base and `+ad` take equally many forwards\n");
    table += "rule  length  matched  lower  higher    base      ad\n";
    for length in [12, 24, 36, 48] {
        for rule in ["fast", "eb"] {
            let rows = matched(rule, length, (1..120).map(|i| 0.25 * f64::from(i)));
            let n = rows.len() as f64;
            let base = rows.iter().map(|row| row.0).sum::<f64>() / n;
            let ad = rows.iter().map(|row| row.1).sum::<f64>() / n;
            let lower = rows.iter().filter(|(base, ad)| *ad < base - 1e-9).count();
            let higher = rows.iter().filter(|(base, ad)| *ad > base + 1e-9).count();
            table += &format!("{rule:<4}  {length:>6}  {n:>7}  {lower:>5}  {higher:>6}  {base:>6.3}  {ad:>6.3}\n");
            // Not a theorem (the decodes part after a step, and luck is possible later), but so on the whole grid.
            assert_eq!(higher, 0, "{rule} on {length}");
            assert!(lower >= 10 && ad < 0.6 * base, "{rule} on {length}: {lower} lower, {ad} against {base}");
        }
    }
    println!("{table}");
}

#[test]
fn topk_writes_names_that_do_not_exist_and_adas_does_not() {
    for length in [6, 12, 18] {
        let [base, ad] = ["topk:4", "topk:4+ad"].map(|sampler| Setup::masks(length).must_run(sampler));
        assert_eq!(base.nfe, ad.nfe, "at the same price");
        let toy = Toy::phrases(length);
        assert_eq!(toy.log_probability(&base.tokens), f64::NEG_INFINITY, "length {length}");
        assert!(toy.log_probability(&ad.tokens).is_finite(), "length {length}");
        // And what it writes is as likely as what the slowest decode writes.
        let slow = Setup::masks(length).must_run("topk:1");
        assert!((toy.log_probability(&ad.tokens) - toy.log_probability(&slow.tokens)).abs() < 1e-9);
    }
}

/// A toy that attends to nobody.
struct Blind(Phrases);

impl Denoiser for Blind {
    fn mask_id(&self) -> TokenId {
        self.0.mask_id()
    }

    fn vocab(&self) -> usize {
        self.0.vocab()
    }

    fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
        let mut answers = self.0.denoise(batch)?;
        for answer in &mut answers {
            answer.attention = answer.attention.take().map(|a| Attention::from_fn(a.len(), |_, _| 0.0));
        }
        Ok(answers)
    }
}

#[test]
fn without_attention_there_is_nothing_to_discount() {
    for temperature in [0.0, 0.8] {
        for sampler in ["topk:4", "fast:2", "eb:3", "topk:3@margin", "threshold:0.4", "llada:6", "dream:7"] {
            let setup = Setup::masks(24).sampled(temperature, 5);
            let mut decode = setup.decode(&format!("{sampler}+ad")).unwrap();
            let blind = generate(&mut Blind(Phrases::default()), &mut decode).unwrap();
            assert_eq!(blind, setup.must_run(sampler).steps, "{sampler}");
        }
    }
}
