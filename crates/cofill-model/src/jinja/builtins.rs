//! Every filter, test and function there is. They are those of published chat templates; what is not here is an error that names
//! it, and does not harm a template that never comes to it.

use super::budget::Budget;
use super::eval::Given;
use super::methods::{capitalize, item, join, lower, pairs, replace, title, trim, upper};
use super::operators::{Number, compare, contains, equal, number};
use super::value::{List, Value};
use super::{Problem, Result, ast::Comparison, shortened};
use std::fmt::Write;
use std::sync::Arc;

/// The deepest `indent` that `tojson` and `indent` take.
const MAX_INDENT: i64 = 16;

/// What a loop goes over.
pub(super) fn items_of(value: &Value, budget: &mut Budget) -> Result<Arc<List>> {
    let made = match value {
        Value::List(list) => return Ok(list.clone()),
        Value::Map(map) => {
            budget.make_list(map.entries.len())?;
            Value::list(map.entries.iter().map(|(key, _)| Value::Text(key.clone())).collect())
        }
        Value::Text(text) => {
            budget.make_list(text.chars().count().saturating_mul(2))?;
            Value::list(text.chars().map(|c| Value::text(c.to_string())).collect())
        }
        Value::Undefined => Value::list(Vec::new()),
        other => Err(Problem::new(format!("{} has no elements to go over", other.kind()))),
    };
    match made? {
        Value::List(list) => Ok(list),
        _ => Err(Problem::new("not a list")),
    }
}

/// What `map`, `select` and their like go over: for Jinja, nothing that is false has elements, not even `none`.
fn items_to_filter(value: &Value, budget: &mut Budget) -> Result<Arc<List>> {
    items_of(if value.is_true() { value } else { &Value::Undefined }, budget)
}

/// `name(given)`
pub(super) fn function(name: &str, given: Given, budget: &mut Budget) -> Result<Value> {
    match (name, given.positional.as_slice()) {
        ("raise_exception", [message]) => {
            const MOST: usize = 2000;
            Err(Problem::new(message.to_text(budget)?.chars().take(MOST).collect::<String>()))
        }
        ("range", [Value::Int(to)]) => range(0, *to, 1, budget),
        ("range", [Value::Int(from), Value::Int(to)]) => range(*from, *to, 1, budget),
        ("range", [Value::Int(from), Value::Int(to), Value::Int(step)]) => range(*from, *to, *step, budget),
        ("dict", []) => Value::map(given.named),
        ("range" | "raise_exception" | "dict" | "namespace", _) => {
            Err(Problem::new(format!("the function `{name}` does not take these arguments")))
        }
        _ => {
            Err(Problem::new(format!("`{}` is undefined or no function that chat templates may call", shortened(name))))
        }
    }
}

fn range(from: i64, to: i64, step: i64, budget: &mut Budget) -> Result<Value> {
    let n = match step {
        0 => return Err(Problem::new("the step of `range` is 0")),
        1.. if to > from => (i128::from(to) - i128::from(from) - 1) / i128::from(step) + 1,
        ..0 if from > to => (i128::from(from) - i128::from(to) - 1) / -i128::from(step) + 1,
        _ => 0,
    };
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    budget.make_list(n)?;
    let numbers = std::iter::successors(Some(from), |at| at.checked_add(step));
    Value::list(numbers.take(n).map(Value::Int).collect())
}

/// The argument at `at` or called `name`.
fn argument<'a>(given: &'a Given, at: usize, name: &str) -> Option<&'a Value> {
    given.positional.get(at).or_else(|| given.named.iter().find(|(named, _)| **named == *name).map(|(_, value)| value))
}

