//! Values of a template. Lists and maps never change once they are made, and nothing contains a namespace, so no value contains
//! itself. Each knows how large it would be written out, so whoever walks over it can be made to pay first.

use super::ast::Macro;
use super::budget::{Budget, MAX_VALUE_DEPTH};
use super::{Problem, Result};
use std::fmt::Write;
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Arc<List>),
    Map(Arc<Map>),
    Namespace(Arc<Namespace>),
    Loop(Arc<Loop>),
    Macro(Arc<Macro>),
}

#[derive(Debug)]
pub(crate) struct List {
    pub(super) items: Vec<Value>,
    weight: u64,
    depth: u32,
}

/// In the order of insertion, as in Python.
#[derive(Debug)]
pub(crate) struct Map {
    pub(super) entries: Vec<(Arc<str>, Value)>,
    weight: u64,
    depth: u32,
}

/// What `{% set name.attribute = value %}` changes.
#[derive(Debug, Default)]
pub(crate) struct Namespace(Mutex<Vec<(Arc<str>, Value)>>);

/// The `loop` of a `for`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(super) items: Arc<List>,
    pub(super) index: usize,
}

impl Value {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// A list of values that exist already.
    pub(crate) fn list(items: Vec<Value>) -> Result<Value> {
        let (weight, depth) = measure(items.iter())?;
        Ok(Value::List(Arc::new(List { items, weight, depth })))
    }

    /// A map; of two entries with one key the later counts.
    pub(crate) fn map(entries: Vec<(Arc<str>, Value)>) -> Result<Value> {
        let (weight, depth) = measure(entries.iter().map(|(_, value)| value))?;
        let keys = entries.iter().map(|(key, _)| key.len() as u64).sum();
        Ok(Value::Map(Arc::new(Map { entries, weight: weight.saturating_add(keys), depth })))
    }

    /// About the bytes of the value written out, however much of it is shared.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            Value::Text(text) => text.len() as u64 + 4,
            Value::List(list) => list.weight,
            Value::Map(map) => map.weight,
            _ => 24,
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Value::List(list) => list.depth,
            Value::Map(map) => map.depth,
            _ => 0,
        }
    }

    /// What it is, in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "none",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Namespace(_) => "a namespace",
            Value::Loop(_) => "a loop",
            Value::Macro(_) => "a macro",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(x) => *x != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Map(map) => !map.entries.is_empty(),
            Value::Namespace(_) | Value::Loop(_) | Value::Macro(_) => true,
        }
    }

    /// As Python's `str` writes it.
    pub(super) fn to_text(&self, budget: &mut Budget) -> Result<Arc<str>> {
        match self {
            Value::Text(text) => Ok(text.clone()),
            Value::Undefined => Ok("".into()),
            _ => {
                // A quoted character takes up to four bytes (`\x9b`), and a list pays for its commas.
                budget.make(self.weight().saturating_mul(4))?;
                let mut out = String::new();
                self.write_repr(&mut out);
                Ok(out.into())
            }
        }
    }

    /// As Python's `repr` writes it. Whoever calls this has paid for the weight.
    fn write_repr(&self, out: &mut String) {
        match self {
            Value::Undefined => *out += "Undefined",
            Value::None => *out += "None",
            Value::Bool(true) => *out += "True",
            Value::Bool(false) => *out += "False",
            Value::Int(n) => push(out, format_args!("{n}")),
            Value::Float(x) => push(out, format_args!("{x:?}")),
            Value::Text(text) => write_quoted(text, out),
            Value::List(list) => {
                out.push('[');
                for (i, item) in list.items.iter().enumerate() {
                    *out += if i > 0 { ", " } else { "" };
                    item.write_repr(out);
                }
                out.push(']');
            }
            Value::Map(map) => {
                out.push('{');
                for (i, (key, value)) in map.entries.iter().enumerate() {
                    *out += if i > 0 { ", " } else { "" };
                    write_quoted(key, out);
                    *out += ": ";
                    value.write_repr(out);
                }
                out.push('}');
            }
            Value::Namespace(_) => *out += "<namespace>",
            Value::Loop(_) => *out += "<loop>",
            // Without its name, which may be as long as the template.
            Value::Macro(_) => out.push_str("<macro>"),
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // writing to a string cannot fail
}

/// A text in quotes, as Python's `repr` writes it.
fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => *out += "\\n",
            '\r' => *out += "\\r",
            '\t' => *out += "\\t",
            '\\' => *out += "\\\\",
            _ if c == quote => out.extend(['\\', c]),
            _ if c.is_control() => push(out, format_args!("\\x{:02x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push(quote);
}

/// The weight and depth of a container.
fn measure<'a>(items: impl Iterator<Item = &'a Value>) -> Result<(u64, u32)> {
    let (mut weight, mut depth) = (24u64, 0);
    for item in items {
        if matches!(item, Value::Namespace(_) | Value::Loop(_)) {
            return Err(Problem::new(format!("{} cannot be put into a list, a map or a namespace", item.kind())));
        }
        weight = weight.saturating_add(item.weight()).saturating_add(8);
        depth = depth.max(item.depth());
    }
    if depth >= MAX_VALUE_DEPTH {
        return Err(Problem::new(format!("lists and maps nest more than {MAX_VALUE_DEPTH} deep")));
    }
    Ok((weight, depth + 1))
}

impl Map {
    pub(super) fn get(&self, key: &str, budget: &mut Budget) -> Result<Option<&Value>> {
        budget.search(self.entries.len(), key)?;
        // The last of equal keys, which is the one that counts.
        Ok(self.entries.iter().rev().find(|(known, _)| **known == *key).map(|(_, value)| value))
    }
}

impl Namespace {
    pub(super) fn value(entries: Vec<(Arc<str>, Value)>) -> Result<Value> {
        measure(entries.iter().map(|(_, value)| value))?;
        Ok(Value::Namespace(Arc::new(Namespace(Mutex::new(entries)))))
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<str>, Value)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &str, budget: &mut Budget) -> Result<Value> {
        let entries = self.entries();
        budget.search(entries.len(), key)?;
        let found = entries.iter().find(|(known, _)| **known == *key);
        Ok(found.map_or(Value::Undefined, |(_, value)| value.clone()))
    }

    pub(super) fn set(&self, key: &Arc<str>, value: Value, budget: &mut Budget) -> Result<()> {
        measure(std::iter::once(&value))?;
        let mut entries = self.entries();
        budget.search(entries.len(), key)?;
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => {
                budget.make_list(1)?;
                entries.push((key.clone(), value));
            }
        }
        Ok(())
    }
}

impl Loop {
    pub(super) fn get(&self, name: &str) -> Value {
        let (index, n) = (self.index, self.items.items.len());
        let number = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let item = |at: Option<usize>| at.and_then(|at| self.items.items.get(at)).cloned().unwrap_or(Value::Undefined);
        match name {
            "index" => number(index + 1),
            "index0" => number(index),
            "revindex" => number(n - index),
            "revindex0" => number(n - index - 1),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(index + 1 == n),
            "length" => number(n),
            "previtem" => item(index.checked_sub(1)),
            "nextitem" => item(index.checked_add(1)),
            _ => Value::Undefined,
        }
    }
}
