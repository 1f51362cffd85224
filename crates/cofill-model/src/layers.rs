//! What transformers of every family are built of: linear maps, layer norms, rotations, and how weights become them.

use crate::error::Computed;
use crate::kernels::{Kernels, with_slice};
use crate::load_options::{Dtype, LoadOptions};
use crate::matrix::{Matrix, tensor_bytes};
use crate::stored::StoredTensor;
use crate::weights::Weights;
use candle_core::{D, Device, Tensor};
use candle_nn::rotary_emb::rope;
use cofill_kernels::{layer_norm, rotate};
use rayon::prelude::*;
use std::ops::Range;

/// Token ids whose logits exist at the same time: 512 rows x 4096 ids are 8 MB.
pub(crate) const TILE: usize = 4096;

/// `y = x Wᵀ + b`
pub(crate) struct Linear {
    pub(crate) weight: Matrix, // [out, in]
    pub(crate) bias: Option<Tensor>,
}

impl Linear {
    pub(crate) fn forward(&self, x: &Tensor, kernels: Kernels) -> Computed<Tensor> {
        let y = self.weight.forward(x, kernels)?;
        Ok(match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.weight.bytes() + self.bias.as_ref().map_or(0, tensor_bytes)
    }
}

/// `(x − mean) / √(variance + eps) · weight + bias`, of every row by itself.
pub(crate) struct LayerNorm {
    weight: Tensor, // [width]
    bias: Option<Tensor>,
    eps: f32,
}

impl LayerNorm {
    /// `x: [rows, width]`
    pub(crate) fn forward(&self, x: &Tensor, kernels: Kernels) -> Computed<Tensor> {
        match kernels {
            Kernels::Slices => {
                let mut y = with_slice(x, <[f32]>::to_vec)?;
                let bias = match &self.bias {
                    Some(bias) => with_slice(bias, <[f32]>::to_vec)?,
                    None => vec![0.0; self.weight.elem_count()],
                };
                with_slice(&self.weight, |weight| {
                    y.chunks_exact_mut(weight.len()).for_each(|row| layer_norm(row, weight, &bias, self.eps));
                })?;
                Ok(Tensor::from_vec(y, x.shape(), &Device::Cpu)?)
            }
            Kernels::Ops => {
                let x = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
                let variance = x.sqr()?.mean_keepdim(D::Minus1)?;
                let y = x.broadcast_div(&(variance + f64::from(self.eps))?.sqrt()?)?.broadcast_mul(&self.weight)?;
                Ok(match &self.bias {
                    Some(bias) => y.broadcast_add(bias)?,
                    None => y,
                })
            }
        }
    }

    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        tensor_bytes(&self.weight) + self.bias.as_ref().map_or(0, tensor_bytes)
    }
}

