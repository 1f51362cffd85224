//! JSON whose objects keep their order: the order of `properties` is the order in which they are written.

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::fmt;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// In the order that the value has. `None` if it is nested deeper than `depth`.
    pub(crate) fn of(value: &Value, depth: usize) -> Option<Node> {
        let depth = depth.checked_sub(1)?;
        Some(match value {
            Value::Null => Node::Null,
            Value::Bool(b) => Node::Bool(*b),
            Value::Number(n) => Node::Number(n.clone()),
            Value::String(s) => Node::String(s.clone()),
            Value::Array(items) => Node::Array(items.iter().map(|item| Node::of(item, depth)).collect::<Option<_>>()?),
            Value::Object(map) => Node::Object(
                map.iter().map(|(key, item)| Some((key.clone(), Node::of(item, depth)?))).collect::<Option<_>>()?,
            ),
        })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Object(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Node::String(text) = self { Some(text) } else { None }
    }

    /// The value behind a JSON pointer (`/a/0/b`).
    pub(crate) fn pointer(&self, pointer: &str) -> Option<&Node> {
        pointer.split('/').skip(1).try_fold(self, |node, part| {
            let part = part.replace("~1", "/").replace("~0", "~");
            match node {
                Node::Array(items) => items.get(part.parse::<usize>().ok()?),
                node => node.get(&part),
            }
        })
    }

    /// The shortest way to write it.
    pub(crate) fn compact(&self) -> String {
        let list = |items: Vec<String>| items.join(",");
        match self {
            Node::Null => "null".into(),
            Node::Bool(b) => b.to_string(),
            Node::Number(n) => n.to_string(),
            Node::String(s) => quoted(s),
            Node::Array(items) => format!("[{}]", list(items.iter().map(Node::compact).collect())),
            Node::Object(entries) => {
                format!("{{{}}}", list(entries.iter().map(|(k, v)| format!("{}:{}", quoted(k), v.compact())).collect()))
            }
        }
    }
}

/// A string in JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Node, E> {
        Ok(Node::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Node, E> {
        Ok(Node::Number(n.into()))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Node, E> {
        Ok(Node::Number(n.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Node, E> {
        Number::from_f64(n).map(Node::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, s: &str) -> Result<Node, E> {
        Ok(Node::String(s.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        let mut keys = std::collections::HashSet::new();
        while let Some((key, node)) = map.next_entry::<String, Node>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("the key `{key}` stands there twice")));
            }
            entries.push((key, node));
        }
        Ok(Node::Object(entries))
    }
}
