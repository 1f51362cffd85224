//! Programs that a model wrote, scored by the command: long answers, judges that break down, other cofills, signals.

use crate::run::{COFILL, Ran, run_with, scratch};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder with a HumanEval and an MBPP of our own, of one question each: write `f(x)` that gives `x` back.
fn data(name: &str) -> String {
    let folder = scratch(&format!("judging-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, row: Value| std::fs::write(folder.join(name), format!("{row}\n")).unwrap();
    let test = "def check(f):\n    assert f(1) == 1\n";
    write("humaneval_test.jsonl", json!({"prompt": "def f(x):\n", "test": test, "entry_point": "f"}));
    let tests = ["assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"];
    write("mbpp_test.jsonl", json!({"text": "Do it.", "test_list": tests}));
    write("mbpp_fewshot3.jsonl", json!({"text": "Shot.", "test_list": tests, "code": "a = 1"}));
    folder.display().to_string()
}

fn score(task: &str, data: &str, answers: &[&str], more: &[&str]) -> Ran {
    let lines = answers.iter().map(|answer| format!("{}\n", json!({"doc_id": 0, "raw_output": answer})));
    let arguments = ["score", "--task", task, "--data", data, "--predictions", "-", "--json"];
    run_with(&[&arguments, more].concat(), &lines.collect::<String>())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_long_answer_is_scored_like_a_short_one() {
    let data = data("long");
    let padded = |word: &str, n: usize| format!("    y = '{}'\n    return x\n", word.repeat(n));
    let answers = [padded("y", 3_600), padded("漢", 600), padded("y", 100_000), "    return x\n".into()];
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let ran = score("humaneval", &data, &answers, &[]);
    let scores = lines(&ran.is_fine().stdout);
    for line in &scores[..4] {
        for filter in ["create_test", "dream_sanitized"] {
            assert_eq!(line["filters"][filter]["metrics"]["pass@1"], 1.0, "{filter}: {ran}");
        }
    }
    assert_eq!((&scores[4]["summary"]["n"], &scores[4]["summary"]["unjudged"]), (&json!(4), &json!(0)));
}

/// A Python that works for the sandbox's own trials and is gone when the answers come.
#[test]
fn a_judge_that_breaks_down_scores_the_answer_as_unjudged_and_goes_on() {
    let data = data("breaks");
    // Packages are imported before the program's time begins; this one takes Python with it.
    let folder = scratch("judging-venv");
    let _ = std::fs::remove_dir_all(&folder);
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packages = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    std::fs::write(packages.join("deadly.py"), "import os\nos._exit(1)\n").unwrap();
    let python = folder.join("bin/python").display().to_string();
    let right = "def f(x):\n    return x\n";
    let ran = score("mbpp", &data, &[right, "import deadly\n", right], &["--python", &python]);
    let scores = lines(&ran.is_fine().stdout);
    let metric = |line: &Value| line["filters"]["none"]["metrics"]["pass_at_1"].clone();
    assert_eq!([metric(&scores[0]), metric(&scores[1]), metric(&scores[2])], [1.0, 0.0, 1.0], "{ran}");
    assert!(scores[1]["judge_failed"].as_str().unwrap().contains("Python ended before the program began"), "{ran}");
    assert_eq!(scores[3]["summary"]["unjudged"], 1);
    assert!(ran.stderr.contains("doc_id 0: the judge failed, and the answer counts as wrong"), "{ran}");
    assert!(ran.stderr.contains("1 of 3 answers could not be judged"), "{ran}");
    // A score of nothing but these is no score.
    let ran = score("mbpp", &data, &["import deadly\n"], &["--python", &python]);
    assert_eq!((ran.code, lines(&ran.stdout)[1]["summary"]["unjudged"].clone()), (1, json!(1)), "{ran}");
}

#[test]
fn half_a_surrogate_pair_does_not_refuse_the_file() {
    let data = data("surrogate");
    let right = r#"{"doc_id": 0, "raw_output": "def f(x):\n    return x\n"}"#;
    let stdin = format!("{right}\n{}\n{right}\n", r#"{"doc_id": 0, "raw_output": "\ud800"}"#);
    let ran = run_with(&["score", "--task", "mbpp", "--data", &data, "--predictions", "-", "--json"], &stdin);
    let scores = lines(&ran.is_fine().stdout);
    assert_eq!(scores[1]["filters"]["none"]["filtered"], "\u{fffd}");
    assert!((scores[3]["summary"]["filters"]["none"]["pass_at_1"]["mean"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert!(ran.stderr.contains("line 2 of --predictions: half a surrogate pair"), "{ran}");
}

/// Every signal that can be caught leaves no directory; SIGKILL's is removed by the next run.
#[cfg(target_os = "linux")]
#[test]
fn no_signal_leaves_files_behind() {
    let data = data("signals");
    let folder = scratch("judging-tmp");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let left = || -> Vec<PathBuf> { std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let predictions = folder.with_extension("jsonl");
    let line = json!({"doc_id": 0, "raw_output": "import time\ntime.sleep(2.9)\n"});
    std::fs::write(&predictions, format!("{line}\n").repeat(20)).unwrap();
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR1", "ALRM", "KILL"] {
        let mut child = Command::new(COFILL)
            .args(["score", "--task", "mbpp", "--json", "--data", &data, "--predictions"])
            .arg(&predictions)
            .env("TMPDIR", &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while left().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no sandbox was made");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "{signal} ends it as a signal does");
        assert_eq!(left().is_empty(), signal != "KILL", "SIG{signal} left {:?}", left());
    }
    // As if a minute had passed.
    for path in left() {
        let past = std::time::SystemTime::now() - Duration::from_secs(120);
        std::fs::File::open(path).unwrap().set_modified(past).unwrap();
    }
    let one = folder.with_extension("one.jsonl");
    std::fs::write(&one, format!("{}\n", json!({"doc_id": 0, "raw_output": ""}))).unwrap();
    let ran = Command::new(COFILL)
        .args(["score", "--task", "mbpp", "--data", &data, "--predictions"])
        .arg(&one)
        .env("TMPDIR", &folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(left(), Vec::<PathBuf>::new(), "the next run removes what SIGKILL left");
}
