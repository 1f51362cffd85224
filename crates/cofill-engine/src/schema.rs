//! A JSON Schema as an option: kept as text, because the order of its keys is the order in which they are written.

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer, ser};
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// What stands for "any JSON object" where a schema is expected (OpenAI's `json_object`).
const ANY_OBJECT: &str = "object";

/// More than any schema that people write, and little enough to read.
const MOST_BYTES: u64 = 1 << 20;

/// A JSON Schema, or the word `object` for any JSON object.
///
/// Recipes, requests and Python write it inline, as an object or as the text of one; the command reads a file (`--schema FILE`). It is
/// written as an object where its keys are sorted, else as text: objects on their way through JSON values lose the order of their keys,
/// and with it the order in which a decode writes them.
///
/// ```
/// use cofill_engine::Schema;
/// let schema: Schema = r#"{"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}}}"#.parse()?;
/// assert_eq!(schema.text(), r#"{"type":"object","properties":{"b":{"type":"null"},"a":{"type":"null"}}}"#);
/// assert!("object".parse::<Schema>()?.is_any_object());
/// # Ok::<(), cofill_engine::BadSchema>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Schema {
    text: String, // compact JSON, or the word
}

/// A schema that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema {0}")]
pub struct BadSchema(String);

impl Schema {
    /// Any JSON object.
    pub fn any_object() -> Schema {
        Schema { text: ANY_OBJECT.into() }
    }

    /// Whether any JSON object will do.
    pub fn is_any_object(&self) -> bool {
        self.text == ANY_OBJECT
    }

    /// The schema as compact JSON, its keys in their order; the word `object` for any object.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// From a file of JSON.
    pub fn read(path: &Path) -> Result<Schema, BadSchema> {
        let name = path.display();
        let failed = |error: std::io::Error| BadSchema(format!("`{name}` cannot be read: {error}"));
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > MOST_BYTES {
            return Err(BadSchema(format!("`{name}` has {bytes} bytes, but {MOST_BYTES} is the most")));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        text.parse().map_err(|BadSchema(problem)| BadSchema(format!("`{name}` {problem}")))
    }

    /// What is written after `--schema`: a file, or the word `object`; a file of that name is `./object`.
    pub fn of_argument(given: &str) -> Result<Schema, BadSchema> {
        if given == ANY_OBJECT { Ok(Schema::any_object()) } else { Schema::read(Path::new(given)) }
    }
}

impl FromStr for Schema {
    type Err = BadSchema;

    /// The text of a schema, or the word `object`.
    fn from_str(text: &str) -> Result<Schema, BadSchema> {
        if text.trim() == ANY_OBJECT {
            return Ok(Schema::any_object());
        }
        let Json(text) = serde_json::from_str(text)
            .map_err(|error| BadSchema(format!("is not the text of a JSON object: {error}")))?;
        Schema::of_json(text)
    }
}

impl Schema {
    fn of_json(text: String) -> Result<Schema, BadSchema> {
        // `true` is a schema, too: of any JSON.
        if text.starts_with('{') || text == "true" {
            return Ok(Schema { text });
        }
        Err(BadSchema(format!("must be a JSON object, or `object` for any object; it is {text:.60}")))
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        if self.is_any_object() {
            return out.serialize_str(&self.text);
        }
        let value: Value = serde_json::from_str(&self.text).map_err(ser::Error::custom)?;
        // Sorted keys survive the way through a value; others go as text.
        let sorted = value.to_string();
        if sorted == self.text { value.serialize(out) } else { out.serialize_str(&self.text) }
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Schema, D::Error> {
        let Json(text) = Json::deserialize(given)?;
        let inner = serde_json::from_str::<String>(&text); // a text that holds the text of a schema
        let schema = inner.map_or_else(|_| Schema::of_json(text), |inner| inner.parse());
        schema.map_err(serde::de::Error::custom)
    }
}

/// Any value as compact JSON text, keys in the order they came.
struct Json(String);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Json, D::Error> {
        given.deserialize_any(AsJson)
    }
}

struct AsJson;

impl AsJson {
    fn leaf<E>(value: impl Into<Value>) -> Result<Json, E> {
        Ok(Json(value.into().to_string()))
    }
}

impl<'de> Visitor<'de> for AsJson {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON Schema (an object, or its text), or `object` for any JSON object")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        AsJson::leaf(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        AsJson::leaf(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        AsJson::leaf(value)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        AsJson::leaf(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        AsJson::leaf(value)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        AsJson::leaf(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        AsJson::leaf(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, given: D) -> Result<Json, D::Error> {
        Json::deserialize(given)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut parts = Vec::new();
        while let Some(Json(item)) = items.next_element()? {
            parts.push(item);
        }
        Ok(Json(format!("[{}]", parts.join(","))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut parts = Vec::new();
        while let Some((name, Json(value))) = fields.next_entry::<String, Json>()? {
            parts.push(format!("{}:{value}", Value::from(name)));
        }
        Ok(Json(format!("{{{}}}", parts.join(","))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_order_of_keys_is_kept_wherever_it_was_known() {
        let text = r#"{"z":[1,-2,0.5,null,true,"\"x\""],"a":{"y":{},"b":[]}}"#;
        let inline: Schema = serde_json::from_str(text).unwrap();
        assert_eq!(inline.text(), text);
        // Out through a value, which sorts keys, and in again: the same.
        let value = serde_json::to_value(&inline).unwrap();
        assert_eq!(value, json!(text), "as text, since its keys are not sorted");
        assert_eq!(serde_json::from_value::<Schema>(value).unwrap(), inline);
        let sorted: Schema = serde_json::from_value(json!({"type": "object", "a": 1})).unwrap();
        assert_eq!(serde_json::to_value(&sorted).unwrap(), json!({"a": 1, "type": "object"}));
    }

    #[test]
    fn the_word_object_is_any_object() {
        for given in [json!("object"), json!(" object ")] {
            let schema: Schema = serde_json::from_value(given).unwrap();
            assert!(schema.is_any_object());
            assert_eq!(serde_json::to_value(&schema).unwrap(), json!("object"));
        }
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for (given, named) in [
            (json!(false), "must be a JSON object"),
            (json!([1]), "it is [1]"),
            (json!("objekt"), "not the text of a JSON object"),
            (json!("3"), "it is 3"),
        ] {
            let said = serde_json::from_value::<Schema>(given).unwrap_err().to_string();
            assert!(said.starts_with("schema ") && said.contains(named), "{said}");
        }
        let missing = Schema::of_argument("no/such/file.json").unwrap_err().to_string();
        assert!(missing.starts_with("schema `no/such/file.json` cannot be read"), "{missing}");
    }
}
