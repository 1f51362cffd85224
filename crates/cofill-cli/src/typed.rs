//! The command that was typed, for messages that tell how to go on and for documents that tell how they were made.

use std::ffi::OsString;
use std::sync::OnceLock;

/// What was typed after the program's name.
static TYPED: OnceLock<Vec<String>> = OnceLock::new();

/// Keeps the arguments.
pub(crate) fn remember(args: &[OsString]) {
    let _ = TYPED.set(args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect());
}

/// The command as a shell reads it.
pub(crate) fn line() -> String {
    shell(words())
}

/// The command that goes on: with `added` at its end and without `dropped`.
pub(crate) fn again(added: &str, dropped: &str) -> String {
    shell(words().filter(|word| *word != dropped && *word != added).chain([added]))
}

/// The command without `dropped`, where the same command goes on by itself.
pub(crate) fn without(dropped: &str) -> String {
    shell(words().filter(|word| *word != dropped))
}

fn words<'a>() -> impl Iterator<Item = &'a str> {
    TYPED.get().into_iter().flatten().map(String::as_str)
}

fn shell<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.fold("cofill".to_owned(), |line, word| line + " " + &quoted(word))
}

/// A word as a shell takes it: in quotes where a letter of it would mean something.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@=%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_that_were_typed() {
        assert_eq!(quoted("eb:3+ad"), "eb:3+ad");
        assert_eq!(quoted("runs/a b"), "'runs/a b'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
