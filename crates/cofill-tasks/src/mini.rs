//! Five small tasks that a tiny model can learn and a program can check.
//!
//! Each is a seeded generator and a checker. What a sampler must get right differs from task to task:
//!
//! | task | shape | what couples the tokens of an answer |
//! |---|---|---|
//! | `chain` | GSM8K: steps, then `#### n` | every step starts where the one before ended |
//! | `sums` | many right answers | no number may be used twice, and both operands of a line must fit each other |
//! | `code` | HumanEval: a function that is executed | any constants will do, as long as they arrive at the result together |
//! | `sudoku` | 4x4 | rows, columns and boxes; most puzzles have several solutions |
//! | [`predicates`] | the paper's appendix F: infill | integers of one predicate, none across predicates |
//!
//! The checker of a task reads the prompt again and accepts *every* right answer, not the reference alone.
//!
//! Splits share no prompt, by construction: a prompt's own hash decides which split it belongs to ([`Mini::split_of`]), and a
//! generator draws until it finds one that belongs where it was asked for.

mod chain;
mod code;
pub mod draw;
pub mod predicates;
mod python;
mod sudoku;
mod sums;

use cofill::did_you_mean;
use draw::Draw;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// One of the mini tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mini {
    /// Word problems solved step by step.
    Chain,
    /// Different equations with the same result.
    Sums,
    /// A function with a given value.
    Code,
    /// A 4x4 sudoku.
    Sudoku,
    /// Gaps in arithmetic predicates.
    Predicates,
}

/// A prompt with one of its right answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// What the model is given. For a task of [`Form::Infill`], text with a `[MASK:1]` for every gap.
    pub prompt: String,
    /// What it should write after the prompt, or the whole text with its gaps filled.
    pub answer: String,
}

/// Where the masks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// After the prompt, as many as [`Mini::length`].
    Continue,
    /// In the prompt, at its gaps.
    Infill,
}

/// The part of a task's prompts that is used for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// Training: 8 of 10 prompts.
    Train,
    /// Choosing between recipes: 1 of 10.
    Validation,
    /// Reporting: 1 of 10.
    Test,
}

/// Why a task, a split or a prompt is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no mini task of this name.
    #[error("unknown task `{given}`{}; expected one of {}", did_you_mean(given, Mini::ALL.map(Mini::name)), names(Mini::ALL.iter()))]
    Task {
        /// The name, as given.
        given: String,
    },
    /// There is no split of this name.
    #[error("unknown split `{given}`{}; expected one of {}", did_you_mean(given, Split::ALL.map(Split::name)), names(Split::ALL.iter()))]
    Split {
        /// The name, as given.
        given: String,
    },
    /// The prompt is none that this task could have asked.
    #[error("`{prompt}` is no prompt of the task `{task}`; it asks: {shape}")]
    Prompt {
        /// The task that was to check an answer.
        task: Mini,
        /// The prompt, as given.
        prompt: String,
        /// What its prompts look like.
        shape: &'static str,
    },
}

/// Why an answer is wrong, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

/// Right, or wrong for a reason.
pub type Checked = Result<(), Wrong>;

