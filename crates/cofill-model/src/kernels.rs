//! Which loops a forward runs on, and tensors as the slices that ours work on.

use crate::error::Computed;
use candle_core::{Storage, Tensor};
use rayon::prelude::*;

/// Which implementation of the forward is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// The loops of `cofill-kernels`, on the CPU.
    Slices,
    /// The tensor library's operations, on any device.
    Ops,
}

impl Kernels {
    /// What is wrong with the environment variable that chooses instructions (`COFILL_KERNELS`), if something is.
    pub fn check_level() -> Result<(), String> {
        cofill_kernels::Level::asked().map(drop)
    }
}

/// Numbers that one task of an activation has.
const GRAIN: usize = 1 << 15;

/// An activation of `x` by itself, on all threads.
pub(crate) fn activate(x: &[f32], function: fn(&mut [f32])) -> Vec<f32> {
    let mut out = x.to_vec();
    out.par_chunks_mut(GRAIN).for_each(function);
    out
}

/// Reads a contiguous f32 tensor on the CPU where it lies.
pub(crate) fn with_slice<T>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> T) -> Computed<T> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Err(candle_core::Error::Msg("a tensor of another device among the CPU's".into()).into());
    };
    let start = layout.start_offset();
    Ok(f(&storage.as_slice::<f32>()?[start..start + layout.shape().elem_count()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill_kernels::{gelu, gelu_tanh};

    #[test]
    fn both_gelus_are_right_to_a_few_units_in_the_last_place() {
        // Against the tensor library's, which computes erf and tanh in f64 and f32.
        let x: Vec<f32> = (-12_000..=12_000).map(|i| i as f32 / 1000.0).chain([-1e30, 1e30]).collect();
        let tensor = Tensor::new(x.as_slice(), &candle_core::Device::Cpu).unwrap();
        let check = |got: Vec<f32>, want: Tensor| {
            for ((x, got), want) in x.iter().zip(got).zip(want.to_vec1::<f32>().unwrap()) {
                assert!((got - want).abs() <= 2e-7 * x.abs().max(0.1), "gelu({x}) = {want}, not {got}");
            }
        };
        check(activate(&x, gelu), tensor.gelu_erf().unwrap());
        check(activate(&x[..24_001], gelu_tanh), tensor.gelu().unwrap());
        // Φ(1) = 0.841345
        assert!((activate(&[1.0], gelu)[0] - 0.841_344_7).abs() < 2e-7);
        assert!(activate(&[f32::NAN], gelu)[0].is_nan() && activate(&[f32::NAN], gelu_tanh)[0].is_nan());
    }
}
