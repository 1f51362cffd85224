//! Writes a checkpoint as one GGUF file, converted tensor by tensor.
//!
//! Names, keys and the order of LLaDA's query and key rows are llama.cpp's, so that it could load the file too. Where a tensor lies
//! depends on shapes only, so the header comes first and tensors are streamed behind it, into whatever can be written.

use crate::checkpoint::Checkpoint;
use crate::config::{Config, Family};
use crate::error::{Computed, Error, Result};
use crate::gguf::metadata::architecture;
use crate::gguf::vocabulary::{BYTE_LEVEL, NO_TOKENIZER, Vocabulary};
use crate::gguf::{ALIGNMENT, MAGIC, keys};
use crate::layers::TILE;
use crate::load_options::Dtype;
use crate::stored::{StoredTensor, type_of};
use crate::tensor_list::{self, RequiredTensor, Role, required_tensors, tensors_of};
use crate::transformer::Names;
use crate::weights::{Layout, Weights, halved};
use candle_core::Tensor;
use candle_core::quantized::{GgmlDType, QTensor};
use half::{bf16, f16};
use rayon::prelude::*;
use std::borrow::Cow;
use std::io::{BufWriter, Write};

/// The version of the format that is written.
const VERSION: u32 = 3;

/// Rows that one thread converts at a time.
const PIECE: usize = 64;

/// The conversion of a checkpoint to one GGUF file.
pub struct Quantise<'a> {
    /// The checkpoint to read.
    pub checkpoint: &'a Checkpoint,
    /// The type of its matrices in the file.
    pub dtype: Dtype,
}

/// What is in the file that was written.
#[derive(Debug)]
pub struct QuantisedFile {
    /// The bytes of the file.
    pub bytes: u64,
    /// How many tensors it has.
    pub tensors: usize,
    /// Tensors that stayed f16, because their width does not fit the blocks.
    pub stayed_f16: Vec<String>,
    /// Why the file has no tokenizer, if it has none.
    pub without_tokenizer: Option<String>,
}

/// A tensor of the checkpoint, and how it is written.
struct Job {
    /// Its name in the checkpoint that is read.
    from: String,
    tensor: RequiredTensor,
    dtype: GgmlDType,
    /// Heads whose rows llama.cpp wants in pairs.
    paired: Option<usize>,
}

