//! Tensors of a checkpoint folder: one `model.safetensors`, or shards with an index.
//!
//! Files are memory-mapped and tensors converted one at a time, so peak memory is the result plus one tensor.

use crate::error::{Error, Result};
use candle_core::{Device, Tensor};
use memmap2::Mmap;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The tensors of a checkpoint, by name.
pub struct Weights {
    files: Vec<Shard>,
    file_of: HashMap<String, usize>,
    dir: PathBuf,
    random: Option<u64>, // a seed instead of files
}

struct Shard {
    path: PathBuf,
    map: Mmap,
    header: Metadata,
    data: usize, // where the tensors' bytes start
}

impl Weights {
    /// Opens `model.safetensors` in `dir`, or the shards that `model.safetensors.index.json` names.
    pub fn open(dir: &Path) -> Result<Weights> {
        let mut weights = Weights { files: Vec::new(), file_of: HashMap::new(), dir: dir.into(), random: None };
        let (single, index) = (dir.join("model.safetensors"), dir.join("model.safetensors.index.json"));
        if index.is_file() {
            for (name, file) in read_index(&index)? {
                let path = dir.join(&file);
                let known = weights.files.iter().position(|shard| shard.path == path);
                let at = match known {
                    Some(at) => at,
                    None => {
                        weights.files.push(Shard::open(&path)?);
                        weights.files.len() - 1
                    }
                };
                if weights.files[at].header.info(&name).is_none() {
                    return Err(Error::Missing { path, what: format!("tensor `{name}`, which the index puts there,") });
                }
                weights.file_of.insert(name, at);
            }
        } else if single.is_file() {
            let shard = Shard::open(&single)?;
            weights.file_of = shard.header.tensors().into_keys().map(|name| (name, 0)).collect();
            weights.files.push(shard);
        } else {
            let what = "`model.safetensors` or `model.safetensors.index.json`".into();
            return Err(Error::Missing { path: dir.into(), what });
        }
        Ok(weights)
    }

    /// Random weights for any configuration.
    pub fn random(seed: u64) -> Weights {
        Weights { files: Vec::new(), file_of: HashMap::new(), dir: PathBuf::new(), random: Some(seed) }
    }

    /// A tensor in f32, of the shape the configuration asks for.
    pub fn get(&self, name: &str, want: &[usize]) -> Result<Tensor> {
        if let Some(seed) = self.random {
            return crate::random::tensor(seed, name, want);
        }
        let missing = || Error::Missing { path: self.dir.clone(), what: format!("tensor `{name}`") };
        let shard = &self.files[*self.file_of.get(name).ok_or_else(missing)?];
        let info = shard.header.info(name).ok_or_else(missing)?;
        if info.shape != want {
            let (path, got, want) = (shard.path.clone(), info.shape.clone(), want.to_vec());
            return Err(Error::Shape { path, name: name.into(), want, got });
        }
        let bytes = &shard.map[shard.data + info.data_offsets.0..shard.data + info.data_offsets.1];
        let values: Vec<f32> = match info.dtype {
            Dtype::F32 => convert(bytes, |b: [u8; 4]| f32::from_le_bytes(b)),
            Dtype::F16 => convert(bytes, |b: [u8; 2]| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => convert(bytes, |b: [u8; 2]| half::bf16::from_le_bytes(b).to_f32()),
            other => {
                let (what, given, accepted) =
                    (format!("the type of `{name}`"), format!("{other:?}"), "F32, F16 and BF16".into());
                return Err(Error::Unsupported { path: shard.path.clone(), what, given, accepted });
            }
        };
        // No early exit, so that the common case is one vectorised pass.
        if !values.iter().fold(true, |finite, v| finite & v.is_finite()) {
            let index = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
            let (path, name, value) = (shard.path.clone(), name.into(), values[index]);
            return Err(Error::NotFinite { path, name, index, value });
        }
        Ok(Tensor::from_vec(values, want, &Device::Cpu)?)
    }
}

impl Shard {
    fn open(path: &Path) -> Result<Shard> {
        let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::Missing { path: path.into(), what: "the file".into() },
            _ => malformed(error.to_string()),
        })?;
        // SAFETY: the map is only read, and a checkpoint that another process truncates while we load it is beyond what a
        // program can guard against; everybody who maps checkpoints relies on the same.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| malformed(error.to_string()))?;
        // The file: eight bytes that say how long the header is, the header as JSON, the tensors' bytes.
        let (length, rest) =
            map.split_first_chunk().ok_or_else(|| malformed("not a safetensors file: too short".into()))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let json = length.and_then(|length| rest.get(..length));
        let json =
            json.ok_or_else(|| malformed("not a safetensors file: its header is longer than the file".into()))?;
        let header: Metadata =
            serde_json::from_slice(json).map_err(|error| malformed(format!("not a safetensors file: {error}")))?;
        let data = size_of::<u64>() + json.len();
        let end = header.tensors().values().map(|info| info.data_offsets.1).max().unwrap_or(0).saturating_add(data);
        if end != map.len() {
            let damage = if end > map.len() { "truncated" } else { "damaged" };
            return Err(malformed(format!("{damage}: {} bytes, but its tensors end at {end}", map.len())));
        }
        Ok(Shard { path: path.into(), map, header, data })
    }
}

/// Tensor name to file name.
fn read_index(path: &Path) -> Result<Vec<(String, String)>> {
    let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
    let text = std::fs::read_to_string(path).map_err(|error| malformed(error.to_string()))?;
    let index: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| malformed(format!("not JSON: {error}")))?;
    let map = index.get("weight_map").and_then(serde_json::Value::as_object);
    let map = map.ok_or_else(|| Error::Missing { path: path.into(), what: "the object `weight_map`".into() })?;
    map.iter()
        .map(|(name, file)| match file.as_str() {
            // A shard lies beside its index; anything else is a mistake or an attack.
            Some(file) if !file.is_empty() && !file.contains(['/', '\\']) => Ok((name.clone(), file.into())),
            _ => Err(malformed(format!("`weight_map` gives {file} for `{name}`, but must give a file name"))),
        })
        .collect()
}

fn convert<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| f(chunk)).collect()
}