/// `value | name(given)`
pub(super) fn filter(value: Value, name: &str, given: &Given, budget: &mut Budget) -> Result<Value> {
    let wrong = |what: &str| Err(Problem::new(format!("the filter `{name}` {what}")));
    // Whatever a filter does with a text, it reads it.
    if let Value::Text(text) = &value {
        budget.scan(text.len())?;
    }
    match name {
        "trim" => match (value.to_text(budget)?, argument(given, 0, "chars")) {
            (text, None | Some(Value::None)) => trim(&text, "strip", None, budget),
            (text, Some(Value::Text(chars))) => trim(&text, "strip", Some(chars), budget),
            _ => wrong("takes the characters to trim as a text"),
        },
        "upper" => upper(&value.to_text(budget)?, budget),
        "lower" => lower(&value.to_text(budget)?, budget),
        "title" => title(&value.to_text(budget)?, budget),
        "capitalize" => capitalize(&value.to_text(budget)?, budget),
        "string" => Ok(Value::Text(value.to_text(budget)?)),
        "safe" => Ok(value),
        "replace" => match (argument(given, 0, "old"), argument(given, 1, "new"), argument(given, 2, "count")) {
            (Some(Value::Text(old)), Some(Value::Text(new)), None) => {
                replace(&value.to_text(budget)?, old, new, None, budget)
            }
            (Some(Value::Text(old)), Some(Value::Text(new)), Some(Value::Int(n))) => {
                replace(&value.to_text(budget)?, old, new, Some(*n), budget)
            }
            _ => wrong("takes two texts and perhaps a number"),
        },
        "length" | "count" => match &value {
            Value::Text(text) => {
                budget.scan(text.len())?;
                Ok(Value::Int(text.chars().count() as i64))
            }
            Value::Map(map) => Ok(Value::Int(map.entries.len() as i64)),
            value => Ok(Value::Int(items_of(value, budget)?.items.len() as i64)),
        },
        "default" | "d" => {
            let falsy = argument(given, 1, "boolean").is_some_and(Value::is_true) && !value.is_true();
            match (falsy || matches!(value, Value::Undefined), argument(given, 0, "default_value")) {
                (true, Some(default)) => Ok(default.clone()),
                (true, None) => Ok(Value::text("")),
                (false, _) => Ok(value),
            }
        }
        "first" => Ok(items_of(&value, budget)?.items.first().cloned().unwrap_or(Value::Undefined)),
        "last" => Ok(items_of(&value, budget)?.items.last().cloned().unwrap_or(Value::Undefined)),
        "list" => Ok(Value::List(items_of(&value, budget)?)),
        "reverse" => match &value {
            Value::Text(text) => {
                budget.make(text.len() as u64)?;
                Ok(Value::text(text.chars().rev().collect::<String>()))
            }
            value => {
                let items = items_of(value, budget)?;
                budget.make_list(items.items.len())?;
                Value::list(items.items.iter().rev().cloned().collect())
            }
        },
        "join" => {
            let separator = match argument(given, 0, "d") {
                None => "".into(),
                Some(separator) => separator.to_text(budget)?,
            };
            let list = match argument(given, 1, "attribute") {
                None => value,
                Some(key) => each(&value, budget, |it, budget| item(it, key, budget))?,
            };
            join(&separator, &list, budget)
        }
        "items" | "dictsort" => match &value {
            Value::Map(map) if name == "dictsort" => {
                budget.make_list(map.entries.len())?;
                budget.work(value.weight())?;
                let mut entries = map.entries.clone();
                entries.sort_by_key(|(key, _)| key.to_lowercase());
                pairs(&entries, budget)
            }
            Value::Map(map) => pairs(&map.entries, budget),
            Value::Undefined => Value::list(Vec::new()),
            other => wrong(&format!("takes a map, but got {}", other.kind())),
        },
        "map" => map(&value, given, budget),
        "select" | "reject" | "selectattr" | "rejectattr" => select(&value, name, given, budget),
        "int" => Ok(match (&value, number(&value)) {
            (_, Some(Number::Int(n))) => Value::Int(n),
            (_, Some(Number::Float(x))) => Value::Int(x as i64),
            (Value::Text(text), _) => Value::Int(text.trim().parse().unwrap_or(0)),
            _ => Value::Int(0),
        }),
        "float" => Ok(Value::Float(match (&value, number(&value)) {
            (_, Some(number)) => number.float(),
            (Value::Text(text), _) => text.trim().parse().unwrap_or(0.0),
            _ => 0.0,
        })),
        "abs" => match number(&value) {
            Some(Number::Int(n)) => n.checked_abs().map(Value::Int).ok_or_else(|| Problem::new("too large a number")),
            Some(Number::Float(x)) => Ok(Value::Float(x.abs())),
            None => wrong(&format!("takes a number, but got {}", value.kind())),
        },
        "tojson" => {
            // Anything else would be another prompt without a word.
            let known = |(key, value): &(Arc<str>, Value)| match &**key {
                "indent" => true,
                "ensure_ascii" | "sort_keys" => !value.is_true(),
                "separators" => matches!(value, Value::None),
                _ => false,
            };
            if let Some((key, _)) = given.named.iter().find(|named| !known(named)) {
                return wrong(&format!("does not take this `{}`", shortened(key)));
            }
            let indent = match argument(given, 0, "indent") {
                None | Some(Value::None) => None,
                Some(Value::Int(n @ 0..=MAX_INDENT)) => Some(*n as usize),
                Some(_) => return wrong(&format!("takes an `indent` from 0 to {MAX_INDENT}")),
            };
            // A quoted character takes up to six bytes, and an element of a nested list its indentation.
            budget.make(value.weight().saturating_mul(8))?;
            let mut out = String::new();
            write_json(&value, indent, 0, &mut out, budget)?;
            Ok(Value::text(out))
        }
        "indent" => {
            let width = match argument(given, 0, "width") {
                None => 4,
                Some(Value::Int(n @ 0..=MAX_INDENT)) => *n as usize,
                Some(_) => return wrong(&format!("takes a width from 0 to {MAX_INDENT}")),
            };
            let flag = |at: usize, name: &str| argument(given, at, name).is_some_and(Value::is_true);
            indent(&value.to_text(budget)?, width, flag(1, "first"), flag(2, "blank"), budget)
        }
        _ => Err(Problem::new(format!("`{}` is no filter that chat templates may use", shortened(name)))),
    }
}

