//! A tensor as its file holds it: rows of bytes of some type, and how they become numbers.

use crate::error::{Computed, Error};
use crate::files::Bytes;
use crate::kernels::with_slice;
use crate::matrix;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Tensor, WithDType};
use half::{bf16, f16};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// A type in which files store tensors.
pub(crate) struct StorageType {
    /// Its number in GGUF files.
    pub(crate) number: u32,
    pub(crate) dtype: GgmlDType,
    pub(crate) name: &'static str,
    /// The offsets of the f16 factors in a block. Everything else in a block is a whole number, so a block is finite if these are.
    factors: &'static [usize],
}

/// Every type this engine reads.
pub(crate) const TYPES: [StorageType; 13] = [
    StorageType { number: 0, dtype: GgmlDType::F32, name: "F32", factors: &[] },
    StorageType { number: 1, dtype: GgmlDType::F16, name: "F16", factors: &[] },
    StorageType { number: 30, dtype: GgmlDType::BF16, name: "BF16", factors: &[] },
    StorageType { number: 2, dtype: GgmlDType::Q4_0, name: "Q4_0", factors: &[0] },
    StorageType { number: 3, dtype: GgmlDType::Q4_1, name: "Q4_1", factors: &[0, 2] },
    StorageType { number: 6, dtype: GgmlDType::Q5_0, name: "Q5_0", factors: &[0] },
    StorageType { number: 7, dtype: GgmlDType::Q5_1, name: "Q5_1", factors: &[0, 2] },
    StorageType { number: 8, dtype: GgmlDType::Q8_0, name: "Q8_0", factors: &[0] },
    StorageType { number: 10, dtype: GgmlDType::Q2K, name: "Q2_K", factors: &[80, 82] },
    StorageType { number: 11, dtype: GgmlDType::Q3K, name: "Q3_K", factors: &[108] },
    StorageType { number: 12, dtype: GgmlDType::Q4K, name: "Q4_K", factors: &[0, 2] },
    StorageType { number: 13, dtype: GgmlDType::Q5K, name: "Q5_K", factors: &[0, 2] },
    StorageType { number: 14, dtype: GgmlDType::Q6K, name: "Q6_K", factors: &[208] },
];

/// The entry of a type. Q8_1 and Q8_K are never stored, so they have none.
pub(crate) fn type_of(dtype: GgmlDType) -> Option<&'static StorageType> {
    TYPES.iter().find(|known| known.dtype == dtype)
}

pub(crate) fn type_name(dtype: GgmlDType) -> &'static str {
    type_of(dtype).map_or("Q8", |known| known.name)
}

pub(crate) fn accepted_types() -> String {
    TYPES.map(|known| known.name).join(", ")
}

/// Bytes of a row of `width` weights, which must fit the type's blocks.
pub(crate) fn row_bytes(dtype: GgmlDType, width: usize) -> usize {
    width / dtype.block_size() * dtype.type_size()
}

/// A tensor as its file has it: its type, its shape and its bytes.
pub(crate) struct StoredTensor<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: String,
    pub(crate) dtype: GgmlDType,
    /// The outermost dimension first.
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The file that the bytes are borrowed from, if they are.
    pub(crate) file: Option<&'a Bytes>,
}

