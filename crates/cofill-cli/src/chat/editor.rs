//! A chat at a terminal: lines that can be edited, brought back and completed.

use super::commands::{self, continues, joined};
use super::history::{self, LONGEST, MOST_LINES};
use super::session::Session;
use super::settings;
use crate::fail::{Done, Fail, warning_line};
use crate::show::live;
use crate::signals::Interrupt;
use cofill::Registry;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, ColorMode, Config, Context, Editor, Helper};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

const PROMPT: &str = "> ";

/// Talks until the user has enough.
pub(crate) fn talk(mut session: Session, keeps_history: bool) -> Done {
    session.listen(Interrupt::listen()?);
    session.introduce();
    let mut editor = open().map_err(broken)?;
    let mut history = keeps_history.then(history::place).flatten();
    if let Some(path) = &history {
        // None yet, or none that can be read: then there is nothing to bring back. Appending never shortens a file, so a full one is cut here.
        if editor.load_history(path).is_ok() && editor.history().len() >= MOST_LINES {
            let _ = editor.save_history(path);
        }
    }
    loop {
        match editor.readline(PROMPT) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                keep(&mut editor, &mut history, &line);
                match session.take(&joined(&line)) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(ExitCode::SUCCESS),
                    Err(fail) if fail.is_broken_pipe() => return Err(fail),
                    Err(fail) => {
                        let _ = fail.report(); // the conversation goes on
                    }
                }
            }
            Err(ReadlineError::Interrupted) => session.say("/quit or Ctrl-D ends the chat"),
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(broken(error)),
        }
    }
}

fn open() -> rustyline::Result<Editor<Typing, DefaultHistory>> {
    let colour = if live() { ColorMode::Enabled } else { ColorMode::Disabled };
    let config = Config::builder()
        .max_history_size(MOST_LINES)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        // Where stdout is a file, the prompt still belongs to the terminal.
        .behavior(Behavior::PreferTerm)
        .color_mode(colour)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Typing));
    Ok(editor)
}

/// Keeps a line, here and in the file. A file that cannot be written is said once and then left alone.
fn keep(editor: &mut Editor<Typing, DefaultHistory>, history: &mut Option<PathBuf>, line: &str) {
    if line.len() > LONGEST {
        return;
    }
    let _ = editor.add_history_entry(line); // only files can fail
    let Some(path) = history else { return };
    let kept = history::make_folder(path).map_err(ReadlineError::from).and_then(|()| editor.append_history(path));
    if let Err(error) = kept {
        let place = path.display();
        warning_line(&format!("cannot keep what is typed in `{place}`: {error}; --no-history does not try"));
        *history = None;
    }
}

fn broken(error: ReadlineError) -> Fail {
    Fail::Run(anyhow::Error::new(error)).about("the terminal")
}

/// What the editor knows about what is typed.
struct Typing;

impl Helper for Typing {}
impl Highlighter for Typing {}
impl Hinter for Typing {
    type Hint = String;
}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if continues(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for Typing {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(line.get(..at).unwrap_or_default()))
    }
}

/// Names of commands, and of samplers behind `/sampler`: where the name begins, and what it may be.
fn complete(typed: &str) -> (usize, Vec<String>) {
    let beginning =
        |begun: &str, names: Vec<String>| names.into_iter().filter(|name| name.starts_with(begun)).collect();
    match typed.strip_prefix('/').map(|rest| rest.split_once(' ')) {
        Some(None) => {
            // Some settings have a line in the list of commands, too.
            let names: BTreeSet<String> = commands::names().map(String::from).chain(settings::names()).collect();
            (1, beginning(&typed[1..], names.into_iter().collect()))
        }
        Some(Some(("sampler", begun))) => {
            let names = Registry::stock().entries().iter().map(|entry| entry.name.to_string()).collect();
            (typed.len() - begun.len(), beginning(begun, names))
        }
        Some(Some(("show", begun))) => (typed.len() - begun.len(), beginning(begun, vec!["on".into(), "off".into()])),
        _ => (typed.len(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_where_they_stand() {
        let texts = |typed: &str| complete(typed).1;
        assert_eq!(complete("/sam"), (1, vec!["sampler".to_string()]));
        assert_eq!(texts("/show o"), ["on", "off"]);
        assert_eq!(complete("/sampler kla"), (9, vec!["klass".to_string()]));
        assert!(texts("/te").contains(&"temperature".to_string()));
        assert!(texts("hello /sam").is_empty() && texts("/nobody x").is_empty());
    }
}
