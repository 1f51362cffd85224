//! Arguments to commands, and what is said of arguments that are none.
//!
//! The parser is clap's. Its messages stay where they say field, limit, given value and remedy; where they do not, it is said here, for
//! every command at once: numbers outside a range, a prompt without quotes, a question in the place of a command.

use crate::Cli;
use crate::fail::error_line;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory, FromArgMatches};
use std::any::TypeId;
use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::net::AddrParseError;
use std::num::{IntErrorKind, NonZeroU32, NonZeroU64, NonZeroUsize, ParseFloatError, ParseIntError};
use std::process::ExitCode;
use std::str::FromStr;

/// The command and all of its parts, as it is parsed, completed and documented.
pub(crate) fn command() -> Command {
    negatives(Cli::command())
}

/// `-n -5` is a number out of range and not an unknown option `-5`: whatever takes a value takes negative numbers, and refuses them itself.
fn negatives(command: Command) -> Command {
    let allow = |arg: clap::Arg| match arg.get_action() {
        ArgAction::Set | ArgAction::Append if !arg.is_positional() => arg.allow_negative_numbers(true),
        _ => arg,
    };
    command.mut_args(allow).mut_subcommands(negatives)
}

/// Reads the arguments, of which the first is what the program was called. `Err` once everything has been said: help, or what is wrong.
pub(crate) fn parse(args: &[OsString]) -> Result<Cli, ExitCode> {
    crate::everywhere::colour_first(args);
    let mut command = command();
    let parsed = command.try_get_matches_from_mut(args).and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| {
        let words: Vec<String> = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
        let error = match attached(&command, &words, &error) {
            Some(other) => other,
            None => error,
        };
        report(&command, &words, &error.format(&mut command.clone()))
    })
}

/// A whole number of any size that is not 0, for flags whose type would allow it.
pub(crate) fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse().ok().filter(|n| *n >= T::from(1)).ok_or_else(|| "expected a whole number, 1 or more".into())
}

fn report(command: &Command, words: &[String], error: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    let asked = asked(command, words);
    let said = match error.kind() {
        ErrorKind::ValueValidation => value(asked, error),
        ErrorKind::UnknownArgument => unquoted(command, asked, words, error),
        ErrorKind::InvalidSubcommand => no_command(command, asked, words, error),
        _ => None,
    };
    // Nobody is left to tell when a stream is gone.
    let _ = match said {
        Some(said) => {
            error_line(&said);
            let name = asked.get_bin_name().unwrap_or("cofill");
            writeln!(anstream::stderr(), "\nFor more information, try '{name} --help'.")
        }
        None if error.use_stderr() => write!(anstream::stderr(), "{}", error.render().ansi()),
        None => write!(anstream::stdout(), "{}", error.render().ansi()),
    };
    code
}

