use crate::run::{Ran, goldens, run, run_with, scratch};
use cofill_goldens::{sha256, texts};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A folder with three questions of our own for both forms of GSM8K.
fn data(name: &str) -> String {
    let folder = scratch(&format!("data-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, rows: Vec<Value>| {
        std::fs::write(folder.join(name), rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    };
    let row = |n: usize| json!({"question": format!("What is {n}?"), "answer": format!("#### {n}")});
    write("gsm8k_train.jsonl", (100..140).map(row).collect());
    write("gsm8k_test.jsonl", (1..4).map(row).collect());
    write("gsm8k_cot_fewshot8.jsonl", vec![json!({"question": "One?", "target": "The answer is 1."})]);
    folder.display().to_string()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn prompts_come_a_line_each() {
    let data = data("prompts");
    let prompts = |more: &str| run(&format!("prompts --data {data} {more}"));
    let cot = prompts("--task gsm8k_cot --shots 1 --limit 2 --json");
    let prompt = |n: usize| format!("Q: One?\nA: The answer is 1.\n\nQ: What is {n}?\nA:");
    let expected = [json!({"doc_id": 0, "prompt": prompt(1)}), json!({"doc_id": 1, "prompt": prompt(2)})];
    assert_eq!(lines(&cot.is_fine().stdout), expected);
    assert!(cot.stderr.contains("warning: `gsm8k_test.jsonl` has the unknown sha256"), "{cot}");
    // On two ranks the first two questions share their draw, and the third has that of the second.
    let texts = |ranks: &str| {
        let out = prompts(&format!("--task gsm8k --ranks {ranks} --json"));
        let text = |line: &Value| line["prompt"].as_str().unwrap().rsplit_once("Question:").unwrap().0.to_owned();
        lines(&out.is_fine().stdout).iter().map(text).collect::<Vec<_>>()
    };
    let (one, two) = (texts("1"), texts("2"));
    assert_eq!((one.len(), one[0].matches("Question:").count()), (3, 8));
    assert_eq!((&two[0], &two[1], &two[2]), (&one[0], &one[0], &one[1]));
    // For people.
    let plain = prompts("--task gsm8k_cot --shots 0 --limit 1");
    assert_eq!(plain.is_fine().stdout, "=== gsm8k_cot 0\nQ: What is 1?\nA:\n");
}

#[test]
fn wrong_prompts_are_refused() {
    let data = data("refused");
    run(&format!("prompts --task gsm8k_cot --data {data}")).is_refused(&["1 few-shot examples", "8", "--shots"]);
    run(&format!("prompts --task gsm8k --data {data} --ranks 0")).is_refused(&["--ranks"]);
    run(&format!("prompts --task mbpp --data {data}")).is_refused(&[
        "mbpp_test.jsonl",
        "missing",
        "get lines 11 to 510",
    ]);
    run("prompts --task gsm8k --data /nowhere")
        .is_refused(&["`/nowhere` is no folder", "`cofill data check` says which"]);
    run(&format!("prompts --task riddles --data {data}")).is_refused(&["riddles", "`gsm8k`, `gsm8k_cot`"]);
}

fn score(data: &str, predictions: &[Value], more: &[&str]) -> Ran {
    let stdin: String = predictions.iter().map(|prediction| format!("{prediction}\n")).collect();
    run_with(&[&["score", "--task", "gsm8k", "--data", data, "--predictions", "-"], more].concat(), &stdin)
}

#[test]
fn scores_come_with_their_mean() {
    let data = data("score");
    let predictions = [
        json!({"case_id": "a", "doc_id": 0, "raw_output": "#### 1\n\nQuestion: #### 5", "extra": true}),
        json!({"case_id": 7, "doc_id": 1, "raw_output": "so 2"}),
        json!({"doc_id": 1, "raw_output": "<eot>"}),
        json!({"doc_id": 2, "raw_output": "#### 3<eot>4"}),
    ];
    let out = lines(&score(&data, &predictions, &["--json"]).is_fine().stdout);
    let reading = |filtered: &str, value: f64| json!({"filtered": filtered, "metrics": {"exact_match": value}});
    let filters = |strict, flexible| json!({"strict-match": strict, "flexible-extract": flexible});
    assert_eq!(out[0], json!({"case_id": "a", "doc_id": 0, "filters": filters(reading("1", 1.0), reading("1", 1.0))}));
    let second = filters(reading("[invalid]", 0.0), reading("2", 1.0));
    assert_eq!(out[1], json!({"case_id": 7, "doc_id": 1, "filters": second}));
    assert_eq!(out[2].get("case_id"), None);
    // The first and the last are right strictly; √(4 · 1/4 / 3) / 2 = 0.2887.
    let summary = &out[4]["summary"];
    let strict = &summary["filters"]["strict-match"]["exact_match"];
    assert_eq!((&summary["n"], &strict["mean"]), (&json!(4), &json!(0.5)));
    assert!((strict["standard_error"].as_f64().unwrap() - 0.288_675).abs() < 1e-6);
    assert_eq!((&summary["task"], &summary["wrapper"]), (&json!("gsm8k"), &json!("plain")));
    assert_eq!((summary["warnings"].as_array().unwrap().len(), &summary["data"][0]["known"]), (2, &json!(false)));
    // LLaDA's wrapper glues what follows the end of text to the answer; Dream's cuts there.
    let filtered = |wrapper: &str| {
        let out = score(&data, &predictions, &["--json", "--wrapper", wrapper, "--special", "<eot>"]);
        lines(&out.is_fine().stdout)[3]["filters"]["strict-match"]["filtered"].clone()
    };
    assert_eq!((filtered("llada"), filtered("dream")), (json!("34"), json!("3")));
    let table = score(&data, &predictions, &[]);
    assert!(table.is_fine().stdout.contains("strict-match      exact_match  50.0 % ± 28.9"), "{table}");
}

#[test]
fn predictions_that_cannot_be_scored_are_refused_with_their_line() {
    let data = data("predictions");
    let right = json!({"doc_id": 0, "raw_output": ""});
    score(&data, &[right.clone(), json!({"doc_id": 3, "raw_output": ""})], &["--json"]).is_refused(&[
        "line 2 of --predictions",
        "no doc_id 3",
        "0 to 2",
    ]);
    score(&data, &[json!({"doc_id": 0})], &[]).is_refused(&["line 1 of --predictions", "raw_output"]);
    score(&data, &[json!({"doc_id": -1, "raw_output": ""})], &[]).is_refused(&["line 1 of --predictions"]);
    score(&data, &[], &[]).is_refused(&["no line"]);
    score(&data, std::slice::from_ref(&right), &["--wrapper", "dream"]).is_refused(&["--wrapper dream", "--special"]);
    score(&data, &[right], &["--wrapper", "fast"]).is_refused(&["`fast`", "`llada`"]);
    run(&format!("score --task gsm8k --data {data} --predictions /nowhere")).is_refused(&["--predictions", "/nowhere"]);
}

#[test]
fn data_check_says_what_is_there() {
    let data = data("check");
    std::fs::write(PathBuf::from(&data).join("mbpp_fewshot3.jsonl"), "{}\n").unwrap();
    let ran = run(&format!("data check {data}"));
    assert_eq!(ran.code, 1, "{ran}");
    for line in [
        "gsm8k_test.jsonl          unknown   3 rows; sha256 ",
        "math500_test.jsonl        missing   get `test.jsonl` of https://huggingface.co/",
        "mbpp_fewshot3.jsonl       unusable  line 1 of `mbpp_fewshot3.jsonl`: missing field",
        "can be run: gsm8k, gsm8k_cot\nlack files: math500, humaneval, mbpp\n",
    ] {
        assert!(ran.stdout.contains(line), "`{line}` is not in {ran}");
    }
    let json = run(&format!("data check {data} --json"));
    let files = lines(&json.stdout);
    assert_eq!((files.len(), &files[0]["tasks"], &files[0]["found"]["rows"]), (8, &json!(["gsm8k"]), &json!(40)));
    run("data check /nowhere").is_refused(&["`/nowhere` is no folder"]);
}

#[test]
fn texts_harness_commands() {
    let (Some(data), Some(scoring)) = (texts("data"), texts("goldens/lmeval/scoring")) else { return };
    let data = data.display().to_string();
    let check = run(&format!("data check {data}"));
    assert_eq!(check.is_fine().stdout.matches("  known  ").count(), 8, "{check}");
    let mut n = 0;
    for (task, golden, ranks) in [("gsm8k", "gsm8k_ws4", 4), ("math500", "minerva_math500", 1), ("mbpp", "mbpp", 1)] {
        let ran = run(&format!("prompts --task {task} --data {data} --ranks {ranks} --limit 20 --json"));
        let hashes = goldens().join(format!("lmeval/prompts/{golden}_first100_hashes.jsonl"));
        let hashes = lines(&std::fs::read_to_string(hashes).unwrap());
        assert_eq!(ran.is_fine().stderr, "", "known files need no warning");
        for (ours, golden) in lines(&ran.stdout).iter().zip(hashes) {
            let hash = json!(sha256(ours["prompt"].as_str().unwrap().as_bytes()));
            assert_eq!((&ours["doc_id"], &hash), (&golden["doc_id"], &golden["prompt_sha256"]));
            n += 1;
        }
    }
    let predictions = scoring.join("gsm8k.jsonl").display().to_string();
    let ran = run(&format!("score --task gsm8k --data {data} --predictions {predictions} --json"));
    let text = std::fs::read_to_string(&predictions).unwrap();
    let scores = lines(&text);
    for (ours, golden) in lines(&ran.is_fine().stdout).iter().zip(&scores) {
        assert_eq!((&ours["case_id"], &ours["filters"]), (&golden["case_id"], &golden["filters"]));
    }
    println!("texts: {n} prompts and {} scores from the command line", scores.len());
    assert_eq!(n, 60);
}
