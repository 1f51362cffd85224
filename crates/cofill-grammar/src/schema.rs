//! JSON Schema to a language: what one can be held to while writing from any side.
//!
//! Properties stand in the order given, arrays and objects end where the schema ends (`additionalProperties` is false unless said, and may not
//! be otherwise), and JSON is compact, with at most one space behind a colon or a comma. Everything written is valid by the schema; not everything
//! that the schema would accept can be written.

mod keywords;
mod number;
mod parts;
mod string;
mod tree;

use crate::nfa::Expr;
use crate::work::Work;
use crate::{Error, Language, Result};
use parts::{any_object, any_value, comma, entry, literal, quotes};
use std::sync::Arc;
use tree::{Node, quoted};

/// How often a schema may occur within itself.
const RECURSION: usize = 5;
/// How deep a schema may be nested, references followed.
const DEPTH: usize = 100;
/// How many schemas there may be, references followed and values of `enum` counted.
const NODES: usize = 20_000;
/// How deep the values of a schema without any limits (`true`, `{}`, an object without `properties`) may be nested.
const FREE_NESTING: usize = 2;
/// How deep `json_object` may be nested.
const JSON_NESTING: usize = 5;

/// Keywords that say nothing about what is valid.
const REMARKS: [&str; 13] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
];
const OBJECT: [&str; 3] = ["properties", "required", "additionalProperties"];
const ARRAY: [&str; 5] = ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"];
const STRING: [&str; 4] = ["minLength", "maxLength", "pattern", "format"];
const NUMERIC: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

impl Language {
    /// Texts that are valid by this JSON Schema. `properties` are written in the order that the value has: alphabetically, as `serde_json` is built here;
    /// [`Language::schema_text`] keeps the order of a text.
    ///
    /// Supported are `type` (also a list), `enum`, `const`, `properties`, `required`, `additionalProperties: false`, `items`, `prefixItems`, `minItems`,
    /// `maxItems`, `minLength`, `maxLength`, `pattern`, `format` (date, time, date-time, uuid, email, ipv4), limits of numbers, `multipleOf` of integers, `anyOf`,
    /// `oneOf` (taken as `anyOf`), `allOf` of one, and `$ref` within the schema, which may recur 5 deep. Other keywords are refused by name.
    pub fn schema(schema: &serde_json::Value) -> Result<Language> {
        let root = Node::of(schema, DEPTH).ok_or(Error::TooLarge {
            what: "levels of a schema",
            given: DEPTH,
            limit: DEPTH,
        })?;
        compile(&root)
    }

    /// The same from a text, whose order of `properties` is kept.
    pub fn schema_text(schema: &str) -> Result<Language> {
        let root: Node = serde_json::from_str(schema).map_err(|e| bad("#", e.to_string()))?;
        compile(&root)
    }

    /// Any JSON object, nested up to 5 deep.
    pub fn any_json() -> Result<Language> {
        Ok(Language { dfa: any_object(JSON_NESTING)? })
    }
}

fn compile(root: &Node) -> Result<Language> {
    let mut compiler = Compiler { root, active: Vec::new(), depth: 0, nodes: 0, work: Work::new() };
    let nothing = || {
        bad(
            "#",
            "no text is valid: look for `false`, limits that exclude each other, or a schema that requires itself"
                .into(),
        )
    };
    let expr = compiler.schema(root, "#")?.ok_or_else(nothing)?;
    let dfa = expr.dfa(&compiler.work)?;
    if dfa.states() == 0 {
        return Err(nothing());
    }
    Ok(Language { dfa: Arc::new(dfa) })
}

/// A schema on its way to an expression. `None` stands for a schema that nothing is valid by.
struct Compiler<'a> {
    root: &'a Node,
    active: Vec<&'a Node>, // references that are being followed
    depth: usize,
    nodes: usize,
    work: Work,
}