/// A function of every element.
fn each(
    value: &Value,
    budget: &mut Budget,
    mut make: impl FnMut(&Value, &mut Budget) -> Result<Value>,
) -> Result<Value> {
    let items = items_to_filter(value, budget)?;
    budget.make_list(items.items.len())?;
    budget.work(items.items.len() as u64)?;
    Value::list(items.items.iter().map(|it| make(it, budget)).collect::<Result<_>>()?)
}

/// `map(attribute='a')`, or `map('filter', arguments)`.
fn map(value: &Value, given: &Given, budget: &mut Budget) -> Result<Value> {
    if let Some((_, key)) = given.named.iter().find(|(name, _)| &**name == "attribute") {
        let default = given.named.iter().find(|(name, _)| &**name == "default").map(|(_, value)| value);
        return each(value, budget, |it, budget| match item(it, key, budget)? {
            Value::Undefined => Ok(default.cloned().unwrap_or(Value::Undefined)),
            found => Ok(found),
        });
    }
    let Some((Value::Text(name), rest)) = given.positional.split_first() else {
        return Err(Problem::new("the filter `map` takes `attribute=...` or the name of a filter"));
    };
    // Filters of filters would nest without being counted.
    if matches!(&**name, "map" | "select" | "reject" | "selectattr" | "rejectattr") {
        return Err(Problem::new(format!("the filter `map` does not take `{name}`")));
    }
    let rest = Given { positional: rest.to_vec(), named: given.named.clone() };
    each(value, budget, |it, budget| filter(it.clone(), name, &rest, budget))
}

/// `select(test)`, `selectattr(attribute, test)`, and their opposites.
fn select(value: &Value, name: &str, given: &Given, budget: &mut Budget) -> Result<Value> {
    let (key, rest) = match (name, given.positional.split_first()) {
        ("selectattr" | "rejectattr", Some((key, rest))) => (Some(key), rest),
        ("selectattr" | "rejectattr", None) => {
            return Err(Problem::new(format!("the filter `{name}` takes an attribute")));
        }
        _ => (None, given.positional.as_slice()),
    };
    let wanted = name.starts_with("select");
    let items = items_to_filter(value, budget)?;
    let mut kept = Vec::new();
    for it in &items.items {
        budget.work(1)?;
        let subject = match key {
            Some(key) => item(it, key, budget)?,
            None => it.clone(),
        };
        let passes = match rest.split_first() {
            None => subject.is_true(),
            Some((Value::Text(name), arguments)) => test(&subject, name, arguments, budget)?,
            Some(_) => return Err(Problem::new(format!("the filter `{name}` takes the name of a test"))),
        };
        if passes == wanted {
            budget.make_list(1)?;
            kept.push(it.clone());
        }
    }
    Value::list(kept)
}

