//! `softmax(q kᵀ / √dim) v`, a few queries at a time over all heads: one task's scores fit the cache, and no more than that ever exists.
//!
//! Keys and values are laid out once, as tiles of columns, and met by all queries. The tasks are cut the same way for every number of
//! threads, and a task's heads come in their order, so whoever reads probabilities off gets the same bits on any machine.

use crate::buffers::Buffers;
use crate::elementwise::softmax;
use crate::format::Format;
use crate::tile::widen;
use crate::wide::{Order, Rows, Sums, multiply};
use crate::{COLUMNS, GROUP, Level};
use rayon::prelude::*;
use std::ops::Range;

/// How a layer's width is cut into heads. A group of query heads shares a key head.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    /// Query heads.
    pub queries: usize,
    /// Key heads, which divide the query heads.
    pub keys: usize,
    /// Entries of a head.
    pub dim: usize,
    /// Which keys are seen.
    pub sight: Sight,
}

/// Which keys a query attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// All of them.
    Everywhere,
    /// Those at most so many positions away, on either side (the local layers of ModernBERT).
    Within(usize),
    /// Those up to its own position (causal models).
    Before,
}

impl Sight {
    /// The keys that a query at `position` sees, of `length`.
    pub fn of(self, position: usize, length: usize) -> Range<usize> {
        match self {
            Sight::Everywhere => 0..length,
            Sight::Before => 0..length.min(position + 1),
            Sight::Within(reach) => {
                position.saturating_sub(reach)..length.min(position.saturating_add(reach).saturating_add(1))
            }
        }
    }
}

/// Queries of one task.
pub const CHUNK: usize = 2 * GROUP;

/// Probabilities of one head of one task: row i at `values[i · stride..][..length]`.
#[derive(Clone, Copy)]
pub struct Probabilities<'a> {
    /// The numbers, rows apart by the stride.
    pub values: &'a [f32],
    /// From row to row.
    pub stride: usize,
    /// How many keys there are.
    pub length: usize,
    /// Which query head it is.
    pub head: usize,
}

impl Probabilities<'_> {
    /// Toward every key, from the task's row i.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.stride..][..self.length]
    }
}

/// Keys and values as the products want them.
struct Packed {
    keys: Vec<f32>,   // [key heads][length, in whole tiles][dim][COLUMNS]
    values: Vec<f32>, // [key heads][dim, in whole tiles][length][COLUMNS]
}

/// Attention of rows at `positions` over all keys, before the output projection: `out: [positions, heads · dim]`.
///
/// `q: [positions, heads · dim]`, `k` and `v`: `[length, key heads · dim]`, rotated. `readers` has an entry for every [`CHUNK`] of
/// positions, and `read` is called with it for every head, in their order.
#[allow(clippy::too_many_arguments)]
pub fn attend<R: Send>(
    level: Level,
    heads: Heads,
    positions: &[usize],
    (q, k, v): (&[f32], &[f32], &[f32]),
    buffers: &Buffers,
    out: &mut [f32],
    readers: Vec<R>,
    read: impl Fn(&mut R, Probabilities<'_>) + Sync,
) {
    let Heads { dim, .. } = heads;
    let (width, key_width) = (heads.queries * dim, heads.keys * dim);
    assert!(heads.keys > 0 && dim > 0 && heads.queries.is_multiple_of(heads.keys), "heads do not fit each other");
    assert!(q.len() == positions.len() * width && out.len() == q.len(), "queries leave their shape");
    assert!(k.len() == v.len() && k.len().is_multiple_of(key_width), "keys leave their shape");
    assert_eq!(readers.len(), positions.len().div_ceil(CHUNK), "one reader per task");
    let length = k.len() / key_width;
    let packed = Packed::lay_out(level, heads, length, (k, v), buffers);
    // Rows are a few entries apart from a power of two, so that a column of them does not fall into one set of the cache.
    let stride = length.next_multiple_of(COLUMNS) + 16;
    let scratch = || (vec![0.0f32; CHUNK.min(positions.len()) * stride], vec![0.0f32; GROUP * dim.max(COLUMNS)]);
    type Task<'a, R> = (((&'a mut [f32], &'a [f32]), &'a [usize]), R);
    let run = |(scores, small): &mut (Vec<f32>, Vec<f32>), (((out, q), positions), mut reader): Task<'_, R>| {
        for head in 0..heads.queries {
            let key_head = head / (heads.queries / heads.keys);
            for (group, at) in positions.chunks(GROUP).enumerate() {
                let first = group * GROUP;
                let scores = &mut scores[first * stride..][..at.len() * stride];
                interleave(&q[first * width..], (at.len(), width), head * dim..(head + 1) * dim, small);
                let rows = Rows { x: small, rows: at.len(), order: Order::Interleaved };
                let keys = packed.keys_of(key_head, dim, length);
                for (i, keys) in keys.chunks_exact(dim * COLUMNS).enumerate() {
                    multiply(level, rows, keys, Sums { y: &mut scores[i * COLUMNS..], stride, add: false });
                }
                for (row, &position) in scores.chunks_mut(stride).zip(at) {
                    let seen = heads.sight.of(position, length);
                    row[..seen.start].fill(f32::NEG_INFINITY);
                    row[seen.end..length].fill(f32::NEG_INFINITY);
                    softmax(&mut row[..length]);
                }
            }
            read(&mut reader, Probabilities { values: scores, stride, length, head });
            for (group, at) in positions.chunks(GROUP).enumerate() {
                let first = group * GROUP;
                let rows = Rows { x: &scores[first * stride..], rows: at.len(), order: Order::ByRow(stride) };
                let values = packed.values_of(key_head, dim, length);
                for (i, values) in values.chunks_exact(length * COLUMNS).enumerate() {
                    let columns = i * COLUMNS..dim.min((i + 1) * COLUMNS);
                    let to = first * width + head * dim + columns.start;
                    if columns.len() == COLUMNS {
                        multiply(level, rows, values, Sums { y: &mut out[to..], stride: width, add: false });
                    } else {
                        multiply(level, rows, values, Sums { y: small, stride: COLUMNS, add: false });
                        for (r, from) in small.chunks_exact(COLUMNS).enumerate().take(at.len()) {
                            out[to + r * width..][..columns.len()].copy_from_slice(&from[..columns.len()]);
                        }
                    }
                }
            }
        }
    };
    let size = CHUNK * width;
    if is_small(positions.len() * k.len()) {
        let tasks = out.chunks_mut(size).zip(q.chunks(size)).zip(positions.chunks(CHUNK)).zip(readers);
        let mut scratch = scratch();
        tasks.for_each(|task| run(&mut scratch, task));
    } else {
        let tasks = out.par_chunks_mut(size).zip(q.par_chunks(size)).zip(positions.par_chunks(CHUNK)).zip(readers);
        tasks.for_each_init(scratch, run);
    }
    buffers.give(packed.keys);
    buffers.give(packed.values);
}

