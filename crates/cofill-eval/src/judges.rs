//! The judges of a task: who compares formulas, who runs generated programs, who asks a command.
//!
//! Tasks name what they need as traits, the crates that can do it know nothing of tasks; here they meet.

use crate::command::CommandJudge;
use crate::spec::JudgeOptions;
use cofill_math::{Sympy, SympyError};
use cofill_sandbox::{Options, Sandbox};
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::judge::{Equivalence, Execute, Execution, External, Judges, Math};
use cofill_tasks::own::{Checker, OwnTask};
use std::path::PathBuf;
use std::time::Duration;

/// The judges that a task needs.
#[derive(Default)]
pub struct JudgeSet {
    /// Compares formulas, for MATH.
    pub equivalence: Option<Box<dyn Equivalence>>,
    /// Runs programs, for HumanEval, MBPP and task files that judge by one.
    pub execute: Option<Box<dyn Execute>>,
    /// Asks a command, for task files that judge by one.
    pub external: Option<Box<dyn External>>,
}

/// Why a judge cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// sympy, or the Python that should run it.
    #[error(transparent)]
    Sympy(#[from] SympyError),
    /// The sandbox, or the Python that should run in it.
    #[error(transparent)]
    Sandbox(#[from] cofill_sandbox::Error),
    /// A command that nobody has allowed. A task file is data from anywhere; what it would start is the user's to decide.
    #[error("`{task}` is judged by a command of its own, {} in `{}`, which runs as you and was not allowed", words(argv), folder.display())]
    CommandNotAllowed {
        /// The task.
        task: String,
        /// What would run.
        argv: Vec<String>,
        /// Where.
        folder: PathBuf,
    },
}

impl JudgeSet {
    /// Starts the judges of `task`.
    pub fn start(task: Benchmark, options: &JudgeOptions) -> Result<JudgeSet, Error> {
        let JudgeOptions { math, python, .. } = options;
        let mut judges = JudgeSet::default();
        match (task, *math) {
            (Benchmark::Gsm8k | Benchmark::Gsm8kCot, _) => {}
            (Benchmark::Math500, Math::Native) => judges.equivalence = Some(Box::new(NativeMath)),
            (Benchmark::Math500, Math::Sympy) => judges.equivalence = Some(Box::new(SympyMath(Sympy::start(python)?))),
            (Benchmark::Humaneval | Benchmark::Mbpp, _) => {
                judges.execute = Some(caged(options)?);
            }
        }
        Ok(judges)
    }

    /// Starts the judges of a task file.
    pub fn start_own(task: &OwnTask, options: &JudgeOptions) -> Result<JudgeSet, Error> {
        let mut judges = JudgeSet::default();
        match task.checker() {
            Checker::Python(_) => judges.execute = Some(caged(options)?),
            Checker::Command(check) if !options.allow_command => {
                let (task, argv, folder) = (task.name().into(), check.argv.clone(), task.folder().into());
                return Err(Error::CommandNotAllowed { task, argv, folder });
            }
            Checker::Command(check) => judges.external = Some(Box::new(CommandJudge::new(check, task.folder()))),
            _ => {}
        }
        Ok(judges)
    }

    /// As a task is handed them.
    pub fn judges(&self) -> Judges<'_> {
        Judges {
            equivalence: self.equivalence.as_deref(),
            execute: self.execute.as_deref(),
            external: self.external.as_deref(),
        }
    }
}

fn caged(options: &JudgeOptions) -> Result<Box<dyn Execute>, Error> {
    let sandbox = Options { unsafe_exec: options.unsafe_exec, ..Options::default() };
    Ok(Box::new(Caged(Sandbox::new(&options.python, sandbox)?)))
}

/// A command as a person reads it, each word as it is.
fn words(argv: &[String]) -> String {
    let one = |word: &String| word.chars().flat_map(char::escape_debug).collect::<String>();
    argv.iter().map(|word| format!("`{}`", one(word))).collect::<Vec<_>>().join(" ")
}

/// Formulas compared in this program.
struct NativeMath;

impl Equivalence for NativeMath {
    fn name(&self) -> String {
        "native".into()
    }

    fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, String> {
        Ok(cofill_math::is_equiv(given, gold))
    }
}

/// Formulas compared by sympy, in a Python process.
struct SympyMath(Sympy);

impl Equivalence for SympyMath {
    fn name(&self) -> String {
        self.0.versions().into()
    }

    fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, String> {
        self.0.is_equiv(given, gold).map_err(|error| error.to_string())
    }
}

/// Programs run in the sandbox.
struct Caged(Sandbox);

impl Execute for Caged {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn run(&self, program: &str, timeout: Duration) -> Result<Execution, String> {
        let cofill_sandbox::Execution { passed, result } = self.0.run(program, timeout)?;
        Ok(Execution { passed, result })
    }

    fn answer(&self, program: &str, timeout: Duration) -> Result<Option<String>, String> {
        self.0.answer(program, timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_gets_the_judges_it_needs_and_no_others() {
        let judges = |task| JudgeSet::start(task, &JudgeOptions::default()).unwrap();
        let math = judges(Benchmark::Math500);
        let equivalence = math.judges().equivalence.unwrap();
        assert_eq!((equivalence.name().as_str(), equivalence.is_equiv("1", "2/2")), ("native", Ok(true)));
        assert!(math.execute.is_none());
        let none = judges(Benchmark::Gsm8k);
        assert!(none.equivalence.is_none() && none.execute.is_none());
    }
}
