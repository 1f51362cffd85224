//! A weight matrix, in the precision it was loaded with.
//!
//! Activations are f32 throughout. Half-precision and quantised weights are what a machine can hold, not what it computes in.

use crate::error::Result;
use crate::stored::Stored;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Module, Tensor};
use std::fmt;
use std::str::FromStr;

/// How weights are kept in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// 4 bytes a weight, exact.
    #[default]
    F32,
    /// 2 bytes.
    F16,
    /// About 4.5 bits, in blocks of 256.
    Q4K,
    /// About 6.6 bits, in blocks of 256.
    Q6K,
    /// About 8.5 bits, in blocks of 32.
    Q8_0,
}

impl Precision {
    const ALL: [(&'static str, Precision); 5] = [
        ("f32", Precision::F32),
        ("f16", Precision::F16),
        ("q4k", Precision::Q4K),
        ("q6k", Precision::Q6K),
        ("q8_0", Precision::Q8_0),
    ];

    /// Every precision.
    pub fn all() -> impl Iterator<Item = Precision> {
        Precision::ALL.into_iter().map(|(_, precision)| precision)
    }

    /// The type of a matrix with rows of `width`: one that does not fit the blocks stays f16.
    pub(crate) fn of_matrix(self, width: usize) -> GgmlDType {
        match self.quantised() {
            Some(quantised) if width.is_multiple_of(quantised.block_size()) => quantised,
            None if self == Precision::F32 => GgmlDType::F32,
            _ => GgmlDType::F16,
        }
    }

    /// The type of the embedding. It is looked up, not multiplied with: half precision is as small as it gets.
    pub(crate) fn of_embedding(self) -> GgmlDType {
        if self == Precision::F32 { GgmlDType::F32 } else { GgmlDType::F16 }
    }

    pub(crate) fn quantised(self) -> Option<GgmlDType> {
        match self {
            Precision::F32 | Precision::F16 => None,
            Precision::Q4K => Some(GgmlDType::Q4K),
            Precision::Q6K => Some(GgmlDType::Q6K),
            Precision::Q8_0 => Some(GgmlDType::Q8_0),
        }
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        let found = Precision::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, precision)| *precision).ok_or_else(|| "expected f32, f16, q4k, q6k or q8_0".into())
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Precision::ALL.iter().find(|(_, precision)| precision == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// `y = x Wᵀ`.
pub(crate) enum Matrix {
    F32(Tensor), // [out, in]
    F16(Tensor),
    BF16(Tensor),
    Quantised(QMatMul),
}

impl Matrix {
    /// Converts what a file holds to `precision`, or keeps it as it is stored.
    pub(crate) fn load(stored: &Stored<'_>, precision: Option<Precision>) -> Result<Matrix> {
        match precision {
            Some(precision) if precision.of_matrix(stored.width()) != stored.dtype => {
                Matrix::new(stored.to_f32()?, precision)
            }
            _ => match stored.dtype {
                GgmlDType::F32 => Ok(Matrix::F32(stored.to_f32()?)),
                GgmlDType::F16 => Ok(Matrix::F16(stored.f16()?)),
                GgmlDType::BF16 => Ok(Matrix::BF16(stored.bf16()?)),
                _ => Ok(Matrix::Quantised(QMatMul::from_qtensor(stored.quantised()?)?)),
            },
        }
    }

    /// Converts an f32 tensor. One whose width does not fit the blocks of a quantised type stays f16.
    pub(crate) fn new(weight: Tensor, precision: Precision) -> Result<Matrix> {
        let width = weight.dim(1)?;
        match precision.quantised() {
            None if precision == Precision::F32 => Ok(Matrix::F32(weight)),
            Some(quantised) if width.is_multiple_of(quantised.block_size()) => {
                Ok(Matrix::Quantised(QMatMul::from_qtensor(QTensor::quantize(&weight, quantised)?)?))
            }
            _ => Ok(Matrix::F16(weight.to_dtype(DType::F16)?)),
        }
    }

    /// `x: [rows, in]`, in f32.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Matrix::F32(weight) => x.matmul(&weight.t()?)?,
            // Widened for the product, one matrix at a time: sums in f16 would lose what the goldens can see.
            Matrix::F16(weight) | Matrix::BF16(weight) => x.matmul(&weight.to_dtype(DType::F32)?.t()?)?,
            Matrix::Quantised(weight) => weight.forward(x)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn names_round_trip() {
        for (name, precision) in Precision::ALL {
            assert_eq!((name.parse(), precision.to_string()), (Ok(precision), name.to_string()));
        }
        assert!("Q4_K_M".parse::<Precision>().unwrap_err().contains("q4k"));
    }

    #[test]
    fn every_precision_multiplies_to_its_own_accuracy() {
        // Weights in [−1, 1), x all ones over 256: sums of magnitude up to 16, errors as a share of that.
        let weight: Vec<f32> = (0..4 * 256).map(|i| (i * 37 % 256) as f32 / 128.0 - 1.0).collect();
        let weight = Tensor::from_vec(weight, (4, 256), &Device::Cpu).unwrap();
        let x = Tensor::ones((2, 256), DType::F32, &Device::Cpu).unwrap();
        let product = |precision| -> Vec<Vec<f32>> {
            Matrix::new(weight.clone(), precision).unwrap().forward(&x).unwrap().to_vec2().unwrap()
        };
        let exact = product(Precision::F32);
        for (precision, tolerance) in
            [(Precision::F16, 0.01), (Precision::Q8_0, 0.2), (Precision::Q6K, 0.6), (Precision::Q4K, 2.5)]
        {
            for (row, want) in product(precision).iter().zip(&exact) {
                for (got, want) in row.iter().zip(want) {
                    assert!((got - want).abs() <= tolerance, "{precision}: {got}, {want}");
                }
            }
        }
    }

    #[test]
    fn a_width_that_does_not_fit_stays_f16() {
        let narrow = Tensor::ones((2, 64), DType::F32, &Device::Cpu).unwrap();
        assert!(matches!(Matrix::new(narrow.clone(), Precision::Q4K).unwrap(), Matrix::F16(_)));
        assert!(matches!(Matrix::new(narrow, Precision::Q8_0).unwrap(), Matrix::Quantised(_)));
    }
}
