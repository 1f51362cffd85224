//! Tiles of weights: some rows of a matrix, which are columns of the product, laid out as kernels read them.

use crate::coded::{self, BLOCK, Codes, QUAD, Tile};
use crate::format::{Format, Packed, Unpacked, brain, half};
use crate::{COLUMNS, Level};

/// Rows that are transposed at a time.
const ROWS: usize = 8;

/// Weights in f32, `[k][COLUMNS]`, of `rows` of a matrix (at most [`COLUMNS`]; the others are 0), from weight `start` of each on.
pub(crate) fn widen(level: Level, format: Format, rows: &[&[u8]], start: usize, tile: &mut [f32]) {
    assert!(rows.len() <= COLUMNS && tile.len().is_multiple_of(COLUMNS), "a tile leaves its shape");
    let k = tile.len() / COLUMNS;
    assert!(start.is_multiple_of(format.block().0) && k.is_multiple_of(format.block().0), "a tile cuts blocks");
    assert!(rows.iter().all(|row| row.len() >= format.row_bytes(start + k)), "a row is shorter than its tile");
    match level {
        _ if !matches!(format, Format::F32 | Format::F16 | Format::Bf16) => {
            let mut values = vec![0.0; k];
            tile.fill(0.0);
            for (c, row) in rows.iter().enumerate() {
                format.widen(&row[format.row_bytes(start)..], &mut values);
                tile.chunks_exact_mut(COLUMNS).zip(&values).for_each(|(tile, value)| tile[c] = *value);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: the machine has AVX2 and F16C, or nobody could name the level; sizes are asserted above.
            #[allow(unsafe_code)]
            unsafe {
                match format {
                    Format::F16 => x86::widen::<2, false>(rows, start, tile),
                    Format::Bf16 => x86::widen::<2, true>(rows, start, tile),
                    _ => x86::widen::<4, false>(rows, start, tile),
                }
            }
        }
        _ => {
            for (c, column) in (0..COLUMNS).map(|c| (c, rows.get(c))) {
                for i in 0..k {
                    let value = column.map_or(0.0, |row| number(format, row, start + i));
                    tile[i * COLUMNS + c] = value;
                }
            }
        }
    }
}

/// Weight `i` of a row in a format without blocks.
fn number(format: Format, row: &[u8], i: usize) -> f32 {
    match format {
        Format::F16 => half([row[2 * i], row[2 * i + 1]]),
        Format::Bf16 => brain([row[2 * i], row[2 * i + 1]]),
        _ => f32::from_le_bytes([row[4 * i], row[4 * i + 1], row[4 * i + 2], row[4 * i + 3]]),
    }
}

/// Numbers of eight rows before they are transposed.
#[derive(Default)]
pub(crate) struct Scratch {
    codes: Vec<i8>,   // [ROWS][k]
    scales: Vec<f32>, // [k / SUB]
    leasts: Vec<f32>, // [k / BLOCK]
}

/// Unpacks `rows` of a matrix (at most [`COLUMNS`]; the others are 0) of `k` weights each.
pub(crate) fn unpack<P: Packed>(level: Level, rows: &[&[u8]], k: usize, scratch: &mut Scratch, tile: &mut Tile) {
    assert!(rows.len() <= COLUMNS && k.is_multiple_of(P::FORMAT.block().0), "rows do not fit blocks");
    let subs = k / <P::Codes as Codes>::SUB;
    tile.codes.resize(k * COLUMNS, 0);
    tile.scales.resize(subs * COLUMNS, 0.0);
    tile.leasts.resize(k / BLOCK * COLUMNS, 0.0);
    scratch.codes.resize(ROWS * k, 0);
    scratch.scales.resize(subs, 0.0);
    scratch.leasts.resize(k / BLOCK, 0.0);
    for first in (0..COLUMNS).step_by(ROWS) {
        for (r, codes) in scratch.codes.chunks_exact_mut(k).enumerate() {
            let column = first + r;
            let Some(row) = rows.get(column) else {
                codes.fill(0);
                tile.scales.iter_mut().skip(column).step_by(COLUMNS).for_each(|scale| *scale = 0.0);
                tile.leasts.iter_mut().skip(column).step_by(COLUMNS).for_each(|least| *least = 0.0);
                continue;
            };
            row_of::<P>(level, row, Unpacked { codes, scales: &mut scratch.scales, leasts: &mut scratch.leasts });
            for (to, from) in tile.scales.iter_mut().skip(column).step_by(COLUMNS).zip(&scratch.scales) {
                *to = *from;
            }
            if P::Codes::LEAST {
                for (to, from) in tile.leasts.iter_mut().skip(column).step_by(COLUMNS).zip(&scratch.leasts) {
                    *to = *from;
                }
            }
        }
        transpose(level, &scratch.codes, k, first, &mut tile.codes);
    }
    if coded::offset(level) != 0 {
        tile.starts.resize(subs * COLUMNS, 0);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only AVX-512 has an offset, and the machine has it, or nobody could name the level.
        #[allow(unsafe_code)]
        unsafe {
            coded::x86::starts(P::Codes::SUB, &tile.codes, &mut tile.starts);
        }
    }
}

/// The blocks of a row.
#[inline(always)]
fn blocks_of<P: Packed>(row: &[u8], out: &mut Unpacked<'_>) {
    let (weights, bytes) = P::FORMAT.block();
    let subs = weights / P::Codes::SUB;
    let parts = out.codes.chunks_exact_mut(weights).zip(out.scales.chunks_exact_mut(subs));
    let parts = parts.zip(out.leasts.chunks_exact_mut(weights / BLOCK));
    for (block, ((codes, scales), leasts)) in row.chunks_exact(bytes).zip(parts) {
        P::unpack(block, Unpacked { codes, scales, leasts });
    }
}

fn row_of<P: Packed>(level: Level, row: &[u8], mut out: Unpacked<'_>) {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            #[target_feature(enable = "avx2")]
            fn wide<P: Packed>(row: &[u8], mut out: Unpacked<'_>) {
                blocks_of::<P>(row, &mut out);
            }
            // SAFETY: the machine has AVX2, or nobody could name the level.
            #[allow(unsafe_code)]
            unsafe {
                wide::<P>(row, out);
            }
        }
        _ => blocks_of::<P>(row, &mut out),
    }
}

