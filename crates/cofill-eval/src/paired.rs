//! Is a gain at one operating point more than chance? The same questions, answered twice.
//!
//! The paper's interval is over operating points and says so: "not a paired per-example significance test". These are. Both compare the
//! answers of two samplers to the same questions, so what makes a question hard for both cancels.
//!
//! - **Bootstrap**: a question's score on the discounted curve at the base point's NFE is interpolated between the two neighbouring points
//!   exactly as the mean is ([`crate::matched`]), so that the mean of the differences *is* the matched gain; questions are resampled, the
//!   NFE of the points are taken as given.
//! - **McNemar**, exact: counts questions that only one of two samplers got right. It cannot interpolate, so it takes the discounted point
//!   with the nearest NFE, if that is within [`NEAR`] of the base point's, and tells which.
//!
//! With many operating points some look significant by luck; [`holm`] corrects for their number.

use crate::bootstrap::{Bootstrap, Estimate, LEVEL};
use crate::matched::LOW_NFE;
use crate::points::{BASE, Key, Outcome, Point, Points};
use serde::Serialize;

/// How far apart, as a share of the base point's NFE, points may lie that McNemar's test compares.
pub const NEAR: f64 = 0.1;

/// A base point against the discounted curve, question by question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// Which model.
    pub model: String,
    /// Which task.
    pub task: String,
    /// Which rule.
    pub rule: String,
    /// The base point's parameter.
    pub param: String,
    /// Which discount.
    pub variant: String,
    /// The base point's NFE.
    pub nfe: f64,
    /// Whether it is in the regime of which the paper speaks.
    pub low_nfe: bool,
    /// Questions.
    pub n: usize,
    /// The matched gain in points, with its interval over questions.
    pub gain: Estimate,
    /// Twice the share of resamples on the other side of zero.
    pub p_bootstrap: f64,
    /// The exact test at the nearest point.
    pub mcnemar: Option<McNemar>,
    /// Its p-value, corrected for the number of such tests in this report.
    pub p_holm: Option<f64>,
}

/// Questions on which two samplers differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct McNemar {
    /// The discounted point's parameter.
    pub param: String,
    /// Its NFE.
    pub nfe: f64,
    /// Right only without the discount.
    pub only_base: usize,
    /// Right only with it.
    pub only_discounted: usize,
    /// How likely a split at least as uneven is, if both are equally good.
    pub p: f64,
}

/// Tests every base point whose questions are known against the curve of `variant`. Points that were asked other questions are passed over.
pub fn paired(points: &Points, variant: &str, bootstrap: Bootstrap) -> Vec<Paired> {
    let base = points.all().iter().filter(|point| point.variant == BASE && !point.outcomes.is_empty());
    let mut tests: Vec<Paired> = base
        .filter_map(|base| {
            let curve = points.curve(Key { variant, ..base.key() });
            test(base, &curve, bootstrap)
        })
        .collect();
    let raw: Vec<f64> = tests.iter().filter_map(|test| test.mcnemar.as_ref()).map(|mcnemar| mcnemar.p).collect();
    let corrected = holm(&raw);
    let with = tests.iter_mut().filter(|test| test.mcnemar.is_some());
    with.zip(corrected).for_each(|(test, p)| test.p_holm = Some(p));
    tests
}

fn test(base: &Point, curve: &[&Point], bootstrap: Bootstrap) -> Option<Paired> {
    let mut curve: Vec<&Point> = curve.iter().copied().filter(|point| same_questions(base, point)).collect();
    curve.sort_by(|a, b| a.nfe.total_cmp(&b.nfe));
    // Points with the same NFE count as one with their mean score, as in the matched curve.
    let knots: Vec<&[&Point]> = curve.chunk_by(|a, b| a.nfe == b.nfe).collect();
    let nfe = |knot: usize| knots[knot][0].nfe;
    let above = knots.iter().position(|knot| knot[0].nfe >= base.nfe)?;
    let below = if nfe(above) == base.nfe { above } else { above.checked_sub(1)? };
    let share = if above > below { (base.nfe - nfe(below)) / (nfe(above) - nfe(below)) } else { 0.0 };
    let score = |knot: usize, question: usize| {
        let scores = knots[knot].iter().map(|point| point.outcomes[question].score);
        scores.sum::<f64>() / knots[knot].len() as f64
    };
    let gain = |(i, base): (usize, &Outcome)| {
        let (low, high) = (score(below, i), score(above, i));
        100.0 * (low + share * (high - low) - base.score)
    };
    let gains: Vec<f64> = base.outcomes.iter().enumerate().map(gain).collect();
    let mean = |drawn: &[usize]| drawn.iter().map(|&i| gains[i]).sum::<f64>() / drawn.len() as f64;
    let replicates = bootstrap.replicates(gains.len(), mean);
    let interval = replicates.interval(LEVEL)?;
    let nearest = curve.iter().min_by(|a, b| (a.nfe - base.nfe).abs().total_cmp(&(b.nfe - base.nfe).abs()))?;
    let near = (nearest.nfe - base.nfe).abs() <= NEAR * base.nfe;
    Some(Paired {
        model: base.model.clone(),
        task: base.task.clone(),
        rule: base.rule.clone(),
        param: base.param.clone(),
        variant: nearest.variant.clone(),
        nfe: base.nfe,
        low_nfe: base.tokens_per_forward >= LOW_NFE,
        n: gains.len(),
        gain: Estimate { value: gains.iter().sum::<f64>() / gains.len() as f64, interval },
        p_bootstrap: two_sided(replicates.sorted()),
        mcnemar: near.then(|| McNemar::of(base, nearest)).flatten(),
        p_holm: None,
    })
}

