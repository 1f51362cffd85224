//! Texts from files and pipes: what is read when, how much of it, and what is said of bytes that are no text.

use crate::fail::{Done, Fail};
use crate::quiet;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// The most bytes of a text: far more than any model holds, and little enough to have in memory a few times.
pub(crate) const MOST: u64 = 16 << 20;

/// After this, whoever started us is told what we wait for: a pipe may be open by mistake.
const PATIENCE: Duration = Duration::from_secs(2);

/// A prompt from a file, `-` being standard input. It is there to be read, so nothing in it is an error.
pub(crate) fn prompt_file(path: &Path) -> Done<String> {
    let is_stdin = path == Path::new("-");
    let (name, bytes) =
        if is_stdin { (STDIN.into(), waited_for(read_stdin)?) } else { (named(path), read_file(path)?) };
    let prompt = prompt(&name, bytes)?;
    if prompt.is_empty() {
        return Err(Fail::request(format!("{name} is empty; write a prompt into it, or leave it out")));
    }
    Ok(prompt)
}

/// The prompt that was piped into us, if one was. A terminal, `/dev/null` and other devices, a closed standard input and one without a byte
/// are no prompt: that is how tests, cron and CI start programs.
pub(crate) fn piped_prompt() -> Done<Option<String>> {
    if !may_be_piped() {
        return Ok(None);
    }
    let prompt = prompt(STDIN, waited_for(read_stdin)?)?;
    Ok(Some(prompt).filter(|prompt| !prompt.is_empty()))
}

/// A text as it is, byte for byte; `-` is standard input.
pub(crate) fn text_file(path: &Path) -> Done<String> {
    match path == Path::new("-") {
        true => text(STDIN, waited_for(read_stdin)?),
        false => text(&named(path), read_file(path)?),
    }
}

const STDIN: &str = "standard input";

fn named(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// One line break at its end is the shell's or the editor's, and so is the mark some of these put before a text.
fn prompt(name: &str, bytes: Vec<u8>) -> Done<String> {
    let text = text(name, bytes)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    Ok(text.to_owned())
}

fn text(name: &str, bytes: Vec<u8>) -> Done<String> {
    if bytes.len() as u64 > MOST {
        let limit = MOST >> 20;
        return Err(Fail::request(format!(
            "{name} has more than {limit} MiB, the most that is read as text; give less"
        )));
    }
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        return Err(Fail::request(format!("{name} is no text: byte {at} is 0; give a text file in UTF-8")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let byte = bytes.get(at).copied().unwrap_or_default();
        Fail::request(format!("{name} is no UTF-8: byte {at} (0x{byte:02x}) begins no character; convert it to UTF-8"))
    })
}

fn read_file(path: &Path) -> Done<Vec<u8>> {
    let wrong = |error: std::io::Error| Fail::request(format!("cannot read {}: {error}", named(path)));
    let file = std::fs::File::open(path).map_err(wrong)?;
    if file.metadata().map_err(wrong)?.is_dir() {
        return Err(Fail::request(format!("{} is a folder; give the name of a file", named(path))));
    }
    read(file).map_err(wrong)
}

fn read_stdin() -> std::io::Result<Vec<u8>> {
    read(std::io::stdin().lock())
}

/// A byte more than is taken, to know that there was more.
fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads, and says so if that takes long.
fn waited_for(read: fn() -> std::io::Result<Vec<u8>>) -> Done<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(read()));
    let bytes = receive.recv_timeout(PATIENCE).or_else(|_| {
        let end = if std::io::stdin().is_terminal() { "; Ctrl-D ends it" } else { "" };
        quiet::note(&format!("waiting for standard input{end}"));
        receive.recv()
    });
    let bytes = bytes.unwrap_or_else(|_| Err(std::io::Error::other("the reader is gone")));
    bytes.map_err(|error| Fail::request(format!("cannot read {STDIN}: {error}")))
}

/// Whether standard input is something that people pipe into programs: a pipe, a socket or a file.
#[cfg(unix)]
fn may_be_piped() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|stdin| stdin.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket() || kind.is_file())
}

#[cfg(not(unix))]
fn may_be_piped() -> bool {
    !std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8]) -> String {
        match text("x", bytes.to_vec()) {
            Ok(text) => text,
            Err(fail) => format!("{fail:?}"),
        }
    }

    #[test]
    fn one_line_break_at_the_end_is_not_the_prompts() {
        for (given, kept) in [
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\n\n", "a\n"),
            ("a", "a"),
            ("a\r", "a\r"),
            ("\n", ""),
            ("\u{feff}a\n", "a"),
        ] {
            assert_eq!(prompt("x", given.into()).unwrap(), kept, "{given:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named() {
        assert!(said(b"ab\xffcd").contains("byte 2 (0xff)"));
        assert!(said("é".as_bytes().split_last().unwrap().1).contains("byte 0 (0xc3)"), "half a character");
        assert!(said(b"a\0b").contains("byte 1 is 0"));
        assert_eq!(said(b"a\r\nb"), "a\r\nb");
    }

    #[test]
    fn what_is_too_long_is_refused_and_not_cut() {
        let bytes = read(std::io::repeat(b'a')).unwrap();
        assert!(said(&bytes).contains("more than 16 MiB"));
        assert_eq!(said(&bytes[1..]).len() as u64, MOST);
    }
}
