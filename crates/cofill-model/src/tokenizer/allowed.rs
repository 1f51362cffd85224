//! What a `tokenizer.json` may consist of.
//!
//! The `tokenizers` library believes its file: some components panic on numbers that they do not expect, some replace a byte by a
//! megabyte, some take any regular expression. So the file is read here first, as plain JSON. Only components that tokenizers of
//! these model families use are let through (byte-level BPE as in GPT-2, Llama 3 and Qwen; SentencePiece-like BPE as in Llama 2;
//! WordPiece as in BERT; whole words), each with its own fields, each field within bounds. What the library gets to see is
//! written anew from what was understood, so nothing unknown, and nothing said twice, reaches it.

use super::fields::{Fields, refused};
use super::pattern::Pattern;
use super::{MAX_ID, malformed};
use crate::error::{Error, Result};
use crate::guard::shown;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Bytes of a whole `tokenizer.json`. Llama 3's has 17 MB.
pub(crate) const MAX_FILE: usize = 32 << 20;

/// Commas, colons and brackets, which bound what JSON becomes in memory. Llama 3 has 1.1 million.
const MAX_MARKS: usize = 3_000_000;

/// Components of one stage, and sequences of them in each other.
const MAX_PARTS: usize = 16;
const MAX_DEPTH: usize = 4;

/// Bytes of a token, and of all added tokens together: the library builds an automaton of those.
const MAX_TOKEN: usize = 8 << 10;
const MAX_ADDED_TOKEN: usize = 1 << 10;
const MAX_ADDED: usize = 1 << 20;

/// Bytes of a text that is put before, after or in place of another.
const MAX_AFFIX: usize = 64;

/// How many times longer a stage may make a text.
const MAX_GROWTH: usize = 256;

/// A file that was understood.
pub(crate) struct Allowed {
    /// What the library reads.
    pub(crate) json: Value,
    /// At most how many times longer a text becomes before it is cut into tokens, and the text of tokens in decoding.
    pub(crate) growth: Growth,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) encode: usize,
    pub(crate) decode: usize,
}

/// Reads a `tokenizer.json`; `path` is for messages.
pub(crate) fn check(path: &Path, text: &str) -> Result<Allowed> {
    check_size(path, text)?;
    let mut file: Value = serde_json::from_str(text).map_err(|e| malformed(path, e.to_string()))?;
    let Some(file) = file.as_object_mut() else {
        return Err(malformed(path, "the tokenizer must be a JSON object"));
    };
    let check = Check { path };
    if let Some(version) = file.get("version").filter(|version| **version != "1.0") {
        return Err(check.refused("version", &format!("is {}, but must be \"1.0\"", shown(&version.to_string()))));
    }
    let stage = |name: &str, stage: Stage| {
        let mut growth = 1;
        let part = check.stage(name, file.get(name).unwrap_or(&Value::Null), stage, &mut growth)?;
        Ok::<_, Error>((part, growth))
    };
    let (normalizer, normalized) = stage("normalizer", Stage::Normalizer)?;
    let (pre_tokenizer, cut) = stage("pre_tokenizer", Stage::PreTokenizer)?;
    let (post_processor, _) = stage("post_processor", Stage::PostProcessor)?;
    let (decoder, decode) = stage("decoder", Stage::Decoder)?;
    let encode = normalized * cut;
    if encode > MAX_GROWTH {
        return Err(check.grows("normalizer and pre_tokenizer", encode));
    }
    let added_tokens = check.added_tokens(file.get("added_tokens").unwrap_or(&Value::Null))?;
    let model = check.model(file.remove("model").unwrap_or(Value::Null))?;
    // Nothing is ever truncated or padded here, whatever the file says.
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added_tokens, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model,
    });
    Ok(Allowed { json, growth: Growth { encode, decode } })
}

/// That JSON fits into memory, whatever it says.
pub(crate) fn check_size(path: &Path, text: &str) -> Result<()> {
    let marks = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
    for (what, given, most) in [("bytes", text.len(), MAX_FILE), ("commas, colons and brackets", marks, MAX_MARKS)] {
        if given > most {
            let problem =
                format!("the tokenizer has {given} {what}, but may have at most {most}; no known tokenizer has more");
            return Err(malformed(path, problem));
        }
    }
    Ok(())
}

