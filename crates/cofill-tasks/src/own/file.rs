//! The text of a task file, understood: every key, every default, every refusal with its line.

use super::check::{
    By, Checker, Choice, CommandCheck, Compare, Exact, NumberCheck, Options, PythonCheck, RegexCheck, Take, Tolerance,
};
use super::template::{FieldPath, Fields, Template};
use crate::similar::did_you_mean;
use crate::toml_text::{WrongLine, unknown_key};
use regex::RegexBuilder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Positions after a prompt, at most. No model that we know holds more.
const LONGEST: i64 = 65_536;
/// Memory of a compiled expression. The engine takes linear time, so size is all that must be limited.
const REGEX_BYTES: usize = 1 << 20;

/// What a task file says.
#[derive(Debug)]
pub(super) struct FileText {
    pub(super) about: String,
    pub(super) rows: RowsText,
    pub(super) validation: Option<String>,
    pub(super) prompt: Template,
    pub(super) length: usize,
    pub(super) stop: Vec<String>,
    pub(super) fewshot: Option<FewShotText>,
    pub(super) checker: Checker,
}

/// Where rows are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected the name of a file of rows, or a list of rows: [{ question = \"..\" }]")]
pub(super) enum RowsText {
    File(String),
    Inline(Vec<Fields>),
}

/// Examples before a question.
#[derive(Debug)]
pub(super) struct FewShotText {
    pub(super) rows: RowsText,
    pub(super) shots: Option<usize>,
    pub(super) seed: Option<u64>,
    pub(super) answer: Template,
    pub(super) separator: String,
}

/// A problem at a byte of the text.
type Wrong = (usize, String);

/// What must be there, and how it is written.
const REQUIRED: [(&str, &str); 4] = [
    ("rows", "rows = \"rows.jsonl\""),
    ("prompt", "prompt = \"{question}\""),
    ("length", "length = 64"),
    ("check", "[check] with kind = \"exact\""),
];

const KEYS: [&str; 8] = ["about", "rows", "validation", "prompt", "length", "stop", "fewshot", "check"];
const FEWSHOT: [&str; 6] = ["rows", "shots", "choose", "seed", "answer", "separator"];
const KINDS: [&str; 6] = ["exact", "number", "regex", "choice", "python", "command"];

#[derive(Deserialize)]
struct Top {
    #[serde(default)]
    about: String,
    rows: RowsText,
    validation: Option<String>,
    prompt: Spanned<String>,
    length: Spanned<i64>,
    #[serde(default)]
    stop: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
struct FewShot {
    rows: RowsText,
    shots: Option<usize>,
    choose: Option<Spanned<String>>,
    seed: Option<Spanned<u64>>,
    answer: Option<Spanned<String>>,
    separator: Option<String>,
}

impl FileText {
    /// Reads a text.
    pub(super) fn parse(text: &str) -> Result<FileText, WrongLine> {
        let mut top = DeTable::parse(text).map_err(|error| WrongLine::of(text, &error))?;
        understand(&mut top).map_err(|(at, problem)| WrongLine::at(text, at, &problem))
    }
}

fn understand(top: &mut Spanned<DeTable<'_>>) -> Result<FileText, Wrong> {
    if let Some((name, _)) = top.get_ref().iter().find(|(key, _)| key.get_ref() == "name") {
        let problem = "unknown key `name`; a task is called what its file is called: rename the file".into();
        return Err((name.span().start, problem));
    }
    if let Some(unknown) = unknown_key(top.get_ref(), &KEYS) {
        return Err(unknown);
    }
    if let Some((key, line)) = REQUIRED.iter().find(|(key, _)| !top.get_ref().contains_key(*key)) {
        return Err((0, format!("the file has no `{key}`; add {line}")));
    }
    let fewshot = top.get_mut().remove("fewshot").map(|value| table(value, "[fewshot]")).transpose()?;
    let check = top.get_mut().remove("check").map(|value| table(value, "[check]")).transpose()?;
    let Top { about, rows, validation, prompt, length, stop } = read(top)?;
    let at = length.span().start;
    let length = Some(*length.get_ref()).filter(|n| (1..=LONGEST).contains(n));
    let length = length.ok_or_else(|| (at, format!("`length` must be from 1 to {LONGEST}")))? as usize;
    if let Some(empty) = stop.iter().find(|stop| stop.get_ref().is_empty()) {
        return Err((empty.span().start, "`stop` has an empty text, which would end every answer".into()));
    }
    let checker = checker(check.unwrap_or_else(|| Spanned::new(0..0, DeTable::new())))?;
    let file = FileText {
        about,
        rows: dated(rows)?,
        validation,
        prompt: template(&prompt)?,
        length,
        stop: stop.into_iter().map(Spanned::into_inner).collect(),
        fewshot: fewshot.map(few_shot).transpose()?,
        checker,
    };
    if file.prompt.names("_options") && !matches!(file.checker, Checker::Choice(_)) {
        return Err((prompt.span().start, "`{_options}` are those of [check] with kind = \"choice\"".into()));
    }
    Ok(file)
}

/// A table under a key.
fn table<'t>(value: Spanned<DeValue<'t>>, written: &str) -> Result<Spanned<DeTable<'t>>, Wrong> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Ok(Spanned::new(span, table)),
        _ => Err((span.start, format!("expected a table; write {written}"))),
    }
}

