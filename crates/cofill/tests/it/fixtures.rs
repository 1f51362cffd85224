//! Numbers computed elsewhere, in `fixtures/` of this repository: a NumPy selector written from the paper alone, and
//! the official schedules.

use crate::support::spec;
use cofill::{Attention, Snapshot, quota};
use serde::Deserialize;
use std::path::Path;

/// One selection: what a sampler saw and what it must answer.
#[derive(Deserialize)]
struct SelectorCase {
    name: String,
    rule: String,
    threshold: f64,
    alpha: f64,
    confidence: Vec<f64>,
    entropy: Vec<f64>,
    attention: Vec<Vec<f64>>, // [query][key]
    selected: Vec<usize>,     // in pick order
    utility: Vec<f64>,        // when picked
    forced: bool,
}

/// The sampler language's word for a rule of the goldens.
pub(crate) fn rule(word: &str) -> &'static str {
    match word {
        "topk" => "topk",
        "fastdllm" => "fast",
        "eb" => "eb",
        other => panic!("an unknown rule: {other}"),
    }
}

/// Order, utilities and `forced` of every case in a file; returns how many there were.
fn check_selector_cases(file: &Path) -> usize {
    let cases: Vec<SelectorCase> = read(file);
    for case in &cases {
        let sampler = spec(&format!("{}:{}+ad:{}", rule(&case.rule), case.threshold, case.alpha));
        let step = Snapshot::new(&case.confidence)
            .entropy(&case.entropy)
            .attention(Attention::from_rows(&case.attention).unwrap());
        let picks = step.select(&sampler).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!((picks.positions(), picks.forced), (case.selected.clone(), case.forced), "{}: {sampler}", case.name);
        assert_eq!(picks.len(), case.utility.len(), "{}", case.name);
        for (pick, u) in picks.iter().zip(&case.utility) {
            // Written with nine significant digits: half of the last is at most 5e-9 of the whole.
            let tolerance = 5e-9 * u.abs() + 1e-12;
            assert!((pick.utility - u).abs() < tolerance, "{}: u = {} is not {u}", case.name, pick.utility);
        }
    }
    cases.len()
}

#[derive(Deserialize)]
struct Schedules {
    dream: Vec<Schedule>,
    llada: Vec<Schedule>,
}

#[derive(Deserialize)]
struct Schedule {
    n_mask: usize,
    steps: usize,
    eps: Option<f64>,
    counts: Vec<usize>,
}

/// Tokens per step of every schedule in a file; returns how many of Dream's and of LLaDA's there were.
fn check_schedules(file: &Path) -> (usize, usize) {
    let schedules: Schedules = read(file);
    for s in &schedules.dream {
        let eps = s.eps.expect("Dream's schedule ends at eps");
        assert_eq!(
            quota::dream_counts(s.n_mask, s.steps, eps),
            s.counts,
            "Dream, {} masks in {} steps",
            s.n_mask,
            s.steps
        );
    }
    for s in &schedules.llada {
        assert_eq!(quota::llada_counts(s.n_mask, s.steps), s.counts, "LLaDA, {} masks in {} steps", s.n_mask, s.steps);
    }
    (schedules.dream.len(), schedules.llada.len())
}

/// A JSON file.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> T {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

#[test]
fn conformance_selections() {
    let n = check_selector_cases(&fixture("adas_selector_cases.json"));
    println!("conformance: {n} selector cases: order, utilities and `forced` agree");
    assert_eq!(n, 92);
}

#[test]
fn conformance_schedules() {
    let (dream, llada) = check_schedules(&fixture("schedules.json"));
    println!("conformance: {dream} of Dream's and {llada} of LLaDA's schedules agree");
    assert_eq!((dream, llada), (72, 6));
}
