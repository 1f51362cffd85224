//! Tasks whose answers a program can check, for scoring models and samplers.
//!
//! A task gives prompts and judges answers. It knows no model and no tokenizer, only texts. [`mini`] tasks are generated
//! here; the paper's [`benchmarks`] read their files through [`data`] and ask and score as lm-evaluation-harness does. Formulas and
//! programs are handed to judges ([`judge`]), which live in crates of their own.
//!
//! ```
//! use cofill_tasks::mini::{Mini, Split};
//!
//! let example = Mini::Chain.example(Split::Test, 1, 0); // seed 1, question 0: the same on every machine
//! println!("{}", example.prompt); // Ana has 7 coins, buys 5, ...
//! assert_eq!(Mini::Chain.check(&example.prompt, &example.answer)?, Ok(()));
//! let wrong = Mini::Chain.check(&example.prompt, "#### 1000")?.unwrap_err();
//! assert!(wrong.to_string().ends_with("not 1000"));
//! # Ok::<(), cofill_tasks::mini::Error>(())
//! ```

pub mod benchmarks;
pub mod data;
pub mod judge;
pub mod mini;
pub mod mt19937;
mod pystr;
pub mod sources;
pub mod wrapper;

use benchmarks::Benchmark;
use mini::Mini;
use std::fmt;
use std::str::FromStr;

/// A task of any kind, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskName {
    /// One whose questions are generated here.
    Mini(Mini),
    /// One whose questions are read from files.
    Benchmark(Benchmark),
    /// Texts with gaps from a file of the user's own, each with what belongs in its gaps.
    Infill,
}

/// The name of [`TaskName::Infill`], and of its file in a folder of data.
const INFILL: &str = "infill";

impl TaskName {
    /// Its name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            TaskName::Mini(task) => task.name(),
            TaskName::Benchmark(task) => task.name(),
            TaskName::Infill => INFILL,
        }
    }

    /// How many positions a model generates after a prompt by default; 0 where gaps are filled.
    pub fn length(self) -> usize {
        match self {
            TaskName::Mini(task) => task.length(),
            TaskName::Benchmark(task) => task.length(),
            TaskName::Infill => 0, // its rows say how long their gaps are
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
        if given == INFILL {
            return Ok(TaskName::Infill);
        }
        let benchmark = given.parse().map(TaskName::Benchmark);
        given.parse().map(TaskName::Mini).or(benchmark).map_err(|_| {
            let names =
                Mini::ALL.map(Mini::name).into_iter().chain(Benchmark::ALL.map(Benchmark::name)).chain([INFILL]);
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            format!("unknown task `{given}`; expected one of {}", names.join(", "))
        })
    }
}
