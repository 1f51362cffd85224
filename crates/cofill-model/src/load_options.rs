//! How a checkpoint is loaded: the type its weights have in memory, and the device that computes with them.
//!
//! Both types are written by name, with the same names on a command line, in JSON and in TOML.

use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// How to load the weights of a checkpoint. A [`Dtype`] converts into these options, on the CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// The type of the weights in memory. `None` keeps them as they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// The device that holds the weights and computes.
    pub device: Device,
}

impl From<Dtype> for LoadOptions {
    fn from(dtype: Dtype) -> LoadOptions {
        LoadOptions { dtype: Some(dtype), ..LoadOptions::default() }
    }
}

/// The type of a model's weights in memory. Activations are f32 with every one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 4 bytes a weight, exact.
    #[default]
    F32,
    /// 2 bytes a weight.
    F16,
    /// 2 bytes a weight, as most checkpoints are published: exact for those.
    Bf16,
    /// About 4.5 bits a weight, in blocks of 256.
    Q4K,
    /// About 6.6 bits a weight, in blocks of 256.
    Q6K,
    /// About 8.5 bits a weight, in blocks of 32.
    Q8_0,
}

impl Dtype {
    const ALL: [(&'static str, Dtype); 6] = [
        ("f32", Dtype::F32),
        ("f16", Dtype::F16),
        ("bf16", Dtype::Bf16),
        ("q4k", Dtype::Q4K),
        ("q6k", Dtype::Q6K),
        ("q8_0", Dtype::Q8_0),
    ];

    /// Every dtype there is.
    pub fn all() -> impl Iterator<Item = Dtype> {
        Dtype::ALL.into_iter().map(|(_, dtype)| dtype)
    }
}

/// The hardware that computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The processor, with all of its cores.
    #[default]
    Cpu,
    /// The first NVIDIA GPU; needs a build with the feature `cuda`.
    Cuda,
    /// The first Apple GPU; needs a build with the feature `metal`.
    Metal,
}

impl Device {
    const ALL: [(&'static str, Device); 3] = [("cpu", Device::Cpu), ("cuda", Device::Cuda), ("metal", Device::Metal)];

    /// The tensor library's handle; an error when this build or this machine has no such device.
    pub(crate) fn open(self) -> Result<candle_core::Device> {
        let device = match self {
            Device::Cpu => Ok(candle_core::Device::Cpu),
            Device::Cuda => candle_core::Device::new_cuda(0),
            Device::Metal => candle_core::Device::new_metal(0),
        };
        device.map_err(|error| Error::Device { device: self, problem: error.to_string() })
    }
}

/// Reading and writing by the names in `ALL`.
macro_rules! by_name {
    ($type:ident) => {
        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<$type, String> {
                find(&$type::ALL, text).ok_or_else(|| format!("expected {}", choices(&$type::ALL)))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // `pad`, so that a column of them can be aligned.
                f.pad($type::ALL.iter().find(|(_, known)| known == self).map_or("", |(name, _)| name))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = String::deserialize(deserializer)?;
                let unknown = || de::Error::custom(format!("`{text}`: expected {}", choices(&$type::ALL)));
                find(&$type::ALL, &text).ok_or_else(unknown)
            }
        }
    };
}

by_name!(Dtype);
by_name!(Device);

fn find<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    all.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
}

/// `a, b or c`.
fn choices<T>(all: &[(&str, T)]) -> String {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let (last, others) = names.split_last().unwrap_or((&"nothing", &[]));
    format!("{} or {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn names_round_trip() {
        for (name, dtype) in Dtype::ALL {
            assert_eq!((name.parse(), dtype.to_string()), (Ok(dtype), name.to_string()));
            assert_eq!((from_value(json!(name)).ok(), to_value(dtype).unwrap()), (Some(dtype), json!(name)));
        }
        for (name, device) in Device::ALL {
            assert_eq!((name.parse(), device.to_string()), (Ok(device), name.to_string()));
            assert_eq!((from_value(json!(name)).ok(), to_value(device).unwrap()), (Some(device), json!(name)));
        }
    }

    #[test]
    fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
        assert_eq!("Q4_K_M".parse::<Dtype>(), Err("expected f32, f16, bf16, q4k, q6k or q8_0".into()));
        assert_eq!("gpu".parse::<Device>(), Err("expected cpu, cuda or metal".into()));
        let error = from_value::<LoadOptions>(json!({"dtype": "int8"})).unwrap_err().to_string();
        assert!(error.contains("`int8`: expected f32, f16, bf16, q4k, q6k or q8_0"), "{error}");
        let error = from_value::<LoadOptions>(json!({"device": "gpu"})).unwrap_err().to_string();
        assert!(error.contains("`gpu`: expected cpu, cuda or metal"), "{error}");
        assert!(from_value::<LoadOptions>(json!({"dtpye": "f16"})).is_err(), "a misspelt key is not ignored");
    }

    #[test]
    fn options_have_defaults_and_leave_out_what_nobody_set() {
        let f16 = LoadOptions { dtype: Some(Dtype::F16), device: Device::Cpu };
        assert_eq!(from_value::<LoadOptions>(json!({"dtype": "f16"})).unwrap(), f16);
        assert_eq!(from_value::<LoadOptions>(json!({})).unwrap(), LoadOptions::default());
        assert_eq!(to_value(f16).unwrap(), json!({"dtype": "f16", "device": "cpu"}));
        assert_eq!(to_value(LoadOptions::default()).unwrap(), json!({"device": "cpu"}));
    }

    #[test]
    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    fn a_build_without_gpus_says_what_to_build() {
        for device in [Device::Cuda, Device::Metal] {
            let error = device.open().unwrap_err().to_string();
            assert!(error.contains(&format!("the feature `{device}`")), "{error}");
        }
    }
}
