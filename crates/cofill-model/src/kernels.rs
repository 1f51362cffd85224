//! The loops of a forward, on slices: products, exponentials, softmax, SwiGLU, rotation.
//!
//! All but the products are plain arithmetic in a fixed order over eight lanes, without fused multiply-add: a compiler makes vectors
//! of it, and every machine gets the same bits, whatever instructions it has. Products are the `gemm` crate's, cut into tasks here.

use crate::error::Computed;
use candle_core::{Storage, Tensor};
use rayon::prelude::*;

/// Which implementation of the forward is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The loops of this crate, on the CPU.
    Slices,
    /// The tensor library's operations, on any device.
    Ops,
}

/// e^x for x ≤ 88, to about one unit in the last place; 0 where the result is below the smallest normal number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
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

const LANES: usize = 8;

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

/// Rotates one head: entry j pairs with entry j + dim/2.
#[inline(always)]
fn rotate_any(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, b) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

/// Compiles a loop a second time for AVX2 and picks the one this machine can run. Same order, same bits, wider vectors.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident = $any:ident($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $type),*) {
                    $any($($arg),*);
                }
                if is_x86_feature_detected!("avx2") {
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
    swiglu_slice = swiglu_any(gate: &[f32], up: &[f32], out: &mut [f32])
}
dispatch! {
    /// Rotary embedding of one head of one row.
    rotate = rotate_any(head: &mut [f32], cos: &[f32], sin: &[f32])
}

/// `silu(gate) · up`, on all threads.
pub(crate) fn swiglu(gate: &[f32], up: &[f32]) -> Vec<f32> {
    const GRAIN: usize = 1 << 15;
    let mut out = vec![0.0; gate.len()];
    let parts = out.par_chunks_mut(GRAIN).zip(gate.par_chunks(GRAIN)).zip(up.par_chunks(GRAIN));
    parts.for_each(|((out, gate), up)| swiglu_slice(gate, up, out));
    out
}

/// A matrix inside a slice: entry (i, j) is at `start + i · row + j · col`.
#[derive(Clone, Copy)]
pub(crate) struct Strided {
    pub(crate) start: usize,
    pub(crate) row: usize,
    pub(crate) col: usize,
}

impl Strided {
    /// One past the last entry of a rows x cols matrix.
    fn end(self, rows: usize, cols: usize) -> usize {
        self.start + (rows - 1) * self.row + (cols - 1) * self.col + 1
    }
}

/// `dst = factor · lhs · rhs` on this thread, with `[m, k] · [k, n]`.
pub(crate) fn matmul(
    (m, n, k): (usize, usize, usize),
    factor: f32,
    (lhs, l): (&[f32], Strided),
    (rhs, r): (&[f32], Strided),
    (dst, d): (&mut [f32], Strided),
) {
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    assert!(
        l.end(m, k) <= lhs.len() && r.end(k, n) <= rhs.len() && d.end(m, n) <= dst.len(),
        "a matrix leaves its slice"
    );
    // SAFETY: every entry that is read or written lies inside its slice, by the assertion; `dst` is borrowed exclusively.
    #[allow(unsafe_code)]
    unsafe {
        gemm_alone((m, n, k), factor, (lhs.as_ptr(), l), (rhs.as_ptr(), r), (dst.as_mut_ptr(), d));
    }
}

