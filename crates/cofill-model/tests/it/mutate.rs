//! Templates and tokenizers made by mutating sound ones, from a number alone. The tests try a few hundred, `examples/fuzz_untrusted.rs`
//! as many as one likes.
//!
//! Mutations know what they change: fragments of templates are spliced, nested and repeated; values, keys and components of
//! tokenizers are replaced, wrapped and multiplied. Bytes are flipped too, but rarely, because what cannot be parsed tries little.

use cofill_model::{ChatTemplate, Message, Tokenizer};
use serde_json::{Value, json};
use std::path::Path;

/// What is mutated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Template,
    Tokenizer,
}

/// What an error says that comes from a panic: our checks overlooked something.
pub(crate) const FAULT: &str = "a fault in reading it";

/// Case `number` as a text.
pub(crate) fn case(kind: Kind, number: u64) -> String {
    let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (kind as u64) << 60);
    match kind {
        Kind::Template => template(&mut random),
        Kind::Tokenizer => tokenizer(&mut random),
    }
}

/// Loads a case from `dir` and uses it: `ok`, or what the error says.
pub(crate) fn run(kind: Kind, number: u64, case: &str, dir: &Path) -> String {
    let done = match kind {
        Kind::Template => {
            std::fs::write(dir.join("chat_template.jinja"), case).unwrap();
            ChatTemplate::load(dir).and_then(|chat| {
                let chat = chat.unwrap();
                let messages =
                    ["system", "user", "assistant", "user"].map(|role| Message::new(role, "Say <hi> to a\nb"));
                chat.render(&messages[1..2], false)?;
                chat.render(&messages, true).map(drop)
            })
        }
        Kind::Tokenizer => {
            std::fs::write(dir.join("tokenizer.json"), case).unwrap();
            Tokenizer::load(dir).and_then(|tokenizer| {
                let mut random = Random(number);
                let mut failed = None;
                for text in texts(&mut random) {
                    // A text may be refused; the next may not.
                    let ids = match tokenizer.encode(&text) {
                        Ok(ids) => ids,
                        Err(error) => {
                            failed = Some(error);
                            continue;
                        }
                    };
                    tokenizer.decode(&ids, false)?;
                    tokenizer.decode(&ids, true)?;
                }
                let ids: Vec<u32> = (0..2000).map(|_| random.below(300) as u32).collect();
                tokenizer.decode(&ids, false)?;
                tokenizer.decode(&[u32::MAX, 0, 1 << 30], true)?;
                ids[..20].iter().for_each(|id| drop(tokenizer.piece(*id)));
                failed.map_or(Ok(()), Err)
            })
        }
    };
    done.map_or_else(|error| error.to_string(), |()| "ok".into())
}

fn texts(random: &mut Random) -> Vec<String> {
    let pieces = [
        "a", "b", "ab", " ", "  ", "\n", "\t", "1", "é", "漢", "😀", "'s", "<mask>", "[MASK]", "▁", "##", ".",
        "\u{301}",
    ];
    let mut texts: Vec<String> = vec!["Hello <mask> world 123".into(), String::new()];
    let run = |random: &mut Random, n: u64| random.pick(&pieces).repeat(n as usize);
    texts.push(run(random, 5000) + random.pick(&pieces));
    texts.push(run(random, 20_000));
    texts.push(
        (0..300)
            .map(|_| {
                let n = random.below(8);
                run(random, n)
            })
            .collect(),
    );
    texts
}

/// Numbers from a number.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Sound templates: every construct of the language, one each, and the corpus of attacks.
fn templates() -> Vec<String> {
    let golden: Value = serde_json::from_str(include_str!("../../../../fixtures/jinja.json")).unwrap();
    let sound = golden["cases"].as_array().unwrap().iter().map(|case| case["template"].as_str().unwrap().to_owned());
    let hostile =
        include_str!("hostile/templates.txt").lines().filter(|line| !line.starts_with('#') && !line.contains("<<"));
    let hostile: Vec<String> = hostile.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    // Three sound ones for every attack, or hardly anything would render.
    sound.flat_map(|text| [text.clone(), text.clone(), text]).chain(hostile).collect()
}