impl Quantise<'_> {
    /// Reads, converts and writes. `progress` is called before every tensor is written,
    /// with its name, its index and the number of tensors.
    pub fn run(&self, out: &mut impl Write, mut progress: impl FnMut(&str, usize, usize)) -> Result<QuantisedFile> {
        let (config, weights) = (self.checkpoint.config()?, self.checkpoint.weights()?);
        self.architecture(&config)?; // before its tensors are asked for by names that only some families have
        let jobs = self.jobs(&config, &weights)?;
        // What is wrong with a checkpoint is worth knowing before gigabytes are written.
        tensor_list::check(&config, &weights)?;
        let (values, without_tokenizer) = self.values(&config)?;
        let header = header(&values, &jobs);

        let mut file = BufWriter::with_capacity(1 << 20, out);
        file.write_all(&header).map_err(Error::Write)?;
        let mut at = header.len() as u64;
        for (i, job) in jobs.iter().enumerate() {
            progress(&job.tensor.name, i, jobs.len());
            let stored = weights.stored(&job.from, &job.tensor.shape)?;
            job.write(&stored, |bytes| file.write_all(bytes).map_err(Error::Write))?;
            let size = job.tensor.bytes_as(job.dtype);
            let padding = size.next_multiple_of(ALIGNMENT) - size;
            file.write_all(&[0; ALIGNMENT as usize][..padding as usize]).map_err(Error::Write)?;
            at += size + padding;
        }
        file.flush().map_err(Error::Write)?;
        let stayed = jobs.iter().filter(|job| job.tensor.stays_f16(self.dtype));
        let stayed_f16 = stayed.map(|job| job.tensor.name.clone()).collect();
        Ok(QuantisedFile { bytes: at, tensors: jobs.len(), stayed_f16, without_tokenizer })
    }

    fn jobs(&self, config: &Config, weights: &Weights) -> Result<Vec<Job>> {
        let job = |(from, tensor): (RequiredTensor, RequiredTensor)| Job {
            from: from.name,
            dtype: tensor.ggml_type(self.dtype),
            paired: paired(config, &tensor),
            tensor,
        };
        let mut jobs: Vec<Job> =
            required_tensors(config, weights)?.into_iter().zip(tensors_of(config, Layout::Gguf)).map(job).collect();
        // A tied head is looked up in one precision and multiplied with in another, so that it becomes a tensor of its own.
        let (name, shape) = (Names::gguf().head.into(), vec![config.vocab, config.hidden]);
        let head = RequiredTensor { name, shape, role: Role::Head };
        if config.tied && head.ggml_type(self.dtype) != self.dtype.of_embedding() {
            let from = Names::of(config.family, weights.layout()).embedding.into();
            jobs.push(Job { from, dtype: head.ggml_type(self.dtype), paired: None, tensor: head });
        }
        Ok(jobs)
    }

    /// What llama.cpp calls the family, which not every family is called anything.
    fn architecture(&self, config: &Config) -> Result<&'static str> {
        architecture(config.family).ok_or_else(|| Error::Unsupported {
            path: self.checkpoint.path().into(),
            what: "the family".into(),
            given: format!("{:?}", config.family),
            accepted: "LLaDA and Dream as GGUF files".into(),
        })
    }

    /// The header's values, and why there is no tokenizer among them.
    fn values(&self, config: &Config) -> Result<(Values, Option<String>)> {
        let path = self.checkpoint.path();
        let arch = self.architecture(config)?;
        let mut values = Values::default();
        values.string(keys::ARCHITECTURE, arch);
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            values.string(keys::NAME, name);
        }
        values.u32(keys::ALIGNMENT, ALIGNMENT as u32);
        values.u32(keys::FILE_TYPE, file_type(self.dtype));
        values.u32(keys::QUANTISATION_VERSION, 2);
        let key = |leaf: &str| format!("{arch}.{leaf}");
        for (leaf, n) in [
            (keys::BLOCKS, config.layers),
            (keys::CONTEXT, config.context),
            (keys::HIDDEN, config.hidden),
            (keys::MLP, config.mlp),
            (keys::HEADS, config.heads),
            (keys::KV_HEADS, config.kv_heads),
            (keys::KEY_LENGTH, config.head_dim),
            (keys::VALUE_LENGTH, config.head_dim),
            (keys::ROPE_WIDTH, config.head_dim),
            (keys::VOCAB, config.vocab),
        ] {
            values.u32(&key(leaf), n as u32); // sizes end at 2^24
        }
        values.f32(&key(keys::RMS_EPS), config.rms_eps as f32);
        values.f32(&key(keys::ROPE_BASE), config.rope_theta as f32);
        values.bool(&key(keys::CAUSAL), false);
        values.bool(keys::SHIFT, config.shift);
        let (tokenizer, chat) = (self.checkpoint.tokenizer(), self.checkpoint.chat()?);
        let vocabulary =
            tokenizer.and_then(|it| Ok((Vocabulary::of(&it, config.vocab)?, self.checkpoint.special(&it)?)));
        let mut special = Vec::new();
        let without_tokenizer = match vocabulary {
            Ok((vocabulary, ids)) => {
                special = ids;
                vocabulary.put(&mut values);
                None
            }
            Err(error) => {
                values.string(keys::TOKENIZER, NO_TOKENIZER);
                Some(error.to_string())
            }
        };
        // The configuration's word on these two counts, and it always has one.
        special.retain(|(key, _)| ![keys::MASK_ID, keys::EOS_ID].contains(key));
        special.extend([(keys::MASK_ID, config.mask_id), (keys::EOS_ID, config.eos_id)]);
        special.into_iter().for_each(|(key, id)| values.u32(key, id));
        if config.family == Family::Llada {
            values.bool(keys::ADD_BOS, true); // for llama.cpp, whose converter says so; here nothing is added to a text
        }
        if let Some(chat) = chat {
            values.string(keys::CHAT_TEMPLATE, chat.source());
        }
        if let Some(section) = self.checkpoint.generation_defaults()?.to_section() {
            values.string(keys::GENERATION_DEFAULTS, &section);
        }
        Ok((values, without_tokenizer))
    }
}

/// Heads whose query or key rows llama.cpp's LLaDA has in pairs.
fn paired(config: &Config, tensor: &RequiredTensor) -> Option<usize> {
    let names = Names::gguf();
    let is = |leaf: &str| tensor.name.split('.').nth(2) == Some(leaf);
    match config.family {
        Family::Llada if is(names.q) => Some(config.heads),
        Family::Llada if is(names.k) => Some(config.kv_heads),
        _ => None,
    }
}

fn file_type(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::Bf16 => 32,
        Dtype::Q8_0 => 7,
        Dtype::Q4K => 14,
        Dtype::Q6K => 18,
    }
}