/// That added tokens, wherever they are listed, have texts that the library can look for.
pub(crate) fn check_added<'a>(path: &Path, contents: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut total = 0;
    for content in contents {
        total += content.len();
        if content.is_empty() {
            return Err(malformed(path, "an added token has no text"));
        }
        if content.len() > MAX_ADDED_TOKEN || total > MAX_ADDED {
            let problem = format!(
                "added token `{}` has {} bytes and all up to it {total}, but one may have {MAX_ADDED_TOKEN} and all together {MAX_ADDED}",
                shown(content),
                content.len()
            );
            return Err(malformed(path, problem));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Normalizer,
    PreTokenizer,
    PostProcessor,
    Decoder,
}

impl Stage {
    /// What may stand there, for messages, and the field of a sequence.
    fn known(self) -> (&'static str, &'static str) {
        match self {
            Stage::Normalizer => (
                "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, StripAccents and Sequence",
                "normalizers",
            ),
            Stage::PreTokenizer => (
                "BertPreTokenizer, ByteLevel, Digits, Metaspace, Punctuation, Split, Whitespace, WhitespaceSplit and Sequence",
                "pretokenizers",
            ),
            Stage::PostProcessor => {
                ("BertProcessing, ByteLevel, RobertaProcessing, TemplateProcessing and Sequence", "processors")
            }
            Stage::Decoder => {
                ("ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, WordPiece and Sequence", "decoders")
            }
        }
    }
}

struct Check<'a> {
    path: &'a Path,
}

