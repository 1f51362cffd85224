//! The Pareto front: points that no other beats in both score and forwards.

use crate::points::{OperatingPoint, Points};

/// The points of a model on a task that are not dominated, the cheapest first. A point is dominated when another needs no more forwards
/// and scores no less, and is better in one of the two.
pub fn front<'a>(points: &'a Points, model: &str, task: &str) -> Vec<&'a OperatingPoint> {
    let here: Vec<&OperatingPoint> =
        points.all().iter().filter(|point| point.model == model && point.task == task).collect();
    let costs: Vec<(f64, f64)> = here.iter().map(|point| (point.nfe, point.score)).collect();
    undominated(&costs).into_iter().map(|i| here[i]).collect()
}

/// The indices of (cost, value) that are not dominated, by cost.
pub fn undominated(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0).then(points[b].1.total_cmp(&points[a].1)));
    let mut best: Option<(f64, f64)> = None;
    // By cost, and the better first: whoever comes later must be better than all before, or the same as the last kept.
    order.retain(|&i| {
        let keep = best.is_none_or(|best| points[i].1 > best.1 || points[i] == best);
        if keep {
            best = Some(points[i]);
        }
        keep
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::tests::{ADAS, BASE, point};
    use proptest::prelude::*;

    #[test]
    fn a_front_of_known_points() {
        // (2, 10) stands, (3, 10) costs more for the same, (4, 30) stands, (4, 20) is worse at its cost, (8, 29) is beaten by (4, 30).
        let costs = [(8.0, 29.0), (4.0, 20.0), (4.0, 30.0), (3.0, 10.0), (2.0, 10.0), (2.0, 10.0)];
        assert_eq!(undominated(&costs), [4, 5, 2]);
        let points = vec![point(("eb", "1", BASE), 29.0, 8.0), point(("eb", "1", ADAS), 30.0, 4.0)];
        let points = Points::new(points).unwrap();
        let names: Vec<String> =
            front(&points, "tiny", "sums").into_iter().map(|point| point.sampler.to_string()).collect();
        assert_eq!(names, ["EB-Sampler 1 +AD"]);
        assert!(front(&points, "tiny", "chain").is_empty());
    }

    proptest! {
        #[test]
        fn who_is_on_the_front_is_not_dominated_and_who_is_not_is(
            points in prop::collection::vec((0..9u8, 0..9u8), 0..20),
        ) {
            let points: Vec<(f64, f64)> = points.into_iter().map(|(c, v)| (f64::from(c), f64::from(v))).collect();
            let front = undominated(&points);
            for (i, a) in points.iter().enumerate() {
                let dominated = points.iter().any(|b| b.0 <= a.0 && b.1 >= a.1 && b != a);
                prop_assert_eq!(front.contains(&i), !dominated);
            }
            prop_assert!(front.windows(2).all(|pair| points[pair[0]].0 <= points[pair[1]].0));
        }
    }
}
