//! Small vocabularies made here, and every way a tokenizer's files can be wrong.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use tokenizers::{NormalizedString, Normalizer};

/// A folder that lives as long as a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        static N: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("cofill-model-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        files.iter().for_each(|(name, bytes)| std::fs::write(dir.join(name), bytes).unwrap());
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// The 256 byte characters as ids 0 to 255, then `he`, `ll`, `hell` and `Ġhe` as 256 to 259.
fn vocab() -> serde_json::Map<String, Value> {
    let mut bytes: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    bytes.sort_unstable();
    let merged = ["he", "ll", "hell", "Ġhe"].map(str::to_owned);
    bytes.iter().map(char::to_string).chain(merged).zip(0..).map(|(token, id)| (token, json!(id))).collect()
}

const MERGES: &str = "#version: 0.2\nh e\nl l\nhe ll\nĠ he\n";

/// Specials with a gap before the mask, and one added token that is not special.
const CONFIG: &str = r#"{"tokenizer_class": "DreamTokenizer", "bos_token": null,
    "eos_token": {"content": "<|end|>"}, "mask_token": "<|mask|>", "added_tokens_decoder": {
    "260": {"content": "<|end|>", "special": true},
    "261": {"content": "<call>", "special": false, "normalized": false, "lstrip": false, "rstrip": false},
    "270": {"content": "<|mask|>", "special": true}}}"#;

fn dream(vocab: &Value, merges: &str, config: &str) -> Result<Tokenizer> {
    let (vocab, merges) = (vocab.to_string(), merges.as_bytes());
    let folder = Folder::new(&[
        ("vocab.json", vocab.as_bytes()),
        ("merges.txt", merges),
        ("tokenizer_config.json", config.as_bytes()),
        ("special_tokens_map.json", b"{\"bos_token\": \"x\" \"invalid\"}"), // as LLaDA-8B-Base has it
    ]);
    Tokenizer::load(folder.path())
}

fn tiny() -> Tokenizer {
    dream(&vocab().into(), MERGES, CONFIG).unwrap()
}

