//! Products in f32: a group of rows times a tile of columns.
//!
//! `y[r][c] (+)= Σ_k x[r][k] · w[k][c]`, each sum by fused multiply-add in the order of k, from 0. So every level gives the same bits, and what
//! a row gets does not depend on its neighbours.

use crate::{COLUMNS, GROUP, Level};

/// Up to [`GROUP`] rows of activations inside a slice: entry (r, k) is at `r · row + k · step`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) order: Order,
}

/// How the entries of [`Rows`] follow each other.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// `[k][GROUP]`
    Interleaved,
    /// `[rows][stride]`
    ByRow(usize),
}

impl Order {
    fn strides(self) -> (usize, usize) {
        match self {
            Order::Interleaved => (1, GROUP),
            Order::ByRow(stride) => (stride, 1),
        }
    }
}

/// Where a product goes: row r at `y[r · stride..][..COLUMNS]`, and whether it is added to what stands there.
pub(crate) struct Sums<'a> {
    pub(crate) y: &'a mut [f32],
    pub(crate) stride: usize,
    pub(crate) add: bool,
}

/// `w: [k][COLUMNS]`.
pub(crate) fn multiply(level: Level, x: Rows<'_>, w: &[f32], mut y: Sums<'_>) {
    let (k, rows) = (w.len() / COLUMNS, x.rows);
    if rows == 0 || k == 0 {
        if !y.add {
            (0..rows).for_each(|r| y.y[r * y.stride..][..COLUMNS].fill(0.0));
        }
        return;
    }
    let (row, step) = x.order.strides();
    assert!(rows <= GROUP && x.x.len() > (rows - 1) * row + (k - 1) * step, "rows leave their shape");
    assert!(y.stride >= COLUMNS && y.y.len() >= (rows - 1) * y.stride + COLUMNS, "a tile leaves its shape");
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            // SAFETY: the machine has AVX-512, or nobody could name the level; the sizes are asserted above.
            #[allow(unsafe_code)]
            unsafe {
                x86::avx512_of(k, x, w, y);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            // SAFETY: as above, for AVX2.
            #[allow(unsafe_code)]
            unsafe {
                x86::avx2_of(k, x, w, y);
            }
        }
        _ => scalar(k, x, w, &mut y),
    }
}

fn scalar(k: usize, x: Rows<'_>, w: &[f32], y: &mut Sums<'_>) {
    let (row, step) = x.order.strides();
    for r in 0..x.rows {
        let mut sums = [0.0f32; COLUMNS];
        for (i, w) in w.chunks_exact(COLUMNS).enumerate().take(k) {
            let x = x.x[r * row + i * step];
            sums.iter_mut().zip(w).for_each(|(sum, w)| *sum = x.mul_add(*w, *sum));
        }
        let y_row = &mut y.y[r * y.stride..][..COLUMNS];
        match y.add {
            true => y_row.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum),
            false => y_row.copy_from_slice(&sums),
        }
    }
}

#[cfg(target_arch = "x86_64")]
// Indices are over registers: arrays of vectors that the compiler must see to be unrolled.
#[allow(unsafe_code, clippy::needless_range_loop)]
mod x86 {
    use super::{Order, Rows, Sums};
    use crate::COLUMNS;
    use std::arch::x86_64::*;

    /// Runs a block of R rows in any order, and says R.
    macro_rules! block {
        ($kernel:ident, $rows:literal, $k:ident, $place:ident, $w:ident) => {{
            $kernel::<$rows, false>($k, $place, $w);
            $rows
        }};
    }

    /// Where a block of rows begins, and how far apart their entries are.
    #[derive(Clone, Copy)]
    struct At {
        x: *const f32,
        row: usize,
        step: usize,
        y: *mut f32,
        stride: usize,
        add: bool,
    }

    fn at(x: Rows<'_>, y: &mut Sums<'_>) -> At {
        let (row, step) = x.order.strides();
        At { x: x.x.as_ptr(), row, step, y: y.y.as_mut_ptr(), stride: y.stride, add: y.add }
    }

    impl At {
        /// The same, `rows` further down.
        fn skip(self, rows: usize) -> At {
            At { x: self.x.wrapping_add(rows * self.row), y: self.y.wrapping_add(rows * self.stride), ..self }
        }
    }

