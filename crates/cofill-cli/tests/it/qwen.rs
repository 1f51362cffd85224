use crate::run::{Ran, run_with, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A copy of a tiny Qwen checkpoint (`fixtures/qwen`) with a tokenizer of its own, in a folder of the test's name.
pub(crate) struct Checkpoint(pub(crate) PathBuf);

/// The fixture's mask and end of text.
const MASK: usize = 37;
const EOS: usize = 38;

impl Checkpoint {
    pub(crate) fn new(test: &str) -> Checkpoint {
        let dir = scratch(&format!("qwen-{test}"));
        std::fs::create_dir_all(&dir).unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/qwen/qwen3");
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(fixture.join(file), dir.join(file)).unwrap();
        }
        // Words w0 to w35, and the specials.
        let words: serde_json::Map<String, Value> = (0..36).map(|i| (format!("w{i}"), json!(i))).collect();
        let added = |id: usize, content: &str| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        };
        let checkpoint = Checkpoint(dir);
        checkpoint.put(
            "tokenizer.json",
            &json!({
                "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
                "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
                "added_tokens": [added(36, "<begin>"), added(MASK, "<mask>"), added(EOS, "<end>")],
                "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
            }),
        );
        checkpoint.put("tokenizer_config.json", &json!({"mask_token": "<mask>", "eos_token": "<end>"}));
        checkpoint
    }

    fn put(&self, file: &str, json: &Value) {
        std::fs::write(self.0.join(file), json.to_string()).unwrap();
    }

    /// Sets a field of the configuration, or takes it out.
    fn config(&self, field: &str, value: Option<Value>) {
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.0.join("config.json")).unwrap()).unwrap();
        match value {
            Some(value) => config[field] = value,
            None => _ = config.as_object_mut().unwrap().remove(field),
        }
        self.put("config.json", &config);
    }

    fn generate(&self, args: &[&str]) -> Ran {
        let dir = self.0.display().to_string();
        run_with(&[&["generate", "-m", &dir], args].concat(), "")
    }
}

#[test]
fn a_qwen_checkpoint_answers_text() {
    let qwen = Checkpoint::new("answers");
    let text = qwen.generate(&["w1 w2", "-n", "4", "--json"]).is_fine().timeless();
    assert_eq!(text, qwen.generate(&["--prompt-tokens", "1,2", "-n", "4", "--json"]).is_fine().timeless());
    assert!(qwen.generate(&["--template", "w1 [MASK:2] w9"]).is_fine().stdout.starts_with("w1 "));
}

#[test]
fn a_config_that_lacks_its_mask_says_what_to_add() {
    let qwen = Checkpoint::new("no-mask-id");
    qwen.config("mask_token_id", None);
    qwen.generate(&["w1", "-n", "2"]).is_refused(&[
        "config.json",
        "`mask_token_id` is missing",
        "\"mask_token_id\": 37",
    ]);
    qwen.config("mask_token_id", Some(json!(MASK)));
    qwen.config("block_size", Some(json!(4)));
    qwen.generate(&["w1", "-n", "2"]).is_refused(&["config.json", "`block_size` is `4`", "block-causal"]);
}

#[test]
#[cfg(not(any(feature = "cuda", feature = "metal")))]
fn a_processor_that_this_build_lacks_is_named() {
    let qwen = Checkpoint::new("processor");
    for device in ["cuda", "metal"] {
        let feature = format!("--features {device}");
        qwen.generate(&["w1", "-n", "2", "--device", device]).is_refused(&["cannot compute on", &feature]);
    }
    qwen.generate(&["w1", "-n", "2", "--device", "tpu"]).is_refused(&["--device", "cpu, cuda or metal"]);
    qwen.generate(&["w1", "-n", "2", "--device", "cpu"]).is_fine();
}

#[test]
fn text_needs_a_tokenizer_that_knows_the_mask() {
    let qwen = Checkpoint::new("masks");
    qwen.put("tokenizer_config.json", &json!({"mask_token": "<begin>"}));
    for args in [["w1", "-n2"], ["--template", "w1 [MASK:2]"]] {
        qwen.generate(&args).is_refused(&["tokenizer_config.json", "`<begin>`, which has id 36", "37", "token ids"]);
    }
    // The model's last id has no token.
    qwen.put("tokenizer_config.json", &json!({}));
    qwen.config("mask_token_id", Some(json!(39)));
    qwen.generate(&["w1", "-n", "2"]).is_refused(&["no token with id 39", "`mask_token_id`", "token ids"]);
    // Ids need no tokenizer, and a mask that only the configuration names is fine.
    qwen.generate(&["--tokens", "1,M,M"]).is_fine();
    qwen.config("mask_token_id", Some(json!(MASK)));
    qwen.generate(&["w1", "-n", "2"]).is_fine();
}