fn same_questions(a: &Point, b: &Point) -> bool {
    a.outcomes.len() == b.outcomes.len() && a.outcomes.iter().zip(&b.outcomes).all(|(a, b)| a.prompt == b.prompt)
}

/// Twice the share of replicates at or beyond zero, on the side that has fewer; one is added, for no p-value is zero.
fn two_sided(replicates: &[f64]) -> f64 {
    let side = |beyond: &dyn Fn(&&f64) -> bool| replicates.iter().filter(beyond).count();
    let fewer = side(&|gain| **gain <= 0.0).min(side(&|gain| **gain >= 0.0));
    (2.0 * (fewer + 1) as f64 / (replicates.len() + 1) as f64).min(1.0)
}

impl McNemar {
    /// Counts; none when a score is neither right nor wrong.
    fn of(base: &Point, discounted: &Point) -> Option<McNemar> {
        let (mut only_base, mut only_discounted) = (0, 0);
        for (b, d) in base.outcomes.iter().zip(&discounted.outcomes) {
            match (b.score, d.score) {
                (1.0, 0.0) => only_base += 1,
                (0.0, 1.0) => only_discounted += 1,
                (0.0 | 1.0, 0.0 | 1.0) => {}
                _ => return None,
            }
        }
        let (param, nfe, p) = (discounted.param.clone(), discounted.nfe, exact(only_base, only_discounted));
        Some(McNemar { param, nfe, only_base, only_discounted, p })
    }
}

