//! JSON strings: their characters, expressions over them, formats.

use super::parts::fragment;
use super::tree::quoted;
use crate::dfa::Dfa;
use crate::nfa::Expr;
use crate::work::Work;
use crate::{Error, Result, regex};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use std::sync::Arc;

/// One character as it stands in JSON, or behind a backslash, or as `\uXXXX`, which for rarer characters takes two.
const CHARACTER: &str = r#"(?x) [^"\\\x00-\x1f] | \\ (?: ["\\/bfnrt] | u (?: [0-9a-cA-CefEF][0-9a-fA-F]{3} | [dD][0-7][0-9a-fA-F]{2} | [dD][89abAB][0-9a-fA-F]{2} \\u [dD][c-fC-F][0-9a-fA-F]{2} ) )"#;
/// The same without `\u`: where characters are counted, each takes states of its own.
const SHORT_CHARACTER: &str = r#"[^"\\\x00-\x1f]|\\["\\/bfnrt]"#;

const DATE: &str = r"(?x) (?:
    (?: [0-9]{3}[1-9] | [0-9]{2}[1-9]0 | [0-9][1-9]00 | [1-9]000 ) - (?:
        (?: 0[13578] | 1[02] ) - (?: 0[1-9] | [12][0-9] | 3[01] ) | (?: 0[469] | 11 ) - (?: 0[1-9] | [12][0-9] | 30 ) | 02 - (?: 0[1-9] | 1[0-9] | 2[0-8] ) )
    | (?: [0-9]{2} (?: 0[48] | [2468][048] | [13579][26] ) | (?: 0[48] | [2468][048] | [13579][26] ) 00 ) - 02 - 29 )";
const TIME: &str = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";

/// The text between the quotes for a format, if it is known. None of these has characters that JSON would escape.
pub(crate) fn format(name: &str) -> Option<Result<Arc<Dfa>>> {
    let pattern = match name {
        "date" => DATE.into(),
        "time" => TIME.into(),
        "date-time" => format!("{DATE}T{TIME}"),
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".into(),
        "email" => r"(?x) [A-Za-z0-9_%+-]+ (?: \.[A-Za-z0-9_%+-]+ )* @ [A-Za-z0-9]+ (?: -[A-Za-z0-9]+ )* (?: \.[A-Za-z0-9]+ (?: -[A-Za-z0-9]+ )* )+".into(),
        "ipv4" => r"(?x) (?: 25[0-5] | 2[0-4][0-9] | 1[0-9]{2} | [1-9]?[0-9] ) (?: \. (?: 25[0-5] | 2[0-4][0-9] | 1[0-9]{2} | [1-9]?[0-9] ) ){3}".into(),
        _ => return None,
    };
    Some(fragment(&pattern))
}

/// Any text between quotes.
pub(crate) fn any() -> Result<Expr> {
    Ok(Expr::Dfa(fragment(CHARACTER)?).repeat(0, None))
}

/// Texts of so many characters.
pub(crate) fn counted(min: usize, max: Option<usize>) -> Result<Expr> {
    // Without an upper limit, what follows the counted ones may be anything.
    let short = Expr::Dfa(fragment(SHORT_CHARACTER)?);
    match max {
        Some(_) => Ok(short.repeat(min, max)),
        None => Ok(Expr::Concat(vec![short.repeat(min, Some(min)), any()?])),
    }
}

/// Texts in which the expression matches somewhere, as JSON Schema has it. Letters, digits and words are ASCII's, as ECMAScript has it.
pub(crate) fn pattern(pattern: &str, work: &Work) -> Result<Expr> {
    let mut options = Vec::new();
    for branch in regex::parse(&ascii_classes(pattern), work)? {
        let mut parts = Vec::new();
        if !branch.from_start {
            parts.push(any()?);
        }
        parts.push(written(&branch.hir, work).map_err(|e| regex::named(e, pattern))?);
        if !branch.to_end {
            parts.push(any()?);
        }
        options.push(Expr::Concat(parts));
    }
    Ok(Expr::Alt(options))
}

/// `\d`, `\w` and their opposites, spelled out.
fn ascii_classes(pattern: &str) -> String {
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match characters.next() {
            Some('d') => text.push_str("[0-9]"),
            Some('D') => text.push_str("[^0-9]"),
            Some('w') => text.push_str("[0-9A-Za-z_]"),
            Some('W') => text.push_str("[^0-9A-Za-z_]"),
            other => text.extend(std::iter::once('\\').chain(other)),
        }
    }
    text
}

/// An expression over characters as one over what JSON writes for them: quotes, backslashes and control characters are escaped.
fn written(hir: &Hir, work: &Work) -> Result<Expr> {
    let not_text = || regex::bad("", "it matches bytes that are no UTF-8");
    Ok(match hir.kind() {
        HirKind::Empty => Expr::Bytes(Vec::new()),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).map_err(|_| not_text())?;
            Expr::Bytes(escaped(text))
        }
        HirKind::Class(class) => characters(
            match class {
                Class::Unicode(class) => class.clone(),
                Class::Bytes(class) => class.to_unicode_class().ok_or_else(not_text)?,
            },
            work,
        )?,
        HirKind::Look(_) => return Err(regex::bad("", "it looks around")),
        HirKind::Repetition(r) => written(&r.sub, work)?.repeat(r.min as usize, r.max.map(|max| max as usize)),
        HirKind::Capture(capture) => written(&capture.sub, work)?,
        HirKind::Concat(parts) => Expr::Concat(parts.iter().map(|part| written(part, work)).collect::<Result<_>>()?),
        HirKind::Alternation(options) => {
            Expr::Alt(options.iter().map(|part| written(part, work)).collect::<Result<_>>()?)
        }
    })
}

/// A class of characters: those that JSON writes as they are, and the others one by one.
fn characters(mut class: ClassUnicode, work: &Work) -> Result<Expr> {
    let special =
        ClassUnicode::new([('\0', '\x1f'), ('"', '"'), ('\\', '\\')].map(|(a, b)| ClassUnicodeRange::new(a, b)));
    let mut escapes = special.clone();
    escapes.intersect(&class);
    class.difference(&special);
    let mut options: Vec<Expr> = escapes
        .iter()
        .flat_map(|range| range.start()..=range.end())
        .map(|c| Expr::Bytes(escaped(c.encode_utf8(&mut [0; 4]))))
        .collect();
    if !class.ranges().is_empty() {
        options.push(Expr::Dfa(Arc::new(regex::automaton(&Hir::class(Class::Unicode(class)), work)?)));
    }
    Ok(Expr::Alt(options))
}

/// What JSON writes for a text, without quotes.
fn escaped(text: &str) -> Vec<u8> {
    let quoted = quoted(text);
    quoted.as_bytes()[1..quoted.len() - 1].to_vec()
}

/// The texts of all of these, or why there are none.
pub(crate) fn all_of(parts: Vec<Expr>, work: &Work) -> Result<Expr> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return any() };
    let Some(second) = parts.next() else { return Ok(first) };
    let mut dfa = first.dfa(work)?.intersection(&second.dfa(work)?, work)?;
    for part in parts {
        dfa = dfa.intersection(&part.dfa(work)?, work)?;
    }
    Ok(Expr::Dfa(Arc::new(dfa)))
}

/// A format that we do not know.
pub(crate) fn unknown_format(name: &str, path: &str) -> Error {
    Error::UnsupportedKeyword { keyword: format!("format: {name}"), path: path.into() }
}
