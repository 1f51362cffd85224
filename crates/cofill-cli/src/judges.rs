//! What is said when a judge cannot start, or could not judge.

use crate::fail::{Done, Fail, warning_line};
use cofill_eval::judges::Error;
use std::process::ExitCode;

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

/// A judge that cannot start is the request's fault; the message ends with the flag that helps.
impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Request(match flag(&error) {
            Some(flag) => anyhow::anyhow!("{error}{flag}"),
            None => error.into(),
        })
    }
}

/// What can be done on the command line where a judge does not start: the end of its message.
fn flag(error: &Error) -> Option<&'static str> {
    use cofill_math::SympyError;
    use cofill_sandbox::Error as Sandbox;
    Some(match error {
        Error::Sandbox(Sandbox::Python { .. }) => ": name one with --python",
        Error::Sandbox(Sandbox::TooFewLayers { .. }) => ", or --unsafe-exec runs it anyway",
        Error::Sandbox(Sandbox::Leaks { .. }) => "; --unsafe-exec runs it anyway",
        Error::Sandbox(Sandbox::Start { .. }) => ": name it with --python, or --unsafe-exec runs without this check",
        Error::Sympy(SympyError::Spawn { .. } | SympyError::Broken { .. }) => {
            "; name another Python with --python, or leave out --math sympy"
        }
        Error::CommandNotAllowed { .. } => "; read it, and add --allow-command to run it",
        Error::Sympy(SympyError::Missing { .. }) => ", or name another Python with --python",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill_eval::judges::JudgeSet;
    use cofill_eval::spec::JudgeOptions;
    use cofill_tasks::benchmarks::Benchmark;
    use cofill_tasks::judge::Math;

    /// What a user sees when `python` cannot be used.
    fn message(task: Benchmark, math: Math, python: &str) -> String {
        let options = JudgeOptions { math, python: python.into(), ..JudgeOptions::default() };
        match JudgeSet::start(task, &options).map_err(Fail::from) {
            Err(Fail::Request(error)) => error.to_string(),
            _ => panic!("{python} is no Python"),
        }
    }

    #[test]
    fn a_judge_that_does_not_start_names_the_flag_that_helps() {
        let sympy = message(Benchmark::Math500, Math::Sympy, "/nowhere/python");
        assert!(sympy.contains("`/nowhere/python` to judge with sympy") && sympy.contains("--python"), "{sympy}");
        let broken = message(Benchmark::Math500, Math::Sympy, "/bin/true");
        assert!(broken.contains("out of order") && broken.contains("--python"), "{broken}");
        let sandbox = message(Benchmark::Mbpp, Math::Native, "/nowhere/python");
        assert!(sandbox.ends_with("a Python of 3.8 or newer is needed: name one with --python"), "{sandbox}");
        let missing = "files of the user are within reach (Landlock: not supported)".into();
        let too_few = Error::from(cofill_sandbox::Error::TooFewLayers { missing });
        let text = format!("{too_few}{}", flag(&too_few).unwrap());
        assert!(text.ends_with("either namespaces or Landlock are allowed, or --unsafe-exec runs it anyway"), "{text}");
    }
}
