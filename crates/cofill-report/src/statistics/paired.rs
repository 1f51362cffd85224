//! Is a gain at one operating point more than chance? The same questions, answered twice.
//!
//! The paper's interval is over operating points and says so: "not a paired per-example significance test". These are. Both compare the
//! answers of two samplers to the same questions, so what makes a question hard for both cancels.
//!
//! - **Bootstrap**: questions are drawn again, each with its scores *and its forwards* at every point, and the gain is matched anew
//!   ([`crate::statistics::matched`]). For where the base point lies on the curve is as uncertain as the scores: taken as given, one question that
//!   needs one forward more would move every resample along the same piece of the curve, and a bend would pass for a sure loss.
//! - **McNemar**, exact: counts questions that only one of two samplers got right. It cannot interpolate, so it takes the discounted point
//!   with the nearest NFE, if that is within [`NEAR`] of the base point's, and tells which.
//!
//! With many operating points some look significant by luck; [`holm`] corrects for their number.

use crate::points::{Key, OperatingPoint, Parameter, PointSampler, Points, Rule, Variant};
use crate::statistics::bootstrap::{Bootstrap, Interval, LEVEL, Replicates};
use crate::statistics::matched::LOW_NFE;
use serde::Serialize;

/// How far apart, as a share of the base point's NFE, points may lie that McNemar's test compares.
pub const NEAR: f64 = 0.1;

/// With fewer questions that differ there is neither interval nor p-value: of n that all differ in one direction, a two-sided sign test has
/// p = 2 / 2^n, which is .0625 for five and .031 for six. A bootstrap knows no such limit. It misses all n in e^-n of its resamples, and would
/// call four of them significant.
pub const ENOUGH: usize = 6;

/// A base point against the discounted curve, question by question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// The model of the base point.
    pub model: String,
    /// The task of the base point.
    pub task: String,
    /// The sampler of both, without parameter and discount.
    pub rule: Rule,
    /// The base point's parameter.
    pub param: Parameter,
    /// The discount that the base point is compared with.
    pub variant: Variant,
    /// The base point's NFE.
    pub nfe: f64,
    /// Whether it is in the regime of which the paper speaks.
    pub low_nfe: bool,
    /// How many questions both were asked.
    pub n: usize,
    /// The matched gain in points.
    pub gain: f64,
    /// Questions that score otherwise at the point of the curve with the nearest NFE: those that speak for or against a gain, and not for a bend.
    pub differing: usize,
    /// The gain's interval over questions; none if fewer than [`ENOUGH`] differ.
    pub interval: Option<Interval>,
    /// Twice the share of resamples that gain nothing or the opposite; none if fewer than [`ENOUGH`] differ.
    pub p_bootstrap: Option<f64>,
    /// The exact test at the nearest point.
    pub mcnemar: Option<McNemar>,
    /// Its p-value, corrected for the number of such tests in this report.
    pub p_holm: Option<f64>,
}

/// Questions on which two samplers differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct McNemar {
    /// The discounted point's parameter.
    pub param: Parameter,
    /// Forwards for a question at that point, on average.
    pub nfe: f64,
    /// Right only without the discount.
    pub only_base: usize,
    /// Right only with it.
    pub only_discounted: usize,
    /// How likely a split at least as uneven is, if both are equally good.
    pub p: f64,
}

/// Tests every base point whose questions are known against the curve of `variant`. Points that were asked other questions are passed over.
pub fn paired(points: &Points, variant: Variant, bootstrap: Bootstrap) -> Vec<Paired> {
    let known = |point: &&OperatingPoint| !point.outcomes.is_empty();
    let mut tests = Vec::new();
    for key in points.curves().into_iter().filter(|key| key.variant == Variant::Base) {
        let mut base: Vec<&OperatingPoint> = points.curve(key).into_iter().filter(known).collect();
        let curve: Vec<&OperatingPoint> = points.curve(Key { variant, ..key }).into_iter().filter(known).collect();
        while let Some(&first) = base.first() {
            let same = |point: &&OperatingPoint| same_questions(first, point);
            let (here, others) = base.into_iter().partition(same);
            let asked = SameQuestions { base: here, curve: curve.iter().copied().filter(same).collect() };
            tests.extend(asked.tests(bootstrap));
            base = others;
        }
    }
    let raw: Vec<f64> = tests.iter().filter_map(|test| test.mcnemar.as_ref()).map(|mcnemar| mcnemar.p).collect();
    let corrected = holm(&raw);
    let with = tests.iter_mut().filter(|test| test.mcnemar.is_some());
    with.zip(corrected).for_each(|(test, p)| test.p_holm = Some(p));
    tests
}

