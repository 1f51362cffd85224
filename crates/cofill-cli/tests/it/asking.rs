use crate::run::{COFILL, Ran, run, run_with, scratch};
use serde_json::json;
use std::process::{Command, Stdio};

const QUESTION: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

fn generate(args: &[&str], stdin: &str) -> Ran {
    run_with(&[&["generate"], args].concat(), stdin)
}

#[test]
fn a_piped_prompt_is_answered_as_one_that_is_typed() {
    let typed = generate(&[QUESTION, "--json"], "").is_fine().timeless();
    let file = scratch("prompt.txt");
    std::fs::write(&file, format!("{QUESTION}\n")).unwrap();
    let file = file.display().to_string();
    for stdin in
        [QUESTION.to_owned(), format!("{QUESTION}\n"), format!("{QUESTION}\r\n"), format!("\u{feff}{QUESTION}\n")]
    {
        assert_eq!(generate(&["--json"], &stdin).is_fine().timeless(), typed, "{stdin:?}");
        assert_eq!(generate(&["-", "--json"], &stdin).is_fine().timeless(), typed, "{stdin:?}");
        assert_eq!(generate(&["--prompt-file", "-", "--json"], &stdin).is_fine().timeless(), typed, "{stdin:?}");
    }
    assert_eq!(generate(&["--prompt-file", &file, "--json"], "").is_fine().timeless(), typed);
    // A prompt that no task asks is what was typed, too: one line break is the shell's, a second one is the prompt's.
    let other =
        |args: &[&str], stdin: &str| generate(&[args, &["-n", "4", "--json"]].concat(), stdin).is_fine().timeless();
    assert_eq!(other(&[], "hello\n"), other(&["hello"], ""));
    assert_eq!(other(&[], "hello\n\n"), other(&["hello\n"], ""));
    assert_ne!(other(&[], "hello\n\n")["tokens"], other(&[], "hello\n")["tokens"]);
    let explained =
        |args: &[&str], stdin: &str| run_with(&[&["explain", "--json"], args].concat(), stdin).is_fine().stdout.clone();
    assert_eq!(explained(&[], &format!("{QUESTION}\n")), explained(&[QUESTION], ""));
}

#[test]
fn a_pipe_is_read_only_where_nothing_else_says_what_to_fill() {
    let said = generate(&["-m", "toy", "-n", "2", "Ada"], "Grace\n");
    assert!(said.is_fine().stdout.starts_with("Ada "), "{said}");
    for args in [["--template", "Ada [MASK:1]"], ["--tokens", "0,M"], ["--prompt-tokens", "0"]] {
        let said = generate(&[&["-m", "toy", "-s", "topk:1"][..], &args].concat(), "not a word of the toy\n");
        assert!(said.is_fine().stdout.starts_with('A'), "{said}");
    }
    // `while read` loops and the like: what is not read is there for others.
    let script = format!(
        "printf 'one\\ntwo\\n' | (read x; '{COFILL}' generate -m toy -n 1 Ada -q >/dev/null; read y; echo $x $y)"
    );
    let loops = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8(loops.stdout).unwrap(), "one two\n");
    let closed = Command::new("sh").args(["-c", &format!("'{COFILL}' generate -m toy -n 1 -q <&-")]).output().unwrap();
    assert_eq!(String::from_utf8(closed.stdout).unwrap(), run("generate -m toy -n 1").is_fine().stdout);
}

#[test]
fn nothing_piped_is_no_prompt() {
    let null = Command::new(COFILL).args(["generate"]).stdin(Stdio::null()).output().unwrap();
    let (null_out, null_err) = (String::from_utf8(null.stdout).unwrap(), String::from_utf8(null.stderr).unwrap());
    let empty = generate(&[], "");
    assert_eq!(empty.is_fine().stdout, null_out);
    for said in [&empty.stderr, &null_err] {
        assert!(said.starts_with(&format!("no prompt was given; this example is asked: {QUESTION}\n")), "{said}");
    }
    generate(&["-"], "").is_refused(&["standard input is empty"]);
    generate(&["-"], "\n").is_refused(&["standard input is empty"]);
    assert!(!generate(&["-m", "toy"], "").is_fine().stderr.contains("no prompt"), "the toy needs none");
}