/// [`matmul`] on raw pointers, for threads that write to different columns of one matrix.
///
/// # Safety
///
/// Every entry of the three matrices is in memory that may be read; those of `dst` may be written, and nobody else has them.
#[allow(unsafe_code)]
unsafe fn gemm_alone(
    (m, n, k): (usize, usize, usize),
    factor: f32,
    (lhs, l): (*const f32, Strided),
    (rhs, r): (*const f32, Strided),
    (dst, d): (*mut f32, Strided),
) {
    // SAFETY: as the caller promises.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.add(d.start),
            d.col as isize,
            d.row as isize,
            false,
            lhs.add(l.start),
            l.col as isize,
            l.row as isize,
            rhs.add(r.start),
            r.col as isize,
            r.row as isize,
            0.0,
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Rows of weights in one task of [`product`]: of a width of 4,096, 4 MB.
pub(crate) const TILE_ROWS: usize = 256;

/// `y = x wᵀ` on all threads, `[rows, width] · [out, width]ᵀ`, by tiles of w's rows, which `with_tile(i, use)` lends as f32.
///
/// A tile is one thread's, so sums do not depend on the number of threads. That is also a tenth faster than leaving threads to `gemm`.
pub(crate) fn product(
    x: &[f32],
    (rows, width, out): (usize, usize, usize),
    with_tile: impl Fn(usize, &dyn Fn(&[f32])) -> Computed<()> + Sync,
) -> Computed<Vec<f32>> {
    /// Where every task writes its own columns.
    struct Columns(*mut f32);
    // SAFETY: tasks get disjoint columns, see below.
    #[allow(unsafe_code)]
    unsafe impl Sync for Columns {}
    impl Columns {
        fn start(&self) -> *mut f32 {
            self.0
        }
    }

    assert_eq!(x.len(), rows * width, "x leaves its shape");
    let mut y = vec![0.0f32; rows * out];
    let columns = Columns(y.as_mut_ptr());
    (0..out.div_ceil(TILE_ROWS)).into_par_iter().try_for_each(|i| {
        let start = i * TILE_ROWS;
        let n = TILE_ROWS.min(out - start);
        with_tile(i, &|w| {
            assert_eq!(w.len(), n * width, "a tile leaves its shape");
            if rows == 0 || width == 0 {
                return;
            }
            let x_at = Strided { start: 0, row: width, col: 1 };
            let w_t = Strided { start: 0, row: 1, col: width };
            let y_at = Strided { start, row: out, col: 1 };
            // SAFETY: x and w have the sizes asserted above. Entry (r, c) of the tile's result goes to y[r · out + start + c], which is
            // inside y for r < rows and c < n, and in no other tile's columns start..start + n. y outlives the loop.
            #[allow(unsafe_code)]
            unsafe {
                gemm_alone((rows, n, width), 1.0, (x.as_ptr(), x_at), (w.as_ptr(), w_t), (columns.start(), y_at));
            }
        })
    })?;
    Ok(y)
}

/// Reads a contiguous f32 tensor on the CPU where it lies.
pub(crate) fn with_slice<T>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> T) -> Computed<T> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(candle_core::Error::Msg("a tensor of another device among the CPU's".into()).into());
    };
    let start = layout.start_offset();
    Ok(f(&storage.as_slice::<f32>()?[start..start + layout.shape().elem_count()]))
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
        let got = swiglu(&[0.0, ln_3, -200.0, 200.0], &[5.0, 2.0, 3.0, 0.5]);
        for (got, want) in got.iter().zip([0.0, 1.5 * ln_3, 0.0, 100.0]) {
            assert!((got - want).abs() < 1e-5, "{got}, {want}");
        }
        assert!(swiglu(&[f32::NAN], &[1.0])[0].is_nan());
    }

    #[test]
    fn a_quarter_turn_swaps_the_halves() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        rotate(&mut head, &[0.0, 1.0], &[1.0, 0.0]); // 90° for the pair (1, 3), 0° for (2, 4)
        assert_eq!(head, [-3.0, 2.0, 1.0, 4.0]);
    }

    #[test]
    fn matrices_may_lie_anywhere_in_their_slices() {
        // [[1, 2], [3, 4]] read row by row, times its transpose, into every second column of a wider matrix.
        let a = [9.0, 1.0, 2.0, 3.0, 4.0];
        let rows = Strided { start: 1, row: 2, col: 1 };
        let columns = Strided { start: 1, row: 1, col: 2 };
        let mut out = [0.0; 8];
        matmul((2, 2, 2), 0.5, (&a, rows), (&a, columns), (&mut out, Strided { start: 1, row: 4, col: 2 }));
        assert_eq!(out, [0.0, 2.5, 0.0, 5.5, 0.0, 5.5, 0.0, 12.5]);
    }

    #[test]
    fn a_product_of_several_tiles_is_the_sum_it_stands_for() {
        // Whole numbers, so that sums are exact: 600 rows of weights are three tiles, the last one short.
        let (rows, width, out) = (3, 5, 600);
        let x: Vec<f32> = (0..rows * width).map(|i| (i % 7) as f32).collect();
        let w: Vec<f32> = (0..out * width).map(|i| (i % 11) as f32 - 5.0).collect();
        let with_tile = |i: usize, with: &dyn Fn(&[f32])| {
            with(&w[i * TILE_ROWS * width..w.len().min((i + 1) * TILE_ROWS * width)]);
            Ok(())
        };
        let y = product(&x, (rows, width, out), with_tile).unwrap();
        for (i, y) in y.iter().enumerate() {
            let (row, column) = (i / out, i % out);
            let want: f32 = (0..width).map(|k| x[row * width + k] * w[column * width + k]).sum();
            assert_eq!(*y, want, "row {row}, column {column}");
        }
        assert!(product(&[], (0, width, out), with_tile).unwrap().is_empty());
    }
}
