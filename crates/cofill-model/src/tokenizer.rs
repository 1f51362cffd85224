//! Text to token ids and back, as the checkpoint's own tokenizer does it.
//!
//! LLaDA ships a `tokenizer.json`. Dream ships `vocab.json`, `merges.txt` and a slow Python class, so its byte-level
//! BPE is assembled here: NFC, then Dream's splitting regex, then bytes as printable characters, then merges, then
//! the added tokens of `tokenizer_config.json`. `special_tokens_map.json` repeats that file, is invalid JSON in
//! LLaDA-8B-Base, and is never read.
//!
//! Three things this module never does. It adds no token that the text does not name: neither family is run with an
//! automatic BOS, and a template that has one must not get two. It truncates and pads nothing, whatever
//! `tokenizer.json` says. It lets no id shift in silence: the `tokenizers` library numbers added tokens by itself and
//! only logs when that differs from the file, so every id is checked after loading.
//!
//! All of these files are a stranger's. `allowed.rs` says what they may consist of, `pattern.rs` which regular expressions, and
//! `pipeline.rs` keeps the library within a time and a memory.

mod allowed;
mod bytes;
mod fields;
mod pattern;
mod pipeline;

use crate::error::{Error, Result};
use crate::files;
use crate::guard::{guarded, shown};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, Model, SplitDelimiterBehavior};

pub(crate) use allowed::check_added;
pub(crate) use pipeline::Pipeline;

/// How Dream (and Qwen2, which it descends from) cuts text before merging.
pub(crate) const SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The Python classes that cut text by [`SPLIT`]. Any other would be given wrong ids without a word.
const SPLIT_CLASSES: [&str; 3] = ["DreamTokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast"];

/// What BERT's and RoBERTa's tokenizers put around every text.
const FRAMES: [(&str, &str); 2] = [("[CLS]", "[SEP]"), ("<s>", "</s>")];

/// Tokens of BERT's and RoBERTa's vocabularies that stand for no text, whether or not a file marks them as special.
const WITHOUT_TEXT: [&str; 10] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>", "<s>", "</s>", "<mask>"];

/// Ids above this are a broken file, and close to where the `tokenizers` library overflows while counting them.
const MAX_ID: u32 = 1 << 30;

/// A tokenizer that is loaded and checked.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    dir: PathBuf,
    pipeline: Pipeline,
    bos: Option<u32>,
    eos: Option<u32>,
    mask: Option<u32>,
}

impl Tokenizer {
    /// The tokenizer of the checkpoint in `dir`: `tokenizer.json` if it is there, else `vocab.json` with `merges.txt`
    /// and `tokenizer_config.json`.
    pub fn load(dir: &Path) -> Result<Self> {
        let config = TokenizerConfig::read(dir)?;
        let pipeline = match read(dir, "tokenizer.json")? {
            Some(text) => from_json(&dir.join("tokenizer.json"), &text)?,
            None => from_vocab(dir, config.as_ref())?,
        };
        let mut it = Self::new(dir, pipeline, None, None, None)?;
        let Some(config) = config else { return Ok(it) };
        let inner = &mut it.pipeline.inner;
        add_tokens(inner, &config)?;
        it.pipeline.check_added(&config.path)?;
        let inner = &mut it.pipeline.inner;
        let id_of = |key| match config.token(key)? {
            None => Ok(None),
            Some(name) => match inner.token_to_id(name) {
                None => {
                    Err(malformed(&config.path, format!("`{key}` is `{name}`, which the vocabulary does not have")))
                }
                id => Ok(id),
            },
        };
        let (bos, eos, mask) = (id_of("bos_token")?, id_of("eos_token")?, id_of("mask_token")?);
        Ok(Self { bos, eos, mask, ..it })
    }

    /// A tokenizer that neither pads nor truncates; `path` is for messages.
    pub(crate) fn new(
        path: &Path,
        mut pipeline: Pipeline,
        bos: Option<u32>,
        eos: Option<u32>,
        mask: Option<u32>,
    ) -> Result<Self> {
        pipeline.inner.with_padding(None);
        pipeline.inner.with_truncation(None).map_err(|e| malformed(path, e.to_string()))?;
        Ok(Self { dir: path.to_owned(), pipeline, bos, eos, mask })
    }