/// The command that the words ask for: `sweep run` of `sweep run recipe.toml`.
fn asked<'a>(command: &'a Command, words: &[String]) -> &'a Command {
    words.iter().fold(command, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// A value that is none; of a number, its range.
fn value(asked: &Command, error: &clap::Error) -> Option<String> {
    let (name, given) = (context(error, ContextKind::InvalidArg)?, context(error, ContextKind::InvalidValue)?);
    let arg = asked.get_arguments().find(|arg| arg.to_string() == name)?;
    let (kind, source) = (arg.get_value_parser().type_id(), error.source()?);
    let nonzero = [TypeId::of::<NonZeroUsize>(), TypeId::of::<NonZeroU64>(), TypeId::of::<NonZeroU32>()];
    let expected = if let Some(problem) = source.downcast_ref::<ParseIntError>() {
        let least = if nonzero.iter().any(|id| kind == *id) { "1" } else { "0" };
        match problem.kind() {
            IntErrorKind::PosOverflow => format!("a whole number, {least} to {}", u64::MAX),
            _ => format!("a whole number, {least} or more"),
        }
    } else if source.downcast_ref::<ParseFloatError>().is_some() {
        "a number, such as 0.5".into()
    } else if source.downcast_ref::<AddrParseError>().is_some() {
        "an address in numbers and a port, such as 127.0.0.1:8080".into()
    } else if let Some(range) = range(&source.to_string(), given) {
        range
    } else {
        // A type of ours says by itself what it expects.
        return Some(format!("invalid value '{given}' for '{name}': {source}"));
    };
    Some(format!("invalid value '{given}' for '{name}': expected {expected}"))
}

/// `-1 is not in 1..=256` in the words that the other messages have.
fn range(problem: &str, given: &str) -> Option<String> {
    let (_, bounds) = problem.split_once(" is not in ")?;
    let (least, most) = bounds.split_once("..=")?;
    let most: u64 = most.parse().ok()?;
    // The limit of a type is worth naming only to whom it stops.
    let of_type = [u16::MAX.into(), u32::MAX.into(), i64::MAX.cast_unsigned(), u64::MAX].contains(&most);
    match of_type && given.parse().is_ok_and(|given: i128| given <= most.into()) {
        true => Some(format!("a whole number, {least} or more")),
        false => Some(format!("a whole number, {least} to {most}")),
    }
}

/// `--steps -1,2` and `--shard -1/4` look like unknown options to the parser. As `--steps=-1,2` they are values, and get their message.
fn attached(command: &Command, words: &[String], error: &clap::Error) -> Option<clap::Error> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let at = (1..words.len()).find(|&i| {
        let mut letters = words[i].chars();
        letters.next() == Some('-') && letters.next().is_some_and(|c| c.is_ascii_digit() || c == '.')
    })?;
    takes_value(asked(command, words), &words[at - 1]).filter(|takes| *takes)?;
    let mut joined: Vec<&str> = vec!["cofill"];
    joined.extend(words[..at - 1].iter().map(String::as_str));
    let one = format!("{}={}", words[at - 1], words[at]);
    joined.push(&one);
    joined.extend(words[at + 1..].iter().map(String::as_str));
    command.clone().try_get_matches_from(joined).err()
}

/// Whether an option is followed by its value; `None` for what is no option of the command, or has its value attached.
fn takes_value(asked: &Command, word: &str) -> Option<bool> {
    let arg = match word.strip_prefix("--") {
        Some(long) => asked.get_arguments().find(|arg| arg.get_long() == Some(long))?,
        None => {
            let mut letters = word.strip_prefix('-')?.chars();
            let (short, rest) = (letters.next()?, letters.next());
            asked.get_arguments().find(|arg| rest.is_none() && arg.get_short() == Some(short))?
        }
    };
    Some(matches!(arg.get_action(), ArgAction::Set | ArgAction::Append))
}

/// What is neither the name of a command, nor an option, nor its value.
fn plain_words<'a>(command: &Command, words: &'a [String]) -> Vec<&'a str> {
    let mut asked = command;
    let (mut plain, mut skip) = (Vec::new(), false);
    for word in words {
        if std::mem::take(&mut skip) {
            continue;
        }
        if let Some(inner) = asked.find_subcommand(word) {
            asked = inner;
        } else if word.len() > 1 && word.starts_with('-') {
            skip = takes_value(asked, word).unwrap_or(false);
        } else if !word.is_empty() {
            plain.push(word.as_str());
        }
    }
    plain
}

/// `cofill generate hi there`: two words where one prompt is expected.
fn unquoted(command: &Command, asked: &Command, words: &[String], error: &clap::Error) -> Option<String> {
    let extra = context(error, ContextKind::InvalidArg).filter(|extra| !extra.starts_with('-'))?;
    asked.get_positionals().find(|arg| arg.get_id() == "prompt")?;
    let (name, prompt) = (asked.get_bin_name()?, quoted(&plain_words(command, words).join(" ")));
    Some(format!("one prompt is expected, but `{extra}` follows it; quote it: {name} {prompt}"))
}

