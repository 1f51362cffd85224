//! The paper's four benchmarks, with the prompts and scores of lm-evaluation-harness 0.4.8 to the byte.
//!
//! | task | few-shot examples | generated | scores |
//! |---|---|---|---|
//! | `gsm8k` | 8, drawn for each question | 256 | `strict-match`, `flexible-extract` |
//! | `gsm8k_cot` | 8, fixed | 256 | the same |
//! | [`math500`] | 4, fixed (Minerva's) | 512 | `none` |
//! | `humaneval` | none | 512 | `create_test`, and `dream_sanitized` |
//! | `mbpp` | 3, fixed | 512 | `none` |
//!
//! Odd rules are kept odd: a regular expression that drops the last digit, answers that are right and do not count. Where one
//! looks like a mistake, it is the harness's, and a test says so.

mod check;
mod gsm8k;
mod humaneval;
pub mod math500;
mod mbpp;
mod prompt;
mod sanitise;
mod score;

pub use check::{Finding, check};
pub use prompt::{FEWSHOT_SEED, Prompts, Variant};
pub use score::{Filter, Filtered, JUDGE_FAILED, Mean, Scored, Tally};

use crate::data::{self, File, Source};
use crate::judge::Judges;
use crate::wrapper::Reply;
use cofill::did_you_mean;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// One of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Benchmark {
    /// Grade school word problems; examples are drawn from the training split.
    Gsm8k,
    /// The same questions after eight fixed examples.
    Gsm8kCot,
    /// MATH-500 in the Minerva form.
    Math500,
    /// Functions from their docstrings.
    Humaneval,
    /// Functions from a sentence and three tests.
    Mbpp,
}

/// Why a benchmark cannot ask or score.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no benchmark of this name.
    #[error("unknown task `{given}`{}; expected one of {}", did_you_mean(given, Benchmark::ALL.map(Benchmark::name)), names())]
    Task {
        /// The name, as given.
        given: String,
    },
    /// A data file is missing or cannot be used.
    #[error(transparent)]
    Data(#[from] data::Error),
    /// More few-shot examples were asked for than there are.
    #[error("{task} has {available} few-shot examples, and {given} were asked for; ask for at most {available}")]
    Shots {
        /// The benchmark.
        task: Benchmark,
        /// How many examples there are.
        available: usize,
        /// How many were asked for.
        given: usize,
    },
    /// There is no question of this number.
    #[error("{task} has no doc_id {doc}; they go from 0 to {}", docs - 1)]
    Doc {
        /// The benchmark.
        task: Benchmark,
        /// The number, as given.
        doc: usize,
        /// How many questions there are.
        docs: usize,
    },
    /// The judge that this benchmark is scored by was not given.
    #[error("{task} is scored by {needs}, and there is none")]
    NoJudge {
        /// The benchmark.
        task: Benchmark,
        /// What the judge does.
        needs: &'static str,
    },
}

/// A benchmark and its data.
pub struct Loaded {
    benchmark: Benchmark,
    rows: Box<dyn Rows>,
    sources: Vec<Source>,
}

/// The prompts and scores that a benchmark makes of its rows. A new one is a file that implements this, and a line in each table below.
trait Rows: Send + Sync {
    /// How many questions there are.
    fn docs(&self) -> usize;
    /// How many few-shot examples there are to choose from.
    fn pool(&self) -> usize;
    /// The question as it ends the prompt.
    fn text(&self, doc: usize) -> String;
    /// Example `shot` with its answer, and what separates it from what follows. `None` if it is `doc` itself.
    fn shot(&self, shot: usize, doc: usize) -> Option<String>;
    /// What the harness logs as the right answer.
    fn target(&self, doc: usize) -> String;
    /// What the question is about, where the rows say so.
    fn subject(&self, _doc: usize) -> Option<&str> {
        None
    }
    /// Every score of a reply.
    fn score(&self, doc: usize, reply: &Reply, judges: &Judges<'_>) -> Result<Scored, NoJudge>;
}

/// A reply cannot be scored without this judge.
#[derive(Debug)]
struct NoJudge(&'static str);

impl Benchmark {
    /// Every benchmark, in the order of every table.
    pub const ALL: [Benchmark; 5] =
        [Benchmark::Gsm8k, Benchmark::Gsm8kCot, Benchmark::Math500, Benchmark::Humaneval, Benchmark::Mbpp];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Gsm8k => "gsm8k",
            Benchmark::Gsm8kCot => "gsm8k_cot",
            Benchmark::Math500 => "math500",
            Benchmark::Humaneval => "humaneval",
            Benchmark::Mbpp => "mbpp",
        }
    }

    /// How many few-shot examples its prompts have by default.
    pub fn shots(self) -> usize {
        match self {
            Benchmark::Gsm8k | Benchmark::Gsm8kCot => 8,
            Benchmark::Math500 => 4,
            Benchmark::Humaneval => 0,
            Benchmark::Mbpp => 3,
        }
    }

    /// How many positions the paper generates.
    pub fn length(self) -> usize {
        match self {
            Benchmark::Gsm8k | Benchmark::Gsm8kCot => 256,
            Benchmark::Math500 | Benchmark::Humaneval | Benchmark::Mbpp => 512,
        }
    }

