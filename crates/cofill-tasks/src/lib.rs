//! What a model can be asked, and what counts as right.

pub mod bench;
pub mod mini;

use bench::Bench;
use mini::Mini;
use std::fmt;
use std::str::FromStr;

/// A task of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// Generated here.
    Mini(Mini),
    /// Read from files.
    Bench(Bench),
}

impl Which {
    /// How it is named on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Which::Mini(task) => task.name(),
            Which::Bench(task) => task.name(),
        }
    }

    /// Positions that are generated unless told otherwise.
    pub fn length(self) -> usize {
        match self {
            Which::Mini(task) => task.length(),
            Which::Bench(task) => task.length(),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Which {
    type Err = String;

    fn from_str(given: &str) -> Result<Which, String> {
        let bench = given.parse().map(Which::Bench);
        given.parse().map(Which::Mini).or(bench).map_err(|_| {
            let names = Mini::ALL.map(Mini::name).into_iter().chain(Bench::ALL.map(Bench::name));
            let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
            format!("unknown task `{given}`; expected one of {}", names.join(", "))
        })
    }
}
