//! How weights are kept, and where.

use crate::error::{Error, Result};
use crate::matrix::Precision;
use candle_core::Device;
use std::fmt;
use std::str::FromStr;

/// How to keep the weights of a checkpoint while it is loaded. A precision alone means the CPU.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// Without one, folders are kept in f32 and GGUF files as they are stored.
    pub precision: Option<Precision>,
    /// Where they are computed with.
    pub processor: Processor,
}

impl From<Precision> for Keep {
    fn from(precision: Precision) -> Keep {
        Keep { precision: Some(precision), ..Keep::default() }
    }
}

/// What computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Processor {
    /// Every core.
    #[default]
    Cpu,
    /// The first NVIDIA card; needs a build with the feature `cuda`.
    Cuda,
    /// Apple's; needs a build with the feature `metal`.
    Metal,
}

impl Processor {
    const ALL: [(&'static str, Processor); 3] =
        [("cpu", Processor::Cpu), ("cuda", Processor::Cuda), ("metal", Processor::Metal)];

    /// The tensor library's handle; an error when this build or this machine has none.
    pub(crate) fn device(self) -> Result<Device> {
        let device = match self {
            Processor::Cpu => Ok(Device::Cpu),
            Processor::Cuda => Device::new_cuda(0),
            Processor::Metal => Device::new_metal(0),
        };
        device.map_err(|error| Error::Processor { processor: self, problem: error.to_string() })
    }
}

impl FromStr for Processor {
    type Err = String;

    fn from_str(text: &str) -> Result<Processor, String> {
        let found = Processor::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, processor)| *processor).ok_or_else(|| "expected cpu, cuda or metal".into())
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Processor::ALL.iter().find(|(_, processor)| processor == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, processor) in Processor::ALL {
            assert_eq!((name.parse(), processor.to_string()), (Ok(processor), name.to_string()));
        }
        assert!("gpu".parse::<Processor>().unwrap_err().contains("metal"));
    }

    #[test]
    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    fn a_build_without_gpus_says_what_to_build() {
        for processor in [Processor::Cuda, Processor::Metal] {
            let error = processor.device().unwrap_err().to_string();
            assert!(error.contains(&format!("--features {processor}")), "{error}");
        }
    }
}
