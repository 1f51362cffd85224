//! What `config.json` says, in one vocabulary for every family.
//!
//! Every value is read from the file. Nothing falls back to a class default: Dream's class defaults are not its 7B's values, and
//! LLaDA's `mlp_ratio` only counts when `mlp_hidden_size` is null. What this engine does not compute is refused by name.
//!
//! Whether a model is shifted is a matter of its family, as published: LLaDA is not, Dream is, and dllm's Qwen conversions
//! (A2D) are not, unless their configuration says `"right_shift_logits": true`, the name of that option in dllm. BERT and its
//! relatives (`encoder.rs`) are not.

mod encoder;

pub use encoder::{Activation, EncoderConfig, LocalAttention};

use crate::error::{Error, Result};
use crate::files;
use crate::tokenizer::Tokenizer;
use cofill::TokenId;
use serde_json::{Map, Value};
use std::fmt;
use std::path::{Path, PathBuf};

/// A transformer's sizes and switches.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Whose tensor names the checkpoint uses.
    pub family: Family,
    /// Width of the residual stream.
    pub hidden: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key and value heads; a group of query heads shares one.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Rows of the embedding and of the head: the columns of the logits.
    pub vocab: usize,
    /// Base of the rotary angles; 0 where positions are rows of a table.
    pub rope_theta: f64,
    /// Added to the mean square in RMSNorm, and to the variance in the layer norms of encoders.
    pub rms_eps: f64,
    /// q, k and v have biases.
    pub qkv_bias: bool,
    /// The output projection has a bias (Qwen3 with `attention_bias`).
    pub o_bias: bool,
    /// q and k of each head are normalised before they are rotated (Qwen3).
    pub qk_norm: bool,
    /// The head is the embedding.
    pub tied: bool,
    /// Row i − 1 predicts position i (Dream, and Qwen models that say so).
    pub shift: bool,
    /// A position sees only itself and what stands before it. Such a model fills no masks; it is a companion.
    pub causal: bool,
    /// The most positions a canvas may have.
    pub context: usize,
    /// The id of the token that stands for a masked position; of a companion, the mask of the model that it accompanies.
    pub mask_id: TokenId,
    /// The id of the token that ends a text, and pads it.
    pub eos_id: TokenId,
    /// What BERT and its relatives have beyond this; the other families have nothing.
    pub encoder: Option<EncoderConfig>,
}

/// The families of published models, which differ in tensor names and in what their configurations leave unsaid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// LLaDA: architecture `LLaDAModelLM`.
    Llada,
    /// Dream: architecture `DreamModel`, which has Qwen2's layout.
    Dream,
    /// `A2DQwen2LMHeadModel` and `A2DQwen3LMHeadModel`: Qwen2 or Qwen3 with attention in both directions.
    Qwen,
    /// BERT: post-norm blocks, a table of positions.
    Bert,
    /// ALBERT: BERT whose layers share their weights, and whose embedding is narrower than its stream.
    Albert,
    /// RoBERTa: BERT with other names, and positions that begin behind the padding's.
    Roberta,
    /// ModernBERT: pre-norm blocks, rotations, most layers local.
    ModernBert,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Llada => "llada",
            Family::Dream => "dream",
            Family::Qwen => "qwen",
            Family::Bert => "bert",
            Family::Albert => "albert",
            Family::Roberta => "roberta",
            Family::ModernBert => "modernbert",
        })
    }
}

/// The architectures that are run.
const ACCEPTED: &str = "`LLaDAModelLM`, `DreamModel`, `A2DQwen2LMHeadModel`, `A2DQwen3LMHeadModel`, `BertForMaskedLM`, \
                        `AlbertForMaskedLM`, `RobertaForMaskedLM` and `ModernBertForMaskedLM`";

/// The causal language models that are run beside a diffusion model.
pub(crate) const COMPANIONS: &str = "`Qwen2ForCausalLM` and `Qwen3ForCausalLM`";

