//! `config.json` of BERT, ALBERT, RoBERTa and ModernBERT.
//!
//! None of them says which token is the mask; the tokenizer does. The tokenizer also says which tokens stand around a text, and
//! which stand for no text at all and so are never written into a gap. A configuration without a name of its family (rxnfp's) is told by
//! the names of its tensors.

use super::{Config, Family, Fields};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;
use cofill::TokenId;
use serde_json::Value;
use std::path::Path;

/// What an encoder of BERT's kind has beyond [`Config`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// Width of the rows of the table of words. ALBERT's is narrower than its stream.
    pub embedding: usize,
    /// Rows of the table of positions; 0 where positions are rotations.
    pub positions: usize,
    /// The token whose positions do not count, where the table begins behind its row (RoBERTa).
    pub offset_of: Option<TokenId>,
    /// Rows of the table of token types, of which the first is used.
    pub token_types: usize,
    /// Blocks that are stored. ALBERT's layers share them.
    pub stored_blocks: usize,
    /// Between the two layers of an MLP.
    pub activation: Activation,
    /// Between the two layers of the head.
    pub head_activation: Activation,
    /// Norms stand before attention and MLP (ModernBERT), not after their sums.
    pub pre_norm: bool,
    /// Norms have biases.
    pub norm_bias: bool,
    /// The layers of an MLP have biases.
    pub mlp_bias: bool,
    /// The first layer of the head has a bias.
    pub head_bias: bool,
    /// Every logit has a bias.
    pub decoder_bias: bool,
    /// Layers that do not see everything, where there are any.
    pub local: Option<LocalAttention>,
    /// The tokens that begin and end every text, where the tokenizer has them: `[CLS]` and `[SEP]`, or `<s>` and `</s>`.
    pub frame: Option<(TokenId, TokenId)>,
    /// Tokens that stand for no text, ascending: they are never proposed.
    pub never: Vec<TokenId>,
}

/// Attention over a window (ModernBERT).
#[derive(Debug, Clone, PartialEq)]
pub struct LocalAttention {
    /// How far a position sees, on either side.
    pub reach: usize,
    /// Base of the rotary angles in such layers.
    pub theta: f64,
    /// Which layers are such.
    pub layers: Vec<bool>,
}

/// What stands between two linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x Φ(x), `gelu`.
    Gelu,
    /// Its approximation by a tanh, `gelu_new`.
    GeluTanh,
}

/// Layers that may share blocks. They cost no memory, so nothing else would stop a damaged file from asking for millions.
const MOST_SHARING: usize = 1024;

impl EncoderConfig {
    /// For each token, the row of the table of positions that it has.
    pub(crate) fn rows_of_positions(&self, tokens: &[TokenId]) -> impl Iterator<Item = usize> {
        let pad = self.offset_of;
        let mut next = pad.map_or(0, |pad| pad as usize + 1);
        tokens.iter().map(move |&token| match pad {
            Some(pad) if pad == token => pad as usize,
            _ => {
                next += 1;
                next - 1
            }
        })
    }
}

/// Architectures and types of models, and the families they are of.
const FAMILIES: [(&str, &str, Family); 4] = [
    ("BertFor", "bert", Family::Bert),
    ("AlbertFor", "albert", Family::Albert),
    ("RobertaFor", "roberta", Family::Roberta),
    ("ModernBertFor", "modernbert", Family::ModernBert),
];

/// Tensors by which a folder is told whose configuration names no family.
const TELLING: [(&str, Family); 4] = [
    ("bert.embeddings.word_embeddings.weight", Family::Bert),
    ("albert.embeddings.word_embeddings.weight", Family::Albert),
    ("roberta.embeddings.word_embeddings.weight", Family::Roberta),
    ("model.embeddings.tok_embeddings.weight", Family::ModernBert),
];

impl Fields {
    /// The family, if it is one of BERT's: by the architecture, else by the type, else by the tensors in `folder`.
    pub(super) fn encoder_family(&self, folder: Option<&Path>) -> Option<Family> {
        let first = self.map.get("architectures").and_then(|names| names.get(0)?.as_str());
        if let Some(family) = first.and_then(family_of_architecture) {
            return Some(family);
        }
        if let Some(given) = self.map.get("model_type").and_then(Value::as_str) {
            return FAMILIES.iter().find(|(_, name, _)| *name == given).map(|(.., family)| *family);
        }
        if first.is_some() {
            return None;
        }
        let weights = Weights::open(folder?).ok()?;
        let telling = |(tensor, _): &&(&str, Family)| weights.names().any(|name| name == *tensor);
        TELLING.iter().find(telling).map(|(_, family)| *family)
    }