    /// The ids of `text`. Special tokens are those that `text` spells out; none is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let refused = |e: String| malformed(&self.dir, format!("the tokenizer cannot encode this text: {e}"));
        self.pipeline.encode(text).map_err(refused)
    }

    /// The text of `ids`, without the special tokens if `skip_special`.
    ///
    /// An id without a token is rendered as nothing. Heads are wider than vocabularies (Dream's last 397 columns have
    /// no token), so a model can predict one; the Python class crashes, fast tokenizers skip it, and so do we: an
    /// answer should not change because of a column that means nothing. [`piece`](Self::piece) makes it visible.
    /// Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let refused = |e: String| malformed(&self.dir, format!("the tokenizer cannot decode these ids: {e}"));
        self.pipeline.decode(ids, skip_special).map_err(refused)
    }

    /// One token for display: its text, a special token's name, or `<|id N|>` for an id without a token.
    pub fn piece(&self, id: u32) -> String {
        let nameless = || format!("<|id {id}|>");
        if let Some(added) = self.pipeline.inner.get_added_vocabulary().get_added_tokens_decoder().get(&id) {
            return added.content.clone();
        }
        match self.pipeline.inner.id_to_token(id) {
            Some(_) => self.pipeline.decode(&[id], false).unwrap_or_else(|_| nameless()),
            None => nameless(),
        }
    }

    /// The id of the token that is written exactly so in the vocabulary.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.pipeline.inner.token_to_id(text)
    }

    /// The first id that means another token in `other`, and both tokens. Ids that only one of them has are no difference, nor is `except`.
    pub(crate) fn first_difference(&self, other: &Tokenizer, except: u32) -> Option<(u32, String, String)> {
        let by_id = |it: &Tokenizer| it.vocab().into_iter().map(|(token, id)| (id, token)).collect::<HashMap<_, _>>();
        let theirs = by_id(other);
        let differs = |(id, token): (u32, String)| {
            let there = theirs.get(&id).filter(|there| **there != token && id != except)?;
            Some((id, token, there.clone()))
        };
        by_id(self).into_iter().filter_map(differs).min()
    }

    /// The folder or file it came from.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// The file that names its special tokens: of a GGUF file, itself.
    pub fn names(&self) -> PathBuf {
        if self.dir.is_file() { self.dir.clone() } else { self.dir.join("tokenizer_config.json") }
    }

    /// Every token and its id.
    pub(crate) fn vocab(&self) -> HashMap<String, u32> {
        self.pipeline.inner.get_vocab(true)
    }

    /// The added tokens, by id.
    pub(crate) fn added(&self) -> HashMap<u32, AddedToken> {
        self.pipeline.inner.get_added_tokens_decoder().into_iter().collect()
    }

    /// As one `tokenizer.json`, whatever files it came from.
    pub(crate) fn json(&self) -> Result<String> {
        self.pipeline.inner.to_string(false).map_err(|e| malformed(&self.dir, e.to_string()))
    }

    /// The id of the token that `tokenizer_config.json` calls `bos_token`, if it names one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The id of the token that `tokenizer_config.json` calls `eos_token`, if it names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token by which chats end a turn: LLaDA-Instruct's, or that of Dream and Qwen.
    pub fn end_of_turn(&self) -> Option<u32> {
        ["<|eot_id|>", "<|im_end|>"].into_iter().find_map(|token| self.token_id(token))
    }

    /// The id of the token that `tokenizer_config.json` calls `mask_token`, if it names one. LLaDA names none there: its mask is only in `config.json`.
    pub fn mask(&self) -> Option<u32> {
        self.mask
    }

    /// The mask as tokenizers of BERT's kind name it, in `tokenizer_config.json` or in the vocabulary alone.
    pub(crate) fn mask_by_name(&self) -> Option<u32> {
        self.mask.or_else(|| ["[MASK]", "<mask>"].into_iter().find_map(|token| self.token_id(token)))
    }

    /// The tokens that begin and end every text, as tokenizers of BERT's kind name them.
    pub(crate) fn frame(&self) -> Option<(u32, u32)> {
        FRAMES.into_iter().find_map(|(begin, end)| self.token_id(begin).zip(self.token_id(end)))
    }

    /// Tokens that stand for no text: those that are marked as special, and those that BERT's kind names so.
    pub(crate) fn without_text(&self) -> Vec<u32> {
        let unused = |token: &str| {
            let number = token.strip_prefix("[unused").and_then(|rest| rest.strip_suffix(']'));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let named =
            self.vocab().into_iter().filter(|(token, _)| WITHOUT_TEXT.contains(&token.as_str()) || unused(token));
        let marked = self.added().into_iter().filter(|(_, token)| token.special).map(|(id, _)| id);
        named.map(|(_, id)| id).chain(marked).collect()
    }

    /// Every id that has a token.
    pub(crate) fn ids(&self) -> HashSet<u32> {
        self.vocab().into_values().collect()
    }

    /// That this is the tokenizer of a model whose mask is `id`, as far as the mask can tell.
    ///
    /// Masks are placed by id and never encoded, so a tokenizer without one would do its work; but it was made for another model, or
    /// lost its added tokens, and text would get wrong ids without a word. To name no `mask_token` is fine (LLaDA), and so is a mask
    /// that is no added token: the id is the configuration's to give.
    pub fn check_mask(&self, id: u32) -> Result<()> {
        match self.mask {
            Some(given) if given != id => {
                Err(Error::OtherMask { path: self.names(), token: self.piece(given), given, id })
            }
            None if self.pipeline.inner.id_to_token(id).is_none() => {
                Err(Error::NoMaskToken { path: self.dir.clone(), id })
            }
            _ => Ok(()),
        }
    }
}