const WORDS: [&str; 40] = [
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "1e308",
    "99999999999",
    "'a'",
    "''",
    "'%9999d'",
    "none",
    "true",
    "messages",
    "messages[0]",
    "ns",
    "loop",
    "x",
    "[]",
    "{}",
    "[x, x]",
    "{'a': x}",
    "range(1000)",
    "range(99999)",
    "namespace(a=1)",
    "x ~ x",
    "x + x",
    "x * 9999",
    "x | upper",
    "x | tojson",
    "x | tojson(indent=16)",
    "x | replace('', x)",
    "x | indent(16)",
    "x | list",
    "x.split('a')",
    "x.join(x)",
    "loop.cycle()",
    "m(x)",
    "messages | map(attribute='role')",
    "x[::-1]",
    "(x)",
];

const WRAPS: [(&str, &str); 9] = [
    ("{% for m in messages %}", "{% endfor %}"),
    ("{% for i in range(300) %}", "{% endfor %}"),
    ("{% if true %}", "{% else %}{% endif %}"),
    ("{% set x %}", "{% endset %}{{ x }}"),
    ("{% macro m(x) %}", "{% endmacro %}{{ m('a') }}"),
    ("{% with x = 'aa' %}", "{% endwith %}"),
    ("{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}", "{% endfor %}"),
    ("{% set x = 'abc' %}", "{{ x }}"),
    ("{{ (", ") }}"),
];

fn template(random: &mut Random) -> String {
    let seeds = templates();
    let seed = |random: &mut Random| seeds[random.below(seeds.len() as u64) as usize].clone();
    let mut text = seed(random);
    for _ in 0..=random.below(3) {
        let at = boundary(&text, random);
        match random.below(14) {
            // Whole tags between tags: most of these still render.
            0 | 9 | 10 => {
                let starts: Vec<usize> =
                    text.match_indices("{%").chain(text.match_indices("{{")).map(|(at, _)| at).collect();
                let at = starts.get(random.below(starts.len() as u64) as usize).copied().unwrap_or(0);
                text.insert_str(at, &seed(random));
            }
            1 | 11 | 12 => {
                let (open, close) = WRAPS[random.below(WRAPS.len() as u64) as usize];
                text = format!("{open}{text}{close}");
            }
            2 => {
                // Something again and again: chains, nesting, many tags.
                let (from, to) = (at.min(text.len()), boundary(&text, random));
                let part = text[from.min(to)..from.max(to)].to_owned();
                let n = [2, 10, 200, 2000][random.below(4) as usize];
                if part.len() * n < 200_000 {
                    text.insert_str(at, &part.repeat(n));
                }
            }
            3 | 4 | 13 => {
                let word = random.pick(&WORDS);
                let from = text[..at].rfind([' ', '(', '[', '|']).map_or(at, |from| from + 1);
                text.replace_range(from..at, word);
            }
            5 => {
                let operator = random.pick(&[
                    " + ", " ~ ", " * ", " | ", " is ", " in ", " if ", " else ", ".", "[", "]", "(", ")", "- ",
                    " not ",
                ]);
                text.insert_str(at, operator);
            }
            6 => {
                let to = boundary(&text, random);
                text.replace_range(at.min(to)..at.max(to), "");
            }
            7 => text.insert_str(
                at,
                random.pick(&["{%", "%}", "{{", "}}", "{#", "#}", "-%}", "{%-", "\n", "'", "\"", "\\", "\u{0}"]),
            ),
            _ => {
                let (open, close) =
                    (random.pick(&["(", "[", "not ", "-", "{'a': "]), random.pick(&[")", "]", "", "}"]));
                let n = 1 + random.below(300) as usize;
                text.insert_str(at, &(open.repeat(n) + "1" + &close.repeat(n)));
            }
        }
    }
    text
}

