//! What a checkpoint holds and what it would take to load it, from its headers alone: no weight is read.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::load_options::Dtype;
use crate::pair_head::PairHeadInfo;
use crate::stored::TYPES;
use crate::tensor_list::{RequiredTensor, Role, problems_with, product, required_tensors, superfluous, tied_head};
use crate::weights::TensorInfo;
use std::collections::{BTreeMap, HashMap};

/// What the headers of a checkpoint's files say about it.
pub struct Inspection {
    /// The sizes and switches of the architecture.
    pub config: Config,
    /// The number of weights of the architecture; a tied head counts once.
    pub parameters: u64,
    /// Bytes of the files that hold its tensors.
    pub file_bytes: u64,
    /// Every tensor in its files, by name.
    pub tensors: Vec<TensorInfo>,
    /// For each type that tensors are stored in: how many tensors, and how many weights they have together.
    pub stored: BTreeMap<String, (usize, u64)>,
    /// The memory that the loaded weights take.
    pub memory: Memory,
    /// For each dtype, the names of tensors that would stay f16 because their width does not fit its blocks.
    pub stays_f16: Vec<(Dtype, Vec<String>)>,
    /// What prevents it from being loaded or used: tensors that are missing or have another shape or type than the configuration says,
    /// generation defaults that are refused.
    pub problems: Vec<String>,
    /// The names of tensors that the architecture does not have.
    pub superfluous: Vec<String>,
    /// Whether there is a tokenizer that can be used, or why not.
    pub tokenizer: Result<()>,
    /// Whether there is a chat template, or why it cannot be used.
    pub chat: Result<bool>,
    /// The head that predicts who changes whom, if there is one, or why it cannot be used.
    pub pair_head: Result<Option<PairHeadInfo>>,
}

/// The bytes of the loaded weights.
#[derive(Debug)]
pub struct Memory {
    /// When no dtype is asked for.
    pub default: u64,
    /// When this dtype is asked for.
    pub at: Vec<(Dtype, u64)>,
}

impl Inspection {
    /// Whether everything that is there can be used. A checkpoint without a tokenizer or a template is as sound as one with.
    pub fn is_sound(&self) -> bool {
        let tokenizer = matches!(self.tokenizer, Ok(()) | Err(Error::Missing { .. }));
        self.problems.is_empty() && tokenizer && self.chat.is_ok() && self.pair_head.is_ok()
    }

    /// Reads the headers of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Result<Inspection> {
        let config = match checkpoint.config() {
            // Whose mask it will be told is not known here.
            Err(Error::Causal { .. }) => checkpoint.companion_config(0)?,
            config => config?,
        };
        let weights = checkpoint.weights()?;
        let required = required_tensors(&config, &weights)?;
        let tensors: Vec<TensorInfo> = weights.list();
        let mut stored: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        for TensorInfo { dtype, shape, .. } in &tensors {
            let entry = stored.entry(dtype.clone()).or_default();
            *entry = (entry.0 + 1, entry.1.saturating_add(product(shape)));
        }
        let superfluous = superfluous(tensors.iter().map(|listed| &*listed.name), &required);
        let mut problems = problems_with(&config, &weights, &required, &superfluous);
        problems.extend(checkpoint.generation_defaults().err());
        let problems = problems.iter().map(Error::to_string).collect();

        let tied = config.tied.then(|| tied_head(&config, &weights));
        let at: Vec<(Dtype, u64)> = Dtype::all()
            .map(|dtype| {
                // A tied head is the embedding itself, unless it has another type.
                let copy = tied.as_ref().filter(|head| head.ggml_type(dtype) != dtype.of_embedding());
                (dtype, total(required.iter().chain(copy).map(|tensor| tensor.bytes(dtype))))
            })
            .collect();
        let default = match weights.default_dtype() {
            Some(dtype) => at.iter().find(|(other, _)| *other == dtype).map_or(0, |(_, bytes)| *bytes),
            None => {
                let by_name: HashMap<&str, &TensorInfo> =
                    tensors.iter().map(|listed| (&*listed.name, listed)).collect();
                total(required.iter().filter_map(|tensor| as_stored(tensor, by_name.get(&*tensor.name)?)))
            }
        };
        let narrow = |dtype: Dtype| -> Vec<String> {
            let narrow = required.iter().filter(|tensor| tensor.stays_f16(dtype));
            narrow.map(|tensor| tensor.name.clone()).collect()
        };
        Ok(Inspection {
            parameters: total(required.iter().map(RequiredTensor::parameters)),
            file_bytes: weights.size(),
            stored,
            memory: Memory { default, at },
            stays_f16: Dtype::all().map(|dtype| (dtype, narrow(dtype))).collect(),
            problems,
            superfluous,
            tokenizer: checkpoint.tokenizer().map(drop),
            chat: checkpoint.chat().map(|template| template.is_some()),
            pair_head: if config.causal { Ok(None) } else { checkpoint.pair_head() },
            config,
            tensors,
        })
    }
}

impl Checkpoint {
    /// What whoever asks for this dtype should hear: that many matrices have rows that do not fit its blocks, and gain nothing.
    pub fn dtype_warning(&self, dtype: Dtype) -> Result<Option<String>> {
        let required = required_tensors(&self.config()?, &self.weights()?)?;
        let matrices = required.iter().filter(|tensor| matches!(tensor.role, Role::Matrix | Role::Head)).count();
        let misfits = required.iter().filter(|tensor| tensor.stays_f16(dtype)).count();
        let block = dtype.quantised().map_or(1, |quantised| quantised.block_size());
        Ok((misfits > 0).then(|| {
            format!(
                "{misfits} of {matrices} matrices have rows that cannot be cut into {dtype}'s blocks of {block} weights; they stay f16, which saves less memory \
                 and no time: take q8_0"
            )
        }))
    }
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Bytes of a loaded tensor of a GGUF file that is kept as it is stored.
fn as_stored(tensor: &RequiredTensor, listed: &TensorInfo) -> Option<u64> {
    let dtype = TYPES.iter().find(|known| known.name == listed.dtype)?.dtype;
    Some(match tensor.role {
        Role::Vector => tensor.parameters().saturating_mul(4),
        Role::Matrix | Role::Head | Role::Embedding => tensor.bytes_as(dtype),
    })
}
