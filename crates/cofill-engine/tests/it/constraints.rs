//! Texts held to a schema, an expression or choices: whatever model, sampler and temperature, what is written is in the language.
//!
//! `COFILL_CONSTRAINTS=FILE` also writes every schema x model x sampler x temperature to FILE, for another validator to look at.

use crate::{options, tiny};
use cofill::TokenId;
use cofill_engine::{Engine, Generation, Input, LanguageError, RunOptions, Specials};
use cofill_grammar::Language;
use serde_json::{Value, json};
use std::io::Write;

const SAMPLERS: [&str; 20] = [
    "topk:1",
    "topk:3",
    "topk:2+ad",
    "fast:1.5",
    "eb:0.8",
    "eb:3+ad",
    "threshold:0.6",
    "llada:8",
    "dream:8",
    "klass",
    "less:0.4,0.1",
    "dapd",
    "dawn",
    "clad:0.4",
    "punt",
    "dus:8",
    "p2:6",
    "lookum:3",
    "credit:0.6",
    "oracle",
];

/// A schema of the corpus, with its text in the order of its keys.
struct Case {
    name: String,
    schema: String,
    window: usize,
}

fn corpus() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../cofill-grammar/tests/schemas.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let case = |case: &Value| Case {
        name: case["name"].as_str().unwrap().to_owned(),
        schema: case["schema"].to_string(),
        window: case["window"].as_u64().unwrap() as usize,
    };
    cases.iter().map(case).collect()
}

fn fill(engine: &mut Engine, input: &Input, sampler: &str, options: &RunOptions) -> Generation {
    let sampler = sampler.parse().unwrap();
    let ready = engine.prepare(input, &sampler, options).unwrap_or_else(|error| panic!("{sampler}: {error}"));
    engine.generate(ready).unwrap_or_else(|error| panic!("{sampler}: {error}"))
}

/// What was written, up to the first end.
fn written(engine: &Engine, generation: &Generation) -> String {
    let ends = engine.ends();
    let is_end = |token: &TokenId| [ends.of_text, ends.of_turn].contains(&Some(*token));
    let tokens: Vec<TokenId> = generation.start.masked().map(|position| generation.canvas.tokens()[position]).collect();
    let end = tokens.iter().position(&is_end).unwrap_or(tokens.len());
    assert!(tokens[end..].iter().all(is_end), "nothing follows an end: {tokens:?}");
    engine.text(&tokens[..end], Specials::Hidden).unwrap()
}

/// Fills a window by a schema, and looks at what came of it.
fn check(engine: &mut Engine, case: &Case, sampler: &str, temperature: f64) -> String {
    // Schemas as text: in a value their keys would be sorted.
    let options =
        options(json!({"schema": case.schema, "length": case.window + 4, "temperature": temperature, "seed": 5}));
    let generation = fill(engine, &Input::Prompt("3+4=".into()), sampler, &options);
    let text = written(engine, &generation);
    let said = format!("{} by {sampler} at {temperature}: {text}", case.name);
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{said}");
    assert!(Language::schema_text(&case.schema).unwrap().matches(text.as_bytes()), "{said}");
    text
}

#[test]
fn every_schema_holds_with_some_sampler_of_both_models() {
    for (m, model) in ["tiny-llada", "tiny-dream"].into_iter().enumerate() {
        let mut engine = tiny(model);
        for (i, case) in corpus().iter().enumerate() {
            let sampler = SAMPLERS[(i + 7 * m) % SAMPLERS.len()];
            check(&mut engine, case, sampler, ((i + m) % 2) as f64);
        }
    }
}

/// The whole product. Its outputs go to a file, for a validator that we did not write (`tools/constraint-check`).
#[test]
fn every_schema_holds_with_every_sampler() {
    let Ok(path) = std::env::var("COFILL_CONSTRAINTS") else { return };
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for model in ["tiny-llada", "tiny-dream"] {
        let mut engine = tiny(model);
        for case in corpus() {
            for sampler in SAMPLERS {
                for temperature in [0.0, 1.0] {
                    let text = check(&mut engine, &case, sampler, temperature);
                    let schema: Value = serde_json::from_str(&case.schema).unwrap();
                    let (name, line) =
                        (&case.name, json!({"model": model, "sampler": sampler, "temperature": temperature}));
                    let mut line = line.as_object().unwrap().clone();
                    line.extend([
                        ("name".into(), json!(name)),
                        ("schema".into(), schema),
                        ("text".into(), json!(text)),
                    ]);
                    writeln!(file, "{}", Value::Object(line)).unwrap();
                }
            }
        }
    }
    file.flush().unwrap();
}