/// Whether handing so many multiply-adds to other threads would cost more than it saves.
fn is_small(work: usize) -> bool {
    work < 1 << 18
}

/// Some columns of rows to `[column][GROUP]`, divided by the root of how many there are.
fn interleave(q: &[f32], (rows, width): (usize, usize), columns: Range<usize>, out: &mut [f32]) {
    let factor = 1.0 / (columns.len() as f32).sqrt();
    for r in 0..rows {
        let row = &q[r * width..][columns.clone()];
        out.chunks_exact_mut(GROUP).zip(row).for_each(|(out, x)| out[r] = x * factor);
    }
}

impl Packed {
    fn lay_out(level: Level, heads: Heads, length: usize, (k, v): (&[f32], &[f32]), buffers: &Buffers) -> Packed {
        let (dim, width) = (heads.dim, heads.keys * heads.dim);
        let key_size = length.next_multiple_of(COLUMNS) * dim;
        let value_size = dim.next_multiple_of(COLUMNS) * length;
        let mut packed =
            Packed { keys: buffers.take(heads.keys * key_size), values: buffers.take(heads.keys * value_size) };
        let lay_out = |(head, (keys, values)): (usize, (&mut [f32], &mut [f32]))| {
            let start = head * dim;
            for (tile, keys) in keys.chunks_exact_mut(dim * COLUMNS).enumerate() {
                let first = tile * COLUMNS;
                let mut rows: [&[u8]; COLUMNS] = [&[]; COLUMNS];
                let columns = COLUMNS.min(length - first);
                for (c, row) in rows.iter_mut().enumerate().take(columns) {
                    *row = bytemuck::cast_slice(&k[(first + c) * width + start..][..dim]);
                }
                widen(level, Format::F32, &rows[..columns], 0, keys);
            }
            for (tile, values) in values.chunks_exact_mut(length * COLUMNS).enumerate() {
                let columns = tile * COLUMNS..dim.min((tile + 1) * COLUMNS);
                for (position, values) in values.chunks_exact_mut(COLUMNS).enumerate() {
                    let row = &v[position * width + start..][columns.clone()];
                    values[..row.len()].copy_from_slice(row);
                    values[row.len()..].fill(0.0);
                }
            }
        };
        let Packed { keys, values } = &mut packed;
        if is_small(k.len() * COLUMNS) {
            keys.chunks_exact_mut(key_size.max(1))
                .zip(values.chunks_exact_mut(value_size.max(1)))
                .enumerate()
                .for_each(lay_out);
        } else {
            let keys = keys.par_chunks_exact_mut(key_size.max(1));
            keys.zip(values.par_chunks_exact_mut(value_size.max(1))).enumerate().for_each(lay_out);
        }
        packed
    }

    fn keys_of(&self, head: usize, dim: usize, length: usize) -> &[f32] {
        let size = length.next_multiple_of(COLUMNS) * dim;
        &self.keys[head * size..][..size]
    }

    fn values_of(&self, head: usize, dim: usize, length: usize) -> &[f32] {
        let size = dim.next_multiple_of(COLUMNS) * length;
        &self.values[head * size..][..size]
    }
}