impl StoredTensor<'_> {
    /// A part of it: some rows of a matrix, or some entries of a vector.
    pub(crate) fn rows(&self, rows: Range<usize>) -> StoredTensor<'_> {
        let row = self.row_bytes();
        let bytes = Cow::Borrowed(&self.bytes[rows.start * row..rows.end * row]);
        let shape = std::iter::once(rows.len()).chain(self.shape[1..].iter().copied()).collect();
        StoredTensor { path: self.path, name: self.name.clone(), dtype: self.dtype, shape, bytes, file: self.file }
    }

    /// Row i of the result is row `from(i)` of this. Rows are whole blocks, so this is exact in every type.
    pub(crate) fn reorder(&self, from: impl Fn(usize) -> usize) -> Vec<u8> {
        let row = self.row_bytes();
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for i in 0..self.shape[0] {
            bytes.extend_from_slice(&self.bytes[from(i) * row..][..row]);
        }
        bytes
    }

    /// The number of entries in a row.
    pub(crate) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    fn row_bytes(&self) -> usize {
        self.bytes.len() / self.shape[0]
    }

    /// Its numbers in f32; an error if one of them is not finite.
    pub(crate) fn to_f32(&self) -> Computed<Tensor> {
        match self.dtype {
            GgmlDType::F32 => self.convert(f32::from_le_bytes, f32::is_finite),
            GgmlDType::F16 => self.convert(|b| f16::from_le_bytes(b).to_f32(), f32::is_finite),
            GgmlDType::BF16 => self.convert(|b| bf16::from_le_bytes(b).to_f32(), f32::is_finite),
            _ => {
                self.check_finite()?;
                dequantised(self.dtype, &self.bytes, &self.shape)
            }
        }
    }

    /// Its numbers in f32, for a conversion to f16 or a quantised type: an error if one of them is beyond the largest f16. The factors of
    /// quantised blocks are f16 as well.
    pub(crate) fn to_narrow(&self) -> Computed<Tensor> {
        let values = self.to_f32()?;
        let largest = with_slice(&values, |values| values.iter().fold(0f32, |largest, v| largest.max(v.abs())))?;
        if largest > f16::MAX.to_f32() {
            let (path, name) = (self.path.into(), self.name.clone());
            return Err(Error::TooLarge { path, name, value: largest }.into());
        }
        Ok(values)
    }

    /// A number for every N bytes, all of them finite.
    fn convert<const N: usize, T: WithDType + Into<f32>>(
        &self,
        from: impl Fn([u8; N]) -> T,
        finite: impl Fn(T) -> bool,
    ) -> Computed<Tensor> {
        let values: Vec<T> = self.bytes.as_chunks().0.iter().map(|&chunk| from(chunk)).collect();
        // No early exit, so that the common case is one vectorised pass.
        if !values.iter().fold(true, |all, &v| all & finite(v)) {
            let index = values.iter().position(|&v| !finite(v)).unwrap_or(0);
            return Err(self.not_finite(index, values[index].into()).into());
        }
        Ok(Tensor::from_vec(values, &*self.shape, &Device::Cpu)?)
    }

    /// Its bytes as they are stored, for as long as they are wanted; an error if one of its numbers is not finite.
    pub(crate) fn keep(&self) -> Computed<matrix::Bytes> {
        self.check_finite()?;
        let part = self.file.and_then(|file| file.part(&self.bytes));
        Ok(part.map_or_else(|| self.bytes.to_vec().into(), matrix::Bytes::File))
    }

    /// An error if a number, or a factor of a block of numbers, is not finite.
    fn check_finite(&self) -> Computed<()> {
        /// Bytes that a task looks at, a multiple of every type's blocks of 256.
        const BLOCKS: usize = 1 << 12;
        let factors = type_of(self.dtype).map_or(&[] as &[usize], |known| known.factors);
        let (block, size) = (self.dtype.block_size(), self.dtype.type_size());
        let half = |at: &[u8], i: usize| f16::from_le_bytes([at[i], at[i + 1]]).to_f32();
        // Exponents of all ones are infinities and NaN. No early exit, so that the common case is one vectorised pass.
        let spoilt = |part: &[u8]| match self.dtype {
            GgmlDType::F32 => {
                part.as_chunks::<4>().0.iter().any_of(|b| u32::from_le_bytes(*b) & 0x7f80_0000 == 0x7f80_0000)
            }
            GgmlDType::F16 => part.as_chunks::<2>().0.iter().any_of(|b| u16::from_le_bytes(*b) & 0x7c00 == 0x7c00),
            GgmlDType::BF16 => part.as_chunks::<2>().0.iter().any_of(|b| u16::from_le_bytes(*b) & 0x7f80 == 0x7f80),
            _ => part.chunks_exact(size).any(|block| factors.iter().any(|&at| !half(block, at).is_finite())),
        };
        let Some(task) = self.bytes.par_chunks(BLOCKS * size).position_first(spoilt) else { return Ok(()) };
        let first = task * BLOCKS;
        for (i, bytes) in self.bytes.chunks_exact(size).enumerate().skip(first) {
            let values: Vec<f32> = match self.dtype {
                GgmlDType::F32 => vec![f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])],
                GgmlDType::F16 => vec![half(bytes, 0)],
                GgmlDType::BF16 => vec![bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32()],
                _ => factors.iter().map(|&at| half(bytes, at)).collect(),
            };
            if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
                return Err(self.not_finite(i * block, value).into());
            }
        }
        Ok(())
    }

    fn not_finite(&self, index: usize, value: f32) -> Error {
        Error::NotFinite { path: self.path.into(), name: self.name.clone(), index, value }
    }
}

