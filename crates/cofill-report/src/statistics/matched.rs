//! Matched-NFE gains: what a discount adds at equal cost.
//!
//! A discount changes both the score and the forwards of a rule, so points with the same parameter cannot be compared. The paper (appendix
//! "Robustness across operating points") compares curves instead. For every base point with at least four tokens per forward, the curve of
//! the discounted sampler is interpolated linearly at the same NFE,
//!
//! Δ = score_ADAS(NFE) − score_base(NFE),
//!
//! and base points outside the range of that curve are left out. Gains are then averaged, with a bootstrap over operating points. That
//! interval tells how stable gains are across settings; whether a gain at one setting is chance is the question of [`crate::statistics::paired`].

use crate::points::{Key, OperatingPoint, Parameter, PointSampler, Points, Rule, TIE, Variant};
use crate::statistics::bootstrap::{Bootstrap, Estimate};
use serde::Serialize;

/// The low-NFE regime begins at this many tokens per forward.
pub const LOW_NFE: f64 = 4.0;

/// A base point, and the discounted curve at its NFE.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
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
    /// Where both are compared.
    pub nfe: f64,
    /// The base point's tokens per forward.
    pub tokens_per_forward: f64,
    /// The base point's score.
    pub base: f64,
    /// The discounted curve's score there.
    pub discounted: f64,
    /// Their difference, in points.
    pub gain: f64,
}

/// A base point that the discounted curve does not reach.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dropped {
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
    /// Forwards for a question at the base point, on average.
    pub nfe: f64,
    /// From where to where the curve goes.
    pub range: (f64, f64),
}

/// Every base point of the low-NFE regime whose rule has a discounted curve.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Matched {
    /// Within the range of the curve.
    pub gains: Vec<Gain>,
    /// Base points outside that range.
    pub dropped: Vec<Dropped>,
}

/// Compares the base points of every rule with the curve of `variant`.
pub fn matched(points: &Points, variant: Variant) -> Matched {
    let mut matched = Matched::default();
    let low_nfe =
        |point: &&OperatingPoint| point.sampler.variant == Variant::Base && point.tokens_per_forward >= LOW_NFE;
    for point in points.all().iter().filter(low_nfe) {
        let curve = Curve::new(&points.curve(Key { variant, ..point.key() }));
        let Some(range) = curve.range() else { continue };
        let (model, task, nfe) = (point.model.clone(), point.task.clone(), point.nfe);
        let PointSampler { rule, param, .. } = point.sampler.clone();
        match curve.at(nfe) {
            Some(discounted) => {
                let (base, tokens_per_forward) = (point.score, point.tokens_per_forward);
                let gain = discounted - base;
                let gain = Gain { model, task, rule, param, variant, nfe, tokens_per_forward, base, discounted, gain };
                matched.gains.push(gain);
            }
            None => matched.dropped.push(Dropped { model, task, rule, param, variant, nfe, range }),
        }
    }
    matched
}

/// A score for every NFE between the first and the last point.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// By NFE; no NFE comes twice.
    knots: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve through points. Points with the same NFE count as one with their mean score.
    pub fn new(points: &[&OperatingPoint]) -> Curve {
        Curve::through(points.iter().map(|point| (point.nfe, point.score)).collect())
    }

    /// The curve through (NFE, score).
    pub fn through(mut knots: Vec<(f64, f64)>) -> Curve {
        knots.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mean = |same: &[(f64, f64)]| (same[0].0, same.iter().map(|knot| knot.1).sum::<f64>() / same.len() as f64);
        Curve { knots: knots.chunk_by(|a, b| a.0 == b.0).map(mean).collect() }
    }

    /// The lowest and the highest NFE.
    pub fn range(&self) -> Option<(f64, f64)> {
        Some((self.knots.first()?.0, self.knots.last()?.0))
    }

    /// The score at an NFE, linear between neighbours; none outside the range.
    pub fn at(&self, nfe: f64) -> Option<f64> {
        let (low, high) = self.range()?;
        if !(low..=high).contains(&nfe) {
            return None;
        }
        let above = self.knots.partition_point(|knot| knot.0 < nfe);
        let (x1, y1) = self.knots[above];
        let (x0, y0) = self.knots[above.saturating_sub(1)];
        let share = if x1 > x0 { (nfe - x0) / (x1 - x0) } else { 0.0 };
        Some(if nfe == x1 { y1 } else { y0 + share * (y1 - y0) })
    }
}

/// Gains of some group, summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The rule, task or model whose gains these are.
    pub name: String,
    /// How many operating points were compared.
    pub points: usize,
    /// The mean gain in points, with its interval over operating points; none of no points.
    pub mean: Option<Estimate>,
    /// Gains above zero, by more than rounding ([`TIE`]).
    pub wins: usize,
    /// Gains below zero, likewise.
    pub losses: usize,
}