impl<'a> Compiler<'a> {
    fn schema(&mut self, node: &'a Node, path: &str) -> Result<Option<Expr>> {
        self.spend(1)?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::TooLarge {
                what: "levels of a schema, references followed",
                given: self.depth,
                limit: DEPTH,
            });
        }
        let expr = match node {
            Node::Bool(true) => any_value(FREE_NESTING).map(|dfa| Some(Expr::Dfa(dfa))),
            Node::Bool(false) => Ok(None),
            Node::Object(entries) => self.object_schema(node, entries, path),
            _ => Err(bad(path, "a schema is an object, `true` or `false`".into())),
        };
        self.depth -= 1;
        expr
    }

    fn spend(&mut self, nodes: usize) -> Result<()> {
        self.nodes += nodes;
        if self.nodes > NODES {
            return Err(Error::TooLarge {
                what: "schemas and values of a schema, references followed",
                given: self.nodes,
                limit: NODES,
            });
        }
        Ok(())
    }

    fn object_schema(&mut self, node: &'a Node, entries: &'a [(String, Node)], path: &str) -> Result<Option<Expr>> {
        let known = |key: &str| {
            let own = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"];
            [&REMARKS[..], &OBJECT, &ARRAY, &STRING, &NUMERIC, &own].iter().any(|list| list.contains(&key))
        };
        let keys: Vec<&str> =
            entries.iter().map(|(key, _)| key.as_str()).filter(|key| !REMARKS.contains(key)).collect();
        if let Some(keyword) = keys.iter().find(|key| !known(key)) {
            return Err(unsupported(keyword, path));
        }
        // These decide alone.
        for keyword in ["$ref", "anyOf", "oneOf", "allOf"] {
            if let Some(value) = node.get(keyword) {
                if let Some(other) = keys.iter().find(|&&key| key != keyword) {
                    return Err(unsupported(&format!("{other} beside {keyword}"), path));
                }
                return self.combined(keyword, value, path);
            }
        }
        if keys.iter().any(|&key| key == "enum" || key == "const") {
            return self.values(node, &keys, path);
        }
        let mut options = Vec::new();
        for name in types(node, &keys, path)? {
            options.extend(self.typed(name, node, path)?);
        }
        if keys.is_empty() {
            options.push(Expr::Dfa(any_value(FREE_NESTING)?));
        }
        Ok((!options.is_empty()).then_some(Expr::Alt(options)))
    }

    fn combined(&mut self, keyword: &str, value: &'a Node, path: &str) -> Result<Option<Expr>> {
        let path = format!("{path}/{keyword}");
        if keyword == "$ref" {
            return self.reference(value, &path);
        }
        let Node::Array(schemas) = value else { return Err(bad(&path, "a list of schemas is needed".into())) };
        match (keyword, schemas.len()) {
            (_, 0) => return Err(bad(&path, "at least one schema is needed".into())),
            ("allOf", 2..) => return Err(unsupported("allOf of several schemas", path.trim_end_matches("/allOf"))),
            _ => {}
        }
        let mut options = Vec::new();
        for (i, schema) in schemas.iter().enumerate() {
            options.extend(self.schema(schema, &format!("{path}/{i}"))?);
        }
        Ok((!options.is_empty()).then_some(Expr::Alt(options)))
    }

    fn reference(&mut self, value: &Node, path: &str) -> Result<Option<Expr>> {
        let Node::String(target) = value else { return Err(bad(path, "a reference is a string".into())) };
        let Some(pointer) = target.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
        else {
            return Err(unsupported(&format!("$ref: {target}"), path.trim_end_matches("/$ref")));
        };
        let pointer = percent_decoded(pointer);
        let node = self.root.pointer(&pointer).ok_or_else(|| bad(path, format!("there is nothing at `{target}`")))?;
        if self.active.iter().filter(|active| std::ptr::eq(**active, node)).count() >= RECURSION {
            return Ok(None);
        }
        self.active.push(node);
        let expr = self.schema(node, &format!("#{pointer}"));
        self.active.pop();
        expr
    }

    /// `enum` and `const`: those of the values that are valid by the rest of the schema.
    fn values(&mut self, node: &'a Node, keys: &[&str], path: &str) -> Result<Option<Expr>> {
        let mut values: Vec<&Node> = match (node.get("enum"), node.get("const")) {
            (Some(Node::Array(values)), Some(only)) => values.iter().filter(|value| *value == only).collect(),
            (Some(Node::Array(values)), None) => values.iter().collect(),
            (None, Some(only)) => vec![only],
            _ => return Err(bad(&format!("{path}/enum"), "a list of values is needed".into())),
        };
        if values.is_empty() {
            return Err(bad(path, "no value is left to choose".into()));
        }
        let written: Vec<String> = values.iter().map(|value| value.compact()).collect();
        self.spend(written.iter().map(|text| 1 + text.len() / 64).sum())?;
        let rest: Vec<&str> = keys.iter().copied().filter(|&key| key != "enum" && key != "const").collect();
        if !rest.is_empty() {
            let mut options = Vec::new();
            for name in types(node, &rest, path)? {
                options.extend(self.typed(name, node, path)?);
            }
            let dfa = Expr::Alt(options).dfa(&self.work)?;
            let mut texts = written.iter();
            values.retain(|_| texts.next().is_some_and(|text| dfa.matches(text.as_bytes())));
        }
        let options: Vec<Expr> = values.into_iter().map(literal).collect();
        Ok((!options.is_empty()).then_some(Expr::Alt(options)))
    }

    fn typed(&mut self, name: &str, node: &'a Node, path: &str) -> Result<Option<Expr>> {
        Ok(match name {
            "null" => Some(Expr::text("null")),
            "boolean" => Some(Expr::Alt(vec![Expr::text("true"), Expr::text("false")])),
            "string" => Some(quotes(keywords::string(node, path, &self.work)?)),
            "integer" => keywords::integer(node, path, &self.work)?,
            "number" => keywords::decimal(node, path, &self.work)?,
            "array" => self.array(node, path)?,
            _ => self.object(node, path)?,
        })
    }

    fn object(&mut self, node: &'a Node, path: &str) -> Result<Option<Expr>> {
        match node.get("additionalProperties") {
            None | Some(Node::Bool(false)) => {}
            Some(_) => return Err(unsupported("additionalProperties other than false", path)),
        }
        let needs_names = || bad(&format!("{path}/required"), "a list of names is needed".into());
        let required: Vec<&str> = match node.get("required") {
            None => Vec::new(),
            Some(Node::Array(names)) => {
                names.iter().map(Node::as_str).collect::<Option<_>>().ok_or_else(needs_names)?
            }
            Some(_) => return Err(needs_names()),
        };
        let properties = match node.get("properties") {
            Some(Node::Object(properties)) => properties.as_slice(),
            Some(_) => return Err(bad(&format!("{path}/properties"), "an object of schemas is needed".into())),
            None if required.is_empty() && node.get("additionalProperties").is_none() => {
                return Ok(Some(Expr::Dfa(any_object(FREE_NESTING)?)));
            }
            None => &[],
        };
        if let Some(name) = required.iter().find(|name| !properties.iter().any(|(key, _)| key == *name)) {
            return Err(bad(
                &format!("{path}/required"),
                format!("`{name}` is not among the properties, and others are not written"),
            ));
        }
        let mut members = Vec::new();
        for (key, schema) in properties {
            let is_required = required.contains(&key.as_str());
            match self.schema(schema, &format!("{path}/properties/{}", key.replace('~', "~0").replace('/', "~1")))? {
                Some(value) => members.push((entry(Expr::text(&quoted(key)), value), is_required)),
                None if is_required => return Ok(None),
                None => {}
            }
        }
        let members = Expr::Members { members, separator: Box::new(comma()) };
        Ok(Some(Expr::Concat(vec![Expr::text("{"), members, Expr::text("}")])))
    }

    fn array(&mut self, node: &'a Node, path: &str) -> Result<Option<Expr>> {
        if node.get("uniqueItems").is_some_and(|value| *value != Node::Bool(false)) {
            return Err(unsupported("uniqueItems", path));
        }
        let (min, max) =
            (keywords::count(node, "minItems", path)?.unwrap_or(0), keywords::count(node, "maxItems", path)?);
        let first: &[Node] = match node.get("prefixItems") {
            None => &[],
            Some(Node::Array(schemas)) => schemas,
            Some(_) => return Err(bad(&format!("{path}/prefixItems"), "a list of schemas is needed".into())),
        };
        let others = match node.get("items") {
            // Like objects: behind the listed items there are no others.
            None if node.get("prefixItems").is_some() => None,
            None => Some(Expr::Dfa(any_value(FREE_NESTING - 1)?)),
            Some(schema) => self.schema(schema, &format!("{path}/items"))?,
        };
        let mut items = Vec::new();
        for (i, schema) in first.iter().enumerate().take(max.unwrap_or(usize::MAX)) {
            match self.schema(schema, &format!("{path}/prefixItems/{i}"))? {
                Some(item) => items.push(item),
                None => break, // longer arrays are not valid
            }
        }
        let complete = items.len() == first.len();
        let inside = if first.is_empty() {
            match others {
                Some(of) => Expr::List { of: Box::new(of), separator: Box::new(comma()), min, max },
                None if min == 0 => Expr::Bytes(Vec::new()),
                None => return Ok(None),
            }
        } else {
            // From the last to the first: every item is followed by a comma and the rest, or by the end if there are enough.
            let n = items.len();
            let mut rest = match others.filter(|_| complete) {
                Some(of) => Expr::Concat(vec![comma(), of]).repeat(min.saturating_sub(n), max.map(|max| max - n)),
                None if n >= min => Expr::Bytes(Vec::new()),
                None => return Ok(None),
            };
            for (i, item) in items.into_iter().enumerate().rev() {
                let mut parts = if i > 0 { vec![comma()] } else { Vec::new() };
                parts.extend([item, rest]);
                rest = Expr::Concat(parts);
                if i >= min {
                    rest = rest.repeat(0, Some(1));
                }
            }
            rest
        };
        Ok(Some(Expr::Concat(vec![Expr::text("["), inside, Expr::text("]")])))
    }
}

