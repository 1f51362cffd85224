//! Tasks of the user's own, from a task file: a prompt template over rows, few-shot examples, and a checker.
//!
//! ```toml
//! rows = "rows.jsonl"                       # {"a": 7, "b": 5, "answer": 12}
//! prompt = "What is {a}+{b}?\n"
//! length = 8
//!
//! [check]
//! kind = "number"
//! ```
//!
//! `docs/tasks.md` has every key. Everything that can be wrong with a file or one of its rows is found when it is opened, before a model
//! is: a row without a field that a template names, a right answer that is no number, an expression that is none.

mod check;
mod file;
mod number;
mod problem;
mod rows;
mod template;

pub use check::{Checker, Choice, CommandCheck, Exact, Found, NumberCheck, PythonCheck, RegexCheck};
pub use number::Decimal;
pub use rows::{OwnRow, Rows};
pub use template::{FieldPath, Fields, Template};

use crate::benchmarks::{Filter, Filtered, JUDGE_FAILED, Scored};
use crate::data;
use crate::judge::Judges;
use crate::mini::Split;
use crate::mini::draw::Draw;
use crate::toml_text::WrongLine;
use file::{FewShotText, FileText, RowsText};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Bytes of a task file.
const MOST_BYTES: u64 = 1 << 20;
/// Where a file names no validation rows, one row in so many is one.
const VALIDATION: u64 = 5;

/// Why a task file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It, or a file that it names, cannot be read.
    #[error(transparent)]
    Read(#[from] data::Error),
    /// Its text is not UTF-8.
    #[error("the task file `{}` is not UTF-8 at byte {at}; save it as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        at: usize,
    },
    /// A line of it is wrong.
    #[error("`{}`, {wrong}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        wrong: WrongLine,
    },
    /// A row of one of its files is wrong.
    #[error("line {line} of `{name}`: {problem}")]
    Row {
        /// The file of rows, as the task file names it.
        name: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A row in the task file is wrong.
    #[error("row {row} in `{name}`: {problem}")]
    InlineRow {
        /// The task file.
        name: String,
        /// Counted from 1.
        row: usize,
        /// What is wrong.
        problem: String,
    },
    /// A file of rows without any.
    #[error("`{name}` has no row; write a JSON object on each line")]
    Empty {
        /// The file, as the task file names it.
        name: String,
    },
    /// More examples than there are.
    #[error("`{name}` has {available} few-shot rows, and {given} were asked for; ask for at most {available}")]
    Shots {
        /// The task.
        name: String,
        /// How many there are.
        available: usize,
        /// How many were asked for.
        given: usize,
    },
    /// Examples where there are none.
    #[error("`{name}` has no few-shot rows, and {given} were asked for; add [fewshot] to its file")]
    NoShots {
        /// The task.
        name: String,
        /// How many were asked for.
        given: usize,
    },
    /// A split that no task file has, or whose rows are too few.
    #[error("`{name}` has no {split} rows; {remedy}")]
    Split {
        /// The task.
        name: String,
        /// The split that was asked for.
        split: Split,
        /// What can be done.
        remedy: &'static str,
    },
    /// Rows whose options differ, and answers that are held to them.
    #[error(
        "`{name}`: constrain = true holds all answers to one list, but the options of {row} are others than those of the first row; leave it out"
    )]
    Constrain {
        /// The task.
        name: String,
        /// The row that differs, in words.
        row: String,
    },
    /// The judge that its checker needs was not given.
    #[error("`{name}` is scored by {needs}, and there is none")]
    NoJudge {
        /// The task.
        name: String,
        /// What the judge does.
        needs: &'static str,
    },
}

/// Which of a file's questions are wanted, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of which split; all rows if nobody says.
    pub split: Option<Split>,
    /// Few-shot examples; as many as the file says if nobody else does.
    pub shots: Option<usize>,
}