/// Whether it holds for any, asked of all of them without an early exit.
trait AnyOf: Iterator + Sized {
    fn any_of(self, of: impl Fn(Self::Item) -> bool) -> bool {
        self.fold(false, |any, item| any | of(item))
    }
}

impl<I: Iterator> AnyOf for I {}

/// Stored numbers as the tensor library widens them to f32.
pub(crate) fn dequantised(dtype: GgmlDType, bytes: &[u8], shape: &[usize]) -> Computed<Tensor> {
    let plain = match dtype {
        GgmlDType::F32 => Some(DType::F32),
        GgmlDType::F16 => Some(DType::F16),
        GgmlDType::BF16 => Some(DType::BF16),
        _ => None,
    };
    if let Some(plain) = plain {
        return Ok(Tensor::from_raw_buffer(bytes, plain, shape, &Device::Cpu)?.to_dtype(DType::F32)?);
    }
    // The library panics at bytes that are not aligned as its blocks are.
    let aligned = aligned(bytes);
    let storage = QStorage::from_data(Cow::Borrowed(&aligned), &Device::Cpu, dtype)?;
    Ok(QTensor::new(storage, shape)?.dequantize(&Device::Cpu)?)
}

/// The alignment that the tensor library expects: that of an f32 is enough for the blocks of every type.
const ALIGNED: usize = 4;

/// The same bytes at an aligned address: themselves, or a copy.
fn aligned(bytes: &[u8]) -> Aligned<'_> {
    if bytes.as_ptr().align_offset(ALIGNED) == 0 {
        return Aligned::Already(bytes);
    }
    let mut copy = vec![0; bytes.len() + ALIGNED];
    let start = copy.as_ptr().align_offset(ALIGNED);
    copy[start..start + bytes.len()].copy_from_slice(bytes);
    Aligned::Copy(copy, start..start + bytes.len())
}

enum Aligned<'a> {
    Already(&'a [u8]),
    Copy(Vec<u8>, Range<usize>),
}

impl std::ops::Deref for Aligned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Aligned::Already(bytes) => bytes,
            Aligned::Copy(bytes, range) => &bytes[range.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 weights in rows of 256, in every type.
    fn every_type() -> impl Iterator<Item = (Vec<f32>, GgmlDType, Vec<u8>)> {
        TYPES.iter().map(|known| {
            let values: Vec<f32> = (0..512).map(|i| (i * 37 % 256) as f32 / 128.0 - 1.0).collect();
            let tensor = Tensor::from_vec(values.clone(), (2, 256), &Device::Cpu).unwrap();
            let bytes = QTensor::quantize(&tensor, known.dtype).unwrap().data().unwrap().into_owned();
            (values, known.dtype, bytes)
        })
    }

    fn stored(dtype: GgmlDType, bytes: &[u8]) -> StoredTensor<'_> {
        StoredTensor {
            path: Path::new("x"),
            name: "w".into(),
            dtype,
            shape: vec![2, 256],
            bytes: Cow::Borrowed(bytes),
            file: None,
        }
    }

    #[test]
    fn bytes_become_numbers_wherever_they_lie() {
        for (values, dtype, bytes) in every_type() {
            for start in 0..3 {
                let moved = [&[0; 3][..start], &bytes].concat();
                let got: Vec<f32> =
                    stored(dtype, &moved[start..]).to_f32().unwrap().flatten_all().unwrap().to_vec1().unwrap();
                let off = got.iter().zip(&values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 0.5, "{dtype:?}: {off}");
            }
        }
    }

    #[test]
    fn rows_are_cut_and_moved_without_a_loss() {
        for (_, dtype, bytes) in every_type() {
            let whole = stored(dtype, &bytes);
            assert_eq!(whole.bytes.len(), 2 * row_bytes(dtype, 256));
            let swapped = whole.reorder(|i| 1 - i);
            assert_eq!(swapped, [&*whole.rows(1..2).bytes, &*whole.rows(0..1).bytes].concat(), "{dtype:?}");
        }
    }

    #[test]
    fn no_factor_is_overlooked() {
        // Infinity in any two bytes that matter must be found: where it is not, the numbers must be finite without help.
        for (_, dtype, bytes) in every_type() {
            for at in 0..dtype.type_size() - 1 {
                let mut bytes = bytes.clone();
                bytes[at..at + 2].copy_from_slice(&f16::INFINITY.to_le_bytes());
                if let Ok(tensor) = stored(dtype, &bytes).to_f32() {
                    let values: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
                    assert!(values.iter().all(|v| v.is_finite()), "{dtype:?} at {at}");
                }
            }
        }
    }
}
