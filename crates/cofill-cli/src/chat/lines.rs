//! A chat by a script: a message a line, answers on stdout, and an exit code that says whether all went well.

use super::commands::{continues, joined};
use super::session::Session;
use crate::fail::{Done, Fail};
use std::io::BufRead;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Answers every line of stdin. What is refused or fails is said on stderr, the rest goes on, and the exit code is that of the first failure.
pub(crate) fn talk(mut session: Session) -> Done {
    session.introduce_to_a_script();
    let mut first_failure = None;
    let mut text = String::new();
    let mut lines = std::io::stdin().lock();
    loop {
        let before = text.len();
        let unreadable = |error: std::io::Error| Fail::request(format!("stdin: {error}; give text in UTF-8"));
        let is_over = lines.read_line(&mut text).map_err(unreadable)? == 0;
        if is_over && before == 0 {
            return Ok(first_failure.unwrap_or(ExitCode::SUCCESS));
        }
        text.truncate(text.trim_end_matches(['\n', '\r']).len().max(before));
        if continues(&text) && !is_over {
            text.push('\n');
            continue;
        }
        match session.take(&joined(&std::mem::take(&mut text))) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(first_failure.unwrap_or(ExitCode::SUCCESS)),
            Err(fail) if fail.is_broken_pipe() => return Err(fail),
            Err(fail) => {
                let code = fail.report();
                first_failure.get_or_insert(code);
            }
        }
    }
}
