//! What a checkpoint is, without reading a weight.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::load_options::Dtype;
use crate::matrix::rearranged;
use crate::stored::TYPES;
use crate::tensor_list::{Need, Role, needs, problems_of, product, superfluous, tied_head};
use crate::weights::TensorInfo;
use std::collections::{BTreeMap, HashMap};

/// What a checkpoint's headers say.
pub struct Inspection {
    /// Its sizes and switches.
    pub config: Config,
    /// Weights of the architecture; a tied head counts once.
    pub parameters: u64,
    /// Bytes of the files that hold its tensors.
    pub file_bytes: u64,
    /// Every tensor in its files, by name.
    pub tensors: Vec<TensorInfo>,
    /// By type: how many tensors, and their weights.
    pub stored: BTreeMap<String, (usize, u64)>,
    /// Bytes of the loaded weights: as a file without `--dtype` is loaded, and at every dtype.
    pub memory: Memory,
    /// Tensors that would stay f16 at a dtype, because their width does not fit its blocks.
    pub stays_f16: Vec<(Dtype, Vec<String>)>,
    /// What keeps it from being loaded: tensors that are missing, or of another shape or type than it takes.
    pub problems: Vec<String>,
    /// Tensors that nobody asks for.
    pub superfluous: Vec<String>,
    /// Why there is no tokenizer.
    pub tokenizer: Result<()>,
    /// Whether there is a chat template, or why it cannot be used.
    pub chat: Result<bool>,
}

/// Bytes of loaded weights.
#[derive(Debug)]
pub struct Memory {
    /// Without `--dtype`.
    pub default: u64,
    /// With each.
    pub at: Vec<(Dtype, u64)>,
    /// What computing with q4k adds.
    pub q4k_rearranged: u64,
}

impl Inspection {
    /// Whether everything that is there can be used. A checkpoint without a tokenizer or a template is as sound as one with.
    pub fn is_sound(&self) -> bool {
        let tokenizer = matches!(self.tokenizer, Ok(()) | Err(Error::Missing { .. }));
        self.problems.is_empty() && tokenizer && self.chat.is_ok()
    }

    /// Reads the headers of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Result<Inspection> {
        let (config, weights) = (checkpoint.config()?, checkpoint.weights()?);
        let needs = needs(&config, &weights)?;
        let tensors: Vec<TensorInfo> = weights.list();
        let mut stored: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        for TensorInfo { dtype, shape, .. } in &tensors {
            let entry = stored.entry(dtype.clone()).or_default();
            *entry = (entry.0 + 1, entry.1.saturating_add(product(shape)));
        }
        let superfluous = superfluous(tensors.iter().map(|listed| &*listed.name), &needs);
        let mut problems = problems_of(&config, &weights, &needs, &superfluous);
        problems.extend(checkpoint.generation_defaults().err());
        let problems = problems.iter().map(Error::to_string).collect();

        let tied = config.tied.then(|| tied_head(&config, weights.layout()));
        let at: Vec<(Dtype, u64)> = Dtype::all()
            .map(|dtype| {
                // A tied head in f32 is the embedding itself; in another type it is a copy.
                let copy = tied.as_ref().filter(|_| dtype != Dtype::F32);
                (dtype, total(needs.iter().chain(copy).map(|need| need.bytes(dtype))))
            })
            .collect();
        let default = match weights.default_dtype() {
            Some(dtype) => at.iter().find(|(other, _)| *other == dtype).map_or(0, |(_, bytes)| *bytes),
            None => {
                let by_name: HashMap<&str, &TensorInfo> =
                    tensors.iter().map(|listed| (&*listed.name, listed)).collect();
                total(needs.iter().filter_map(|need| as_stored(need, by_name.get(&*need.name)?, config.tied)))
            }
        };
        let matrices = needs.iter().chain(&tied).filter(|need| matches!(need.role, Role::Matrix | Role::Head));
        let copy = |need: &Need| rearranged(need.ggml_type(Dtype::Q4K), need.bytes(Dtype::Q4K));
        let q4k_rearranged = total(matrices.map(copy));
        let narrow = |dtype: Dtype| -> Vec<String> {
            let narrow = needs.iter().filter(|need| need.stays_f16(dtype));
            narrow.map(|need| need.name.clone()).collect()
        };
        Ok(Inspection {
            parameters: total(needs.iter().map(Need::parameters)),
            file_bytes: weights.size(),
            stored,
            memory: Memory { default, at, q4k_rearranged },
            stays_f16: Dtype::all().map(|dtype| (dtype, narrow(dtype))).collect(),
            problems,
            superfluous,
            tokenizer: checkpoint.tokenizer().map(drop),
            chat: checkpoint.chat().map(|template| template.is_some()),
            config,
            tensors,
        })
    }
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Bytes of a loaded tensor of a GGUF file that is kept as it is stored.
fn as_stored(need: &Need, listed: &TensorInfo, tied: bool) -> Option<u64> {
    let dtype = TYPES.iter().find(|known| known.name == listed.dtype)?.dtype;
    let stored = need.bytes_as(dtype);
    let parameters = need.parameters();
    Some(match need.role {
        Role::Vector => parameters.saturating_mul(4),
        Role::Matrix | Role::Head => stored,
        // Quantised rows are looked up in f16, and a tied head is a copy unless it is f32.
        Role::Embedding if dtype.block_size() > 1 => {
            parameters.saturating_mul(2).saturating_add(if tied { stored } else { 0 })
        }
        Role::Embedding if tied && dtype != candle_core::quantized::GgmlDType::F32 => stored.saturating_mul(2),
        Role::Embedding => stored,
    })
}
