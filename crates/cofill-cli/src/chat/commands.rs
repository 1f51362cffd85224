//! What a line of a chat says: a message, or a command behind a slash.

use super::settings;
use crate::fail::{Done, Fail};
use cofill::did_you_mean;
use std::fmt::Write;

/// A line, understood.
#[derive(Debug, PartialEq)]
pub(crate) enum Said<'a> {
    /// Nothing at all.
    Nothing,
    /// For the model.
    Message(&'a str),
    /// For us.
    Command(Command<'a>),
}

/// A command.
#[derive(Debug, PartialEq)]
pub(crate) enum Command<'a> {
    /// List the commands.
    Help,
    /// Give an option of the command line another value, or say which it has.
    Set {
        /// The option, as the command line writes it.
        flag: &'a str,
        /// The value, if it is to change.
        value: Option<&'a str>,
    },
    /// Draw the canvas or not, or say which.
    Show(Option<&'a str>),
    /// Write a trace.
    Trace(Option<&'a str>),
    /// Change the system message, or say which it is.
    System(Option<&'a str>),
    /// Take the last turn back.
    Undo,
    /// Ask the last question again.
    Again,
    /// Forget every turn.
    Reset,
    /// Ask a question that the model can answer, of a task if one is named.
    Try(Option<&'a str>),
    /// Offer other questions.
    Questions,
    /// End.
    Quit,
}

/// Name, value and meaning; those whose meaning is an option of the command line among the others, in the order of the list that is shown.
const COMMANDS: [(&str, &str, &str); 14] = [
    ("help", "", "this list"),
    ("sampler", "SPEC", "which positions are committed together: /sampler topk:4+ad"),
    ("length", "N|auto", "how long answers may be"),
    ("temperature", "T", "0 writes what is likeliest, more draws at random"),
    ("seed", "N", "the root of all randomness"),
    ("show", "on|off", "watch the canvas being filled"),
    ("trace", "FILE", "write how the last answer came about (see cofill trace)"),
    ("system", "TEXT", "what the model is told before everything else"),
    ("again", "", "ask the last question again"),
    ("undo", "", "take the last turn back"),
    ("reset", "", "forget every turn"),
    ("try", "[TASK]", "ask a question that the model can answer (tiny models)"),
    ("questions", "", "offer three other questions (tiny models)"),
    ("quit", "", "end the chat; so does Ctrl-D"),
];

/// The names of the commands.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name)
}

/// The list of commands.
pub(crate) fn help() -> String {
    let mut text = String::new();
    for (name, value, about) in COMMANDS {
        let form = format!("/{name} {value}");
        let _ = writeln!(text, "  {form:<20}{about}"); // a String never fails
    }
    text + "\
Every option of `cofill chat --help` is a command, too: /block 32, /top-p 0.9;
without a value it says which it has, with `off` it is as if never given.
A line that ends in \\ goes on in the next. // begins a message with a slash."
}

/// Understands a line.
pub(crate) fn parse(line: &str) -> Done<Said<'_>> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(Said::Nothing);
    }
    let Some(command) = line.strip_prefix('/') else { return Ok(Said::Message(line)) };
    if command.starts_with('/') {
        return Ok(Said::Message(command));
    }
    let (name, value) = match command.split_once(char::is_whitespace) {
        Some((name, value)) => (name, Some(value.trim()).filter(|value| !value.is_empty())),
        None => (command, None),
    };
    let bare = |command| match value {
        None => Ok(Said::Command(command)),
        Some(value) => Err(Fail::request(format!("/{name} takes no value, and `{value}` was given; leave it out"))),
    };
    let command = match name {
        "help" | "?" => return bare(Command::Help),
        "undo" => return bare(Command::Undo),
        "again" => return bare(Command::Again),
        "reset" => return bare(Command::Reset),
        "questions" => return bare(Command::Questions),
        "quit" | "exit" | "q" => return bare(Command::Quit),
        "show" => Command::Show(value),
        "trace" => Command::Trace(value),
        "system" => Command::System(value),
        "try" => Command::Try(value),
        flag if settings::names().any(|name| name == flag) => Command::Set { flag, value },
        unknown => {
            let all: Vec<String> = names().map(String::from).chain(settings::names()).collect();
            let meant = did_you_mean(&format!("/{unknown}"), slashed(&all).iter().map(String::as_str));
            return Err(Fail::request(format!(
                "unknown command `/{unknown}`{meant}; /help lists them, and // begins a message with a slash"
            )));
        }
    };
    Ok(Said::Command(command))
}

fn slashed(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("/{name}")).collect()
}

/// Whether a text goes on in the next line: it ends in a backslash that no other one makes a plain one.
pub(crate) fn continues(text: &str) -> bool {
    text.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Lines that went on, joined.
pub(crate) fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n').filter(|line| continues(line)) {
            Some(begun) => {
                joined += &begun[..begun.len() - 1];
                joined.push('\n');
            }
            None => joined += line,
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_a_message() {
        let parsed = |line| parse(line).unwrap();
        assert_eq!(parsed("  "), Said::Nothing);
        assert_eq!(parsed(" hello "), Said::Message("hello"));
        assert_eq!(parsed("//bin is what?"), Said::Message("/bin is what?"));
        assert_eq!(parsed("/quit"), Said::Command(Command::Quit));
        assert_eq!(parsed("/trace  a b.jsonl"), Said::Command(Command::Trace(Some("a b.jsonl"))));
        let set = |flag, value| Said::Command(Command::Set { flag, value });
        assert_eq!(parsed("/sampler topk:2"), set("sampler", Some("topk:2")));
        assert_eq!(parsed("/top-p"), set("top-p", None));
    }

    #[test]
    fn a_command_that_nobody_knows_is_guessed() {
        let refused = |line: &str| match parse(line) {
            Err(Fail::Request(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(refused("/smapler topk:2").starts_with("unknown command `/smapler` (did you mean `/sampler`?)"));
        assert!(refused("/xyzzy").starts_with("unknown command `/xyzzy`; /help lists them"));
        assert_eq!(refused("/undo 2"), "/undo takes no value, and `2` was given; leave it out");
    }

    #[test]
    fn every_command_of_the_list_is_known_and_the_list_fits() {
        for (name, ..) in COMMANDS {
            assert!(matches!(parse(&format!("/{name}")), Ok(Said::Command(_))), "{name}");
        }
        assert!(help().lines().all(|line| line.len() <= 80), "{}", help());
    }

    #[test]
    fn a_backslash_at_the_end_goes_on() {
        assert!(continues("a\\") && !continues("a\\\\") && continues("a\\\\\\") && !continues("a"));
        assert_eq!(joined("a\\\nb\\\nc"), "a\nb\nc");
        assert_eq!(joined("pasted\nlines\\\\\nstay"), "pasted\nlines\\\\\nstay");
    }
}
