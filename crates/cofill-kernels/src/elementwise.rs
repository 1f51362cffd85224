//! What is done to numbers one by one or row by row: exponentials, softmax, activations, norms, rotation.
//!
//! Plain arithmetic in a fixed order over sixteen lanes, without fused multiply-add: a compiler makes vectors of it, and every machine gets the
//! same bits, whatever instructions it has.

use crate::Level;

/// e^x for x ≤ 88, to about one unit in the last place; 0 where the result is below the smallest normal number.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| ≤ ln 2 / 2. Adding 1.5 · 2²³ rounds to a whole number and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4; // few bits, so that n · LN_2_HIGH is exact
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    // Cephes' minimax polynomial for e^r.
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let p = p * (r * r) + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits())); // 2^n
    if x < -87.3 { 0.0 } else { p * power }
}

const LANES: usize = 16;

/// Softmax of a row, in place.
#[inline(always)]
fn softmax_any(row: &mut [f32]) {
    let (chunks, tail) = row.as_chunks_mut::<LANES>();
    let mut max = [f32::NEG_INFINITY; LANES];
    for chunk in chunks.iter() {
        (0..LANES).for_each(|i| max[i] = if chunk[i] > max[i] { chunk[i] } else { max[i] });
    }
    let max = max.iter().chain(tail.iter()).fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max });
    let mut sum = [0.0f32; LANES];
    for chunk in chunks.iter_mut() {
        (0..LANES).for_each(|i| chunk[i] = exp(chunk[i] - max));
        (0..LANES).for_each(|i| sum[i] += chunk[i]);
    }
    tail.iter_mut().for_each(|x| *x = exp(*x - max));
    let sum: f32 = sum.iter().sum::<f32>() + tail.iter().sum::<f32>();
    let scale = 1.0 / sum;
    row.iter_mut().for_each(|x| *x *= scale);
}

/// `gate := silu(gate) · up`
#[inline(always)]
fn swiglu_any(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((y, &g), &u) in out.iter_mut().zip(gate).zip(up) {
        // Below −80 silu is 0 in all but name, and e^−g would leave exp's range.
        let g = if g < -80.0 { -80.0 } else { g };
        *y = g / (1.0 + exp(-g)) * u;
    }
}

/// Φ(x) x with the normal distribution's Φ(x) = (1 + erf(x / √2)) / 2: the exact gelu.
#[inline(always)]
fn gelu_any(x: &mut [f32]) {
    for x in x {
        // erf(z) near 0; further out 1 − erf(|z|), which keeps its digits where erf is close to 1. z = 9 is as good as any beyond.
        let z = *x * std::f32::consts::FRAC_1_SQRT_2;
        let far = if z.abs() > 9.0 { 9.0 } else { z.abs() };
        let tail = erfc(far);
        let outside = if z < 0.0 { tail } else { 2.0 - tail };
        *x *= 0.5 * if far < 1.0 { 1.0 + erf_near(z) } else { outside };
    }
}

/// erf(z) for |z| < 1: z times a polynomial in z² (the minimax one of Cephes).
#[inline(always)]
fn erf_near(z: f32) -> f32 {
    let s = z * z;
    let p = 7.853_861_4e-5;
    let p = p * s - 8.010_194e-4;
    let p = p * s + 5.188_327_7e-3;
    let p = p * s - 2.685_381_2e-2;
    let p = p * s + 1.128_358_5e-1;
    let p = p * s - 3.761_262_6e-1;
    let p = p * s + std::f32::consts::FRAC_2_SQRT_PI;
    z * p
}