/// Points that were asked the same questions: some of the base, and the discounted curve.
struct SameQuestions<'a> {
    base: Vec<&'a OperatingPoint>,
    curve: Vec<&'a OperatingPoint>,
}

/// A point's scores and forwards over some questions, summed up: whole numbers where scores are 0 or 1, and then exact.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Total {
    score: f64,
    nfe: f64,
}

impl SameQuestions<'_> {
    fn tests(&self, bootstrap: Bootstrap) -> Vec<Paired> {
        let replicates = if self.curve.is_empty() { Vec::new() } else { self.replicates(bootstrap) };
        let tests = self.base.iter().zip(&replicates).map(|(base, replicates)| self.test(base, replicates));
        tests.flatten().collect()
    }

    /// The matched gain of every base point on every resample. All points share the draws, so what they have in common cancels.
    fn replicates(&self, bootstrap: Bootstrap) -> Vec<Replicates> {
        let points: Vec<&OperatingPoint> = self.base.iter().chain(&self.curve).copied().collect();
        let n = points[0].outcomes.len();
        let answer = |question: usize| points.iter().map(move |point| Total::of(point, question));
        let answers: Vec<Total> = (0..n).flat_map(answer).collect(); // [questions x points]
        let mut totals = vec![Total::default(); points.len()];
        let mut gains = vec![Vec::with_capacity(bootstrap.resamples); self.base.len()];
        bootstrap.resample(n, |drawn| {
            totals.fill(Total::default());
            for &question in drawn {
                let row = &answers[question * points.len()..][..points.len()];
                totals.iter_mut().zip(row).for_each(|(total, answer)| total.add(answer));
            }
            let (base, curve) = totals.split_at_mut(self.base.len());
            curve.sort_unstable_by(|a, b| a.nfe.total_cmp(&b.nfe));
            gains.iter_mut().zip(base).for_each(|(gains, base)| gains.push(matched_gain(n, base, curve)));
        });
        gains.into_iter().map(Replicates::of).collect()
    }

    /// None where the curve does not go.
    fn test(&self, base: &OperatingPoint, replicates: &Replicates) -> Option<Paired> {
        let n = base.outcomes.len();
        let mut curve: Vec<Total> = self.curve.iter().map(|point| Total::whole(point)).collect();
        curve.sort_by(|a, b| a.nfe.total_cmp(&b.nfe));
        let here = Total::whole(base);
        if here.nfe < curve.first()?.nfe || here.nfe > curve.last()?.nfe {
            return None;
        }
        let away = |point: &OperatingPoint| (point.nfe - base.nfe).abs();
        let nearest = self.curve.iter().min_by(|a, b| away(a).total_cmp(&away(b)))?;
        let near = away(nearest) <= NEAR * base.nfe;
        let pairs = base.outcomes.iter().zip(&nearest.outcomes);
        let differing = pairs.filter(|(base, nearest)| base.score != nearest.score).count();
        let enough = differing >= ENOUGH;
        let PointSampler { rule, param, .. } = base.sampler.clone();
        Some(Paired {
            model: base.model.clone(),
            task: base.task.clone(),
            rule,
            param,
            variant: nearest.sampler.variant,
            nfe: base.nfe,
            low_nfe: base.tokens_per_forward >= LOW_NFE,
            n,
            gain: matched_gain(n, &here, &curve),
            differing,
            interval: replicates.interval(LEVEL).filter(|_| enough),
            p_bootstrap: enough.then(|| two_sided(replicates.sorted())),
            mcnemar: near.then(|| McNemar::of(base, nearest)).flatten(),
            p_holm: None,
        })
    }
}

impl Total {
    fn of(point: &OperatingPoint, question: usize) -> Total {
        let outcome = &point.outcomes[question];
        Total { score: outcome.score, nfe: outcome.nfe as f64 }
    }

