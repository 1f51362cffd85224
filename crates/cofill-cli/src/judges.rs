//! Who compares formulas and who runs programs.

use crate::fail::{Done, Fail, warning_line};
use crate::signals;
use cofill_eval::judges::JudgeSet;
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::judge::Math;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

impl JudgeArgs {
    /// Who compares formulas.
    pub(crate) fn math(&self) -> Math {
        match self.math {
            MathArg::Native => Math::Native,
            MathArg::Sympy => Math::Sympy,
        }
    }

    /// The judges that a task needs.
    pub(crate) fn start(&self, task: Benchmark) -> Done<JudgeSet> {
        start(task, self.math(), &self.python, self.unsafe_exec)
    }
}

/// Says that no judge could judge an answer.
pub(crate) fn warn(doc: usize, failure: Option<&str>) {
    if let Some(why) = failure {
        warning_line(&format!("doc_id {doc}: the judge failed, and the answer counts as wrong: {why}"));
    }
}

/// How a run ends in which so many of the answers could not be judged: a score of none but those is none.
pub(crate) fn outcome(unjudged: usize, answers: usize) -> Done {
    let most = format!("{unjudged} of {answers} answers could not be judged");
    match unjudged {
        0 => Ok(ExitCode::SUCCESS),
        all if all == answers => Err(Fail::Run(anyhow::anyhow!("{most}; the score means nothing"))),
        _ => {
            warning_line(&format!("{most} and count as wrong; `cofill score` judges them again, --resume does not"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Starts the judges that a task needs. Those that run programs must end them when a signal ends us.
pub(crate) fn start(task: Benchmark, math: Math, python: &Path, unsafe_exec: bool) -> Done<JudgeSet> {
    if matches!(task, Benchmark::Humaneval | Benchmark::Mbpp) {
        signals::end_programs_first()?;
    }
    JudgeSet::start(task, math, python, unsafe_exec).map_err(|error| Fail::Request(error.into()))
}
