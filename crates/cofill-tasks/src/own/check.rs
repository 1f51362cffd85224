//! Checkers: what an answer to a row is worth. Those that only read texts judge here; what a program or a command must say is asked by
//! whoever has them.

use super::number::Decimal;
use super::problem::quoted;
use super::template::{FieldPath, Fields, Template, plain};
use regex::Regex;
use serde_json::Value;
use std::time::Duration;

/// Who says whether an answer is right.
#[derive(Debug, Clone)]
pub enum Checker {
    /// Is it the text?
    Exact(Exact),
    /// Is the number in it the one?
    Number(NumberCheck),
    /// Does an expression find the right thing in it?
    Regex(RegexCheck),
    /// Is it the right one of several options?
    Choice(Choice),
    /// Does a program with it run to its end?
    Python(PythonCheck),
    /// What does a command of the user's own say?
    Command(CommandCheck),
}

/// Compares texts.
#[derive(Debug, Clone)]
pub struct Exact {
    pub(super) gold: FieldPath,
    pub(super) trim: bool,
    pub(super) ignore_case: bool,
}

/// Compares one number of the answer.
#[derive(Debug, Clone)]
pub struct NumberCheck {
    pub(super) gold: FieldPath,
    pub(super) take: Take,
    pub(super) tolerance: Tolerance,
}

/// How far a number may be from the right one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    pub(super) relative: f64,
}

/// Which of several is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    First,
    Last,
}

/// Finds a part of the answer, and compares it.
#[derive(Debug, Clone)]
pub struct RegexCheck {
    pub(super) pattern: Regex,
    pub(super) group: usize,
    pub(super) take: Take,
    pub(super) compare: Compare,
}

/// What is done with the part that an expression found.
#[derive(Debug, Clone)]
pub(super) enum Compare {
    /// That there is one is enough.
    Match,
    Text(Exact),
    Number(FieldPath, Tolerance),
}

/// One of several options.
#[derive(Debug, Clone)]
pub struct Choice {
    pub(super) gold: FieldPath,
    pub(super) options: Options,
    pub(super) by: By,
    pub(super) constrain: bool,
}

/// Where options are.
#[derive(Debug, Clone)]
pub(super) enum Options {
    /// The same for every row.
    List(Vec<String>),
    /// In a field.
    Field(FieldPath),
}

/// How an answer names an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Letter,
    Text,
}

/// A program made of the answer, for the sandbox.
#[derive(Debug, Clone)]
pub struct PythonCheck {
    pub(super) program: Template,
    /// How long it may run.
    pub timeout: Duration,
}

/// A command that scores answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandCheck {
    /// The program and its arguments; no shell reads them.
    pub argv: Vec<String>,
    /// How long it may take for the answers of a batch.
    pub timeout: Duration,
}

/// What a checker found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The part of the answer that it took.
    pub read: String,
    /// Nothing if it is right, else why it is not.
    pub wrong: Option<String>,
}

impl Found {
    fn new(read: impl Into<String>, right: bool, why: impl FnOnce() -> String) -> Found {
        Found { read: read.into(), wrong: (!right).then(why) }
    }
}

impl Checker {
    /// Its name, as a task file has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Checker::Exact(_) => "exact",
            Checker::Number(_) => "number",
            Checker::Regex(_) => "regex",
            Checker::Choice(_) => "choice",
            Checker::Python(_) => "python",
            Checker::Command(_) => "command",
        }
    }

    /// What is wrong with a row that could never be judged.
    pub(super) fn problem(&self, row: &Fields) -> Result<(), String> {
        match self {
            Checker::Exact(exact) => exact.golds(row).map(drop),
            Checker::Number(NumberCheck { gold, .. })
            | Checker::Regex(RegexCheck { compare: Compare::Number(gold, _), .. }) => numbers(gold, row).map(drop),
            Checker::Regex(RegexCheck { compare: Compare::Text(exact), .. }) => exact.golds(row).map(drop),
            Checker::Regex(_) | Checker::Command(_) => Ok(()),
            Checker::Choice(choice) => choice.right(row).map(drop),
            Checker::Python(python) => python.program(row, "", "").map(drop),
        }
    }

    /// What it finds in an answer; nothing where a program or a command must say.
    pub(super) fn check(&self, row: &Fields, answer: &str) -> Option<Result<Found, String>> {
        match self {
            Checker::Exact(exact) => Some(exact.check(row, answer)),
            Checker::Number(number) => Some(number.check(row, answer)),
            Checker::Regex(regex) => Some(regex.check(row, answer)),
            Checker::Choice(choice) => Some(choice.check(row, answer)),
            Checker::Python(_) | Checker::Command(_) => None,
        }
    }
}

