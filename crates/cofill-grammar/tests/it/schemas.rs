use crate::support::{Random, busy, characters};
use cofill_grammar::{Error, Language, TokenAutomaton};
use serde_json::{Value, json};
use std::time::Instant;

#[test]
fn what_is_large_but_not_too_large_is_written() {
    let (vocabulary, _) = characters();
    for schema in [
        json!({ "type": "string", "maxLength": 1500 }),
        json!({ "type": "array", "items": { "type": "string", "maxLength": 40 }, "maxItems": 20 }),
        json!({ "type": "array", "items": { "type": "integer" }, "maxItems": 1000 }),
        json!({ "enum": (0..2000).map(|i| format!("value number {i}")).collect::<Vec<_>>() }),
    ] {
        TokenAutomaton::new(&Language::schema(&schema).unwrap(), &vocabulary).unwrap();
    }
}

/// The corpus, which tests of other crates read as well. Its properties are in alphabetical order, so that no reader of JSON can change it.
fn corpus() -> Vec<Value> {
    serde_json::from_str(include_str!("../schemas.json")).unwrap()
}

fn texts<'a>(entry: &'a Value, key: &str) -> Vec<&'a str> {
    entry[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn the_corpus_matches_what_it_should_and_nothing_it_should_not() {
    let corpus = corpus();
    assert!(corpus.len() >= 60);
    let (vocabulary, _) = characters();
    for entry in &corpus {
        let name = entry["name"].as_str().unwrap();
        let language = Language::schema(&entry["schema"]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for text in texts(entry, "valid") {
            assert!(language.matches(text.as_bytes()), "{name}: {text} should be valid");
            serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{name}: {text}: {e}"));
        }
        for text in texts(entry, "invalid") {
            assert!(!language.matches(text.as_bytes()), "{name}: {text} should not be valid");
        }
        let shortest = TokenAutomaton::new(&language, &vocabulary).unwrap().shortest();
        let window = entry["window"].as_u64().unwrap() as usize;
        assert!(shortest <= window && window <= 64, "{name}: the shortest text has {shortest} characters");
        assert!(texts(entry, "valid").iter().any(|text| text.chars().count() <= window), "{name}");
    }
}

#[test]
fn properties_stand_in_the_order_of_the_text() {
    let text = r#"{"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["a","z"]}"#;
    let (ordered, sorted) =
        (Language::schema_text(text).unwrap(), Language::schema(&serde_json::from_str(text).unwrap()).unwrap());
    let (z_first, a_first) = (br#"{"z":null,"a":null}"#, br#"{"a":null,"z":null}"#);
    assert!(ordered.matches(z_first) && !ordered.matches(a_first));
    assert!(sorted.matches(a_first) && !sorted.matches(z_first));
}

#[test]
fn a_key_that_stands_there_twice_is_refused() {
    let error = Language::schema_text(r#"{"type":"integer","type":"null"}"#).unwrap_err();
    assert!(error.to_string().contains("`type` stands there twice"), "{error}");
    assert!(Language::schema_text("{").is_err());
}

#[test]
fn what_cannot_be_kept_to_is_refused_by_name_and_place() {
    let inside = |schema: Value| json!({ "type": "object", "properties": { "a/b": schema } });
    for (schema, keyword) in [
        (json!({ "not": {} }), "not"),
        (json!({ "if": true, "then": true }), "if"),
        (json!({ "type": "array", "contains": {} }), "contains"),
        (json!({ "type": "array", "uniqueItems": true }), "uniqueItems"),
        (json!({ "type": "object", "additionalProperties": true }), "additionalProperties other than false"),
        (json!({ "type": "object", "patternProperties": {} }), "patternProperties"),
        (json!({ "type": "object", "minProperties": 1 }), "minProperties"),
        (json!({ "allOf": [true, true] }), "allOf of several schemas"),
        (json!({ "anyOf": [true], "type": "string" }), "type beside anyOf"),
        (json!({ "$ref": "https://example.org/schema" }), "$ref: https://example.org/schema"),
        (json!({ "type": "string", "format": "hostname" }), "format: hostname"),
        (json!({ "type": "number", "multipleOf": 0.01 }), "multipleOf of a number that is no integer"),
        (json!({ "type": "integer", "multipleOf": 1.5 }), "multipleOf other than a whole number from 1 to 1000"),
        (json!({ "type": "number", "minimum": 0.5 }), "minimum with a fraction"),
        (json!({ "type": "string", "nullable": true }), "nullable"),
    ] {
        let want = Error::UnsupportedKeyword { keyword: keyword.into(), path: "#/properties/a~1b".into() };
        assert_eq!(Language::schema(&inside(schema)).unwrap_err(), want);
    }
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    for (schema, path, word) in [
        (json!(3), "#", "an object"),
        (json!({ "type": "text" }), "#/type", "`text` is no type"),
        (json!({ "type": [] }), "#/type", "at least one"),
        (json!({ "anyOf": [] }), "#/anyOf", "at least one"),
        (json!({ "enum": [] }), "#", "no value"),
        (json!({ "enum": 3 }), "#/enum", "a list"),
        (json!({ "type": "string", "maxLength": -1 }), "#/maxLength", "whole number"),
        (json!({ "type": "string", "minLength": 1.5 }), "#/minLength", "whole number"),
        (json!({ "type": "integer", "minimum": "1" }), "#/minimum", "a number"),
        (json!({ "type": "integer", "exclusiveMinimum": true }), "#/exclusiveMinimum", "a number"),
        (json!({ "type": "object", "properties": {}, "required": ["x"] }), "#/required", "`x`"),
        (json!({ "type": "object", "required": [1] }), "#/required", "a list of names"),
        (json!({ "type": "object", "properties": [] }), "#/properties", "object of schemas"),
        (json!({ "$ref": "#/$defs/x" }), "#/$ref", "nothing at `#/$defs/x`"),
        (json!({ "items": { "prefixItems": {} } }), "#/items/prefixItems", "a list"),
        (json!(false), "#", "no text"),
        (json!({ "type": "string", "minLength": 3, "maxLength": 2 }), "#", "no text"),
        (json!({ "type": "integer", "minimum": 3, "maximum": 2 }), "#", "no text"),
        (json!({ "enum": [1], "type": "string" }), "#", "no text"),
        (json!({ "$ref": "#" }), "#", "requires itself"),
        (
            json!({ "type": "object", "properties": { "x": { "$ref": "#" } }, "required": ["x"] }),
            "#",
            "requires itself",
        ),
    ] {
        match Language::schema(&schema) {
            Err(Error::BadSchema { path: got, problem }) => {
                assert_eq!(got, path, "{schema}");
                assert!(problem.contains(word), "{schema}: {problem}");
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
    assert!(matches!(Language::schema(&json!({ "type": "string", "pattern": "(?=a)" })), Err(Error::BadRegex { .. })));
}

#[test]
fn limits_of_integers_are_exact() {
    for (low, high) in [(0, 0), (3, 3), (-1, 1), (7, 123), (-250, 37), (99, 101), (-1000, -99), (1, 999)] {
        for (lower, upper, l, h) in
            [("minimum", "maximum", low, high), ("exclusiveMinimum", "exclusiveMaximum", low - 1, high + 1)]
        {
            let language = Language::schema(&json!({ "type": "integer", lower: l, upper: h })).unwrap();
            let decimal = Language::schema(&json!({ "type": "number", lower: l, upper: h })).unwrap();
            let half_above = |n: i64| if n >= 0 { format!("{n}.5") } else { format!("-{}.5", -(n + 1)) };
            for n in -1100..1100i64 {
                assert_eq!(
                    language.matches(n.to_string().as_bytes()),
                    (low..=high).contains(&n),
                    "{n} in {low}..={high}"
                );
                let text = half_above(n);
                let value: f64 = text.parse().unwrap();
                let inside = if lower == "minimum" {
                    value >= l as f64 && value <= h as f64
                } else {
                    value > l as f64 && value < h as f64
                };
                assert_eq!(decimal.matches(text.as_bytes()), inside, "{text} in {l}..{h} ({lower})");
                assert_eq!(
                    decimal.matches(format!("{n}.00").as_bytes()),
                    (low..=high).contains(&n),
                    "{n}.00 in {low}..={high}"
                );
            }
        }
    }
    for divisor in [1, 2, 3, 10, 64, 999] {
        let language =
            Language::schema(&json!({ "type": "integer", "multipleOf": divisor, "minimum": -2000 })).unwrap();
        for n in -2100..2100 {
            assert_eq!(language.matches(n.to_string().as_bytes()), n >= -2000 && n % divisor == 0, "{n} by {divisor}");
        }
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    let language = Language::schema(&json!({ "format": "date" })).unwrap();
    let leap = |y: u32| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    for year in (1..9999).step_by(37).chain([1600, 1900, 2000, 2100, 2024, 2023, 9996]) {
        for month in 0..=13 {
            let days = match month {
                1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
                4 | 6 | 9 | 11 => 30,
                2 => 28 + u32::from(leap(year)),
                _ => 0,
            };
            for day in 0..=32 {
                let text = format!("\"{year:04}-{month:02}-{day:02}\"");
                assert_eq!(language.matches(text.as_bytes()), day >= 1 && day <= days, "{text}");
            }
        }
    }
}

#[test]
fn any_json_object_is_json() {
    let language = Language::any_json().unwrap();
    for text in [
        "{}",
        r#"{"a":1}"#,
        r#"{"a": [1, {"b": "c\n"}], "d": null}"#,
        r#"{"a":{"b":{"c":{"d":{}}}}}"#,
        r#"{"a":[[[[1]]]]}"#,
    ] {
        assert!(language.matches(text.as_bytes()), "{text}");
    }
    for text in ["", "[]", "1", "{", r#"{"a":1}}"#, r#"{"a":[1}"#, r#"{"a":[[[[[1]]]]]}"#, r#"{a:1}"#] {
        assert!(!language.matches(text.as_bytes()), "{text}");
    }
}

#[test]
fn recursion_goes_five_deep() {
    let list = json!({ "type": "object", "properties": { "n": { "$ref": "#" } } });
    let language = Language::schema(&list).unwrap();
    let nested = |n: usize| format!("{}{{}}{}", "{\"n\":".repeat(n), "}".repeat(n));
    for depth in 0..8 {
        assert_eq!(language.matches(nested(depth).as_bytes()), depth <= 5, "{depth}");
    }
}

/// Replaces a few values anywhere by others that do not belong there.
fn mutate(value: &mut Value, random: &mut Random, donors: &[Value]) {
    if random.below(12) == 0 {
        *value = donors[random.below(donors.len())].clone();
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| mutate(item, random, donors)),
        Value::Object(map) => {
            if random.below(8) == 0 {
                let keyword = [
                    "minItems",
                    "maxLength",
                    "minimum",
                    "exclusiveMaximum",
                    "pattern",
                    "$ref",
                    "anyOf",
                    "enum",
                    "required",
                ][random.below(9)];
                map.insert(keyword.into(), donors[random.below(donors.len())].clone());
            }
            map.values_mut().for_each(|item| mutate(item, random, donors));
        }
        _ => {}
    }
}

#[test]
fn no_schema_makes_it_panic_and_every_language_has_a_text() {
    let mut donors = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(3),
        json!(2.5),
        json!(1e29),
        json!(-1e300),
        json!(u64::MAX),
        json!(i64::MIN),
    ];
    donors.extend([
        json!(""),
        json!("#"),
        json!("a|^b$"),
        json!("[^\\d\"]"),
        json!([]),
        json!({}),
        json!(["a", 1]),
        json!("string"),
        json!(["a"]),
    ]);
    donors.extend(corpus().into_iter().map(|entry| entry["schema"].clone()));
    let (vocabulary, _) = characters();
    let (mut random, mut languages) = (Random(5), 0);
    for _ in 0..30 {
        for entry in corpus() {
            let mut schema = entry["schema"].clone();
            mutate(&mut schema, &mut random, &donors);
            if let Ok(language) = Language::schema(&schema) {
                languages += 1;
                if languages % 10 == 0 {
                    TokenAutomaton::new(&language, &vocabulary).unwrap_or_else(|e| panic!("{schema}: {e}"));
                }
            }
        }
    }
    assert!(languages > 500, "{languages}");
}

#[test]
fn schema_bombs_are_refused_soon() {
    let began = Instant::now();
    let doubling = |kind: &str, n: usize| {
        let mut defs = serde_json::Map::new();
        for i in 0..n {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            defs.insert(
                format!("d{i}"),
                if kind == "anyOf" {
                    json!({ "anyOf": [next, next] })
                } else {
                    json!({ "type": "array", "prefixItems": [next, next], "minItems": 2 })
                },
            );
        }
        defs.insert(format!("d{n}"), json!({ "type": "string" }));
        json!({ "$defs": defs, "$ref": "#/$defs/d0" })
    };
    let wide: serde_json::Map<String, Value> = (0..60).map(|i| (format!("p{i}"), json!({ "$ref": "#" }))).collect();
    let mut deep = json!({ "type": "string" });
    for _ in 0..90 {
        deep = json!({ "type": "array", "items": deep, "minItems": 2, "maxItems": 3 });
    }
    let mut deeper = json!({ "type": "string" });
    for _ in 0..2000 {
        deeper = json!({ "items": deeper });
    }
    let many = |schema: Value| {
        let properties: serde_json::Map<String, Value> = (0..3000).map(|i| (format!("p{i}"), schema.clone())).collect();
        json!({ "type": "object", "properties": properties })
    };
    let values: Vec<String> = (0..50_000).map(|i| format!("value number {i}")).collect();
    for (name, schema) in [
        ("doubling choices", doubling("anyOf", 40)),
        ("doubling arrays", doubling("array", 40)),
        ("wide recursion", json!({ "type": "object", "properties": wide })),
        ("deep arrays", deep),
        ("very deep", deeper),
        ("a long string", json!({ "type": "string", "maxLength": 1_000_000_000 })),
        ("a long least string", json!({ "type": "string", "minLength": 4_000_000_000_000_000_000u64 })),
        ("many items", json!({ "type": "array", "items": { "type": "string" }, "maxItems": 1_000_000 })),
        (
            "counted strings in counted arrays",
            json!({ "type": "array", "items": { "type": "string", "maxLength": 300 }, "maxItems": 300 }),
        ),
        ("many patterns", many(json!({ "type": "string", "pattern": "a.{10}$", "maxLength": 20 }))),
        ("many classes", many(json!({ "type": "string", "pattern": r"(?i)\pL\pL\pL\pL\pL\pL\pL" }))),
        ("many divisors", many(json!({ "type": "integer", "multipleOf": 997, "minimum": 123_456 }))),
        ("many dates", many(json!({ "type": "string", "format": "date-time" }))),
        ("many values", json!({ "enum": values })),
        ("nested quantifiers", json!({ "type": "string", "pattern": "^(((a{1,50}b?){1,50}c?){1,50})$" })),
        ("the letter before the last forty", json!({ "type": "string", "pattern": "a.{40}$" })),
        (
            "lengths against a pattern",
            json!({ "type": "string", "pattern": "(a|b)*a(a|b){12}", "minLength": 500, "maxLength": 900 }),
        ),
    ] {
        let start = busy(began);
        let error = Language::schema(&schema).unwrap_err();
        let took = busy(began) - start;
        std::mem::forget(schema); // dropping what is nested so deep is recursive, too
        assert!(matches!(error, Error::TooManyStates { .. } | Error::TooLarge { .. }), "{name}: {error}");
        assert!(took.as_secs_f64() < 2.0, "{name} took {took:?}");
    }
}