/// Takes tensors of a checkpoint and converts them one by one.
pub(crate) struct Loader<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) device: Device,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(weights: &'a Weights, options: LoadOptions) -> Computed<Loader<'a>> {
        Ok(Loader { weights, dtype: options.dtype.or(weights.default_dtype()), device: options.device.open()? })
    }

    /// A norm, a bias or a small table: always f32.
    pub(crate) fn f32(&self, name: &str, shape: &[usize]) -> Computed<Tensor> {
        Ok(self.weights.stored(name, shape)?.to_f32()?.to_device(&self.device)?)
    }

    /// The tensors `name.weight` and perhaps `name.bias`.
    pub(crate) fn linear(&self, name: &str, out: usize, input: usize, bias: bool) -> Computed<Linear> {
        self.rows_of_linear(name, 0..out, (out, input), bias)
    }

    /// Some of the outputs of a linear map that is stored with others in one matrix of `shape`.
    pub(crate) fn rows_of_linear(
        &self,
        name: &str,
        rows: Range<usize>,
        (out, input): (usize, usize),
        bias: bool,
    ) -> Computed<Linear> {
        let weight = self.weights.stored(&format!("{name}.weight"), &[out, input])?;
        let weight = Matrix::load(&weight.rows(rows.clone()), self.dtype)?.onto(&self.device)?;
        let bias = if bias {
            let bias = self.weights.stored(&format!("{name}.bias"), &[out])?;
            Some(bias.rows(rows).to_f32()?.to_device(&self.device)?)
        } else {
            None
        };
        Ok(Linear { weight, bias })
    }

    /// A layer norm whose tensors have these names; without a second name it has no bias.
    pub(crate) fn layer_norm(&self, weight: &str, bias: Option<&str>, width: usize, eps: f64) -> Computed<LayerNorm> {
        let bias = bias.map(|bias| self.f32(bias, &[width])).transpose()?;
        Ok(LayerNorm { weight: self.f32(weight, &[width])?, bias, eps: eps as f32 })
    }

    /// The rows of token ids, which are looked up.
    pub(crate) fn embedding(&self, name: &str, shape: &[usize]) -> Computed<Matrix> {
        Matrix::table(&self.weights.stored(name, shape)?, self.dtype)?.onto(&self.device)
    }

    /// The matrix of the logits in tiles of up to [`TILE`] rows. One that is `tied` is shared with the embedding,
    /// unless it has another type.
    pub(crate) fn tiles(&self, stored: &StoredTensor<'_>, tied: Option<&Matrix>) -> Computed<Vec<Matrix>> {
        let vocab = stored.shape[0];
        let head = self.dtype.map_or(stored.dtype, |dtype| dtype.of_matrix(stored.width()));
        let tile = |start: usize| -> Computed<Matrix> {
            let rows = start..vocab.min(start + TILE);
            match tied.filter(|embedding| embedding.is_of(head)) {
                Some(embedding) => embedding.rows(rows),
                None => Matrix::load(&stored.rows(rows), self.dtype)?.onto(&self.device),
            }
        };
        (0..vocab).step_by(TILE).map(tile).collect()
    }
}

/// Positions or token ids as indices of rows.
pub(crate) fn indices(positions: impl Iterator<Item = usize>, device: &Device) -> Computed<Tensor> {
    let positions: Vec<u32> = positions.map(|position| position as u32).collect();
    let n = positions.len();
    Ok(Tensor::from_vec(positions, n, device)?)
}

/// cos and sin of every position's angles. The angle is an f32 product of f32 factors, as in the reference.
pub(crate) struct Rotary {
    cos: Vec<f32>, // [length x half]
    sin: Vec<f32>,
    half: usize, // dim / 2
}

impl Rotary {
    pub(crate) fn new(head_dim: usize, theta: f64, length: usize) -> Rotary {
        let half = head_dim / 2;
        let frequency = |j: usize| 1.0 / (theta as f32).powf(2.0 * j as f32 / head_dim as f32);
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let angles = (0..length).flat_map(|position| frequencies.iter().map(move |f| position as f32 * f));
        let (cos, sin) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
        Rotary { cos, sin, half }
    }

    /// Rotates rows that stand at `positions`. `x: [positions, heads · dim]`
    pub(crate) fn slices(&self, x: &mut [f32], positions: &[usize]) {
        let width = x.len() / positions.len().max(1);
        let turn = |(row, position): (&mut [f32], &usize)| {
            let at = position * self.half..(position + 1) * self.half;
            let (cos, sin) = (&self.cos[at.clone()], &self.sin[at]);
            row.chunks_exact_mut(2 * self.half).for_each(|head| rotate(head, cos, sin));
        };
        match x.len() < 1 << 14 {
            true => x.chunks_mut(width.max(1)).zip(positions).for_each(turn),
            false => x.par_chunks_mut(width).zip(positions).for_each(turn),
        }
    }

    /// As [`slices`](Self::slices), with the tensor library's own operations.
    pub(crate) fn ops(&self, x: &Tensor, positions: &[usize]) -> Computed<Tensor> {
        let (rows, width) = x.dims2()?;
        let table = |values: &[f32]| -> Computed<Tensor> {
            let rows = positions.iter().flat_map(|p| &values[p * self.half..(p + 1) * self.half]);
            Ok(Tensor::from_iter(rows.copied(), x.device())?.reshape((positions.len(), self.half))?)
        };
        let heads = width / (2 * self.half);
        let x = x.reshape((1, rows, heads, 2 * self.half))?.transpose(1, 2)?.contiguous()?;
        let x = rope(&x, &table(&self.cos)?, &table(&self.sin)?)?; // [1, heads, rows, dim]
        Ok(x.transpose(1, 2)?.reshape((rows, width))?)
    }
}
