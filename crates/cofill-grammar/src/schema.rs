//! JSON Schema to a language: what one can be held to while writing from any side.
//!
//! Properties stand in the order given, arrays and objects end where the schema ends (`additionalProperties` is false unless said, and may not
//! be otherwise), and JSON is compact, with at most one space behind a colon or a comma. Everything written is valid by the schema; not everything
//! that the schema would accept can be written.

pub(crate) mod number;
pub(crate) mod string;
pub(crate) mod tree;

use crate::dfa::Dfa;
use crate::nfa::Expr;
use crate::{Error, Language, Result, regex};
use number::{Limit, Limits};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
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

const NUMBER: &str = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";
const INTEGER: &str = r"-?(?:0|[1-9][0-9]*)";

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
    let mut compiler = Compiler { root, active: Vec::new(), depth: 0, nodes: 0 };
    let nothing = || {
        bad(
            "#",
            "no text is valid: look for `false`, limits that exclude each other, or a schema that requires itself"
                .into(),
        )
    };
    let dfa = compiler.schema(root, "#")?.ok_or_else(nothing)?.dfa()?;
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
            let dfa = Expr::Alt(options).dfa()?;
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
            "string" => Some(quotes(string(node, path)?)),
            "integer" => integer(node, path)?,
            "number" => decimal(node, path)?,
            "array" => self.array(node, path)?,
            _ => self.object(node, path)?,
        })
    }

    fn object(&mut self, node: &'a Node, path: &str) -> Result<Option<Expr>> {
        match node.get("additionalProperties") {
            None | Some(Node::Bool(false)) => {}
            Some(_) => return Err(unsupported("additionalProperties other than false", path)),
        }
        let required: Vec<&str> = match node.get("required") {
            None => Vec::new(),
            Some(Node::Array(names)) => names
                .iter()
                .filter_map(|name| if let Node::String(name) = name { Some(name.as_str()) } else { None })
                .collect(),
            Some(_) => return Err(bad(&format!("{path}/required"), "a list of names is needed".into())),
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
        let (min, max) = (count(node, "minItems", path)?.unwrap_or(0), count(node, "maxItems", path)?);
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

fn string(node: &Node, path: &str) -> Result<Expr> {
    let mut parts = Vec::new();
    let (min, max) = (count(node, "minLength", path)?, count(node, "maxLength", path)?);
    if min.is_some() || max.is_some() {
        parts.push(string::counted(min.unwrap_or(0), max)?);
    }
    let text = |keyword: &str| match node.get(keyword) {
        None => Ok(None),
        Some(Node::String(text)) => Ok(Some(text)),
        Some(_) => Err(bad(&format!("{path}/{keyword}"), "a string is needed".into())),
    };
    if let Some(pattern) = text("pattern")? {
        parts.push(string::pattern(pattern)?);
    }
    if let Some(name) = text("format")? {
        parts.push(Expr::Dfa(string::format(name).ok_or_else(|| string::unknown_format(name, path))??));
    }
    string::all_of(parts)
}

fn integer(node: &Node, path: &str) -> Result<Option<Expr>> {
    let limits = limits(node, path, true)?;
    let whole =
        if limits == Limits::default() { Some(Expr::Dfa(fragment(INTEGER)?)) } else { number::integers(limits) };
    let Some(divisor) = node.get("multipleOf") else { return Ok(whole) };
    let divisor = match divisor {
        Node::Number(n) => n.as_f64().filter(|n| (1.0..=1000.0).contains(n) && n.fract() == 0.0),
        _ => None,
    };
    let divisor = divisor.ok_or_else(|| unsupported("multipleOf other than a whole number from 1 to 1000", path))?;
    let Some(whole) = whole else { return Ok(None) };
    Ok(Some(Expr::Dfa(Arc::new(whole.dfa()?.intersection(&number::multiples(divisor as u32)?)?))))
}

fn decimal(node: &Node, path: &str) -> Result<Option<Expr>> {
    if node.get("multipleOf").is_some() {
        return Err(unsupported("multipleOf of a number that is no integer", path));
    }
    let limits = limits(node, path, false)?;
    if limits == Limits::default() { Ok(Some(Expr::Dfa(fragment(NUMBER)?))) } else { number::decimals(limits) }
}

/// The limits of a number. Of whole numbers, limits with a fraction are rounded inwards.
fn limits(node: &Node, path: &str, whole: bool) -> Result<Limits> {
    let read = |keyword: &str, included: bool| -> Result<Option<Limit>> {
        let value = match node.get(keyword) {
            None => return Ok(None),
            Some(Node::Number(n)) => n,
            Some(_) => return Err(bad(&format!("{path}/{keyword}"), "a number is needed".into())),
        };
        if let Some(value) = value.as_i128() {
            return Ok(Some(Limit { value, included }));
        }
        let float = value
            .as_f64()
            .filter(|f| f.abs() < 1e30)
            .ok_or_else(|| unsupported(&format!("{keyword} of 1e30 or more"), path))?;
        if float.fract() == 0.0 {
            Ok(Some(Limit { value: float as i128, included }))
        } else if whole {
            let inwards = if keyword.to_lowercase().contains("min") { float.ceil() } else { float.floor() };
            Ok(Some(Limit { value: inwards as i128, included: true }))
        } else {
            Err(unsupported(&format!("{keyword} with a fraction"), path))
        }
    };
    // Of two limits on one side the narrower counts.
    let low = [read("minimum", true)?, read("exclusiveMinimum", false)?]
        .into_iter()
        .flatten()
        .max_by_key(|l| (l.value, !l.included));
    let high = [read("maximum", true)?, read("exclusiveMaximum", false)?]
        .into_iter()
        .flatten()
        .min_by_key(|l| (l.value, l.included));
    Ok(Limits { low, high })
}

/// A keyword that counts something.
fn count(node: &Node, keyword: &str, path: &str) -> Result<Option<usize>> {
    match node.get(keyword) {
        None => Ok(None),
        Some(Node::Number(n)) if n.as_f64().is_some_and(|f| f >= 0.0 && f.fract() == 0.0) => {
            Ok(n.as_f64().map(|f| f as usize))
        }
        Some(_) => Err(bad(&format!("{path}/{keyword}"), "a whole number of 0 or more is needed".into())),
    }
}

/// A given value.
fn literal(value: &Node) -> Expr {
    let list = |open: &str, items: Vec<Expr>, close: &str| {
        let members = items.into_iter().map(|item| (item, true)).collect();
        Expr::Concat(vec![Expr::text(open), Expr::Members { members, separator: Box::new(comma()) }, Expr::text(close)])
    };
    match value {
        Node::Array(items) => list("[", items.iter().map(literal).collect(), "]"),
        Node::Object(entries) => {
            list("{", entries.iter().map(|(key, value)| entry(Expr::text(&quoted(key)), literal(value))).collect(), "}")
        }
        plain => Expr::text(&plain.compact()),
    }
}

/// A comma or a colon, and at most one space.
fn comma() -> Expr {
    Expr::Concat(vec![Expr::text(","), Expr::text(" ").repeat(0, Some(1))])
}

fn entry(key: Expr, value: Expr) -> Expr {
    Expr::Concat(vec![key, Expr::text(":"), Expr::text(" ").repeat(0, Some(1)), value])
}

fn quotes(text: Expr) -> Expr {
    Expr::Concat(vec![Expr::text("\""), text, Expr::text("\"")])
}

/// Any JSON value whose arrays and objects are nested at most so deep.
fn any_value(nesting: usize) -> Result<Arc<Dfa>> {
    cached(&format!("value {nesting}"), || {
        let mut options = vec![
            Expr::text("null"),
            Expr::text("true"),
            Expr::text("false"),
            Expr::Dfa(fragment(NUMBER)?),
            quotes(string::any()?),
        ];
        if let Some(inner) = nesting.checked_sub(1) {
            let items = Expr::List {
                of: Box::new(Expr::Dfa(any_value(inner)?)),
                separator: Box::new(comma()),
                min: 0,
                max: None,
            };
            options.push(Expr::Concat(vec![Expr::text("["), items, Expr::text("]")]));
            options.push(Expr::Dfa(any_object(nesting)?));
        }
        Expr::Alt(options).dfa()
    })
}

/// Any JSON object, itself the first of so many levels.
fn any_object(nesting: usize) -> Result<Arc<Dfa>> {
    cached(&format!("object {nesting}"), || {
        let member = entry(quotes(string::any()?), Expr::Dfa(any_value(nesting.saturating_sub(1))?));
        let members = Expr::List { of: Box::new(member), separator: Box::new(comma()), min: 0, max: None };
        Expr::Concat(vec![Expr::text("{"), members, Expr::text("}")]).dfa()
    })
}

/// An expression of ours as an automaton, made once.
pub(crate) fn fragment(pattern: &str) -> Result<Arc<Dfa>> {
    cached(pattern, || regex::language(pattern))
}

/// Automata that every schema needs, by name. Only names from this crate come here, so that there are few.
fn cached(name: &str, make: impl FnOnce() -> Result<Dfa>) -> Result<Arc<Dfa>> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Dfa>>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(dfa) = known().get(name) {
        return Ok(dfa.clone());
    }
    let dfa = Arc::new(make()?);
    known().insert(name.into(), dfa.clone());
    Ok(dfa)
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
