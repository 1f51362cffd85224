//! The forward on the CPU: the loops of `cofill-kernels`, and which rows they are given.
//!
//! Norms are computed while rows are laid out for a product, residuals are added where a product ends, and the gate is applied before
//! its two products are ever written down.

use super::{Block, Transformer};
use crate::attention::{HeadMean, attend};
use crate::blocks::{Blocks, Hidden};
use crate::error::Computed;
use crate::kernels::with_slice;
use crate::keys_values::CacheUse;
use crate::layers::{Linear, Rotary};
use candle_core::{Device, Tensor};
use cofill_kernels::{Activations, Level, Product, multiply, multiply_gated, rms_norm};
use std::cell::RefCell;
use std::collections::HashMap;

/// The blocks with what they know of a sequence.
pub(super) struct BySlices<'a> {
    model: &'a Transformer,
    rotary: Rotary,
    level: Level,
    /// The tokens of the computed positions, and the first of these.
    tokens: &'a [u32],
    first: usize,
    /// Before the first block, positions of one token have one state.
    alike: Alike,
    cache: Option<RefCell<CacheUse<'a>>>,
}

/// Which positions are alike before the first block: nothing but their token has been seen.
struct Alike {
    firsts: Vec<usize>, // a computed row of every token there is
    of: Vec<usize>,     // [computed]: which of the firsts
}

/// Rows of activations. `[rows, width]`
pub(super) struct Rows {
    values: Vec<f32>,
    width: usize,
}

impl Rows {
    fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }
}

fn vector(tensor: &Tensor) -> Computed<Vec<f32>> {
    with_slice(tensor, <[f32]>::to_vec)
}

impl Alike {
    fn new(tokens: &[u32]) -> Alike {
        let (mut firsts, mut known) = (Vec::new(), HashMap::new());
        let of = tokens.iter().enumerate().map(|(row, token)| {
            *known.entry(token).or_insert_with(|| {
                firsts.push(row);
                firsts.len() - 1
            })
        });
        let of = of.collect();
        Alike { firsts, of }
    }
}

impl<'a> BySlices<'a> {
    /// All positions of `tokens`, or those of the cache's window.
    pub(super) fn new(
        model: &'a Transformer,
        rotary: Rotary,
        tokens: &'a [u32],
        cache: Option<CacheUse<'a>>,
    ) -> BySlices<'a> {
        let window = cache.as_ref().and_then(|cache| cache.window.clone()).unwrap_or(0..tokens.len());
        let (first, tokens) = (window.start, &tokens[window]);
        let cache = cache.map(RefCell::new);
        BySlices { model, rotary, level: Level::best(), tokens, first, alike: Alike::new(tokens), cache }
    }

    /// What the blocks begin with. `[computed, hidden]`
    pub(super) fn embed(&self) -> Computed<Rows> {
        let width = self.model.config.hidden;
        let mut values = self.model.buffers.take(self.tokens.len() * width);
        self.model.embedding.look_up(self.tokens, &mut values)?;
        Ok(Rows { values, width })
    }

    /// Several linear maps of the norm of some rows, in one go: `[rows][out]` each.
    fn project(&self, x: &Rows, rows: &[usize], norm: &Tensor, maps: &[&Linear]) -> Computed<Vec<Vec<f32>>> {
        let norm = vector(norm)?;
        let eps = self.model.config.rms_eps as f32;
        let fill = |row: usize, out: &mut [f32]| rms_norm(x.row(rows[row]), &norm, eps, out);
        let h = Activations::new(self.level, (rows.len(), x.width), &fill, &self.model.buffers);
        let biases: Vec<Option<Vec<f32>>> =
            maps.iter().map(|map| map.bias.as_ref().map(vector).transpose()).collect::<Computed<_>>()?;
        let mut ys: Vec<Vec<f32>> =
            maps.iter().map(|map| self.model.buffers.take(rows.len() * map.weight.n_rows())).collect();
        let mut products = Vec::with_capacity(maps.len());
        for ((map, bias), y) in maps.iter().zip(&biases).zip(&mut ys) {
            products.push(Product { weights: map.weight.weights()?, bias: bias.as_deref(), y, add: false });
        }
        multiply(&h, &mut products);
        Ok(ys)
    }

    /// As [`project`](Self::project), of a layer's attention. Before the first block, rows of one token are computed once.
    fn attention_maps(&self, layer: usize, x: &Rows, rows: &[usize], maps: &[&Linear]) -> Computed<Vec<Vec<f32>>> {
        let norm = &self.model.blocks[layer].attn_norm;
        if layer > 0 {
            return self.project(x, rows, norm, maps);
        }
        let Alike { firsts, of } = &self.alike;
        let mut wanted: Vec<usize> = rows.iter().map(|&row| of[row]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.len() == rows.len() {
            return self.project(x, rows, norm, maps);
        }
        let distinct: Vec<usize> = wanted.iter().map(|&i| firsts[i]).collect();
        let from: Vec<usize> = rows.iter().map(|&row| wanted.binary_search(&of[row]).unwrap_or_default()).collect();
        let ys = self.project(x, &distinct, norm, maps)?;
        let spread = |y: Vec<f32>| {
            let width = y.len() / distinct.len();
            let mut all = self.model.buffers.take(from.len() * width);
            for (to, &from) in all.chunks_exact_mut(width).zip(&from) {
                to.copy_from_slice(&y[from * width..][..width]);
            }
            self.model.buffers.give(y);
            all
        };
        Ok(ys.into_iter().map(spread).collect())
    }

    /// RMSNorm of every head by itself, where the model has one. `x: [rows, heads · dim]`
    fn norm_heads(&self, x: &mut [f32], norm: Option<&Tensor>) -> Computed<()> {
        let Some(norm) = norm else { return Ok(()) };
        let (norm, eps) = (vector(norm)?, self.model.config.rms_eps as f32);
        let mut head = vec![0.0; norm.len()];
        for x in x.chunks_exact_mut(norm.len()) {
            rms_norm(x, &norm, eps, &mut head);
            x.copy_from_slice(&head);
        }
        Ok(())
    }

    /// Adds a linear map of `h` to the stream.
    fn add(&self, x: &mut Rows, h: &Rows, map: &Linear) -> Computed<()> {
        let h = Activations::of_rows(self.level, &h.values, h.width, &self.model.buffers);
        let bias = map.bias.as_ref().map(vector).transpose()?;
        let weights = map.weight.weights()?;
        multiply(&h, &mut [Product { weights, bias: bias.as_deref(), y: &mut x.values, add: true }]);
        Ok(())
    }
}

