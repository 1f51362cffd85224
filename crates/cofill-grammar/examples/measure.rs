//! What a language costs: making its automaton for a vocabulary of 151,643 tokens, and one step over 256 masks.
//!
//! `cargo run --release -p cofill-grammar --example measure`

#![expect(clippy::single_range_in_vec_init, reason = "one span is meant")]

use cofill::{ClassStats, ClassTable, Constraint, ConstraintView, Proposal, RowStats, TokenId};
use cofill_grammar::{Grammar, Language, TokenAutomaton, Vocabulary};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

const MASKS: usize = 256;
const VOCAB: usize = 151_643;

const SCHEMAS: [(&str, &str); 5] = [
    (
        "3 fields (string, integer, string)",
        r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"city":{"type":"string"}},"required":["name","age","city"]}"#,
    ),
    (
        "enum, array of 1-4 strings, number, boolean",
        r#"{"type":"object","properties":{"kind":{"enum":["bug","feature","question"]},"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":4},
            "score":{"type":"number"},"open":{"type":"boolean"}},"required":["kind","tags","score","open"]}"#,
    ),
    (
        "nested objects, array of objects, date-time, nullable",
        r#"{"type":"object","properties":{"user":{"type":"object","properties":{"name":{"type":"string"},"email":{"type":["string","null"]}},"required":["name","email"]},
            "created":{"type":"string","format":"date-time"},"items":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},"count":{"type":"integer"},
            "price":{"type":"number"}},"required":["sku","count","price"]}},"note":{"type":["string","null"]}},"required":["user","created","items","note"]}"#,
    ),
    ("any JSON object, 5 deep", ""),
    ("a string of at most 500 characters", r#"{"type":"string","maxLength":500}"#),
];

/// Tokens as byte-level tokenizers have them: all bytes, words with and without a space before them, numbers, and what stands between words in JSON and code.
fn vocabulary() -> Vocabulary {
    let mut state = 1u64;
    let mut below = move |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % n as u64) as usize
    };
    let mut bytes: Vec<Option<Vec<u8>>> = (0..=255).map(|byte| Some(vec![byte])).collect();
    let marks =
        [b'"', b'{', b'}', b'[', b']', b':', b',', b' ', b'\\', b'\n', b'-', b'.', b'(', b')', b'_', b'/', b';', b'='];
    while bytes.len() < VOCAB - 3 {
        let word = |below: &mut dyn FnMut(usize) -> usize| -> Vec<u8> {
            let length = 2 + below(9);
            if below(12) == 0 {
                return "äßжλ中".chars().cycle().skip(below(5)).take(1 + length / 3).collect::<String>().into_bytes();
            }
            (0..length).map(|_| b"etaoinshrdlucmfwypvbgkqjxz"[below(26).min(below(26))]).collect()
        };
        bytes.push(Some(match below(20) {
            0 => (0..1 + below(4)).map(|_| marks[below(marks.len())]).collect(),
            1 => [&b"\""[..], &word(&mut below), &b"\":"[..2 * below(2)]].concat(),
            2 => (0..1 + below(3)).map(|_| b'0' + below(10) as u8).collect(),
            3..=10 => [&b" "[..], &word(&mut below)].concat(),
            _ => word(&mut below),
        }));
    }
    let end = bytes.len() as TokenId;
    bytes.resize(VOCAB, None);
    Vocabulary { bytes, ends: vec![end, end + 1] }
}

/// Milliseconds: the best of several runs, since others may use the machine.
fn best(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..15 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

#[expect(clippy::print_stdout, reason = "a table is what this is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let vocabulary = vocabulary();
    let mask_id = VOCAB as TokenId - 1;
    println!(
        "| schema | states | classes | language ms | token automaton ms | max-product ms | step at T=0 ms | step at T=1 ms | canvas check ms |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for (name, schema) in SCHEMAS {
        let language = || if schema.is_empty() { Language::any_json() } else { Language::schema_text(schema) };
        let start = Instant::now();
        let first = language()?;
        let build_language = start.elapsed().as_secs_f64() * 1e3; // the first time: parts are kept afterwards
        let build = best(|| TokenAutomaton::new(&first, &vocabulary).map(drop).map_err(Into::into))?;
        let automaton = Arc::new(TokenAutomaton::new(&first, &vocabulary)?);
        let tokens = vec![mask_id; MASKS];
        let mut grammar = Grammar::new(automaton.clone(), vec![0..MASKS], &tokens, mask_id)?;
        let n = automaton.classes().len();
        let mut samples = vec![0; n];
        (0..mask_id)
            .filter_map(|t| automaton.classes().of(t).map(|class| (t, class)))
            .for_each(|(t, class)| samples[class] = t);
        // Peaked as models are: most classes are unlikely, by up to e^-20.
        let stats = |i: usize| {
            let noise = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let log_mass = -20.0 * noise as f64 / (1u64 << 24) as f64;
            ClassStats {
                token: samples[i % n],
                log_probability: log_mass - 0.1,
                log_mass,
                log_tempered_mass: log_mass,
                entropy: 0.3,
            }
        };
        let classes = ClassTable::new(n, (0..MASKS * n).map(stats).collect())?;
        let rows: Vec<usize> = (0..MASKS).collect();
        let mut answers = vec![RowStats::new(0, 0.0); MASKS];
        let greedy = Proposal::greedy();
        let filling = best(|| {
            let view = ConstraintView::new(&tokens, mask_id, &rows, &classes, &greedy, 0);
            grammar.fill(&view).map(drop).map_err(Into::into)
        })?;
        let mut step = |temperature: f64| {
            let proposal = Proposal::sampled(temperature, 1);
            best(|| {
                let view = ConstraintView::new(&tokens, mask_id, &rows, &classes, &proposal, 0);
                grammar.constrain(&view, &mut answers).map_err(Into::into)
            })
        };
        let (greedy, sampled) = (step(0.0)?, step(1.0)?);
        let check =
            best(|| if grammar.is_completable(&tokens, mask_id) { Ok(()) } else { Err("not completable".into()) })?;
        println!(
            "| {name} | {} | {n} | {build_language:.1} | {build:.1} | {filling:.2} | {greedy:.2} | {sampled:.2} | {check:.2} |",
            automaton.states()
        );
    }
    Ok(())
}
