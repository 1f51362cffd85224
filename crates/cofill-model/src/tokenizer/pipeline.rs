//! The `tokenizers` library behind limits: it is given files that were checked, texts and ids that it can take in a bounded time
//! and a bounded memory, and no chance to end the process.

use super::allowed::{self, Growth};
use super::malformed;
use super::pattern::Pattern;
use crate::error::Result;
use crate::guard::{guarded, shown};
use serde_json::Value;
use std::path::Path;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

/// Bytes of a text. A context of 128,000 tokens is about half of it.
const MAX_TEXT: usize = 1 << 20;

/// Bytes of a text after the stages that make it longer, and of a decoded one.
const MAX_GROWN: usize = 16 << 20;

/// Ids in one sequence.
const MAX_IDS: usize = 1 << 20;

/// Steps of the regular expressions on one text: a second. Published ones take about 20 for a byte.
const MAX_STEPS: usize = 60_000_000;

/// A tokenizer of the library.
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) inner: tokenizers::Tokenizer,
    growth: Growth,
    /// How a text is cut before it is merged, if a file's own expression does it; our own are known to be harmless.
    cuts: Vec<Cut>,
}

#[derive(Debug, Clone)]
struct Cut {
    step: PreTokenizerWrapper,
    pattern: Option<Pattern>,
}

impl Pipeline {
    /// One of our own making: NFC at most, one of our expressions, and bytes.
    pub(crate) fn ours(inner: tokenizers::Tokenizer) -> Pipeline {
        Pipeline { inner, growth: Growth { encode: 6, decode: 3 }, cuts: Vec::new() }
    }

    /// What `tokenizer.json` describes, and its JSON as far as it was understood.
    pub(crate) fn from_json(path: &Path, text: &str) -> Result<(Pipeline, Value)> {
        let allowed::Allowed { json, growth } = allowed::check(path, text)?;
        super::check_model(path, &json["model"])?;
        let bytes = serde_json::to_vec(&json).map_err(|e| malformed(path, e.to_string()))?;
        let inner = guarded(|| tokenizers::Tokenizer::from_bytes(&bytes).map_err(|e| e.to_string()));
        let inner = inner.and_then(|inner| inner).map_err(|problem| malformed(path, shown(&problem)))?;
        let mut cuts = Vec::new();
        if let Some(step) = inner.get_pre_tokenizer() {
            collect(step, &mut cuts);
        }
        if !cuts.iter().any(|cut| cut.pattern.is_some()) {
            cuts.clear();
        }
        let it = Pipeline { inner, growth, cuts };
        it.check_added(path)?;
        Ok((it, json))
    }

    /// That no added token is normalised to nothing, which would be found everywhere.
    pub(super) fn check_added(&self, path: &Path) -> Result<()> {
        let Some(normalizer) = self.inner.get_normalizer() else { return Ok(()) };
        for token in self.inner.get_added_tokens_decoder().values().filter(|token| token.normalized) {
            let mut text = NormalizedString::from(token.content.as_str());
            let done = guarded(|| normalizer.normalize(&mut text).map_err(|e| e.to_string())).and_then(|done| done);
            if done.is_err() || text.get().is_empty() {
                let problem = format!("added token `{}` is normalised to nothing", shown(&token.content));
                return Err(malformed(path, problem));
            }
        }
        Ok(())
    }

    /// The ids of a text, without any that the text does not name.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let most = MAX_TEXT.min(MAX_GROWN / self.growth.encode.max(1));
        if text.len() > most {
            return Err(format!(
                "it has {} bytes, but this tokenizer takes at most {most}; give it in parts",
                text.len()
            ));
        }
        guarded(|| {
            self.try_cuts(text)?;
            let encoding = self.inner.encode_fast(text, false).map_err(|e| e.to_string())?;
            Ok(encoding.get_ids().to_vec())
        })?
    }

    /// Goes through the stages before merging and counts what their expressions would take. Added tokens only make texts shorter,
    /// so it is enough to look at the whole text.
    fn try_cuts(&self, text: &str) -> Result<(), String> {
        if self.cuts.is_empty() {
            return Ok(());
        }
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = self.inner.get_normalizer() {
            normalizer.normalize(&mut normalized).map_err(|e| e.to_string())?;
        }
        let (mut pieces, mut left) = (PreTokenizedString::from(normalized), MAX_STEPS);
        for Cut { step, pattern } in &self.cuts {
            if let Some(pattern) = pattern {
                for (piece, _, _) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
                    let steps = pattern.steps(piece, left).ok_or_else(|| {
                        format!("the expression that cuts it takes more than {MAX_STEPS} steps; give a shorter text")
                    })?;
                    left -= steps;
                }
            }
            step.pre_tokenize(&mut pieces).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// The text of `ids`.
    pub(crate) fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        if ids.len() > MAX_IDS {
            return Err(format!("they are {}, but at most {MAX_IDS} are decoded at once", ids.len()));
        }
        guarded(|| {
            let text: usize =
                ids.iter().filter_map(|id| self.inner.id_to_token(*id)).map(|token| token.len() + 1).sum();
            if text.saturating_mul(self.growth.decode) > MAX_GROWN {
                return Err(format!("their text may have more than {MAX_GROWN} bytes; decode it in parts"));
            }
            self.inner.decode(ids, skip_special).map_err(|e| e.to_string())
        })?
    }
}

/// The steps of a pre-tokenizer, those of sequences one by one.
fn collect(step: &PreTokenizerWrapper, cuts: &mut Vec<Cut>) {
    match step {
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().for_each(|step| collect(step, cuts)),
        PreTokenizerWrapper::Split(split) => {
            let pattern = match &split.pattern {
                SplitPattern::Regex(regex) => Pattern::parse(regex).ok(), // which was checked
                SplitPattern::String(_) => None,
            };
            cuts.push(Cut { step: step.clone(), pattern });
        }
        step => cuts.push(Cut { step: step.clone(), pattern: None }),
    }
}
