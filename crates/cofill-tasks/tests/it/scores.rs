use crate::goldens::{Texts, doc, golden, lines, own_gsm8k, str};
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
    let goldens = lines(&golden("scoring/until_truncation.jsonl"));
    for golden in &goldens {
        let until: Vec<&str> = golden["until"].as_array().unwrap().iter().map(|stop| stop.as_str().unwrap()).collect();
        assert_eq!(cut(str(golden, "raw"), &until), str(golden, "truncated"), "{golden}");
    }
    println!("conformance: {} texts cut at stop strings", goldens.len());
    assert_eq!(goldens.len(), 22);
}

/// Replies that quote no question of GSM8K, to questions of our own with the same number as their answer.
#[test]
fn conformance_gsm8k_readings() {
    let mut n = 0;
    for task in [Benchmark::Gsm8k, Benchmark::Gsm8kCot] {
        let goldens = lines(&golden(&format!("scoring/{task}.jsonl")));
        let data = own_gsm8k(task.name(), 8, goldens.iter().map(|golden| str(golden, "target").to_owned()));
        let loaded = task.load(&data).unwrap();
        for (at, golden) in goldens.iter().enumerate() {
            let scored = loaded.score_raw(at, str(golden, "raw_output"), &Judges::default()).unwrap();
            same_filters(&scored, &golden["filters"]);
            assert_eq!(cut(str(golden, "raw_output"), task.until()), str(golden, "response"));
            n += 1;
        }
    }
    println!("conformance: {n} replies of our own to GSM8K read by both filters");
    assert_eq!(n, 30);
}

#[test]
fn texts_gsm8k_scores() {
    let Some(texts) = Texts::find() else { return };
    let mut n = 0;
    for task in [Benchmark::Gsm8k, Benchmark::Gsm8kCot] {
        let loaded = texts.load(task);
        for golden in texts.scores(&format!("{task}.jsonl")) {
            let scored = loaded.score_raw(doc(&golden), str(&golden, "raw_output"), &Judges::default()).unwrap();
            same_filters(&scored, &golden["filters"]);
            assert_eq!(loaded.target(doc(&golden)).unwrap(), str(&golden, "target"));
            assert_eq!(cut(str(&golden, "raw_output"), task.until()), str(&golden, "response"));
            n += 1;
        }
    }
    println!("texts: {n} replies to GSM8K read by both filters");
    assert_eq!(n, 51);
}

#[test]
fn conformance_boxes_and_normal_forms() {
    let boxes = lines(&golden("scoring/math_boxed.jsonl"));
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
    let normal = normal_forms(&lines(&golden("scoring/math_is_equiv.jsonl")));
    println!("conformance: {} boxes, {normal} normal forms", boxes.len());
    assert_eq!((boxes.len(), normal), (16, 302));
}

/// Both answers of every pair as the harness normalises them; returns how many there were.
fn normal_forms(pairs: &[Value]) -> usize {
    for golden in pairs {
        for side in ["pred", "gold"] {
            let raw = str(golden, &format!("{side}_raw"));
            assert_eq!(normalise(raw), str(golden, &format!("{side}_normalized")), "{raw}");
        }
    }
    2 * pairs.len()
}

#[test]
fn texts_normal_forms() {
    let Some(texts) = Texts::find() else { return };
    let math = texts.load(Benchmark::Math500);
    let mut normal = normal_forms(&texts.scores("math_is_equiv.jsonl"));
    for golden in lines(&golden("scoring/math500_gold_hashes.jsonl")) {
        let target = math.target(doc(&golden)).unwrap();
        assert_eq!(sha256(target.as_bytes()), str(&golden, "gold_normalized_sha256"), "{golden}");
        normal += 1;
    }
    println!("texts: {normal} normal forms");
    assert_eq!(normal, 2 * 713 + 500);
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
    fn read(texts: &Texts) -> Sympy {
        let mut known = HashMap::new();
        for golden in texts.scores("minerva_math500.jsonl") {
            let pair = ["pred_normalized", "gold_normalized"].map(|field| str(&golden, field).to_owned());
            known.insert(pair.into(), golden["is_equiv"].as_bool().unwrap());
        }
        Sympy(known)
    }
}

#[test]
fn texts_math500_readings() {
    let Some(texts) = Texts::find() else { return };
    let (math, sympy) = (texts.load(Benchmark::Math500), Sympy::read(&texts));
    let judges = Judges { equivalence: Some(&sympy), ..Judges::default() };
    let goldens = texts.scores("minerva_math500.jsonl");
    for golden in &goldens {
        let scored = math.score_raw(doc(golden), str(golden, "raw_output"), &judges).unwrap();
        assert_eq!(scored.judge_failure(), None, "{golden}");
        same_filters(&scored, &golden["filters"]);
        for (name, note) in &scored.notes {
            assert_eq!(note, str(golden, name), "{golden}");
        }
    }
    println!("texts: {} replies to MATH-500 extracted and normalised", goldens.len());
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
fn texts_code_readings() {
    let Some(texts) = Texts::find().filter(|_| has_python()) else { return };
    let (mut n, mut sanitised) = (0, 0);
    for task in [Benchmark::Mbpp, Benchmark::Humaneval] {
        let loaded = texts.load(task);
        for golden in texts.scores(&format!("{task}.jsonl")) {
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
    println!("texts: {n} replies to HumanEval and MBPP made into programs, {sanitised} sanitised");
}

#[test]
fn conformance_means_and_errors() {
    let samples = lines(&golden("scoring/end_to_end_samples.jsonl"));
    let mut means = 0;
    for task in ["gsm8k", "minerva_math500", "mbpp", "humaneval"] {
        let mut tally = Tally::default();
        for sample in samples.iter().filter(|sample| sample["task"] == task) {
            for (metric, value) in sample["metrics"].as_object().unwrap() {
                tally.count(str(sample, "filter"), metric, value.as_f64().unwrap());
            }
        }
        means += same_means(task, &tally);
    }
    println!("conformance: {means} means of {} scores, with their errors", samples.len());
    assert_eq!((means, samples.len()), (6, 150));
}

/// Means and standard errors are those of the harness; returns how many there are.
fn same_means(task: &str, tally: &Tally) -> usize {
    let results = std::fs::read_to_string(golden("scoring/end_to_end_results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let means = tally.means();
    for mean in &means {
        let golden = |key: &str| results["results"][task][format!("{key},{}", mean.filter)].as_f64().unwrap();
        let error = golden(&format!("{}_stderr", mean.metric));
        assert!((golden(&mean.metric) - mean.mean).abs() < 1e-12, "{mean:?}");
        assert!((error - mean.standard_error.unwrap()).abs() < 1e-12, "{mean:?}");
    }
    means.len()
}

#[test]
fn texts_end_to_end() {
    let Some(texts) = Texts::find() else { return };
    let samples = texts.scores("end_to_end_samples.jsonl");
    let mut sympy = Sympy::read(&texts);
    let (mut n, mut means) = (0, 0);
    for (task, name) in
        [(Benchmark::Gsm8k, "gsm8k"), (Benchmark::Math500, "minerva_math500"), (Benchmark::Mbpp, "mbpp")]
    {
        let loaded = texts.load(task);
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
            let judges = Judges { equivalence: Some(&sympy), execute: Some(&execute), ..Judges::default() };
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
        means += same_means(name, &tally);
    }
    println!("texts: {n} samples of an end-to-end run, {means} means with their errors");
    assert_eq!(means, 4);
}