    pub(super) fn encoder(&self, family: Family, folder: Option<&Path>) -> Result<Config> {
        for switch in ["is_decoder", "add_cross_attention"] {
            if self.has(switch) {
                self.demand(switch, false)?;
            }
        }
        let specials = self.specials(folder)?;
        let (hidden, heads) = (self.size("hidden_size")?, self.size("num_attention_heads")?);
        let positions = self.size("max_position_embeddings")?;
        let mut config = Config {
            family,
            hidden,
            layers: self.size("num_hidden_layers")?,
            heads,
            kv_heads: heads,
            head_dim: self.head_dim(hidden, heads)?,
            mlp: self.size("intermediate_size")?,
            vocab: self.size("vocab_size")?,
            rope_theta: 0.0,
            rms_eps: self.number(if family == Family::ModernBert { "norm_eps" } else { "layer_norm_eps" })?,
            qkv_bias: true,
            o_bias: true,
            qk_norm: false,
            tied: !self.has("tie_word_embeddings") || self.switch("tie_word_embeddings")?,
            shift: false,
            context: positions,
            causal: false,
            mask_id: specials.mask,
            eos_id: specials.frame.map_or(specials.mask, |(_, end)| end),
            encoder: None,
        };
        let mut encoder = EncoderConfig {
            embedding: hidden,
            positions,
            offset_of: None,
            token_types: 0,
            stored_blocks: config.layers,
            activation: Activation::Gelu,
            head_activation: Activation::Gelu,
            pre_norm: false,
            norm_bias: true,
            mlp_bias: true,
            head_bias: true,
            decoder_bias: true,
            local: None,
            frame: specials.frame,
            never: specials.never(config.vocab),
        };
        if family == Family::ModernBert {
            self.modern(&mut config, &mut encoder)?;
        } else {
            self.classic(&mut config, &mut encoder)?;
        }
        config.encoder = Some(encoder);
        Ok(config)
    }

