//! Reading the head mean of attention off, while it is computed.
//!
//! The tasks of `cofill-kernels` are cut the same way for every number of threads, and a task's heads come in their order, so the head
//! mean that ADAS ranks by is the same bits on any machine load.

use crate::error::Computed;
use candle_core::{D, Device, IndexOp, Tensor};
use candle_nn::ops::softmax_last_dim;
use cofill_kernels::{Buffers, CHUNK, Heads, Level, Sight};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Which attention is wanted: from the queries to the keys.
pub struct AttentionQuery<'a> {
    /// Mean over these layers.
    pub layers: Range<usize>,
    /// The positions that attend, ascending.
    pub queries: &'a [usize],
    /// The positions that are attended to, ascending.
    pub keys: &'a [usize],
    /// One number of all heads and layers, or one of each.
    pub heads: PerHead,
}

/// Whether the heads are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerHead {
    /// Their mean, and that of the layers: what ADAS ranks by.
    Mean,
    /// Each stays by itself, for whoever asks which of them tells most.
    Apart,
}

/// Attention of rows at `positions` over all keys, before the output projection: `out: [positions, heads · dim]`.
///
/// `q: [positions, heads · dim]`, `k` and `v`: `[length, key heads · dim]`, all contiguous and rotated.
pub(crate) fn attend(
    heads: Heads,
    positions: &[usize],
    qkv: (&[f32], &[f32], &[f32]),
    buffers: &Buffers,
    out: &mut [f32],
    mut mean: Option<&mut HeadMean>,
) {
    // Rows of the head mean that each task fills.
    let probed: Vec<Probed<'_>> = match mean.as_deref_mut() {
        Some(mean) => mean.tasks(positions),
        None => positions.chunks(CHUNK).map(|_| Probed::default()).collect(),
    };
    let spent = AtomicU64::new(0);
    cofill_kernels::attend(Level::best(), heads, positions, qkv, buffers, out, probed, |probed, p| {
        if !probed.rows.is_empty() {
            let begun = Instant::now();
            probed.add(|row| p.row(row), p.head);
            spent.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    });
    if let Some(mean) = mean {
        mean.spent += Duration::from_nanos(spent.into_inner()) / rayon::current_num_threads() as u32;
    }
}

/// The same with the tensor library's own operations, for devices that [`attend`]'s loops do not reach.
pub(crate) fn attend_by_ops(
    heads: Heads,
    positions: &[usize],
    (q, k, v): (&Tensor, &Tensor, &Tensor),
    mut mean: Option<&mut HeadMean>,
) -> Computed<Tensor> {
    let group = heads.queries / heads.keys;
    let part = |t: &Tensor, head: usize| t.i((.., head * heads.dim..(head + 1) * heads.dim))?.contiguous();
    let mut mixed = Vec::with_capacity(heads.queries);
    let unseen = match heads.sight {
        Sight::Everywhere => None,
        sight => {
            let length = k.dim(0)?;
            let row = |&position: &usize| {
                let seen = sight.of(position, length);
                (0..length).map(move |key| if seen.contains(&key) { 0.0f32 } else { f32::NEG_INFINITY })
            };
            let all: Vec<f32> = positions.iter().flat_map(row).collect();
            Some(Tensor::from_vec(all, (positions.len(), length), q.device())?)
        }
    };
    for head in 0..heads.queries {
        let (k, v) = (part(k, head / group)?, part(v, head / group)?); // [length, dim]
        let scores = (part(q, head)?.matmul(&k.t()?)? * (1.0 / (heads.dim as f64).sqrt()))?;
        let scores = match &unseen {
            Some(unseen) => (scores + unseen)?,
            None => scores,
        };
        let p = softmax_last_dim(&scores)?; // [positions, length]
        if let Some(mean) = mean.as_deref_mut() {
            let begun = Instant::now();
            let length = p.dim(1)?;
            let p = p.to_device(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
            let tasks = mean.tasks(positions);
            p.chunks(CHUNK * length).zip(tasks).for_each(|(p, mut probed)| {
                probed.add(|row| &p[row * length..(row + 1) * length], head);
            });
            mean.spent += begun.elapsed();
        }
        mixed.push(p.matmul(&v)?);
    }
    Ok(Tensor::cat(&mixed, D::Minus1)?)
}

/// The attention from some positions to some: the mean over heads and layers, or every head by itself.
pub(crate) struct HeadMean {
    pub(crate) layers: Range<usize>,
    pub(crate) queries: Vec<usize>,
    keys: Vec<usize>,
    heads: usize,
    per_head: PerHead,
    layer: usize,       // the one that is being read, counted from the first of `layers`
    by_query: Vec<f64>, // [query x cell x key]; a mean has one cell, heads apart have one for each (layer, head)
    /// How long reading it off has taken so far.
    pub(crate) spent: Duration,
}

/// The rows of a head mean that one task fills.
#[derive(Default)]
struct Probed<'a> {
    rows: Vec<usize>, // of the task's scores
    keys: &'a [usize],
    cells: Cells,
    sums: &'a mut [f64], // [rows x cell x keys]
}

