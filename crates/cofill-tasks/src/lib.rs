//! Tasks whose answers a program can check, for scoring models and samplers.
//!
//! A task gives prompts and judges answers. It knows no model and no tokenizer: text in, verdict out. [`mini`] tasks are generated
//! here; the paper's [`benchmarks`] read their files through [`data`] and ask and score as lm-evaluation-harness does. Formulas and
//! programs are handed to judges ([`judge`]), which live in crates of their own.

pub mod benchmarks;
pub mod data;
pub mod judge;
pub mod mini;
pub mod mt19937;
mod pystr;
pub mod wrapper;

use benchmarks::Benchmark;
use mini::Mini;
use std::fmt;
use std::str::FromStr;

/// A task of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskName {
    /// Generated here.
    Mini(Mini),
    /// Read from files.
    Benchmark(Benchmark),
}

impl TaskName {
    /// How it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TaskName::Mini(task) => task.name(),
            TaskName::Benchmark(task) => task.name(),
        }
    }

    /// Positions that are generated unless told otherwise.
    pub fn length(self) -> usize {
        match self {
            TaskName::Mini(task) => task.length(),
            TaskName::Benchmark(task) => task.length(),
        }
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(given: &str) -> Result<TaskName, String> {
        let bench = given.parse().map(TaskName::Benchmark);
        given.parse().map(TaskName::Mini).or(bench).map_err(|_| {
            let names = Mini::ALL.map(Mini::name).into_iter().chain(Benchmark::ALL.map(Benchmark::name));
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            format!("unknown task `{given}`; expected one of {}", names.join(", "))
        })
    }
}
