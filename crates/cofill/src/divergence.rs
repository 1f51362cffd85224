//! How far one distribution is from another.

/// KL(p ‖ q) = Σ p [ln(p + 1e-12) − ln(q + 1e-12)], in nats. A q shorter than p is zero where it ends.
///
/// The 1e-12 is the KLASS code's guard against ln 0; it bounds a single term at 27.6 and is far below any threshold in use.
pub fn kl(p: &[f32], q: &[f32]) -> f64 {
    const TINY: f64 = 1e-12;
    let q = q.iter().chain(std::iter::repeat(&0.0));
    p.iter()
        .zip(q)
        .map(|(&p, &q)| (f64::from(p), f64::from(q)))
        .map(|(p, q)| p * ((p + TINY).ln() - (q + TINY).ln()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::kl;

    #[test]
    fn known_values() {
        assert_eq!(kl(&[0.5, 0.5], &[0.5, 0.5]), 0.0);
        // ½ ln 2 + ½ ln(2/3)
        let want = 0.5 * 2f64.ln() + 0.5 * (2.0f64 / 3.0).ln();
        assert!((kl(&[0.5, 0.5], &[0.25, 0.75]) - want).abs() < 1e-9);
        assert!(kl(&[1.0, 0.0], &[0.0, 1.0]).is_finite(), "disjoint distributions stay comparable");
        assert_eq!(kl(&[0.0, 1.0], &[0.5, 1.0]), 0.0, "0 ln 0 is 0");
    }
}
