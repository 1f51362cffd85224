use crate::support::characters;
use cofill_grammar::{Language, TokenAutomaton};
use serde_json::{Value, json};

/// The largest whole number that JavaScript counts to; zod writes it into every integer.
const SAFE: i64 = 9_007_199_254_740_991;

fn states(schema: &Value) -> usize {
    let (vocabulary, _) = characters();
    TokenAutomaton::new(&Language::schema(schema).unwrap(), &vocabulary).unwrap().states()
}

/// All texts of a sign and digits up to this length.
fn texts(longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..longest {
        let to = all.len();
        for i in from..to {
            all.extend("-0123456789".chars().map(|c| format!("{}{c}", all[i])).collect::<Vec<_>>());
        }
        from = to;
    }
    all
}

#[test]
fn every_short_text_is_within_the_limits_or_refused() {
    let texts: Vec<(String, Option<i64>)> = texts(4)
        .into_iter()
        .map(|text| {
            let number = text.parse().ok().filter(|n: &i64| n.to_string() == text); // no -0, no leading zeros
            (text, number)
        })
        .collect();
    let ends = [-1000, -101, -100, -99, -20, -9, -1, 0, 1, 8, 10, 11, 95, 100, 109, 999, 1000, 2345];
    let ends: Vec<Option<i64>> = [None].into_iter().chain(ends.map(Some)).collect();
    for (i, &low) in ends.iter().enumerate() {
        for (j, &high) in ends.iter().enumerate() {
            if low.is_none() && high.is_none() {
                continue; // no limits: any integer, written as JSON has it
            }
            // Each pair in one of six forms, so that all come up with all kinds of ends.
            let (exclusive, divisor) = ((i + j) % 2 == 1, [1, 3, 12][(i + 2 * j) % 3]);
            let mut schema = json!({ "type": "integer" });
            let (lower, upper) =
                if exclusive { ("exclusiveMinimum", "exclusiveMaximum") } else { ("minimum", "maximum") };
            for (keyword, limit) in [(lower, low), (upper, high)] {
                if let Some(limit) = limit {
                    schema[keyword] = json!(limit);
                }
            }
            if divisor != 1 {
                schema["multipleOf"] = json!(divisor);
            }
            let least = low.map_or(i64::MIN, |low| low + i64::from(exclusive));
            let most = high.map_or(i64::MAX, |high| high - i64::from(exclusive));
            let inside = |n: i64| n >= least && n <= most && n % divisor == 0;
            match Language::schema(&schema) {
                Ok(language) => {
                    for (text, number) in &texts {
                        assert_eq!(language.matches(text.as_bytes()), number.is_some_and(inside), "{text} by {schema}");
                    }
                }
                Err(error) => {
                    assert!(low.is_some() && high.is_some() && !(least..=most).any(inside), "{schema}: {error}");
                }
            }
        }
    }
}

#[test]
fn wide_limits_are_exact_at_their_ends() {
    for (low, high) in [
        (i128::from(-SAFE), i128::from(SAFE)),
        (i128::from(i64::MIN), i128::from(i64::MAX)),
        (0, i128::from(u64::MAX)),
        (i128::from(i64::MIN), i128::from(u64::MAX)),
        (i128::from(i32::MIN), i128::from(i32::MAX)),
        (999_999_999_999, 1_000_000_000_000),
        (123_456_789_012, 123_456_999_999),
        (-4_000_000_000_000_000_000, -17),
        (1, 10_000_000_000_000_000_000),
    ] {
        let limit = |n: i128| u64::try_from(n).map_or_else(|_| json!(i64::try_from(n).unwrap()), |n| json!(n));
        let whole = json!({ "type": "integer", "minimum": limit(low), "maximum": limit(high) });
        let open = json!({ "type": "number", "exclusiveMinimum": limit(low), "exclusiveMaximum": limit(high) });
        let (integers, numbers) = (Language::schema(&whole).unwrap(), Language::schema(&open).unwrap());
        assert!(states(&whole) < 200 && states(&open) < 400, "{whole}: {} and {}", states(&whole), states(&open));
        // Around either end, around all powers of ten, and either end with another digit anywhere, or one more or less.
        let mut near: Vec<i128> = (0..22).map(|k| 10i128.pow(k)).flat_map(|p| [p, -p]).chain([low, high, 0]).collect();
        near = near.into_iter().flat_map(|n| (-12..=12).map(move |d| n + d)).collect();
        for end in [low, high] {
            near.extend((0..22).flat_map(|k| (1..10).flat_map(move |d| [-d, d].map(|d| end + d * 10i128.pow(k)))));
            near.extend((0..10).map(|d| end * 10 + d).chain([end / 10]));
        }
        for n in near {
            assert_eq!(integers.matches(n.to_string().as_bytes()), n >= low && n <= high, "{n} by {whole}");
            assert_eq!(numbers.matches(n.to_string().as_bytes()), n > low && n < high, "{n} by {open}");
            assert!(!integers.matches(format!("0{n}").as_bytes()) && !integers.matches(format!("{n}.0").as_bytes()));
        }
        assert!(!integers.matches(b"-0") && !integers.matches(b"") && !integers.matches(b"-"));
    }
}

#[test]
fn integers_of_zod_cost_little() {
    let integer = json!({ "type": "integer", "minimum": -SAFE, "maximum": SAFE });
    // With the sign or without: at most 16 digits, of which the first ones are those of the limit or are not.
    assert!(states(&integer) < 60, "{}", states(&integer));
    let positive = json!({ "type": "integer", "exclusiveMinimum": 0, "maximum": SAFE, "multipleOf": 5 });
    assert!(states(&positive) < 200, "{}", states(&positive));
    let names: Vec<String> = (0..100).map(|i| format!("field {i}")).collect();
    let properties: Value = names.iter().map(|name| (name.clone(), integer.clone())).collect();
    let many = json!({ "type": "object", "properties": properties, "required": names });
    assert!(states(&many) < 100 * 60);
}