impl Job {
    /// Converts a tensor, a few rows at a time.
    fn write(&self, stored: &StoredTensor<'_>, mut write: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let rows = stored.shape[0];
        let pairs;
        let stored = match self.paired {
            None => stored,
            Some(heads) => {
                let bytes = Cow::Owned(stored.reorder(|i| halved(i, rows / heads)));
                let StoredTensor { path, ref name, dtype, ref shape, file, .. } = *stored;
                pairs = StoredTensor { path, name: name.clone(), dtype, shape: shape.clone(), bytes, file };
                &pairs
            }
        };
        if self.tensor.role == Role::Vector {
            return write(&encode(stored, self.dtype)?);
        }
        let piece = |start| encode(&stored.rows(start..rows.min(start + PIECE)), self.dtype);
        (0..rows).step_by(TILE).try_for_each(|tile| {
            let starts: Vec<usize> = (tile..rows.min(tile + TILE)).step_by(PIECE).collect();
            // Rows are quantised each by itself, so the bytes do not depend on how they are shared among threads.
            let pieces: Vec<Computed<Vec<u8>>> = starts.into_par_iter().map(piece).collect();
            pieces.into_iter().try_for_each(|bytes| write(&bytes?))
        })
    }
}

/// Rows in another type; in the same, the same bytes.
fn encode(stored: &StoredTensor<'_>, dtype: GgmlDType) -> Computed<Vec<u8>> {
    let flat = |tensor: Tensor| tensor.flatten_all();
    Ok(match dtype {
        GgmlDType::F32 => flat(stored.to_f32()?)?.to_vec1::<f32>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        GgmlDType::F16 => {
            flat(stored.to_narrow()?)?.to_vec1::<f32>()?.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect()
        }
        GgmlDType::BF16 => {
            flat(stored.to_f32()?)?.to_vec1::<f32>()?.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect()
        }
        _ if dtype == stored.dtype => stored.keep()?.to_vec(),
        _ => QTensor::quantize(&stored.to_narrow()?, dtype)?.data()?.into_owned(),
    })
}

impl Vocabulary {
    fn put(&self, values: &mut Values) {
        match &self.bpe {
            Some((pre, merges)) => {
                values.string(keys::TOKENIZER, BYTE_LEVEL);
                values.string(keys::PRE, pre);
                values.strings(keys::MERGES, merges);
            }
            None => values.string(keys::TOKENIZER, NO_TOKENIZER),
        }
        values.strings(keys::TOKENS, &self.tokens);
        values.integers(keys::TOKEN_TYPES, &self.kinds);
        values.string(keys::TOKENIZER_JSON, &self.json);
    }
}

/// Keys and values, encoded.
#[derive(Default)]
struct Values {
    n: u64,
    bytes: Vec<u8>,
}

impl Values {
    fn key(&mut self, key: &str, kind: u32) {
        self.n += 1;
        put_string(&mut self.bytes, key);
        self.bytes.extend(kind.to_le_bytes());
    }

    fn u32(&mut self, key: &str, value: u32) {
        self.key(key, 4);
        self.bytes.extend(value.to_le_bytes());
    }

    fn f32(&mut self, key: &str, value: f32) {
        self.key(key, 6);
        self.bytes.extend(value.to_le_bytes());
    }

    fn bool(&mut self, key: &str, value: bool) {
        self.key(key, 7);
        self.bytes.push(value.into());
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key, 8);
        put_string(&mut self.bytes, value);
    }

    fn strings(&mut self, key: &str, values: &[String]) {
        self.array(key, 8, values.len());
        values.iter().for_each(|value| put_string(&mut self.bytes, value));
    }

    fn integers(&mut self, key: &str, values: &[i32]) {
        self.array(key, 5, values.len());
        self.bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn array(&mut self, key: &str, kind: u32, n: usize) {
        self.key(key, 9);
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((n as u64).to_le_bytes());
    }
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Everything before the first tensor.
fn header(values: &Values, jobs: &[Job]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((jobs.len() as u64).to_le_bytes());
    bytes.extend(values.n.to_le_bytes());
    bytes.extend(&values.bytes);
    let mut offset: u64 = 0;
    for Job { tensor, dtype, .. } in jobs {
        put_string(&mut bytes, &tensor.name);
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        bytes.extend(tensor.shape.iter().rev().flat_map(|&n| (n as u64).to_le_bytes()));
        let number = type_of(*dtype).map_or(0, |known| known.number); // no dtype asks for a type without one
        bytes.extend(number.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        offset += tensor.bytes_as(*dtype).next_multiple_of(ALIGNMENT);
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    bytes
}