/// Diffusion models in which a block of positions sees itself and what stands before it, but nothing after it.
const BLOCK_CAUSAL: [&str; 4] =
    ["SDARForCausalLM", "SDARMoeForCausalLM", "LLaDA2MoeModelLM", "Fast_dLLM_QwenForCausalLM"];

/// No model is this large; a size beyond it is a damaged file, not a reason to allocate.
pub(crate) const MOST: u64 = 1 << 24;

impl Config {
    /// Reads `config.json` in `dir`.
    pub fn load(dir: &Path) -> Result<Config> {
        let path = dir.join("config.json");
        let text = files::read_required(&path)?;
        Config::parse_in(Some(dir), &text, &path).map_err(|error| match error {
            // dllm leaves the mask to the tokenizer, so that is who can tell what to add.
            Error::NoMaskId { path, .. } => {
                Error::NoMaskId { path, tokenizers: Tokenizer::load(dir).ok().and_then(|tokenizer| tokenizer.mask()) }
            }
            error => error,
        })
    }

    /// Reads the text of a `config.json`; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config> {
        Config::parse_in(None, text, path)
    }

    /// The same; what encoders leave to their tokenizer and their tensors is looked up in `folder`.
    fn parse_in(folder: Option<&Path>, text: &str, path: &Path) -> Result<Config> {
        let fields = Fields::of(text, path)?;
        if let Some(family) = fields.encoder_family(folder) {
            let config = fields.encoder(family, folder)?;
            config.check(path)?;
            return Ok(config);
        }
        let architecture = fields.architecture()?;
        let config = match architecture.as_str() {
            "LLaDAModelLM" => fields.llada()?,
            "DreamModel" => fields.dream()?,
            "A2DQwen2LMHeadModel" => fields.qwen2(Role::Denoiser)?,
            "A2DQwen3LMHeadModel" => fields.qwen3(Role::Denoiser)?,
            "Qwen2ForCausalLM" | "Qwen3ForCausalLM" => {
                return Err(Error::Causal { path: path.into(), given: architecture });
            }
            given if BLOCK_CAUSAL.contains(&given) => return Err(fields.block_causal("architectures[0]", given)),
            given => return Err(fields.unsupported("architectures[0]", given, ACCEPTED)),
        };
        config.check(path)?;
        Ok(config)
    }

    /// Width of the rows of the embedding, and of what is multiplied with them to give the logits.
    pub fn embedding_width(&self) -> usize {
        self.encoder.as_ref().map_or(self.hidden, |encoder| encoder.embedding)
    }

    /// Tokens that are never proposed, beside the mask; ascending.
    pub fn never_proposed(&self) -> &[TokenId] {
        self.encoder.as_ref().map_or(&[], |encoder| &encoder.never)
    }

    /// The bases of the rotary angles, of every kind of layer.
    fn thetas(&self) -> Vec<f64> {
        match &self.encoder {
            None => vec![self.rope_theta],
            Some(encoder) => encoder.local.iter().flat_map(|local| [self.rope_theta, local.theta]).collect(),
        }
    }

    /// Reads the text of the `config.json` of a causal language model, to be the companion of a model with this mask.
    pub fn parse_companion(text: &str, path: &Path, mask_id: TokenId) -> Result<Config> {
        let fields = Fields::of(text, path)?;
        let architecture = fields.architecture()?;
        let config = match architecture.as_str() {
            "Qwen2ForCausalLM" => fields.qwen2(Role::Companion { mask_id })?,
            "Qwen3ForCausalLM" => fields.qwen3(Role::Companion { mask_id })?,
            _ => {
                let (what, accepted) = ("architectures[0]".into(), COMPANIONS.into());
                return Err(Error::NotACompanion { path: path.into(), what, given: architecture, accepted });
            }
        };
        config.check(path)?;
        Ok(config)
    }

    /// That the values fit each other, whatever file (`path`) they come from.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        let wrong = |problem: String| Err(Error::Malformed { path: path.into(), problem });
        if !self.heads.is_multiple_of(self.kv_heads) {
            return wrong(format!("{} query heads cannot share {} key heads evenly", self.heads, self.kv_heads));
        }
        let thetas = self.thetas();
        if !thetas.is_empty() && !self.head_dim.is_multiple_of(2) {
            return wrong(format!("head width {} is odd, but rotary embedding pairs its entries", self.head_dim));
        }
        // Computed with in f32, so that is where they must make sense.
        let positive = |x: f64| (x as f32).is_finite() && x as f32 > 0.0;
        if let Some(theta) = thetas.into_iter().find(|theta| !positive(*theta)) {
            return wrong(format!("`rope_theta` is {theta:e}, but must be above 0 and below 3.4e38"));
        }
        if !positive(self.rms_eps) {
            let name = match self.family {
                Family::Bert | Family::Albert | Family::Roberta => "layer_norm_eps",
                Family::ModernBert => "norm_eps",
                _ => "rms_norm_eps",
            };
            return wrong(format!("`{name}` is {:e}, but must be from 1.5e-45 to 3.4e38", self.rms_eps));
        }
        for (name, id) in [("mask_token_id", self.mask_id), ("eos_token_id", self.eos_id)] {
            if id as usize >= self.vocab {
                return wrong(format!("`{name}` is {id}, but the vocabulary ends at {}", self.vocab - 1));
            }
        }
        Ok(())
    }
}

