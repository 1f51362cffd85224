//! What is said and kept when a run is broken off, and what a sweep that is under way can be asked.

use crate::run::{COFILL, run, scratch};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts `cofill` and does not wait.
fn start(line: &str) -> Child {
    let words = line.split_whitespace();
    Command::new(COFILL).args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends it as a scheduler or Ctrl-C would once `begun` is true; what it said on stderr.
fn interrupt(child: Child, begun: impl Fn() -> bool) -> String {
    let since = Instant::now();
    while !begun() {
        assert!(since.elapsed() < Duration::from_secs(120), "nothing was begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Not SIGINT: jobs in the background of a shell are deaf to it, and so may be whoever runs these tests.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), None, "a signal ended it, and it says so");
    String::from_utf8(output.stderr).unwrap()
}

fn lines(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

#[test]
fn an_eval_says_what_it_kept_and_how_to_go_on() {
    let out = scratch("interrupted-eval.jsonl");
    std::fs::remove_file(&out).ok();
    let line = format!("eval --task chain -s topk:1 --batch 1 --limit 2000 --out {}", out.display());
    let said = interrupt(start(&line), || lines(&out) > 2);
    let kept = lines(&out) - 1;
    let said_kept: usize = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    // A record that was written in the last moment may not be counted.
    assert!(said.starts_with("interrupted: ") && (said_kept == kept || said_kept + 1 == kept), "{said}{kept}");
    let command = said.trim_end().rsplit_once("to go on: cofill ").unwrap().1;
    assert_eq!(command, format!("{line} --resume"));
    // The same with fewer questions ends.
    let fewer = command.replace("--limit 2000", &format!("--limit {}", kept + 1));
    run(&fewer).is_fine();
    assert_eq!(lines(&out), kept + 2);
}

/// A recipe of two samplers, one of which takes long.
fn sweep(name: &str, limit: usize) -> (PathBuf, String, String) {
    let folder = scratch(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    let recipe = folder.join("recipe.toml");
    let text = format!(
        "about = \"a test\"\n[[sweep]]\nmodels = [\"tiny-llada\"]\ntasks = [\"sudoku\"]\nsamplers = [\"topk:{{1,16}}\"]\nlimit = {limit}\nbatch = 1\n"
    );
    std::fs::write(&recipe, text).unwrap();
    let (recipe, dir) = (recipe.display().to_string(), folder.join("run").display().to_string());
    (folder, recipe, dir)
}

#[test]
fn a_sweep_that_was_broken_off_can_be_asked_reported_and_continued() {
    let (folder, recipe, dir) = sweep("interrupted-sweep", 40);
    let dry = run(&format!("sweep plan {recipe} {dir} --dry-run --unit 4"));
    assert!(dry.is_fine().stdout.contains("2 points, 2 of them new; 20 units would be added"), "{dry}");
    assert!(dry.stdout.contains("for 80 prompts, with one worker on this machine (2 of 2 points tried)"), "{dry}");
    assert!(!folder.join("run").exists(), "a dry run writes nothing");
    run(&format!("report {dir}")).is_refused(&["interrupted-sweep/run"]);
    run(&format!("sweep plan {recipe} {dir} --unit 4")).is_fine();
    run(&format!("report {dir}")).is_refused(&["no point is complete yet: 0 of 80 prompts", "cofill sweep work"]);

    let done = || std::fs::read_dir(folder.join("run/done")).map_or(0, Iterator::count);
    let said = interrupt(start(&format!("sweep run {recipe} {dir} --unit 4")), || done() >= 11);
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("interrupted: ") && last.contains("keeps all answers (1 of 2 points"), "{said}");
    assert!(last.contains("the same command goes on"), "{said}");

    let status = run(&format!("sweep status {dir}"));
    assert!(status.is_fine().stdout.contains("1 of 2 points complete"), "{status}");
    assert!(status.stdout.contains("nobody is at work; `cofill sweep work"), "{status}");
    let json: Value = run(&format!("sweep status {dir} --json")).is_fine().json();
    assert_eq!((&json["points"], &json["complete"], &json["prompts"]), (&2.into(), &1.into(), &80.into()));
    assert_eq!(json["groups"][0]["done"], json["done"]);
    let report = run(&format!("report {dir} --resamples 10 --json"));
    assert!(report.is_fine().stderr.contains("1 of 2 points not complete and left out"), "{report}");
    assert_eq!(report.json()["points"].as_array().unwrap().len(), 1, "{report}");

    let dry = run(&format!("sweep plan {recipe} {dir} --dry-run --unit 4"));
    let left = 80 - json["done"].as_u64().unwrap();
    assert!(dry.is_fine().stdout.contains(&format!("0 units would be added to `{dir}`")), "{dry}");
    assert!(dry.stdout.contains(&format!("for {left} prompts")), "{dry}");
    run(&format!("sweep work {dir}")).is_fine();
    let report = run(&format!("report {dir} --resamples 10 --json"));
    assert_eq!(
        report.is_fine().json()["points"].as_array().unwrap().len(),
        2,
        "what is complete now is used: {report}"
    );
    assert!(!report.stderr.contains("not complete"), "{report}");
    let whole = run(&format!("sweep status {dir}"));
    assert!(whole.is_fine().stdout.contains("2 of 2 points complete, 80 of 80 prompts"), "{whole}");
    let dry = run(&format!("sweep plan {recipe} {dir} --dry-run --unit 4"));
    assert!(dry.is_fine().stdout.contains("nothing is left to do"), "{dry}");
}

#[test]
fn workers_that_are_at_it_are_shown() {
    let (folder, recipe, dir) = sweep("interrupted-workers", 400);
    run(&format!("sweep plan {recipe} {dir} --unit 400")).is_fine();
    let worker = start(&format!("sweep work {dir}"));
    let begun = || std::fs::read_dir(folder.join("run/parts")).is_ok_and(|mut parts| parts.next().is_some());
    let since = Instant::now();
    while !begun() {
        assert!(since.elapsed() < Duration::from_secs(120), "nothing was begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    let json = run(&format!("sweep status {dir} --json")).is_fine().json();
    assert_eq!(json["workers"][0]["pid"], worker.id(), "{json}");
    assert_eq!(json["workers"][0]["units"], 1, "{json}");
    interrupt(worker, || true);
    let json = run(&format!("sweep status {dir} --json")).is_fine().json();
    assert_eq!(json["workers"], Value::Array(Vec::new()), "the dead are not at work");
}
