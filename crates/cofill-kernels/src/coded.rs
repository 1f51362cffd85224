//! Products of whole numbers: activations in 8 bits, weights in 4 to 8, a scale for every few of them.
//!
//! Of every sub-block of k (16 or 32 weights of a column) the sum Σ x·w is exact in 32 bits; then, in this order and with fused multiply-add,
//!
//! ```text
//! y += (sum · scale of the weights) · scale of the activations
//! y −= (least weight) · Σ x                                           where a format has such a term
//! ```
//!
//! The sums are exact and the rest has one order, so every level gives the same bits.

use crate::{COLUMNS, GROUP, Level};

/// Activations of a row that share a scale.
pub(crate) const BLOCK: usize = 32;
/// Values of k that lie side by side: what one lane of 32 bits takes.
pub(crate) const QUAD: usize = 4;

/// What the whole numbers of a format are like; it decides how many products fit 16 bits, and which terms there are.
pub(crate) trait Codes {
    /// Weights that share a scale: 16 or 32.
    const SUB: usize;
    /// Steps of [`QUAD`] whose sums of pairs fit 16 bits together: `2 · STEPS · largest · 127 < 2¹⁵`.
    const STEPS: usize;
    /// Whether they may be negative.
    const SIGNED: bool;
    /// Whether every sub-block has a least weight to subtract.
    const LEAST: bool;
}

/// 0 to 15.
pub(crate) struct Fours;
/// 0 to 31.
pub(crate) struct Fives;
/// −32 to 31.
pub(crate) struct Sixes;
/// −128 to 127.
pub(crate) struct Eights;

impl Codes for Fours {
    const SUB: usize = 32;
    const STEPS: usize = 8;
    const SIGNED: bool = false;
    const LEAST: bool = true;
}
impl Codes for Fives {
    const SUB: usize = 32;
    const STEPS: usize = 4;
    const SIGNED: bool = false;
    const LEAST: bool = true;
}
impl Codes for Sixes {
    const SUB: usize = 16;
    const STEPS: usize = 4;
    const SIGNED: bool = true;
    const LEAST: bool = false;
}
impl Codes for Eights {
    const SUB: usize = 32;
    const STEPS: usize = 1;
    const SIGNED: bool = true;
    const LEAST: bool = false;
}

/// A group of rows of activations.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) codes: &'a [u8], // [k / QUAD][GROUP][QUAD], −127..=127, with 128 added for AVX-512
    pub(crate) scales: &'a [f32], // [k / BLOCK][GROUP]
    pub(crate) sums: &'a [f32], // [k / BLOCK][GROUP], of scale · code
}

/// A tile of columns of weights, unpacked.
#[derive(Default)]
pub(crate) struct Tile {
    pub(crate) codes: Vec<i8>,   // [k / QUAD][COLUMNS][QUAD]
    pub(crate) scales: Vec<f32>, // [k / SUB][COLUMNS]
    pub(crate) leasts: Vec<f32>, // [k / BLOCK][COLUMNS], or nothing
    pub(crate) starts: Vec<i32>, // [k / SUB][COLUMNS]: −128 Σ w, where sums of AVX-512 begin
}

/// What is added to activations so that they are not negative: AVX-512 multiplies unsigned with signed bytes.
pub(crate) fn offset(level: Level) -> u8 {
    if level == Level::Avx512 { 128 } else { 0 }
}

/// `y: [GROUP][COLUMNS]` of a group's first `rows`.
pub(crate) fn multiply<C: Codes>(level: Level, k: usize, rows: usize, x: Group<'_>, w: &Tile, y: &mut [f32]) {
    let cells = k / BLOCK * GROUP;
    assert!(k.is_multiple_of(BLOCK) && rows <= GROUP && y.len() >= GROUP * COLUMNS, "a product leaves its shape");
    assert!(x.codes.len() >= k * GROUP && x.scales.len() >= cells && x.sums.len() >= cells, "rows leave their shape");
    assert!(w.codes.len() >= k * COLUMNS && w.scales.len() >= k / C::SUB * COLUMNS, "a tile leaves its shape");
    assert!(!C::LEAST || w.leasts.len() >= k / BLOCK * COLUMNS, "a tile leaves its shape");
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            assert!(w.starts.len() >= k / C::SUB * COLUMNS, "a tile leaves its shape");
            for start in (0..rows).step_by(6) {
                // SAFETY: the machine has AVX-512, or nobody could name the level; sizes are asserted, and start is 0 or 6 of 12 rows.
                #[allow(unsafe_code)]
                unsafe {
                    match rows - start {
                        1..=2 => x86::avx512::<C, 2>(k, start, x, w, y),
                        3..=4 => x86::avx512::<C, 4>(k, start, x, w, y),
                        _ => x86::avx512::<C, 6>(k, start, x, w, y),
                    }
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            for start in (0..rows).step_by(4) {
                // SAFETY: as above, for AVX2; start is 0, 4 or 8 of 12 rows.
                #[allow(unsafe_code)]
                unsafe {
                    match rows - start {
                        1..=2 => x86::avx2::<C, 2>(k, start, x, w, y),
                        _ => x86::avx2::<C, 4>(k, start, x, w, y),
                    }
                }
            }
        }
        _ => scalar::<C>(k, rows, x, w, y),
    }
}

