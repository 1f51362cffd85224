//! Accuracy under parallelism (AUP), the metric of d3LLM's leaderboard (Qian and others, 2026): one number for a whole curve.
//!
//! With points (ρ_i, y_i) by tokens per forward ρ, and only those with y_i ≥ y_1 − 5,
//!
//! AUP = ρ_1 y_1 + Σ_{i ≥ 2} (ρ_i − ρ_{i−1}) (y_i W(y_i) + y_{i−1} W(y_{i−1})) / 2,  W(y) = min(exp(−α (1 − y / y_max)), 1),  α = 3,
//!
//! where y_max is the highest accuracy anybody reaches on the task. So it counts parallelism only as long as accuracy holds: what happens more
//! than five points below the start is not seen at all, and the regime in which ADAS gains most is mostly there. Tables show both.

use crate::points::TIE;

/// α: how much a lower accuracy weighs less.
pub const ALPHA: f64 = 3.0;
/// Points more than this below the first are left out.
pub const LOST: f64 = 5.0;

/// The AUP of (tokens per forward, score in percent); `best` is y_max. None without points.
pub fn aup(points: &[(f64, f64)], best: f64) -> Option<f64> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, y_1) = *points.first()?;
    points.retain(|(_, y)| *y >= y_1 - LOST - TIE);
    let weighted = |y: f64| if best > 0.0 { y * weight(y / best) } else { 0.0 };
    let area = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (weighted(pair[1].1) + weighted(pair[0].1)) / 2.0;
    Some(first * y_1 + points.windows(2).map(area).sum::<f64>())
}

/// W, of a score as a share of the best.
fn weight(share: f64) -> f64 {
    (-ALPHA * (1.0 - share)).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn areas_of_known_curves() {
        // Nobody loses anything: the plain area, 1 · 80 + (4 − 1) · 80.
        assert_eq!(aup(&[(4.0, 80.0), (1.0, 80.0)], 80.0), Some(320.0));
        // 76 weighs e^(−3 · .05) = .860708 and 80 weighs 1: 80 + 1 · (65.4138 + 80) / 2. At 74.9, more than five are lost.
        let curve = [(1.0, 80.0), (2.0, 76.0), (9.0, 74.9)];
        assert!((aup(&curve, 80.0).unwrap() - 152.706_9).abs() < 1e-3, "{:?}", aup(&curve, 80.0));
        assert_eq!((aup(&[], 80.0), aup(&[(1.0, 0.0), (2.0, 0.0)], 0.0)), (None, Some(0.0)));
    }

    #[test]
    fn five_points_less_are_not_more_than_five() {
        // 62 and 57 of 100 right: exactly five less, which is kept, though 100 · .57 is 56.99999999999999.
        let percent = |right: f64| 100.0 * (right / 100.0);
        let curve = [(1.0, percent(62.0)), (2.0, percent(57.0))];
        assert!(aup(&curve, 62.0).unwrap() > 62.0 + 40.0, "{:?}", aup(&curve, 62.0));
    }

    proptest! {
        #[test]
        fn more_parallelism_at_the_same_accuracy_is_better(rho in 1.0..30.0f64, more in 0.1..30.0f64, y in 1.0..100.0f64) {
            let (less, more) = (aup(&[(1.0, y), (rho, y)], 100.0), aup(&[(1.0, y), (rho + more, y)], 100.0));
            prop_assert!(less < more);
        }
    }
}
