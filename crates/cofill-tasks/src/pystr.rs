//! What Python's `str` does where Rust's differs. The harness is written in Python, and a space more or less changes a score.

use regex::Regex;
use std::sync::LazyLock;

/// `text.strip()`. Python also counts the four separators U+001C to U+001F as whitespace; Unicode's property does not.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

/// `text.isdigit()`: every character is a decimal digit of some script, or a digit that is part of no number system, such as
/// superscripts and circled digits; and there is one.
pub(crate) fn is_digit(text: &str) -> bool {
    static DIGITS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"^[\p{Nd}²³¹\u{1369}-\u{1371}\u{19da}⁰⁴-⁹₀-₉①-⑨⑴-⑼⒈-⒐⓪⓵-⓽⓿❶-❾➀-➈➊-➒",
            r"\u{10a40}-\u{10a43}\u{10e60}-\u{10e68}\u{11052}-\u{1105a}\u{1f100}-\u{1f10a}]+\z"
        ))
    });
    DIGITS.is_match(text)
}

/// A pattern of our own. Rust's `.` stops at `\n` only and alternatives are tried in order, both as in Python.
pub(crate) fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are constants, and every one of them is used in a test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripping_takes_pythons_whitespace() {
        assert_eq!(strip(" \u{1c}\u{1f}\u{85}\u{a0}\u{3000}a b\t\r\n\u{b}\u{2028}"), "a b");
        // Zero-width space and byte order mark are no whitespace to either.
        assert_eq!(strip("\u{200b}a\u{feff}"), "\u{200b}a\u{feff}");
    }

    #[test]
    fn digits_are_those_of_python() {
        for digits in ["0", "123", "１２", "٣", "2²", "①", "🄀"] {
            assert!(is_digit(digits), "{digits}");
        }
        for others in ["", "-1", "1.0", "½", "Ⅷ", "一", "1\n", "1 "] {
            assert!(!is_digit(others), "{others}");
        }
    }
}
