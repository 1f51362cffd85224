//! What is said when a judge could not judge.

use crate::fail::{Done, Fail, warning_line};
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