impl Check<'_> {
    fn refused(&self, at: &str, problem: &str) -> Error {
        refused(self.path, at, problem)
    }

    fn grows(&self, at: &str, growth: usize) -> Error {
        self.refused(at, &format!("may make a text {growth} times longer, but at most {MAX_GROWTH} times is allowed"))
    }

    fn stage(&self, at: &str, value: &Value, stage: Stage, growth: &mut usize) -> Result<Value> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let mut parts = 0;
        self.part(at, value, stage, growth, &mut parts, 0)
    }

    fn part(
        &self,
        at: &str,
        value: &Value,
        stage: Stage,
        growth: &mut usize,
        parts: &mut usize,
        depth: usize,
    ) -> Result<Value> {
        let (known, list) = stage.known();
        *parts += 1;
        if *parts > MAX_PARTS || depth > MAX_DEPTH {
            return Err(self.refused(
                at,
                &format!("has more than {MAX_PARTS} components, or nests them more than {MAX_DEPTH} deep"),
            ));
        }
        let mut fields = Fields::new(self.path, at, value)?;
        let kind = fields.kind()?;
        if kind == "Sequence" {
            let Some(steps) = value[list].as_array() else {
                return Err(self.refused(at, &format!("is a Sequence without a list `{list}`")));
            };
            let mut made = Vec::new();
            for (i, step) in steps.iter().enumerate() {
                made.push(self.part(&format!("{at}.{list}[{i}]"), step, stage, growth, parts, depth + 1)?);
            }
            fields.made.insert(list.into(), made.into());
            return Ok(fields.done());
        }
        let grows = match stage {
            Stage::Normalizer => fields.normalizer(&kind)?,
            Stage::PreTokenizer => fields.pre_tokenizer(&kind)?,
            Stage::PostProcessor => fields.post_processor(&kind)?,
            Stage::Decoder => fields.decoder(&kind)?,
        };
        let Some(grows) = grows else {
            let problem = format!("is `{}`, but this engine runs {known}", shown(&kind));
            return Err(self.refused(&format!("{at}.type"), &problem));
        };
        *growth = growth.saturating_mul(grows);
        if *growth > MAX_GROWTH { Err(self.grows(at, *growth)) } else { Ok(fields.done()) }
    }

    fn added_tokens(&self, value: &Value) -> Result<Value> {
        let empty = Vec::new();
        let tokens = match value {
            Value::Null => &empty,
            Value::Array(tokens) => tokens,
            _ => return Err(self.refused("added_tokens", "must be a list")),
        };
        let mut made = Vec::with_capacity(tokens.len());
        for (i, token) in tokens.iter().enumerate() {
            let mut fields = Fields::new(self.path, &format!("added_tokens[{i}]"), token)?;
            fields.count("id", MAX_ID as usize)?;
            fields.text("content", 1, MAX_ADDED_TOKEN)?;
            for flag in ["single_word", "lstrip", "rstrip", "normalized", "special"] {
                fields.flag(flag, Some(false))?;
            }
            made.push(fields.done());
        }
        check_added(self.path, made.iter().filter_map(|token| token["content"].as_str()))?;
        Ok(made.into())
    }

    fn model(&self, mut value: Value) -> Result<Value> {
        // The vocabulary is most of the file: moved, not copied.
        let mut take = |name: &str| value.get_mut(name).map(Value::take).unwrap_or_default();
        let (vocab, merges) = (take("vocab"), take("merges"));
        let mut fields = Fields::new(self.path, "model", &value)?;
        match fields.kind()?.as_str() {
            "BPE" => {
                match &fields.given["dropout"] {
                    Value::Null => {}
                    Value::Number(p) if p.as_f64() == Some(0.0) => {}
                    p => {
                        let problem = format!(
                            "is {}: it leaves merges out at random, so that one text has many encodings, which is for training; set it to null",
                            shown(&p.to_string())
                        );
                        return Err(self.refused("model.dropout", &problem));
                    }
                }
                fields.optional_text("unk_token", MAX_TOKEN)?;
                fields.optional_text("continuing_subword_prefix", MAX_AFFIX)?;
                fields.optional_text("end_of_word_suffix", MAX_AFFIX)?;
                for flag in ["fuse_unk", "byte_fallback", "ignore_merges"] {
                    fields.flag(flag, Some(false))?;
                }
                if !merges.is_array() {
                    return Err(self.refused("model.merges", "must be a list"));
                }
                fields.made.insert("merges".into(), merges);
            }
            "WordPiece" => {
                fields.text("unk_token", 1, MAX_TOKEN)?;
                fields.text("continuing_subword_prefix", 0, MAX_AFFIX)?;
                // A word takes time by the square of this.
                fields.count("max_input_chars_per_word", 100)?;
            }
            "WordLevel" => fields.text("unk_token", 0, MAX_TOKEN)?,
            kind => {
                let problem = format!("is `{}`, but this engine runs BPE, WordPiece and WordLevel", shown(kind));
                return Err(self.refused("model.type", &problem));
            }
        }
        let Some(tokens) = vocab.as_object() else {
            return Err(self.refused("model.vocab", "must be an object of tokens and their ids"));
        };
        if let Some((token, _)) = tokens.iter().find(|(token, _)| token.len() > MAX_TOKEN) {
            let problem =
                format!("has a token of {} bytes, `{}`, but one may have {MAX_TOKEN}", token.len(), shown(token));
            return Err(self.refused("model.vocab", &problem));
        }
        fields.made.insert("vocab".into(), vocab);
        Ok(fields.done())
    }
}

