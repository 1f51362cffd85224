//! What every schema is made of: given values, any values, commas.

use super::string;
use super::tree::{Node, quoted};
use crate::dfa::Dfa;
use crate::nfa::Expr;
use crate::work::Work;
use crate::{Result, regex};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

pub(crate) const NUMBER: &str = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";
pub(crate) const INTEGER: &str = r"-?(?:0|[1-9][0-9]*)";

/// A given value.
pub(crate) fn literal(value: &Node) -> Expr {
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
pub(crate) fn comma() -> Expr {
    Expr::Concat(vec![Expr::text(","), Expr::text(" ").repeat(0, Some(1))])
}

pub(crate) fn entry(key: Expr, value: Expr) -> Expr {
    Expr::Concat(vec![key, Expr::text(":"), Expr::text(" ").repeat(0, Some(1)), value])
}

pub(crate) fn quotes(text: Expr) -> Expr {
    Expr::Concat(vec![Expr::text("\""), text, Expr::text("\"")])
}

/// Any JSON value whose arrays and objects are nested at most so deep.
pub(crate) fn any_value(nesting: usize) -> Result<Arc<Dfa>> {
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
        Expr::Alt(options).dfa(&Work::new())
    })
}

/// Any JSON object, itself the first of so many levels.
pub(crate) fn any_object(nesting: usize) -> Result<Arc<Dfa>> {
    cached(&format!("object {nesting}"), || {
        let member = entry(quotes(string::any()?), Expr::Dfa(any_value(nesting.saturating_sub(1))?));
        let members = Expr::List { of: Box::new(member), separator: Box::new(comma()), min: 0, max: None };
        Expr::Concat(vec![Expr::text("{"), members, Expr::text("}")]).dfa(&Work::new())
    })
}

/// An expression of ours as an automaton, made once.
pub(crate) fn fragment(pattern: &str) -> Result<Arc<Dfa>> {
    cached(pattern, || regex::language(pattern, &Work::new()))
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
