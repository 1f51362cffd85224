//! The forward with the tensor library's own operations: on any device, and what ours is compared with.

use super::{Block, Transformer};
use crate::attention::{HeadMean, attend_by_ops};
use crate::blocks::{Blocks, Hidden};
use crate::error::Computed;
use crate::kernels::Kernels;
use crate::layers::{Rotary, indices};
use candle_core::Tensor;
use candle_nn::ops::{rms_norm, silu};

/// The blocks with the angles of a sequence's positions.
pub(super) struct ByOps<'a> {
    pub(super) model: &'a Transformer,
    pub(super) rotary: Rotary,
}

impl ByOps<'_> {
    fn block(&self, layer: usize) -> &Block {
        &self.model.blocks[layer]
    }

    fn eps(&self) -> f32 {
        self.model.config.rms_eps as f32
    }

    /// RMSNorm of every head by itself, where the model has one. `x: [rows, heads · dim]`
    fn norm_heads(&self, x: Tensor, norm: Option<&Tensor>) -> Computed<Tensor> {
        let Some(norm) = norm else { return Ok(x) };
        let shape @ (rows, width) = x.dims2()?;
        let dim = self.model.config.head_dim;
        let heads = x.reshape((rows * width / dim, dim))?;
        Ok(rms_norm(&heads, norm, self.eps())?.reshape(shape)?)
    }
}

impl Blocks for ByOps<'_> {
    type Rows = Tensor;

    fn n_rows(x: &Tensor) -> Computed<usize> {
        Ok(x.dim(0)?)
    }

    fn select(&self, x: Tensor, rows: &[usize]) -> Computed<Tensor> {
        Ok(x.index_select(&indices(rows.iter().copied(), x.device())?, 0)?)
    }

    fn layers(&self) -> usize {
        self.model.blocks.len()
    }

    fn heads(&self) -> usize {
        self.model.config.heads
    }

    fn attend(&self, layer: usize, x: &Tensor, queries: &[usize], mean: Option<&mut HeadMean>) -> Computed<Tensor> {
        let block = self.block(layer);
        let h = rms_norm(x, &block.attn_norm, self.eps())?;
        let every: Vec<usize> = (0..x.dim(0)?).collect();
        let h_q = match queries.len() == every.len() {
            true => h.clone(),
            false => h.index_select(&indices(queries.iter().copied(), h.device())?, 0)?,
        };
        let q = self.norm_heads(block.q.forward(&h_q, Kernels::Ops)?, block.q_norm.as_ref())?;
        let k = self.norm_heads(block.k.forward(&h, Kernels::Ops)?, block.k_norm.as_ref())?;
        let v = block.v.forward(&h, Kernels::Ops)?;
        let (q, k) = (self.rotary.ops(&q, queries)?, self.rotary.ops(&k, &every)?);
        attend_by_ops(self.model.heads(), queries, (&q, &k, &v), mean)
    }

    fn finish(&self, layer: usize, x: Tensor, mixed: Tensor) -> Computed<Tensor> {
        let block = self.block(layer);
        let x = (x + block.o.forward(&mixed, Kernels::Ops)?)?;
        let h = rms_norm(&x, &block.mlp_norm, self.eps())?;
        let (gate, up) = (block.gate.forward(&h, Kernels::Ops)?, block.up.forward(&h, Kernels::Ops)?); // [rows, mlp]
        Ok((x + block.down.forward(&(silu(&gate)? * up)?, Kernels::Ops)?)?)
    }

    fn last_norm(&self, x: Tensor) -> Computed<Hidden> {
        Ok(Hidden(rms_norm(&x, &self.model.norm, self.eps())?))
    }
}