/// Somewhere in a text, between two characters.
fn boundary(text: &str, random: &mut Random) -> usize {
    let mut at = random.below(text.len() as u64 + 1) as usize;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Byte-level BPE of bytes and the token `ab`, with a mask.
pub(crate) fn sound() -> Value {
    // The 256 printable characters that stand for bytes: those of Latin-1 that can be seen stand for themselves.
    let seen = |byte: &u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let hidden = (0..256).filter(|byte| !seen(byte)).zip(256..).map(|(_, c)| c);
    let characters = (0..256).filter(seen).chain(hidden).filter_map(char::from_u32).map(String::from);
    let vocab: serde_json::Map<String, Value> =
        characters.chain(["ab".into()]).zip(0..).map(|(token, id)| (token, json!(id))).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "pre_tokenizer": bytes, "post_processor": null,
        "decoder": bytes, "model": {"type": "BPE", "dropout": null, "vocab": vocab, "merges": ["a b"]},
        "added_tokens": [{"id": 257, "content": "<mask>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
    })
}

/// Tokenizers in the manner of Llama 2, BERT and Qwen, and one of whole words.
fn tokenizers() -> Vec<Value> {
    let mask = json!([{"id": 9, "content": "[MASK]", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}]);
    let mut llama = sound();
    llama["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
    llama["pre_tokenizer"] = Value::Null;
    llama["decoder"] = json!({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    llama["model"] = json!({"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
        "vocab": {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "ab": 4, "▁a": 5, "<0x0A>": 6, "1": 7, "2": 8}, "merges": [["a", "b"], ["▁", "a"]]});
    llama["added_tokens"] = mask.clone();
    let mut bert = llama.clone();
    bert["normalizer"] = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true});
    bert["pre_tokenizer"] = json!({"type": "BertPreTokenizer"});
    bert["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    bert["model"] = json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##a": 4, "##b": 5, "hello": 6, "1": 7, ".": 8}});
    bert["post_processor"] = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}});
    let mut qwen = sound();
    qwen["normalizer"] = json!({"type": "NFC"});
    qwen["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": REGEXES[0]}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
    let mut words = llama.clone();
    words["normalizer"] = json!({"type": "Lowercase"});
    words["pre_tokenizer"] = json!({"type": "WhitespaceSplit"});
    words["decoder"] = Value::Null;
    words["model"] = json!({"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "g": 6, "h": 7, "i": 8}});
    vec![sound(), llama, bert, qwen, words]
}

const REGEXES: [&str; 9] = [
    r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "(a+)+$",
    "a*a*b",
    "a*",
    "[ab]*[ab]*[ab]*c",
    r"\s*\S*\s*x",
    "(?:a|b)?c",
    "(?<=a)b+",
    "[^a]+",
];

/// Components of every stage, sound and not.
fn components() -> Vec<Value> {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "MergedWithPrevious", "invert": true});
    let mut all: Vec<Value> = REGEXES.iter().map(|regex| split(regex)).collect();
    all.extend(
        [
            "NFC",
            "NFD",
            "NFKC",
            "NFKD",
            "Lowercase",
            "StripAccents",
            "Nmt",
            "BertPreTokenizer",
            "Whitespace",
            "WhitespaceSplit",
            "Fuse",
            "ByteFallback",
            "UnicodeScripts",
        ]
        .map(|name| json!({"type": name})),
    );
    all.extend([
        json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        json!({"type": "FixedLength", "length": 0}),
        json!({"type": "Strip", "strip_left": true, "strip_right": true}),
        json!({"type": "Strip", "content": "a", "start": 1, "stop": 0}),
        json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"}),
        json!({"type": "Replace", "pattern": {"String": ""}, "content": "a"}),
        json!({"type": "Prepend", "prepend": "ab"}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        json!({"type": "Digits", "individual_digits": true}),
        json!({"type": "Punctuation", "behavior": "Contiguous"}),
        json!({"type": "WordPiece", "prefix": "", "cleanup": true}),
        json!({"type": "BPEDecoder", "suffix": "b"}),
        json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": true}),
        json!({"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}),
    ]);
    all
}

/// Replaces a stage by a sequence of components that may stand there, in numbers that are perhaps too many.
fn stage_of(file: &mut Value, random: &mut Random) {
    let (stage, list, names): (_, _, &[&str]) = match random.below(3) {
        0 => (
            "normalizer",
            "normalizers",
            &["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Replace", "Prepend"],
        ),
        1 => (
            "pre_tokenizer",
            "pretokenizers",
            &[
                "BertPreTokenizer",
                "Whitespace",
                "WhitespaceSplit",
                "Metaspace",
                "ByteLevel",
                "Digits",
                "Punctuation",
                "Split",
            ],
        ),
        _ => (
            "decoder",
            "decoders",
            &["Fuse", "ByteFallback", "Metaspace", "ByteLevel", "Replace", "WordPiece", "BPEDecoder", "Strip"],
        ),
    };
    let all: Vec<Value> = components().into_iter().filter(|it| names.contains(&it["type"].as_str().unwrap())).collect();
    let steps: Vec<Value> =
        (0..=random.below(4)).map(|_| all[random.below(all.len() as u64) as usize].clone()).collect();
    file[stage] = json!({"type": "Sequence", list: steps});
}

fn odd_value(random: &mut Random) -> Value {
    let odd = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(2),
        json!(255),
        json!(4_294_967_295_u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.5),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("ab"),
        json!(" "),
        json!("é"),
        json!("<mask>"),
        json!([]),
        json!({}),
        json!("x".repeat(70)),
        json!("Removed"),
        json!("always"),
        json!([["a", "b"]]),
    ];
    match random.below(6) {
        0 => REGEXES[random.below(REGEXES.len() as u64) as usize].into(),
        1 => {
            let all = components();
            all[random.below(all.len() as u64) as usize].clone()
        }
        _ => odd[random.below(odd.len() as u64) as usize].clone(),
    }
}

/// Places in a JSON text, without most of a vocabulary.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.into());
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(list) => {
            list.iter().enumerate().take(8).for_each(|(i, value)| places(value, &format!("{at}/{i}"), all));
        }
        Value::Object(map) => {
            map.iter().take(12).for_each(|(key, value)| places(value, &format!("{at}/{}", escape(key)), all));
        }
        _ => {}
    }
}