impl Fields<'_> {
    /// How many times longer a text becomes; `None` for a type that is not known.
    fn normalizer(&mut self, kind: &str) -> Result<Option<usize>> {
        Ok(Some(match kind {
            "BertNormalizer" => {
                for flag in ["clean_text", "handle_chinese_chars", "lowercase"] {
                    self.flag(flag, None)?;
                }
                if !self.given["strip_accents"].is_null() {
                    self.flag("strip_accents", None)?;
                }
                8 // a space on either side of a character, and accents apart
            }
            "Strip" => {
                self.flag("strip_left", None)?;
                self.flag("strip_right", None)?;
                1
            }
            "StripAccents" => 1,
            "Lowercase" => 2,
            // By the worst characters of Unicode, in bytes.
            "NFC" => 3,
            "NFD" => 4,
            "NFKC" | "NFKD" => 11,
            "ByteLevel" => 2,
            "Prepend" => {
                self.text("prepend", 0, MAX_AFFIX)?;
                1 + self.given["prepend"].as_str().map_or(0, str::len)
            }
            "Replace" => self.replace()?,
            _ => return Ok(None),
        }))
    }

    /// A plain text for another.
    fn replace(&mut self) -> Result<usize> {
        self.text("content", 0, MAX_AFFIX)?;
        let Some(old) = self.given["pattern"]["String"].as_str().filter(|old| (1..=MAX_AFFIX).contains(&old.len()))
        else {
            return self.wrong("pattern", &format!("{{\"String\": a text of 1 to {MAX_AFFIX} bytes}}"));
        };
        self.made.insert("pattern".into(), json!({ "String": old }));
        Ok(self.given["content"].as_str().map_or(0, str::len).div_ceil(old.len()).max(1))
    }

    fn byte_level(&mut self) -> Result<usize> {
        self.flag("add_prefix_space", Some(true))?;
        self.flag("trim_offsets", Some(true))?;
        self.flag("use_regex", Some(true))?;
        Ok(if self.made["add_prefix_space"] == true { 4 } else { 2 })
    }

    fn metaspace(&mut self) -> Result<usize> {
        self.character("replacement")?;
        if !self.given["prepend_scheme"].is_null() {
            self.one_of("prepend_scheme", &["first", "never", "always"])?;
        }
        for flag in ["add_prefix_space", "split"] {
            if !self.given[flag].is_null() {
                self.flag(flag, None)?;
            }
        }
        Ok(8) // a space becomes up to four bytes, and so does the beginning of every piece
    }

    fn pre_tokenizer(&mut self, kind: &str) -> Result<Option<usize>> {
        Ok(Some(match kind {
            "ByteLevel" => self.byte_level()?,
            "Metaspace" => self.metaspace()?,
            "BertPreTokenizer" | "Whitespace" | "WhitespaceSplit" => 1,
            "Digits" => {
                self.flag("individual_digits", None)?;
                1
            }
            "Punctuation" => {
                if !self.given["behavior"].is_null() {
                    self.behavior()?;
                }
                1
            }
            "Split" => {
                self.behavior()?;
                self.flag("invert", None)?;
                self.split_pattern()?;
                1
            }
            _ => return Ok(None),
        }))
    }

    fn split_pattern(&mut self) -> Result<()> {
        let pattern = &self.given["pattern"];
        if let Some(text) = pattern["String"].as_str().filter(|text| (1..=MAX_AFFIX).contains(&text.len())) {
            self.made.insert("pattern".into(), json!({ "String": text }));
            return Ok(());
        }
        let Some(regex) = pattern["Regex"].as_str() else {
            return self
                .wrong("pattern", &format!("{{\"Regex\": ...}} or {{\"String\": a text of 1 to {MAX_AFFIX} bytes}}"));
        };
        if let Err(problem) = Pattern::parse(regex) {
            let at = format!("{}.pattern.Regex", self.at);
            return Err(refused(self.path, &at, &format!("is `{}`: {problem}", shown(regex))));
        }
        self.made.insert("pattern".into(), json!({ "Regex": regex }));
        Ok(())
    }

    /// Post-processors never run with special tokens here; they are kept for whoever gets this tokenizer from us.
    fn post_processor(&mut self, kind: &str) -> Result<Option<usize>> {
        match kind {
            "ByteLevel" => drop(self.byte_level()?),
            "BertProcessing" | "RobertaProcessing" => {
                for name in ["sep", "cls"] {
                    match self.given[name].as_array().map(Vec::as_slice) {
                        Some([Value::String(text), Value::Number(id)]) if text.len() <= MAX_TOKEN && is_id(id) => {
                            self.keep(name)?;
                        }
                        _ => return self.wrong(name, "a token and its id"),
                    }
                }
                if kind == "RobertaProcessing" {
                    self.flag("trim_offsets", Some(true))?;
                    self.flag("add_prefix_space", Some(true))?;
                }
            }
            "TemplateProcessing" => self.template()?,
            _ => return Ok(None),
        }
        Ok(Some(1))
    }

    /// A single text must name itself once and no other. Pairs, which are never encoded here, may name either of the two once.
    fn template(&mut self) -> Result<()> {
        for (name, texts) in [("single", &["A"][..]), ("pair", &["A", "B"])] {
            if name == "pair" && self.given[name].is_null() {
                continue;
            }
            let Some(pieces) = self.given[name].as_array().filter(|pieces| pieces.len() <= MAX_PARTS) else {
                return self.wrong(name, &format!("a list of at most {MAX_PARTS} pieces"));
            };
            let mut named = Vec::new();
            for piece in pieces {
                let (sequence, special) = (&piece["Sequence"], &piece["SpecialToken"]);
                let (it, kind) = if sequence.is_object() { (sequence, "Sequence") } else { (special, "SpecialToken") };
                let (Some(id), Some(type_id)) = (it["id"].as_str(), it["type_id"].as_u64().filter(|id| *id < 16))
                else {
                    return self.wrong(
                        name,
                        "a list of {\"Sequence\": ...} and {\"SpecialToken\": ...} with `id` and `type_id`",
                    );
                };
                if kind == "Sequence" {
                    named.push(id);
                } else if !self.given["special_tokens"][id].is_object() {
                    return self.wrong("special_tokens", &format!("an object that has `{}`", shown(id)));
                }
                let piece = json!({ kind: { "id": id, "type_id": type_id } });
                match self.made.entry(name).or_insert_with(|| json!([])) {
                    Value::Array(made) => made.push(piece),
                    _ => return self.wrong(name, "a list"),
                }
            }
            let times = |text: &str| named.iter().filter(|id| **id == text).count();
            let foreign = named.iter().any(|id| !texts.contains(id) || times(id) > 1);
            if foreign || times("A") != 1 {
                return self.wrong(
                    name,
                    &format!("a template that names the sequence A, and of {} each once", texts.join(", ")),
                );
            }
        }
        if self.made.get("pair").is_none() {
            self.made.insert(
                "pair".into(),
                json!([{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]),
            );
        }
        let mut specials = Map::new();
        for (name, token) in self.given["special_tokens"].as_object().into_iter().flatten() {
            let ids =
                token["ids"].as_array().filter(|ids| ids.iter().all(|id| matches!(id, Value::Number(id) if is_id(id))));
            let texts = token["tokens"].as_array().filter(|texts| texts.iter().all(Value::is_string));
            match (ids, texts) {
                (Some(ids), Some(texts))
                    if ids.len() == texts.len() && ids.len() <= MAX_PARTS && name.len() <= MAX_TOKEN =>
                {
                    specials.insert(name.clone(), json!({ "id": name, "ids": ids, "tokens": texts }));
                }
                _ => {
                    return self.wrong(
                        "special_tokens",
                        &format!("an object whose `{}` has `ids` and as many `tokens`", shown(name)),
                    );
                }
            }
        }
        self.made.insert("special_tokens".into(), specials.into());
        Ok(())
    }

    fn decoder(&mut self, kind: &str) -> Result<Option<usize>> {
        Ok(Some(match kind {
            "ByteLevel" => {
                self.byte_level()?;
                3 // a byte that is no text becomes U+FFFD
            }
            "WordPiece" => {
                self.text("prefix", 0, MAX_AFFIX)?;
                self.flag("cleanup", None)?;
                2 // a space before every token
            }
            "Metaspace" => {
                self.metaspace()?;
                1
            }
            "Fuse" | "ByteFallback" => 1,
            "Replace" => self.replace()?,
            "Strip" => {
                self.character("content")?;
                self.count("start", MAX_PARTS)?;
                self.count("stop", 0)?; // the library reads before the beginning of a token that is shorter
                1
            }
            _ => return Ok(None),
        }))
    }
}

fn is_id(id: &serde_json::Number) -> bool {
    id.as_u64().is_some_and(|id| id <= u64::from(MAX_ID))
}
