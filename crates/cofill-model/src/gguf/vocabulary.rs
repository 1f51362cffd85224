//! Tokenizers and chat templates in GGUF files.
//!
//! `tokenizer.huggingface.json` is the whole `tokenizer.json` and needs no interpretation. Files without it (llama.cpp's converter
//! writes none) list tokens, their kinds and merges, and name the regex that cuts text by `tokenizer.ggml.pre`. A name that is not
//! known here is refused: another regex would give wrong ids without a word.

use super::{Gguf, keys};
use crate::chat::ChatTemplate;
use crate::error::{Error, Result};
use crate::guard::guarded;
use crate::tokenizer::{self, Pipeline, Tokenizer};
use serde_json::Value;
use std::collections::BTreeMap;
use tokenizers::AddedToken;
use tokenizers::models::bpe::{Merges, Vocab};

/// The only kind of tokenizer that is assembled here: byte-level BPE.
pub(crate) const BYTE_LEVEL: &str = "gpt2";

/// No tokenizer that llama.cpp knows.
pub(crate) const NO_TOKENIZER: &str = "none";

/// How a text is cut before merging.
struct Pre {
    /// In `tokenizer.ggml.pre`; the first is the one that is written.
    names: &'static [&'static str],
    /// As it stands in tokenizer.json.
    split: &'static str,
    /// Composed to NFC first.
    nfc: bool,
}

/// Dream cuts as Qwen2 does, LLaDA as its relatives of the Ling family.
const PRES: [Pre; 2] = [
    Pre { names: &["qwen2"], split: tokenizer::SPLIT, nfc: true },
    Pre {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        split: r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        nfc: false,
    },
];

/// Kinds of tokens, by the format's numbers.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

impl Gguf {
    /// Reads the tokenizer, from `tokenizer.json` if the file has it, else from tokens and merges.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer> {
        let pipeline = match self.string(keys::TOKENIZER_JSON)? {
            Some(json) => tokenizer::from_json(self.path(), json)?,
            None => Pipeline::ours(self.byte_level()?),
        };
        let [bos, eos, mask] = [keys::BOS_ID, keys::EOS_ID, keys::MASK_ID].map(|key| self.id_or_none(key));
        Tokenizer::new(self.path(), pipeline, bos?, eos?, mask?)
    }

    fn byte_level(&self) -> Result<tokenizers::Tokenizer> {
        let model = self.required(keys::TOKENIZER, Gguf::string)?;
        if model == NO_TOKENIZER {
            return Err(Error::Missing { path: self.path().into(), what: "the tokenizer".into() });
        }
        if model != BYTE_LEVEL {
            let accepted = format!("`{BYTE_LEVEL}`, or `{}`", keys::TOKENIZER_JSON);
            return Err(self.unsupported(keys::TOKENIZER, model, &accepted));
        }
        let name = self.required(keys::PRE, Gguf::string)?;
        let accepted = || PRES.iter().flat_map(|pre| pre.names).map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let pre = PRES.iter().find(|pre| pre.names.contains(&name));
        let pre = pre.ok_or_else(|| self.unsupported(keys::PRE, name, &accepted().join(", ")))?;
        let tokens = self.required(keys::TOKENS, Gguf::strings)?;
        let kinds = self.required(keys::TOKEN_TYPES, Gguf::integers)?;
        let merges = self.required(keys::MERGES, Gguf::strings)?;
        if kinds.len() != tokens.len() {
            let (n, m, tokens, kinds) = (tokens.len(), kinds.len(), keys::TOKENS, keys::TOKEN_TYPES);
            return Err(self.malformed(format!("`{tokens}` has {n} entries, but `{kinds}` has {m}")));
        }
        let (mut vocab, mut added) = (Vocab::default(), Vec::new());
        for (id, (token, kind)) in tokens.iter().zip(kinds).enumerate() {
            // A row of the embedding without a token, which the converter gives a name.
            if kind == UNUSED {
                continue;
            }
            if matches!(kind, CONTROL | USER_DEFINED) {
                if token.is_empty() {
                    return Err(self.malformed(format!("`{}[{id}]` is special, but has no text", keys::TOKENS)));
                }
                added.push(AddedToken::from(*token, kind == CONTROL).normalized(false));
            }
            if let Some(other) = vocab.insert((*token).into(), id as u32) {
                return Err(self.malformed(format!("token `{token}` has the ids {other} and {id}")));
            }
        }
        tokenizer::check_bytes(self.path(), &vocab)?;
        let merges = self.merges(&merges, &vocab)?;
        let broken = |problem: String| self.malformed(format!("the tokenizer cannot be built: {problem}"));
        let inner = tokenizer::byte_level_bpe(vocab, merges, pre.split, pre.nfc);
        let mut inner = inner.map_err(|error| broken(error.to_string()))?;
        tokenizer::check_added(self.path(), added.iter().map(|token| token.content.as_str()))?;
        let adding = guarded(|| inner.add_tokens(added).map_err(|error| error.to_string()));
        adding.and_then(|added| added).map_err(broken)?;
        Ok(inner)
    }

    /// The library trusts that every merge forms a token, and panics if not.
    fn merges(&self, merges: &[&str], vocab: &Vocab) -> Result<Merges> {
        let merge = |(i, merge): (usize, &&str)| {
            let pair = merge.split_once(' ').filter(|(a, b)| vocab.contains_key(*a) && vocab.contains_key(*b));
            match pair.filter(|(a, b)| vocab.contains_key(&[*a, *b].concat())) {
                Some((a, b)) => Ok((a.to_owned(), b.to_owned())),
                None => {
                    let key = keys::MERGES;
                    Err(self
                        .malformed(format!("`{key}[{i}]` is `{merge}`, which is no pair of tokens that form a token")))
                }
            }
        };
        merges.iter().enumerate().map(merge).collect()
    }

    /// Reads the chat template, if the file has one.
    pub(crate) fn chat(&self) -> Result<Option<ChatTemplate>> {
        let Some(source) = self.string(keys::CHAT_TEMPLATE)? else { return Ok(None) };
        let tokens = self.strings(keys::TOKENS)?.unwrap_or_default();
        let mut special = Vec::new();
        for (name, key) in keys::SPECIAL {
            let Some(id) = self.id_or_none(key)? else { continue };
            if let Some(text) = tokens.get(id as usize) {
                special.push((name, (*text).to_owned()));
            }
        }
        ChatTemplate::new(self.path(), source.into(), special).map(Some)
    }
}