/// A task file, open: its questions, and what an answer to each is worth.
#[derive(Debug)]
pub struct OwnTask {
    name: String,
    path: PathBuf,
    about: String,
    sha256: String,
    wanted: Wanted,
    /// Whether the file names rows for choosing.
    has_validation: bool,
    rows: Rows,
    /// What was read beside the task file: its role, and rows.
    sources: Vec<(&'static str, Option<String>, usize)>,
    prompt: Template,
    fewshot: Option<FewShot>,
    length: usize,
    stop: Vec<String>,
    checker: Checker,
    held_to: Option<Vec<String>>,
}

/// Examples before a question.
#[derive(Debug)]
struct FewShot {
    pool: Rows,
    shots: usize,
    /// Drawn anew for each question; the first ones without.
    seed: Option<u64>,
    answer: Template,
    separator: String,
}

impl OwnTask {
    /// Reads a task file and its rows, and refuses what could not be asked or judged.
    pub fn open(path: &Path, wanted: Wanted) -> Result<OwnTask, Error> {
        let bytes = data::read(path, MOST_BYTES)?;
        let not_text = |error: std::str::Utf8Error| Error::NotText { path: path.into(), at: error.valid_up_to() + 1 };
        let text = std::str::from_utf8(&bytes).map_err(not_text)?;
        let file = FileText::parse(text).map_err(|wrong| Error::Line { path: path.into(), wrong })?;
        let FileText { about, rows, validation, prompt, length, stop, fewshot, checker } = file;
        let name = crate::TaskFile::name_of(path);
        let rows = read_rows(path, rows)?;
        let mut sources = vec![("rows", rows.sha256.clone(), rows.rows.len())];
        let rows = split(&name, path, rows, validation.as_deref(), wanted.split)?;
        if let (Some(Split::Validation), Some(_)) = (wanted.split, &validation) {
            sources.push(("validation", rows.sha256.clone(), rows.rows.len()));
        }
        let fewshot = match (fewshot, wanted.shots) {
            (None, None | Some(0)) => None,
            (None, Some(given)) => return Err(Error::NoShots { name, given }),
            (Some(text), given) => Some(FewShot::open(&name, path, text, given)?),
        };
        if let Some(FewShot { pool, .. }) = &fewshot {
            sources.push(("fewshot", pool.sha256.clone(), pool.rows.len()));
        }
        let sha256 = data::sha256(&bytes);
        let path = path.to_owned();
        let mut task = OwnTask {
            name,
            path,
            about,
            sha256,
            wanted,
            has_validation: validation.is_some(),
            rows,
            sources,
            prompt,
            fewshot,
            length,
            stop,
            checker,
            held_to: None,
        };
        task.check_rows()?;
        Ok(task)
    }

    /// Refuses rows that could not be asked or judged.
    fn check_rows(&mut self) -> Result<(), Error> {
        let file = self.path.display().to_string();
        let mut held_to = None;
        for (doc, row) in self.rows.rows.iter().enumerate() {
            let wrong = |problem: String| self.rows.wrong(row, &file, &problem);
            self.checker.problem(&row.fields).map_err(wrong)?;
            self.ask(row).map_err(wrong)?;
            if let Checker::Choice(choice) = &self.checker {
                let options = choice.held_to(&row.fields).map_err(wrong)?;
                if doc > 0 && held_to != options {
                    let row = self.place(doc);
                    return Err(Error::Constrain { name: self.name.clone(), row });
                }
                held_to = options;
            }
        }
        self.held_to = held_to;
        if let Some(FewShot { pool, answer, .. }) = &self.fewshot {
            for row in &pool.rows {
                let wrong = |problem: String| pool.wrong(row, &file, &problem);
                self.ask(row).map_err(wrong)?;
                answer.fill(&row.fields, &[]).map_err(wrong)?;
            }
        }
        // A prompt with its examples is what must fit, and each question may have others.
        for doc in 0..self.docs() {
            let length = self.prompt(doc).len();
            if length > template::LONGEST {
                let problem = format!("makes a prompt of {length} bytes, but at most {} are asked", template::LONGEST);
                return Err(self.rows.wrong(&self.rows.rows[doc], &file, &problem));
            }
        }
        Ok(())
    }

    /// What the task is called: its file, without folder and ending.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of its file, from which everything that it names is meant.
    pub fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// What it is about, in its own words.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// How many positions a model generates, unless somebody says otherwise.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where an answer ends.
    pub fn stop(&self) -> &[String] {
        &self.stop
    }

    /// Who judges the answers.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// Whether it has few-shot examples to choose from.
    pub fn has_shots(&self) -> bool {
        self.fewshot.is_some()
    }