fn tokenizer(random: &mut Random) -> String {
    let all = tokenizers();
    let mut file = all[random.below(all.len() as u64) as usize].clone();
    for _ in 0..=random.below(3) {
        if random.below(3) == 0 {
            stage_of(&mut file, random);
            continue;
        }
        let mut pointers = Vec::new();
        // The stages are a small part of the file and most of what can go wrong.
        let stages = ["/normalizer", "/pre_tokenizer", "/decoder", "/post_processor", "/model", "/added_tokens", ""];
        let stage = stages[random.below(stages.len() as u64) as usize];
        let Some(part) = file.pointer(stage) else { continue };
        places(part, stage, &mut pointers);
        let at = pointers[random.below(pointers.len() as u64) as usize].clone();
        let Some(place) = file.pointer_mut(&at).filter(|_| !at.is_empty()) else { continue };
        match random.below(8) {
            0 | 1 => *place = odd_value(random),
            2 => {
                let all = components();
                *place = all[random.below(all.len() as u64) as usize].clone();
            }
            3 => {
                let n = [1, 2, 5, 20][random.below(4) as usize];
                let list = ["normalizers", "pretokenizers", "decoders", "processors"][random.below(4) as usize];
                *place = json!({"type": "Sequence", list: vec![place.clone(); n]});
            }
            4 => match place {
                Value::Object(map) => {
                    let keys: Vec<String> = map.keys().cloned().collect();
                    if let Some(key) = keys.get(random.below(keys.len() as u64) as usize) {
                        let value = map.remove(key);
                        if random.below(2) == 0 {
                            map.insert(format!("{key}x"), value.unwrap_or_default());
                        }
                    }
                }
                Value::Array(list) if !list.is_empty() => {
                    let item = list[random.below(list.len() as u64) as usize].clone();
                    list.extend(vec![item; 1 + random.below(30) as usize]);
                }
                other => *other = odd_value(random),
            },
            5 => match place {
                Value::String(text) => {
                    let at = boundary(text, random);
                    text.insert_str(
                        at,
                        random
                            .pick(&["a", "é", "(", "*", "+", "a*", "[", "\\p{L}", "|", " ", "\u{0}", "😀", "{2}", "?"]),
                    );
                }
                Value::Number(_) => *place = json!(random.next() >> random.below(64)),
                Value::Bool(flag) => *flag = !*flag,
                other => *other = odd_value(random),
            },
            6 => {
                let other = &all[random.below(all.len() as u64) as usize];
                if let Some(part) = other.pointer(&at) {
                    *place = part.clone();
                }
            }
            _ => {
                if let Some(Value::Object(vocab)) = file.pointer_mut("/model/vocab") {
                    let token = random.pick(&["", "a", "abab", "<mask>", "aaaa", "[MASK]", "é", "<0x61>"]);
                    let id = [random.below(300), random.next() >> 34, 0][random.below(3) as usize];
                    vocab.insert(token.into(), json!(id));
                }
            }
        }
    }
    let mut text = file.to_string();
    if random.below(12) == 0 {
        let (at, to) = (boundary(&text, random), boundary(&text, random));
        match random.below(3) {
            0 => text.truncate(at),
            1 => text.insert_str(at, random.pick(&["{", "}", "[", "]", ",", "\"", "0", "\\u0000"])),
            _ => {
                let cut: String = text.chars().skip(text[..at].chars().count()).take(to % 40).collect();
                text.replace_range(at..at + cut.len(), "");
            }
        }
    }
    text
}