/// 1 − erf(z) for z ≥ 1: e^(−z²) / z times a polynomial in 1 / z², one below 2 and one above (Cephes').
#[inline(always)]
fn erfc(z: f32) -> f32 {
    let inverse = 1.0 / z;
    let s = inverse * inverse;
    let p = 2.326_82e-2;
    let p = p * s - 1.387_039_4e-1;
    let p = p * s + 3.687_424_7e-1;
    let p = p * s - 5.824_733e-1;
    let p = p * s + 6.210_004_6e-1;
    let p = p * s - 4.944_515_3e-1;
    let p = p * s + 3.404_88e-1;
    let p = p * s - 2.741_127e-1;
    let p = p * s + 5.638_259_4e-1;
    let q = -1.047_766_4e1;
    let q = q * s + 1.297_72e1;
    let q = q * s - 7.495_518_7;
    let q = q * s + 2.921_019;
    let q = q * s - 1.015_265_3;
    let q = q * s + 4.218_463_4e-1;
    let q = q * s - 2.820_767_4e-1;
    let q = q * s + 5.641_895e-1;
    exp(-z * z) * inverse * if z < 2.0 { p } else { q }
}

/// gelu by its tanh formula, `gelu_new`: x / (1 + e^(−2y)) with y = √(2/π) (x + 0.044715 x³).
#[inline(always)]
fn gelu_tanh_any(x: &mut [f32]) {
    for x in x {
        let y = -2.0 * 0.797_884_6 * (*x + 0.044_715 * *x * *x * *x);
        let y = if y > 80.0 { 80.0 } else { y }; // x is 0 in all but name there
        *x /= 1.0 + exp(y);
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias` of a row, in place. Two passes: the mean is gone before anything is squared.
#[inline(always)]
fn layer_norm_any(row: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    let n = row.len() as f32;
    let mean = sum_of(row, |x| x) / n;
    let variance = sum_of(row, |x| (x - mean) * (x - mean)) / n;
    let scale = 1.0 / (variance + eps).sqrt();
    for ((x, w), b) in row.iter_mut().zip(weight).zip(bias) {
        *x = (*x - mean) * scale * w + b;
    }
}

/// `x / √(mean of squares + eps) · weight`
#[inline(always)]
fn rms_norm_any(row: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = 1.0 / (sum_of(row, |x| x * x) / row.len() as f32 + eps).sqrt();
    out.iter_mut().zip(row).zip(weight).for_each(|((y, x), w)| *y = x * scale * w);
}

/// Σ f(x) over sixteen lanes.
#[inline(always)]
fn sum_of(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, tail) = row.as_chunks::<LANES>();
    let mut sum = [0.0f32; LANES];
    for chunk in chunks {
        (0..LANES).for_each(|i| sum[i] += f(chunk[i]));
    }
    sum.iter().sum::<f32>() + tail.iter().map(|&x| f(x)).sum::<f32>()
}

/// Rotates one head: entry j pairs with entry j + dim/2.
#[inline(always)]
fn rotate_any(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, b) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

/// Compiles a loop again for AVX2 and AVX-512, and picks the best that this machine can run. Same order, same bits, wider vectors.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident = $any:ident($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $type),*) {
                    $any($($arg),*);
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn wider($($arg: $type),*) {
                    $any($($arg),*);
                }
                if Level::best() == Level::Avx512 {
                    // SAFETY: the machine has AVX-512.
                    #[allow(unsafe_code)]
                    return unsafe { wider($($arg),*) };
                }
                if Level::best() == Level::Avx2 {
                    // SAFETY: the machine has AVX2.
                    #[allow(unsafe_code)]
                    return unsafe { wide($($arg),*) };
                }
            }
            $any($($arg),*);
        }
    };
}

dispatch! {
    /// Softmax of a row, in place. A NaN or +∞ in it makes it NaN.
    softmax = softmax_any(row: &mut [f32])
}
dispatch! {
    /// `out = silu(gate) · up`
    swiglu = swiglu_any(gate: &[f32], up: &[f32], out: &mut [f32])
}
dispatch! {
    /// The exact gelu, in place.
    gelu = gelu_any(x: &mut [f32])
}
dispatch! {
    /// gelu by its tanh formula, in place.
    gelu_tanh = gelu_tanh_any(x: &mut [f32])
}
dispatch! {
    /// Layer norm of a row, in place.
    layer_norm = layer_norm_any(row: &mut [f32], weight: &[f32], bias: &[f32], eps: f32)
}
dispatch! {
    /// RMS norm of a row, written elsewhere.
    rms_norm = rms_norm_any(row: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
}
dispatch! {
    /// Rotary embedding of one head of one row.
    rotate = rotate_any(head: &mut [f32], cos: &[f32], sin: &[f32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_the_last_digit_or_two() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - want).abs() <= 2.5e-7 * want, "e^{x} = {want}, not {got}");
        }
        assert_eq!((exp(0.0), exp(-100.0), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn softmax_sums_to_one_and_spreads_nan() {
        // Every length around the lanes: 1..=20.
        for n in 1..=20usize {
            let row: Vec<f32> = (0..n).map(|i| (i * 7 % 5) as f32 - 30.0 * (i % 2) as f32).collect();
            let mut got = row.clone();
            softmax(&mut got);
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = row.iter().map(|x| f64::from(x - max).exp()).sum();
            for (x, p) in row.iter().zip(&got) {
                assert!((f64::from(x - max).exp() / sum - f64::from(*p)).abs() < 1e-6);
            }
        }
        for bad in [f32::NAN, f32::INFINITY] {
            let mut row = [0.0, bad, 1.0];
            softmax(&mut row);
            assert!(row.iter().all(|p| p.is_nan()), "{row:?}");
        }
    }

    #[test]
    fn swiglu_at_known_points() {
        // silu(0) = 0; silu(ln 3) = ln 3 · 3/4; silu(−200) ≈ 0; silu(200) = 200.
        let ln_3 = 3f32.ln();
        let mut got = [0.0; 4];
        swiglu(&[0.0, ln_3, -200.0, 200.0], &[5.0, 2.0, 3.0, 0.5], &mut got);
        for (got, want) in got.iter().zip([0.0, 1.5 * ln_3, 0.0, 100.0]) {
            assert!((got - want).abs() < 1e-5, "{got}, {want}");
        }
        swiglu(&[f32::NAN], &[1.0], &mut got[..1]);
        assert!(got[0].is_nan());
    }

    #[test]
    fn a_normalised_row_has_mean_0_and_variance_1() {
        // 1001..=1011 has mean 1006 and variance (2 Σ k², k = 1..5) / 11 = 10: in f32, Σ x² / n − mean² would lose three digits of it.
        let mut row: Vec<f32> = (1001..=1011).map(|x| x as f32).collect();
        layer_norm(&mut row, &[2.0; 11], &[0.5; 11], 1e-12);
        for (k, x) in (-5..=5).zip(row) {
            let want = k as f32 / 10f32.sqrt() * 2.0 + 0.5;
            assert!((x - want).abs() < 1e-6, "{x} is not {want}");
        }
        // A row without variance, as a table of zeros makes one: the bias, and no NaN.
        let mut row = [3.0; 9];
        layer_norm(&mut row, &[1.0; 9], &[7.0; 9], 1e-12);
        assert_eq!(row, [7.0; 9]);
    }

    #[test]
    fn an_rms_normalised_row_has_mean_square_1() {
        // 3 and 4 have mean square 12.5; 19 entries are more than the lanes.
        let row: Vec<f32> = (0..19).map(|i| if i % 2 == 0 { 3.0 } else { 4.0 }).collect();
        let mut got = vec![0.0; 19];
        rms_norm(&row, &[2.0; 19], 0.0, &mut got);
        let want = (10.0f32 * 9.0 + 9.0 * 16.0) / 19.0;
        for (got, x) in got.iter().zip(&row) {
            assert!((got - 2.0 * x / want.sqrt()).abs() < 1e-6, "{got}");
        }
    }

    #[test]
    fn a_quarter_turn_swaps_the_halves() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        rotate(&mut head, &[0.0, 1.0], &[1.0, 0.0]); // 90° for the pair (1, 3), 0° for (2, 4)
        assert_eq!(head, [-3.0, 2.0, 1.0, 4.0]);
    }
}