    /// The texts that answers are held to, if they are.
    pub fn held_to(&self) -> Option<&[String]> {
        self.held_to.as_deref()
    }

    /// How many questions there are; they are numbered from 0.
    pub fn docs(&self) -> usize {
        self.rows.rows.len()
    }

    /// Where a question stands, in words.
    pub fn place(&self, doc: usize) -> String {
        let line = self.rows.rows.get(doc).map_or(0, |row| row.line);
        match self.rows.sha256 {
            Some(_) => format!("line {line} of `{}`", self.rows.name),
            None => format!("row {line} in `{}`", self.path.display()),
        }
    }

    /// What was read and decides prompts and scores, for the header of results. Where the files lie decides nothing.
    pub fn source(&self) -> Value {
        let files =
            self.sources.iter().map(|(role, sha256, rows)| json!({"role": role, "rows": rows, "sha256": sha256}));
        json!(files.collect::<Vec<_>>())
    }

    /// The SHA-256 of the task file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// How many few-shot examples a prompt has.
    pub fn shots(&self) -> usize {
        self.fewshot.as_ref().map_or(0, |fewshot| fewshot.shots)
    }

    /// Which rows these are, in a word: those of a split, or all.
    pub fn split(&self) -> &'static str {
        self.wanted.split.map_or("all", Split::name)
    }

    /// Whether the file names rows for choosing: else, which rows are for that is decided by what they say.
    pub fn has_validation(&self) -> bool {
        self.has_validation
    }

    /// A row as it is asked, without examples.
    fn ask(&self, row: &OwnRow) -> Result<String, String> {
        let options = match &self.checker {
            Checker::Choice(choice) if self.prompt.names("_options") => choice.shown(&row.fields)?,
            _ => String::new(),
        };
        self.prompt.fill(&row.fields, &[("_options", &options)])
    }

    /// The prompt of a question: few-shot examples, then the question.
    pub fn prompt(&self, doc: usize) -> String {
        let row = &self.rows.rows[doc];
        let mut prompt = String::new();
        if let Some(fewshot) = &self.fewshot {
            for example in fewshot.choose(row) {
                // Each was filled in once already, when the file was opened.
                let (asked, answer) = (self.ask(example), fewshot.answer.fill(&example.fields, &[]));
                prompt.push_str(&asked.unwrap_or_default());
                prompt.push_str(&answer.unwrap_or_default());
                prompt.push_str(&fewshot.separator);
            }
        }
        prompt.push_str(&self.ask(row).unwrap_or_default());
        prompt
    }

    /// The scores of some answers, each with the number of its question. A judge that breaks down makes an answer a wrong one that says so
    /// ([`Scored::judge_failure`]).
    pub fn score(&self, answers: &[(usize, &str)], judges: &Judges<'_>) -> Result<Vec<Scored>, Error> {
        let missing = |needs| Error::NoJudge { name: self.name.clone(), needs };
        match &self.checker {
            Checker::Python(check) => {
                let judge = judges.execute.ok_or_else(|| missing("running programs"))?;
                Ok(answers.iter().map(|(doc, answer)| self.run(check, *doc, answer, judge)).collect())
            }
            Checker::Command(_) => {
                let judge = judges.external.ok_or_else(|| missing("a command"))?;
                let requests: Vec<Value> = answers.iter().map(|(doc, answer)| self.request(*doc, answer)).collect();
                let said = judge.scores(&requests);
                let one = |(i, (_, answer)): (usize, &(usize, &str))| match said.get(i) {
                    Some(Ok(said)) => scored(answer, "score", said.score, said.why.clone()),
                    Some(Err(why)) => failed(answer, "score", why.clone()),
                    None => failed(answer, "score", "the command said nothing about it".into()),
                };
                Ok(answers.iter().enumerate().map(one).collect())
            }
            checker => Ok(answers.iter().map(|(doc, answer)| self.read(checker, *doc, answer)).collect()),
        }
    }

    /// What a checker of texts finds.
    fn read(&self, checker: &Checker, doc: usize, answer: &str) -> Scored {
        match checker.check(&self.rows.rows[doc].fields, answer) {
            Some(Ok(Found { read, wrong })) => scored(&read, "right", f64::from(u8::from(wrong.is_none())), wrong),
            Some(Err(problem)) => failed(answer, "right", format!("the row {problem}")),
            None => failed(answer, "right", "nobody judges it".into()),
        }
    }

