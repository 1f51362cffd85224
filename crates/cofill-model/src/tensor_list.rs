//! The tensors that an architecture consists of: their names, shapes and what they are for.

use crate::config::Config;
use crate::encoder::tensors as encoder;
use crate::error::{Computed, Error, Result};
use crate::load_options::Dtype;
use crate::stored::row_bytes;
use crate::transformer::Names;
use crate::weights::{Layout, Weights};
use candle_core::quantized::GgmlDType;
use std::collections::HashSet;

/// A tensor that a checkpoint must have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequiredTensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
}

/// What a tensor is for, which decides how it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A norm or a bias: small, and always f32.
    Vector,
    /// The rows of token ids, which are looked up.
    Embedding,
    /// A matrix that activations are multiplied with.
    Matrix,
    /// The matrix that gives the logits. A tied one is the embedding again.
    Head,
}

impl RequiredTensor {
    /// The type in which it is kept when the model is loaded with `dtype`.
    pub(crate) fn ggml_type(&self, dtype: Dtype) -> GgmlDType {
        match self.role {
            Role::Vector => GgmlDType::F32,
            Role::Embedding => dtype.of_embedding(),
            Role::Matrix | Role::Head => dtype.of_matrix(self.width()),
        }
    }

    /// Its bytes in memory when the model is loaded with `dtype`.
    pub(crate) fn bytes(&self, dtype: Dtype) -> u64 {
        self.bytes_as(self.ggml_type(dtype))
    }

    /// Its bytes when it is stored in `dtype`, whose blocks its width must fit.
    pub(crate) fn bytes_as(&self, dtype: GgmlDType) -> u64 {
        let rows = product(&self.shape[..self.shape.len() - 1]);
        rows.saturating_mul(row_bytes(dtype, self.width()) as u64)
    }

    /// Whether it stays f16 because rows of its width cannot be cut into the blocks of a quantised type.
    pub(crate) fn stays_f16(&self, dtype: Dtype) -> bool {
        let quantised = matches!(self.role, Role::Matrix | Role::Head) && dtype.quantised().is_some();
        quantised && self.ggml_type(dtype) == GgmlDType::F16
    }

    pub(crate) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    pub(crate) fn parameters(&self) -> u64 {
        product(&self.shape)
    }
}

/// The number of entries. It stops at the largest number instead of overflowing: a damaged configuration may ask for more, and the
/// list of what it asks for is still worth showing.
pub(crate) fn product(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d as u64))
}

/// The tensors of an architecture, by the names that the checkpoint's layout has for them. A tied head is not among them.
pub(crate) fn required_tensors(config: &Config, weights: &Weights) -> Result<Vec<RequiredTensor>> {
    // A damaged file may ask for millions of layers; a list of what is missing would be as long.
    let n = weights.names().count();
    let layers = config.encoder.as_ref().map_or(config.layers, |encoder| encoder.stored_blocks);
    if layers > n && !weights.is_random() {
        let what = format!("most of {layers} layers (there are {n} tensors)");
        return Err(Error::Missing { path: weights.path().into(), what });
    }
    Ok(match config.encoder {
        Some(_) => encoder::required(config, weights),
        None => tensors_of(config, weights.layout()),
    })
}

/// The tensors of an architecture that is no encoder, under the names of a layout, in the same order for every layout.
pub(crate) fn tensors_of(config: &Config, layout: Layout) -> Vec<RequiredTensor> {
    let Config { hidden, heads, kv_heads, head_dim, mlp, vocab, .. } = *config;
    let names = Names::of(config.family, layout);
    let tensor = |name: String, shape: &[usize], role| RequiredTensor { name, shape: shape.to_vec(), role };
    let mut required = vec![tensor(names.embedding.into(), &[vocab, hidden], Role::Embedding)];
    for i in 0..config.layers {
        let name = |leaf: &str| format!("{}.{i}.{leaf}", names.blocks);
        required.push(tensor(name(names.attn_norm), &[hidden], Role::Vector));
        for (leaf, heads) in [(names.q, heads), (names.k, kv_heads), (names.v, kv_heads)] {
            required.push(tensor(name(leaf) + ".weight", &[heads * head_dim, hidden], Role::Matrix));
            if config.qkv_bias {
                required.push(tensor(name(leaf) + ".bias", &[heads * head_dim], Role::Vector));
            }
        }
        if config.qk_norm {
            required.extend([names.q_norm, names.k_norm].map(|leaf| tensor(name(leaf), &[head_dim], Role::Vector)));
        }
        required.push(tensor(name(names.o) + ".weight", &[hidden, heads * head_dim], Role::Matrix));
        if config.o_bias {
            required.push(tensor(name(names.o) + ".bias", &[hidden], Role::Vector));
        }
        required.push(tensor(name(names.mlp_norm), &[hidden], Role::Vector));
        required.push(tensor(name(names.gate) + ".weight", &[mlp, hidden], Role::Matrix));
        required.push(tensor(name(names.up) + ".weight", &[mlp, hidden], Role::Matrix));
        required.push(tensor(name(names.down) + ".weight", &[hidden, mlp], Role::Matrix));
    }
    required.push(tensor(names.norm.into(), &[hidden], Role::Vector));
    if !config.tied {
        required.push(tensor(names.head.into(), &[vocab, hidden], Role::Head));
    }
    required
}

