use crate::goldens::{doc, lines, load, shared, str, text};
use cofill_tasks::benchmarks::math500::{boxed, normalise};
use cofill_tasks::benchmarks::{Benchmark, Filtered, Scored, Tally, Variant};
use cofill_tasks::data::sha256;
use cofill_tasks::judge::{Equivalence, Execute, Execution, Judges};
use cofill_tasks::wrapper::cut;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Filters as the goldens write them, metrics of other packages left out.
fn filters(scored: &Scored) -> Value {
    let filtered = |filtered: &Filtered| match filtered {
        Filtered::One(text) => json!(text),
        Filtered::Each(texts) => json!(texts),
    };
    let metrics =
        |metrics: &[(&str, f64)]| Value::Object(metrics.iter().map(|(k, v)| ((*k).into(), json!(v))).collect());
    let filters = scored.filters.iter().map(|filter| {
        (filter.name.to_owned(), json!({"filtered": filtered(&filter.filtered), "metrics": metrics(&filter.metrics)}))
    });
    Value::Object(filters.collect())
}

/// Every filter of the golden is there and reads the same.
#[track_caller]
fn same_filters(scored: &Scored, golden: &Value) {
    let ours = filters(scored);
    for (name, golden) in golden.as_object().unwrap() {
        let mut golden = golden.clone();
        // math_verify's own metric depends on its version, and is not ported.
        golden["metrics"].as_object_mut().unwrap().remove("math_verify");
        assert_eq!(ours[name], golden, "{name}");
    }
}

#[test]
fn conformance_stop_strings() {
    if shared().is_none() {
        return;
    }
    let goldens = lines("scoring/until_truncation.jsonl");
    for golden in &goldens {
        let until: Vec<&str> = golden["until"].as_array().unwrap().iter().map(|stop| stop.as_str().unwrap()).collect();
        assert_eq!(cut(str(golden, "raw"), &until), str(golden, "truncated"), "{golden}");
    }
    println!("conformance: {} texts cut at stop strings", goldens.len());
}

#[test]
fn conformance_gsm8k_scores() {
    if shared().is_none() {
        return;
    }
    let mut n = 0;
    for task in [Benchmark::Gsm8k, Benchmark::Gsm8kCot] {
        let loaded = load(task);
        for golden in lines(&format!("scoring/{task}.jsonl")) {
            let scored = loaded.score_raw(doc(&golden), str(&golden, "raw_output"), &Judges::default()).unwrap();
            same_filters(&scored, &golden["filters"]);
            assert_eq!(loaded.target(doc(&golden)).unwrap(), str(&golden, "target"));
            assert_eq!(cut(str(&golden, "raw_output"), task.until()), str(&golden, "response"));
            n += 1;
        }
    }
    println!("conformance: {n} replies to GSM8K read by both filters");
}

#[test]
fn conformance_boxes_and_normal_forms() {
    if shared().is_none() {
        return;
    }
    let boxes = lines("scoring/math_boxed.jsonl");
    for golden in &boxes {
        let last = boxed::last(str(golden, "input"));
        assert_eq!(json!(last), golden["last_boxed_only_string"], "{golden}");
        let (content, error) = match boxed::answer(str(golden, "input")) {
            Ok(content) => (json!(content), Value::Null),
            Err(boxed::Error::None) => (Value::Null, json!("TypeError")),
            Err(boxed::Error::Form) => (Value::Null, json!("AssertionError")),
        };
        assert_eq!((&content, &error), (&golden["remove_boxed"], &golden["remove_boxed_error"]), "{golden}");
    }
    let mut normal = 0;
    for golden in lines("scoring/math_is_equiv.jsonl") {
        for side in ["pred", "gold"] {
            let raw = str(&golden, &format!("{side}_raw"));
            assert_eq!(normalise(raw), str(&golden, &format!("{side}_normalized")), "{raw}");
            normal += 1;
        }
    }
    let math = load(Benchmark::Math500);
    for golden in lines("scoring/math500_gold_selfcheck.jsonl") {
        assert_eq!(math.target(doc(&golden)).unwrap(), str(&golden, "gold_normalized"), "{golden}");
        normal += 1;
    }
    println!("conformance: {} boxes, {normal} normal forms", boxes.len());
}