/// Where models of Qwen's layout differ from each other.
struct Qwen {
    family: Family,
    head_dim: usize,
    rope_theta: f64,
    qkv_bias: bool,
    o_bias: bool,
    qk_norm: bool,
    shift: bool,
    causal: bool,
    mask_id: TokenId,
}

/// The fields of a configuration file, with its path for messages.
struct Fields {
    map: Map<String, Value>,
    path: PathBuf,
}

/// What a model is read for.
#[derive(Clone, Copy)]
enum Role {
    /// To fill masks: its positions see everything.
    Denoiser,
    /// To stand beside a model with this mask: its positions see what is before them.
    Companion { mask_id: TokenId },
}

impl Fields {
    /// The fields of a file.
    fn of(text: &str, path: &Path) -> Result<Fields> {
        let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
        let value: Value = serde_json::from_str(text).map_err(|error| malformed(format!("not JSON: {error}")))?;
        let Value::Object(map) = value else { return Err(malformed("not a JSON object".into())) };
        Ok(Fields { map, path: path.into() })
    }

    /// The first of its architectures.
    fn architecture(&self) -> Result<String> {
        let names = self.get("architectures")?;
        let first = names.as_array().and_then(|names| names.first()).and_then(Value::as_str);
        let architecture = first.ok_or_else(|| {
            self.malformed(format!("`architectures` is {names}, but must be a list of a name: {ACCEPTED}"))
        })?;
        Ok(architecture.to_owned())
    }

    fn llada(&self) -> Result<Config> {
        self.demand("block_type", "llama")?;
        self.demand("activation_type", "silu")?;
        self.demand("layer_norm_type", "rms")?;
        self.demand("rope", true)?;
        for switch in
            ["alibi", "attention_layer_norm", "input_emb_norm", "scale_logits", "include_bias", "bias_for_layer_norm"]
        {
            self.demand(switch, false)?;
        }
        let (hidden, heads) = (self.size("d_model")?, self.size("n_heads")?);
        Ok(Config {
            family: Family::Llada,
            hidden,
            layers: self.size("n_layers")?,
            heads,
            kv_heads: self.size_or_null("n_kv_heads")?.unwrap_or(heads),
            head_dim: self.head_dim(hidden, heads)?,
            mlp: match self.size_or_null("mlp_hidden_size")? {
                Some(mlp) => mlp,
                None => hidden * self.size("mlp_ratio")?,
            },
            vocab: match self.size_or_null("embedding_size")? {
                Some(rows) => rows.max(self.size("vocab_size")?),
                None => self.size("vocab_size")?,
            },
            rope_theta: self.number("rope_theta")?,
            rms_eps: self.number("rms_norm_eps")?,
            qkv_bias: self.switch("include_qkv_bias")?,
            o_bias: false,
            qk_norm: false,
            tied: self.switch("weight_tying")?,
            shift: false,
            causal: false,
            context: self.size("max_sequence_length")?,
            mask_id: self.id("mask_token_id")?,
            eos_id: self.id("eos_token_id")?,
            encoder: None,
        })
    }

