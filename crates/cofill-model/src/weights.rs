//! The tensors of a checkpoint: a folder with one `model.safetensors` or shards with an index, or a GGUF file.
//!
//! Files are memory-mapped and tensors converted one at a time, so peak memory is the result plus one tensor.

use crate::error::{Error, Result};
use crate::files::{self, Bytes};
use crate::gguf::Gguf;
use crate::load_options::Dtype;
use crate::random;
use crate::stored::{StoredTensor, type_name};
use crate::transformer::Names;
use candle_core::quantized::GgmlDType;
use safetensors::tensor::Metadata;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a safetensors header, as the format's own library has it: some 500,000 tensors.
const MAX_HEADER: usize = 100_000_000;

/// The tensors of a checkpoint, by name.
pub struct Weights {
    path: PathBuf,
    source: Source,
}

enum Source {
    Folder { files: Vec<Shard>, file_of: HashMap<String, usize> },
    Gguf { file: Arc<Gguf>, interleaved: Option<(usize, usize)> },
    Random { seed: u64 },
}

/// Which names the tensors have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The names in the folders that the family's authors published.
    HuggingFace,
    /// The names of llama.cpp.
    Gguf,
}

/// What a file says about a tensor.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// The name of the tensor.
    pub name: String,
    /// The name of its type, as the file format calls it.
    pub dtype: String,
    /// Its shape, the outermost dimension first.
    pub shape: Vec<usize>,
}

/// A safetensors file.
pub(crate) struct Shard {
    path: PathBuf,
    map: Bytes,
    header: Metadata,
    data: usize, // where the tensors' bytes start
}

impl Weights {
    /// Opens `model.safetensors` in a folder, or the shards that `model.safetensors.index.json` names; or a GGUF file.
    pub fn open(path: &Path) -> Result<Weights> {
        if path.is_file() { Weights::gguf(Arc::new(Gguf::open(path)?)) } else { Weights::folder(path) }
    }

    pub(crate) fn gguf(file: Arc<Gguf>) -> Result<Weights> {
        let interleaved = file.interleaved()?;
        Ok(Weights { path: file.path().into(), source: Source::Gguf { file, interleaved } })
    }

    fn folder(dir: &Path) -> Result<Weights> {
        let (mut files, mut file_of): (Vec<Shard>, HashMap<String, usize>) = Default::default();
        let (single, index) = (dir.join("model.safetensors"), dir.join("model.safetensors.index.json"));
        if files::exists(&index) {
            for (name, file) in read_index(&index)? {
                let path = dir.join(&file);
                let known = files.iter().position(|shard| shard.path == path);
                let at = match known {
                    Some(at) => at,
                    None => {
                        files.push(Shard::open(&path)?);
                        files.len() - 1
                    }
                };
                if files[at].header.info(&name).is_none() {
                    return Err(Error::Missing { path, what: format!("tensor `{name}`, which the index puts there,") });
                }
                file_of.insert(name, at);
            }
        } else if files::exists(&single) {
            let shard = Shard::open(&single)?;
            file_of = shard.header.offset_keys().into_iter().map(|name| (name, 0)).collect();
            files.push(shard);
        } else {
            let what = "`model.safetensors` or `model.safetensors.index.json`".into();
            return Err(Error::Missing { path: dir.into(), what });
        }
        Ok(Weights { path: dir.into(), source: Source::Folder { files, file_of } })
    }

    /// Random weights for any configuration.
    pub fn random(seed: u64) -> Weights {
        Weights { path: PathBuf::from("random"), source: Source::Random { seed } }
    }

