//! Tokenizers and chat templates of GGUF files: the whole tokenizer.json, or tokens and merges.

use super::builder::{Builder, Entry, put};
use super::faults::find;
use super::written;
use crate::checkpoint::{Checkpoint, Folder, Sizes, TINY};
use crate::support::{FAMILIES, goldens, json, texts};
use cofill_model::{Checkpoint as OnDisk, Dtype, Model};
use serde_json::{Value, json};

/// Byte-level BPE in the files of Dream's slow tokenizer.
pub(super) struct Files {
    vocab: Value,
    merges: Vec<String>,
    config: Value,
}

impl Files {
    fn write(&self, folder: &Folder) {
        folder.put("vocab.json", self.vocab.to_string());
        folder.put("merges.txt", format!("#version: 0.2\n{}\n", self.merges.join("\n")));
        folder.put("tokenizer_config.json", self.config.to_string());
    }
}

/// The 256 bytes as characters, in the order of GPT-2's table, then a few merges.
pub(super) fn vocabulary() -> Files {
    let printable = |b: u32| (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b);
    let mut tokens: Vec<String> = Vec::new();
    let mut others = 256;
    for byte in 0..256 {
        let character = if printable(byte) {
            byte
        } else {
            others += 1;
            others - 1
        };
        tokens.push(char::from_u32(character).unwrap().to_string());
    }
    let merges = ["h e", "l l", "he ll", "Ġ he", "Ġhe ll", "o w", "1 2"].map(str::to_owned).to_vec();
    tokens.extend(merges.iter().map(|merge| merge.replace(' ', "")));
    let vocab = tokens.iter().enumerate().map(|(id, token)| (token.clone(), json!(id))).collect();
    let config = json!({"tokenizer_class": "DreamTokenizer", "bos_token": null, "eos_token": "<|end|>",
        "mask_token": "<|mask|>", "chat_template": "{{ messages[0].content }}{{ eos_token }}",
        "added_tokens_decoder": {
            "263": {"content": "<|end|>", "special": true},
            "264": {"content": "<call>", "special": false, "normalized": false},
            "270": {"content": "<|mask|>", "special": true}}});
    Files { vocab: Value::Object(vocab), merges, config }
}

/// Tokens, kinds and merges, as the converter lists them.
pub(super) fn with_vocabulary(builder: Builder, files: &Files) -> Builder {
    let added = files.config["added_tokens_decoder"].as_object().unwrap();
    let last = added.keys().map(|id| id.parse::<usize>().unwrap()).max().unwrap();
    let mut tokens: Vec<String> = (0..=last + 2).map(|id| format!("[PAD{id}]")).collect();
    let mut kinds = vec![5; tokens.len()];
    for (token, id) in files.vocab.as_object().unwrap() {
        let id = id.as_u64().unwrap() as usize;
        (tokens[id], kinds[id]) = (token.clone(), 1);
    }
    for (id, token) in added {
        let id: usize = id.parse().unwrap();
        tokens[id] = token["content"].as_str().unwrap().into();
        kinds[id] = if token["special"] == true { 3 } else { 4 };
    }
    let builder = builder
        .with("tokenizer.ggml.model", Entry::Text("gpt2".into()))
        .with("tokenizer.ggml.pre", Entry::Text("qwen2".into()))
        .with("tokenizer.ggml.tokens", Entry::Texts(tokens))
        .with("tokenizer.ggml.token_type", Entry::Kinds(kinds))
        .with("tokenizer.ggml.merges", Entry::Texts(files.merges.clone()));
    match files.config["chat_template"].as_str() {
        Some(template) => builder.with("tokenizer.chat_template", Entry::Text(template.into())),
        None => builder,
    }
}

const STRINGS: [&str; 9] = [
    "hello, hell! how low?",
    " hell\n\n  hell ",
    "1234 12",
    "<|end|>hello<call>x<|mask|>",
    "e\u{301} \u{e9} ﬁ",
    "you'll WE'RE it's",
    "日本語 🙂",
    "\t \r\n",
    "",
];