#[test]
fn expressions_and_choices_hold_on_the_toy() {
    let mut engine = Engine::open("toy", &RunOptions::default()).unwrap();
    let regex = "(Alan|Ada) [A-Z][a-z]+ .*(San|New) [A-Z][a-z]+ [a-z]+";
    let language = Language::regex(regex).unwrap();
    let choices = ["San Diego today", "New York again"];
    for sampler in SAMPLERS {
        for temperature in [0.0, 1.0] {
            let by_regex = options(json!({"regex": regex, "length": 6, "temperature": temperature, "seed": 1}));
            let text = fill(&mut engine, &Input::Nothing, sampler, &by_regex).text;
            assert!(language.matches(text.as_bytes()), "{sampler} at {temperature}: {text}");
            let by_choice = options(json!({"choice": choices, "temperature": temperature, "seed": 1}));
            let text = fill(&mut engine, &Input::Nothing, sampler, &by_choice).text;
            assert!(choices.contains(&text.as_str()), "{sampler} at {temperature}: {text}");
        }
    }
}

#[test]
fn a_template_has_an_expression_in_each_gap_and_a_schema_in_the_whole() {
    let mut engine = tiny("tiny-llada");
    let gaps = Input::Template("a [MASK:4], b [MASK:3]!".into());
    let text = fill(&mut engine, &gaps, "topk:2", &options(json!({"regex": "[xyz]{2,3}"}))).text;
    let words: Vec<&str> = text.strip_prefix("a ").and_then(|t| t.strip_suffix('!')).unwrap().split(", b ").collect();
    let is_word = |word: &&str| (2..=3).contains(&word.len()) && word.bytes().all(|b| b"xyz".contains(&b));
    assert!(words.len() == 2 && words.iter().all(is_word), "{text}");

    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": ["p", "q"]}}, "required": ["x", "y"]});
    let whole = Input::Template("{\"x\": [MASK:3], \"y\": [MASK:6]".into());
    let text = fill(&mut engine, &whole, "eb:0.8", &options(json!({"schema": schema}))).text;
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!(value["x"].is_i64() && [json!("p"), json!("q")].contains(&value["y"]), "{text}");

    let contradiction = Input::Template("{\"z\": [MASK:9]".into());
    let refused =
        engine.prepare(&contradiction, &"topk:1".parse().unwrap(), &options(json!({"schema": schema}))).unwrap_err();
    assert!(refused.to_string().contains("no valid text agrees"), "{refused}");
}

#[test]
fn any_object_is_an_object_and_tokens_are_held_by_runs() {
    let mut engine = tiny("tiny-dream");
    let generation =
        fill(&mut engine, &Input::Prompt("x".into()), "topk:2", &options(json!({"schema": "object", "length": 24})));
    let text = written(&engine, &generation);
    assert!(serde_json::from_str::<Value>(&text).unwrap().is_object(), "{text}");
    let mask = engine.mask_id();
    let a = engine.encode("a").unwrap()[0];
    let canvas = Input::Tokens(vec![a, mask, mask, a, mask]);
    let generation = fill(&mut engine, &canvas, "topk:1", &options(json!({"regex": "[0-9]"})));
    let text = engine.text(generation.canvas.tokens(), Specials::Hidden).unwrap();
    let digits: Vec<&str> = text.split('a').skip(1).collect();
    assert!(
        digits.len() == 2 && digits.iter().all(|digit| digit.len() == 1 && digit.bytes().all(|b| b.is_ascii_digit())),
        "{text}"
    );
}

#[test]
fn what_has_no_room_is_refused_and_without_a_length_gets_it() {
    let engine = tiny("tiny-llada");
    let long = "a".repeat(100);
    let prepare =
        |given: Value| engine.prepare(&Input::Prompt("x".into()), &"topk:1".parse().unwrap(), &options(given));
    let refused = prepare(json!({"choice": [long], "length": 5})).unwrap_err();
    assert!(
        matches!(refused, cofill_engine::Error::Language(LanguageError::Unsatisfiable { window: 5, .. })),
        "{refused}"
    );
    let ready = prepare(json!({"choice": [long]})).unwrap();
    let shortest = engine.language(&options(json!({"choice": [long]}))).unwrap().unwrap().shortest();
    assert_eq!(ready.start.n_masked(), shortest.max(engine.usual_length()));
    let unsupported = prepare(json!({"schema": {"type": "object", "patternProperties": {}}})).unwrap_err();
    assert!(unsupported.to_string().contains("patternProperties"), "{unsupported}");
}