    /// How a program with the answer ends.
    fn run(&self, check: &PythonCheck, doc: usize, answer: &str, judge: &dyn crate::judge::Execute) -> Scored {
        let row = &self.rows.rows[doc];
        let asked = self.ask(row).unwrap_or_default();
        let program = match check.program(&row.fields, &asked, answer) {
            Ok(program) => program,
            Err(problem) => return scored(answer, "right", 0.0, Some(format!("the program {problem}"))),
        };
        match judge.run(&program, check.timeout) {
            Ok(ended) => {
                scored(answer, "right", f64::from(u8::from(ended.passed)), (!ended.passed).then_some(ended.result))
            }
            Err(failure) => failed(answer, "right", failure),
        }
    }

    /// What a command is asked about an answer.
    fn request(&self, doc: usize, answer: &str) -> Value {
        json!({"doc_id": doc, "prompt": self.prompt(doc), "answer": answer, "row": self.rows.rows[doc].fields})
    }
}

fn scored(read: &str, metric: &'static str, score: f64, why: Option<String>) -> Scored {
    let filter = Filter { name: "none", filtered: Filtered::One(read.into()), metrics: vec![(metric, score)] };
    Scored { filters: vec![filter], notes: why.map(|why| ("why", why)).into_iter().collect() }
}

fn failed(answer: &str, metric: &'static str, why: String) -> Scored {
    let mut scored = scored(answer, metric, 0.0, None);
    scored.notes.push((JUDGE_FAILED, why));
    scored
}

/// Rows that a task file names or has.
fn read_rows(task: &Path, rows: RowsText) -> Result<Rows, Error> {
    match rows {
        RowsText::Inline(rows) => Ok(Rows::inline(rows)),
        RowsText::File(name) => read_file(task, &name),
    }
}

/// A file that a task file names: its place is meant from there.
fn read_file(task: &Path, name: &str) -> Result<Rows, Error> {
    Rows::read(&task.parent().unwrap_or(Path::new("")).join(name), name)
}

/// The rows of a split. Where the file names no validation rows, what a row says decides where it belongs: one in five is for choosing.
fn split(
    name: &str,
    task: &Path,
    mut rows: Rows,
    validation: Option<&str>,
    split: Option<Split>,
) -> Result<Rows, Error> {
    let none = |split, remedy| Err(Error::Split { name: name.into(), split, remedy });
    match (split, validation) {
        (None, _) | (Some(Split::Test), Some(_)) => return Ok(rows),
        (Some(Split::Validation), Some(file)) => return read_file(task, file),
        (Some(Split::Train), _) => {
            return none(Split::Train, "nobody trains on a task file; ask for test or validation");
        }
        (Some(split), None) => {
            let is_wanted = |row: &OwnRow| row.hash().is_multiple_of(VALIDATION) == (split == Split::Validation);
            rows.rows.retain(is_wanted);
        }
    }
    match (rows.rows.is_empty(), split) {
        (true, Some(split)) => none(split, "it has too few to keep some apart; name a file of them with `validation`"),
        _ => Ok(rows),
    }
}

impl FewShot {
    fn open(name: &str, task: &Path, text: FewShotText, given: Option<usize>) -> Result<FewShot, Error> {
        let FewShotText { rows, shots, seed, answer, separator } = text;
        let pool = read_rows(task, rows)?;
        let available = pool.rows.len();
        let shots = given.or(shots).unwrap_or(available);
        if shots > available {
            return Err(Error::Shots { name: name.into(), available, given: shots });
        }
        Ok(FewShot { pool, shots, seed, answer, separator })
    }

    /// The examples of a question, in order. A question is never its own example.
    fn choose(&self, question: &OwnRow) -> Vec<&OwnRow> {
        let mut others: Vec<&OwnRow> = self.pool.rows.iter().filter(|row| row.fields != question.fields).collect();
        if let Some(seed) = self.seed {
            // By what is asked, not by its number: the same examples in every split and at every limit.
            Draw::new(seed, 0, question.hash()).shuffle(&mut others);
        }
        others.truncate(self.shots);
        others
    }
}

#[cfg(test)]
mod tests;
