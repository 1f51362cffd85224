use crate::run::{Ran, run, run_with, scratch};
use serde_json::json;

const GAPS: &str = "Fill the gaps:\n[MASK:1]*[MASK:1]*[MASK:1]=[MASK:1]\n[MASK:1]*4*[MASK:1]=24\n[MASK:1]+6+[MASK:1]=13\n4*2*[MASK:1]=8\n[MASK:1]+[MASK:1]+[MASK:1]=[MASK:1]";

fn compare(args: &[&str]) -> Ran {
    run_with(&[&["compare"], args].concat(), "")
}

#[test]
fn answers_stand_side_by_side_and_where_they_part_is_said() {
    let ran = compare(&["-m", "toy", "-n", "6", "-s", "topk:2", "-s", "topk:2+ad"]);
    let expected = "   sampler       forwards  tokens/forward
A  topk:2               3            2.00
B  topk:2+ad:40         3            2.00

A topk:2                            B topk:2+ad:40
Alan Kelly visited San City again   Alan [Turing] visited San [Diego] again

B parts from A at step 1
  only A commits 1 `Kelly`
  only B commits 3 `San`
  why: B deferred position 1 (confidence 0.474): it attends to 0, just chosen
    and unsure, and lost 7.501; 3 was tried instead
";
    assert_eq!((ran.is_fine().stdout.as_str(), ran.stderr.as_str()), (expected, ""));
}

#[test]
fn answers_to_mini_tasks_are_judged() {
    let ran = compare(&["-s", "topk:4", "-s", "topk:4+ad", "--template", GAPS]);
    let lines: Vec<&str> = ran.is_fine().stdout.lines().collect();
    assert!(lines[1].starts_with("A  topk:4 ") && lines[1].ends_with("wrong, `3*4*3=24` does not hold"), "{ran}");
    assert!(lines[2].starts_with("B  topk:4+ad:40 ") && lines[2].ends_with(" right"), "{ran}");
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{ran}");
}

/// Everything is as if each had been asked alone.
#[test]
fn as_json_and_as_generate_has_it() {
    let ran = compare(&["-m", "toy", "-n", "6", "-s", "topk:2", "-s", "topk:2+ad", "-s", "eb:1", "--json"]);
    let answer = ran.is_fine().json();
    for (i, sampler) in ["topk:2", "topk:2+ad:40", "eb:1"].iter().enumerate() {
        let alone = run(&format!("generate -m toy -n 6 -s {sampler} --json")).is_fine().json();
        let here = &answer["samplers"][i];
        assert_eq!(here["sampler"], *sampler);
        for field in ["nfe", "tokens_per_forward", "text", "finish", "ended"] {
            assert_eq!(here[field], alone[field], "{sampler} {field}");
        }
        assert_eq!(here["steps"], alone["steps"].as_array().unwrap().len());
    }
    let first = &answer["divergences"][0];
    assert_eq!((&first["a"], &first["b"], &first["step"]), (&json!("topk:2"), &json!("topk:2+ad:40"), &json!(1)));
    assert_eq!((&first["only_a"], &first["only_b"]), (&json!([1]), &json!([3])));
    assert!(first["why"].as_str().unwrap().starts_with("topk:2+ad:40 deferred position 1 "), "{ran}");
    assert_eq!(answer["divergences"].as_array().unwrap().len(), 2);
}

#[test]
fn the_answer_is_without_the_prompt_and_the_same_sampler_in_other_words_does_the_same() {
    let ran = compare(&["-m", "toy", "Grace Kelly likes", "-n", "3", "-s", "topk:1", "-s", "topk:1+ad", "--json"]);
    let answer = ran.is_fine().json();
    let first = &answer["samplers"][0];
    let (text, alone) = (first["text"].as_str().unwrap(), first["answer"].as_str().unwrap());
    assert_eq!(text, format!("Grace Kelly likes {alone}"));
    // One at a time, there is nobody to wait for.
    assert_eq!(answer["divergences"][0]["step"], json!(null));
}