/// A tokenizer as a GGUF file has it.
pub(crate) struct Vocabulary {
    /// The text of a whole `tokenizer.json`.
    pub(crate) json: String,
    /// One for every row of the embedding.
    pub(crate) tokens: Vec<String>,
    pub(crate) kinds: Vec<i32>,
    /// For byte-level BPE that is cut by a regex with a name.
    pub(crate) bpe: Option<(&'static str, Vec<String>)>,
}

impl Vocabulary {
    /// What `tokenizer` knows, for an embedding of `rows` rows.
    pub(crate) fn of(tokenizer: &Tokenizer, rows: usize) -> Result<Vocabulary> {
        let refused = |problem: String| Error::Malformed { path: tokenizer.path().into(), problem };
        let added = tokenizer.added();
        let by_id: BTreeMap<u32, String> = tokenizer.vocab().into_iter().map(|(text, id)| (id, text)).collect();
        // Checked before it is written out, which takes time and memory by the largest id.
        if let Some((id, text)) = by_id.last_key_value().filter(|(id, _)| **id as usize >= rows) {
            return Err(refused(format!("token `{text}` has id {id}, but the embedding has {rows} rows")));
        }
        let (mut tokens, mut kinds) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for id in 0..rows as u32 {
            let kind = match (by_id.contains_key(&id), added.get(&id)) {
                (false, _) => UNUSED,
                (true, None) => NORMAL,
                (true, Some(added)) if added.special => CONTROL,
                (true, Some(_)) => USER_DEFINED,
            };
            tokens.push(by_id.get(&id).cloned().unwrap_or_else(|| format!("[PAD{id}]")));
            kinds.push(kind as i32);
        }
        let json = tokenizer.json()?;
        let value: Value = serde_json::from_str(&json).map_err(|error| refused(error.to_string()))?;
        Ok(Vocabulary { bpe: bpe(&value), json, tokens, kinds })
    }
}

/// The name of the regex and the merges, if llama.cpp can have this tokenizer.
fn bpe(json: &Value) -> Option<(&'static str, Vec<String>)> {
    let model = &json["model"];
    let steps = &json["pre_tokenizer"];
    let steps = steps["pretokenizers"].as_array().map_or(std::slice::from_ref(steps), Vec::as_slice);
    let split = steps.iter().find_map(|step| step["pattern"]["Regex"].as_str())?;
    let pre = PRES.iter().find(|pre| pre.split == split)?;
    let merge = |merge: &Value| match merge {
        Value::String(line) => Some(line.clone()),
        pair => Some(format!("{} {}", pair[0].as_str()?, pair[1].as_str()?)),
    };
    let merges = model["merges"].as_array()?.iter().map(merge).collect::<Option<_>>()?;
    (model["type"] == "BPE").then_some((*pre.names.first()?, merges))
}