    fn dream(&self) -> Result<Config> {
        self.demand("rope_scaling", Value::Null)?;
        self.qwen_shaped(&Qwen {
            family: Family::Dream,
            head_dim: self.split()?,
            rope_theta: self.number("rope_theta")?,
            qkv_bias: true,
            o_bias: false,
            qk_norm: false,
            shift: true,
            causal: false,
            mask_id: self.id("mask_token_id")?,
        })
    }

    /// Qwen2's class always has biases, and splits the width over the heads unless it is told otherwise.
    fn qwen2(&self, role: Role) -> Result<Config> {
        self.attends_everywhere()?;
        let head_dim = if self.has("head_dim") { self.size("head_dim")? } else { self.split()? };
        self.qwen_shaped(&Qwen {
            family: Family::Qwen,
            head_dim,
            rope_theta: self.rope_theta(role)?,
            qkv_bias: true,
            o_bias: false,
            qk_norm: false,
            shift: self.shift(role)?,
            causal: matches!(role, Role::Companion { .. }),
            mask_id: self.mask_id(role)?,
        })
    }

    /// Qwen3's class normalises q and k, has biases on all of attention or on none of it, and heads as wide as it says.
    fn qwen3(&self, role: Role) -> Result<Config> {
        self.attends_everywhere()?;
        let bias = self.switch("attention_bias")?;
        self.qwen_shaped(&Qwen {
            family: Family::Qwen,
            head_dim: self.size("head_dim")?,
            rope_theta: self.rope_theta(role)?,
            qkv_bias: bias,
            o_bias: bias,
            qk_norm: true,
            shift: self.shift(role)?,
            causal: matches!(role, Role::Companion { .. }),
            mask_id: self.mask_id(role)?,
        })
    }

    fn qwen_shaped(&self, qwen: &Qwen) -> Result<Config> {
        self.demand("hidden_act", "silu")?;
        self.demand("use_sliding_window", false)?;
        let Qwen { family, head_dim, rope_theta, qkv_bias, o_bias, qk_norm, shift, causal, mask_id } = *qwen;
        Ok(Config {
            family,
            hidden: self.size("hidden_size")?,
            layers: self.size("num_hidden_layers")?,
            heads: self.size("num_attention_heads")?,
            kv_heads: self.size("num_key_value_heads")?,
            head_dim,
            mlp: self.size("intermediate_size")?,
            vocab: self.size("vocab_size")?,
            rope_theta,
            rms_eps: self.number("rms_norm_eps")?,
            qkv_bias,
            o_bias,
            qk_norm,
            tied: self.switch("tie_word_embeddings")?,
            shift,
            causal,
            context: self.size("max_position_embeddings")?,
            mask_id,
            eos_id: self.id("eos_token_id")?,
            encoder: None,
        })
    }

    /// Refuses fields by which configurations say that attention stops at the end of a block or of a window.
    fn attends_everywhere(&self) -> Result<()> {
        for name in ["block_size", "bd_size"] {
            if self.has(name) {
                return Err(self.block_causal(&format!("`{name}`"), &self.get(name)?.to_string()));
            }
        }
        if self.has("layer_types") {
            let types = self.get("layer_types")?;
            let full = |types: &Vec<Value>| types.iter().all(|kind| kind == "full_attention");
            if !types.as_array().is_some_and(full) {
                return Err(self.unsupported("`layer_types`", &types.to_string(), "`full_attention` only"));
            }
        }
        Ok(())
    }

