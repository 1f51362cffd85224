//! A stack of blocks run over one sequence: every block for all positions, the final one only for the rows that are asked for.
//!
//! What a block computes is its family's matter ([`Blocks`]); which rows it computes, and where attention is read off, is the same
//! for all of them and stands here. Under a cache, the positions that are computed are a window of the sequence's.

use crate::attention::{AttentionQuery, HeadMean};
use crate::error::{Computed, Result};
use crate::timing::Timing;
use candle_core::Tensor;
use std::time::{Duration, Instant};

/// What a forward is asked for.
pub struct ForwardRequest<'a> {
    /// Rows whose final hidden state is wanted, ascending.
    pub rows: &'a [usize],
    /// The attention that is wanted, if any.
    pub attention: Option<AttentionQuery<'a>>,
}

/// Hidden states after the last block and its norm, where they were computed. `[rows, hidden]`
pub struct Hidden(pub(crate) Tensor);

/// What a forward computed.
pub struct Pass {
    /// The states of the asked rows, from which logits are made.
    pub hidden: Hidden,
    /// The asked attention, laid out `[key x query]`; with heads apart, `[layer x head x key x query]`.
    pub attention: Option<Vec<f64>>,
    /// How long its parts took.
    pub timing: Timing,
}

impl Hidden {
    /// The hidden states as numbers: `[rows][width]`.
    pub fn to_rows(&self) -> Result<Vec<Vec<f32>>> {
        let rows = || -> Computed<Vec<Vec<f32>>> { Ok(self.0.to_vec2()?) };
        Ok(rows()?)
    }

    /// The same, one row after the other.
    pub(crate) fn to_flat(&self) -> Result<Vec<f32>> {
        let flat = || -> Computed<Vec<f32>> { Ok(self.0.flatten_all()?.to_vec1()?) };
        Ok(flat()?)
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.0.dims()[0]
    }
}

/// The blocks of a model, ready for a sequence of one length.
pub(crate) trait Blocks {
    /// Rows of activations: the stream, and what attention makes of it. `[rows, width]`
    type Rows;

    /// How many rows there are.
    fn n_rows(x: &Self::Rows) -> Computed<usize>;
    /// Some of the rows.
    fn select(&self, x: Self::Rows, rows: &[usize]) -> Computed<Self::Rows>;
    /// How many there are.
    fn layers(&self) -> usize;
    /// How many heads each has.
    fn heads(&self) -> usize;
    /// The position of the first row that is computed; those that follow are in line.
    fn first(&self) -> usize {
        0
    }
    /// Attention of the asked queries, which are positions, over all keys, before the output projection. `x: [computed, hidden]` to
    /// `[queries, heads · dim]`
    fn attend(
        &self,
        layer: usize,
        x: &Self::Rows,
        queries: &[usize],
        mean: Option<&mut HeadMean>,
    ) -> Computed<Self::Rows>;
    /// The rest of the block: output projection and MLP, each added to the stream. `x: [rows, hidden]`
    fn finish(&self, layer: usize, x: Self::Rows, mixed: Self::Rows) -> Computed<Self::Rows>;
    /// What follows the last block. `x: [rows, hidden]`
    fn last_norm(&self, x: Self::Rows) -> Computed<Hidden>;
}

/// Runs every block on the embedded positions `x: [computed, hidden]`, which are all of them without a cache. `begun` is when embedding began.
pub(crate) fn run<B: Blocks>(blocks: &B, mut x: B::Rows, ask: &ForwardRequest<'_>, begun: Instant) -> Computed<Pass> {
    let first = blocks.first();
    let every: Vec<usize> = (first..first + B::n_rows(&x)?).collect();
    let mut mean = ask.attention.as_ref().map(|probe| HeadMean::new(probe, blocks.heads()));
    let last = blocks.layers().checked_sub(1).ok_or_else(|| candle_core::Error::Msg("no blocks".into()))?;
    for layer in 0..last {
        let probe = mean.as_mut().and_then(|mean| mean.reads(layer).then_some(mean));
        let mixed = blocks.attend(layer, &x, &every, probe)?;
        x = blocks.finish(layer, x, mixed)?;
    }
    let probed_body = mean.as_ref().map_or(Duration::ZERO, |mean| mean.spent);
    let body = begun.elapsed();

    // The final block: queries are the asked rows and those whose attention is probed, all else the asked rows.
    let probe = mean.as_mut().and_then(|mean| mean.reads(last).then_some(mean));
    let mut queries: Vec<usize> = ask.rows.to_vec();
    if let Some(probe) = &probe {
        queries.extend_from_slice(&probe.queries);
        queries.sort_unstable();
        queries.dedup();
    }
    let mut mixed = blocks.attend(last, &x, &queries, probe)?; // [queries, heads · dim]
    if queries.len() != ask.rows.len() {
        let at: Vec<usize> = ask.rows.iter().map(|row| queries.binary_search(row).unwrap_or_default()).collect();
        mixed = blocks.select(mixed, &at)?;
    }
    let at: Vec<usize> = ask.rows.iter().map(|row| row - first).collect();
    let x = blocks.select(x, &at)?; // [rows, hidden]
    let hidden = blocks.last_norm(blocks.finish(last, x, mixed)?)?;
    let (attention, probed) = mean.map(HeadMean::finish).unzip();
    let probe = probed.unwrap_or_default();
    let body = body.saturating_sub(probed_body);
    let final_block = begun.elapsed().saturating_sub(body + probe);
    Ok(Pass { hidden, attention, timing: Timing { body, final_block, probe, ..Timing::default() } })
}
