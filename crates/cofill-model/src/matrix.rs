//! A weight matrix in memory, and its product with activations.
//!
//! Activations are always f32. Narrower weights save memory only: they are widened to f32 for the product (but for Q4_K, see below).

use crate::error::Computed;
use crate::kernels::{Kernels, TILE_ROWS, product, with_slice};
use crate::load_options::Dtype;
use crate::stored::StoredTensor;
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use std::ops::Range;

impl Dtype {
    /// The type of a matrix with rows of `width`: one that does not fit the blocks stays f16.
    pub(crate) fn of_matrix(self, width: usize) -> GgmlDType {
        match self.quantised() {
            Some(quantised) if width.is_multiple_of(quantised.block_size()) => quantised,
            None if self == Dtype::F32 => GgmlDType::F32,
            _ => GgmlDType::F16,
        }
    }

    /// The type of the embedding. It is looked up, not multiplied with: half precision is as small as it gets.
    pub(crate) fn of_embedding(self) -> GgmlDType {
        if self == Dtype::F32 { GgmlDType::F32 } else { GgmlDType::F16 }
    }

    pub(crate) fn quantised(self) -> Option<GgmlDType> {
        match self {
            Dtype::F32 | Dtype::F16 => None,
            Dtype::Q4K => Some(GgmlDType::Q4K),
            Dtype::Q6K => Some(GgmlDType::Q6K),
            Dtype::Q8_0 => Some(GgmlDType::Q8_0),
        }
    }
}

/// The matrix W of a product `y = x Wᵀ`.
pub(crate) enum Matrix {
    /// f32, `[out, in]`.
    F32(Tensor),
    /// Narrower than f32, and widened to it for the product, a tile at a time.
    Narrow { tiles: Vec<Narrow>, shape: (usize, usize) },
    /// Multiplied as it is by the tensor library, with activations in eight bits. Only for Q4_K, where that is a fifth faster than
    /// widening (for Q6_K it is not): from the first product on, the library keeps a rearranged copy, see [`rearranged`].
    Quantised(QMatMul),
}

/// Bytes of the copy that products with `bytes` of weights will add: 16 rows of 256 weights take 3,072 bytes instead of 2,304.
pub(crate) fn rearranged(dtype: GgmlDType, bytes: u64) -> u64 {
    if dtype == GgmlDType::Q4K { bytes / 3 * 4 } else { 0 }
}

/// Up to [`TILE_ROWS`] rows of a matrix.
pub(crate) enum Narrow {
    /// Rows of f16 or bf16.
    Half(Tensor),
    Quantised(QTensor),
}

impl Matrix {
    /// Converts what a file holds to `dtype`, or keeps it as it is stored.
    pub(crate) fn load(stored: &StoredTensor<'_>, dtype: Option<Dtype>) -> Computed<Matrix> {
        if let Some(dtype) = dtype.filter(|dtype| dtype.of_matrix(stored.width()) != stored.dtype) {
            let weight = if dtype == Dtype::F32 { stored.to_f32()? } else { stored.to_narrow()? };
            return Matrix::new(weight, dtype);
        }
        let (rows, width) = (stored.shape[0], stored.width());
        let narrow = |tile: &dyn Fn(&StoredTensor<'_>) -> Computed<Narrow>| {
            let tiles = Narrow::tiles(rows).map(|rows| tile(&stored.rows(rows))).collect::<Computed<_>>()?;
            Ok(Matrix::Narrow { tiles, shape: (rows, width) })
        };
        match stored.dtype {
            GgmlDType::F32 => Ok(Matrix::F32(stored.to_f32()?)),
            GgmlDType::F16 => narrow(&|tile| Ok(Narrow::Half(tile.f16()?))),
            GgmlDType::BF16 => narrow(&|tile| Ok(Narrow::Half(tile.bf16()?))),
            GgmlDType::Q4K => Ok(Matrix::Quantised(QMatMul::from_qtensor(stored.quantised()?)?)),
            _ => narrow(&|tile| Ok(Narrow::Quantised(tile.quantised()?))),
        }
    }