/// `cofill sweep rnu`: a slip; and `cofill "What is 2+2?"`: a question where a command is expected.
fn no_command(command: &Command, asked: &Command, words: &[String], error: &clap::Error) -> Option<String> {
    let given = context(error, ContextKind::InvalidSubcommand)?;
    let names: Vec<&str> = asked.get_subcommands().map(Command::get_name).collect();
    let meant = cofill::did_you_mean(given, names.iter().copied());
    if asked.get_name() != command.get_name() {
        let (name, names) = (asked.get_bin_name()?, names.join(", "));
        return Some(format!("`{name}` has no command `{given}`{meant}; expected one of {names}"));
    }
    match meant.as_str() {
        "" => {
            let question = quoted(&plain_words(command, words).join(" "));
            Some(format!("there is no command `{given}`; to ask a model: cofill generate {question}"))
        }
        meant => Some(format!("there is no command `{given}`{meant}; `cofill --help` lists them")),
    }
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    match text.contains(['"', '$', '`', '\\', '!']) {
        true => format!("'{}'", text.replace('\'', r"'\''")),
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command there is, with its name.
    fn all(command: &Command) -> Vec<Command> {
        let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help").flat_map(all);
        std::iter::once(command.clone()).chain(inner).collect()
    }

    fn built() -> Command {
        let mut command = command().term_width(80);
        command.build();
        command
    }

    #[test]
    fn help_fits_80_columns() {
        let commands = all(&built());
        assert!(commands.len() > 30, "all of them, those below others as well");
        for command in commands {
            let mut command = command.term_width(80);
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    let width = line.chars().count();
                    assert!(width <= 80, "{:?}, {width} columns: {line}", command.get_bin_name());
                }
            }
        }
    }

    /// Whatever takes a number says which: no command leaves `-1` to the parser, which would call it an unknown option, nor says only that
    /// a digit is invalid.
    #[test]
    fn every_numeric_option_of_every_command_answers_a_negative_number_with_a_range() {
        let root = built();
        let numeric: Vec<TypeId> = vec![
            TypeId::of::<usize>(),
            TypeId::of::<u64>(),
            TypeId::of::<u32>(),
            TypeId::of::<u16>(),
            TypeId::of::<NonZeroUsize>(),
        ];
        let mut n = 0;
        for command in all(&root) {
            for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
                let kind = arg.get_value_parser().type_id();
                if !numeric.iter().any(|id| kind == *id) {
                    continue;
                }
                let flag = match arg.get_long() {
                    Some(long) => format!("--{long}"),
                    None => format!("-{}", arg.get_short().unwrap()),
                };
                let name = command.get_bin_name().unwrap_or("cofill");
                let words: Vec<String> =
                    name.split(' ').skip(1).chain([flag.as_str(), "-1"]).map(String::from).collect();
                let mut parsed = root.clone();
                let args = std::iter::once("cofill").chain(words.iter().map(String::as_str));
                let error = parsed.try_get_matches_from_mut(args).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ValueValidation, "{name} {flag} -1: {error}");
                let said = value(asked(&root, &words), &error).unwrap();
                assert!(said.contains("'-1'") && said.contains(&flag), "{said}");
                assert!(said.contains("expected a whole number, "), "{name} {flag} -1: {said}");
                n += 1;
            }
        }
        assert!(n > 50, "{n} numeric options");
    }

    #[test]
    fn ranges_in_words() {
        assert_eq!(range("0 is not in 1..=256", "0").as_deref(), Some("a whole number, 1 to 256"));
        assert_eq!(range("0 is not in 1..=4294967295", "0").as_deref(), Some("a whole number, 1 or more"));
        assert_eq!(range("1 is not in 2..=4294967295", "1").as_deref(), Some("a whole number, 2 or more"));
        let huge = range("5000000000 is not in 1..=4294967295", "5000000000");
        assert_eq!(huge.as_deref(), Some("a whole number, 1 to 4294967295"));
        assert_eq!(range("not a range at all", "x"), None);
    }

    #[test]
    fn texts_are_quoted_for_a_shell() {
        assert_eq!(quoted("hi there"), "\"hi there\"");
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("costs $5, isn't it"), r"'costs $5, isn'\''t it'");
    }
}
