use crate::run::{run, run_with, scratch};
use serde_json::{Value, json};

const SCHEMA: &str = r#"{"type": "object", "properties": {"b": {"enum": ["x", "y"]}, "a": {"type": "integer"}}, "required": ["b", "a"]}"#;

fn folder(name: &str) -> std::path::PathBuf {
    let folder = scratch(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn expressions_and_choices() {
    let ran = run_with(&["generate", "-m", "toy", "-n", "6", "-s", "topk:2", "--regex", "Grace .* New .*"], "");
    assert_eq!(ran.is_fine().stdout, "Grace Kelly visited New York again\n");
    let ran = run_with(&["generate", "-m", "toy", "--choice", "New York", "--choice", "San Jose"], "");
    assert!(["New York\n", "San Jose\n"].contains(&ran.is_fine().stdout.as_str()), "{ran}");
}

#[test]
fn a_schema_from_a_file_in_its_order() {
    let dir = folder("schema");
    let (file, trace) = (dir.join("schema.json"), dir.join("trace.jsonl"));
    std::fs::write(&file, SCHEMA).unwrap();
    let (schema, trace) = (file.to_str().unwrap(), trace.to_str().unwrap());
    let args = ["generate", "x", "-n", "24", "--schema", schema, "--json", "--trace", trace, "--force"];
    let answer = run_with(&args, "").is_fine().json();
    let text = answer["text"].as_str().unwrap().strip_prefix('x').unwrap().to_owned();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(value["a"].is_i64() && [json!("x"), json!("y")].contains(&value["b"]), "{text}");
    assert!(text.find("\"b\"") < text.find("\"a\""), "{text}");
    // What the model alone thought is beside what is left of it; the trace is read as any other.
    let steps = std::fs::read_to_string(trace).unwrap();
    assert!(steps.lines().nth(1).unwrap().contains("clean_confidence"), "{steps}");
    run_with(&["trace", "replay", trace], "").is_fine();
    run_with(&["trace", "diff", trace, trace], "").is_fine();
    let templated = ["generate", "--schema", schema, "--template", "{\"b\": \"[MASK:1]\", \"a\": [MASK:2]}", "--json"];
    let answer = run_with(&templated, "").is_fine().json();
    let value: Value = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
    assert!(value["a"].is_i64(), "{value}");
}

#[test]
fn what_cannot_be_held_is_refused() {
    let dir = folder("unsupported");
    let file = dir.join("schema.json");
    std::fs::write(&file, r#"{"type": "object", "patternProperties": {}}"#).unwrap();
    run_with(&["generate", "x", "--schema", file.to_str().unwrap()], "")
        .is_refused(&["`patternProperties`", "not supported"]);
    run("generate x --schema nowhere.json").is_refused(&["--schema", "nowhere.json"]);
    run("generate x --regex (").is_refused(&["the regular expression `(` cannot be used"]);
    run("generate x --regex a --choice b").is_refused(&["one of schema, regex and choice", "regex and choice"]);
    run("generate x --regex a{9} -n 3").is_refused(&["shortest valid text has 9 tokens", "room for 3", "-n 9"]);
    run("explain x --regex a").is_refused(&["--regex is not for explain"]);
    run("diagnose intervention --choice a").is_refused(&["--choice is not for diagnostics"]);
}

#[test]
fn scores_are_of_texts_in_the_language() {
    let dir = folder("held-eval");
    let out = dir.join("held.jsonl");
    let rows = "([1-4] [1-4] [1-4] [1-4]\\n){3}[1-4] [1-4] [1-4] [1-4]";
    let args = [
        "eval",
        "--task",
        "sudoku",
        "-s",
        "topk:8",
        "--limit",
        "4",
        "--regex",
        rows,
        "--out",
        out.to_str().unwrap(),
        "--force",
    ];
    run_with(&args, "").is_fine();
    let lines = std::fs::read_to_string(&out).unwrap();
    assert!(lines.lines().next().unwrap().contains("\"regex\":"), "{lines}");
    for record in lines.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let text = record["text"].as_str().unwrap();
        let is_row = |row: &str| row.len() == 7 && row.split(' ').all(|cell| ["1", "2", "3", "4"].contains(&cell));
        assert!(text.lines().count() == 4 && text.lines().all(is_row), "{text}");
    }
}

#[test]
fn overhead_is_measured_in_pairs() {
    let size = "--hidden 32 --layers 1 --heads 2 --mlp 64 --vocab 4096 --positions 200 --masked 160";
    let answer = run(&format!("bench constraint {size} --pairs 2 --json")).is_fine().json();
    assert!(answer["ratio"].as_f64().unwrap() > 0.0 && answer["classes"].as_u64().unwrap() > 10, "{answer}");
}