/// `codes: [ROWS][k]` to columns `first..first + ROWS` of `[k / QUAD][COLUMNS][QUAD]`.
fn transpose(level: Level, codes: &[i8], k: usize, first: usize, tile: &mut [i8]) {
    assert!(codes.len() >= ROWS * k && tile.len() >= k * COLUMNS && first + ROWS <= COLUMNS, "a tile leaves its shape");
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            // SAFETY: the machine has AVX2, or nobody could name the level; sizes are asserted above, and k is a multiple of 32.
            #[allow(unsafe_code)]
            unsafe {
                x86::transpose_codes(codes, k, first, tile);
            }
        }
        _ => {
            for (r, codes) in codes.chunks_exact(k).enumerate().take(ROWS) {
                for (quad, codes) in codes.chunks_exact(QUAD).enumerate() {
                    tile[(quad * COLUMNS + first + r) * QUAD..][..QUAD].copy_from_slice(codes);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
// Indices are over registers: arrays of vectors that the compiler must see to be unrolled.
#[allow(unsafe_code, clippy::needless_range_loop)]
mod x86 {
    use super::{COLUMNS, Format, QUAD, ROWS, number};
    use std::arch::x86_64::*;

    /// Lane i of vector j becomes lane j of vector i.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn transposed(v: [__m256i; ROWS]) -> [__m256i; ROWS] {
        let low = |a, b| _mm256_unpacklo_epi32(a, b);
        let high = |a, b| _mm256_unpackhi_epi32(a, b);
        let pairs = [
            low(v[0], v[1]),
            high(v[0], v[1]),
            low(v[2], v[3]),
            high(v[2], v[3]),
            low(v[4], v[5]),
            high(v[4], v[5]),
            low(v[6], v[7]),
            high(v[6], v[7]),
        ];
        let low = |a, b| _mm256_unpacklo_epi64(a, b);
        let high = |a, b| _mm256_unpackhi_epi64(a, b);
        let fours = [
            low(pairs[0], pairs[2]),
            high(pairs[0], pairs[2]),
            low(pairs[1], pairs[3]),
            high(pairs[1], pairs[3]),
            low(pairs[4], pairs[6]),
            high(pairs[4], pairs[6]),
            low(pairs[5], pairs[7]),
            high(pairs[5], pairs[7]),
        ];
        let low = |a, b| _mm256_permute2x128_si256::<0x20>(a, b);
        let high = |a, b| _mm256_permute2x128_si256::<0x31>(a, b);
        [
            low(fours[0], fours[4]),
            low(fours[1], fours[5]),
            low(fours[2], fours[6]),
            low(fours[3], fours[7]),
            high(fours[0], fours[4]),
            high(fours[1], fours[5]),
            high(fours[2], fours[6]),
            high(fours[3], fours[7]),
        ]
    }

    /// # Safety
    ///
    /// The machine has AVX2. `codes` has eight rows of k, which is a multiple of 32; `tile` has k · COLUMNS, and columns from `first` on.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose_codes(codes: &[i8], k: usize, first: usize, tile: &mut [i8]) {
        for start in (0..k).step_by(32) {
            // SAFETY: 32 codes from `start` on of each row, and eight quads of eight columns of the tile.
            unsafe {
                let row = |r: usize| _mm256_loadu_si256(codes.as_ptr().add(r * k + start).cast());
                let quads = transposed(std::array::from_fn(row));
                for (j, quad) in quads.into_iter().enumerate() {
                    let to = ((start / QUAD + j) * COLUMNS + first) * QUAD;
                    _mm256_storeu_si256(tile.as_mut_ptr().add(to).cast(), quad);
                }
            }
        }
    }

    /// # Safety
    ///
    /// The machine has AVX2 and F16C. There are at most COLUMNS rows, and each has the weights from `start` on that `tile` takes, of SIZE bytes.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn widen<const SIZE: usize, const BF16: bool>(rows: &[&[u8]], start: usize, tile: &mut [f32]) {
        let k = tile.len() / COLUMNS;
        let whole = k / 8 * 8;
        for first in (0..COLUMNS).step_by(ROWS) {
            for i in (0..whole).step_by(8) {
                // SAFETY: eight weights of each row from start + i on, and eight columns of eight rows of the tile.
                unsafe {
                    let row = |r: usize| match rows.get(first + r) {
                        None => _mm256_setzero_si256(),
                        Some(row) => {
                            let at = row.as_ptr().add((start + i) * SIZE);
                            match (SIZE, BF16) {
                                (4, _) => _mm256_loadu_si256(at.cast()),
                                (_, true) => _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()))),
                                (_, false) => _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(at.cast()))),
                            }
                        }
                    };
                    for (j, values) in transposed(std::array::from_fn(row)).into_iter().enumerate() {
                        let to = (i + j) * COLUMNS + first;
                        _mm256_storeu_si256(tile.as_mut_ptr().add(to).cast(), values);
                    }
                }
            }
        }
        let format = match (SIZE, BF16) {
            (4, _) => Format::F32,
            (_, true) => Format::Bf16,
            (_, false) => Format::F16,
        };
        for i in whole..k {
            for c in 0..COLUMNS {
                tile[i * COLUMNS + c] = rows.get(c).map_or(0.0, |row| number(format, row, start + i));
            }
        }
    }
}