    /// Converts an f32 tensor. One whose width does not fit the blocks of a quantised type stays f16.
    pub(crate) fn new(weight: Tensor, dtype: Dtype) -> Computed<Matrix> {
        let shape @ (rows, width) = weight.dims2()?;
        let narrow = |tile: &dyn Fn(Tensor) -> Computed<Narrow>| {
            let cut = |rows: Range<usize>| weight.narrow(0, rows.start, rows.len());
            let tiles = Narrow::tiles(rows).map(|rows| tile(cut(rows)?)).collect::<Computed<_>>()?;
            Ok(Matrix::Narrow { tiles, shape })
        };
        match dtype.of_matrix(width) {
            GgmlDType::F32 => Ok(Matrix::F32(weight)),
            GgmlDType::F16 => narrow(&|tile| Ok(Narrow::Half(tile.to_dtype(DType::F16)?))),
            dtype @ GgmlDType::Q4K => Ok(Matrix::Quantised(QMatMul::from_qtensor(QTensor::quantize(&weight, dtype)?)?)),
            // A copy: quantising reads the whole storage, and a tile is a part of one.
            dtype => narrow(&|tile| Ok(Narrow::Quantised(QTensor::quantize(&tile.force_contiguous()?, dtype)?))),
        }
    }

    /// Moves it to a device.
    pub(crate) fn onto(self, device: &Device) -> Computed<Matrix> {
        let quantised = |weight: &QTensor| -> Computed<QTensor> {
            let storage = QStorage::from_data(weight.data()?, device, weight.dtype())?;
            Ok(QTensor::new(storage, weight.shape())?)
        };
        Ok(match self {
            here if device.is_cpu() => here,
            Matrix::F32(weight) => Matrix::F32(weight.to_device(device)?),
            Matrix::Narrow { tiles, shape } => {
                let tile = |tile: Narrow| -> Computed<Narrow> {
                    Ok(match tile {
                        Narrow::Half(weight) => Narrow::Half(weight.to_device(device)?),
                        Narrow::Quantised(weight) => Narrow::Quantised(quantised(&weight)?),
                    })
                };
                Matrix::Narrow { tiles: tiles.into_iter().map(tile).collect::<Computed<_>>()?, shape }
            }
            Matrix::Quantised(QMatMul::QTensor(weight)) => {
                Matrix::Quantised(QMatMul::from_qtensor(quantised(&weight)?)?)
            }
            Matrix::Quantised(QMatMul::Tensor(weight)) => Matrix::Quantised(QMatMul::Tensor(weight.to_device(device)?)),
            Matrix::Quantised(QMatMul::TensorF16(weight)) => {
                Matrix::Quantised(QMatMul::TensorF16(weight.to_device(device)?))
            }
        })
    }

    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Matrix::F32(weight) => tensor_bytes(weight),
            Matrix::Narrow { tiles, .. } => tiles.iter().map(Narrow::bytes).sum(),
            Matrix::Quantised(QMatMul::QTensor(weight)) => weight.storage_size_in_bytes(),
            Matrix::Quantised(QMatMul::Tensor(weight) | QMatMul::TensorF16(weight)) => tensor_bytes(weight),
        }
    }

    /// The product with `x: [rows, in]`, in f32.
    pub(crate) fn forward(&self, x: &Tensor, kernels: Kernels) -> Computed<Tensor> {
        Ok(match self {
            Matrix::F32(weight) if kernels == Kernels::Slices => wide_product(x, weight)?,
            Matrix::F32(weight) => x.matmul(&weight.t()?)?,
            Matrix::Narrow { tiles, shape } if kernels == Kernels::Slices => narrow_product(x, tiles, *shape)?,
            Matrix::Narrow { tiles, .. } => {
                let parts =
                    tiles.iter().map(|tile| Ok(x.matmul(&tile.widen()?.t()?)?)).collect::<Computed<Vec<_>>>()?;
                Tensor::cat(&parts, 1)?
            }
            Matrix::Quantised(weight) => weight.forward(x)?,
        })
    }
}