    /// The totals over all of a point's questions.
    fn whole(point: &OperatingPoint) -> Total {
        let mut whole = Total::default();
        (0..point.outcomes.len()).for_each(|question| whole.add(&Total::of(point, question)));
        whole
    }

    fn add(&mut self, other: &Total) {
        self.score += other.score;
        self.nfe += other.nfe;
    }
}

/// The matched gain in points, from totals over n questions; `curve` is sorted by NFE.
///
/// ```text
/// below + (above − below) · along / run − base
/// ```
///
/// is multiplied by `run` before its sign is taken: so whole totals stay whole, and a gain of nothing is exactly 0. Of scores that are not whole, a
/// sum of n is off by at most n ε of itself, and what so much rounding may have left counts as nothing.
fn matched_gain(n: usize, base: &Total, curve: &[Total]) -> f64 {
    let (below, above) = neighbours(base, curve);
    let (run, along) = match above.nfe > below.nfe {
        true => (above.nfe - below.nfe, base.nfe - below.nfe),
        false => (1.0, 0.0), // on a point, or beyond the end
    };
    let gain = (below.score - base.score) * run + (above.score - below.score) * along;
    let summed = (below.score + base.score) * run + (above.score + below.score) * along;
    let rounding = (n + 4) as f64 * f64::EPSILON * summed;
    if gain.abs() <= rounding { 0.0 } else { 100.0 * gain / (run * n as f64) }
}

/// The curve just below and just above the NFE of `base`, both the same on a point. Points with equal NFE count as one with their mean score, as in
/// the matched curve. A resample may lie beyond the curve by chance; it is compared with its end.
fn neighbours(base: &Total, curve: &[Total]) -> (Total, Total) {
    let knot = |nfe: f64| {
        let (mut same, mut count) = (Total::default(), 0.0);
        for point in curve.iter().filter(|point| point.nfe == nfe) {
            same.add(point);
            count += 1.0;
        }
        Total { score: same.score / count, nfe }
    };
    let above = curve.partition_point(|point| point.nfe < base.nfe).min(curve.len() - 1);
    let between = above > 0 && curve[above].nfe > base.nfe;
    let below = if between { above - 1 } else { above };
    (knot(curve[below].nfe), knot(curve[above].nfe))
}

fn same_questions(a: &OperatingPoint, b: &OperatingPoint) -> bool {
    a.outcomes.len() == b.outcomes.len() && a.outcomes.iter().zip(&b.outcomes).all(|(a, b)| a.prompt == b.prompt)
}

/// Twice the share of replicates at or beyond zero, on the side that has fewer; one is added, for no p-value is zero. A replicate of exactly
/// zero is evidence for neither side and counts against both. So p is what the percentile interval says: 0 lies outside the central 1 − p.
fn two_sided(replicates: &[f64]) -> f64 {
    let side = |beyond: &dyn Fn(&&f64) -> bool| replicates.iter().filter(beyond).count();
    let fewer = side(&|gain| **gain <= 0.0).min(side(&|gain| **gain >= 0.0));
    (2.0 * (fewer + 1) as f64 / (replicates.len() + 1) as f64).min(1.0)
}