    /// Where a response ends, in the order in which the harness looks.
    pub fn until(self) -> &'static [&'static str] {
        match self {
            Benchmark::Gsm8k => &["Question:", "</s>", "<|im_end|>"],
            Benchmark::Gsm8kCot => &["Q:", "</s>", "<|im_end|>"],
            Benchmark::Math500 => &["Problem:"],
            Benchmark::Humaneval => &["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
            Benchmark::Mbpp => &["[DONE]"],
        }
    }

    /// The data files it reads.
    pub fn files(self) -> Vec<&'static File> {
        match self {
            Benchmark::Gsm8k => vec![&data::GSM8K_TEST, &data::GSM8K_TRAIN],
            Benchmark::Gsm8kCot => vec![&data::GSM8K_TEST, &data::GSM8K_COT_SHOTS],
            Benchmark::Math500 => vec![&data::MATH500_TEST, &data::MINERVA_SHOTS],
            Benchmark::Humaneval => vec![&data::HUMANEVAL_TEST],
            Benchmark::Mbpp => vec![&data::MBPP_TEST, &data::MBPP_SHOTS],
        }
    }

    /// Reads its data files from a folder.
    pub fn load(self, folder: &Path) -> Result<Loaded, Error> {
        let mut reader = Reader { folder, sources: Vec::new() };
        let rows: Box<dyn Rows> = match self {
            Benchmark::Gsm8k => Box::new(gsm8k::Sampled::read(&mut reader)?),
            Benchmark::Gsm8kCot => Box::new(gsm8k::Cot::read(&mut reader)?),
            Benchmark::Math500 => Box::new(math500::Math500::read(&mut reader)?),
            Benchmark::Humaneval => Box::new(humaneval::Humaneval::read(&mut reader)?),
            Benchmark::Mbpp => Box::new(mbpp::Mbpp::read(&mut reader)?),
        };
        Ok(Loaded { benchmark: self, rows, sources: reader.sources })
    }
}

/// Reads files and remembers which.
struct Reader<'a> {
    folder: &'a Path,
    sources: Vec<Source>,
}

impl Reader<'_> {
    fn rows<R: data::Row>(&mut self, file: &'static File) -> Result<Vec<R>, data::Error> {
        let (rows, source) = data::load(self.folder, file)?;
        self.sources.push(source);
        Ok(rows)
    }
}

impl Loaded {
    /// The benchmark that this is the data of.
    pub fn benchmark(&self) -> Benchmark {
        self.benchmark
    }

    /// How many questions there are; they are numbered from 0.
    pub fn docs(&self) -> usize {
        self.rows.docs()
    }

    /// `n` questions, as many about every subject as there can be; the first `n` where rows name no subjects. In order.
    pub fn balanced(&self, n: usize) -> Vec<usize> {
        // Subjects take turns, by name: 100 of MATH500 are 15 each about the first two and 14 about the others, as in the paper.
        let mut turns = BTreeMap::new();
        let mut drawn: Vec<_> = (0..self.docs())
            .map(|doc| {
                let subject = self.rows.subject(doc);
                let turn: &mut usize = turns.entry(subject).or_default();
                *turn += 1;
                (*turn, subject, doc)
            })
            .collect();
        drawn.sort_unstable();
        let mut docs: Vec<usize> = drawn.into_iter().take(n).map(|(_, _, doc)| doc).collect();
        docs.sort_unstable();
        docs
    }

    /// The files it was read from.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// What a user must be told about those files: which of them have another content than the known one.
    pub fn warnings(&self) -> Vec<String> {
        self.sources.iter().filter_map(Source::warning).collect()
    }

    /// What the harness logs as the right answer to a question.
    pub fn target(&self, doc: usize) -> Result<String, Error> {
        self.check(doc)?;
        Ok(self.rows.target(doc))
    }

    /// Every score of a reply, side by side. A judge that breaks down on this reply makes it a wrong one that says so
    /// ([`Scored::judge_failure`]): the replies after it are still to be scored.
    pub fn score(&self, doc: usize, reply: &Reply, judges: &Judges<'_>) -> Result<Scored, Error> {
        self.check(doc)?;
        let task = self.benchmark;
        self.rows.score(doc, reply, judges).map_err(|NoJudge(needs)| Error::NoJudge { task, needs })
    }

    /// The same for the text as it was generated, cut at the stop strings only.
    pub fn score_raw(&self, doc: usize, raw: &str, judges: &Judges<'_>) -> Result<Scored, Error> {
        self.score(doc, &Reply::plain(raw, self.benchmark.until()), judges)
    }

    fn check(&self, doc: usize) -> Result<(), Error> {
        let (task, docs) = (self.benchmark, self.docs());
        if doc < docs { Ok(()) } else { Err(Error::Doc { task, doc, docs }) }
    }
}

/// An example and its answer as they stand before the question. The harness writes no separator after an empty answer.
fn block(text: &str, delimiter: &str, target: &str) -> String {
    if target.is_empty() { text.into() } else { format!("{text}{delimiter}{target}\n\n") }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Benchmark {
    type Err = Error;

    fn from_str(given: &str) -> Result<Benchmark, Error> {
        // The harness itself names MATH-500 in this form `minerva_math500`, in releases after 0.4.8.
        let name = if given == "minerva_math500" { "math500" } else { given };
        Benchmark::ALL.into_iter().find(|task| task.name() == name).ok_or_else(|| Error::Task { given: given.into() })
    }
}

fn names() -> String {
    Benchmark::ALL.map(|task| format!("`{task}`")).join(", ")
}

#[cfg(test)]
mod tests;
