//! Tasks of one's own: the worked example, files that are wrong, rows and commands that are hostile.

use crate::run::{COFILL, Ran, run, run_with, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/own-task");

/// A folder of this test's own with files in it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = scratch(&format!("own-{name}"));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        files.iter().for_each(|(name, text)| folder.write(name, text.as_bytes()));
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// `cofill eval` of its task `t.toml`.
    fn eval(&self, more: &str) -> Ran {
        run(&format!("eval --task {} -s topk:4 {more}", self.path("t.toml")))
    }
}

const ROWS: &str = "{\"q\": \"Ana has 7 coins\", \"answer\": 7}\n{\"q\": \"Ben has 5 books\", \"answer\": 5}\n";

/// A task of two questions with this checker.
fn task(check: &str) -> String {
    format!("rows = \"rows.jsonl\"\nprompt = \"{{q}}. How many?\\n\"\nlength = 8\n[check]\n{check}\n")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_worked_example_is_scored() {
    let out = scratch("own-example.jsonl");
    std::fs::remove_file(&out).ok();
    let line = format!("eval --task {EXAMPLE}/stories.toml -s topk:4 --json --out {}", out.display());
    let summary = run(&line).is_fine().json();
    assert_eq!((&summary["task"], &summary["n"]), (&json!("stories"), &json!(40)));
    assert!(summary["score"].as_f64().unwrap() > 0.5, "{summary}");
    let records = lines(&std::fs::read_to_string(&out).unwrap());
    let what = &records[0]["what"];
    assert_eq!((&what["task"], &what["checker"], &what["split"]), (&json!("stories"), &json!("number"), &json!("all")));
    assert_eq!(what["task_sha256"].as_str().unwrap().len(), 64);
    assert_eq!((&what["data"][0]["rows"], &what["length"]), (&json!(40), &json!(38)));
    let right = records[1..].iter().filter(|record| record["score"] == 1.0).count();
    assert_eq!(summary["score"], right as f64 / 40.0);
    // Together or one by one, the records are the same.
    let alone = run(&format!("eval --task {EXAMPLE}/stories.toml -s topk:4 --json --batch 1")).is_fine().json();
    assert_eq!((&alone["score"], &alone["nfe"]), (&summary["score"], &summary["nfe"]));
    // Both splits together are all of it.
    let n = |split: &str| {
        let line = format!("eval --task {EXAMPLE}/stories.toml -s topk:8 --json --split {split}");
        run(&line).is_fine().json()["n"].as_u64().unwrap()
    };
    assert_eq!(n("test") + n("validation"), 40);
    run(&format!("eval --task {EXAMPLE}/stories.toml --split train")).is_refused(&["no train rows", "--split"]);
}

#[test]
fn a_command_runs_only_if_it_is_allowed() {
    let line = format!("eval --task {EXAMPLE}/steps.toml -s topk:4 --limit 20 --json");
    run(&line).is_refused(&["`python3` `check_steps.py`", "own-task`", "--allow-command"]);
    let summary = run(&format!("{line} --allow-command")).is_fine().json();
    assert_eq!((&summary["n"], &summary["unjudged"]), (&json!(20), &json!(0)));
    // Shares of steps, not only right and wrong.
    let score = summary["filters"]["none"]["score"]["mean"].as_f64().unwrap();
    assert!(score > 0.5, "{summary}");
    run(&format!("eval --task {EXAMPLE}/stories.toml --allow-command"))
        .is_refused(&["--allow-command is for task files"]);
}

#[test]
fn a_broken_command_leaves_answers_unjudged() {
    let half = "while read -r line; do case $line in *Ana*) echo '{\\\"score\\\": 1}';; *) echo no such file >&2; exit 3;; esac; done";
    let check = |script: &str| task(&format!("kind = \"command\"\nargv = [\"sh\", \"-c\", \"{script}\"]"));
    let folder = Folder::new("broken", &[("t.toml", &check(half)), ("rows.jsonl", ROWS)]);
    let ran = folder.eval("--json --allow-command");
    let summary = ran.is_fine().json();
    assert_eq!((&summary["score"], &summary["unjudged"]), (&json!(0.5), &json!(1)), "{ran}");
    assert!(ran.stderr.contains("doc_id 1: the judge failed") && ran.stderr.contains("no such file"), "{ran}");
    folder.write("t.toml", check("echo garbage").as_bytes());
    let ran = folder.eval("--json --allow-command");
    assert_eq!((ran.code, ran.json()["unjudged"].clone()), (1, json!(2)), "{ran}");
    assert!(ran.stderr.contains("the score means nothing"), "{ran}");
}

#[test]
fn another_file_is_another_run() {
    let folder = Folder::new("another", &[("t.toml", &task("kind = \"number\"")), ("rows.jsonl", ROWS)]);
    let out = folder.path("out.jsonl");
    folder.eval(&format!("--out {out}")).is_fine();
    folder.eval(&format!("--out {out} --resume")).is_fine();
    folder.write("rows.jsonl", ROWS.replace('7', "8").as_bytes());
    folder.eval(&format!("--out {out} --resume")).is_refused(&["holds another run", "its data is"]);
    folder.write("rows.jsonl", ROWS.as_bytes());
    folder.write("t.toml", task("kind = \"number\"\ntake = \"first\"").as_bytes());
    folder.eval(&format!("--out {out} --resume")).is_refused(&["holds another run", "its task_sha256 is"]);
}

#[test]
fn a_sweep_takes_it_from_the_recipes_folder() {
    let recipe =
        "[[sweep]]\nmodels = [\"tiny-llada\"]\ntasks = [\"t.toml\", \"chain\"]\nsamplers = [\"topk:8\"]\nlimit = 2\n";
    let files =
        [("t.toml", task("kind = \"number\"")), ("rows.jsonl", ROWS.into()), ("recipe.toml", recipe.to_owned())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = Folder::new("sweep", &files);
    let (recipe_path, dir) = (folder.path("recipe.toml"), folder.path("runs"));
    let ran = run(&format!("sweep plan {recipe_path} {dir}"));
    assert!(ran.is_fine().stdout.contains("2 points, 2 of them new"), "{ran}");
    // A worker starts wherever its scheduler likes.
    let worker = Command::new(COFILL).args(["sweep", "work", &dir]).current_dir("/").output().unwrap();
    assert!(worker.status.success(), "{}", String::from_utf8_lossy(&worker.stderr));
    let merged = run(&format!("sweep merge {dir} --json"));
    let tasks: Vec<Value> = lines(&merged.is_fine().stdout).iter().map(|line| line["task"].clone()).collect();
    assert_eq!(tasks, ["chain", "t"]);
    let report = run(&format!("report {dir}"));
    assert!(report.is_fine().stdout.contains("on t, chain") || report.stdout.contains("chain, t"), "{report}");
    // Other rows are other units; the same ones are done.
    assert!(run(&format!("sweep plan {recipe_path} {dir}")).is_fine().stdout.contains("0 of them new; 0 units"));
    folder.write("rows.jsonl", ROWS.replace('7', "8").as_bytes());
    assert!(run(&format!("sweep plan {recipe_path} {dir}")).is_fine().stdout.contains("1 of them new; 1 unit"));
    folder.write("rows.jsonl", b"{\"q\": 1}");
    run(&format!("sweep plan {recipe_path} {dir}")).is_refused(&[
        "recipe.toml`, line 3",
        "line 1 of `rows.jsonl`",
        "`answer`",
    ]);
    // A command is refused before anything is planned.
    folder.write("t.toml", task("kind = \"command\"\nargv = [\"true\"]").as_bytes());
    let other = folder.path("other");
    run(&format!("sweep run {recipe_path} {other}")).is_refused(&["`true`", "--allow-command"]);
    assert!(!Path::new(&other).exists());
}

#[test]
fn recipes_say_where_they_are_wrong() {
    let recipe = |lines: &str| format!("[[sweep]]\n{lines}\nsamplers = [\"topk:8\"]\nlimit = 1\n");
    let folder = Folder::new("recipe", &[]);
    let refused = |lines: &str, said: &[&str]| {
        folder.write("r.toml", recipe(lines).as_bytes());
        run(&format!("sweep plan {} {}", folder.path("r.toml"), folder.path("runs"))).is_refused(said);
    };
    refused(
        "models = [\"tiny-lada\"]\ntasks = [\"chain\"]",
        &["r.toml`, line 2, `models = [\"tiny-lada\"]`: unknown model", "did you mean `tiny-llada`?"],
    );
    refused("models = [tiny-llada]\ntasks = [\"chain\"]", &["line 2", "in quotes: \"tiny-llada\""]);
    refused("models = [\"tiny-llada\"]\ntasks = [\"nowhere.toml\"]", &["line 3", "nowhere.toml` cannot be read"]);
    refused(
        "models = [\"tiny-llada\"]\ntasks = [\"chain\"]\nshots = 2",
        &["line 4, `shots = 2`: shots is for benchmarks"],
    );
    assert!(!Path::new(&folder.path("runs")).exists(), "nothing is planned");
}

#[test]
fn options_that_a_task_does_not_have_are_errors() {
    run("eval --task chain --shots 2").is_refused(&[
        "--shots is for benchmarks",
        "`chain` is a mini task",
        "leave it out",
    ]);
    run("eval --task chain --wrapper dream").is_refused(&["--wrapper is for benchmarks"]);
    run("eval --task chain --ranks 2").is_refused(&["--ranks is for gsm8k"]);
    run("eval --task chain --data /tmp").is_refused(&["--data is for benchmarks and infill"]);
    run("eval --task chain --unsafe-exec").is_refused(&["--unsafe-exec is for tasks that run generated programs"]);
    run("eval --task chain --math sympy").is_refused(&["--math is for math500"]);
    run("eval --task predicates -n 8").is_refused(&["--length is for tasks that continue a prompt", "fills gaps"]);
    run("diagnose intervention --task chain,sums --shots 2").is_refused(&["--shots is for benchmarks"]);
    run(&format!("eval --task {EXAMPLE}/stories.toml --corpus-seed 3"))
        .is_refused(&["--corpus-seed is for mini tasks"]);
    run(&format!("eval --task {EXAMPLE}/stories.toml --shots 3")).is_refused(&["no few-shot rows", "add [fewshot]"]);
    run(&format!("eval --task {EXAMPLE}/stories.toml --python python3.9"))
        .is_refused(&["--python is for tasks that run Python"]);
    run("eval --task /nowhere/x.toml").is_refused(&["/nowhere/x.toml` cannot be read"]);
    run("eval --task sub/chain.toml").is_refused(&["would be called `chain`", "rename the file"]);
}

#[test]
fn prompts_and_scores_of_other_engines() {
    let shots = "[fewshot]\nrows = [{ q = \"Eli has 3 cards\", answer = 3 }]\n";
    let text = format!("{}{shots}", task("kind = \"number\""));
    let folder = Folder::new("engines", &[("t.toml", &text), ("rows.jsonl", ROWS)]);
    let path = folder.path("t.toml");
    let prompts = lines(&run(&format!("prompts --task {path} --json")).is_fine().stdout);
    assert_eq!(prompts[1]["prompt"], "Eli has 3 cards. How many?\n3\n\nBen has 5 books. How many?\n");
    let none = run(&format!("prompts --task {path} --shots 0 --limit 1"));
    assert_eq!(none.is_fine().stdout, "=== t 0\nAna has 7 coins. How many?\n\n");
    let predictions = "{\"doc_id\": 1, \"raw_output\": \"It is 5.<eos>9\"}\n{\"doc_id\": 0, \"raw_output\": \"none\", \"case_id\": \"x\"}\n";
    let arguments = ["score", "--task", &path, "--predictions", "-", "--json", "--special", "<eos>"];
    let ran = run_with(&arguments, predictions);
    let scores = lines(&ran.is_fine().stdout);
    assert_eq!(scores[0]["filters"]["none"], json!({"filtered": "5", "metrics": {"right": 1.0}}));
    assert_eq!((&scores[1]["case_id"], &scores[1]["why"]), (&json!("x"), &json!("there is no number in it")));
    assert_eq!(scores[2]["summary"]["filters"]["none"]["right"]["mean"], 0.5);
    run_with(&arguments, "{\"doc_id\": 2, \"raw_output\": \"\"}").is_refused(&[
        "line 1",
        "t has no doc_id 2",
        "0 to 1",
    ]);
    run("prompts --task chain").is_refused(&["cofill mini corpus --task chain"]);
    run("score --task chain --predictions -").is_refused(&["cofill mini check --task chain"]);
    run("prompts --task gsm8k").is_refused(&["gsm8k needs its data files", "--data"]);
}

/// On a terminal, which only a program with one sees.
#[cfg(target_os = "linux")]
#[test]
fn score_shows_how_far_it_is() {
    // Slow enough that a line which is drawn ten times a second is drawn.
    let slow = "sleep 0.5; while read -r line; do echo '{\\\"score\\\": 1}'; done";
    let check = format!("kind = \"command\"\nargv = [\"sh\", \"-c\", \"{slow}\"]");
    let folder = Folder::new("progress", &[("t.toml", &task(&check)), ("rows.jsonl", ROWS)]);
    let predictions = "{\"doc_id\": 1, \"raw_output\": \"5\"}\n".repeat(40);
    folder.write("p.jsonl", predictions.as_bytes());
    let line = ["score", "--task", &folder.path("t.toml"), "--predictions", &folder.path("p.jsonl"), "--allow-command"]
        .map(|word| format!("{word:?}"));
    let script = format!("import pty; pty.spawn([{:?}, {}])", COFILL, line.join(", "));
    let seen = Command::new("python3")
        .args(["-c", &script])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("/40") && seen.contains("answers to t"), "{seen:?}");
    assert!(seen.contains("100.0 %"), "{seen:?}");
    // And nothing of it in a pipe.
    let piped = run(&format!(
        "score --task {} --predictions {} --allow-command",
        folder.path("t.toml"),
        folder.path("p.jsonl")
    ));
    assert_eq!(piped.is_fine().stderr, "");
}

#[cfg(target_os = "linux")]
#[test]
fn programs_are_judged_in_the_sandbox() {
    let check = "kind = \"python\"\nprogram = \"{_answer}\\nassert f(1) == {answer}\"\ntimeout = 20";
    let rows = "{\"q\": \"Write f\", \"answer\": 1}\n";
    let folder = Folder::new("python", &[("t.toml", &task(check)), ("rows.jsonl", rows)]);
    let answers = ["def f(x): return x", "def f(x): return 2", "open('/etc/passwd')", "x = '\\u0000'"];
    let predictions: String = answers
        .iter()
        .map(|answer| format!("{}\n", json!({"doc_id": 0, "raw_output": answer.replace("\\u0000", "\0")})))
        .collect();
    let ran = run_with(&["score", "--task", &folder.path("t.toml"), "--predictions", "-", "--json"], &predictions);
    let scores = lines(&ran.is_fine().stdout);
    let right: Vec<&Value> = scores[..4].iter().map(|line| &line["filters"]["none"]["metrics"]["right"]).collect();
    assert_eq!(right, [&json!(1.0), &json!(0.0), &json!(0.0), &json!(0.0)], "{ran}");
    assert!(scores[4]["summary"]["execution"].as_str().unwrap().starts_with("Python 3"), "{ran}");
    run(&format!("score --task {} --predictions - --python /nowhere/python", folder.path("t.toml")))
        .is_refused(&["--python"]);
}

#[test]
fn answers_are_held_to_the_options() {
    let text = task("kind = \"choice\"\noptions = [\"seven\", \"five\"]\nconstrain = true")
        .replace("length = 8", "length = 24");
    let rows = ROWS.replace("\"answer\": 7", "\"answer\": \"seven\"").replace("\"answer\": 5", "\"answer\": 1");
    let folder = Folder::new("held", &[("t.toml", &text), ("rows.jsonl", &rows)]);
    let out = folder.path("out.jsonl");
    folder.eval(&format!("--out {out}")).is_fine();
    let records = lines(&std::fs::read_to_string(&out).unwrap());
    assert_eq!(records[0]["what"]["choice"], json!(["seven", "five"]));
    for record in &records[1..] {
        assert!(["seven", "five"].contains(&record["text"].as_str().unwrap()), "{record}");
    }
    folder.eval("--regex x").is_refused(&["constraint", "holds answers to its options"]);
}

#[test]
fn hostile_rows_are_refused_or_asked() {
    let folder = Folder::new("hostile", &[("t.toml", &task("kind = \"exact\""))]);
    let with = |bytes: &[u8]| {
        folder.write("rows.jsonl", bytes);
        folder.eval("--json")
    };
    with(b"{\"q\": \"a\", \"answer\": \"b\"}\n{\"q\": \"\xff\"}").is_refused(&["line 2 of `rows.jsonl`", "not UTF-8"]);
    let long = json!({"q": "word ".repeat(20_000), "answer": "b"}).to_string();
    with(long.as_bytes()).is_refused(&["line 1 of `rows.jsonl`", "positions", "shorten it"]);
    // NUL, control characters and templates in values are texts like any other.
    let odd = json!({"q": "\0\u{1b}[31m {q} {{ [MASK:4]", "answer": "\0"}).to_string();
    assert_eq!(with(odd.as_bytes()).is_fine().json()["n"], 1);
    let mask = json!({"q": "<|mask|><|mdm_mask|>[MASK]", "answer": "b"}).to_string();
    let ran = with(mask.as_bytes());
    assert!(ran.code == 0 || ran.stderr.contains("mask token"), "{ran}");
}

/// A signal ends the command before it ends us, and nothing of it is recorded.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_the_command_too() {
    let folder = Folder::new("signal", &[("rows.jsonl", ROWS)]);
    let (pid, out) = (folder.path("pid"), folder.path("out.jsonl"));
    let script = format!("sleep 3600 & echo $! > {pid}.new; mv {pid}.new {pid}; wait");
    folder.write(
        "t.toml",
        task(&format!("kind = \"command\"\nargv = [\"sh\", \"-c\", \"{script}\"]\ntimeout = 3600")).as_bytes(),
    );
    let mut child = Command::new(COFILL)
        .args(["eval", "--task", &folder.path("t.toml"), "--allow-command", "--out", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |mut until: Box<dyn FnMut() -> bool + '_>| {
        assert!((0..30_000).any(|_| until() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    };
    wait(Box::new(|| Path::new(&pid).exists()));
    let sleeper = std::fs::read_to_string(&pid).unwrap().trim().to_owned();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    wait(Box::new(|| {
        let status = std::fs::read_to_string(format!("/proc/{sleeper}/status")).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    }));
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 1, "a header and no record");
}