impl McNemar {
    /// Counts; none when a score is neither right nor wrong.
    fn of(base: &OperatingPoint, discounted: &OperatingPoint) -> Option<McNemar> {
        let (mut only_base, mut only_discounted) = (0, 0);
        for (b, d) in base.outcomes.iter().zip(&discounted.outcomes) {
            match (b.score, d.score) {
                (1.0, 0.0) => only_base += 1,
                (0.0, 1.0) => only_discounted += 1,
                (0.0 | 1.0, 0.0 | 1.0) => {}
                _ => return None,
            }
        }
        let (param, nfe, p) = (discounted.sampler.param.clone(), discounted.nfe, exact(only_base, only_discounted));
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
    use crate::points::Outcome;
    use crate::points::tests::{ADAS, BASE, point};
    use proptest::prelude::*;

    fn answered(sampler: (&str, &str, &str), nfe: f64, scores: &[f64]) -> OperatingPoint {
        let outcome = |(i, score): (usize, &f64)| Outcome { prompt: i.to_string(), score: *score, nfe: nfe as usize };
        let outcomes = scores.iter().enumerate().map(outcome).collect();
        let mean = 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
        OperatingPoint { outcomes, ..point(sampler, mean, nfe) }
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
        let tests = paired(&points, Variant::adas(), Bootstrap::default());
        let [test] = &tests[..] else { panic!("{tests:?}") };
        assert_eq!((test.n, test.gain, test.low_nfe), (4, 12.5, true));
        assert_eq!(test.gain, crate::statistics::matched::matched(&points, Variant::adas()).gains[0].gain);
        // Both points are equally near, and the first in order counts: two questions differ there, too few for more.
        assert_eq!((test.differing, test.interval, test.p_bootstrap), (2, None, None));
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
        let gain = paired(&points, Variant::adas(), Bootstrap::default())[0].gain;
        assert!((gain - 100.0 / 6.0).abs() < 1e-9, "{gain}");
        assert!((gain - crate::statistics::matched::matched(&points, Variant::adas()).gains[0].gain).abs() < 1e-9);
    }

    #[test]
    fn the_nearest_point_is_tested_exactly() {
        let base = answered(("topk", "4", BASE), 4.0, &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        let adas = answered(("topk", "4", ADAS), 4.0, &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
        let tests = paired(&Points::new(vec![base.clone(), adas]).unwrap(), Variant::adas(), Bootstrap::default());
        let McNemar { only_base, only_discounted, p, .. } = tests[0].mcnemar.clone().unwrap();
        assert_eq!((only_base, only_discounted, p), (1, 5, exact(1, 5)));
        assert_eq!(tests[0].p_holm, Some(p), "one test needs no correction");
        // Other questions, or none at all, are not compared; nor is what lies outside the curve.
        let other = answered(("topk", "4", ADAS), 4.0, &[1.0; 3]);
        assert!(
            paired(&Points::new(vec![base.clone(), other]).unwrap(), Variant::adas(), Bootstrap::default()).is_empty()
        );
        let outside = answered(("topk", "4", ADAS), 5.0, &[1.0; 7]);
        assert!(paired(&Points::new(vec![base, outside]).unwrap(), Variant::adas(), Bootstrap::default()).is_empty());
    }

    #[test]
    fn resamples_that_gain_nothing_count_on_both_sides() {
        // At 2 forwards, a ninth of the way from 1 to 10: of 40 questions two gain 1/9, three lose 1/9, one loses 1. Of 40 draws the sum
        // is above zero with probability .090 and exactly zero with .059 (by adding up all cases), so p = 2 (.090 + .059) = .298. Ninths
        // are no floating-point numbers: zeros used to fall where rounding put them, and p was .18.
        let (gain, lose, lost, same) = ([0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0; 3]);
        let questions = [vec![gain; 2], vec![lose; 3], vec![lost], vec![same; 34]].concat();
        let scores = |point: usize| questions.iter().map(|question| question[point]).collect::<Vec<f64>>();
        let asked = [(1.0, ADAS, 0), (10.0, ADAS, 1), (2.0, BASE, 2)]
            .map(|(nfe, variant, point)| answered(("fast", "5", variant), nfe, &scores(point)));
        let p = p_of(&asked);
        assert!((p - 0.298).abs() < 0.03, "{p}: 10,000 resamples have a standard error of .007");
    }

    /// The p-value of the last point against the curve of the others, however many questions differ.
    fn p_of(points: &[OperatingPoint]) -> f64 {
        let (base, curve) = points.split_last().unwrap();
        let asked = SameQuestions { base: vec![base], curve: curve.iter().collect() };
        two_sided(asked.replicates(Bootstrap::default())[0].sorted())
    }

    #[test]
    fn a_bend_is_no_loss() {
        // Both answer all 40 questions at 10 forwards; with the discount, one question takes one forward more. So the base point lies 1/201
        // of the way towards a point at 5 forwards where half are wrong: a gain of −20/201 questions, −.25 points. With the forwards as
        // given, every resample loses. Drawn with their questions, (39/40)^40 = .363 of them lack that question and lose nothing.
        let all = answered(("eb", "0.01", BASE), 10.0, &[1.0; 40]);
        let half = answered(("eb", "1", ADAS), 5.0, &[[1.0; 20], [0.0; 20]].concat());
        let mut discounted = answered(("eb", "0.01", ADAS), 10.0, &[1.0; 40]);
        discounted.outcomes[7].nfe = 11;
        discounted.nfe = 401.0 / 40.0;
        let p = p_of(&[half.clone(), discounted.clone(), all.clone()]);
        assert!((p - 2.0 * 0.363).abs() < 0.04, "{p}");
        let points = Points::new(vec![all, half, discounted]).unwrap();
        let tests = paired(&points, Variant::adas(), Bootstrap::default());
        let [test] = &tests[..] else { panic!("{tests:?}") };
        assert!((test.gain + 100.0 * 20.0 / 201.0 / 40.0).abs() < 1e-9, "{}", test.gain);
        assert_eq!((test.differing, test.interval, test.p_bootstrap), (0, None, None));
        let exact = test.mcnemar.clone().unwrap();
        assert_eq!((exact.only_base, exact.only_discounted), (0, 0));
    }

    #[test]
    fn few_questions_that_differ_prove_nothing() {
        let tested = |right: usize| {
            let mut scores = [0.0; 40];
            scores[..right].fill(1.0);
            let points =
                vec![answered(("topk", "4", BASE), 4.0, &[0.0; 40]), answered(("topk", "4", ADAS), 4.0, &scores)];
            paired(&Points::new(points).unwrap(), Variant::adas(), Bootstrap::default()).remove(0)
        };
        let (five, six) = (tested(5), tested(6));
        assert_eq!((five.differing, five.interval, five.p_bootstrap, five.gain), (5, None, None, 12.5));
        // (34/40)^40 = .0015 of resamples draw none of the six.
        let p = six.p_bootstrap.unwrap();
        assert!(six.differing == 6 && (p - 0.003).abs() < 0.002, "{p}");
        assert!(six.interval.unwrap().low > 0.0 && six.interval.unwrap().high < 32.5, "{six:?}");
    }

    #[test]
    fn a_resample_beyond_the_curve_is_compared_with_its_end() {
        let total = |score, nfe| Total { score, nfe };
        let curve = [total(10.0, 100.0), total(20.0, 200.0), total(30.0, 200.0)];
        // Of 50 questions: 15 − 10 below the curve, a tenth of the way to 25 of 200 (11.5 − 10), 25 − 10 on and above its end.
        let gain = |nfe| matched_gain(50, &total(10.0, nfe), &curve);
        assert_eq!((gain(90.0), gain(110.0), gain(200.0), gain(300.0)), (0.0, 3.0, 30.0, 30.0));
    }

    #[test]
    fn partial_scores_have_no_exact_test() {
        let base = answered(("topk", "4", BASE), 4.0, &[0.5, 0.0]);
        let adas = answered(("topk", "4", ADAS), 4.0, &[1.0, 1.0]);
        let tests = paired(&Points::new(vec![base, adas]).unwrap(), Variant::adas(), Bootstrap::default());
        assert_eq!((tests[0].gain, tests[0].differing, tests[0].mcnemar.clone()), (75.0, 2, None));
    }

    proptest! {
        #[test]
        fn a_gain_has_the_sign_that_whole_numbers_give_it(
            scores in [0..200u8, 0..200u8, 0..200u8], nfe in [0..60u16, 1..60u16], third in any::<bool>(), start in 0..2000u16,
        ) {
            let ([low, high, base], [along, beyond]) = (scores, nfe);
            let run = i64::from(along) + i64::from(beyond);
            let sign = (i64::from(low) - i64::from(base)) * run + (i64::from(high) - i64::from(low)) * i64::from(along);
            // Thirds have no exact sum, and must not tip the scales.
            let total = |score: u8, at: u16| Total {
                score: (0..score).map(|_| if third { 1.0 / 3.0 } else { 1.0 }).sum(),
                nfe: f64::from(start + at),
            };
            let curve = [total(low, 0), total(high, along + beyond)];
            let gain = matched_gain(200, &total(base, along), &curve);
            prop_assert_eq!(gain > 0.0, sign > 0, "{}", gain);
            prop_assert_eq!(gain < 0.0, sign < 0, "{}", gain);
        }

        #[test]
        fn the_exact_test_is_symmetric_and_a_probability(b in 0..400usize, c in 0..400usize) {
            prop_assert_eq!(exact(b, c), exact(c, b));
            prop_assert!(exact(b, c) > 0.0 && exact(b, c) <= 1.0);
        }
    }
}
