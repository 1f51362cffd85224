//! A weight matrix in memory, and its product with activations.
//!
//! Weights stay as they are stored, in the file itself where it lies on a disk; activations are f32 throughout. What a product does with
//! them is `cofill-kernels`' business; on other devices it is the tensor library's.

use crate::error::Computed;
use crate::files::Part;
use crate::kernels::{Kernels, with_slice};
use crate::load_options::Dtype;
use crate::stored::{StoredTensor, dequantised};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use cofill_kernels::{Buffers, Format, Level, Weights, multiply_rows};
use half::{bf16, f16};
use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::Arc;

impl Dtype {
    /// The type of a matrix with rows of `width`: one that does not fit the blocks stays f16.
    pub(crate) fn of_matrix(self, width: usize) -> GgmlDType {
        match self.quantised() {
            Some(quantised) if width.is_multiple_of(quantised.block_size()) => quantised,
            None if self == Dtype::F32 => GgmlDType::F32,
            None if self == Dtype::Bf16 => GgmlDType::BF16,
            _ => GgmlDType::F16,
        }
    }

    /// The type of the embedding. It is looked up, not multiplied with: half precision is as small as it gets.
    pub(crate) fn of_embedding(self) -> GgmlDType {
        match self {
            Dtype::F32 => GgmlDType::F32,
            Dtype::Bf16 => GgmlDType::BF16,
            _ => GgmlDType::F16,
        }
    }

    pub(crate) fn quantised(self) -> Option<GgmlDType> {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => None,
            Dtype::Q4K => Some(GgmlDType::Q4K),
            Dtype::Q6K => Some(GgmlDType::Q6K),
            Dtype::Q8_0 => Some(GgmlDType::Q8_0),
        }
    }
}

/// How a stored type lies in memory; `None` for types that are never stored.
fn format_of(dtype: GgmlDType) -> Option<Format> {
    Some(match dtype {
        GgmlDType::F32 => Format::F32,
        GgmlDType::F16 => Format::F16,
        GgmlDType::BF16 => Format::Bf16,
        GgmlDType::Q4_0 => Format::Q4_0,
        GgmlDType::Q4_1 => Format::Q4_1,
        GgmlDType::Q5_0 => Format::Q5_0,
        GgmlDType::Q5_1 => Format::Q5_1,
        GgmlDType::Q8_0 => Format::Q8_0,
        GgmlDType::Q2K => Format::Q2K,
        GgmlDType::Q3K => Format::Q3K,
        GgmlDType::Q4K => Format::Q4K,
        GgmlDType::Q5K => Format::Q5K,
        GgmlDType::Q6K => Format::Q6K,
        _ => return None,
    })
}

/// The matrix W of a product `y = x Wᵀ`, or a table whose rows are looked up. `[out, in]`
pub(crate) struct Matrix {
    held: Held,
    shape: (usize, usize),
}

enum Held {
    /// As it is stored, for the loops of this machine.
    Stored(GgmlDType, Format, Bytes),
    /// On another device.
    Tensor(Tensor),
    Quantised(QMatMul),
}

/// Bytes of a matrix: a part of a file, or memory of our own, which matrices may share.
#[derive(Clone)]
pub(crate) enum Bytes {
    File(Part),
    Own(Arc<Vec<u8>>, Range<usize>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::File(part) => part,
            Bytes::Own(bytes, range) => &bytes[range.clone()],
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let range = 0..bytes.len();
        Bytes::Own(Arc::new(bytes), range)
    }
}

impl Bytes {
    fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Bytes::File(part) => Bytes::File(part.slice(range)),
            Bytes::Own(bytes, all) => Bytes::Own(bytes.clone(), all.start + range.start..all.start + range.end),
        }
    }
}

impl Matrix {
    /// Converts what a file holds to `dtype`, or keeps it as it is stored.
    pub(crate) fn load(stored: &StoredTensor<'_>, dtype: Option<Dtype>) -> Computed<Matrix> {
        Matrix::of(stored, dtype.map(|dtype| dtype.of_matrix(stored.width())))
    }

    /// The same for a table whose rows are looked up.
    pub(crate) fn table(stored: &StoredTensor<'_>, dtype: Option<Dtype>) -> Computed<Matrix> {
        Matrix::of(stored, dtype.map(Dtype::of_embedding))
    }

    fn of(stored: &StoredTensor<'_>, dtype: Option<GgmlDType>) -> Computed<Matrix> {
        let shape = (stored.shape[0], stored.width());
        if let Some(dtype) = dtype.filter(|&dtype| dtype != stored.dtype) {
            let weight = if dtype == GgmlDType::F32 { stored.to_f32()? } else { stored.to_narrow()? };
            return Matrix::convert(&weight, dtype);
        }
        Matrix::keep(stored.dtype, stored.keep()?, shape)
    }