/// Knows what sympy said of the goldens' pairs.
struct Sympy(HashMap<(String, String), bool>);

impl Equivalence for Sympy {
    fn name(&self) -> String {
        "the goldens".into()
    }
    fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, String> {
        self.0
            .get(&(given.into(), gold.into()))
            .copied()
            .ok_or_else(|| format!("`{given}` was never compared to `{gold}`"))
    }
}

impl Sympy {
    fn read() -> Sympy {
        let mut known = HashMap::new();
        for golden in lines("scoring/minerva_math500.jsonl") {
            let pair = ["pred_normalized", "gold_normalized"].map(|field| str(&golden, field).to_owned());
            known.insert(pair.into(), golden["is_equiv"].as_bool().unwrap());
        }
        Sympy(known)
    }
}

#[test]
fn conformance_math500_readings() {
    if shared().is_none() {
        return;
    }
    let (math, sympy) = (load(Benchmark::Math500), Sympy::read());
    let judges = Judges { equivalence: Some(&sympy), ..Judges::default() };
    let goldens = lines("scoring/minerva_math500.jsonl");
    for golden in &goldens {
        let scored = math.score_raw(doc(golden), str(golden, "raw_output"), &judges).unwrap();
        assert_eq!(scored.judge_failure(), None, "{golden}");
        same_filters(&scored, &golden["filters"]);
        for (name, note) in &scored.notes {
            assert_eq!(note, str(golden, name), "{golden}");
        }
    }
    println!("conformance: {} replies to MATH-500 extracted and normalised", goldens.len());
}

/// Runs our own sanitiser, which only parses; of all other programs it knows the golden verdict.
struct CodeEval(HashMap<String, String>);

impl Execute for CodeEval {
    fn describe(&self) -> String {
        "the goldens".into()
    }
    fn run(&self, program: &str, _: Duration) -> Result<Execution, String> {
        let result = self.0.get(program).ok_or_else(|| format!("never run:\n{program}"))?.clone();
        Ok(Execution { passed: result == "passed", result })
    }
    fn answer(&self, program: &str, _: Duration) -> Result<Option<String>, String> {
        assert!(program.starts_with("# What the field's evaluation scripts"), "{program}");
        answered(program).map(Some)
    }
}

/// What a program leaves in `answer`.
fn answered(program: &str) -> Result<String, String> {
    let driver = "import sys\nnames = {}\nexec(sys.stdin.read(), names)\nprint(names['answer'], end='')";
    let mut python = Command::new("python3")
        .args(["-I", "-c", driver])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    python.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    Ok(String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap())
}

fn has_python() -> bool {
    let found = answered("answer = 'here'").is_ok_and(|said| said == "here");
    if !found {
        println!("SKIPPED: there is no python3 to parse with");
    }
    found
}

