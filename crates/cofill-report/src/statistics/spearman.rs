//! Spearman's rank correlation.
//!
//! Ranks start at 1, equal values share the mean of the ranks they cover, and ρ is Pearson's correlation of the ranks:
//! the standard treatment of ties, which the shortcut `1 − 6 Σd² / n(n²−1)` is not.

/// ρ of two columns, −1 to 1; none when there are fewer than two rows, or when a column is constant and so ranks
/// nothing.
///
/// ```
/// use cofill_report::statistics::spearman::spearman;
/// assert_eq!(spearman(&[1.0, 2.0, 9.0], &[10.0, 20.0, 21.0]), Some(1.0), "only the order counts");
/// assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
/// ```
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "a correlation is of pairs");
    pearson(&ranks(x), &ranks(y))
}

/// The rank of every value, from 1; equal values share the mean of the ranks they cover.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0; // values smaller than the group at hand
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        // Ranks before + 1 to before + n, whose mean is before + (n + 1) / 2.
        let shared = before as f64 + (group.len() + 1) as f64 / 2.0;
        group.iter().for_each(|&i| ranks[i] = shared);
        before += group.len();
    }
    ranks
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let [mut xx, mut yy, mut xy] = [0.0; 3];
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - mean_x, y - mean_y);
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    // One root, of the product: √(xx·xx) is xx exactly, so equal orders give 1 and not 0.9999999999999999. Ranks keep
    // the product far from overflow: it is about n⁶/144.
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_values_share_their_ranks() {
        // 1 is first; the two 3s cover ranks 2 and 3; the three 5s cover 4, 5, 6.
        assert_eq!(ranks(&[3.0, 5.0, 1.0, 5.0, 3.0, 5.0]), [2.5, 5.0, 1.0, 5.0, 2.5, 5.0]);
        // −0 and 0 are equal.
        assert_eq!(ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn known_values() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]).unwrap() + 1.0).abs() < 1e-15);
        // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: Σdxdy = 4.5, Σdx² = 4.5, Σdy² = 5, so ρ = √.9.
        let rho = spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((rho - 0.9f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn what_ranks_nothing_has_no_correlation() {
        assert_eq!(spearman(&[2.0; 7], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), None);
        assert_eq!((spearman(&[1.0], &[1.0]), spearman(&[], &[])), (None, None));
    }

    #[test]
    fn as_scipy_has_it() {
        for case in crate::statistics::kl::fixture()["spearman"].as_array().unwrap() {
            let column = |name: &str| -> Vec<f64> { serde_json::from_value(case[name].clone()).unwrap() };
            match (spearman(&column("x"), &column("y")), case["rho"].as_f64()) {
                (Some(got), Some(want)) => assert!((got - want).abs() < 1e-12, "{got} is not {want}: {case}"),
                (got, want) => assert_eq!(got, want, "{case}"),
            }
        }
    }

    proptest! {
        #[test]
        fn only_the_order_counts(values in prop::collection::vec((0..9i32, 0..9i32), 2..30)) {
            let column = |f: fn(&(i32, i32)) -> f64| values.iter().map(f).collect::<Vec<f64>>();
            let (x, y) = (column(|v| v.0.into()), column(|v| v.1.into()));
            let stretched: Vec<f64> = x.iter().map(|x| (x / 3.0).exp()).collect();
            prop_assert_eq!(spearman(&x, &y), spearman(&stretched, &y));
            let (rho, other) = (spearman(&x, &y), spearman(&y, &x));
            prop_assert!(rho.is_some() == other.is_some() && rho.zip(other).is_none_or(|(a, b)| (a - b).abs() < 1e-12));
            if let Some(rho) = spearman(&x, &y) {
                let turned: Vec<f64> = x.iter().map(|x| -x).collect();
                prop_assert!((-1.0..=1.0).contains(&rho) && (spearman(&turned, &y).unwrap() + rho).abs() < 1e-12);
            }
        }
    }
}