    /// `rope_theta`, or since transformers 5 `rope_parameters` with it inside. Scaled angles are refused in both.
    fn rope_theta(&self, role: Role) -> Result<f64> {
        let new = self.has("rope_parameters");
        // Published causal models may leave it out, which their class reads as none.
        let may_lack = new || matches!(role, Role::Companion { .. });
        if !may_lack || self.has("rope_scaling") {
            self.demand("rope_scaling", Value::Null)?;
        }
        if !new {
            return self.number("rope_theta");
        }
        let Value::Object(map) = self.get("rope_parameters")?.clone() else {
            return Err(self.malformed("`rope_parameters` must be an object".into()));
        };
        let inside = Fields { map, path: self.path.clone() };
        inside.demand("rope_type", "default")?;
        inside.number("rope_theta")
    }

    /// dllm leaves the mask to the tokenizer, so this is the field its checkpoints lack.
    fn mask_id(&self, role: Role) -> Result<TokenId> {
        match role {
            Role::Companion { mask_id } => Ok(mask_id),
            Role::Denoiser if self.has("mask_token_id") => self.id("mask_token_id"),
            Role::Denoiser => Err(Error::NoMaskId { path: self.path.clone(), tokenizers: None }),
        }
    }

    /// A causal model says at row i what comes next, so row i - 1 predicts position i.
    fn shift(&self, role: Role) -> Result<bool> {
        match role {
            Role::Companion { .. } => Ok(true),
            Role::Denoiser => Ok(self.has("right_shift_logits") && self.switch("right_shift_logits")?),
        }
    }

    /// Whether a field is there and not null.
    fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    fn get(&self, name: &str) -> Result<&Value> {
        let missing = || Error::Missing { path: self.path.clone(), what: format!("the field `{name}`") };
        self.map.get(name).ok_or_else(missing)
    }

    fn malformed(&self, problem: String) -> Error {
        Error::Malformed { path: self.path.clone(), problem }
    }

    fn unsupported(&self, what: &str, given: &str, accepted: &str) -> Error {
        let (what, given, accepted) = (what.into(), given.into(), accepted.into());
        Error::Unsupported { path: self.path.clone(), what, given, accepted }
    }

    fn block_causal(&self, what: &str, given: &str) -> Error {
        Error::BlockCausal { path: self.path.clone(), what: what.into(), given: given.into() }
    }

    /// The only value of a switch that this engine computes.
    fn demand(&self, name: &str, want: impl Into<Value>) -> Result<()> {
        let (given, want) = (self.get(name)?, want.into());
        if *given == want {
            Ok(())
        } else {
            Err(self.unsupported(&format!("`{name}`"), &given.to_string(), &want.to_string()))
        }
    }

    fn size(&self, name: &str) -> Result<usize> {
        self.size_or_null(name)?.ok_or_else(|| self.malformed(format!("`{name}` is null, but must be a number")))
    }

    fn size_or_null(&self, name: &str) -> Result<Option<usize>> {
        match self.get(name)? {
            Value::Null => Ok(None),
            value => match value.as_u64().filter(|n| (1..=MOST).contains(n)) {
                Some(n) => Ok(Some(n as usize)),
                None => {
                    Err(self.malformed(format!("`{name}` is {value}, but must be a whole number from 1 to {MOST}")))
                }
            },
        }
    }

    fn split(&self) -> Result<usize> {
        self.head_dim(self.size("hidden_size")?, self.size("num_attention_heads")?)
    }

    fn head_dim(&self, hidden: usize, heads: usize) -> Result<usize> {
        if hidden.is_multiple_of(heads) {
            Ok(hidden / heads)
        } else {
            Err(self.malformed(format!("a width of {hidden} cannot be split over {heads} heads")))
        }
    }

    fn number(&self, name: &str) -> Result<f64> {
        let value = self.get(name)?;
        value.as_f64().ok_or_else(|| self.malformed(format!("`{name}` is {value}, but must be a number")))
    }

    fn switch(&self, name: &str) -> Result<bool> {
        let value = self.get(name)?;
        value.as_bool().ok_or_else(|| self.malformed(format!("`{name}` is {value}, but must be true or false")))
    }

    fn id(&self, name: &str) -> Result<TokenId> {
        let value = self.get(name)?;
        let id = value.as_u64().and_then(|id| TokenId::try_from(id).ok());
        id.ok_or_else(|| self.malformed(format!("`{name}` is {value}, but must be a token id")))
    }
}
