//! What a GGUF header says, as the configuration of a transformer.

use super::{Gguf, keys};
use crate::config::{Config, Family, MOST};
use crate::error::{Error, Result};
use crate::generation_config::GenerationDefaults;
use crate::transformer::Names;
use cofill::TokenId;

/// llama.cpp's names of the architectures, which are also the first part of most keys.
const ARCHITECTURES: [(&str, Family); 2] = [("llada", Family::Llada), ("dream", Family::Dream)];

/// A tensor that would change the rotation.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// What llama.cpp calls a family.
pub(crate) fn architecture(family: Family) -> Option<&'static str> {
    ARCHITECTURES.iter().find(|(_, known)| *known == family).map(|(name, _)| *name)
}

impl Gguf {
    /// The configuration. As in `config.json`, nothing that the file should say falls back to a default.
    pub(crate) fn config(&self) -> Result<Config> {
        let (arch, family) = self.family()?;
        let key = |leaf: &str| format!("{arch}.{leaf}");
        if let Some(n) = self.unsigned(keys::SPLIT_COUNT)?.filter(|n| *n > 1) {
            return Err(self.unsupported(keys::SPLIT_COUNT, &n.to_string(), "whole files; merge the parts first"));
        }
        if self.tensor(ROPE_FACTORS).is_some() {
            return Err(self.unsupported(ROPE_FACTORS, "there", "rotations without it"));
        }
        if self.bool(&key(keys::CAUSAL))? == Some(true) {
            return Err(self.unsupported(&key(keys::CAUSAL), "true", "false"));
        }
        if let Some(scaling) = self.string(&key(keys::ROPE_SCALING))?.filter(|scaling| *scaling != "none") {
            return Err(self.unsupported(&key(keys::ROPE_SCALING), scaling, "`none`"));
        }
        let (hidden, heads) = (self.size(&key(keys::HIDDEN))?, self.size(&key(keys::HEADS))?);
        let head_dim = match self.size_or_none(&key(keys::KEY_LENGTH))? {
            Some(width) => width,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => return Err(self.malformed(format!("a width of {hidden} cannot be split over {heads} heads"))),
        };
        // Keys, values and rotations of other widths are things this engine does not compute.
        for leaf in [keys::VALUE_LENGTH, keys::ROPE_WIDTH] {
            if let Some(width) = self.size_or_none(&key(leaf))?.filter(|width| *width != head_dim) {
                return Err(self.unsupported(&key(leaf), &width.to_string(), &format!("the head width, {head_dim}")));
            }
        }
        let names = Names::gguf();
        // The logits have as many columns as the embedding has rows; `vocab_size` counts the tokens, which may be fewer.
        let embedding = self.tensor(names.embedding);
        let what = || Error::Missing { path: self.path().into(), what: format!("tensor `{}`", names.embedding) };
        let vocab = embedding.ok_or_else(what)?.shape[0];
        if vocab as u64 > MOST {
            return Err(self.malformed(format!("tensor `{}` has {vocab} rows, more than {MOST}", names.embedding)));
        }
        if let Some(tokens) = self.size_or_none(&key(keys::VOCAB))?.filter(|tokens| *tokens > vocab) {
            let problem = format!("`{}` is {tokens}, but the embedding has {vocab} rows", key(keys::VOCAB));
            return Err(self.malformed(problem));
        }
        let config = Config {
            family,
            hidden,
            layers: self.size(&key(keys::BLOCKS))?,
            heads,
            kv_heads: self.size_or_none(&key(keys::KV_HEADS))?.unwrap_or(heads), // as the format defines it
            head_dim,
            mlp: self.size(&key(keys::MLP))?,
            vocab,
            rope_theta: self.number(&key(keys::ROPE_BASE))?,
            rms_eps: self.number(&key(keys::RMS_EPS))?,
            // Dream has biases; LLaDA may, and then has them all: whatever is left over is refused on loading.
            qkv_bias: family == Family::Dream || self.tensor(&format!("{}.0.{}.bias", names.blocks, names.q)).is_some(),
            // No architecture that is read here has these.
            o_bias: false,
            qk_norm: false,
            tied: self.tensor(names.head).is_none(),
            // llama.cpp's converter writes this for LLaDA, and not for Dream: shifting is what its decoder does unless told.
            shift: self.bool(keys::SHIFT)?.unwrap_or(family == Family::Dream),
            causal: false,
            context: self.size(&key(keys::CONTEXT))?,
            mask_id: self.id(keys::MASK_ID)?,
            eos_id: self.id(keys::EOS_ID)?,
            encoder: None,
        };
        config.check(self.path())?;
        Ok(config)
    }

    /// How the model wants to be asked: our own key, which `cofill models quantise` copies from a folder's `generation_config.json`.
    pub(crate) fn generation_defaults(&self) -> Result<GenerationDefaults> {
        match self.string(keys::GENERATION_DEFAULTS)? {
            Some(text) => GenerationDefaults::from_section(text, self.path(), keys::GENERATION_DEFAULTS),
            None => Ok(GenerationDefaults::default()),
        }
    }

    /// The architecture by llama.cpp's name.
    pub(crate) fn family(&self) -> Result<(&'static str, Family)> {
        let given = self.required(keys::ARCHITECTURE, Gguf::string)?;
        let known = ARCHITECTURES.iter().find(|(name, _)| *name == given);
        let accepted = || ARCHITECTURES.map(|(name, _)| format!("`{name}`")).join(" and ");
        known.copied().ok_or_else(|| self.unsupported(keys::ARCHITECTURE, given, &accepted()))
    }

    /// Query and key heads whose rows are stored in pairs, where the architecture's rotation is the interleaved one.
    pub(crate) fn interleaved(&self) -> Result<Option<(usize, usize)>> {
        let (arch, family) = self.family()?;
        if family != Family::Llada {
            return Ok(None);
        }
        let heads = self.size(&format!("{arch}.{}", keys::HEADS))?;
        let kv_heads = self.size_or_none(&format!("{arch}.{}", keys::KV_HEADS))?.unwrap_or(heads);
        Ok(Some((heads, kv_heads)))
    }

    fn size(&self, key: &str) -> Result<usize> {
        self.required(key, Gguf::size_or_none)
    }

    fn size_or_none(&self, key: &str) -> Result<Option<usize>> {
        match self.unsigned(key)? {
            Some(n) if (1..=MOST).contains(&n) => Ok(Some(n as usize)),
            Some(n) => Err(self.malformed(format!("`{key}` is {n}, but must be a whole number from 1 to {MOST}"))),
            None => Ok(None),
        }
    }

    fn number(&self, key: &str) -> Result<f64> {
        self.required(key, Gguf::float)
    }

    fn id(&self, key: &str) -> Result<TokenId> {
        self.required(key, Gguf::id_or_none)
    }

    pub(crate) fn id_or_none(&self, key: &str) -> Result<Option<TokenId>> {
        let Some(n) = self.unsigned(key)? else { return Ok(None) };
        let id = TokenId::try_from(n).map(Some);
        id.map_err(|_| self.malformed(format!("`{key}` is {n}, but must be a token id")))
    }
}
