//! Values in messages: short, on one line, by their kind.

use serde_json::Value;

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A text of anybody's in a message: on one line, and not longer than one can read.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut shown = String::new();
    for c in text.chars().take(SHOWN) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().nth(SHOWN).is_some() { format!("`{shown}...`") } else { format!("`{shown}`") }
}
