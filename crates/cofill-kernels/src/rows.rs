//! Activations: rows of f32, laid out in groups as kernels read them, in f32 or in 8 bits.

use crate::buffers::Buffers;
use crate::coded::{BLOCK, Group, QUAD, offset};
use crate::format::Format;
use crate::{GROUP, Level};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::OnceLock;

/// The rows x of products `x Wᵀ`. They are laid out once, when the first product needs them, and shared by all products with them.
pub struct Activations<'a> {
    level: Level,
    rows: usize,
    width: usize,
    fill: Fill<'a>,
    buffers: &'a Buffers,
    wide: OnceLock<Vec<f32>>, // [group][k][GROUP]
    coded: OnceLock<Coded>,
}

/// Where rows come from.
enum Fill<'a> {
    /// They lie one after the other.
    Rows(Cow<'a, [f32]>),
    /// They are computed when they are wanted.
    With(&'a (dyn Fn(usize, &mut [f32]) + Sync)),
}

/// Activations in 8 bits.
#[derive(Default)]
struct Coded {
    codes: Vec<f32>,  // bytes: [group][k / QUAD][GROUP][QUAD]
    scales: Vec<f32>, // [group][k / BLOCK][GROUP]
    sums: Vec<f32>,
}

impl<'a> Activations<'a> {
    /// Rows of `width`; `fill(row, out)` writes one of them: the last step of what comes before, such as a norm, is best done there.
    pub fn new(
        level: Level,
        (rows, width): (usize, usize),
        fill: &'a (dyn Fn(usize, &mut [f32]) + Sync),
        buffers: &'a Buffers,
    ) -> Activations<'a> {
        Activations::from(level, (rows, width), Fill::With(fill), buffers)
    }

    /// Rows of `width` that lie one after the other.
    pub fn of_rows(level: Level, x: impl Into<Cow<'a, [f32]>>, width: usize, buffers: &'a Buffers) -> Activations<'a> {
        let x = x.into();
        assert!(width > 0 && x.len().is_multiple_of(width), "rows leave their shape");
        Activations::from(level, (x.len() / width, width), Fill::Rows(x), buffers)
    }

    fn from(level: Level, (rows, width): (usize, usize), fill: Fill<'a>, buffers: &'a Buffers) -> Activations<'a> {
        Activations { level, rows, width, fill, buffers, wide: OnceLock::new(), coded: OnceLock::new() }
    }

    /// How many rows, and their width.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.width)
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Lays rows out for products with a format, before tasks begin that use them.
    pub(crate) fn lay_out(&self, format: Format) {
        match format.is_coded() {
            true => drop(self.coded()),
            false => drop(self.all_wide()),
        }
    }

    /// A group of rows in f32: `[k][GROUP]`.
    pub(crate) fn wide_group(&self, group: usize) -> &[f32] {
        let all = GROUP * self.width;
        &self.all_wide()[group * all..][..all]
    }

    fn all_wide(&self) -> &[f32] {
        self.wide.get_or_init(|| {
            let mut all = self.buffers.take(self.rows.div_ceil(GROUP) * GROUP * self.width);
            let lay_out = |scratch: &mut Vec<f32>, (group, out): (usize, &mut [f32])| {
                let first = group * GROUP;
                let rows = GROUP.min(self.rows - first);
                scratch.resize(rows * self.width, 0.0);
                for (r, row) in scratch.chunks_exact_mut(self.width).enumerate() {
                    self.fill(first + r, row);
                }
                interleave(scratch, self.width, out);
            };
            let size = (self.width * GROUP).max(1);
            match self.is_small() {
                true => {
                    let mut scratch = Vec::new();
                    all.chunks_exact_mut(size).enumerate().for_each(|group| lay_out(&mut scratch, group));
                }
                false => all.par_chunks_exact_mut(size).enumerate().for_each_init(Vec::new, lay_out),
            }
            all
        })
    }

    fn coded(&self) -> &Coded {
        self.coded.get_or_init(|| {
            let (groups, blocks) = (self.rows.div_ceil(GROUP), self.width / BLOCK);
            let mut coded = Coded {
                codes: self.buffers.take(groups * GROUP * self.width / size_of::<f32>()),
                scales: self.buffers.take(groups * GROUP * blocks),
                sums: self.buffers.take(groups * GROUP * blocks),
            };
            let (size, cells) = ((GROUP * self.width).max(1), (GROUP * blocks).max(1));
            type Parts<'a> = (usize, ((&'a mut [u8], &'a mut [f32]), &'a mut [f32]));
            let lay_out = |row: &mut Vec<f32>, (group, ((codes, scales), sums)): Parts<'_>| {
                row.resize(self.width, 0.0);
                let first = group * GROUP;
                for r in 0..GROUP.min(self.rows - first) {
                    self.fill(first + r, row);
                    encode(self.level, row, r, codes, scales, sums);
                }
            };
            let Coded { codes, scales, sums } = &mut coded;
            let codes: &mut [u8] = bytemuck::cast_slice_mut(codes);
            if self.is_small() {
                let parts =
                    codes.chunks_exact_mut(size).zip(scales.chunks_exact_mut(cells)).zip(sums.chunks_exact_mut(cells));
                let mut row = Vec::new();
                parts.enumerate().for_each(|part| lay_out(&mut row, part));
            } else {
                let parts = codes.par_chunks_exact_mut(size).zip(scales.par_chunks_exact_mut(cells));
                let parts = parts.zip(sums.par_chunks_exact_mut(cells));
                parts.enumerate().for_each_init(Vec::new, lay_out);
            }
            coded
        })
    }

    fn fill(&self, row: usize, to: &mut [f32]) {
        match &self.fill {
            Fill::Rows(x) => to.copy_from_slice(&x[row * self.width..][..self.width]),
            Fill::With(fill) => fill(row, to),
        }
    }

    /// Whether handing rows to other threads would cost more than it saves.
    fn is_small(&self) -> bool {
        self.rows * self.width < 1 << 14
    }

    /// A group of rows in 8 bits.
    pub(crate) fn coded_group(&self, group: usize) -> Group<'_> {
        let Coded { codes, scales, sums } = self.coded();
        let (all, cells) = (GROUP * self.width, GROUP * self.width / BLOCK);
        Group {
            codes: &bytemuck::cast_slice(codes)[group * all..][..all],
            scales: &scales[group * cells..][..cells],
            sums: &sums[group * cells..][..cells],
        }
    }
}

