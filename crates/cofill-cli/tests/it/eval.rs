use crate::qwen::Checkpoint;
use crate::run::{Ran, run, run_with, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A model that was never trained on the tasks; it answers something.
fn eval(dir: &str, more: &[&str]) -> Ran {
    run_with(&[&["eval", "--task", "predicates", "-m", dir, "-s", "topk:2", "--limit", "5"], more].concat(), "")
}

/// A file of results without what differs from run to run.
fn timeless(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let timeless = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line
    };
    text.lines().map(timeless).collect()
}

fn fresh(name: &str) -> PathBuf {
    let path = scratch(name);
    std::fs::remove_file(&path).ok();
    path
}

#[test]
fn a_score_comes_with_its_records_and_does_not_depend_on_the_batch() {
    let qwen = Checkpoint::new("eval");
    let dir = qwen.0.display().to_string();
    let records = |batch: &str| {
        let out = fresh(&format!("eval-{batch}.jsonl"));
        let name = out.display().to_string();
        let summary = eval(&dir, &["--json", "--batch", batch, "--out", &name]).is_fine().json();
        (summary, timeless(&out))
    };
    let (summary, one) = records("1");
    assert_eq!(one, records("3").1);
    let (header, records) = one.split_first().unwrap();
    let what = &header["what"];
    assert_eq!((&header["cofill_eval"], records.len()), (&json!(2), 5));
    assert_eq!(
        (&what["task"], &what["sampler"], &what["split"]),
        (&json!("predicates"), &json!("topk:2"), &json!("test"))
    );
    assert_eq!(what["model_sha256"].as_str().unwrap().len(), 64);
    assert!(header["made_by"]["commit"].is_string() && header["made_by"]["machine"]["threads"].is_u64(), "{header}");
    let right = records.iter().filter(|line| line["score"] == 1.0).count() as f64;
    assert_eq!((&summary["n"], &summary["score"]), (&json!(5), &json!(right / 5.0)));
    for (i, line) in records.iter().enumerate() {
        assert_eq!(line["doc_id"], i);
        assert_eq!(line["nfe"].as_u64().unwrap(), line["filled"].as_u64().unwrap().div_ceil(2), "{line}");
        assert_eq!(line["tokens"].as_array().unwrap().len() as u64, line["filled"].as_u64().unwrap());
        assert_eq!(line["score"] == 0.0, line["notes"]["why"].is_string(), "{line}");
        assert_eq!(line["filters"]["none"]["metrics"]["right"], line["score"]);
    }
    assert!(eval(&dir, &[]).is_fine().stdout.starts_with("predicates  topk:2  "));
}

#[test]
fn an_interrupted_run_is_continued_and_nothing_is_overwritten() {
    let qwen = Checkpoint::new("eval-resumed");
    let dir = qwen.0.display().to_string();
    let (whole, cut) = (fresh("eval-whole.jsonl"), fresh("eval-cut.jsonl"));
    let name = |path: &Path| path.display().to_string();
    let summary = eval(&dir, &["--json", "--out", &name(&whole)]).is_fine().json();
    let text = std::fs::read_to_string(&whole).unwrap();
    let torn = text.lines().take(3).map(str::len).sum::<usize>() + 10; // in the fourth line
    std::fs::write(&cut, &text[..torn]).unwrap();
    let resumed = eval(&dir, &["--json", "--out", &name(&cut), "--resume"]).is_fine().json();
    assert_eq!(timeless(&cut), timeless(&whole));
    assert_eq!((&resumed["score"], &resumed["nfe"]), (&summary["score"], &summary["nfe"]));
    // A finished one has nothing left to do; a lower limit is a part of it.
    assert_eq!(eval(&dir, &["--json", "--out", &name(&cut), "--resume"]).is_fine().json()["n"], 5);
    assert_eq!(timeless(&cut), timeless(&whole));
    eval(&dir, &["--out", &name(&cut)]).is_refused(&["exists", "--resume"]);
    eval(&dir, &["--out", &name(&cut), "--resume", "--temperature", "0.5"])
        .is_refused(&["holds another run", "its temperature is 0.0, and now temperature is 0.5"]);
    eval(&dir, &["--resume"]).is_refused(&["--out"]);
}