    /// A tensor as its file holds it, of the shape the configuration asks for, with rows in the order this engine rotates.
    pub(crate) fn stored(&self, name: &str, want: &[usize]) -> Result<StoredTensor<'_>> {
        let stored = self.find(name, want)?;
        match self.pairs(name) {
            Some(heads) => split_halves(stored, heads),
            None => Ok(stored),
        }
    }

    /// A tensor with its rows in the order of the file, none of which is read.
    pub(crate) fn find(&self, name: &str, want: &[usize]) -> Result<StoredTensor<'_>> {
        let missing = || Error::Missing { path: self.path.clone(), what: format!("tensor `{name}`") };
        let stored = match &self.source {
            Source::Folder { files, file_of } => {
                let shard = &files[*file_of.get(name).ok_or_else(missing)?];
                shard.tensor(name, want)?.ok_or_else(missing)?
            }
            Source::Gguf { file, .. } => file.tensor(name).ok_or_else(missing)?,
            Source::Random { seed } => random::tensor(*seed, &self.path, name, want),
        };
        if stored.shape != want {
            let (path, got, want) = (stored.path.into(), stored.shape, want.to_vec());
            return Err(Error::Shape { path, name: name.into(), want, got });
        }
        Ok(stored)
    }

    /// Heads of a tensor whose rows are stored in pairs.
    fn pairs(&self, name: &str) -> Option<usize> {
        let Source::Gguf { interleaved: Some((heads, kv_heads)), .. } = self.source else { return None };
        let names = Names::gguf();
        let (layer, _) = name.rsplit_once('.')?; // without `weight` or `bias`
        let (_, layer) = layer.rsplit_once('.')?;
        match layer {
            layer if layer == names.q => Some(heads),
            layer if layer == names.k => Some(kv_heads),
            _ => None,
        }
    }

    /// The folder or file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether they are random, and so of any shape.
    pub(crate) fn is_random(&self) -> bool {
        matches!(self.source, Source::Random { .. })
    }

    pub(crate) fn layout(&self) -> Layout {
        match self.source {
            Source::Folder { .. } | Source::Random { .. } => Layout::HuggingFace,
            Source::Gguf { .. } => Layout::Gguf,
        }
    }

    /// How weights are kept unless somebody asks: as they are stored, which is exact; random ones, which are stored nowhere, in f32.
    pub(crate) fn default_dtype(&self) -> Option<Dtype> {
        self.is_random().then_some(Dtype::F32)
    }

    /// The names of all tensors, in no order. Random weights have whatever is asked for, and so no list.
    pub(crate) fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.source {
            Source::Folder { file_of, .. } => Box::new(file_of.keys().map(String::as_str)),
            Source::Gguf { file, .. } => Box::new(file.tensors().iter().map(|info| info.name.as_str())),
            Source::Random { .. } => Box::new(std::iter::empty()),
        }
    }

    /// Every tensor there is, by name.
    pub(crate) fn list(&self) -> Vec<TensorInfo> {
        let mut list: Vec<TensorInfo> = match &self.source {
            Source::Folder { files, file_of } => {
                let info = |(name, file): (&String, &usize)| Some((name.clone(), files[*file].header.info(name)?));
                let listed = |(name, info): (String, &safetensors::tensor::TensorInfo)| TensorInfo {
                    name,
                    dtype: format!("{:?}", info.dtype),
                    shape: info.shape.clone(),
                };
                file_of.iter().filter_map(info).map(listed).collect()
            }
            Source::Gguf { file, .. } => {
                let listed = |info: &crate::gguf::Info| {
                    let (name, shape) = (info.name.clone(), info.shape.clone());
                    TensorInfo { name, dtype: type_name(info.dtype).into(), shape }
                };
                file.tensors().iter().map(listed).collect()
            }
            Source::Random { .. } => Vec::new(), // it has whatever is asked for
        };
        list.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        list
    }

    /// The files that hold the tensors, by name.
    pub(crate) fn files(&self) -> Vec<(String, &[u8])> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files: Vec<(String, &[u8])> = match &self.source {
            Source::Folder { files, .. } => files.iter().map(|shard| (name(&shard.path), &*shard.map)).collect(),
            // However the file is called.
            Source::Gguf { file, .. } => vec![("gguf".into(), file.bytes())],
            Source::Random { .. } => Vec::new(),
        };
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }

    /// Bytes of the files that hold the tensors.
    pub(crate) fn size(&self) -> u64 {
        self.files().iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

/// Undoes llama.cpp's order of query and key rows. Its LLaDA rotates neighbours, entries 2j and 2j + 1 of a head, where the
/// published one rotates halves, j and j + d/2. So its converter moves row (half, j) of every head to (j, half); this moves it back.
fn split_halves(stored: StoredTensor<'_>, heads: usize) -> Result<StoredTensor<'_>> {
    let rows = stored.shape[0];
    if !rows.is_multiple_of(2 * heads) {
        let problem = format!("tensor `{}` has {rows} rows, which are no pairs of {heads} heads", stored.name);
        return Err(Error::Malformed { path: stored.path.into(), problem });
    }
    let bytes = stored.reorder(|i| paired(i, rows / heads));
    if let Some(file) = stored.file {
        file.forget(&stored.bytes);
    }
    Ok(StoredTensor { bytes: Cow::Owned(bytes), ..stored })
}

/// Where llama.cpp puts row `i`, in heads of `width` rows: (head, half, j) goes to (head, j, half).
fn paired(i: usize, width: usize) -> usize {
    let (head, i) = (i / width, i % width);
    let (half, j) = (i / (width / 2), i % (width / 2));
    head * width + 2 * j + half
}

/// Which row llama.cpp puts at `i`: the inverse of [`paired`].
pub(crate) fn halved(i: usize, width: usize) -> usize {
    let (head, i) = (i / width, i % width);
    let (j, half) = (i / 2, i % 2);
    head * width + half * (width / 2) + j
}

impl Shard {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The shape of a tensor, if it is there.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.header.info(name).map(|info| &*info.shape)
    }

    /// A tensor's bytes and type. A wrong shape is reported before an unknown type.
    pub(crate) fn tensor(&self, name: &str, want: &[usize]) -> Result<Option<StoredTensor<'_>>> {
        let Some(info) = self.header.info(name) else { return Ok(None) };
        let dtype = match info.dtype {
            safetensors::Dtype::F32 => GgmlDType::F32,
            safetensors::Dtype::F16 => GgmlDType::F16,
            safetensors::Dtype::BF16 => GgmlDType::BF16,
            _ if info.shape != want => GgmlDType::F32,
            other => {
                let (what, given, accepted) =
                    (format!("the type of `{name}`"), format!("{other:?}"), "F32, F16 and BF16".into());
                return Err(Error::Unsupported { path: self.path.clone(), what, given, accepted });
            }
        };
        let bytes = Cow::Borrowed(&self.map[self.data + info.data_offsets.0..self.data + info.data_offsets.1]);
        Ok(Some(StoredTensor {
            path: &self.path,
            name: name.into(),
            dtype,
            shape: info.shape.clone(),
            bytes,
            file: Some(&self.map),
        }))
    }

    pub(crate) fn open(path: &Path) -> Result<Shard> {
        let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
        let map = files::map(path)?;
        // The file: eight bytes that say how long the header is, the header as JSON, the tensors' bytes.
        let (length, rest) =
            map.split_first_chunk().ok_or_else(|| malformed("not a safetensors file: too short".into()))?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let json = length.and_then(|length| rest.get(..length));
        let json =
            json.ok_or_else(|| malformed("not a safetensors file: its header is longer than the file".into()))?;
        if json.len() > MAX_HEADER {
            let problem = format!("its header has {} bytes, but may have at most {MAX_HEADER}", json.len());
            return Err(malformed(format!("not a safetensors file: {problem}")));
        }
        let header: Metadata =
            serde_json::from_slice(json).map_err(|error| malformed(format!("not a safetensors file: {error}")))?;
        let data = size_of::<u64>() + json.len();
        // The library has checked that tensors follow each other without gaps.
        let end = header.data_len().saturating_add(data);
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
    let text = files::read_required(path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A head of width 6 in the published order pairs (0, 3), (1, 4) and (2, 5): j and j + 6/2. llama.cpp's rotation pairs rows
    /// (0, 1), (2, 3) and (4, 5). So what it stores must be 0 3 1 4 2 5, and a second head the same plus 6. Its converter gets
    /// there by `reshape(heads, 2, 3).swapaxes(1, 2)`: [[0 1 2] [3 4 5]] read by columns.
    const PAIRED: [f32; 12] = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0];

    #[test]
    fn pairs_become_halves() {
        let bytes: Vec<u8> = PAIRED.iter().flat_map(|v| v.to_le_bytes()).collect();
        let stored = || StoredTensor {
            path: Path::new("x"),
            name: "q".into(),
            dtype: GgmlDType::F32,
            shape: vec![12, 1],
            bytes: Cow::Borrowed(&bytes),
            file: None,
        };
        let halves = split_halves(stored(), 2).unwrap().to_f32().unwrap().flatten_all().unwrap();
        let published: Vec<f32> = (0..12u8).map(f32::from).collect();
        assert_eq!(halves.to_vec1::<f32>().unwrap(), published);
        assert!(split_halves(stored(), 4).is_err(), "three rows a head make no pairs");
    }

    #[test]
    fn halves_become_pairs() {
        let pairs: Vec<f32> = (0..12).map(|i| halved(i, 6) as f32).collect();
        assert_eq!(pairs, PAIRED);
    }
}