impl Blocks for BySlices<'_> {
    type Rows = Rows;

    fn n_rows(x: &Rows) -> Computed<usize> {
        Ok(x.values.len() / x.width)
    }

    fn select(&self, x: Rows, rows: &[usize]) -> Computed<Rows> {
        let Rows { values, width } = x;
        if rows.len() * width == values.len() && rows.iter().enumerate().all(|(i, &row)| i == row) {
            return Ok(Rows { values, width });
        }
        let mut some = self.model.buffers.take(rows.len() * width);
        some.chunks_exact_mut(width)
            .zip(rows)
            .for_each(|(to, &row)| to.copy_from_slice(&values[row * width..][..width]));
        self.model.buffers.give(values);
        Ok(Rows { values: some, width })
    }

    fn layers(&self) -> usize {
        self.model.blocks.len()
    }

    fn heads(&self) -> usize {
        self.model.config.heads
    }

    fn first(&self) -> usize {
        self.first
    }

    fn attend(&self, layer: usize, x: &Rows, queries: &[usize], mean: Option<&mut HeadMean>) -> Computed<Rows> {
        let Block { q, k, v, q_norm, k_norm, .. } = &self.model.blocks[layer];
        let buffers = &self.model.buffers;
        let computed = x.values.len() / x.width;
        let rows: Vec<usize> = (0..computed).collect();
        let (mut q, mut k, v) = if queries.len() == computed {
            let [q, k, v] = as_asked(self.attention_maps(layer, x, &rows, &[q, k, v])?)?;
            (q, k, v)
        } else {
            let asked: Vec<usize> = queries.iter().map(|query| query - self.first).collect();
            let [k, v] = as_asked(self.attention_maps(layer, x, &rows, &[k, v])?)?;
            let [q] = as_asked(self.attention_maps(layer, x, &asked, &[q])?)?;
            (q, k, v)
        };
        let positions: Vec<usize> = (self.first..self.first + computed).collect();
        self.norm_heads(&mut q, q_norm.as_ref())?;
        self.norm_heads(&mut k, k_norm.as_ref())?;
        self.rotary.slices(&mut q, queries);
        self.rotary.slices(&mut k, &positions);
        let mut mixed = buffers.take(q.len());
        let heads = self.model.heads();
        match &self.cache {
            Some(cache) => {
                let mut cache = cache.borrow_mut();
                let mut kept = cache.kept.layer(layer, self.first);
                kept.store(&k, &v);
                attend(heads, queries, (&q, kept.keys, kept.values), buffers, &mut mixed, mean);
            }
            None => attend(heads, queries, (&q, &k, &v), buffers, &mut mixed, mean),
        }
        [q, k, v].into_iter().for_each(|used| buffers.give(used));
        Ok(Rows { values: mixed, width: heads.queries * heads.dim })
    }

    fn finish(&self, layer: usize, mut x: Rows, mixed: Rows) -> Computed<Rows> {
        let block = &self.model.blocks[layer];
        let buffers = &self.model.buffers;
        self.add(&mut x, &mixed, &block.o)?;
        buffers.give(mixed.values);
        let (norm, eps) = (vector(&block.mlp_norm)?, self.model.config.rms_eps as f32);
        let (rows, mlp) = (x.values.len() / x.width, block.gate.weight.n_rows());
        let mut h = Rows { values: buffers.take(rows * mlp), width: mlp };
        {
            let fill = |row: usize, out: &mut [f32]| rms_norm(x.row(row), &norm, eps, out);
            let normed = Activations::new(self.level, (rows, x.width), &fill, buffers);
            multiply_gated(&normed, block.gate.weight.weights()?, block.up.weight.weights()?, &mut h.values);
        }
        self.add(&mut x, &h, &block.down)?;
        buffers.give(h.values);
        Ok(x)
    }

    fn last_norm(&self, x: Rows) -> Computed<Hidden> {
        let (norm, eps) = (vector(&self.model.norm)?, self.model.config.rms_eps as f32);
        let mut hidden = vec![0.0; x.values.len()];
        let rows = hidden.chunks_exact_mut(x.width).zip(x.values.chunks_exact(x.width));
        rows.for_each(|(to, from)| rms_norm(from, &norm, eps, to));
        let shape = (x.values.len() / x.width, x.width);
        self.model.buffers.give(x.values);
        Ok(Hidden(Tensor::from_vec(hidden, shape, &Device::Cpu)?))
    }
}

/// As many as were asked for.
fn as_asked<const N: usize>(ys: Vec<Vec<f32>>) -> Computed<[Vec<f32>; N]> {
    ys.try_into().map_err(|_| candle_core::Error::Msg("a product for every matrix".into()).into())
}
