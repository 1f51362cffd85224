use crate::run::{Ran, run_with};
use serde_json::{Value, json};
use std::path::Path;

fn select(lines: &[&str]) -> Ran {
    run_with(&["select"], &lines.join("\n"))
}

fn answers(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn t1_from_the_command_line() {
    let line = r#"{"sampler":"topk:3+ad:40","confidence":[0.9,0.8,0.7,0.6,0.5],"attention":
        [[0,0.02,0.01,0,0],[0.05,0,0.01,0,0],[0.01,0.02,0,0.03,0],[0,0.01,0.02,0,0.04],[0,0,0.01,0.02,0]]}"#;
    let ran = select(&[&line.replace('\n', "")]);
    ran.is_fine();
    assert!(ran.stdout.starts_with(r#"{"selected":[0,2,1],"forced":false,"utility":[0.9,0.6"#), "{ran}");
    assert_eq!(ran.stderr, "", "nothing to say beside the answer");
}

#[test]
fn whoever_is_passed_over_is_named_when_asked() {
    // 2 reads 1, which reads 0: R[2,0] = (.9 · .9)(.9 · .5) = .3645, and u_2 = .4 − 100 · .6 · .3645 is below 0. Position 3 is context.
    let line = r#"{"sampler":"topk:2+paths","confidence":[0.5,0.1,0.4,1],"candidates":[0,1,2],"attention":
        [[0,0,0,0],[0.9,0,0,0],[0,0.9,0,0],[0,0,0,0]]}"#;
    let line = line.replace('\n', "");
    let ran = run_with(&["select", "--why"], &line);
    let answer = &answers(ran.is_fine())[0];
    assert_eq!((&answer["selected"], &answer["deferred"]["through"]), (&json!([0]), &json!([1])), "{ran}");
    assert_eq!((&answer["deferred"]["position"], &answer["deferred"]["by"]), (&json!(2), &json!(0)));
    assert!(answer["deferred"]["instead"].is_null() && answer["deferred"]["discount"].as_f64().unwrap() > 20.0);
    assert_eq!(select(&[&line]).is_fine().stdout, "{\"selected\":[0],\"forced\":false,\"utility\":[0.5]}\n");
}

#[test]
fn every_line_is_answered_in_order_and_ids_come_back() {
    let ran = select(&[
        r#"{"sampler":"topk:1","confidence":[0.1,0.9],"id":"a"}"#,
        "",
        r#"{"sampler":"fast:0.3","confidence":[0.6,0.5],"id":7}"#,
        r#"{"sampler":"eb:0.25","confidence":[1,1,1,0.2,0.8],"entropy":[0,0,0,2,0.5]}"#,
    ]);
    let want = [
        json!({"id": "a", "selected": [1], "forced": false, "utility": [0.9]}),
        json!({"id": 7, "selected": [0], "forced": true, "utility": [0.6]}),
        json!({"selected": [0, 1, 2, 4], "forced": false, "utility": [1.0, 1.0, 1.0, 0.8]}),
    ];
    assert_eq!(answers(ran.is_fine()), want);
}

#[test]
fn a_sampler_can_be_given_once_for_all_lines() {
    let ran = run_with(&["select", "-s", "topk:1"], "{\"confidence\":[0.1,0.9]}\n{\"confidence\":[0.4]}");
    let selected: Vec<Value> = answers(ran.is_fine()).into_iter().map(|a| a["selected"].clone()).collect();
    assert_eq!(selected, [json!([1]), json!([0])]);
}

#[test]
fn candidates_may_be_part_of_a_larger_canvas() {
    // T18 of the sampler spec: masked runs 0-2 and 4-5.
    let ran = select(&[r#"{"sampler":"hierarchy","confidence":[0.5,0.6,0.55,0,0.45,0.2],"candidates":[0,1,2,4,5]}"#]);
    assert_eq!(answers(ran.is_fine())[0]["selected"], json!([1, 4]));
}

/// A bad line between two good ones: both are answered, the bad one is named on both streams, and the exit code is 2.
#[track_caller]
fn check_bad(line: &str, mentions: &[&str]) {
    let good = r#"{"sampler":"topk:1","confidence":[0.5]}"#;
    let ran = select(&[good, line, good]);
    assert_eq!(ran.code, 2, "{ran}");
    let answers = answers(&ran);
    assert_eq!(answers.len(), 3, "{ran}");
    assert_eq!((&answers[0]["selected"], &answers[2]["selected"]), (&json!([0]), &json!([0])), "{ran}");
    assert_eq!(answers[1]["line"], 2, "{ran}");
    assert!(ran.stderr.contains("error: line 2: "), "{ran}");
    for word in mentions {
        assert!(answers[1]["error"].as_str().unwrap().contains(word), "`{word}` is not mentioned: {ran}");
        assert!(ran.stderr.contains(word), "{ran}");
    }
}

#[test]
fn each_way_a_line_can_be_wrong() {
    check_bad("nonsense", &["not JSON"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5]"#, &["not JSON"]);
    check_bad("[1]", &["invalid type"]);
    check_bad(r#"{"sampler":"topk:1"}"#, &["confidence"]);
    check_bad(r#"{"sampler":"topk:1","confidence":"high"}"#, &["expected a sequence"]);
    check_bad(r#"{"confidence":[0.5]}"#, &["no `sampler`", "--sampler"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[]}"#, &["no candidates"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,0.5],"candidates":[]}"#, &["no candidates"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,0.5],"candidates":[1,0]}"#, &["candidates", "[1, 0]"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,0.5],"candidates":[2]}"#, &["candidates", "below 2"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,NaN]}"#, &["NaN", "finite"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[-Infinity]}"#, &["Infinity", "finite"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[1e999]}"#, &["out of range"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,-0.1]}"#, &["`confidence[1]` is -0.1", "between 0 and 1"]);
    check_bad(r#"{"sampler":"topk:1","confidence":[1.5]}"#, &["`confidence[0]` is 1.5"]);
    check_bad(r#"{"sampler":"eb:1","confidence":[0.5]}"#, &["needs `entropy`"]);
    check_bad(r#"{"sampler":"eb:1","confidence":[0.5],"entropy":[1,2]}"#, &["`entropy` has 2 entries, but 1"]);
    check_bad(r#"{"sampler":"eb:1","confidence":[0.5],"entropy":[-1]}"#, &["`entropy[0]` is -1"]);
    check_bad(r#"{"sampler":"topk:1@margin","confidence":[0.5]}"#, &["needs `margin`"]);
    check_bad(r#"{"sampler":"topk:1+ad","confidence":[0.5]}"#, &["needs `attention`"]);
    let attention = |rows: &str| format!(r#"{{"sampler":"topk:1+ad","confidence":[0.5,0.5],"attention":{rows}}}"#);
    check_bad(&attention("[[0,0],[0]]"), &["square", "row 1 has 1 entries"]);
    check_bad(&attention("[[0]]"), &["`attention` has 1 entries, but 2"]);
    check_bad(&attention("[[0,-0.5],[0,0]]"), &["`attention[0][1]` is -0.5"]);
    check_bad(&attention("[[0,40],[0,0]]"), &["`attention[0][1]` is 40", "probability"]);
    check_bad(r#"{"sampler":"topk:0","confidence":[0.5]}"#, &["K must be a whole number from 1", "0 was given"]);
    check_bad(r#"{"sampler":"topk:99999999999999999999","confidence":[0.5]}"#, &["K must be", "4294967295"]);
    check_bad(
        r#"{"sampler":"ebs:10","confidence":[0.5]}"#,
        &["unknown sampler `ebs:10`", "`eb:GAMMA`", "`+ad[:ALPHA]`"],
    );
    check_bad(r#"{"sampler":"klass","confidence":[0.5]}"#, &["the steps before this one", "cofill generate"]);
    check_bad(r#"{"sampler":"punt","confidence":[0.5]}"#, &["further forward passes", "cofill generate"]);
    for sampler in ["credit", "llada:4", "dream:4", "threshold-dream:0.9,4", "p2:4"] {
        check_bad(&format!(r#"{{"sampler":"{sampler}","confidence":[0.5]}}"#), &["needs", "cofill generate"]);
    }
    check_bad(r#"{"sampler":"topk:1","confidence":[0.5,0.5],"masks_at_start":1}"#, &["masks_at_start", "2 or more"]);
}

#[test]
fn a_line_that_is_not_text_is_a_bad_line() {
    use std::io::Write;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_cofill"))
        .arg("select")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\xff\xfe\n{\"sampler\":\"topk:1\",\"confidence\":[0.5]}\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), stdout.lines().count()), (Some(2), 2));
    assert!(stdout.lines().nth(1).unwrap().contains("\"selected\":[0]"));
}

#[test]
fn unknown_fields_are_named_once_and_ignored() {
    let line = r#"{"sampler":"topk:1","confidence":[0.5],"entrophy":[1]}"#;
    let ran = select(&[line, line]);
    assert_eq!(answers(ran.is_fine()).len(), 2);
    assert_eq!(ran.stderr, "warning: field `entrophy` is not known and is ignored\n");
}

/// Runs a file of golden selections through the command; returns how many there were.
fn run_goldens(path: &Path) -> usize {
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let line = |case: &Value| {
        let rule = match case["rule"].as_str().unwrap() {
            "topk" => "topk",
            "fastdllm" => "fast",
            "eb" => "eb",
            other => panic!("unknown rule {other}"),
        };
        let sampler = format!("{rule}:{}+ad:{}", case["threshold"], case["alpha"].as_f64().unwrap());
        let sampler = sampler.replace(".0+", "+"); // K is a whole number
        json!({"sampler": sampler, "confidence": case["confidence"], "entropy": case["entropy"], "attention": case["attention"]})
            .to_string()
    };
    let lines: Vec<String> = cases.iter().map(line).collect();
    let ran = run_with(&["select"], &lines.join("\n"));
    let answers = answers(ran.is_fine());
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        assert_eq!(case["selected"], answer["selected"], "{}", case["name"]);
        assert_eq!(case["forced"], answer["forced"], "{}", case["name"]);
        for (want, got) in case["utility"].as_array().unwrap().iter().zip(answer["utility"].as_array().unwrap()) {
            let (want, got) = (want.as_f64().unwrap(), got.as_f64().unwrap());
            // The file keeps nine significant digits.
            assert!((want - got).abs() <= 1e-8 * want.abs().max(1.0), "{}: utility {got} is not {want}", case["name"]);
        }
    }
    cases.len()
}

#[test]
fn conformance_selections() {
    let n = run_goldens(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/adas_selector_cases.json"));
    println!("conformance: {n} golden selections through `cofill select`");
    assert_eq!(n, 92);
}
