//! Who compares formulas and who runs programs.

use crate::fail::{Done, Fail};
use cofill_eval::judge::{Equivalence, Execute, Judges, Math};
use cofill_eval::math::{Native, Sympy};
use cofill_eval::sandbox::{Options, Sandbox};
use cofill_eval::tasks::bench::Bench;
use std::path::{Path, PathBuf};

/// How answers are judged that are more than texts.
#[derive(clap::Args)]
pub(crate) struct JudgeArgs {
    /// Of math500: native compares formulas in this program, sympy in a Python process, as the harness does.
    #[arg(long, value_enum, default_value_t = MathArg::Native)]
    math: MathArg,
    /// The Python that runs generated code (and sympy).
    #[arg(long, value_name = "FILE", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// Run generated code even where this machine offers too little to hold it. It can then do what you can.
    #[arg(long)]
    pub(crate) unsafe_exec: bool,
}

/// [`Math`], as clap likes it.
#[derive(Clone, Copy, clap::ValueEnum)]
enum MathArg {
    Native,
    Sympy,
}

/// The judges of a task.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) equivalence: Option<Box<dyn Equivalence>>,
    pub(crate) execute: Option<Box<dyn Execute>>,
}

impl Made {
    /// As a task is handed them.
    pub(crate) fn judges(&self) -> Judges<'_> {
        Judges { equivalence: self.equivalence.as_deref(), execute: self.execute.as_deref() }
    }
}

impl JudgeArgs {
    /// Who compares formulas.
    pub(crate) fn math(&self) -> Math {
        match self.math {
            MathArg::Native => Math::Native,
            MathArg::Sympy => Math::Sympy,
        }
    }

    /// The judges that a task needs.
    pub(crate) fn make(&self, task: Bench) -> Done<Made> {
        make(task, self.math(), &self.python, self.unsafe_exec)
    }
}

/// The judges that a task needs. The one place where they are made.
pub(crate) fn make(task: Bench, math: Math, python: &Path, unsafe_exec: bool) -> Done<Made> {
    let mut made = Made::default();
    match (task, math) {
        (Bench::Gsm8k | Bench::Gsm8kCot, _) => {}
        (Bench::Math500, Math::Native) => made.equivalence = Some(Box::new(Native)),
        (Bench::Math500, Math::Sympy) => {
            let sympy = Sympy::start(python).map_err(|error| Fail::Request(error.into()))?;
            made.equivalence = Some(Box::new(sympy));
        }
        (Bench::Humaneval | Bench::Mbpp, _) => {
            let options = Options { unsafe_exec, ..Options::default() };
            let sandbox = Sandbox::new(python, options).map_err(|error| Fail::Request(error.into()))?;
            made.execute = Some(Box::new(sandbox));
        }
    }
    Ok(made)
}
