//! Random texts of every schema of the corpus, one a line as JSON, for `tools/schema-check` to validate with somebody else's validator.
//!
//! `cargo run -p cofill-grammar --example random_texts -- COUNT SEED`

#![expect(clippy::single_range_in_vec_init, reason = "one span is meant")]

use cofill::{ClassStats, ClassTable, Constraint, ConstraintView, Proposal, RowStats, TokenId};
use cofill_grammar::{Grammar, Language, TokenAutomaton, Vocabulary};
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;

/// Characters of one to four bytes, and pieces that models have; then an end and the mask.
fn vocabulary() -> (Vocabulary, TokenId) {
    let mut texts: Vec<String> = (' '..='~').map(String::from).collect();
    texts.extend(
        [
            "é", "中", "🦀", "\\n", "\\u", "\":", "\",", "\", \"", "{\"", "\"}", "],", "true", "null", "00", "12",
            "-0", "20", "\\\"",
        ]
        .map(String::from),
    );
    let mut bytes: Vec<Option<Vec<u8>>> = texts.into_iter().map(|text| Some(text.into_bytes())).collect();
    bytes.extend((0x80..=0xff).map(|byte| Some(vec![byte])));
    let end = bytes.len() as TokenId;
    bytes.extend([None, None]);
    (Vocabulary { bytes, ends: vec![end] }, end + 1)
}

#[expect(clippy::print_stdout, reason = "texts are what this is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().unwrap_or("100".into()).parse()?;
    let seed: u64 = arguments.next().unwrap_or("1".into()).parse()?;
    let corpus: Vec<Value> = serde_json::from_str(include_str!("../tests/schemas.json"))?;
    let (vocabulary, mask_id) = vocabulary();
    for entry in &corpus {
        let language = Language::schema(&entry["schema"])?;
        let automaton = Arc::new(TokenAutomaton::new(&language, &vocabulary)?);
        let n = automaton.classes().len();
        let mut members: Vec<Vec<TokenId>> = vec![Vec::new(); n];
        for token in 0..mask_id {
            automaton.classes().of(token).into_iter().for_each(|class| members[class].push(token));
        }
        let window = entry["window"].as_u64().unwrap_or(32) as usize;
        let rows: Vec<usize> = (0..window).collect();
        let tokens = vec![mask_id; window];
        let mut grammar = Grammar::new(automaton.clone(), vec![0..window], &tokens, mask_id)?;
        let mut stats = vec![RowStats::new(0, 0.0); window];
        for i in 0..count {
            // Some rows are flat, some prefer few classes, so that texts are long and short, plain and odd.
            let proposal = Proposal::sampled(1.0, seed.wrapping_add(i as u64));
            let mut uniforms = proposal.uniforms(1_000_000 + i, 0);
            let mut uniform = move || uniforms.next().unwrap_or(0.5);
            let sharp = [0.0, 3.0, 30.0][i % 3];
            let mut row = || -> Vec<ClassStats> {
                let class = |members: &Vec<TokenId>| {
                    let (weight, at) = (sharp * uniform(), (uniform() * members.len() as f64) as usize);
                    let log = weight + (members.len() as f64).ln();
                    ClassStats {
                        token: members[at.min(members.len() - 1)],
                        log_probability: weight,
                        log_mass: log,
                        log_tempered_mass: log,
                        entropy: 0.0,
                    }
                };
                members.iter().map(class).collect()
            };
            let classes = ClassTable::new(n, (0..window).flat_map(|_| row()).collect())?;
            grammar.constrain(&ConstraintView::new(&tokens, mask_id, &rows, &classes, &proposal, i), &mut stats)?;
            let written = stats.iter().filter_map(|s| vocabulary.bytes[s.token as usize].as_deref());
            let text = String::from_utf8(written.collect::<Vec<_>>().concat())?;
            println!("{}", json!({ "name": entry["name"], "text": text }));
        }
    }
    Ok(())
}