/// The exact test: how likely n = b + c fair flips split at least as unevenly as b to c,
/// p = min(1, 2 Σ_{k ≤ min(b, c)} C(n, k) / 2^n).
pub fn exact(b: usize, c: usize) -> f64 {
    let n = b + c;
    // In logarithms: 2^-n is no number beyond n = 1074. ln C(n, k) grows by ln((n − k) / (k + 1)).
    let mut ln_choose = 0.0;
    let mut sum = 0.0;
    for k in 0..=b.min(c) {
        sum += f64::exp(ln_choose - n as f64 * std::f64::consts::LN_2);
        ln_choose += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    (2.0 * sum).min(1.0)
}

/// Holm's correction: the smallest of m p-values times m, the next times m − 1, and so on, never below the one before.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = vec![0.0; p.len()];
    let mut highest = 0f64;
    for (rank, &i) in order.iter().enumerate() {
        highest = highest.max((p[i] * (p.len() - rank) as f64).min(1.0));
        corrected[i] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::ADAS;
    use crate::points::tests::point;
    use proptest::prelude::*;

    fn answered(sampler: (&str, &str, &str), nfe: f64, scores: &[f64]) -> Point {
        let outcome = |(i, score): (usize, &f64)| Outcome { prompt: i.to_string(), score: *score };
        let outcomes = scores.iter().enumerate().map(outcome).collect();
        let mean = 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
        Point { outcomes, ..point(sampler, mean, nfe) }
    }

    #[test]
    fn exact_tests_of_known_splits() {
        // 1 to 5: 2 (1 + 6) / 64. 0 to 4: 2 / 16. Even splits prove nothing.
        assert!((exact(1, 5) - 14.0 / 64.0).abs() < 1e-12);
        assert!((exact(4, 0) - 0.125).abs() < 1e-12);
        assert_eq!((exact(3, 3), exact(0, 0)), (1.0, 1.0));
        // 950 to 1050 is 49.5 from even, with a deviation of √2000 / 2 = 22.36 each: 2.214 of them, p = .0268, though 2^-2000 is no number.
        assert!((exact(950, 1050) - 0.0268).abs() < 5e-4, "{}", exact(950, 1050));
    }

    #[test]
    fn corrections_of_known_p_values() {
        // Sorted: .01 · 3, .02 · 2 = .04, .04 · 1 stays at .04.
        assert_eq!(holm(&[0.04, 0.01, 0.02]), [0.04, 0.03, 0.04]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_paired_gain_is_the_matched_gain() {
        // At 4 forwards, halfway between 3 (all wrong but the first) and 5 (all right): questions gain 1 − 1, ½ − 0, ½ − 0, ½ − 1.
        let base = answered(("eb", "1", BASE), 4.0, &[1.0, 0.0, 0.0, 1.0]);
        let low = answered(("eb", "2", ADAS), 3.0, &[1.0, 0.0, 0.0, 0.0]);
        let high = answered(("eb", "1", ADAS), 5.0, &[1.0; 4]);
        let points = Points::new(vec![base, low, high]).unwrap();
        let tests = paired(&points, ADAS, Bootstrap::default());
        let [test] = &tests[..] else { panic!("{tests:?}") };
        assert_eq!((test.n, test.gain.value, test.low_nfe), (4, 12.5, true));
        assert_eq!(test.gain.value, crate::matched::matched(&points, ADAS).gains[0].gain);
        assert!(test.gain.interval.low >= -50.0 && test.gain.interval.high <= 50.0 && test.p_bootstrap > 0.3);
        assert_eq!(test.mcnemar, None, "the nearest point is a quarter away");
    }

    #[test]
    fn equal_costs_count_once() {
        // Two points at 3 forwards have one and three right: on average 1, ½, ½, 0. A third of the way to 6, where all are right, that is
        // 1, ⅔, ⅔, ⅓: two thirds on average, against ½ of the base.
        let base = answered(("eb", "1", BASE), 4.0, &[1.0, 0.0, 0.0, 1.0]);
        let one = answered(("eb", "3", ADAS), 3.0, &[1.0, 0.0, 0.0, 0.0]);
        let other = answered(("eb", "2", ADAS), 3.0, &[1.0, 1.0, 1.0, 0.0]);
        let high = answered(("eb", "1", ADAS), 6.0, &[1.0; 4]);
        let points = Points::new(vec![base, one, other, high]).unwrap();
        let gain = paired(&points, ADAS, Bootstrap::default())[0].gain.value;
        assert!((gain - 100.0 / 6.0).abs() < 1e-9, "{gain}");
        assert!((gain - crate::matched::matched(&points, ADAS).gains[0].gain).abs() < 1e-9);
    }

    #[test]
    fn the_nearest_point_is_tested_exactly() {
        let base = answered(("topk", "4", BASE), 4.0, &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        let adas = answered(("topk", "4", ADAS), 4.0, &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
        let tests = paired(&Points::new(vec![base.clone(), adas]).unwrap(), ADAS, Bootstrap::default());
        let McNemar { only_base, only_discounted, p, .. } = tests[0].mcnemar.clone().unwrap();
        assert_eq!((only_base, only_discounted, p), (1, 5, exact(1, 5)));
        assert_eq!(tests[0].p_holm, Some(p), "one test needs no correction");
        // Other questions, or none at all, are not compared; nor is what lies outside the curve.
        let other = answered(("topk", "4", ADAS), 4.0, &[1.0; 3]);
        assert!(paired(&Points::new(vec![base.clone(), other]).unwrap(), ADAS, Bootstrap::default()).is_empty());
        let outside = answered(("topk", "4", ADAS), 5.0, &[1.0; 7]);
        assert!(paired(&Points::new(vec![base, outside]).unwrap(), ADAS, Bootstrap::default()).is_empty());
    }

    #[test]
    fn partial_scores_have_no_exact_test() {
        let base = answered(("topk", "4", BASE), 4.0, &[0.5, 0.0]);
        let adas = answered(("topk", "4", ADAS), 4.0, &[1.0, 1.0]);
        let tests = paired(&Points::new(vec![base, adas]).unwrap(), ADAS, Bootstrap::default());
        assert_eq!((tests[0].gain.value, tests[0].mcnemar.clone()), (75.0, None));
    }

    proptest! {
        #[test]
        fn the_exact_test_is_symmetric_and_a_probability(b in 0..400usize, c in 0..400usize) {
            prop_assert_eq!(exact(b, c), exact(c, b));
            prop_assert!(exact(b, c) > 0.0 && exact(b, c) <= 1.0);
        }
    }
}
