use crate::run::{run, run_with, scratch};
use serde_json::Value;
use std::path::Path;

/// A tiny random encoder of `fixtures/encoders`.
fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/encoders").join(name).display().to_string()
}

/// A file of rows.
fn rows(name: &str, lines: &[&str]) -> String {
    let path = scratch(name);
    std::fs::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

const ROWS: [&str; 3] = [
    r#"{"template": "CC[MASK:3]N>>CO", "answer": "ClC="}"#,
    r#"{"template": "[MASK:1]c1[MASK:2]", "answer": ["[nH]", "Br2"], "id": "two gaps"}"#,
    r#"{"template": "n.n[MASK:4]", "answer": "(O)C"}"#,
];

#[test]
fn a_text_gets_the_frame_that_the_model_was_trained_with() {
    // [CLS] is 3 and [SEP] 4; of RoBERTa <s> is 0 and </s> 2.
    for (name, begin, end, c) in [("albert", 3, 4, 6), ("modernbert", 3, 4, 6), ("roberta", 0, 2, 5)] {
        let dir = fixture(name);
        let ran = run_with(&["generate", "-m", &dir, "--template", "C[MASK:2]C", "-s", "topk:1", "--json"], "");
        let tokens: Vec<i64> =
            ran.is_fine().json()["tokens"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect();
        assert_eq!((tokens[0], tokens[1], tokens[4], tokens[5], tokens.len()), (begin, c, c, end, 6), "{ran}");
        // Nobody reads the frame, and what is filled in is text.
        let text = ran.json()["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with('C') && text.ends_with('C') && !text.contains(['<']), "{text}");
        let prompt = run_with(&["generate", "-m", &dir, "CO", "-n", "2", "-s", "topk:2", "--json"], "");
        let tokens = prompt.is_fine().json()["tokens"].clone();
        assert_eq!((&tokens[0], &tokens[5], tokens.as_array().unwrap().len()), (&begin.into(), &end.into(), 6));
        // Whoever gives a whole canvas gets that canvas.
        let ids = format!("{c},M,{c}");
        let bare = run_with(&["generate", "-m", &dir, "--tokens", &ids, "-s", "topk:1", "--json"], "");
        assert_eq!(bare.is_fine().json()["tokens"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_canvas_that_the_model_cannot_hold_is_refused() {
    let ran = run_with(&["generate", "-m", &fixture("bert"), "--template", "C [MASK:30]"], "");
    ran.is_refused(&["33", "24"]);
}

#[test]
fn gaps_of_the_users_own_are_scored_and_do_not_depend_on_the_batch() {
    let (dir, data) = (fixture("albert"), rows("infill.jsonl", &ROWS));
    let eval = |batch: &str| {
        let out = scratch(&format!("infill-{batch}.out"));
        std::fs::remove_file(&out).ok();
        let name = out.display().to_string();
        let args = [
            "eval", "--task", "infill", "--data", &data, "-m", &dir, "-s", "topk:1", "--batch", batch, "--out", &name,
            "--json",
        ];
        let summary = run_with(&args, "").is_fine().json();
        let timeless = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("seconds");
            line
        };
        (summary, std::fs::read_to_string(&out).unwrap().lines().map(timeless).collect::<Vec<_>>())
    };
    let (summary, lines) = eval("1");
    assert_eq!(lines, eval("3").1);
    let header = &lines[0]["what"];
    assert_eq!((&header["bos"], &header["data"][0]["rows"]), (&3.into(), &3.into()));
    assert_eq!(header["data"][0]["sha256"].as_str().unwrap().len(), 64);
    // 3, 1 + 2 and 4 positions; one forward each with topk:1.
    let nfe: Vec<i64> = lines[1..].iter().map(|line| line["nfe"].as_i64().unwrap()).collect();
    assert_eq!(nfe, [3, 3, 4]);
    for line in &lines[1..] {
        let metrics = &line["filters"]["gap"]["metrics"];
        assert_eq!(metrics["exact"], line["score"]);
        assert!(metrics["tokens"].as_f64().unwrap() >= line["score"].as_f64().unwrap());
        assert!(!line["text"].as_str().unwrap().contains("[SEP]"), "{line}");
    }
    assert!(summary["filters"]["gap"]["tokens"]["mean"].is_number());
}

#[test]
fn rows_that_cannot_be_scored_are_refused() {
    let dir = fixture("albert");
    let eval = |lines: &[&str]| {
        let data = rows("infill-wrong.jsonl", lines);
        run_with(&["eval", "--task", "infill", "--data", &data, "-m", &dir, "-s", "topk:1"], "")
    };
    eval(&[ROWS[0], r#"{"template": "C[MASK:2]"}"#]).is_refused(&["line 2", "missing field `answer`"]);
    eval(&[r#"{"template": "C", "answer": "C"}"#]).is_refused(&["line 1", "gap"]);
    eval(&[r#"{"template": "C[MASK:2]", "answer": "C"}"#]).is_refused(&["row 1", "2 positions", "1 tokens"]);
    eval(&[r#"{"template": "C[MASK:40]", "answer": "C"}"#]).is_refused(&["40 positions", "1 tokens"]);
    let long = format!(r#"{{"template": "C[MASK:24]", "answer": "{}"}}"#, "C".repeat(24));
    eval(&[ROWS[0], &long]).is_refused(&["row 2", "27", "24"]);
    run(&format!("eval --task infill -m {dir}")).is_refused(&["--data FILE.jsonl", "template"]);
    run(&format!("eval --task infill --data /nowhere.jsonl -m {dir}")).is_refused(&["/nowhere.jsonl"]);
    let data = rows("infill-chat.jsonl", &ROWS);
    run(&format!("eval --task infill --data {data} -m {dir} --chat")).is_refused(&["--chat", "infill"]);
}

#[test]
fn a_sweep_and_a_diagnosis_take_the_same_rows() {
    let (dir, data) = (fixture("albert"), rows("infill-sweep.jsonl", &ROWS));
    let folder = scratch("infill-sweep");
    let _ = std::fs::remove_dir_all(&folder);
    let recipe = scratch("infill-sweep.toml");
    let samplers = r#"["topk:{1,2}{,+ad}"]"#;
    let text =
        format!("about = \"gaps\"\n[[sweep]]\nmodels = [\"albert\"]\ntasks = [\"infill\"]\nsamplers = {samplers}\n");
    std::fs::write(&recipe, text).unwrap();
    let models = Path::new(&dir).parent().unwrap().display().to_string();
    let (recipe, folder) = (recipe.display().to_string(), folder.display().to_string());
    let ran = run(&format!("sweep run {recipe} {folder} --models {models} --data {data} --json"));
    assert_eq!(ran.is_fine().stdout.lines().count(), 4, "{ran}");
    assert!(run(&format!("report {folder}")).is_fine().stdout.contains("infill"));
    let ran = run(&format!("diagnose intervention --task infill --data {data} -m {dir} -k 2 --resamples 50 --json"));
    // Two steps each of three and four masks at two a step.
    assert_eq!(ran.is_fine().json()["settings"][0]["states"], 6, "{ran}");
}

#[test]
fn inspect_knows_encoders() {
    let seen = run(&format!("models inspect {}", fixture("modernbert")));
    for word in
        ["modernbert", "tied head", "2 layers that see 3 positions to either side", "never proposed", "7 tokens"]
    {
        assert!(seen.is_fine().stdout.contains(word), "no `{word}`: {seen}");
    }
    let albert = run(&format!("models inspect {} --json", fixture("albert"))).is_fine().json();
    assert_eq!(
        (&albert["architecture"], &albert["stored_blocks"], &albert["layers"]),
        (&"albert".into(), &1.into(), &3.into())
    );
    assert_eq!(albert["problems"].as_array().unwrap().len(), 0);
    let out = scratch("bert.gguf").display().to_string();
    run(&format!("models quantise {} {out} --dtype q8_0", fixture("bert"))).is_refused(&["Bert", "GGUF"]);
}
