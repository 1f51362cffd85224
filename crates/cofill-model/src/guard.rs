//! Between strangers' files and everybody else: a panic becomes a message, and a name becomes text that is safe to print.

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The stack of [`on_large_stack`]; pages that are never used are never there.
const STACK: usize = 16 << 20;

/// What `run` gives, or the words of its panic. Nothing that `run` changes may be used after a panic.
///
/// Checks come first, and are meant to leave nothing to catch. This is for what they overlook: a server or a Python process that
/// uses this library must not end because of a file.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| words(&*panic))
}

/// As [`guarded`], on a stack that is large whoever calls: threads of servers have small stacks, and what is read may nest deeply.
pub(crate) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        let thread = thread.map_err(|error| format!("no thread can be started to read it: {error}"))?;
        thread.join().map_err(|panic| words(&*panic))
    })
}

fn words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a fault in reading it: {}", words.unwrap_or("no reason is known"))
}

/// A text from a file as one line that a terminal only shows: control characters, and those that change the direction of what
/// follows, become escapes like `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let escape = |out: &mut String, c: char| if harmful(c) { out.extend(c.escape_default()) } else { out.push(c) };
    Cow::Owned(text.chars().fold(String::with_capacity(text.len() + 16), |mut out, c| {
        escape(&mut out, c);
        out
    }))
}

/// The same, at a length that people read.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 80;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", printable(&text[..end])),
        None => printable(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_escaped() {
        assert_eq!(printable("wte.weight é 漢"), "wte.weight é 漢");
        assert_eq!(printable("a\u{1b}[2Jb\n\u{9b}c\u{202e}d\u{7f}"), "a\\u{1b}[2Jb\\n\\u{9b}c\\u{202e}d\\u{7f}");
        assert_eq!(shown(&"x".repeat(100)), "x".repeat(80) + "...");
    }

    #[test]
    fn a_panic_is_a_message() {
        assert_eq!(guarded(|| 7), Ok(7));
        let message = guarded(|| -> u8 { panic!("an invariant") }).unwrap_err();
        assert!(message.contains("an invariant"), "{message}");
        assert_eq!(on_large_stack(|| 7), Ok(7));
        let message = on_large_stack(|| -> u8 { panic!("another") }).unwrap_err();
        assert!(message.contains("another"), "{message}");
    }
}