impl Mini {
    /// Every mini task, in the order of every table.
    pub const ALL: [Mini; 5] = [Mini::Chain, Mini::Sums, Mini::Code, Mini::Sudoku, Mini::Predicates];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Mini::Chain => "chain",
            Mini::Sums => "sums",
            Mini::Code => "code",
            Mini::Sudoku => "sudoku",
            Mini::Predicates => "predicates",
        }
    }

    /// Whether the answer follows the prompt or fills its gaps.
    pub fn form(self) -> Form {
        if self == Mini::Predicates { Form::Infill } else { Form::Continue }
    }

    /// How many positions a model generates: the longest answer in tokens of the tiny models. 0 for infill.
    pub fn length(self) -> usize {
        match self {
            Mini::Chain => chain::LENGTH,
            Mini::Sums => sums::LENGTH,
            Mini::Code => code::LENGTH,
            Mini::Sudoku => sudoku::LENGTH,
            Mini::Predicates => 0,
        }
    }

    /// The example of this (split, seed, index); the same on every machine.
    pub fn example(self, split: Split, seed: u64, index: u64) -> Example {
        let mut draw = Draw::new(seed, self as u64, index);
        loop {
            let example = match self {
                Mini::Chain => chain::draw(&mut draw),
                Mini::Sums => sums::draw(&mut draw),
                Mini::Code => code::draw(&mut draw),
                Mini::Sudoku => sudoku::draw(&mut draw),
                Mini::Predicates => predicates::draw(&mut draw),
            };
            if self.split_of(&example.prompt) == split {
                return example;
            }
        }
    }

    /// The examples of a split in order, each prompt once: what a score is computed over. Ends when new prompts have become
    /// rare: a thousand draws in a row that were there already.
    pub fn distinct(self, split: Split, seed: u64) -> impl Iterator<Item = Example> {
        const PATIENCE: u64 = 1000;
        let (mut seen, mut next) = (HashSet::new(), 0);
        std::iter::from_fn(move || {
            (next..next + PATIENCE).find_map(|index| {
                next = index + 1;
                let example = self.example(split, seed, index);
                seen.insert(example.prompt.clone()).then_some(example)
            })
        })
    }

    /// The one split that a prompt belongs to.
    ///
    /// Predicates go by their operators alone: training masks other integers than the prompt says, and whatever it masks, what
    /// the model sees must not be a test prompt.
    pub fn split_of(self, prompt: &str) -> Split {
        let hash = match self {
            Mini::Predicates => fnv1a(&predicates::operators(prompt)),
            _ => fnv1a(prompt),
        };
        match hash % 10 {
            8 => Split::Validation,
            9 => Split::Test,
            _ => Split::Train,
        }
    }

    /// The task that asks `prompt`, if one does.
    pub fn asking(prompt: &str) -> Option<Mini> {
        Mini::ALL.into_iter().find(|task| task.check(prompt, "").is_ok())
    }

    /// Whether `answer` is right for `prompt`; an error if this task asks no such thing.
    pub fn check(self, prompt: &str, answer: &str) -> Result<Checked, Error> {
        let (checked, shape) = match self {
            Mini::Chain => (chain::check(prompt, answer), chain::SHAPE),
            Mini::Sums => (sums::check(prompt, answer), sums::SHAPE),
            Mini::Code => (code::check(prompt, answer), code::SHAPE),
            Mini::Sudoku => (sudoku::check(prompt, answer), sudoku::SHAPE),
            Mini::Predicates => (predicates::check(prompt, answer), predicates::SHAPE),
        };
        checked.ok_or_else(|| Error::Prompt { task: self, prompt: prompt.into(), shape })
    }
}

impl Split {
    /// Every split.
    pub const ALL: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }
}

impl fmt::Display for Mini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mini {
    type Err = Error;

    fn from_str(given: &str) -> Result<Mini, Error> {
        Mini::ALL.into_iter().find(|task| task.name() == given).ok_or_else(|| Error::Task { given: given.into() })
    }
}

impl FromStr for Split {
    type Err = Error;

    fn from_str(given: &str) -> Result<Split, Error> {
        Split::ALL.into_iter().find(|split| split.name() == given).ok_or_else(|| Error::Split { given: given.into() })
    }
}

fn names<T: fmt::Display>(all: impl Iterator<Item = T>) -> String {
    all.map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
}

/// FNV-1a with a final mix, so that the last digit of the hash depends on every byte. Written out because a prompt must never
/// change its split, and the standard library's hasher may change from one release to the next.
fn fnv1a(text: &str) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, byte| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// A number as the tasks write it: digits only, so that neither `+5` nor `１` passes.
fn number(text: &str) -> Option<i64> {
    let plain = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn wrong(reason: impl Into<String>) -> Checked {
    Err(Wrong(reason.into()))
}

#[cfg(test)]
mod tests;
