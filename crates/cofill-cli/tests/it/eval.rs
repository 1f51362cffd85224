use crate::qwen::Checkpoint;
use crate::run::{Ran, run, run_with, scratch};
use serde_json::{Value, json};

/// A model that was never trained on the tasks; it answers something.
fn eval(dir: &str, more: &[&str]) -> Ran {
    run_with(&[&["eval", "--task", "predicates", "-m", dir, "-s", "topk:2", "--limit", "5"], more].concat(), "")
}

#[test]
fn a_score_comes_with_its_records_and_does_not_depend_on_the_batch() {
    let qwen = Checkpoint::new("eval");
    let dir = qwen.0.display().to_string();
    let records = |batch: &str| {
        let out = scratch(&format!("eval-{batch}.jsonl"));
        let name = out.display().to_string();
        let summary = eval(&dir, &["--json", "--batch", batch, "--out", &name]).is_fine().json();
        let text = std::fs::read_to_string(out).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[5]), (6, &summary), "a line per prompt, and the score");
        lines
    };
    let one = records("1");
    assert_eq!(one, records("3"));
    let summary = &one[5];
    let field = |name: &str| summary[name].as_f64().unwrap();
    assert_eq!(
        (&summary["task"], &summary["sampler"], &summary["split"]),
        (&json!("predicates"), &json!("topk:2"), &json!("test"))
    );
    let right = one[..5].iter().filter(|line| line["right"] == true).count();
    assert_eq!((field("n"), field("right"), field("accuracy")), (5.0, right as f64, right as f64 / 5.0));
    for line in &one[..5] {
        assert_eq!(line["nfe"].as_u64().unwrap(), line["filled"].as_u64().unwrap().div_ceil(2), "{line}");
        assert_eq!(line["right"] == false, line["why"].is_string(), "{line}");
    }
    assert!(eval(&dir, &[]).is_fine().stdout.starts_with("predicates  topk:2  "));
}

#[test]
fn wrong_requests_are_refused() {
    run("eval --task predicates -m toy").is_refused(&["`toy` is no checkpoint"]);
    run("eval --task riddles -m toy").is_refused(&["riddles", "`chain`, `sums`"]);
    run("eval --task sums -m nowhere").is_refused(&["unknown model `nowhere`"]);
    run("eval --task sums -m toy --limit 0").is_refused(&["--limit"]);
    run("eval --task sums -m toy -s topk:0").is_refused(&["topk"]);
    let dir = Checkpoint::new("eval-refused").0.display().to_string();
    eval(&dir, &["--out", "/nowhere/x.jsonl"]).is_refused(&["--out", "/nowhere/x.jsonl"]);
}
