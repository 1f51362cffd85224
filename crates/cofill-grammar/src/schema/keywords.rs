//! The keywords of strings and numbers.

use super::number::{self, Limit, Limits};
use super::parts::{INTEGER, NUMBER, fragment};
use super::tree::Node;
use super::{bad, string, unsupported};
use crate::Result;
use crate::nfa::Expr;
use crate::work::Work;
use std::sync::Arc;

/// What stands between the quotes.
pub(crate) fn string(node: &Node, path: &str, work: &Work) -> Result<Expr> {
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
        parts.push(string::pattern(pattern, work)?);
    }
    if let Some(name) = text("format")? {
        parts.push(Expr::Dfa(string::format(name).ok_or_else(|| string::unknown_format(name, path))??));
    }
    string::all_of(parts, work)
}

/// Whole numbers. `None` if there are none.
pub(crate) fn integer(node: &Node, path: &str, work: &Work) -> Result<Option<Expr>> {
    let limits = limits(node, path, true)?;
    let whole =
        if limits == Limits::default() { Some(Expr::Dfa(fragment(INTEGER)?)) } else { number::integers(limits, work)? };
    let Some(divisor) = node.get("multipleOf") else { return Ok(whole) };
    let divisor = match divisor {
        Node::Number(n) => n.as_f64().filter(|n| (1.0..=1000.0).contains(n) && n.fract() == 0.0),
        _ => None,
    };
    let divisor = divisor.ok_or_else(|| unsupported("multipleOf other than a whole number from 1 to 1000", path))?;
    let Some(whole) = whole else { return Ok(None) };
    Ok(Some(Expr::Dfa(Arc::new(whole.dfa(work)?.intersection(&number::multiples(divisor as u32, work)?, work)?))))
}

/// Numbers. `None` if there are none.
pub(crate) fn decimal(node: &Node, path: &str, work: &Work) -> Result<Option<Expr>> {
    if node.get("multipleOf").is_some() {
        return Err(unsupported("multipleOf of a number that is no integer", path));
    }
    let limits = limits(node, path, false)?;
    if limits == Limits::default() { Ok(Some(Expr::Dfa(fragment(NUMBER)?))) } else { number::decimals(limits, work) }
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
pub(crate) fn count(node: &Node, keyword: &str, path: &str) -> Result<Option<usize>> {
    match node.get(keyword) {
        None => Ok(None),
        Some(Node::Number(n)) if n.as_f64().is_some_and(|f| f >= 0.0 && f.fract() == 0.0) => {
            Ok(n.as_f64().map(|f| f as usize))
        }
        Some(_) => Err(bad(&format!("{path}/{keyword}"), "a whole number of 0 or more is needed".into())),
    }
}
