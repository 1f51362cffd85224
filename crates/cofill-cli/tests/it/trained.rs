//! What needs something trained, from the command line: heads beside weights, and causal models beside diffusion models.

use crate::run::{run, scratch};
use serde_json::{Value, json};

/// The header and the first record that a score leaves in a file.
fn score(name: &str, line: &str) -> (Value, Value) {
    let out = scratch(name);
    std::fs::remove_file(&out).ok(); // of an earlier run
    run(&format!("eval --task chain --limit 2 {line} --out {}", out.display())).is_fine();
    let text = std::fs::read_to_string(&out).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (lines.next().unwrap()["what"].take(), lines.next().unwrap())
}

#[test]
fn a_head_is_named_in_what_it_decided_and_nowhere_else() {
    for model in ["tiny-llada", "tiny-dream"] {
        let shown = run(&format!("models inspect {model} --json")).is_fine().json();
        let (demask, record) = score("demask.jsonl", &format!("-m {model} -s demask"));
        assert_eq!(demask["pair_head_sha256"], shown["pair_head"]["sha256"]);
        assert!(record["nfe"].as_u64().unwrap() < 20 && record.get("companion_nfe").is_none(), "{record}");
        let (discounted, _) = score("learned.jsonl", &format!("-m {model} -s topk:4+ad@layer=learned"));
        assert_eq!(discounted["pair_head_sha256"], demask["pair_head_sha256"]);
        let (plain, _) = score("plain.jsonl", &format!("-m {model} -s topk:4+ad"));
        assert!(plain.get("pair_head_sha256").is_none(), "{plain}");
        assert_eq!(plain["model_sha256"], demask["model_sha256"]);
    }
    assert!(run("models inspect tiny-llada").is_fine().stdout.contains("learned influence  rank 32"));
}

#[test]
fn without_a_head_nothing_is_learned() {
    let file = scratch("headless.gguf");
    std::fs::remove_file(&file).ok(); // of an earlier run
    run(&format!("models quantise tiny-llada {} --dtype f16", file.display())).is_fine();
    let remedy = ["pair_head.safetensors", "tools/train/pairs.py"];
    run(&format!("generate -q -m {} -s demask", file.display())).is_refused(&remedy);
    run(&format!("eval --task chain -m {} -s topk:2+ad@layer=learned", file.display())).is_refused(&remedy);
    // The toy knows the truth.
    assert_eq!(run("generate -m toy -n 6 -s demask").is_fine().stdout, "Alan Turing visited San Diego again\n");
}

#[test]
fn a_companion_counts_and_is_named() {
    for model in ["tiny-llada", "tiny-dream"] {
        let (what, record) = score("apd.jsonl", &format!("-m {model} -s apd --companion tiny-causal"));
        assert_eq!((&what["companion"], what["companion_sha256"].as_str().unwrap().len()), (&json!("tiny-causal"), 64));
        let (nfe, companion) = (record["nfe"].as_u64().unwrap(), record["companion_nfe"].as_u64().unwrap());
        // A forward of each a step, but for a last step of one position.
        assert!(nfe == 2 * companion || nfe == 2 * companion + 1, "{record}");
        assert!(nfe < 38, "less than one position a forward: {record}");
    }
    let answer = run("generate -s apd:0.5 --companion tiny-causal --seed 1 --temperature 0.5 --json").is_fine().json();
    assert_eq!(answer["finish"], "complete", "{answer}");
}

#[test]
fn who_cannot_accompany_is_told_so() {
    run("generate -s apd").is_refused(&["companion", "none was given", "--companion tiny-causal"]);
    run("eval --task chain -s apd").is_refused(&["companion", "--companion tiny-causal"]);
    run("generate -s topk:2 --companion tiny-causal").is_refused(&["companion", "`topk:2` asks none"]);
    run("generate -m toy -s apd --companion tiny-causal").is_refused(&["--companion", "the toy"]);
    run("generate -s apd --companion tiny-dream").is_refused(&["`DreamModel`", "`Qwen2ForCausalLM`"]);
    run("generate -s apd --companion nowhere").is_refused(&["unknown model `nowhere`"]);
    run("generate -m tiny-causal").is_refused(&["`Qwen2ForCausalLM`", "fills no masks", "companion"]);
    run("diagnose intervention --companion tiny-causal").is_refused(&["--companion", "one model"]);
    let shown = run("models inspect tiny-causal --json").is_fine().json();
    assert_eq!((&shown["causal"], &shown["mask_id"]), (&json!(true), &Value::Null));
}
