use crate::run::{run, scratch};
use std::fs;
use std::path::Path;
use std::process::Command;

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
fn a_page_is_printed_or_written_and_holds_the_trace() {
    let path = trace("page.jsonl", "-s topk:3+ad --seed 18446744073709551615");
    let printed = run(&format!("trace html {path}"));
    let page = &printed.is_fine().stdout;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("<dt>seed</dt><dd>18446744073709551615</dd>"), "{page}");
    let data = page.split_once("id=\"trace\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["steps"], run(&format!("trace replay {path} --json")).is_fine().json()["steps"]);
    let out = scratch("page.html");
    let written = run(&format!("trace html {path} -o {} --force", out.display()));
    assert_eq!(written.is_fine().stdout, "");
    assert!(written.stderr.contains(&format!("wrote {}", out.display())), "{written}");
    assert_eq!(fs::read_to_string(&out).unwrap(), *page);
}

#[test]
fn a_page_never_replaces_its_trace_nor_comes_of_something_else() {
    let path = trace("itself.jsonl", "-s topk:3");
    let before = fs::read(&path).unwrap();
    run(&format!("trace html {path} -o {path} --force")).is_refused(&["--out", &path, "the trace itself"]);
    assert_eq!(fs::read(&path).unwrap(), before);
    let (bad, out) = (scratch("no-trace.jsonl"), scratch("no-trace.html"));
    fs::write(&bad, "{}\n").unwrap();
    fs::remove_file(&out).ok();
    run(&format!("trace html {} -o {}", bad.display(), out.display())).is_refused(&["line 1: not a cofill trace"]);
    assert!(!out.exists());
}

/// Texts that would end a script, an attribute or a comment, or drive whoever shows them.
const HOSTILE: [&str; 7] = [
    "</script><script>window.hacked = 1</script>",
    "\"'><img src=x onerror=alert(1)>",
    "<!--",
    "&lt;b&amp;",
    "\u{0}\u{1b}[31m\u{85}\u{7f}",
    "\u{2028}\u{202e}",
    "\r\n\t",
];

/// Changes every line of a trace.
fn changed(path: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let line = |line: &str| {
        let mut line = serde_json::from_str(line).unwrap();
        change(&mut line);
        format!("{line}\n")
    };
    let text: String = fs::read_to_string(path).unwrap().lines().map(line).collect();
    fs::write(path, text).unwrap();
    path.to_owned()
}

/// What the browser computes, where there is node to do so: the script of the page, fed with what stands in pages.
#[test]
fn the_replay_in_a_browser_is_the_decode() {
    if Command::new("node").arg("--version").output().is_err() {
        println!("SKIPPED: there is no `node` to run the page's state.js");
        return;
    }
    let hostile = changed(&trace("node-hostile.jsonl", "-s topk:2+ad"), |line| {
        let pieces = line.get_mut("pieces").and_then(serde_json::Value::as_array_mut);
        for (piece, text) in pieces.into_iter().flatten().zip(HOSTILE.iter().cycle()) {
            *piece = (*text).into();
        }
    });
    let veto = changed(&trace("node-veto.jsonl", "-s topk:2"), |line| {
        if line["step"] == 0 {
            line["deferred"] = serde_json::json!({
                "position": 5, "confidence": 0.5, "by": 1, "through": [2, 3], "discount": 0.25, "waits": true
            });
        }
    });
    let (adas, p2) = (trace("node-adas.jsonl", "-s topk:2+ad"), trace("node-p2.jsonl", "-s p2:6@random@eta=2"));
    let grown = scratch("node-grown.jsonl").display().to_string();
    run(&format!("generate -n auto --block 20 -s llada:10 --trace {grown} --force")).is_fine();
    // As a server writes it: the text ends in the first step, and what is behind the end needs no forward.
    let ended = scratch("node-ended.jsonl").display().to_string();
    run(&format!("generate -m toy -n 6 -s topk:2 --trace {ended} --force")).is_fine();
    let ended = changed(&ended, |line| {
        let rest: Vec<usize> = (3..5).collect();
        match line["step"].as_u64() {
            Some(0) => line["collapsed"] = serde_json::json!({"by": 2, "token": 16, "positions": rest}),
            Some(1) => {
                line["n_masked"] = 2.into();
                line["candidates"] = 2.into();
                let commits = [0, 1].map(|position| {
                    serde_json::json!({"position": position, "token": position, "confidence": 0.5, "entropy": 0.0, "score": 0.5, "utility": 0.5})
                });
                line["commits"] = commits.to_vec().into();
                line["pieces"] = serde_json::json!(["a", "b"]);
            }
            _ => {}
        }
    });
    let lines = fs::read_to_string(&ended).unwrap();
    fs::write(&ended, lines.lines().take(3).collect::<Vec<_>>().join("\n")).unwrap();
    let case = |path: &String| {
        let page = run(&format!("trace html {path}"));
        let data = page.is_fine().stdout.split_once("id=\"trace\">").unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        serde_json::json!({"trace": data, "text": run(&format!("trace replay {path} --json")).is_fine().json()["text"]})
    };
    let cases: Vec<serde_json::Value> = [adas, p2, hostile, veto, grown, ended].iter().map(case).collect();
    let file = scratch("node-traces.json");
    fs::write(&file, serde_json::to_vec(&cases).unwrap()).unwrap();
    for (script, tests) in
        [("cofill-report/src/trace_page/state.test.mjs", 15), ("cofill-serve/page/page.test.mjs", 10)]
    {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(script);
        let ran = Command::new("node").arg(script).env("TRACES", &file).output().unwrap();
        let (said, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && said.contains(&format!("pass {tests}")), "{said}{failed}");
    }
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
