use crate::run::{run, scratch};
use std::fs;

/// Writes a trace of its own and gives its path.
fn trace(name: &str, options: &str) -> String {
    let path = scratch(name).display().to_string();
    run(&format!("generate -m toy -n 12 {options} --trace {path} --force")).is_fine();
    path
}

#[test]
fn a_replay_needs_no_model_and_ends_where_the_run_did() {
    for sampler in ["topk:2+ad", "p2:6@random@eta=2", "punt", "eb:3@entropy"] {
        let path = trace(&format!("replay-{}.jsonl", sampler.replace(':', "_")), &format!("-s {sampler}"));
        let run_again = run(&format!("generate -m toy -n 12 -s {sampler} --json")).is_fine().json();
        let replayed = run(&format!("trace replay {path} --json")).is_fine().json();
        for field in ["tokens", "text", "nfe"] {
            assert_eq!(replayed[field], run_again[field], "{sampler}: {field}");
        }
        let shown = run(&format!("trace replay {path}"));
        assert_eq!(shown.is_fine().stdout.trim_end(), run_again["text"].as_str().unwrap());
    }
}

#[test]
fn a_replay_shows_what_the_run_showed() {
    let path = trace("shown.jsonl", "-s topk:3+ad");
    let steps = |text: &str| text.lines().filter(|l| l.starts_with("step")).map(String::from).collect::<Vec<_>>();
    let live = run("generate -m toy -n 12 -s topk:3+ad --show");
    let replayed = run(&format!("trace replay {path}"));
    assert_eq!(steps(&live.stderr), steps(&replayed.stderr));
    assert_eq!(steps(&live.stderr).len(), 4);
}

#[test]
fn an_interrupted_trace_is_still_a_trace() {
    let path = trace("whole.jsonl", "-s topk:2");
    let cut = scratch("cut.jsonl");
    let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().take(3).map(String::from).collect();
    fs::write(&cut, lines.join("\n")).unwrap();
    let ran = run(&format!("trace replay {}", cut.display()));
    assert!(ran.is_fine().stderr.contains("(interrupted)"), "{ran}");
    assert!(ran.stdout.contains("[MASK]"), "{ran}");
}

#[test]
fn diff_says_where_and_why() {
    let a = trace("diff-a.jsonl", "-s topk:2");
    let b = trace("diff-b.jsonl", "-s topk:2+ad");
    let ran = run(&format!("trace diff {a} {b}"));
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("first divergence at step 2"), "{ran}");
    assert!(ran.stdout.contains("only A commits [1]") && ran.stdout.contains("only B commits [3]"), "{ran}");
    assert!(ran.stdout.contains("B deferred position 1") && ran.stdout.contains("attends to 0"), "{ran}");
    let same = run(&format!("trace diff {a} {a}"));
    assert!(same.is_fine().stdout.contains("the same after every step"), "{same}");
}

#[test]
fn bad_traces_are_refused() {
    run("trace replay /no/such/file").is_refused(&["/no/such/file", "No such file"]);
    let bad = scratch("bad.jsonl");
    let path = bad.display().to_string();
    for (text, mentions) in [
        ("", "line 1: the file is empty"),
        ("not json", "line 1: not JSON"),
        ("{}", "line 1: not a cofill trace"),
        (r#"{"cofill_trace":99}"#, "version 99"),
    ] {
        fs::write(&bad, text).unwrap();
        run(&format!("trace replay {path}")).is_refused(&[mentions, &path]);
    }
    let good = fs::read_to_string(trace("good.jsonl", "-s topk:2")).unwrap();
    let twice: Vec<&str> = good.lines().take(2).chain(good.lines().skip(1)).collect();
    fs::write(&bad, twice.join("\n")).unwrap();
    run(&format!("trace replay {path}")).is_refused(&["line 3", "step 0 where step 1 should be"]);
}