#[test]
fn tokens_and_merges_are_the_tokenizer_they_came_from() {
    let files = vocabulary();
    let sizes = Sizes { kv_heads: 2, vocab: 280, ..TINY };
    let checkpoint = Checkpoint::dream_of(sizes).with("mask_token_id", 270).with("eos_token_id", 263);
    let folder = checkpoint.write();
    files.write(&folder);
    let want = OnDisk::open(folder.path()).unwrap();
    let (ours, summary) = written(folder.path(), Dtype::F32);
    assert!(summary.without_tokenizer.is_none());
    // Twice from our file: as it is, with the whole tokenizer.json in it, and without that.
    let bytes = std::fs::read(&ours.0).unwrap();
    let key = find(&bytes, b"tokenizer.huggingface.json");
    let mut renamed = bytes.clone();
    renamed[key..key + 9].copy_from_slice(b"cofillize");
    let (_listed, listed) = put(&renamed);
    let (_theirs, theirs) = with_vocabulary(Builder::of(&checkpoint, 0), &files).write();
    for path in [&ours.0, &listed, &theirs] {
        let got = OnDisk::open(path).unwrap();
        let (got, want) = (got.tokenizer().unwrap(), want.tokenizer().unwrap());
        for text in STRINGS {
            let ids = want.encode(text).unwrap();
            assert_eq!(got.encode(text).unwrap(), ids, "{text:?}");
            assert_eq!(got.decode(&ids, false).unwrap(), want.decode(&ids, false).unwrap());
            assert_eq!(got.decode(&ids, true).unwrap(), want.decode(&ids, true).unwrap());
        }
        assert_eq!((got.mask(), got.eos(), got.bos()), (want.mask(), want.eos(), want.bos()));
        assert_eq!((got.piece(275), got.piece(264)), ("<|id 275|>".into(), "<call>".into()));
        let chat = OnDisk::open(path).unwrap().chat().unwrap().unwrap();
        assert_eq!(chat.render(&[cofill_model::Message::new("user", "hi")], true).unwrap(), "hi<|end|>");
    }
}

/// How LLaDA cuts text, as llama.cpp quotes it from tokenizer.json.
const LLADA: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";

#[test]
fn a_tokenizer_json_with_lladas_regex_gets_its_name() {
    let files = vocabulary();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let split = json!({"type": "Split", "pattern": {"Regex": LLADA}, "behavior": "Isolated", "invert": false});
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false})
    };
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [special(263, "<|end|>"), special(264, "<|mask|>")],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, bytes]}, "post_processor": null,
        "decoder": bytes, "model": {"type": "BPE", "vocab": files.vocab, "merges": files.merges}});
    let checkpoint = Checkpoint::llada_of(Sizes { vocab: 280, ..TINY });
    let folder = checkpoint.with("mask_token_id", 264).with("eos_token_id", 263).write();
    folder.put("tokenizer.json", tokenizer.to_string());
    let (ours, _) = written(folder.path(), Dtype::F16);
    let mut bytes = std::fs::read(&ours.0).unwrap();
    assert!(bytes.windows(10).any(|window| window == b"bailingmoe"), "llama.cpp's name of that regex");
    let key = find(&bytes, b"tokenizer.huggingface.json");
    bytes[key..key + 9].copy_from_slice(b"cofillize");
    let (_listed, listed) = put(&bytes);
    let want = OnDisk::open(folder.path()).unwrap().tokenizer().unwrap();
    for path in [&ours.0, &listed] {
        let got = OnDisk::open(path).unwrap().tokenizer().unwrap();
        for text in STRINGS {
            let ids = want.encode(text).unwrap();
            assert_eq!(got.encode(text).unwrap(), ids, "{text:?}");
            assert_eq!(got.decode(&ids, false).unwrap(), text, "nothing is composed, nothing lost");
        }
        assert_eq!((got.mask(), got.eos()), (Some(264), Some(263)));
    }
}