/// The values of a table whose keys are known. The table is empty afterwards.
fn read<T: DeserializeOwned>(table: &mut Spanned<DeTable<'_>>) -> Result<T, Wrong> {
    let span = table.span();
    let own = std::mem::replace(table.get_mut(), DeTable::new());
    T::deserialize(toml::Deserializer::from(Spanned::new(span.clone(), own))).map_err(|error| {
        let problem = error.message().replace("missing field", "missing key");
        (error.span().map_or(span.start, |span| span.start), problem)
    })
}

/// Rows in which no date is meant: TOML has them, and JSON has not.
fn dated(rows: RowsText) -> Result<RowsText, Wrong> {
    let dated = |fields: &Fields| serde_json::to_string(fields).is_ok_and(|text| text.contains("$__toml_private"));
    match &rows {
        RowsText::Inline(all) if all.iter().any(dated) => {
            Err((0, "a row has a date without quotes; write it as a text".into()))
        }
        RowsText::Inline(all) if all.is_empty() => Err((0, "`rows` is empty; write at least one row".into())),
        _ => Ok(rows),
    }
}

fn template(text: &Spanned<String>) -> Result<Template, Wrong> {
    Template::parse(text.get_ref()).map_err(|problem| (text.span().start, problem))
}

fn few_shot(mut given: Spanned<DeTable<'_>>) -> Result<FewShotText, Wrong> {
    let begins = given.span().start;
    if let Some(unknown) = unknown_key(given.get_ref(), &FEWSHOT) {
        return Err(unknown);
    }
    let FewShot { rows, shots, choose, seed, answer, separator } = read(&mut given)?;
    let drawn = match choose.as_ref().map(|word| (word.span().start, word.get_ref().as_str())) {
        None | Some((_, "first")) => false,
        Some((_, "seeded")) => true,
        Some((at, other)) => return Err((at, one_of("choose", other, &["first", "seeded"]))),
    };
    if let Some(seed) = seed.as_ref().filter(|_| !drawn) {
        return Err((seed.span().start, "`seed` is for choose = \"seeded\"; add that, or remove it".into()));
    }
    let answer = answer.unwrap_or_else(|| Spanned::new(begins..begins, "{answer}".into()));
    Ok(FewShotText {
        rows: dated(rows)?,
        shots,
        seed: drawn.then(|| seed.map_or(0, Spanned::into_inner)),
        answer: template(&answer)?,
        separator: separator.unwrap_or_else(|| "\n\n".into()),
    })
}

/// A word that is none of those it can be.
fn one_of(key: &str, given: &str, known: &[&str]) -> String {
    let all: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    let meant = did_you_mean(given, known.iter().copied());
    format!("`{key}` is `{given}`, but must be one of {}{meant}", all.join(", "))
}