/// Killed without warning at twenty moments, continued each time: the file is that of a run that nobody disturbed.
#[test]
fn kills_lose_nothing() {
    let (whole, killed) = (fresh("eval-undisturbed.jsonl"), fresh("eval-killed.jsonl"));
    let line = |path: &Path| {
        format!("eval --task sudoku -m tiny-llada -s topk:2 --limit 60 --batch 2 --out {} --resume", path.display())
    };
    run(&line(&whole)).is_fine();
    let mut kills = 0;
    for i in 0..200u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cofill"))
            .args(line(&killed).split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Anywhere from before the file is opened to some way into the run.
        std::thread::sleep(Duration::from_millis(5 + i * 37 % 150));
        if child.try_wait().unwrap().is_some() || kills == 20 {
            child.wait().unwrap();
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    run(&line(&killed)).is_fine();
    assert!(kills > 5, "only {kills} kills: the run is too short to be disturbed");
    assert_eq!(timeless(&killed), timeless(&whole));
}

#[test]
fn a_sampler_that_looks_ahead_makes_fewer_steps_than_forwards() {
    let results = |sampler: &str| {
        let out = fresh("eval-steps.jsonl");
        let line = format!("eval --task predicates --limit 2 -s {sampler} --json --out {}", out.display());
        (run(&line).is_fine().json(), timeless(&out).split_off(1))
    };
    let (summary, records) = results("oracle");
    let mean = |key: &str| records.iter().map(|record| record[key].as_u64().unwrap() as f64).sum::<f64>() / 2.0;
    assert_eq!((&summary["nfe"], &summary["steps"]), (&json!(mean("nfe")), &json!(mean("steps"))));
    assert!(mean("steps") < mean("nfe"), "{summary}");
    let text = run("eval --task predicates --limit 2 -s oracle").is_fine().stdout.clone();
    assert!(text.contains(&format!("nfe {:.2} in {:.2} steps, ", mean("nfe"), mean("steps"))), "{text}");
    // Who does not look ahead has as many, and its records do not say so twice.
    let (summary, records) = results("topk:4");
    assert_eq!(summary["nfe"], summary["steps"]);
    assert!(records.iter().all(|record| record.get("steps").is_none()));
}

/// Whatever `generate` can be told, `eval` can, and the header says so.
#[test]
fn options_of_generate_are_options_of_eval() {
    let out = fresh("eval-options.jsonl");
    let name = out.display().to_string();
    let line =
        format!("eval --task chain --limit 2 --top-k 3 --logits-eos-inf --max-nfe 4 --stop #### --out {name} --json");
    let summary = run(&line).is_fine().json();
    assert_eq!((&summary["sampler"], &summary["nfe"]), (&json!("topk:2+ad:40"), &json!(4.0)));
    let what = &timeless(&out)[0]["what"];
    assert_eq!((&what["top_k"], &what["logits_eos_inf"], &what["max_nfe"]), (&json!(3), &json!(true), &json!(4)));
    assert_eq!((&what["stop"], what.get("top_p")), (&json!(["####"]), None), "the default is not named");
    run("eval --task chain --limit 1 --chat").is_refused(&["no chat template"]);
    run("eval --task predicates --limit 1 --chat").is_refused(&["predicates fills gaps", "--chat"]);
    run("eval --task chain --limit 1 -n 0").is_refused(&["length is 0"]);
    run("diagnose intervention --task chain --limit 1 --block 8").is_refused(&["--block", "not for diagnostics"]);
    run("diagnose intervention --task chain --limit 1 --resamples 10 --temperature 0.5 --logits-eos-inf").is_fine();
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

#[test]
fn answers_that_may_be_cut_off_are_counted() {
    // 8 of the 38 positions that an answer needs: none of three has an end.
    let ran = run("eval --task chain --limit 3 -n 8");
    assert!(ran.is_fine().stderr.contains("3 of 3 answers fill their positions without an end"), "{ran}");
    assert!(!run("eval --task chain --limit 3").is_fine().stderr.contains("cut off"));
}