#[test]
fn tokenizers_that_are_wrong_leave_the_model_alone() {
    let files = vocabulary();
    let sizes = Sizes { kv_heads: 2, vocab: 280, ..TINY };
    let whole = with_vocabulary(Builder::of(&Checkpoint::dream_of(sizes), 0), &files);
    let refused = |builder: &Builder, words: &str| {
        let (_folder, path) = builder.write();
        assert!(Model::load(&path).is_ok());
        let message = OnDisk::open(&path).unwrap().tokenizer().unwrap_err().to_string();
        assert!(message.contains(words), "{message}: this should say {words}");
    };
    let text = |text: &str| Entry::Text(text.into());
    refused(&whole.clone().with("tokenizer.ggml.pre", text("tekken")), "`tokenizer.ggml.pre` is `tekken`");
    refused(&whole.clone().with("tokenizer.ggml.model", text("llama")), "`tokenizer.ggml.model` is `llama`");
    refused(&whole.clone().with("tokenizer.huggingface.json", text("{}")), "model.gguf");
    for key in ["model", "pre", "tokens", "token_type", "merges"] {
        let key = format!("tokenizer.ggml.{key}");
        refused(&whole.clone().without(&key), &format!("the key `{key}` is missing"));
        refused(&whole.clone().with(&key, Entry::U32(1)), &format!("`{key}` is 1, but must be"));
    }
    let merges = |merge: &str| Entry::Texts(vec!["h e".into(), merge.into()]);
    for merge in ["x", "h x", "q e", "", " ", "h  e"] {
        refused(&whole.clone().with("tokenizer.ggml.merges", merges(merge)), "`tokenizer.ggml.merges[1]`");
    }
    refused(
        &whole.clone().with("tokenizer.ggml.token_type", Entry::Kinds(vec![1])),
        "but `tokenizer.ggml.token_type` has 1",
    );
    let twice = Entry::Texts(vec!["a".into(); 3]);
    let kinds = Entry::Kinds(vec![1; 3]);
    let twice = whole.clone().with("tokenizer.ggml.tokens", twice).with("tokenizer.ggml.token_type", kinds.clone());
    refused(&twice, "token `a` has the ids 0 and 1");
    let few = Entry::Texts(["a", "b", "c"].map(str::to_owned).to_vec());
    let few = whole.with("tokenizer.ggml.tokens", few).with("tokenizer.ggml.token_type", kinds);
    refused(&few, "253 of the 256 byte characters");
}

#[test]
fn texts_gguf_dream_tokenizer() {
    let Some(texts) = texts() else { return };
    let golden = json(&texts.join("dream_tokenizer_goldens.json"));
    let dir = texts.join(golden["files_dir"].as_str().unwrap());
    let merges = std::fs::read_to_string(dir.join("merges.txt")).unwrap();
    let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
    let files = Files {
        vocab: json(&dir.join("vocab.json")),
        merges: merges.map(str::to_owned).collect(),
        config: json(&dir.join("tokenizer_config.json")),
    };
    let (_folder, path) = with_vocabulary(Builder::of(&Checkpoint::dream(), 0), &files).write();
    let tokenizer = OnDisk::open(&path).unwrap().tokenizer().unwrap();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let want: Vec<u32> = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(tokenizer.encode(case["text"].as_str().unwrap()).unwrap(), want, "{}", case["text"]);
        assert_eq!(tokenizer.decode(&want, false).unwrap(), case["decoded"]);
    }
    println!("texts: {} strings by a GGUF file's tokens and merges, as Dream's tokenizer has them", cases.len());
    assert!(cases.len() >= 27);
}

#[test]
fn conformance_gguf_keeps_tokenizers() {
    for family in FAMILIES {
        let folder = OnDisk::open(&goldens().join(format!("{family}_tiny"))).unwrap();
        let (out, summary) = written(folder.path(), Dtype::Q8_0);
        assert_eq!(summary.without_tokenizer, None);
        let file = OnDisk::open(&out.0).unwrap();
        let (got, want) = (file.tokenizer().unwrap(), folder.tokenizer().unwrap());
        for id in 0..160 {
            assert_eq!(got.piece(id), want.piece(id));
            assert_eq!(got.encode(&want.piece(id)).unwrap(), [id]);
        }
        println!("conformance: {family}: 160 tokens through a GGUF file");
    }
}

#[test]
fn texts_gguf_keeps_chat_templates() {
    let Some(texts) = texts() else { return };
    for family in FAMILIES {
        let (out, _) = written(&texts.join(format!("{family}_tiny")), Dtype::Q8_0);
        let file = OnDisk::open(&out.0).unwrap();
        let golden = json(&texts.join("chat_templates.json"));
        let (chat, mut n) = (file.chat().unwrap().unwrap(), 0);
        for case in golden["cases"].as_array().unwrap().iter().filter(|case| case["family"] == family) {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let message = |m: &Value| cofill_model::Message::new(text(&m["role"]), text(&m["content"]));
            let messages: Vec<_> = case["messages"].as_array().unwrap().iter().map(message).collect();
            let prompt = chat.render(&messages, case["add_generation_prompt"].as_bool().unwrap()).unwrap();
            assert_eq!(prompt, case["rendered"], "{family}");
            n += 1;
        }
        println!("texts: {family}: {n} chat prompts through a GGUF file");
        assert!(n >= 8);
    }
}