/// What any checker can be told.
#[derive(Deserialize)]
struct Keys {
    gold: Option<Spanned<String>>,
    trim: Option<bool>,
    ignore_case: Option<bool>,
    take: Option<Spanned<String>>,
    tolerance: Option<Spanned<f64>>,
    relative: Option<Spanned<f64>>,
    pattern: Option<Spanned<String>>,
    group: Option<Spanned<Group>>,
    compare: Option<Spanned<String>>,
    options: Option<Spanned<OptionsText>>,
    by: Option<Spanned<String>>,
    constrain: Option<bool>,
    program: Option<Spanned<String>>,
    argv: Option<Spanned<Vec<String>>>,
    timeout: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number or the name of a group")]
enum Group {
    Number(usize),
    Name(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list of texts, or the name of a field that has one")]
enum OptionsText {
    Field(String),
    List(Vec<String>),
}

/// The keys that a kind of checker has, beside `kind`.
fn keys_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "exact" => &["kind", "gold", "trim", "ignore_case"],
        "number" => &["kind", "gold", "take", "tolerance", "relative"],
        "regex" => {
            &["kind", "pattern", "group", "take", "compare", "gold", "trim", "ignore_case", "tolerance", "relative"]
        }
        "choice" => &["kind", "options", "by", "gold", "constrain"],
        "python" => &["kind", "program", "timeout"],
        "command" => &["kind", "argv", "timeout"],
        _ => &[],
    }
}

fn checker(mut given: Spanned<DeTable<'_>>) -> Result<Checker, Wrong> {
    let begins = given.span().start;
    let kind = match given.get_ref().get("kind").map(|value| (value.span().start, value.get_ref().as_str())) {
        None => return Err((begins, format!("[check] has no `kind`; add one of {}", listed(&KINDS)))),
        Some((at, None)) => return Err((at, "`kind` is a text, such as \"exact\"".into())),
        Some((at, Some(kind))) if !KINDS.contains(&kind) => return Err((at, one_of("kind", kind, &KINDS))),
        Some((_, Some(kind))) => kind.to_owned(),
    };
    if let Some((at, problem)) = unknown_key(given.get_ref(), keys_of(&kind)) {
        return Err((at, format!("a checker of kind \"{kind}\": {problem}")));
    }
    given.get_mut().remove("kind");
    let keys: Keys = read(&mut given)?;
    let needed =
        |key: &str, example: &str| (begins, format!("a checker of kind \"{kind}\" needs `{key}`; add {example}"));
    Ok(match kind.as_str() {
        "exact" => Checker::Exact(keys.exact()?),
        "number" => {
            let (take, tolerance) = (keys.take(Take::Last)?, keys.tolerance()?);
            Checker::Number(NumberCheck { gold: keys.gold()?, take, tolerance })
        }
        "regex" => Checker::Regex(keys.regex(needed)?),
        "choice" => {
            let needed = || needed("options", "options = [\"yes\", \"no\"], or the name of a field that has a list");
            let options = keys.options.as_ref().ok_or_else(needed)?;
            Checker::Choice(keys.choice(options)?)
        }
        "python" => {
            let needed = || needed("program", "program = \"{_answer}\\n{test}\"");
            let program = keys.program.as_ref().ok_or_else(needed)?;
            let read = template(program)?;
            if !read.names("_answer") {
                let problem = "`program` has no `{_answer}`, so that every answer would be judged alike; add it".into();
                return Err((program.span().start, problem));
            }
            Checker::Python(PythonCheck { program: read, timeout: keys.timeout(3.0)? })
        }
        _ => {
            let argv = keys.argv.as_ref().ok_or_else(|| needed("argv", "argv = [\"python3\", \"check.py\"]"))?;
            let at = argv.span().start;
            match argv.get_ref().first() {
                None => return Err((at, "`argv` is empty; name a program".into())),
                Some(program) if program.trim().is_empty() => {
                    return Err((at, "`argv` begins with an empty text; name a program".into()));
                }
                Some(_) => {}
            }
            if argv.get_ref().iter().any(|word| word.contains('\0')) {
                return Err((at, "`argv` has a NUL, which no argument can have".into()));
            }
            Checker::Command(CommandCheck { argv: argv.get_ref().clone(), timeout: keys.timeout(60.0)? })
        }
    })
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

impl Keys {
    fn gold(&self) -> Result<FieldPath, Wrong> {
        match &self.gold {
            None => FieldPath::parse("answer").map_err(|problem| (0, problem)),
            Some(gold) => {
                // A template where a field belongs is the likeliest mistake.
                let inner = gold.get_ref().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                match inner {
                    Some(inner) => {
                        Err((gold.span().start, format!("`gold` is a field, not a template; write \"{inner}\"")))
                    }
                    None => FieldPath::parse(gold.get_ref()).map_err(|problem| (gold.span().start, problem)),
                }
            }
        }
    }

    fn exact(&self) -> Result<Exact, Wrong> {
        let (trim, ignore_case) = (self.trim.unwrap_or(true), self.ignore_case.unwrap_or(false));
        Ok(Exact { gold: self.gold()?, trim, ignore_case })
    }

    fn take(&self, usual: Take) -> Result<Take, Wrong> {
        match self.take.as_ref().map(|word| (word.span().start, word.get_ref().as_str())) {
            None => Ok(usual),
            Some((_, "first")) => Ok(Take::First),
            Some((_, "last")) => Ok(Take::Last),
            Some((at, other)) => Err((at, one_of("take", other, &["first", "last"]))),
        }
    }

    fn tolerance(&self) -> Result<Tolerance, Wrong> {
        let number = |key: &str, value: &Option<Spanned<f64>>| match value {
            None => Ok(0.0),
            Some(value) if value.get_ref().is_finite() && *value.get_ref() >= 0.0 => Ok(*value.get_ref()),
            Some(value) => Err((
                value.span().start,
                format!("`{key}` is {}, but must be a finite number, 0 or more", value.get_ref()),
            )),
        };
        Ok(Tolerance { absolute: number("tolerance", &self.tolerance)?, relative: number("relative", &self.relative)? })
    }

    fn regex(&self, needed: impl Fn(&str, &str) -> Wrong) -> Result<RegexCheck, Wrong> {
        let pattern = self.pattern.as_ref().ok_or_else(|| needed("pattern", "pattern = '#### (\\d+)'"))?;
        let compiled = RegexBuilder::new(pattern.get_ref()).size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES).build();
        let compiled = compiled.map_err(|error| {
            let said = error.to_string();
            // The last line of a picture that shows the place.
            let said = said.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            (pattern.span().start, format!("`pattern` is no expression: {said}"))
        })?;
        let group = match &self.group {
            None => usize::from(compiled.captures_len() > 1),
            Some(group) => {
                let found = match group.get_ref() {
                    Group::Number(n) => Some(*n).filter(|n| *n < compiled.captures_len()),
                    Group::Name(name) => compiled.capture_names().position(|other| other == Some(name)),
                };
                let problem =
                    || format!("`pattern` has {} groups, and this is none of them", compiled.captures_len() - 1);
                found.ok_or_else(|| (group.span().start, problem()))?
            }
        };
        let compare = match self.compare.as_ref().map(|word| (word.span().start, word.get_ref().as_str())) {
            None | Some((_, "text")) => Compare::Text(self.exact()?),
            Some((_, "number")) => Compare::Number(self.gold()?, self.tolerance()?),
            Some((_, "match")) => Compare::Match,
            Some((at, other)) => return Err((at, one_of("compare", other, &["text", "number", "match"]))),
        };
        // What the comparison does not look at would be silently ignored.
        let compared = match compare {
            Compare::Text(_) => "text",
            Compare::Number(..) => "number",
            Compare::Match => "match",
        };
        let idle = [
            ("gold", self.gold.as_ref().map(|gold| gold.span().start), compared == "match"),
            ("trim", self.trim.map(|_| pattern.span().start), compared != "text"),
            ("ignore_case", self.ignore_case.map(|_| pattern.span().start), compared != "text"),
            ("tolerance", self.tolerance.as_ref().map(|value| value.span().start), compared != "number"),
            ("relative", self.relative.as_ref().map(|value| value.span().start), compared != "number"),
        ];
        for (key, at, is_idle) in idle {
            if let Some(at) = at.filter(|_| is_idle) {
                return Err((at, format!("`{key}` says nothing with compare = \"{compared}\"; remove it")));
            }
        }
        Ok(RegexCheck { pattern: compiled, group, take: self.take(Take::First)?, compare })
    }

    fn choice(&self, options: &Spanned<OptionsText>) -> Result<Choice, Wrong> {
        let at = options.span().start;
        let by = match self.by.as_ref().map(|word| (word.span().start, word.get_ref().as_str())) {
            None | Some((_, "text")) => By::Text,
            Some((_, "letter")) => By::Letter,
            Some((at, other)) => return Err((at, one_of("by", other, &["text", "letter"]))),
        };
        let constrain = self.constrain.unwrap_or(false);
        let options = match options.get_ref() {
            OptionsText::List(list) => {
                Choice::check_options(list).map_err(|problem| (at, format!("the list {problem}")))?;
                Options::List(list.clone())
            }
            OptionsText::Field(field) => Options::Field(FieldPath::parse(field).map_err(|problem| (at, problem))?),
        };
        Ok(Choice { gold: self.gold()?, options, by, constrain })
    }

    fn timeout(&self, usual: f64) -> Result<Duration, Wrong> {
        const LONGEST: f64 = 3600.0;
        let (at, seconds) = self.timeout.as_ref().map_or((0, usual), |given| (given.span().start, *given.get_ref()));
        match seconds > 0.0 && seconds <= LONGEST {
            true => Ok(Duration::from_secs_f64(seconds)),
            false => Err((at, format!("`timeout` is {seconds}, but must be above 0 and at most {LONGEST} seconds"))),
        }
    }
}

#[cfg(test)]
mod tests;