/// The types that a schema speaks of: those it names, or those that its keywords are about.
fn types(node: &Node, keys: &[&str], path: &str) -> Result<Vec<&'static str>> {
    let named = |node: &Node| {
        let Node::String(name) = node else { return Err(bad(&format!("{path}/type"), "a type is a string".into())) };
        let known = TYPES.into_iter().find(|known| known == name);
        known
            .ok_or_else(|| bad(&format!("{path}/type"), format!("`{name}` is no type; there are {}", TYPES.join(", "))))
    };
    match node.get("type") {
        Some(Node::Array(names)) if names.is_empty() => {
            Err(bad(&format!("{path}/type"), "at least one type is needed".into()))
        }
        Some(Node::Array(names)) => names.iter().map(named).collect(),
        Some(name) => Ok(vec![named(name)?]),
        None => {
            let about = [(&OBJECT[..], "object"), (&ARRAY, "array"), (&STRING, "string"), (&NUMERIC, "number")];
            Ok(about
                .into_iter()
                .filter(|(list, _)| keys.iter().any(|key| list.contains(key)))
                .map(|(_, name)| name)
                .collect())
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn bad(path: &str, problem: String) -> Error {
    Error::BadSchema { path: path.into(), problem }
}

fn unsupported(keyword: &str, path: &str) -> Error {
    Error::UnsupportedKeyword { keyword: keyword.into(), path: path.into() }
}