impl Summary {
    /// Sums up the gains of one group.
    pub fn of(name: &str, gains: &[f64], bootstrap: Bootstrap) -> Summary {
        Summary {
            name: name.into(),
            points: gains.len(),
            mean: bootstrap.mean(gains),
            wins: gains.iter().filter(|gain| **gain > TIE).count(),
            losses: gains.iter().filter(|gain| **gain < -TIE).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::tests::{ADAS, BASE, point};
    use proptest::prelude::*;

    #[test]
    fn a_gain_is_read_off_the_line_at_the_same_nfe() {
        // 16 positions. The base point at 4 forwards has 4 tokens each, just enough; the one at 5 has too few. Between (2, 40) and (4.5, 65)
        // the curve is 60 at 4, and base has 52: 8 points. At 1.6 forwards the curve does not go, though the regime does.
        let points = Points::new(vec![
            point(("eb", "1", BASE), 80.0, 5.0),
            point(("eb", "3", BASE), 52.0, 4.0),
            point(("eb", "9", BASE), 10.0, 1.6),
            point(("eb", "1", ADAS), 65.0, 4.5),
            point(("eb", "3", ADAS), 40.0, 2.0),
            point(("klass", "1", BASE), 10.0, 3.0),
        ]);
        let Matched { gains, dropped } = matched(&points.unwrap(), Variant::adas());
        let [gain] = &gains[..] else { panic!("{gains:?}") };
        assert_eq!((gain.param.to_string().as_str(), gain.base, gain.discounted, gain.gain), ("3", 52.0, 60.0, 8.0));
        let [dropped] = &dropped[..] else { panic!("{dropped:?}") };
        assert_eq!((dropped.param.to_string().as_str(), dropped.nfe, dropped.range), ("9", 1.6, (2.0, 4.5)));
    }

    #[test]
    fn equal_costs_count_once() {
        // Two points at 3 forwards are one of 30, so the line to (5, 50) is 40 at 4.
        let curve = Curve::through(vec![(5.0, 50.0), (3.0, 20.0), (3.0, 40.0)]);
        assert_eq!((curve.at(3.0), curve.at(4.0), curve.at(5.0)), (Some(30.0), Some(40.0), Some(50.0)));
        assert_eq!((curve.at(2.99), curve.at(5.01), curve.at(f64::NAN)), (None, None, None));
        assert_eq!(Curve::through(vec![(2.0, 7.0)]).at(2.0), Some(7.0));
        assert_eq!(Curve::through(Vec::new()).at(2.0), None);
    }

    #[test]
    fn wins_and_losses_leave_ties_out() {
        let Summary { points, mean, wins, losses, .. } =
            Summary::of("all", &[3.0, 0.0, -1.0, 2.0], Bootstrap::default());
        assert_eq!((points, wins, losses, mean.unwrap().value), (4, 2, 1, 1.0));
        assert_eq!(Summary::of("none", &[], Bootstrap::default()).mean, None);
    }

    #[test]
    fn a_gain_of_rounding_is_a_tie() {
        // A fifth of the way from 0 of 40 right at 41 forwards in all to 5 right at 46 is 1 right, which the base has, too. In floating point
        // the difference is 1.3e-14.
        let mean = |right: f64, forwards: f64| (100.0 * (right / 40.0), forwards / 40.0);
        let at = |variant, param, (score, nfe)| point(("eb", param, variant), score, nfe);
        let points =
            vec![at(BASE, "2", mean(1.0, 42.0)), at(ADAS, "3", mean(0.0, 41.0)), at(ADAS, "1", mean(5.0, 46.0))];
        let gain = matched(&Points::new(points).unwrap(), Variant::adas()).gains[0].gain;
        assert!(gain.abs() < 1e-12, "{gain}");
        let Summary { wins, losses, .. } = Summary::of("all", &[gain, -gain, 1e-6], Bootstrap::default());
        assert_eq!((wins, losses), (1, 0));
    }

    proptest! {
        #[test]
        fn a_curve_goes_through_its_points_and_stays_between_them(
            knots in prop::collection::btree_map(1..500u32, 0.0..100.0f64, 1..9), share in 0.0..=1.0f64,
        ) {
            let knots: Vec<(f64, f64)> = knots.into_iter().map(|(nfe, score)| (f64::from(nfe), score)).collect();
            let curve = Curve::through(knots.iter().rev().copied().collect());
            for (nfe, score) in &knots {
                prop_assert_eq!(curve.at(*nfe), Some(*score));
            }
            for pair in knots.windows(2) {
                let between = curve.at(pair[0].0 + share * (pair[1].0 - pair[0].0)).unwrap();
                let (low, high) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                prop_assert!(low - 1e-9 <= between && between <= high + 1e-9);
            }
        }
    }
}
