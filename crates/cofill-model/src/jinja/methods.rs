//! Attributes, items and the methods of Python's `str`, `dict` and `list` that chat templates call.

use super::budget::Budget;
use super::builtins::items_of;
use super::eval::Given;
use super::operators::{contains, equal};
use super::value::Value;
use super::{Problem, Result, shortened};
use std::sync::Arc;

/// `value.name`
pub(super) fn attribute(value: &Value, name: &str, budget: &mut Budget) -> Result<Value> {
    match value {
        Value::Map(map) => Ok(map.get(name, budget)?.cloned().unwrap_or(Value::Undefined)),
        Value::Namespace(namespace) => namespace.get(name, budget),
        Value::Loop(it) => Ok(it.get(name)),
        Value::Undefined => {
            Err(Problem::new(format!("the attribute `{}` of an undefined value is asked for", shortened(name))))
        }
        _ => Ok(Value::Undefined),
    }
}

/// `value[key]`
pub(super) fn item(value: &Value, key: &Value, budget: &mut Budget) -> Result<Value> {
    let at = |index: i64, n: usize| {
        let index = if index < 0 {
            usize::try_from(-(index + 1)).ok().and_then(|back| n.checked_sub(back + 1))
        } else {
            usize::try_from(index).ok()
        };
        index.filter(|index| *index < n)
    };
    match (value, key) {
        (Value::List(list), Value::Int(index)) => {
            Ok(at(*index, list.items.len()).map_or(Value::Undefined, |at| list.items[at].clone()))
        }
        (Value::Text(text), Value::Int(index)) => {
            budget.scan(text.len())?;
            let n = text.chars().count();
            let c = at(*index, n).and_then(|at| text.chars().nth(at));
            Ok(c.map_or(Value::Undefined, |c| Value::text(c.to_string())))
        }
        (Value::Undefined, _) => Err(Problem::new("an item of an undefined value is asked for")),
        (_, Value::Text(name)) => attribute(value, name, budget),
        _ => Ok(Value::Undefined),
    }
}

/// `value.name(given)`
pub(super) fn call(value: &Value, name: &str, given: Given, budget: &mut Budget) -> Result<Value> {
    if !given.named.is_empty() {
        return Err(Problem::new(format!("the method `{}` takes no named arguments", shortened(name))));
    }
    let arguments = given.positional;
    match value {
        Value::Text(text) => text_method(text, name, &arguments, budget),
        Value::Map(map) => match (name, arguments.as_slice()) {
            ("get", [Value::Text(key)]) => Ok(map.get(key, budget)?.cloned().unwrap_or(Value::None)),
            ("get", [Value::Text(key), default]) => Ok(map.get(key, budget)?.unwrap_or(default).clone()),
            ("keys", []) => Ok(Value::List(items_of(value, budget)?)),
            ("values", []) => {
                budget.make_list(map.entries.len())?;
                Value::list(map.entries.iter().map(|(_, value)| value.clone()).collect())
            }
            ("items", []) => pairs(&map.entries, budget),
            _ => Err(unknown(name, value, &arguments)),
        },
        Value::List(list) => match (name, arguments.as_slice()) {
            ("count", [item]) => {
                let mut n = 0;
                for known in &list.items {
                    budget.work(1)?;
                    n += i64::from(equal(known, item, budget)?);
                }
                Ok(Value::Int(n))
            }
            ("index", [item]) => {
                for (at, known) in list.items.iter().enumerate() {
                    budget.work(1)?;
                    if equal(known, item, budget)? {
                        return Ok(Value::Int(at as i64));
                    }
                }
                Err(Problem::new("`index` looks for something that is not in the list"))
            }
            ("append" | "extend" | "insert" | "pop" | "remove" | "clear" | "sort" | "reverse", _) => {
                Err(Problem::new(format!("`{name}` would change a list, which templates may not; use `+` and `set`")))
            }
            _ => Err(unknown(name, value, &arguments)),
        },
        Value::Loop(it) => match (name, arguments.as_slice()) {
            ("cycle", [_, ..]) => Ok(arguments[it.index % arguments.len()].clone()),
            _ => Err(unknown(name, value, &arguments)),
        },
        _ => Err(unknown(name, value, &arguments)),
    }
}