#[test]
fn conformance_code_readings() {
    if shared().is_none() || !has_python() {
        return;
    }
    let (mut n, mut sanitised) = (0, 0);
    for task in [Benchmark::Mbpp, Benchmark::Humaneval] {
        let loaded = load(task);
        for golden in lines(&format!("scoring/{task}.jsonl")) {
            // The programs as the harness would run them, with what became of them.
            let tests = str(&golden, "target");
            let filter = golden["filters"].as_object().unwrap().values().next().unwrap();
            let code = filter["filtered"].as_str().unwrap_or_else(|| filter["filtered"][0].as_str().unwrap());
            let mut known = HashMap::from([(format!("{code}\n{tests}"), str(&golden, "exec_result").to_owned())]);
            if task == Benchmark::Humaneval {
                let passed = golden["dream_sanitized_pass_at_1"] == 1.0;
                let verdict = if passed { "passed" } else { "failed: " };
                let program = format!("{}\n{tests}", str(&golden, "dream_sanitized_code"));
                // The same program has the same verdict.
                known.entry(program).or_insert(verdict.into());
            }
            let execute = CodeEval(known);
            let judges = Judges { execute: Some(&execute), ..Judges::default() };
            let scored = loaded.score_raw(doc(&golden), str(&golden, "raw_output"), &judges).unwrap();
            assert_eq!(scored.judge_failure(), None, "{golden}");
            same_filters(&scored, &golden["filters"]);
            assert_eq!(loaded.target(doc(&golden)).unwrap(), tests);
            assert_eq!(scored.notes[0].1, str(&golden, "exec_result"));
            if task == Benchmark::Humaneval {
                assert_eq!(filters(&scored)["dream_sanitized"]["filtered"], golden["dream_sanitized_code"]);
                assert_eq!(json!(scored.metric("dream_sanitized", "pass@1")), golden["dream_sanitized_pass_at_1"]);
                sanitised += 1;
            }
            n += 1;
        }
    }
    println!("conformance: {n} replies to HumanEval and MBPP made into programs, {sanitised} sanitised");
}

#[test]
fn conformance_end_to_end() {
    if shared().is_none() {
        return;
    }
    let results: Value = serde_json::from_str(&text("scoring/end_to_end_results.json")).unwrap();
    let samples = lines("scoring/end_to_end_samples.jsonl");
    let mut sympy = Sympy::read();
    let (mut n, mut means) = (0, 0);
    for (task, name) in
        [(Benchmark::Gsm8k, "gsm8k"), (Benchmark::Math500, "minerva_math500"), (Benchmark::Mbpp, "mbpp")]
    {
        let loaded = load(task);
        let prompts = loaded.prompts(Variant::default()).unwrap();
        let mut tally = Tally::default();
        let mut seen = Vec::new();
        for sample in samples.iter().filter(|sample| sample["task"] == name) {
            let at = doc(sample);
            // GSM8K's samples are there once for each filter.
            let raw = str(sample, "raw_output");
            let metric = sample["metrics"].as_object().unwrap().values().next().unwrap().as_f64().unwrap();
            if task == Benchmark::Math500 {
                let given = normalise(cofill_tasks::benchmarks::math500::extract(str(sample, "response")));
                sympy.0.insert((given, loaded.target(at).unwrap()), metric == 1.0);
            }
            let program = format!("{}\n{}", str(sample, "response"), loaded.target(at).unwrap());
            let verdict = if metric == 1.0 { "passed" } else { "failed: " };
            let execute = CodeEval(HashMap::from([(program, verdict.to_owned())]));
            let judges = Judges { equivalence: Some(&sympy), execute: Some(&execute) };
            let scored = loaded.score_raw(at, raw, &judges).unwrap();
            assert_eq!(scored.judge_failure(), None, "{sample}");
            let filter = str(sample, "filter");
            assert_eq!(filters(&scored)[filter]["filtered"], sample["filtered"], "{sample}");
            let metrics = filters(&scored)[filter]["metrics"].clone();
            for (metric, value) in metrics.as_object().unwrap() {
                assert_eq!(*value, sample["metrics"][metric], "{sample}");
            }
            assert_eq!(sha256(prompts.prompt(at).unwrap().as_bytes()), str(sample, "prompt_sha256"));
            if !seen.contains(&at) {
                seen.push(at);
                tally.add(&scored);
            }
            n += 1;
        }
        for mean in tally.means() {
            let golden = |key: &str| results["results"][name][format!("{key},{}", mean.filter)].as_f64().unwrap();
            let error = golden(&format!("{}_stderr", mean.metric));
            assert!((golden(&mean.metric) - mean.mean).abs() < 1e-12, "{mean:?}");
            assert!((error - mean.standard_error.unwrap()).abs() < 1e-12, "{mean:?}");
            means += 1;
        }
    }
    println!("conformance: {n} samples of an end-to-end run, {means} means with their errors");
    assert_eq!(means, 4);
}