#[test]
fn traces_are_those_that_were_compared_and_nothing_is_replaced() {
    let folder = scratch("compare-traces");
    std::fs::remove_dir_all(&folder).ok();
    let folder = folder.to_str().unwrap();
    let args = ["-m", "toy", "-n", "6", "-s", "topk:2", "-s", "topk:2+ad", "--trace-dir", folder];
    compare(&args).is_fine();
    let (a, b) = (format!("{folder}/A-topk-2.jsonl"), format!("{folder}/B-topk-2-ad-40.jsonl"));
    let diff = run_with(&["trace", "diff", &a, &b], "");
    assert!(diff.code == 1 && diff.stdout.contains("first divergence at step 1"), "{diff}");
    compare(&args).is_refused(&["--trace-dir", "A-topk-2.jsonl", "exists"]);
    compare(&[args.as_slice(), &["--force"]].concat()).is_fine();
}

#[test]
fn one_that_fails_does_not_cost_the_others_their_answers() {
    let ran = compare(&["-m", "toy", "-n", "6", "-s", "topk:1+ad@layer=3", "-s", "topk:2", "-s", "topk:2+ad"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("Alan Kelly visited San City again"), "{ran}");
    assert!(ran.stdout.contains("C parts from B at step 1"), "{ran}");
    assert!(ran.stderr.starts_with("error: -s topk:1+ad:40@layer=3: layer 3 was asked for"), "{ran}");
    let ran = compare(&["-m", "toy", "-n", "6", "-s", "topk:1+ad@layer=3", "-s", "topk:2", "--json"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.json()["samplers"][0]["error"].as_str().unwrap().contains("layer 3"), "{ran}");
}

#[test]
fn a_companion_is_for_those_who_ask_it() {
    let ran = compare(&["-s", "topk:2", "-s", "apd:0.7", "--companion", "tiny-causal", "--json"]);
    let answer = ran.is_fine().json();
    assert!(answer["samplers"].as_array().unwrap().iter().all(|one| one["judged"]["task"] == "chain"), "{ran}");
    compare(&["-s", "topk:2", "-s", "apd:0.7"]).is_refused(&["-s apd:0.7", "--companion tiny-causal"]);
    compare(&["-s", "topk:2", "-s", "topk:4", "--companion", "tiny-causal"])
        .is_refused(&["--companion", "none of the samplers"]);
}

#[test]
fn wrong_requests_are_refused() {
    compare(&[]).is_refused(&["-s must be given 2 to 8 times", "none was given"]);
    compare(&["-s", "topk:2"]).is_refused(&["2 to 8 times", "1 was given"]);
    let nine: Vec<String> = (1..=9).flat_map(|k| ["-s".to_string(), format!("topk:{k}")]).collect();
    compare(&nine.iter().map(String::as_str).collect::<Vec<_>>()).is_refused(&["9 were given"]);
    compare(&["-s", "topk:2+ad", "-s", "topk:2+ad:40"]).is_refused(&["-s topk:2+ad:40 is given twice"]);
    compare(&["-s", "topk:2", "-s", "topkk:2"]).is_refused(&["unknown sampler `topkk:2`"]);
    compare(&["-m", "toy", "Nobody", "-s", "topk:1", "-s", "topk:2"])
        .is_refused(&["error: the toy does not know the word"]);
    // A head that a file does not have is missed before anybody runs.
    let file = scratch("compare-no-head.gguf");
    run_with(&["models", "quantise", "tiny-llada", file.to_str().unwrap(), "--dtype", "f16", "--force"], "").is_fine();
    compare(&["-m", file.to_str().unwrap(), "-s", "topk:2", "-s", "topk:2+ad@layer=learned"])
        .is_refused(&["-s topk:2+ad:40@layer=learned: "]);
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_the_page_is_as_wide_as_that() {
    use crate::pty::Terminal;
    let args = ["compare", "-s", "topk:4", "-s", "topk:4+ad", "-s", "klass:0.7,1"];
    for (columns, is_stacked) in [(140, false), (80, false), (40, true)] {
        let (told, code) = Terminal::start(&args, &[("NO_COLOR", "1")], columns).end();
        assert_eq!(code, Some(0), "{told}");
        for line in told.lines() {
            assert!(line.trim_end().chars().count() <= columns.into(), "{columns}: {line}");
        }
        // One below the other, every answer has lines of its own.
        assert_eq!(told.lines().any(|line| line.trim_end() == "B topk:4+ad:40"), is_stacked, "{told}");
    }
}
