use cofill_tasks::benchmarks::{Benchmark, Loaded};
use serde_json::Value;
use std::path::PathBuf;

/// The shared folder; says so when there is none.
pub(crate) fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("COFILL_SHARED").map(PathBuf::from);
    if shared.is_none() {
        println!("SKIPPED: COFILL_SHARED is not set");
    }
    shared
}

/// The lines of a golden file of the harness.
pub(crate) fn lines(name: &str) -> Vec<Value> {
    text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(shared().unwrap().join("goldens/lmeval").join(name)).unwrap()
}

pub(crate) fn load(task: Benchmark) -> Loaded {
    task.load(&shared().unwrap().join("data")).unwrap()
}

pub(crate) fn str<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {value}"))
}

pub(crate) fn doc(value: &Value) -> usize {
    value["doc_id"].as_u64().unwrap() as usize
}