    /// # Safety
    ///
    /// The machine has AVX-512, and all rows of x and y and k tiles of w are inside their slices.
    pub(super) unsafe fn avx512_of(k: usize, x: Rows<'_>, w: &[f32], mut y: Sums<'_>) {
        let place = at(x, &mut y);
        // SAFETY: blocks of R rows begin where the one before ended, and there are `x.rows` of them together.
        unsafe {
            match (x.rows, x.order) {
                (12, Order::Interleaved) => avx512::<12, true>(k, place, w),
                (12, Order::ByRow(_)) => avx512::<12, false>(k, place, w),
                _ => {
                    let mut done = 0;
                    while done < x.rows {
                        let place = place.skip(done);
                        done += match x.rows - done {
                            8.. => block!(avx512, 8, k, place, w),
                            4..8 => block!(avx512, 4, k, place, w),
                            2..4 => block!(avx512, 2, k, place, w),
                            _ => block!(avx512, 1, k, place, w),
                        };
                    }
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`avx512_of`], for AVX2 and FMA.
    pub(super) unsafe fn avx2_of(k: usize, x: Rows<'_>, w: &[f32], mut y: Sums<'_>) {
        let place = at(x, &mut y);
        let mut done = 0;
        while done < x.rows {
            let place = place.skip(done);
            // SAFETY: blocks of R rows begin where the one before ended, and there are `x.rows` of them together.
            unsafe {
                done += match x.rows - done {
                    6.. if matches!(x.order, Order::Interleaved) => {
                        avx2::<6, true>(k, place, w);
                        6
                    }
                    6.. => block!(avx2, 6, k, place, w),
                    4..6 => block!(avx2, 4, k, place, w),
                    2..4 => block!(avx2, 2, k, place, w),
                    _ => block!(avx2, 1, k, place, w),
                };
            }
        }
    }

    /// # Safety
    ///
    /// The machine has AVX-512; R rows and k entries from `at` on may be read, R rows of sums written, and w has k tiles of columns. With
    /// `GROUPED`, the entries are interleaved.
    #[target_feature(enable = "avx512f")]
    unsafe fn avx512<const R: usize, const GROUPED: bool>(k: usize, at: At, w: &[f32]) {
        let (mut x, mut w) = (at.x, w.as_ptr());
        let (row, step) = if GROUPED { (1, crate::GROUP) } else { (at.row, at.step) };
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        // SAFETY: k steps stay inside, as the caller promises; so do R rows of y.
        unsafe {
            for _ in 0..k {
                let (w0, w1) = (_mm512_loadu_ps(w), _mm512_loadu_ps(w.add(16)));
                for r in 0..R {
                    let x = _mm512_set1_ps(*x.add(r * row));
                    sums[r][0] = _mm512_fmadd_ps(x, w0, sums[r][0]);
                    sums[r][1] = _mm512_fmadd_ps(x, w1, sums[r][1]);
                }
                x = x.wrapping_add(step);
                w = w.wrapping_add(COLUMNS);
            }
            for r in 0..R {
                for c in 0..2 {
                    let y = at.y.add(r * at.stride + 16 * c);
                    let sum = if at.add { _mm512_add_ps(_mm512_loadu_ps(y), sums[r][c]) } else { sums[r][c] };
                    _mm512_storeu_ps(y, sum);
                }
            }
        }
    }

    /// # Safety
    ///
    /// As [`avx512`], for AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<const R: usize, const GROUPED: bool>(k: usize, at: At, w: &[f32]) {
        let (row, step) = if GROUPED { (1, crate::GROUP) } else { (at.row, at.step) };
        for half in 0..2 {
            // SAFETY: k steps stay inside, as the caller promises; so do R rows of y.
            unsafe {
                let (mut x, mut w) = (at.x, w.as_ptr().add(16 * half));
                let mut sums = [[_mm256_setzero_ps(); 2]; R];
                for _ in 0..k {
                    let (w0, w1) = (_mm256_loadu_ps(w), _mm256_loadu_ps(w.add(8)));
                    for r in 0..R {
                        let x = _mm256_broadcast_ss(&*x.add(r * row));
                        sums[r][0] = _mm256_fmadd_ps(x, w0, sums[r][0]);
                        sums[r][1] = _mm256_fmadd_ps(x, w1, sums[r][1]);
                    }
                    x = x.wrapping_add(step);
                    w = w.wrapping_add(COLUMNS);
                }
                for r in 0..R {
                    for c in 0..2 {
                        let y = at.y.add(r * at.stride + 16 * half + 8 * c);
                        let sum = if at.add { _mm256_add_ps(_mm256_loadu_ps(y), sums[r][c]) } else { sums[r][c] };
                        _mm256_storeu_ps(y, sum);
                    }
                }
            }
        }
    }
}