    fn keep(dtype: GgmlDType, bytes: Bytes, shape: (usize, usize)) -> Computed<Matrix> {
        let format = format_of(dtype);
        let format = format.ok_or_else(|| candle_core::Error::Msg(format!("{dtype:?} is never stored")))?;
        Ok(Matrix { held: Held::Stored(dtype, format, bytes), shape })
    }

    /// Converts an f32 tensor. One whose width does not fit the blocks of a quantised type stays f16.
    #[cfg(test)]
    pub(crate) fn new(weight: &Tensor, dtype: Dtype) -> Computed<Matrix> {
        Matrix::convert(weight, dtype.of_matrix(weight.dim(1)?))
    }

    fn convert(weight: &Tensor, dtype: GgmlDType) -> Computed<Matrix> {
        let shape = weight.dims2()?;
        let bytes = match dtype {
            GgmlDType::F32 => with_slice(weight, |w| bytemuck::cast_slice(w).to_vec())?,
            GgmlDType::F16 => with_slice(weight, |w| w.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect())?,
            GgmlDType::BF16 => {
                with_slice(weight, |w| w.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect())?
            }
            // A copy: quantising reads the whole storage, and a tensor may be a part of one.
            _ => QTensor::quantize(&weight.force_contiguous()?, dtype)?.data()?.into_owned(),
        };
        Matrix::keep(dtype, bytes.into(), shape)
    }

    /// Some of its rows. On this machine they are shared, not copied.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Computed<Matrix> {
        let shape = (rows.len(), self.shape.1);
        let held = match &self.held {
            Held::Stored(dtype, format, bytes) => {
                let row = format.row_bytes(self.shape.1);
                Held::Stored(*dtype, *format, bytes.slice(rows.start * row..rows.end * row))
            }
            Held::Tensor(tensor) => Held::Tensor(tensor.narrow(0, rows.start, rows.len())?),
            Held::Quantised(_) => return Err(candle_core::Error::Msg("rows of a quantised matrix".into()).into()),
        };
        Ok(Matrix { held, shape })
    }

    /// Moves it to a device.
    pub(crate) fn onto(self, device: &Device) -> Computed<Matrix> {
        let Held::Stored(dtype, _, bytes) = &self.held else { return Ok(self) };
        if device.is_cpu() {
            return Ok(self);
        }
        let (rows, width) = self.shape;
        let raw = |dtype| Tensor::from_raw_buffer(bytes, dtype, &[rows, width], device);
        let held = match dtype {
            GgmlDType::F32 => Held::Tensor(raw(DType::F32)?),
            GgmlDType::F16 => Held::Tensor(raw(DType::F16)?),
            GgmlDType::BF16 => Held::Tensor(raw(DType::BF16)?),
            _ => {
                let storage = QStorage::from_data(Cow::Borrowed(bytes), device, *dtype)?;
                Held::Quantised(QMatMul::from_qtensor(QTensor::new(storage, (rows, width))?)?)
            }
        };
        Ok(Matrix { held, ..self })
    }

    /// How many outputs it has.
    pub(crate) fn n_rows(&self) -> usize {
        self.shape.0
    }

    /// The bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.held {
            Held::Stored(_, _, bytes) => bytes.len(),
            Held::Tensor(weight) | Held::Quantised(QMatMul::Tensor(weight) | QMatMul::TensorF16(weight)) => {
                tensor_bytes(weight)
            }
            Held::Quantised(QMatMul::QTensor(weight)) => weight.storage_size_in_bytes(),
        }
    }

    /// Whether it is kept in this type.
    pub(crate) fn is_of(&self, dtype: GgmlDType) -> bool {
        match &self.held {
            Held::Stored(own, ..) => *own == dtype,
            Held::Tensor(tensor) => match tensor.dtype() {
                DType::F32 => dtype == GgmlDType::F32,
                DType::F16 => dtype == GgmlDType::F16,
                DType::BF16 => dtype == GgmlDType::BF16,
                _ => false,
            },
            Held::Quantised(_) => false,
        }
    }

    /// Whether both are one and the same memory.
    pub(crate) fn shares(&self, other: &Matrix) -> bool {
        match (&self.held, &other.held) {
            (Held::Stored(own, ..), Held::Stored(theirs, ..)) => own == theirs,
            (Held::Tensor(own), Held::Tensor(theirs)) => own.dtype() == theirs.dtype(),
            _ => false,
        }
    }

    /// As the loops of this machine want it; an error if it lies on another device.
    pub(crate) fn weights(&self) -> Computed<Weights<'_>> {
        match &self.held {
            Held::Stored(_, format, bytes) => Ok(Weights::new(*format, self.shape, bytes)),
            _ => Err(candle_core::Error::Msg("a matrix of another device among the CPU's".into()).into()),
        }
    }

    /// Writes rows of a table as f32, one after the other: `[ids, width]`.
    pub(crate) fn look_up(&self, ids: &[u32], out: &mut [f32]) -> Computed<()> {
        let weights = self.weights()?;
        let width = self.shape.1;
        ids.iter().zip(out.chunks_exact_mut(width.max(1))).for_each(|(&id, out)| weights.row(id as usize, out));
        Ok(())
    }

    /// The same as a tensor, wherever it lies.
    pub(crate) fn look_up_tensor(&self, ids: &[u32]) -> Computed<Tensor> {
        match &self.held {
            Held::Stored(..) => {
                let mut rows = vec![0.0; ids.len() * self.shape.1];
                self.look_up(ids, &mut rows)?;
                Ok(Tensor::from_vec(rows, (ids.len(), self.shape.1), &Device::Cpu)?)
            }
            Held::Tensor(table) => {
                let ids = Tensor::from_slice(ids, ids.len(), table.device())?;
                Ok(table.index_select(&ids, 0)?.to_dtype(DType::F32)?)
            }
            Held::Quantised(_) => Err(candle_core::Error::Msg("a quantised table on a device".into()).into()),
        }
    }

    /// The product with `x: [rows, in]`, in f32.
    pub(crate) fn forward(&self, x: &Tensor, kernels: Kernels) -> Computed<Tensor> {
        let (out, width) = self.shape;
        Ok(match &self.held {
            Held::Stored(..) if kernels == Kernels::Slices => {
                let rows = x.dim(0)?;
                let mut y = vec![0.0; rows * out];
                let weights = self.weights()?;
                with_slice(x, |x| multiply_rows(Level::best(), x, weights, None, &mut y, &Buffers::default()))?;
                Tensor::from_vec(y, (rows, out), &Device::Cpu)?
            }
            Held::Stored(dtype, _, bytes) => x.matmul(&dequantised(*dtype, bytes, &[out, width])?.t()?)?,
            Held::Tensor(weight) => x.matmul(&weight.to_dtype(DType::F32)?.t()?)?,
            Held::Quantised(weight) => weight.forward(x)?,
        })
    }
}