/// A `tokenizer.json` with settings that must not be obeyed: truncation, padding, a post-processor with a BOS.
fn word_level() -> Value {
    json!({
        "version": "1.0", "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "a"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}},
        "added_tokens": [{"id": 2, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    })
}

fn bpe(merges: &Value) -> Value {
    let mut json = word_level();
    json["model"] = json!({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": merges});
    json
}

/// Loads `tokenizer.json`, with a `tokenizer_config.json` if one is given.
fn fast(json: &Value, config: Option<&str>) -> Result<Tokenizer> {
    let json = json.to_string();
    let mut files = vec![("tokenizer.json", json.as_bytes())];
    files.extend(config.map(|config| ("tokenizer_config.json", config.as_bytes())));
    Tokenizer::load(Folder::new(&files).path())
}

#[test]
fn merges_apply_within_words_and_added_tokens_keep_their_ids() {
    let t = tiny();
    let byte = |c: &str| t.token_id(c).unwrap();
    // ` hell` takes `h e` first, then `l l`, then `he ll`; `Ġ he` comes too late. Words never merge.
    assert_eq!(t.encode("hell hell").unwrap(), [258, byte("Ġ"), 258]);
    assert_eq!(t.encode(" he<|mask|><call>l<|end|>").unwrap(), [259, 270, 261, byte("l"), 260]);
    assert_eq!(t.decode(&[259, 270, 261, 260], false).unwrap(), " he<|mask|><call><|end|>");
    assert_eq!(t.decode(&[259, 270, 261, 260], true).unwrap(), " he<call>");
    assert_eq!((t.bos(), t.eos(), t.mask()), (None, Some(260), Some(270)));
}

#[test]
fn an_id_without_a_token_decodes_to_nothing_and_shows_as_its_number() {
    let t = tiny();
    assert_eq!(t.decode(&[258, 265, 9999, u32::MAX, 256], false).unwrap(), "hellhe");
    let pieces = [259, 270, 260, 265].map(|id| t.piece(id));
    assert_eq!(pieces, [" he", "<|mask|>", "<|end|>", "<|id 265|>"]);
    // One byte of a longer character is not text yet.
    assert_eq!(t.piece(t.encode("é").unwrap()[0]), "\u{fffd}");
}

#[test]
fn a_tokenizer_json_adds_cuts_and_pads_nothing() {
    let t = fast(&word_level(), None).unwrap();
    assert_eq!(t.encode("a b b a <s>").unwrap(), [0, 1, 1, 0, 2]);
    assert_eq!((t.bos(), t.eos(), t.mask()), (None, None, None));
}

#[test]
fn a_text_the_tokenizer_has_no_token_for_is_an_error() {
    let mut json = word_level();
    json["model"]["unk_token"] = json!("none such");
    let error = fast(&json, None).unwrap().encode("a z").expect_err("z is unknown").to_string();
    assert!(error.contains("cannot encode this text"), "{error}");
}

#[test]
fn a_config_may_add_tokens_to_a_tokenizer_json() {
    let config = r#"{"bos_token": "<s>", "added_tokens_decoder": {"3": {"content": "<new>", "special": true}}}"#;
    let t = fast(&word_level(), Some(config)).unwrap();
    assert_eq!((t.bos(), t.encode("a <new>").unwrap()), (Some(2), vec![0, 3]));
    assert_eq!(t.decode(&[0, 3], true).unwrap(), "a");
}

/// The message must name the file and contain `want`.
#[track_caller]
fn refused(result: Result<Tokenizer>, file: &str, want: &str) {
    let message = result.expect_err("must be refused").to_string();
    assert!(message.contains(file) && message.contains(want), "`{file}` and `{want}` are not in: {message}");
}

#[test]
fn missing_files() {
    let load = |files: &[(&str, &[u8])]| Tokenizer::load(Folder::new(files).path());
    refused(load(&[]), "`tokenizer.json`, or `vocab.json`", "missing");
    refused(Tokenizer::load(Path::new("/no/such/folder")), "/no/such/folder", "missing");
    refused(load(&[("vocab.json", b"{}")]), "`merges.txt`", "missing");
    refused(load(&[("vocab.json", b"{}"), ("merges.txt", b"")]), "`tokenizer_config.json`", "missing");
}

#[test]
fn unreadable_files() {
    let folder = Folder::new(&[("vocab.json", b"\xff"), ("merges.txt", b"")]);
    refused(Tokenizer::load(folder.path()), "vocab.json", "utf-8");
    std::fs::create_dir(folder.path().join("tokenizer.json")).unwrap();
    refused(Tokenizer::load(folder.path()), "tokenizer.json", "cannot be read");
}

#[test]
fn bad_vocabularies() {
    let with = |key: &str, value: Value| {
        let mut vocab = vocab();
        vocab.insert(key.to_owned(), value);
        dream(&vocab.into(), MERGES, CONFIG)
    };
    refused(with("x1", json!("seven")), "vocab.json", "invalid type: string");
    refused(with("x1", json!(-1)), "vocab.json", "-1");
    refused(with("x1", json!(1.5)), "vocab.json", "1.5");
    refused(with("x1", json!(u32::MAX)), "vocab.json", "ids end at");
    refused(with("x1", json!(256)), "vocab.json", "id 256 belongs to both `he` and `x1`");
    refused(dream(&json!(["a"]), MERGES, CONFIG), "vocab.json", "expected an object");
    let mut lossy = vocab();
    lossy.remove("Ġ");
    refused(dream(&lossy.into(), MERGES, CONFIG), "vocab.json", "1 of the 256 byte characters have no id, first `Ġ`");
}

#[test]
fn bad_merges() {
    let merges = |text: &str| dream(&vocab().into(), text, CONFIG);
    refused(merges("#version: 0.2\nh e\nhe"), "merges.txt", "line 3, `he`: expected two tokens");
    refused(merges("h e l"), "merges.txt", "line 1");
    refused(merges("h  e"), "merges.txt", "line 1");
    refused(merges("h e\nhe zz"), "merges.txt", "line 2, `he zz`: `zz` is not in vocab.json");
    refused(merges("hell hell"), "merges.txt", "`hellhell` is not in vocab.json");
    assert_eq!(merges("\r\nh e\r\n\r\n").unwrap().encode("he").unwrap(), [256]);
}

#[test]
fn bad_configs() {
    let config = |text: &str| dream(&vocab().into(), MERGES, text);
    refused(config("{"), "tokenizer_config.json", "EOF");
    refused(config("[]"), "tokenizer_config.json", "expected a JSON object");
    refused(config("{}"), "tokenizer_config.json", "`added_tokens_decoder` is missing");
    refused(config(r#"{"tokenizer_class": "GPT2Tokenizer"}"#), "tokenizer_config.json", "`DreamTokenizer`");
    let added = |entries: &str| config(&format!(r#"{{"added_tokens_decoder": {{{entries}}}}}"#));
    refused(added(r#""x": {"content": "<a>"}"#), "tokenizer_config.json", "added_tokens_decoder");
    refused(added(r#""300": {"special": true}"#), "tokenizer_config.json", "missing field `content`");
    refused(added(r#""300": {"content": ""}"#), "tokenizer_config.json", "gives id 300 no text");
    refused(added(r#""4294967295": {"content": "<a>"}"#), "tokenizer_config.json", "ids end at");
    refused(added(r#""256": {"content": "<a>"}"#), "tokenizer_config.json", "id 256 belongs to both `<a>` and `he`");
    refused(added(r#""300": {"content": "he"}"#), "tokenizer_config.json", "`he` has the ids 300 and 256");
    let named = |key: &str| config(&CONFIG.replace(r#""bos_token": null"#, key));
    refused(named(r#""bos_token": "<s>""#), "tokenizer_config.json", "`bos_token` is `<s>`, which the vocabulary");
    refused(named(r#""bos_token": 7"#), "tokenizer_config.json", "`bos_token` must be a string");
}

#[test]
fn bad_tokenizer_jsons() {
    let file = "tokenizer.json";
    refused(fast(&json!("text"), None), file, "must be a JSON object");
    refused(fast(&bpe(&json!([["a", "b"]])), None), file, "`model.merges[0]`"); // the library panics here
    refused(fast(&bpe(&json!(["a"])), None), file, "`model.merges[0]`");
    let with = |pointer: &str, value: Value| {
        let mut json = word_level();
        *json.pointer_mut(pointer).unwrap() = value;
        fast(&json, None)
    };
    refused(with("/model/vocab/b", json!(0)), file, "id 0 belongs to both `a` and `b`");
    refused(with("/model/vocab/b", json!("1")), file, "`model.vocab`");
    refused(with("/model/vocab/b", json!(u32::MAX)), file, "ids end at");
    refused(with("/added_tokens/0/id", json!(7)), file, "`<s>` has id 7, but it comes out as 2");
    refused(with("/model/vocab/b", json!(2)), file, "id 2 belongs to both `b` and `<s>`");
    refused(with("/pre_tokenizer", json!({"type": "None such"})), file, "");
    let config = r#"{"added_tokens_decoder": {"9": {"content": "<new>"}}}"#;
    refused(fast(&word_level(), Some(config)), "tokenizer_config.json", "`<new>` has id 9, but it comes out as 3");
}

proptest! {
    /// Byte-level BPE loses nothing but what NFC folds.
    #[test]
    fn any_text_survives_the_round_trip(text in any::<String>(), hello in "( ?hel*|<[|]mask[|]>|[\r\n\t ]){0,6}") {
        thread_local!(static TINY: Tokenizer = tiny());
        let text = format!("{hello}{text}{hello}");
        let mut nfc = NormalizedString::from(text.as_str());
        NFC.normalize(&mut nfc).unwrap();
        let back = TINY.with(|t| t.decode(&t.encode(&text).unwrap(), false).unwrap());
        prop_assert_eq!(back, nfc.get());
    }

    /// Any damage to a file is an error or harmless, never a panic.
    #[test]
    fn damaged_files_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (words, merges) = (word_level().to_string(), bpe(&json!(["a b"])).to_string());
        let fast = "tokenizer.json";
        for (name, text) in [(fast, words.as_str()), (fast, &merges), ("tokenizer_config.json", CONFIG)] {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let mut files = vec![("tokenizer.json", words.as_bytes())];
            files.retain(|(other, _)| *other != name);
            files.push((name, bytes.as_slice()));
            Tokenizer::load(Folder::new(&files).path()).map(|t| t.encode("a b <s>")).ok();
        }
    }
}