impl Narrow {
    fn tiles(rows: usize) -> impl Iterator<Item = Range<usize>> {
        (0..rows).step_by(TILE_ROWS).map(move |start| start..rows.min(start + TILE_ROWS))
    }

    fn widen(&self) -> Computed<Tensor> {
        Ok(match self {
            Narrow::Half(tile) => tile.to_dtype(DType::F32)?,
            Narrow::Quantised(tile) => tile.dequantize(&tile.device())?,
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Narrow::Half(tile) => tensor_bytes(tile),
            Narrow::Quantised(tile) => tile.storage_size_in_bytes(),
        }
    }
}

/// The bytes that a tensor takes in memory.
pub(crate) fn tensor_bytes(tensor: &Tensor) -> usize {
    tensor.elem_count() * tensor.dtype().size_in_bytes()
}

/// The product of weights that are widened tile by tile.
fn narrow_product(x: &Tensor, tiles: &[Narrow], (out, width): (usize, usize)) -> Computed<Tensor> {
    let rows = x.dim(0)?;
    let with_tile = |i: usize, with: &dyn Fn(&[f32])| with_slice(&tiles[i].widen()?, with);
    let y = with_slice(x, |x| product(x, (rows, width, out), with_tile))??;
    Ok(Tensor::from_vec(y, (rows, out), &Device::Cpu)?)
}

/// The product of f32 weights, where they lie.
fn wide_product(x: &Tensor, weight: &Tensor) -> Computed<Tensor> {
    let (rows, (out, width)) = (x.dim(0)?, weight.dims2()?);
    let y = with_slice(weight, |weight| {
        let tile = TILE_ROWS * width;
        let with_tile = |i: usize, with: &dyn Fn(&[f32])| {
            with(&weight[i * tile..weight.len().min((i + 1) * tile)]);
            Ok(())
        };
        with_slice(x, |x| product(x, (rows, width, out), with_tile))
    })???;
    Ok(Tensor::from_vec(y, (rows, out), &Device::Cpu)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_precision_multiplies_to_its_own_accuracy() {
        // Weights in [−1, 1), x all ones over 256: sums of magnitude up to 16, errors as a share of that. 600 rows are three tiles.
        let weight: Vec<f32> = (0..600 * 256).map(|i| (i * 37 % 251) as f32 / 125.5 - 1.0).collect();
        let weight = Tensor::from_vec(weight, (600, 256), &Device::Cpu).unwrap();
        let x = Tensor::ones((2, 256), DType::F32, &Device::Cpu).unwrap();
        let product = |dtype| -> Vec<Vec<f32>> {
            Matrix::new(weight.clone(), dtype).unwrap().forward(&x, Kernels::Slices).unwrap().to_vec2().unwrap()
        };
        let exact = product(Dtype::F32);
        for (dtype, tolerance) in [(Dtype::F16, 0.01), (Dtype::Q8_0, 0.2), (Dtype::Q6K, 0.6), (Dtype::Q4K, 2.5)] {
            for (row, want) in product(dtype).iter().zip(&exact) {
                for (got, want) in row.iter().zip(want) {
                    assert!((got - want).abs() <= tolerance, "{dtype}: {got}, {want}");
                }
            }
        }
    }

    #[test]
    fn a_width_that_does_not_fit_stays_f16() {
        let narrow = Tensor::ones((2, 64), DType::F32, &Device::Cpu).unwrap();
        // 2 x 64 weights: 2 bytes each, or 4 blocks of 32 in 34 bytes.
        assert_eq!(Matrix::new(narrow.clone(), Dtype::Q4K).unwrap().bytes(), 256);
        assert_eq!(Matrix::new(narrow, Dtype::Q8_0).unwrap().bytes(), 136);
    }
}