/// Which cell a head's probabilities are added to.
#[derive(Default, Clone, Copy)]
struct Cells {
    n: usize,
    first: usize,  // of the layer that is being read
    stride: usize, // from head to head: 0 when all share a cell
}

impl HeadMean {
    pub(crate) fn new(probe: &AttentionQuery<'_>, heads: usize) -> HeadMean {
        let (queries, keys) = (probe.queries.to_vec(), probe.keys.to_vec());
        let (layers, per_head) = (probe.layers.clone(), probe.heads);
        let mut mean =
            HeadMean { layers, queries, keys, heads, per_head, layer: 0, by_query: Vec::new(), spent: Duration::ZERO };
        mean.by_query = vec![0.0; mean.queries.len() * mean.cells().n * mean.keys.len()];
        mean
    }

    /// Whether it reads this layer, which is the next to be computed.
    pub(crate) fn reads(&mut self, layer: usize) -> bool {
        self.layer = layer.saturating_sub(self.layers.start);
        self.layers.contains(&layer)
    }

    fn cells(&self) -> Cells {
        match self.per_head {
            PerHead::Mean => Cells { n: 1, first: 0, stride: 0 },
            PerHead::Apart => Cells { n: self.layers.len() * self.heads, first: self.layer * self.heads, stride: 1 },
        }
    }

    /// Cuts the sums the way [`attend`] cuts the queries. A probed position is among `positions`; both ascend.
    fn tasks(&mut self, positions: &[usize]) -> Vec<Probed<'_>> {
        let cells = self.cells();
        let HeadMean { queries, keys, by_query, .. } = self;
        let (mut queries, mut sums) = (queries.as_slice(), by_query.as_mut_slice());
        let mut cut = |chunk: &[usize]| {
            let last = chunk.last().copied().unwrap_or_default();
            let (mine, others) = queries.split_at(queries.partition_point(|&query| query <= last));
            queries = others;
            let (own, rest) = std::mem::take(&mut sums).split_at_mut(mine.len() * cells.n * keys.len());
            sums = rest;
            let rows = mine.iter().map(|query| chunk.binary_search(query).unwrap_or_default()).collect();
            Probed { rows, keys: keys.as_slice(), cells, sums: own }
        };
        positions.chunks(CHUNK).map(&mut cut).collect()
    }

    /// What was read, laid out `[cell x key x query]`, and how long that took.
    pub(crate) fn finish(self) -> (Vec<f64>, Duration) {
        let begun = Instant::now();
        let n = match self.per_head {
            PerHead::Mean => (self.heads * self.layers.len()) as f64,
            PerHead::Apart => 1.0,
        };
        let (queries, columns) = (self.queries.len(), self.cells().n * self.keys.len());
        let mut by_key = vec![0.0; self.by_query.len()];
        for (query, row) in self.by_query.chunks_exact(columns.max(1)).enumerate() {
            row.iter().enumerate().for_each(|(key, sum)| by_key[key * queries + query] = sum / n);
        }
        (by_key, self.spent + begun.elapsed())
    }
}

impl Probed<'_> {
    /// Adds one head's probabilities; `row(i)` are those of the task's row i toward every position.
    fn add<'p>(&mut self, row_of: impl Fn(usize) -> &'p [f32], head: usize) {
        let Cells { n, first, stride } = self.cells;
        let (keys, cell) = (self.keys.len(), first + stride * head);
        for (&row, sums) in self.rows.iter().zip(self.sums.chunks_exact_mut((n * keys).max(1))) {
            let p = row_of(row);
            let sums = &mut sums[cell * keys..(cell + 1) * keys];
            sums.iter_mut().zip(self.keys).for_each(|(sum, &key)| *sum += f64::from(p[key]));
        }
    }
}