impl Drop for Activations<'_> {
    fn drop(&mut self) {
        let Coded { codes, scales, sums } = self.coded.take().unwrap_or_default();
        let used = [self.wide.take().unwrap_or_default(), codes, scales, sums].into_iter();
        used.filter(|buffer| buffer.capacity() > 0).for_each(|buffer| self.buffers.give(buffer));
    }
}

/// `rows: [at most GROUP][width]` to `[k][GROUP]`.
fn interleave(rows: &[f32], width: usize, out: &mut [f32]) {
    // Four rows at a time, so that four numbers are written side by side.
    for (quarter, rows) in rows.chunks(4 * width).enumerate() {
        let first = 4 * quarter;
        match rows.len() / width {
            4 => {
                let (a, rest) = rows.split_at(width);
                let (b, rest) = rest.split_at(width);
                let (c, d) = rest.split_at(width);
                let columns = a.iter().zip(b).zip(c.iter().zip(d));
                for (out, ((a, b), (c, d))) in out.chunks_exact_mut(GROUP).zip(columns) {
                    out[first..first + 4].copy_from_slice(&[*a, *b, *c, *d]);
                }
            }
            _ => {
                for (r, row) in rows.chunks_exact(width).enumerate() {
                    out.chunks_exact_mut(GROUP).zip(row).for_each(|(out, x)| out[first + r] = *x);
                }
            }
        }
    }
}

/// One row as numbers from −127 to 127, of every [`BLOCK`] by itself: `x ≈ scale · code`.
#[inline(always)]
fn encode_any(row: &[f32], offset: u8, r: usize, codes: &mut [u8], scales: &mut [f32], sums: &mut [f32]) {
    for (block, x) in row.as_chunks::<BLOCK>().0.iter().enumerate() {
        let mut largest = [0.0f32; 8];
        for x in x.as_chunks::<8>().0 {
            (0..8).for_each(|i| largest[i] = if x[i].abs() > largest[i] { x[i].abs() } else { largest[i] });
        }
        let largest = largest.into_iter().fold(0.0f32, |a, b| if b > a { b } else { a });
        // A sum that is not a number if one of them is not: such a row must not turn into numbers.
        let spoilt = x.iter().map(|x| x * 0.0).sum::<f32>();
        let (scale, inverse) = (largest / 127.0 + spoilt, if largest > 0.0 { 127.0 / largest } else { 0.0 });
        let mut whole = [0i32; BLOCK];
        for (code, x) in whole.iter_mut().zip(x) {
            // Adding 1.5 · 2²³ rounds to a whole number, to the even one of two, and leaves it in the low bits.
            const ROUND: f32 = 12_582_912.0;
            *code = (x * inverse + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
        }
        // 127.0 / largest may be rounded up, and so may its product with the largest, but not by a half: 127 it is.
        let sum: i32 = whole.iter().sum();
        for (quad, four) in whole.as_chunks::<QUAD>().0.iter().enumerate() {
            let at = ((block * BLOCK / QUAD + quad) * GROUP + r) * QUAD;
            codes[at..at + QUAD].copy_from_slice(&four.map(|code| (code as u8).wrapping_add(offset)));
        }
        scales[block * GROUP + r] = scale;
        sums[block * GROUP + r] = sum as f32 * scale;
    }
}

fn encode(level: Level, row: &[f32], r: usize, codes: &mut [u8], scales: &mut [f32], sums: &mut [f32]) {
    let offset = offset(level);
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            #[target_feature(enable = "avx2")]
            fn wide(row: &[f32], offset: u8, r: usize, codes: &mut [u8], scales: &mut [f32], sums: &mut [f32]) {
                encode_any(row, offset, r, codes, scales, sums);
            }
            // SAFETY: the machine has AVX2, or nobody could name the level.
            #[allow(unsafe_code)]
            unsafe {
                wide(row, offset, r, codes, scales, sums);
            }
        }
        _ => encode_any(row, offset, r, codes, scales, sums),
    }
}
