//! What a unit and a point are called: a hash of everything that decides their records.

use crate::spec::EvalSpec;
use cofill_tasks::data::sha256;
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::Path;

/// A unit's address: 128 bits of SHA-256 in hex.
pub(super) fn unit(what: &Map<String, Value>, docs: Range<usize>) -> String {
    hash(&json!({"what": what, "from": docs.start, "to": docs.end}))
}

/// A point's name: words for people, then eight digits of its hash.
pub(super) fn name(point: &EvalSpec, what: &Map<String, Value>) -> String {
    let model = Path::new(&point.model).file_name().map_or("model".into(), |name| name.to_string_lossy());
    let words = format!("{model}-{}-{}-{}", point.task.name(), point.sampler, &hash(&json!(what))[..8]);
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-+=".contains(c) { c } else { '_' };
    words.chars().map(plain).collect()
}

fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    sha256(text.as_bytes())[..32].into()
}

/// JSON with sorted keys and no spaces: the same value, the same text, whatever order a map remembers.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for value in values {
                canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn an_address_is_its_content() {
        let one = what(r#"{"task":"chain","data":{"b":1,"a":[1,2]}}"#);
        let same = what(r#"{"data":{"a":[1,2],"b":1},"task":"chain"}"#);
        let other = what(r#"{"task":"chain","data":{"b":1,"a":[2,1]}}"#);
        assert_eq!(unit(&one, 0..8), unit(&same, 0..8));
        let all = [unit(&one, 0..8), unit(&one, 0..9), unit(&one, 1..8), unit(&other, 0..8)];
        assert!(all.iter().enumerate().all(|(i, address)| address.len() == 32 && !all[..i].contains(address)));
        // Never again another one, or finished sweeps would begin anew.
        assert_eq!(unit(&what("{}"), 0..1), "1dff9a10314980093de2b4bdfa9e3e50");
    }
}