fn scalar<C: Codes>(k: usize, rows: usize, x: Group<'_>, w: &Tile, y: &mut [f32]) {
    for (r, y) in y.chunks_exact_mut(COLUMNS).enumerate().take(rows) {
        for (c, y) in y.iter_mut().enumerate() {
            let mut total = 0.0f32;
            for block in 0..k / BLOCK {
                let cell = block * GROUP + r;
                for sub in block * BLOCK / C::SUB..(block + 1) * BLOCK / C::SUB {
                    let mut sum = 0i32;
                    for quad in sub * C::SUB / QUAD..(sub + 1) * C::SUB / QUAD {
                        for i in 0..QUAD {
                            let (x, w) = (
                                x.codes[(quad * GROUP + r) * QUAD + i] as i8,
                                w.codes[(quad * COLUMNS + c) * QUAD + i],
                            );
                            sum += i32::from(x) * i32::from(w);
                        }
                    }
                    total = (sum as f32 * w.scales[sub * COLUMNS + c]).mul_add(x.scales[cell], total);
                }
                if C::LEAST {
                    total = (-w.leasts[block * COLUMNS + c]).mul_add(x.sums[cell], total);
                }
            }
            *y = total;
        }
    }
}

#[cfg(target_arch = "x86_64")]
// Indices are over registers: arrays of vectors that the compiler must see to be unrolled.
#[allow(unsafe_code, clippy::needless_range_loop)]
pub(crate) mod x86 {
    use super::{BLOCK, Codes, Group, QUAD, Tile};
    use crate::{COLUMNS, GROUP};
    use std::arch::x86_64::*;

