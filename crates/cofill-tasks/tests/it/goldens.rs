use cofill_tasks::benchmarks::{Benchmark, Loaded};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A golden file of the harness: numbers, hashes, and cases that were written by hand.
pub(crate) fn golden(name: &str) -> PathBuf {
    cofill_goldens::folder(env!("CARGO_TARGET_TMPDIR")).join("lmeval").join(name)
}

/// Texts that are not in this repository; says so when they are not there.
pub(crate) struct Texts {
    /// The benchmarks' files.
    pub(crate) data: PathBuf,
    /// Replies that quote them, with the harness's scores.
    pub(crate) scoring: PathBuf,
}

impl Texts {
    pub(crate) fn find() -> Option<Texts> {
        let texts = cofill_goldens::texts;
        Some(Texts { data: texts("data")?, scoring: texts("goldens/lmeval/scoring")? })
    }

    pub(crate) fn load(&self, task: Benchmark) -> Loaded {
        task.load(&self.data).unwrap()
    }

    pub(crate) fn scores(&self, name: &str) -> Vec<Value> {
        lines(&self.scoring.join(name))
    }
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder with questions of our own for both forms of GSM8K: the training questions are numbered, each test question has the given
/// answer.
pub(crate) fn own_gsm8k(name: &str, train: usize, answers: impl IntoIterator<Item = String>) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-gsm8k-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let row = |n: usize, answer: &str| json!({"question": format!("Which is number {n}?"), "answer": format!("#### {answer}")});
    let write = |name: &str, rows: Vec<Value>| {
        std::fs::write(folder.join(name), rows.iter().map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    };
    write("gsm8k_train.jsonl", (0..train).map(|n| row(n, "0")).collect());
    write("gsm8k_test.jsonl", answers.into_iter().enumerate().map(|(n, answer)| row(train + n, &answer)).collect());
    write("gsm8k_cot_fewshot8.jsonl", vec![json!({"question": "One?", "target": "The answer is 1."})]);
    folder
}

pub(crate) fn str<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {value}"))
}

pub(crate) fn doc(value: &Value) -> usize {
    value["doc_id"].as_u64().unwrap() as usize
}