/// `tokenizer_config.json`, which the chat template needs as well.
pub(crate) struct TokenizerConfig {
    pub(crate) path: PathBuf,
    pub(crate) json: Value,
}

impl TokenizerConfig {
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join("tokenizer_config.json");
        let Some(text) = read(dir, "tokenizer_config.json")? else { return Ok(None) };
        let json: Value = serde_json::from_str(&text).map_err(|e| malformed(&path, e.to_string()))?;
        if !json.is_object() {
            return Err(malformed(&path, "expected a JSON object"));
        }
        Ok(Some(Self { path, json }))
    }

    /// The token that `key` names: a string, or an object with `content`; `null` is the same as nothing.
    pub(crate) fn token(&self, key: &str) -> Result<Option<&str>> {
        match self.json.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_str().or_else(|| value.get("content")?.as_str()) {
                Some(name) => Ok(Some(name)),
                None => {
                    Err(malformed(&self.path, format!("`{key}` must be a string or have `content`, but is `{value}`")))
                }
            },
        }
    }

    /// The entries of `added_tokens_decoder`, by id.
    fn added_tokens(&self) -> Result<Option<BTreeMap<u32, Added>>> {
        let Some(value) = self.json.get("added_tokens_decoder") else { return Ok(None) };
        let added: BTreeMap<u32, Added> =
            BTreeMap::deserialize(value).map_err(|e| malformed(&self.path, format!("`added_tokens_decoder`: {e}")))?;
        if let Some((id, _)) = added.iter().find(|(_, token)| token.content.is_empty()) {
            return Err(malformed(&self.path, format!("`added_tokens_decoder` gives id {id} no text")));
        }
        allowed::check_added(&self.path, added.values().map(|token| token.content.as_str()))?;
        if let Some(id) = added.keys().find(|id| **id > MAX_ID) {
            return Err(malformed(&self.path, format!("`added_tokens_decoder` has id {id}, but ids end at {MAX_ID}")));
        }
        Ok(Some(added))
    }
}

/// An entry of `added_tokens_decoder`; what is left out is as in Python's `AddedToken`.
#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    special: bool,
    normalized: Option<bool>,
}

impl From<Added> for AddedToken {
    fn from(it: Added) -> Self {
        let normalized = it.normalized.unwrap_or(!it.special);
        let flags = AddedToken::from(it.content, it.special).single_word(it.single_word).normalized(normalized);
        flags.lstrip(it.lstrip).rstrip(it.rstrip)
    }
}

/// Gives `inner` the tokens of `tokenizer_config.json` that it lacks, as transformers does, and checks every id.
fn add_tokens(inner: &mut tokenizers::Tokenizer, config: &TokenizerConfig) -> Result<()> {
    let Some(added) = config.added_tokens()? else { return Ok(()) };
    let ids: Vec<(u32, String)> = added.iter().map(|(id, token)| (*id, token.content.clone())).collect();
    let known = inner.get_added_vocabulary().get_vocab();
    let new: Vec<AddedToken> =
        added.into_values().filter(|token| !known.contains_key(&token.content)).map(Into::into).collect();
    let adding = guarded(|| inner.add_tokens(new).map_err(|e| e.to_string()));
    adding.and_then(|added| added).map_err(|problem| malformed(&config.path, problem))?;
    ids.iter().try_for_each(|(id, content)| check_id(inner, &config.path, *id, content))
}

