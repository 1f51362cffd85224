//! The tensors an architecture needs: their names, shapes and what they are for.

use crate::config::Config;
use crate::error::{Computed, Error, Result};
use crate::load_options::Dtype;
use crate::stored::row_bytes;
use crate::transformer::Names;
use crate::weights::{Layout, Weights};
use candle_core::quantized::GgmlDType;
use std::collections::HashSet;

/// A tensor that must be there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Need {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
}

/// What a tensor is for, which decides how it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A norm or a bias: small, and always f32.
    Vector,
    /// Rows to look up.
    Embedding,
    /// What activations are multiplied with.
    Matrix,
    /// The last of these, which may be the embedding.
    Head,
}

impl Need {
    /// The type it has at a dtype.
    pub(crate) fn ggml_type(&self, dtype: Dtype) -> GgmlDType {
        match self.role {
            Role::Vector => GgmlDType::F32,
            Role::Embedding => dtype.of_embedding(),
            Role::Matrix | Role::Head => dtype.of_matrix(self.width()),
        }
    }

    /// Its bytes at a dtype.
    pub(crate) fn bytes(&self, dtype: Dtype) -> u64 {
        self.bytes_as(self.ggml_type(dtype))
    }

    /// Its bytes in a type, whose blocks its width must fit.
    pub(crate) fn bytes_as(&self, dtype: GgmlDType) -> u64 {
        let rows = product(&self.shape[..self.shape.len() - 1]);
        rows.saturating_mul(row_bytes(dtype, self.width()) as u64)
    }

    /// Whether its width keeps it from being quantised.
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

/// A damaged configuration may ask for more than there are numbers; it is still worth a table of what it asks for.
pub(crate) fn product(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d as u64))
}

/// Every tensor of an architecture, by the names of the checkpoint's own layout. A tied head is not among them.
pub(crate) fn needs(config: &Config, weights: &Weights) -> Result<Vec<Need>> {
    // A list as long as a damaged number of layers would be is no help to anybody.
    let n = weights.names().count();
    if config.layers > n {
        let what = format!("most of {} layers (there are {n} tensors)", config.layers);
        return Err(Error::Missing { path: weights.path().into(), what });
    }
    Ok(listed(config, weights.layout()))
}

/// Every tensor, in the same order for every layout.
pub(crate) fn listed(config: &Config, layout: Layout) -> Vec<Need> {
    let Config { hidden, heads, kv_heads, head_dim, mlp, vocab, .. } = *config;
    let names = Names::of(config.family, layout);
    let need = |name: String, shape: &[usize], role| Need { name, shape: shape.to_vec(), role };
    let mut needs = vec![need(names.embedding.into(), &[vocab, hidden], Role::Embedding)];
    for i in 0..config.layers {
        let name = |leaf: &str| format!("{}.{i}.{leaf}", names.blocks);
        needs.push(need(name(names.attn_norm), &[hidden], Role::Vector));
        for (leaf, heads) in [(names.q, heads), (names.k, kv_heads), (names.v, kv_heads)] {
            needs.push(need(name(leaf) + ".weight", &[heads * head_dim, hidden], Role::Matrix));
            if config.qkv_bias {
                needs.push(need(name(leaf) + ".bias", &[heads * head_dim], Role::Vector));
            }
        }
        if config.qk_norm {
            needs.extend([names.q_norm, names.k_norm].map(|leaf| need(name(leaf), &[head_dim], Role::Vector)));
        }
        needs.push(need(name(names.o) + ".weight", &[hidden, heads * head_dim], Role::Matrix));
        if config.o_bias {
            needs.push(need(name(names.o) + ".bias", &[hidden], Role::Vector));
        }
        needs.push(need(name(names.mlp_norm), &[hidden], Role::Vector));
        needs.push(need(name(names.gate) + ".weight", &[mlp, hidden], Role::Matrix));
        needs.push(need(name(names.up) + ".weight", &[mlp, hidden], Role::Matrix));
        needs.push(need(name(names.down) + ".weight", &[hidden, mlp], Role::Matrix));
    }
    needs.push(need(names.norm.into(), &[hidden], Role::Vector));
    if !config.tied {
        needs.push(need(names.head.into(), &[vocab, hidden], Role::Head));
    }
    needs
}

/// That the checkpoint has what the architecture needs and nothing that it would leave out: a block too many or a bias that nobody
/// adds means that the configuration is not this checkpoint's, and answers would be wrong without a word.
pub(crate) fn check(config: &Config, weights: &Weights) -> Result<()> {
    match problems(config, weights)?.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Everything that keeps a checkpoint from being loaded.
pub(crate) fn problems(config: &Config, weights: &Weights) -> Result<Vec<Error>> {
    if weights.made_up() {
        return Ok(Vec::new()); // it has whatever is asked for
    }
    let needs = needs(config, weights)?;
    Ok(problems_of(config, weights, &needs, &superfluous(weights.names(), &needs)))
}

/// The same, for whoever knows already what is needed and what is superfluous.
pub(crate) fn problems_of(config: &Config, weights: &Weights, needs: &[Need], superfluous: &[String]) -> Vec<Error> {
    let mut problems: Vec<Error> =
        needs.iter().filter_map(|need| weights.find(&need.name, &need.shape).err()).collect();
    let mut names = superfluous.iter().filter(|name| !harmless(config, weights.layout(), name));
    if let Some(name) = names.next() {
        let (path, name) = (weights.path().into(), name.clone());
        problems.push(Error::Superfluous { path, name, more: names.count() });
    }
    if config.tied {
        problems.extend(check_tied(config, weights).err().map(Error::from));
    }
    problems
}

/// Tensors that the architecture does not need, by name.
pub(crate) fn superfluous<'a>(names: impl Iterator<Item = &'a str>, needs: &[Need]) -> Vec<String> {
    let wanted: HashSet<&str> = needs.iter().map(|need| &*need.name).collect();
    let mut names: Vec<String> = names.filter(|name| !wanted.contains(name)).map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// Rotation frequencies follow from the configuration, and a stored head may repeat the embedding it is tied to.
fn harmless(config: &Config, layout: Layout, name: &str) -> bool {
    name.ends_with("rotary_emb.inv_freq") || (config.tied && name == Names::of(config.family, layout).head)
}

/// That a head which is stored although it is tied is the embedding. dllm converts tied Qwen models into ones that store a head, so
/// the two can contradict each other, and nobody but the checkpoint's author knows which is meant.
fn check_tied(config: &Config, weights: &Weights) -> Computed<()> {
    let (names, shape) = (Names::of(config.family, weights.layout()), [config.vocab, config.hidden]);
    let head = match weights.find(names.head, &shape) {
        Err(Error::Missing { .. }) => return Ok(()),
        head => head?,
    };
    let embedding = weights.find(names.embedding, &shape)?;
    if head.dtype == embedding.dtype && head.bytes == embedding.bytes {
        return Ok(());
    }
    match head.to_f32()?.ne(&embedding.to_f32()?)?.max_all()?.to_scalar::<u8>()? {
        0 => Ok(()),
        _ => Err(Error::NotTied { path: weights.path().into(), name: names.head.into() }.into()),
    }
}

/// The head of a tied model, as a matrix of its own.
pub(crate) fn tied_head(config: &Config, layout: Layout) -> Need {
    let names = Names::of(config.family, layout);
    Need { name: names.head.into(), shape: vec![config.vocab, config.hidden], role: Role::Head }
}
