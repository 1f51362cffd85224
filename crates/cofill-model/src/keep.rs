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
        by_name(&Processor::ALL, text)
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Processor::ALL, self))
    }
}

/// What has this name in a table of all choices.
pub(crate) fn by_name<T: Copy>(all: &[(&str, T)], text: &str) -> Result<T, String> {
    if let Some((_, choice)) = all.iter().find(|(name, _)| *name == text) {
        return Ok(*choice);
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let (last, others) = names.split_last().unwrap_or((&"nothing", &[]));
    Err(format!("expected {} or {last}", others.join(", ")))
}

/// Its name there.
pub(crate) fn name_of<T: PartialEq>(all: &[(&'static str, T)], choice: &T) -> &'static str {
    all.iter().find(|(_, known)| known == choice).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, processor) in Processor::ALL {
            assert_eq!((name.parse(), processor.to_string()), (Ok(processor), name.to_string()));
        }
        assert_eq!("gpu".parse::<Processor>(), Err("expected cpu, cuda or metal".into()));
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