fn unknown(name: &str, value: &Value, arguments: &[Value]) -> Problem {
    let given: Vec<&str> = arguments.iter().map(Value::kind).take(8).collect();
    let given = if given.is_empty() { "without arguments".into() } else { format!("for {}", given.join(", ")) };
    Problem::new(format!("{} has no method `{}` {given} that chat templates may call", value.kind(), shortened(name)))
}

/// The entries of a map as pairs.
pub(super) fn pairs(entries: &[(Arc<str>, Value)], budget: &mut Budget) -> Result<Value> {
    budget.make_list(entries.len() * 4)?;
    let pair = |(key, value): &(Arc<str>, Value)| Value::list(vec![Value::Text(key.clone()), value.clone()]);
    Value::list(entries.iter().map(pair).collect::<Result<_>>()?)
}

fn text_method(text: &Arc<str>, name: &str, arguments: &[Value], budget: &mut Budget) -> Result<Value> {
    budget.make(text.len() as u64)?;
    let index = |at: Option<usize>| Value::Int(at.map_or(-1, |at| text[..at].chars().count() as i64));
    let all = |test: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(test));
    Ok(match (name, arguments) {
        ("strip" | "lstrip" | "rstrip", []) => trim(text, name, None, budget)?,
        ("strip" | "lstrip" | "rstrip", [Value::None]) => trim(text, name, None, budget)?,
        ("strip" | "lstrip" | "rstrip", [Value::Text(chars)]) => trim(text, name, Some(chars), budget)?,
        ("upper", []) => upper(text, budget)?,
        ("lower", []) => lower(text, budget)?,
        ("title", []) => title(text, budget)?,
        ("capitalize", []) => capitalize(text, budget)?,
        ("startswith" | "endswith", [Value::Text(part)]) => Value::Bool(at_end(text, name, part)),
        ("startswith" | "endswith", [Value::List(parts)]) => {
            let mut found = false;
            for part in &parts.items {
                budget.work(1)?;
                if let Value::Text(part) = part {
                    budget.scan(part.len().min(text.len()))?;
                    found |= at_end(text, name, part);
                }
            }
            Value::Bool(found)
        }
        ("removeprefix", [Value::Text(part)]) => Value::text(text.strip_prefix(&**part).unwrap_or(text)),
        ("removesuffix", [Value::Text(part)]) => Value::text(text.strip_suffix(&**part).unwrap_or(text)),
        ("find", [Value::Text(part)]) => index(text.find(&**part)),
        ("rfind", [Value::Text(part)]) => index(text.rfind(&**part)),
        ("count", [Value::Text(part)]) => Value::Int(text.matches(&**part).count() as i64),
        ("replace", [Value::Text(old), Value::Text(new)]) => replace(text, old, new, None, budget)?,
        ("replace", [Value::Text(old), Value::Text(new), Value::Int(n)]) => replace(text, old, new, Some(*n), budget)?,
        ("format", _) => format(text, arguments, budget)?,
        ("split" | "rsplit", _) => split(text, name, arguments, budget)?,
        ("splitlines", []) => {
            budget.make_list(text.matches('\n').count() + 1)?;
            Value::list(text.lines().map(Value::text).collect())?
        }
        ("join", [values]) => join(text, &Value::List(items_of(values, budget)?), budget)?,
        ("isdigit" | "isnumeric" | "isdecimal", []) => all(char::is_numeric),
        ("isalpha", []) => all(char::is_alphabetic),
        ("isalnum", []) => all(char::is_alphanumeric),
        ("isspace", []) => all(char::is_whitespace),
        ("islower", []) => Value::Bool(text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)),
        ("isupper", []) => Value::Bool(text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)),
        ("__contains__", [part]) => Value::Bool(contains(&Value::Text(text.clone()), part, budget)?),
        _ => return Err(unknown(name, &Value::Text(text.clone()), arguments)),
    })
}

