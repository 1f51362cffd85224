//! KL(p ‖ q) of two distributions over one vocabulary, for diagnostics.
//!
//! `cofill::divergence` is KLASS's, with the guard against ln 0 that its published code has. Here the plain definition
//! is wanted, also where it is tiny: both rows are brought to sum 1 in f64 first, so that the rounding of their f32
//! entries cancels to first order.

/// Σ p ln(p / q), in nats, never below 0.
///
/// Where q has underflowed to 0 and p has not, the true value is finite and unknown; the smallest positive f32 stands
/// in for q.
pub fn kl(p: &[f32], q: &[f32]) -> f64 {
    let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).sum::<f64>();
    let (sum_p, sum_q) = (wide(p), wide(q));
    let least = f64::from(f32::from_bits(1));
    let term = |(&p, &q): (&f32, &f32)| match p {
        0.0 => 0.0,
        p => f64::from(p) / sum_p * (f64::from(p) / sum_p / (f64::from(q).max(least) / sum_q)).ln(),
    };
    p.iter().zip(q).map(term).sum::<f64>().max(0.0)
}

/// Values that SciPy computed; `tools/statistics_fixture.py` made the file.
#[cfg(test)]
pub(crate) fn fixture() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../../fixtures/statistics.json")).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // ½ ln 2 + ½ ln(2/3)
        let want = 0.5 * 2f64.ln() + 0.5 * (2.0f64 / 3.0).ln();
        assert!((kl(&[0.5, 0.5], &[0.25, 0.75]) - want).abs() < 1e-15);
        assert_eq!(kl(&[0.2, 0.3, 0.5], &[0.2, 0.3, 0.5]), 0.0);
        assert_eq!(kl(&[0.0, 1.0], &[0.0, 1.0]), 0.0, "0 ln 0 is 0");
        // Disjoint distributions are as far apart as f32 can say: −ln of its smallest number, 149 ln 2.
        assert!((kl(&[1.0, 0.0], &[0.0, 1.0]) - 149.0 * 2f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn rounding_does_not_look_like_a_change() {
        // The same distribution, rounded at two scales: 1e-7 relative per entry, but second order in the result.
        let p: Vec<f32> = (0..5000).map(|i| 1.0 / (1.0 + i as f32)).collect();
        let sum: f64 = p.iter().map(|&p| f64::from(p)).sum();
        let rounded: Vec<f32> = p.iter().map(|&p| (f64::from(p) / sum) as f32).collect();
        let off = kl(&p, &rounded);
        assert!(off < 1e-12, "{off:e}");
    }

    #[test]
    fn as_scipy_has_it() {
        for case in fixture()["kl"].as_array().unwrap() {
            let row = |name: &str| -> Vec<f32> { serde_json::from_value(case[name].clone()).unwrap() };
            let (got, want) = (kl(&row("p"), &row("q")), case["kl"].as_f64().unwrap());
            assert!((got - want).abs() <= 1e-12 * want.max(1e-3), "{got} is not {want}: {case}");
        }
    }
}