#[test]
fn bytes_that_are_no_prompt_are_refused_with_their_place() {
    let file = scratch("bytes");
    let name = file.display().to_string();
    for (bytes, words) in [(&b"ab\xff"[..], "byte 2 (0xff)"), (b"a\0b", "byte 1 is 0"), (b"", "is empty")] {
        std::fs::write(&file, bytes).unwrap();
        generate(&["--prompt-file", &name], "").is_refused(&["--prompt-file", &name, words]);
    }
    std::fs::write(&file, vec![b'a'; (16 << 20) + 1]).unwrap();
    generate(&["--prompt-file", &name], "").is_refused(&["more than 16 MiB"]);
    std::fs::remove_file(&file).unwrap();
    generate(&["--prompt-file", &name], "").is_refused(&["cannot read", &name]);
    generate(&["--prompt-file", env!("CARGO_TARGET_TMPDIR")], "").is_refused(&["is a folder"]);
    for other in [&["--template", "a [MASK:1]"][..], &["--tokens", "M"], &["--prompt-tokens", "1"], &["Ada"]] {
        let refused = generate(&[&["--prompt-file", "x"], other].concat(), "");
        assert!(refused.code == 2 && refused.stderr.contains("cannot be used with"), "{refused}");
        if other != ["Ada"] {
            let refused = generate(&[&["-"], other].concat(), "Ada");
            assert!(refused.code == 2 && refused.stderr.contains("cannot be used with"), "{refused}");
        }
    }
}

#[test]
fn the_answer_alone_stands_beside_the_whole_text() {
    let asked = generate(&[QUESTION, "--json"], "").is_fine().json();
    let (text, answer) = (asked["text"].as_str().unwrap(), asked["answer"].as_str().unwrap());
    assert_eq!(text, format!("{QUESTION}\n{answer}"));
    assert!(answer.starts_with("10*2=20\n") && answer.ends_with("#### 27"), "{answer}");
    assert_eq!(generate(&[QUESTION, "--answer-only"], "").is_fine().stdout, format!("{answer}\n"));
    assert!(asked.get("answers").is_none(), "there is only one");
    let toy =
        generate(&["-m", "toy", "--template", "Ada [MASK:1] likes [MASK:2] today", "--json"], "").is_fine().json();
    assert_eq!(toy["answers"], json!([" Lovelace", " San Diego"]));
    // Stop strings cut both.
    let cut = generate(&[QUESTION, "--stop", "\n20", "--json"], "").is_fine().json();
    assert_eq!((&cut["answer"], &cut["text"]), (&json!("10*2=20"), &json!(format!("{QUESTION}\n10*2=20"))));
    generate(&["x", "--json", "--answer-only"], "").is_refused(&["cannot be used with"]);
}

#[test]
fn quiet_says_nothing_but_the_answer_and_errors() {
    for args in
        [&["generate", "hello", "-n", "4", "-q"][..], &["generate", "--quiet"], &["explain", "x", "-n", "4", "-q"]]
    {
        let ran = run_with(args, "");
        assert!(ran.is_fine().stderr.is_empty() && !ran.stdout.is_empty(), "{ran}");
    }
    assert_eq!(run("eval --task chain --limit 1 -n 8 -q").is_fine().stderr, "");
    run("generate -q -m gpt5").is_refused(&["unknown model `gpt5`"]);
}

#[test]
fn who_asks_a_tiny_model_something_else_is_warned_before_the_answer() {
    let position = |args: &[&str]| {
        // One stream, so that the order is seen.
        let line = format!("'{COFILL}' {} 2>&1 </dev/null", args.join(" "));
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (warning, answer) = (text.find("knows only the mini tasks"), text.find(args[2]));
        assert!(warning.is_some() && warning < answer, "{text}");
        assert_eq!(text.matches("knows only the mini tasks").count(), 1, "{text}");
    };
    position(&["generate", "-n4", "hello"]);
    position(&["explain", "-n4", "hello"]);
}

#[test]
fn delays_are_times_and_need_a_picture() {
    run("generate -m toy -n 2 --show --delay 1ms").is_fine();
    run("generate -m toy -n 2 --delay 5").is_refused(&["--show"]);
    for wrong in ["fast", "-1", "61s"] {
        let refused = run_with(&["generate", "-m", "toy", "--show", &format!("--delay={wrong}")], "");
        refused.is_refused(&["--delay", "milliseconds from 0 to 60000", "0.3s"]);
    }
}