    /// BERT, ALBERT and RoBERTa.
    fn classic(&self, config: &mut Config, encoder: &mut EncoderConfig) -> Result<()> {
        if self.has("position_embedding_type") {
            self.demand("position_embedding_type", "absolute")?;
        }
        encoder.token_types = self.size("type_vocab_size")?;
        encoder.activation = self.activation("hidden_act")?;
        encoder.head_activation = encoder.activation;
        match config.family {
            Family::Albert => {
                encoder.embedding = self.size("embedding_size")?;
                encoder.stored_blocks = self.size("num_hidden_groups")?;
                if self.has("inner_group_num") {
                    self.demand("inner_group_num", 1)?;
                }
                if config.layers > MOST_SHARING {
                    let problem = format!(
                        "`num_hidden_layers` is {}, but at most {MOST_SHARING} may share blocks",
                        config.layers
                    );
                    return Err(self.malformed(problem));
                }
                if !config.layers.is_multiple_of(encoder.stored_blocks) {
                    let (layers, groups) = (config.layers, encoder.stored_blocks);
                    let problem = format!("{layers} layers cannot share `num_hidden_groups` = {groups} blocks evenly");
                    return Err(self.malformed(problem));
                }
            }
            Family::Roberta => {
                encoder.head_activation = Activation::Gelu; // whatever the blocks have
                let pad = self.id("pad_token_id")?;
                encoder.offset_of = Some(pad);
                let first = (pad as usize).saturating_add(1);
                config.context = encoder.positions.checked_sub(first).filter(|n| *n > 0).ok_or_else(|| {
                    let positions = encoder.positions;
                    self.malformed(format!(
                        "`max_position_embeddings` is {positions}, but positions begin at {first}, behind `pad_token_id`"
                    ))
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn modern(&self, config: &mut Config, encoder: &mut EncoderConfig) -> Result<()> {
        encoder.pre_norm = true;
        encoder.positions = 0;
        encoder.activation = self.activation("hidden_activation")?;
        encoder.head_activation = self.activation("classifier_activation")?;
        (config.qkv_bias, config.o_bias) = (self.switch("attention_bias")?, self.switch("attention_bias")?);
        encoder.norm_bias = self.switch("norm_bias")?;
        encoder.mlp_bias = self.switch("mlp_bias")?;
        encoder.head_bias = self.switch("classifier_bias")?;
        encoder.decoder_bias = self.switch("decoder_bias")?;
        let theta = |kind: &str, older: &str| match self.has("rope_parameters") {
            true => self.object("rope_parameters")?.object(kind)?.plain_theta(),
            false => self.number(older),
        };
        config.rope_theta = theta("full_attention", "global_rope_theta")?;
        let inherits = !self.has("rope_parameters") && !self.has("local_rope_theta");
        encoder.local = Some(LocalAttention {
            reach: self.size("local_attention")? / 2,
            theta: if inherits { config.rope_theta } else { theta("sliding_attention", "local_rope_theta")? },
            layers: self.local_layers(config.layers)?,
        });
        Ok(())
    }

    /// Which layers see only what is near: said layer by layer, or every layer but each n-th.
    fn local_layers(&self, layers: usize) -> Result<Vec<bool>> {
        if !self.has("layer_types") {
            let every = self.size("global_attn_every_n_layers")?;
            return Ok((0..layers).map(|i| !i.is_multiple_of(every)).collect());
        }
        let types = self.get("layer_types")?;
        let kind = |kind: &Value| match kind.as_str() {
            Some("full_attention") => Some(false),
            Some("sliding_attention") => Some(true),
            _ => None,
        };
        let known: Option<Vec<bool>> = types.as_array().and_then(|types| types.iter().map(kind).collect());
        match known {
            Some(known) if known.len() == layers => Ok(known),
            _ => Err(self.malformed(format!(
                "`layer_types` must be `full_attention` or `sliding_attention` for each of {layers} layers"
            ))),
        }
    }

    fn activation(&self, name: &str) -> Result<Activation> {
        match self.get(name)?.as_str() {
            Some("gelu") => Ok(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh") => Ok(Activation::GeluTanh),
            _ => {
                let given = self.get(name)?.to_string();
                Err(self.unsupported(
                    &format!("`{name}`"),
                    &given,
                    "\"gelu\" and, by its tanh formula, \"gelu_new\" or \"gelu_pytorch_tanh\"",
                ))
            }
        }
    }

    /// A section of the configuration.
    fn object(&self, name: &str) -> Result<Fields> {
        match self.get(name)? {
            Value::Object(map) => Ok(Fields { map: map.clone(), path: self.path.clone() }),
            other => Err(self.malformed(format!("`{name}` is {other}, but must be an object"))),
        }
    }

    fn plain_theta(&self) -> Result<f64> {
        self.demand("rope_type", "default")?;
        self.number("rope_theta")
    }

    /// The tokens that are no text. What the configuration says goes before what the tokenizer says.
    fn specials(&self, folder: Option<&Path>) -> Result<Specials> {
        let tokenizer = match folder.map(Tokenizer::load) {
            None | Some(Err(Error::Missing { .. })) => None,
            Some(tokenizer) => Some(tokenizer?),
        };
        let given = |name: &str| if self.has(name) { self.id(name).map(Some) } else { Ok(None) };
        let known = |find: fn(&Tokenizer) -> Option<TokenId>| tokenizer.as_ref().and_then(find);
        let mask = match given("mask_token_id")? {
            Some(mask) => Some(mask),
            None => known(Tokenizer::mask_by_name),
        };
        let mask = mask.ok_or_else(|| Error::NoMaskId { path: self.path.clone(), tokenizers: None })?;
        let frame = match &tokenizer {
            Some(tokenizer) => tokenizer.frame(),
            None => given("cls_token_id")?.zip(given("sep_token_id")?),
        };
        let mut without_text = vec![mask];
        without_text.extend(frame.into_iter().flat_map(|(begin, end)| [begin, end]));
        without_text.extend(given("pad_token_id")?);
        without_text.extend(tokenizer.iter().flat_map(Tokenizer::without_text));
        Ok(Specials { mask, frame, without_text, named: tokenizer.map(|tokenizer| tokenizer.ids()) })
    }
}

/// The tokens of a checkpoint that stand for no text.
struct Specials {
    mask: TokenId,
    frame: Option<(TokenId, TokenId)>,
    without_text: Vec<TokenId>,
    /// Every id that has a token, where there is a tokenizer.
    named: Option<std::collections::HashSet<TokenId>>,
}

impl Specials {
    /// What is never proposed of `vocab` ids: tokens without text, and ids without a token.
    fn never(&self, vocab: usize) -> Vec<TokenId> {
        let nameless = self.named.iter().flat_map(|named| (0..vocab as TokenId).filter(|id| !named.contains(id)));
        let mut never: Vec<TokenId> = self.without_text.iter().copied().chain(nameless).collect();
        never.retain(|id| (*id as usize) < vocab);
        never.sort_unstable();
        never.dedup();
        never
    }
}

fn family_of_architecture(name: &str) -> Option<Family> {
    FAMILIES.iter().find(|(start, ..)| name.starts_with(start)).map(|(.., family)| *family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robertas_positions_begin_behind_the_paddings() {
        let text = r#"{"model_type": "roberta", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8,
            "vocab_size": 9, "max_position_embeddings": 12, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu",
            "pad_token_id": 1, "mask_token_id": 8}"#;
        let config = Config::parse(text, Path::new("x")).unwrap();
        let encoder = config.encoder.unwrap();
        // Rows 0 and 1 belong to no position: 12 rows are 10 positions. Padding has its own row and takes no position.
        assert_eq!(config.context, 10);
        assert_eq!(encoder.rows_of_positions(&[0, 5, 1, 8, 2]).collect::<Vec<_>>(), [2, 3, 1, 4, 5]);
        let bert = EncoderConfig { offset_of: None, ..encoder };
        assert_eq!(bert.rows_of_positions(&[0, 5, 1]).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