/// The right texts of a row: one, or any of a list.
fn golds(gold: &FieldPath, row: &Fields) -> Result<Vec<String>, String> {
    let values = match gold.get(row)? {
        Value::Array(items) if items.is_empty() => {
            return Err(format!("has an empty list for `{gold}`; no answer could be right"));
        }
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    values.iter().map(|value| plain(value).map_err(|kind| kind.describe(gold))).collect()
}

fn numbers(gold: &FieldPath, row: &Fields) -> Result<Vec<Decimal>, String> {
    let number = |text: String| {
        Decimal::parse(&text).ok_or_else(|| format!("has {} for `{gold}`, which is no number", quoted(&text)))
    };
    golds(gold, row)?.into_iter().map(number).collect()
}

/// Right texts in words.
fn either(golds: &[String]) -> String {
    golds.iter().map(|gold| quoted(gold)).collect::<Vec<_>>().join(" or ")
}

impl Exact {
    fn golds(&self, row: &Fields) -> Result<Vec<String>, String> {
        golds(&self.gold, row)
    }

    fn check(&self, row: &Fields, answer: &str) -> Result<Found, String> {
        let golds = self.golds(row)?;
        let form = |text: &str| {
            let text = if self.trim { text.trim() } else { text };
            if self.ignore_case { text.to_lowercase() } else { text.to_owned() }
        };
        let (read, given) = (if self.trim { answer.trim() } else { answer }, form(answer));
        let right = golds.iter().any(|gold| form(gold) == given);
        Ok(Found::new(read, right, || format!("it is {}, not {}", quoted(read), either(&golds))))
    }
}

impl Tolerance {
    /// Whether a number is one of the right ones.
    fn holds(self, given: &Decimal, golds: &[Decimal]) -> bool {
        golds.iter().any(|gold| given.is(gold, self.absolute, self.relative))
    }
}

impl NumberCheck {
    fn check(&self, row: &Fields, answer: &str) -> Result<Found, String> {
        let (golds, texts) = (numbers(&self.gold, row)?, golds(&self.gold, row)?);
        let mut all = Decimal::all(answer);
        let taken = if self.take == Take::Last { all.pop() } else { all.into_iter().next() };
        Ok(match taken {
            None => Found::new("", false, || "there is no number in it".into()),
            Some((text, number)) => {
                let right = self.tolerance.holds(&number, &golds);
                Found::new(text, right, || format!("it is {}, not {}", quoted(text), either(&texts)))
            }
        })
    }
}

impl RegexCheck {
    fn check(&self, row: &Fields, answer: &str) -> Result<Found, String> {
        let mut all = self.pattern.captures_iter(answer);
        let captured = if self.take == Take::Last { all.last() } else { all.next() };
        let Some(found) = captured.and_then(|captured| captured.get(self.group)) else {
            return Ok(Found::new("", false, || format!("`{}` finds nothing in it", self.pattern)));
        };
        let found = found.as_str();
        match &self.compare {
            Compare::Match => Ok(Found::new(found, true, String::new)),
            Compare::Text(exact) => exact.check(row, found),
            Compare::Number(gold, tolerance) => {
                let (golds, texts) = (numbers(gold, row)?, golds(gold, row)?);
                let right = Decimal::parse(found).is_some_and(|number| tolerance.holds(&number, &golds));
                Ok(Found::new(found, right, || format!("it is {}, not {}", quoted(found), either(&texts))))
            }
        }
    }
}

/// The letter of an option.
fn letter(index: usize) -> char {
    char::from(b'A' + index.min(25) as u8)
}

impl Choice {
    /// The most options there can be: as many as letters.
    pub(super) const MOST: usize = 26;

    /// The options of a row.
    pub(super) fn options(&self, row: &Fields) -> Result<Vec<String>, String> {
        let options = match &self.options {
            Options::List(list) => return Ok(list.clone()),
            Options::Field(field) => match field.get(row)? {
                Value::Array(items) => {
                    let text = |value| plain(value).map_err(|kind| kind.describe(field));
                    items.iter().map(text).collect::<Result<Vec<_>, _>>()?
                }
                other => {
                    let kind = super::problem::kind(other);
                    return Err(format!("has {kind} for `{field}`, but options are a list of texts"));
                }
            },
        };
        Choice::check_options(&options).map(|()| options)
    }

    /// Refuses options that cannot be told apart.
    pub(super) fn check_options(options: &[String]) -> Result<(), String> {
        let n = options.len();
        if !(2..=Choice::MOST).contains(&n) {
            return Err(format!("has {n} options, but there must be 2 to {}", Choice::MOST));
        }
        let form = |text: &String| text.trim().to_lowercase();
        if let Some(empty) = options.iter().find(|option| form(option).is_empty()) {
            return Err(format!("has the option {}, which is no text", quoted(empty)));
        }
        let twice = (1..n).find(|i| options[..*i].iter().any(|other| form(other) == form(&options[*i])));
        twice.map_or(Ok(()), |i| Err(format!("has the option {} twice", quoted(&options[i]))))
    }

    /// Which of the options is right: by its text, its letter, or its number from 0.
    fn right(&self, row: &Fields) -> Result<(Vec<String>, usize), String> {
        let options = self.options(row)?;
        let value = self.gold.get(row)?;
        let text = plain(value).map_err(|kind| kind.describe(&self.gold))?;
        let form = |text: &str| text.trim().to_lowercase();
        let by_text = options.iter().position(|option| form(option) == form(&text));
        let by_letter = || {
            let mut letters = text.trim().chars();
            let first = letters.next().filter(char::is_ascii_alphabetic)?.to_ascii_uppercase();
            letters.next().is_none().then_some(usize::from(first as u8 - b'A'))
        };
        let by_number = || value.as_u64().and_then(|n| usize::try_from(n).ok());
        let index = by_text.or_else(by_letter).or_else(by_number).filter(|index| *index < options.len());
        match index {
            Some(index) => Ok((options, index)),
            None => Err(format!(
                "has {} for `{}`, which is none of its options: neither a text of {}, nor a letter up to {}, nor a number from 0",
                quoted(&text),
                self.gold,
                either(&options),
                letter(options.len() - 1)
            )),
        }
    }

    /// The options of a row as a prompt shows them: `A. red`, a line each.
    pub(super) fn shown(&self, row: &Fields) -> Result<String, String> {
        let lines = self.options(row)?.into_iter().enumerate().map(|(i, option)| format!("{}. {option}", letter(i)));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// The texts that an answer may be, if it is held to them.
    pub(super) fn held_to(&self, row: &Fields) -> Result<Option<Vec<String>>, String> {
        if !self.constrain {
            return Ok(None);
        }
        let options = self.options(row)?;
        Ok(Some(match self.by {
            By::Text => options,
            By::Letter => (0..options.len()).map(|i| letter(i).to_string()).collect(),
        }))
    }

    fn check(&self, row: &Fields, answer: &str) -> Result<Found, String> {
        let (options, right) = self.right(row)?;
        let (read, taken, gold) = match self.by {
            By::Letter => {
                // `B`, `(B)`, `**B**`, `B. blue`; but neither `Blue` nor `The answer is B`.
                let text = answer.trim_start_matches(|c: char| c.is_whitespace() || "([*\"'`".contains(c));
                let mut letters = text.chars();
                let first = letters.next().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase());
                let first = first.filter(|_| letters.next().is_none_or(|next| !next.is_alphanumeric()));
                let taken = first.map(|c| usize::from(c as u8 - b'A')).filter(|index| *index < options.len());
                (first.map(String::from).unwrap_or_default(), taken, letter(right).to_string())
            }
            By::Text => {
                let text = answer.trim().trim_end_matches('.').trim_end();
                let form = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
                let taken = options.iter().position(|option| form(option) == form(text));
                (text.to_owned(), taken, options[right].clone())
            }
        };
        Ok(match taken {
            None => Found::new(read, false, || format!("{} names none of the options", quoted(answer.trim()))),
            Some(index) => {
                let why = format!("it is {}, not {}", quoted(&read), quoted(&gold));
                Found::new(read, index == right, || why)
            }
        })
    }
}

impl PythonCheck {
    /// The program that judges an answer.
    pub(super) fn program(&self, row: &Fields, prompt: &str, answer: &str) -> Result<String, String> {
        self.program.fill(row, &[("_prompt", prompt), ("_answer", answer)])
    }
}

#[cfg(test)]
mod tests;