/// `value is name(arguments)`
pub(super) fn test(value: &Value, name: &str, arguments: &[Value], budget: &mut Budget) -> Result<bool> {
    let whole = |value: &Value| match value {
        Value::Int(n) => Ok(*n),
        other => Err(Problem::new(format!("the test `{name}` is about whole numbers, but got {}", other.kind()))),
    };
    Ok(match (name, arguments) {
        ("defined", []) => !matches!(value, Value::Undefined),
        ("undefined", []) => matches!(value, Value::Undefined),
        ("none", []) => matches!(value, Value::None),
        ("string", []) => matches!(value, Value::Text(_)),
        ("number", []) => matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
        ("integer", []) => matches!(value, Value::Int(_)),
        ("float", []) => matches!(value, Value::Float(_)),
        ("boolean", []) => matches!(value, Value::Bool(_)),
        ("true", []) => matches!(value, Value::Bool(true)),
        ("false", []) => matches!(value, Value::Bool(false)),
        ("mapping", []) => matches!(value, Value::Map(_)),
        ("sequence", []) => matches!(value, Value::Text(_) | Value::List(_) | Value::Map(_)),
        ("iterable", []) => matches!(value, Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined),
        ("callable", []) => matches!(value, Value::Macro(_)),
        ("odd", []) => whole(value)?.rem_euclid(2) == 1,
        ("even", []) => whole(value)?.rem_euclid(2) == 0,
        ("divisibleby", [by]) => match whole(by)? {
            0 => return Err(Problem::new("nothing is divisible by 0")),
            by => whole(value)?.checked_rem(by).unwrap_or(0) == 0,
        },
        ("eq" | "equalto", [other]) => equal(value, other, budget)?,
        ("ne", [other]) => !equal(value, other, budget)?,
        ("in", [other]) => contains(other, value, budget)?,
        ("lt" | "lessthan", [other]) => compare(Comparison::Less, value, other, budget)?,
        ("le", [other]) => compare(Comparison::LessOrEqual, value, other, budget)?,
        ("gt" | "greaterthan", [other]) => compare(Comparison::Greater, value, other, budget)?,
        ("ge", [other]) => compare(Comparison::GreaterOrEqual, value, other, budget)?,
        _ => {
            let n = arguments.len();
            return Err(Problem::new(format!(
                "`{}` with {n} arguments is no test that chat templates may use",
                shortened(name)
            )));
        }
    })
}

/// Lines moved to the right: all but the first, and but empty ones, unless asked.
fn indent(text: &str, width: usize, first: bool, blank: bool, budget: &mut Budget) -> Result<Value> {
    let lines = text.matches('\n').count() as u64 + 1;
    budget.make(text.len() as u64 + lines.saturating_mul(width as u64))?;
    let space = " ".repeat(width);
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i > 0 || first) && (blank || !line.is_empty()) {
            out += &space;
        }
        out += line;
    }
    Ok(Value::text(out))
}

/// As `json.dumps(value, ensure_ascii=False, indent=indent)` writes it. Values nest at most `MAX_VALUE_DEPTH` deep.
fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String, budget: &mut Budget) -> Result<()> {
    let mut container = |brackets: [char; 2], items: &mut dyn Iterator<Item = (Option<&str>, &Value)>| -> Result<()> {
        out.push(brackets[0]);
        let mut any = false;
        for (key, value) in items {
            if any {
                out.push(',');
            }
            match indent {
                Some(width) => {
                    let space = width * (depth + 1);
                    budget.make(space as u64)?;
                    out.push('\n');
                    *out += &" ".repeat(space);
                }
                None if any => out.push(' '),
                None => {}
            }
            any = true;
            if let Some(key) = key {
                write_json_text(key, out);
                *out += ": ";
            }
            write_json(value, indent, depth + 1, out, budget)?;
        }
        if let Some(width) = indent.filter(|_| any) {
            out.push('\n');
            *out += &" ".repeat(width * depth);
        }
        out.push(brackets[1]);
        Ok(())
    };
    match value {
        Value::None => *out += "null",
        Value::Bool(true) => *out += "true",
        Value::Bool(false) => *out += "false",
        Value::Int(n) => *out += &n.to_string(),
        Value::Float(x) => *out += &format!("{x:?}"),
        Value::Text(text) => write_json_text(text, out),
        Value::List(list) => container(['[', ']'], &mut list.items.iter().map(|value| (None, value)))?,
        Value::Map(map) => {
            container(['{', '}'], &mut map.entries.iter().map(|(key, value)| (Some(&**key), value)))?;
        }
        other => return Err(Problem::new(format!("{} cannot be written as JSON", other.kind()))),
    }
    Ok(())
}

fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => *out += "\\\"",
            '\\' => *out += "\\\\",
            '\n' => *out += "\\n",
            '\r' => *out += "\\r",
            '\t' => *out += "\\t",
            '\u{8}' => *out += "\\b",
            '\u{c}' => *out += "\\f",
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c)); // writing to a string cannot fail
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
