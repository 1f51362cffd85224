//! What scoring needs from elsewhere: whether two formulas are equal, and how a program ends.
//!
//! Tasks know texts only. Formulas can be compared natively or by sympy, generated code can be run in a sandbox or not at all, so
//! a task is handed its judges and never makes one.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Says whether two normalised answers are the same formula.
pub trait Equivalence {
    /// Which comparison this is, for the result's header.
    fn name(&self) -> String;
    /// Whether `given` equals `gold`; both are normalised. `Err` means that the judge itself could not run.
    fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, String>;
}

/// Runs a program that a model wrote.
pub trait Execute {
    /// The interpreter and what confines it, for the result's header.
    fn describe(&self) -> String;
    /// Runs `program` as Hugging Face's `code_eval` does, for at most `timeout`. `Err` means that the judge itself could not run.
    fn run(&self, program: &str, timeout: Duration) -> Result<Execution, String>;
    /// Runs a program of *our own* under the same confinement and returns the text it leaves in its variable `answer`: nothing if it
    /// raises or takes longer than `timeout`. `Err` means that the judge itself could not run.
    fn answer(&self, program: &str, timeout: Duration) -> Result<Option<String>, String>;
}

/// Scores answers by a program of the user's own.
pub trait External {
    /// Scores some answers, each described by an object: one verdict for each, in order. `Err` means that it could not be judged, and why.
    fn scores(&self, answers: &[serde_json::Value]) -> Vec<Result<Score, String>>;
}

/// What somebody else says of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// From 0, wrong, to 1, right.
    pub score: f64,
    /// In words, if there are any.
    pub why: Option<String>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Whether it ran to its end.
    pub passed: bool,
    /// `code_eval`'s word for it: `passed`, `timed out` or `failed: ` and the exception's text.
    pub result: String,
}

/// The judges that a task is given. Without the one it needs, a task refuses to score.
#[derive(Default, Clone, Copy)]
pub struct Judges<'a> {
    /// Compares formulas, for MATH.
    pub equivalence: Option<&'a dyn Equivalence>,
    /// Runs programs, for HumanEval, MBPP and task files that judge by one.
    pub execute: Option<&'a dyn Execute>,
    /// Asks a command, for task files that judge by one.
    pub external: Option<&'a dyn External>,
}

/// The ways of comparing formulas, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Math {
    /// By this program itself.
    #[default]
    Native,
    /// By sympy in a Python process, as the harness does.
    Sympy,
}

impl fmt::Display for Math {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Math::Native => "native",
            Math::Sympy => "sympy",
        })
    }
}

impl FromStr for Math {
    type Err = String;

    fn from_str(given: &str) -> Result<Math, String> {
        let known = [Math::Native, Math::Sympy].into_iter().find(|math| math.to_string() == given);
        known.ok_or_else(|| format!("unknown comparison `{given}`; expected `native` or `sympy`"))
    }
}