#[test]
fn a_beginning_of_text_stands_there_once() {
    let qwen = Checkpoint::new("bos");
    let tokens = |args: &[&str], n: usize| -> Vec<u64> {
        let answer = qwen.generate(&[args, &["--json"]].concat()).is_fine().json();
        serde_json::from_value::<Vec<u64>>(answer["tokens"].clone()).unwrap()[..n].to_vec()
    };
    qwen.generate(&["w1", "--bos"]).is_refused(&["tokenizer_config.json", "names no `bos_token`", "leave out --bos"]);
    // The tokenizer's counts, whatever the configuration says; the template has it already.
    qwen.config("bos_token_id", Some(json!(35)));
    let chat = "{{ bos_token }} {{ messages[0].content }}";
    qwen.put("tokenizer_config.json", &json!({"bos_token": "<begin>", "chat_template": chat}));
    assert_eq!(tokens(&["w1 w2", "-n", "2"], 2), [1, 2]);
    assert_eq!(tokens(&["w1 w2", "-n", "2", "--bos"], 3), [36, 1, 2]);
    assert_eq!(tokens(&["<begin> w1 w2", "-n", "2", "--bos"], 3), [36, 1, 2]);
    assert_eq!(tokens(&["w1 w2", "-n", "2", "--bos", "--chat"], 3), [36, 1, 2]);
    assert_eq!(tokens(&["--prompt-tokens", "1,2", "-n", "2", "--bos"], 3), [36, 1, 2]);
    assert_eq!(tokens(&["--template", "[MASK:2] w3", "--bos"], 1), [36]);
    assert_eq!(tokens(&["--template", "[MASK:2] w3", "--bos"], 4)[3], 3);
    // A model with a shift cannot fill position 0; a beginning is all it needs.
    qwen.config("right_shift_logits", Some(json!(true)));
    qwen.generate(&["-n", "3"]).is_refused(&["position 0 is masked"]);
    assert_eq!(tokens(&["-n", "3", "--bos"], 1), [36]);
    qwen.generate(&["--tokens", "1,M", "--bos"]).is_refused(&["cannot be used with"]);
    run_with(&["generate", "-m", "toy", "--bos"], "").is_refused(&["--bos", "toy"]);
    std::fs::remove_file(qwen.0.join("tokenizer.json")).unwrap();
    qwen.generate(&["--prompt-tokens", "1", "--bos"]).is_refused(&["--bos", "tokenizer"]);
}

#[test]
fn a_beginning_that_is_also_the_end_cuts_nothing() {
    let qwen = Checkpoint::new("bos-is-eos");
    qwen.put("tokenizer_config.json", &json!({"bos_token": "<end>"}));
    let answer = qwen.generate(&["--template", "[MASK:1] w3", "--bos", "--json"]).is_fine().json();
    assert_eq!(answer["tokens"][0], EOS);
    assert!(answer["text"].as_str().unwrap().ends_with("w3"), "{answer}");
}

#[test]
fn use_ends_with_the_text_and_leaves_out_what_was_given() {
    let qwen = Checkpoint::new("useful");
    let canvas = ["--tokens", "1,38,M,M,38,M,2,M", "--json"];
    let answer = qwen.generate(&canvas).is_fine().json();
    let tokens: Vec<usize> = serde_json::from_value(answer["tokens"].clone()).unwrap();
    let filled = [2, 3, 5, 7];
    assert!(!filled.iter().any(|&at| tokens[at] == EOS), "the given ends are the only ones: {tokens:?}");
    assert_eq!(answer["useful_tokens"], 4);
    assert!(answer["text"].as_str().unwrap().contains("w2"), "a given end of text cuts nothing: {answer}");
    // Whatever is filled in first is the end of text now. Inside a gap it ends nothing, and what was given stays.
    qwen.config("eos_token_id", Some(json!(tokens[2])));
    let answer = qwen.generate(&canvas).is_fine().json();
    assert_eq!((&answer["tokens"], &answer["useful_tokens"]), (&json!(tokens), &json!(4)));
    let text = answer["text"].as_str().unwrap();
    assert!(
        text.starts_with("w1 <end> ") && !text.contains(&format!("w{}", tokens[2])) && text.contains("w2"),
        "{text}"
    );
}

/// A prompt and six masks, with what they were filled with.
fn filled(qwen: &Checkpoint, more: &[&str]) -> (Value, Vec<usize>) {
    let args = ["--prompt-tokens", "1,2,3", "-n", "6", "--json"];
    let answer = qwen.generate(&[&args, more].concat()).is_fine().json();
    let tokens = serde_json::from_value(answer["tokens"].clone()).unwrap();
    (answer, tokens)
}

#[test]
fn the_text_ends_behind_the_prompt_only() {
    let qwen = Checkpoint::new("ends");
    let (whole, tokens) = filled(&qwen, &[]);
    // Special tokens, from 36 on, are not shown.
    let words: Vec<String> = tokens.iter().filter(|token| **token < 36).map(|token| format!("w{token}")).collect();
    assert_eq!((&whole["text"], &whole["useful_tokens"]), (&json!(words.join(" ")), &json!(6)));
    // The prompt has w2: only what follows it is searched. The first word that is filled in cuts at once.
    assert_eq!(filled(&qwen, &["--stop", "w2 w3"]).0["text"], whole["text"]);
    let (cut, _) = filled(&qwen, &["--stop", "nowhere", "--stop", &words[3]]);
    assert_eq!((&cut["text"], &cut["useful_tokens"], &cut["tokens"]), (&json!("w1 w2 w3 "), &json!(0), &json!(tokens)));
    qwen.generate(&["w1", "--stop", ""]).is_refused(&["--stop"]);
    // End of text, or the end of a turn, is what was filled in first.
    qwen.config("eos_token_id", Some(json!(tokens[3])));
    let (cut, _) = filled(&qwen, &[]);
    assert_eq!((&cut["text"], &cut["useful_tokens"]), (&json!("w1 w2 w3"), &json!(0)));
    qwen.config("eos_token_id", Some(json!(EOS)));
    let path = qwen.0.join("tokenizer.json");
    let renamed = std::fs::read_to_string(&path).unwrap().replace(&format!("\"{}\"", words[3]), "\"<|im_end|>\"");
    std::fs::write(path, renamed).unwrap();
    let (cut, _) = filled(&qwen, &[]);
    assert_eq!((&cut["text"], &cut["useful_tokens"]), (&json!("w1 w2 w3"), &json!(0)));
}