    /// # Safety
    ///
    /// The machine has AVX-512 with VNNI. Rows `start..start + R` are in the group and in `y`, and all sizes fit k.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn avx512<C: Codes, const R: usize>(
        k: usize,
        start: usize,
        x: Group<'_>,
        w: &Tile,
        y: &mut [f32],
    ) {
        let mut codes = x.codes.as_ptr().wrapping_add(start * QUAD);
        let (mut scales, mut sums) = (x.scales.as_ptr().wrapping_add(start), x.sums.as_ptr().wrapping_add(start));
        let (mut weights, mut starts) = (w.codes.as_ptr(), w.starts.as_ptr());
        let (mut factors, mut leasts) = (w.scales.as_ptr(), w.leasts.as_ptr());
        let mut total = [[_mm512_setzero_ps(); 2]; R];
        // SAFETY: every pointer walks through its slice block by block, of which there are k / BLOCK, as the caller promises.
        unsafe {
            for _ in 0..k / BLOCK {
                for _ in 0..BLOCK / C::SUB {
                    // x + 128 is multiplied, so what 128 adds is taken away before.
                    let begin = [_mm512_loadu_si512(starts.cast()), _mm512_loadu_si512(starts.add(16).cast())];
                    let mut sum = [begin; R];
                    for _ in 0..C::SUB / QUAD {
                        let w0 = _mm512_loadu_si512(weights.cast());
                        let w1 = _mm512_loadu_si512(weights.add(64).cast());
                        for r in 0..R {
                            let x = _mm512_set1_epi32(codes.add(r * QUAD).cast::<i32>().read_unaligned());
                            sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], x, w0);
                            sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], x, w1);
                        }
                        weights = weights.add(COLUMNS * QUAD);
                        codes = codes.wrapping_add(GROUP * QUAD);
                    }
                    let factor = [_mm512_loadu_ps(factors), _mm512_loadu_ps(factors.add(16))];
                    for r in 0..R {
                        let scale = _mm512_set1_ps(*scales.add(r));
                        for c in 0..2 {
                            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][c]), factor[c]);
                            total[r][c] = _mm512_fmadd_ps(scaled, scale, total[r][c]);
                        }
                    }
                    starts = starts.add(COLUMNS);
                    factors = factors.add(COLUMNS);
                }
                if C::LEAST {
                    let least = [_mm512_loadu_ps(leasts), _mm512_loadu_ps(leasts.add(16))];
                    for r in 0..R {
                        let sum = _mm512_set1_ps(*sums.add(r));
                        total[r][0] = _mm512_fnmadd_ps(least[0], sum, total[r][0]);
                        total[r][1] = _mm512_fnmadd_ps(least[1], sum, total[r][1]);
                    }
                    leasts = leasts.add(COLUMNS);
                }
                scales = scales.wrapping_add(GROUP);
                sums = sums.wrapping_add(GROUP);
            }
            for r in 0..R {
                let y = y.as_mut_ptr().add((start + r) * COLUMNS);
                _mm512_storeu_ps(y, total[r][0]);
                _mm512_storeu_ps(y.add(16), total[r][1]);
            }
        }
    }

    /// # Safety
    ///
    /// The machine has AVX2 and FMA. Rows `start..start + R` are in the group and in `y`, and all sizes fit k.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<C: Codes, const R: usize>(k: usize, start: usize, x: Group<'_>, w: &Tile, y: &mut [f32]) {
        let ones = _mm256_set1_epi16(1);
        for half in 0..2 {
            let mut codes = x.codes.as_ptr().wrapping_add(start * QUAD);
            let (mut scales, mut sums) = (x.scales.as_ptr().wrapping_add(start), x.sums.as_ptr().wrapping_add(start));
            let mut weights = w.codes.as_ptr().wrapping_add(64 * half);
            let mut factors = w.scales.as_ptr().wrapping_add(16 * half);
            let mut leasts = w.leasts.as_ptr().wrapping_add(16 * half);
            let mut total = [[_mm256_setzero_ps(); 2]; R];
            // SAFETY: every pointer walks through its slice block by block, of which there are k / BLOCK, as the caller promises.
            unsafe {
                for _ in 0..k / BLOCK {
                    for _ in 0..BLOCK / C::SUB {
                        let mut sum = [[_mm256_setzero_si256(); 2]; R];
                        for _ in 0..C::SUB / QUAD / C::STEPS {
                            let mut pairs = [[_mm256_setzero_si256(); 2]; R];
                            for _ in 0..C::STEPS {
                                let w = [
                                    _mm256_loadu_si256(weights.cast()),
                                    _mm256_loadu_si256(weights.wrapping_add(32).cast()),
                                ];
                                let size = if C::SIGNED { [_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])] } else { w };
                                for r in 0..R {
                                    let x = _mm256_set1_epi32(codes.add(r * QUAD).cast::<i32>().read_unaligned());
                                    for c in 0..2 {
                                        // |w| · (x with the sign of w): the first factor must not be negative.
                                        let x = if C::SIGNED { _mm256_sign_epi8(x, w[c]) } else { x };
                                        let product = _mm256_maddubs_epi16(size[c], x);
                                        pairs[r][c] = if C::STEPS == 1 {
                                            product
                                        } else {
                                            _mm256_add_epi16(pairs[r][c], product)
                                        };
                                    }
                                }
                                weights = weights.wrapping_add(COLUMNS * QUAD);
                                codes = codes.wrapping_add(GROUP * QUAD);
                            }
                            for r in 0..R {
                                for c in 0..2 {
                                    let wide = _mm256_madd_epi16(pairs[r][c], ones);
                                    sum[r][c] = if C::STEPS == C::SUB / QUAD {
                                        wide
                                    } else {
                                        _mm256_add_epi32(sum[r][c], wide)
                                    };
                                }
                            }
                        }
                        let factor = [_mm256_loadu_ps(factors), _mm256_loadu_ps(factors.wrapping_add(8))];
                        for r in 0..R {
                            let scale = _mm256_broadcast_ss(&*scales.add(r));
                            for c in 0..2 {
                                let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r][c]), factor[c]);
                                total[r][c] = _mm256_fmadd_ps(scaled, scale, total[r][c]);
                            }
                        }
                        factors = factors.wrapping_add(COLUMNS);
                    }
                    if C::LEAST {
                        let least = [_mm256_loadu_ps(leasts), _mm256_loadu_ps(leasts.wrapping_add(8))];
                        for r in 0..R {
                            let sum = _mm256_broadcast_ss(&*sums.add(r));
                            total[r][0] = _mm256_fnmadd_ps(least[0], sum, total[r][0]);
                            total[r][1] = _mm256_fnmadd_ps(least[1], sum, total[r][1]);
                        }
                        leasts = leasts.wrapping_add(COLUMNS);
                    }
                    scales = scales.wrapping_add(GROUP);
                    sums = sums.wrapping_add(GROUP);
                }
                for r in 0..R {
                    let y = y.as_mut_ptr().add((start + r) * COLUMNS + 16 * half);
                    _mm256_storeu_ps(y, total[r][0]);
                    _mm256_storeu_ps(y.add(8), total[r][1]);
                }
            }
        }
    }

    /// `−128 Σ w` of every sub-block of every column.
    ///
    /// # Safety
    ///
    /// The machine has AVX-512 with VNNI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(crate) unsafe fn starts(sub: usize, codes: &[i8], starts: &mut [i32]) {
        let offset = _mm512_set1_epi8(-128); // 128, read without a sign
        for (codes, starts) in codes.chunks_exact(sub * COLUMNS).zip(starts.chunks_exact_mut(COLUMNS)) {
            for (c, starts) in starts.chunks_exact_mut(16).enumerate() {
                let mut sum = _mm512_setzero_si512();
                for codes in codes.chunks_exact(COLUMNS * QUAD) {
                    // SAFETY: 64 of the 128 codes of a quad, from the first or the 64th on.
                    let codes = unsafe { _mm512_loadu_si512(codes.as_ptr().add(64 * c).cast()) };
                    sum = _mm512_dpbusd_epi32(sum, offset, codes);
                }
                // SAFETY: sixteen numbers.
                unsafe {
                    _mm512_storeu_si512(starts.as_mut_ptr().cast(), _mm512_sub_epi32(_mm512_setzero_si512(), sum));
                }
            }
        }
    }
}