/// Checks that the checkpoint has every tensor of the architecture and no others. A block too many, or a bias that is never added,
/// means that the configuration belongs to another checkpoint, and answers would be wrong without any error.
pub(crate) fn check(config: &Config, weights: &Weights) -> Result<()> {
    match problems(config, weights)?.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Everything that prevents a checkpoint from being loaded, one error for each tensor.
pub(crate) fn problems(config: &Config, weights: &Weights) -> Result<Vec<Error>> {
    if weights.is_random() {
        return Ok(Vec::new()); // it has whatever is asked for
    }
    let required = required_tensors(config, weights)?;
    Ok(problems_with(config, weights, &required, &superfluous(weights.names(), &required)))
}

/// As [`problems`], for a caller that already has the lists of required and superfluous tensors.
pub(crate) fn problems_with(
    config: &Config,
    weights: &Weights,
    required: &[RequiredTensor],
    superfluous: &[String],
) -> Vec<Error> {
    if weights.is_random() {
        return Vec::new(); // they are whatever is asked for, and asking would make them
    }
    let mut problems: Vec<Error> =
        required.iter().filter_map(|tensor| weights.find(&tensor.name, &tensor.shape).err()).collect();
    let mut names = superfluous.iter().filter(|name| !harmless(config, weights, name));
    if let Some(name) = names.next() {
        let (path, name) = (weights.path().into(), name.clone());
        problems.push(Error::Superfluous { path, name, more: names.count() });
    }
    problems.extend(check_copies(config, weights).err().map(Error::from));
    problems
}

/// The names of stored tensors that the architecture does not have.
pub(crate) fn superfluous<'a>(names: impl Iterator<Item = &'a str>, required: &[RequiredTensor]) -> Vec<String> {
    let wanted: HashSet<&str> = required.iter().map(|tensor| &*tensor.name).collect();
    let mut names: Vec<String> = names.filter(|name| !wanted.contains(name)).map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Whether a superfluous tensor can be ignored: rotation frequencies, which are computed from the configuration, copies of what is stored
/// elsewhere, and of encoders the heads of other objectives.
fn harmless(config: &Config, weights: &Weights, name: &str) -> bool {
    let other_head = || config.encoder.is_some() && encoder::Names::of(config, weights).is_other_head(name);
    name.ends_with("rotary_emb.inv_freq")
        || copies(config, weights).iter().any(|(copy, ..)| copy == name)
        || other_head()
}

/// Tensors that may be stored although they repeat another: their names, the names of what they repeat, and the shape of both.
fn copies(config: &Config, weights: &Weights) -> Vec<(String, String, Vec<usize>)> {
    if config.encoder.is_some() {
        return encoder::Names::of(config, weights).copies(config);
    }
    let names = Names::of(config.family, weights.layout());
    let head = || (names.head.into(), names.embedding.into(), vec![config.vocab, config.hidden]);
    config.tied.then(head).into_iter().collect()
}

/// Checks that copies equal what they repeat. dllm converts tied Qwen models into ones that store a head, so
/// the two can contradict each other, and nobody but the checkpoint's author knows which is meant.
fn check_copies(config: &Config, weights: &Weights) -> Computed<()> {
    for (copy, original, shape) in copies(config, weights) {
        let stored = match weights.find(&copy, &shape) {
            Err(Error::Missing { .. }) => continue,
            stored => stored?,
        };
        let original = weights.find(&original, &shape)?;
        if stored.dtype == original.dtype && stored.bytes == original.bytes {
            continue;
        }
        if stored.to_f32()?.ne(&original.to_f32()?)?.max_all()?.to_scalar::<u8>()? != 0 {
            return Err(Error::NotTied { path: weights.path().into(), name: copy }.into());
        }
    }
    Ok(())
}

/// The head of a tied model, as a matrix of its own.
pub(crate) fn tied_head(config: &Config, weights: &Weights) -> RequiredTensor {
    let name = match config.encoder {
        Some(_) => encoder::Names::of(config, weights).decoder(),
        None => Names::of(config.family, weights.layout()).head.into(),
    };
    RequiredTensor { name, shape: vec![config.vocab, config.embedding_width()], role: Role::Head }
}