/// `tokenizer.json`, after checking what the library would panic at or pass over.
pub(crate) fn from_json(path: &Path, text: &str) -> Result<Pipeline> {
    let (pipeline, json) = Pipeline::from_json(path, text)?;
    for token in json["added_tokens"].as_array().into_iter().flatten() {
        let (id, content) = (token["id"].as_u64().unwrap_or_default(), token["content"].as_str().unwrap_or_default());
        check_id(&pipeline.inner, path, u32::try_from(id).unwrap_or(u32::MAX), content)?;
    }
    Ok(pipeline)
}

/// That every token has an id of its own, and that every merge forms a token.
fn check_model(path: &Path, model: &Value) -> Result<()> {
    let vocab = Vocab::deserialize(&model["vocab"]).map_err(|e| malformed(path, format!("`model.vocab`: {e}")))?;
    check_vocab(path, &vocab)?;
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or_default();
    for (i, merge) in model["merges"].as_array().into_iter().flatten().enumerate() {
        let pair = match merge {
            Value::String(line) => line.split_once(' '),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        let whole = pair.and_then(|(a, b)| Some([a, b.strip_prefix(prefix)?].concat()));
        let parts_known = pair.is_some_and(|(a, b)| vocab.contains_key(a) && vocab.contains_key(b));
        if !parts_known || !whole.is_some_and(|whole| vocab.contains_key(&whole)) {
            let merge = shown(&merge.to_string());
            let problem = format!("`model.merges[{i}]` is `{merge}`, which is no pair of tokens that form a token");
            return Err(malformed(path, problem));
        }
    }
    Ok(())
}

/// Dream's tokenizer from the files of its slow class.
fn from_vocab(dir: &Path, config: Option<&TokenizerConfig>) -> Result<Pipeline> {
    let (vocab_path, merges_path) = (dir.join("vocab.json"), dir.join("merges.txt"));
    let either = "the tokenizer (`tokenizer.json`, or `vocab.json` with `merges.txt` and `tokenizer_config.json`)";
    let vocab = read(dir, "vocab.json")?.ok_or_else(|| missing(dir, either))?;
    let merges = read(dir, "merges.txt")?.ok_or_else(|| missing(dir, "`merges.txt`, which `vocab.json` goes with,"))?;
    let special = "`tokenizer_config.json`, which says what the special tokens of `vocab.json` are,";
    let config = config.ok_or_else(|| missing(dir, special))?;
    let class = &config.json["tokenizer_class"];
    if !class.is_null() && !class.as_str().is_some_and(|class| SPLIT_CLASSES.contains(&class)) {
        let one_of = SPLIT_CLASSES.join("`, `");
        let problem =
            format!("`tokenizer_class` is `{class}`, but without tokenizer.json it must be one of `{one_of}`");
        return Err(malformed(&config.path, problem));
    }

    allowed::check_size(&vocab_path, &vocab)?;
    let mut vocab: Vocab = serde_json::from_str(&vocab)
        .map_err(|e| malformed(&vocab_path, format!("expected an object of tokens and their ids: {e}")))?;
    check_vocab(&vocab_path, &vocab)?;
    check_bytes(&vocab_path, &vocab)?;
    let merges = parse_merges(&merges_path, &merges, &vocab)?;

    // The added tokens join the vocabulary so that they keep their ids even where these leave gaps. No merge makes
    // them and none is a single byte, so they are found only as added tokens.
    let added = config.added_tokens()?;
    let added =
        added.ok_or_else(|| malformed(&config.path, "`added_tokens_decoder` is missing; it names the specials"))?;
    for (id, token) in &added {
        if let Some(other) = vocab.insert(token.content.clone(), *id).filter(|other| other != id) {
            return Err(malformed(&config.path, format!("`{}` has the ids {id} and {other}", token.content)));
        }
    }
    check_vocab(&config.path, &vocab)?;

    byte_level_bpe(vocab, merges, SPLIT, true)
        .map(Pipeline::ours)
        .map_err(|e| malformed(dir, format!("the tokenizer cannot be built: {e}")))
}

/// The pipeline of byte-level BPE: perhaps NFC, cut by `split`, bytes as characters, merges. Dream's slow tokenizer is this.
pub(crate) fn byte_level_bpe(
    vocab: Vocab,
    merges: Merges,
    split: &str,
    nfc: bool,
) -> tokenizers::Result<tokenizers::Tokenizer> {
    let split = Split::new(SplitPattern::Regex(split.into()), SplitDelimiterBehavior::Isolated, false)?;
    let bytes = ByteLevel::new(false, true, false); // no prefix space, trimmed offsets, no regex of its own
    let cut = Sequence::new(vec![PreTokenizerWrapper::Split(split), PreTokenizerWrapper::ByteLevel(bytes)]);
    let mut inner = tokenizers::Tokenizer::new(BPE::builder().vocab_and_merges(vocab, merges).build()?);
    inner.with_normalizer(nfc.then_some(NFC))?.with_pre_tokenizer(Some(cut)).with_decoder(Some(bytes));
    Ok(inner)
}

/// The pairs of `merges.txt`. The library trusts that every merge forms a token, and panics if not.
fn parse_merges(path: &Path, text: &str, vocab: &Vocab) -> Result<Merges> {
    let lines =
        text.lines().enumerate().filter(|(n, line)| !(line.is_empty() || *n == 0 && line.starts_with("#version")));
    lines
        .map(|(n, line)| {
            let bad = |problem: String| malformed(path, format!("line {}, `{line}`: {problem}", n + 1));
            let pair = line.split_once(' ').filter(|(a, b)| !(a.is_empty() || b.is_empty() || b.contains(' ')));
            let (a, b) = pair.ok_or_else(|| bad("expected two tokens with a space between".into()))?;
            let whole = [a, b].concat();
            match [a, b, &whole].into_iter().find(|token| !vocab.contains_key(*token)) {
                Some(token) => Err(bad(format!("`{token}` is not in vocab.json"))),
                None => Ok((a.to_owned(), b.to_owned())),
            }
        })
        .collect()
}

/// That every byte has a token: BPE without an unknown token drops what it does not have.
pub(crate) fn check_bytes(path: &Path, vocab: &Vocab) -> Result<()> {
    let bytes = ByteLevel::alphabet().into_iter();
    let mut lost: Vec<char> = bytes.filter(|c| !vocab.contains_key(&c.to_string())).collect();
    lost.sort_unstable();
    let Some(first) = lost.first() else { return Ok(()) };
    let n = lost.len();
    Err(malformed(path, format!("{n} of the 256 byte characters have no id, first `{first}`; some text would be lost")))
}

/// That no two tokens share an id, which the library would accept and decode as either.
fn check_vocab(path: &Path, vocab: &Vocab) -> Result<()> {
    let mut by_id: HashMap<u32, &str> = HashMap::with_capacity(vocab.len());
    for (token, id) in vocab.iter() {
        if *id > MAX_ID {
            return Err(malformed(path, format!("`{token}` has id {id}, but ids end at {MAX_ID}")));
        }
        if let Some(other) = by_id.insert(*id, token) {
            let (a, b) = (token.as_str().min(other), token.as_str().max(other));
            return Err(malformed(path, format!("id {id} belongs to both `{a}` and `{b}`")));
        }
    }
    Ok(())
}

/// That the library gives `content` the id that the file gives it.
fn check_id(inner: &tokenizers::Tokenizer, path: &Path, id: u32, content: &str) -> Result<()> {
    if let Some(other) = inner.get_model().id_to_token(id).filter(|other| other != content) {
        return Err(malformed(path, format!("id {id} belongs to both `{other}` and `{content}`")));
    }
    let got = match inner.token_to_id(content) {
        Some(got) if got == id => return Ok(()),
        Some(got) => got.to_string(),
        None => "none".into(),
    };
    let problem =
        format!("added token `{content}` has id {id}, but it comes out as {got}; ids must follow without gaps");
    Err(malformed(path, problem))
}

/// The text of a file, or `None` if there is no such file.
pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<String>> {
    files::read(&dir.join(name))
}

fn missing(dir: &Path, what: &str) -> Error {
    Error::Missing { path: dir.to_owned(), what: what.to_owned() }
}

pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Error {
    Error::Malformed { path: path.to_owned(), problem: problem.into() }
}

#[cfg(test)]
pub(crate) mod tests;