/// `format` with the next argument for every `{}`, and a brace for every pair of them. Widths and names do not exist here.
fn format(text: &str, arguments: &[Value], budget: &mut Budget) -> Result<Value> {
    let (mut out, mut rest, mut next) = (String::new(), text, arguments.iter());
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let (made, taken): (Arc<str>, usize) = match after.as_bytes() {
            [b'{', b'}', ..] => match next.next() {
                Some(argument) => (argument.to_text(budget)?, 2),
                None => return Err(Problem::new("`format` has fewer arguments than the text has `{}`")),
            },
            [b'{', b'{', ..] => ("{".into(), 2),
            [b'}', b'}', ..] => ("}".into(), 2),
            _ => return Err(Problem::new("`format` takes `{}` only, without names and widths")),
        };
        budget.make(made.len() as u64)?;
        out.push_str(&made);
        rest = &after[taken..];
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

fn at_end(text: &str, name: &str, part: &str) -> bool {
    if name == "startswith" { text.starts_with(part) } else { text.ends_with(part) }
}

/// `strip`, `lstrip` or `rstrip`.
pub(super) fn trim(text: &str, name: &str, chars: Option<&str>, budget: &mut Budget) -> Result<Value> {
    // Every character may be compared with every one to strip.
    budget.work((text.len() as u64 / 32 + 1).saturating_mul(chars.map_or(0, |chars| chars.len() as u64) + 1))?;
    budget.make(text.len() as u64)?;
    let strips = |c: char| chars.map_or(c.is_whitespace(), |chars| chars.contains(c));
    Ok(Value::text(match name {
        "lstrip" => text.trim_start_matches(strips),
        "rstrip" => text.trim_end_matches(strips),
        _ => text.trim_matches(strips),
    }))
}

// A character becomes up to three in another case.
pub(super) fn upper(text: &str, budget: &mut Budget) -> Result<Value> {
    budget.make(text.len() as u64 * 3)?;
    Ok(Value::text(text.to_uppercase()))
}

pub(super) fn lower(text: &str, budget: &mut Budget) -> Result<Value> {
    budget.make(text.len() as u64 * 3)?;
    Ok(Value::text(text.to_lowercase()))
}

pub(super) fn capitalize(text: &str, budget: &mut Budget) -> Result<Value> {
    budget.make(text.len() as u64 * 3)?;
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    Ok(Value::text(first + &chars.as_str().to_lowercase()))
}

/// A capital wherever a word starts.
pub(super) fn title(text: &str, budget: &mut Budget) -> Result<Value> {
    budget.make(text.len() as u64 * 3)?;
    let (mut out, mut inside) = (String::new(), false);
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_alphabetic();
    }
    Ok(Value::text(out))
}

/// Paid for by what it makes, which is counted first.
pub(super) fn replace(text: &str, old: &str, new: &str, most: Option<i64>, budget: &mut Budget) -> Result<Value> {
    budget.scan(text.len() + old.len())?;
    let most = most.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)); // below 0 means all
    let n = text.matches(old).take(most).count() as u64;
    budget.make(text.len() as u64 + n.saturating_mul(new.len() as u64))?;
    Ok(Value::text(text.replacen(old, new, most)))
}

fn split(text: &str, name: &str, arguments: &[Value], budget: &mut Budget) -> Result<Value> {
    let (separator, most) = match arguments {
        [] => (None, None),
        [Value::None] => (None, None),
        [Value::Text(separator)] => (Some(&**separator), None),
        [Value::Text(separator), Value::Int(n)] => (Some(&**separator), usize::try_from(*n).ok()),
        [Value::None, Value::Int(n)] => (None, usize::try_from(*n).ok()),
        _ => return Err(unknown(name, &Value::text(text), arguments)),
    };
    if separator == Some("") {
        return Err(Problem::new(format!("`{name}` has an empty separator")));
    }
    let parts = 1 + match separator {
        Some(separator) => text.matches(separator).count(),
        None => text.split_whitespace().count(),
    };
    budget.make_list(parts)?;
    let pieces = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> = match (separator, name) {
        (Some(separator), "split") => text.splitn(pieces, separator).collect(),
        (Some(separator), _) => text.rsplitn(pieces, separator).collect(),
        (None, _) if most.is_none() => text.split_whitespace().collect(),
        (None, _) => return Err(Problem::new(format!("`{name}` with a number needs a separator"))),
    };
    if separator.is_some() && name == "rsplit" {
        parts.reverse();
    }
    Value::list(parts.into_iter().map(Value::text).collect())
}

/// The elements of a list with `separator` between them.
pub(super) fn join(separator: &str, list: &Value, budget: &mut Budget) -> Result<Value> {
    let items = items_of(list, budget)?;
    let mut out = String::new();
    for (i, item) in items.items.iter().enumerate() {
        let text = item.to_text(budget)?;
        budget.make((text.len() + separator.len()) as u64)?;
        if i > 0 {
            out += separator;
        }
        out += &text;
    }
    Ok(Value::text(out))
}