/// The bytes that a tensor takes in memory.
pub(crate) fn tensor_bytes(tensor: &Tensor) -> usize {
    tensor.elem_count() * tensor.dtype().size_in_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_precision_multiplies_to_its_own_accuracy() {
        // Weights in [−1, 1), x all ones over 256: sums of magnitude up to 16, errors as a share of that. 600 rows are many tiles.
        let weight: Vec<f32> = (0..600 * 256).map(|i| (i * 37 % 251) as f32 / 125.5 - 1.0).collect();
        let weight = Tensor::from_vec(weight, (600, 256), &Device::Cpu).unwrap();
        let x = Tensor::ones((2, 256), DType::F32, &Device::Cpu).unwrap();
        let product = |dtype, kernels| -> Vec<Vec<f32>> {
            Matrix::new(&weight, dtype).unwrap().forward(&x, kernels).unwrap().to_vec2().unwrap()
        };
        let exact = product(Dtype::F32, Kernels::Slices);
        let tolerances =
            [(Dtype::F16, 0.01), (Dtype::Bf16, 0.1), (Dtype::Q8_0, 0.2), (Dtype::Q6K, 0.6), (Dtype::Q4K, 2.5)];
        for (dtype, tolerance) in tolerances {
            for kernels in [Kernels::Slices, Kernels::Ops] {
                for (row, want) in product(dtype, kernels).iter().zip(&exact) {
                    for (got, want) in row.iter().zip(want) {
                        assert!((got - want).abs() <= tolerance, "{dtype}: {got}, {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_width_that_does_not_fit_stays_f16() {
        let narrow = Tensor::ones((2, 64), DType::F32, &Device::Cpu).unwrap();
        // 2 x 64 weights: 2 bytes each, or 4 blocks of 32 in 34 bytes.
        assert_eq!(Matrix::new(&narrow, Dtype::Q4K).unwrap().bytes(), 256);
        assert_eq!(Matrix::new(&narrow, Dtype::Q8_0).unwrap().bytes(), 136);
    }

    #[test]
    fn rows_are_shared() {
        let weight = Tensor::arange(0f32, 12.0, &Device::Cpu).unwrap().reshape((4, 3)).unwrap();
        let matrix = Matrix::new(&weight, Dtype::F32).unwrap();
        let part = matrix.rows(1..3).unwrap();
        let mut row = [0.0; 3];
        part.look_up(&[1], &mut row).unwrap();
        assert_eq!(row, [6.0, 7.0, 8.0]);
        let (Held::Stored(_, _, Bytes::Own(all, _)), Held::Stored(_, _, Bytes::Own(some, _))) =
            (&matrix.held, &part.held)
        else {
            panic!("not stored here");
        };
        assert!(Arc::ptr_eq(all, some));
    }
}
