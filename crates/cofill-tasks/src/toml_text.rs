//! What is wrong with a TOML text, and on which line: for recipes and task files.

use crate::similar::did_you_mean;
use regex::Regex;
use std::sync::LazyLock;
use toml::de::DeTable;

/// A place in a text and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongLine {
    /// Counted from 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// What is wrong, in one line.
    pub problem: String,
}

impl std::fmt::Display for WrongLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.text.is_empty() {
            true => write!(f, "line {}: {}", self.line, self.problem),
            false => write!(f, "line {}, `{}`: {}", self.line, self.text, self.problem),
        }
    }
}

impl WrongLine {
    /// A problem at a byte of `text`.
    pub fn at(text: &str, at: usize, problem: &str) -> WrongLine {
        // Lines of hundreds of letters hide the message.
        const SHOWN: usize = 120;
        let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
        let there = text.lines().nth(line).unwrap_or_default().trim();
        let mut shown: String = there.chars().take(SHOWN).collect();
        if shown.len() < there.len() {
            shown.push_str("...");
        }
        WrongLine { line: line + 1, text: shown, problem: problem.replace('\n', " ") }
    }

    /// What the parser says, with a hint where a text was written without quotes.
    pub fn of(text: &str, error: &toml::de::Error) -> WrongLine {
        let mut at = error.span().map_or(0, |span| span.start);
        // An array that is not closed shows at the end of the file; it says more where it begins.
        if text[at.min(text.len())..].trim().is_empty() {
            at = text[..at.min(text.len())].trim_end().len().saturating_sub(1);
        }
        let mut wrong = WrongLine::at(text, at, error.message());
        if let Some(word) = unquoted(text.lines().nth(wrong.line - 1).unwrap_or_default()) {
            wrong.problem = format!("`{word}` is a text, and texts are written in quotes: \"{word}\"");
        }
        wrong
    }
}

/// A word on a line that is a value and has no quotes.
fn unquoted(line: &str) -> Option<&str> {
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*"|'[^']*'|#.*"#).expect("fixed"));
    static WORD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?:=\s*|[\[,]\s*)([A-Za-z_][A-Za-z0-9_.:/+@-]*)\s*(?:[,\]]|$)"#).expect("fixed")
    });
    if line.trim_start().starts_with('[') {
        return None; // a header
    }
    // As many bytes of spaces as there were, so that places stay.
    let bare = QUOTED.replace_all(line, |found: &regex::Captures<'_>| " ".repeat(found[0].len()));
    let word = WORD.captures_iter(&bare).filter_map(|found| found.get(1));
    let mut words = word.filter(|word| !["true", "false", "inf", "nan"].contains(&word.as_str()));
    words.next().map(|word| &line[word.range()])
}

/// The first key of a table that is not among the known ones: where it is, and what to say.
pub fn unknown_key(table: &DeTable<'_>, known: &[&str]) -> Option<(usize, String)> {
    let (key, _) = table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref()))?;
    let given = key.get_ref().as_ref();
    let all: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    let meant = did_you_mean(given, known.iter().copied());
    Some((key.span().start, format!("unknown key `{given}`{meant}{} known are {}", separator(&meant), all.join(", "))))
}

fn separator(meant: &str) -> &'static str {
    if meant.is_empty() { ";" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        WrongLine::of(text, &DeTable::parse(text).unwrap_err()).to_string()
    }

    #[test]
    fn a_text_without_quotes_is_explained() {
        let said_of = |line: &str| said(&format!("about = \"x\"\n[[sweep]]\n{line}\n"));
        for (line, word) in [
            ("models = [tiny-llada]", "tiny-llada"),
            ("models = [\"a, b\", tiny-llada]", "tiny-llada"),
            ("tasks = [chain, sums]", "chain"),
            ("samplers = topk:4", "topk:4"),
            ("split = test # the last", "test"),
        ] {
            let said = said_of(line);
            assert!(said.starts_with(&format!("line 3, `{line}`: ")), "{said}");
            assert!(said.ends_with(&format!("texts are written in quotes: \"{word}\"")), "{said}");
        }
        // Other mistakes are not explained away.
        for line in ["limit = 1 2", "limit = true x", "x = [1, 2", "= 3"] {
            assert!(!said_of(line).contains("quotes"), "{}", said_of(line));
        }
    }

    #[test]
    fn an_open_array_is_shown_where_it_stands() {
        assert!(said("a = 1\nb = [1,\n\n\n").starts_with("line 2, `b = [1,`"), "{}", said("a = 1\nb = [1,\n\n\n"));
    }

    #[test]
    fn an_unknown_key_is_named_with_the_one_that_was_meant() {
        let text = "limit = 3\nsampelrs = []";
        let table = DeTable::parse(text).unwrap();
        let (at, problem) = unknown_key(table.get_ref(), &["limit", "samplers"]).unwrap();
        assert_eq!(at, 10);
        assert_eq!(problem, "unknown key `sampelrs`; did you mean `samplers`? known are `limit`, `samplers`");
        assert_eq!(unknown_key(table.get_ref(), &["limit", "sampelrs"]), None);
    }
}
