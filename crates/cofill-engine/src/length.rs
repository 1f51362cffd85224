//! How long an answer may become: so many positions, or as many as it takes.

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Positions behind a prompt. Written `64` or `auto`, and in JSON, TOML and Python `64` or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// So many.
    Fixed(usize),
    /// Blocks, one after the other, until the text ends.
    Auto,
}

impl Length {
    /// What may be written.
    const EXPECTED: &'static str = "a whole number, 0 or more, or `auto`";

    /// The number, if it is one.
    pub fn fixed(self) -> Option<usize> {
        match self {
            Length::Fixed(n) => Some(n),
            Length::Auto => None,
        }
    }
}

impl From<usize> for Length {
    fn from(n: usize) -> Length {
        Length::Fixed(n)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Fixed(n) => n.fmt(f),
            Length::Auto => "auto".fmt(f),
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        match text {
            "auto" => Ok(Length::Auto),
            n => n.parse().map(Length::Fixed).map_err(|_| format!("expected {}", Length::EXPECTED)),
        }
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Length::Fixed(n) => n.serialize(serializer),
            Length::Auto => "auto".serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Length::EXPECTED)
    }

    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Length, E> {
        let wrong = |_| E::invalid_value(Unexpected::Unsigned(n), &self);
        usize::try_from(n).map(Length::Fixed).map_err(wrong)
    }

    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<Length, E> {
        let wrong = |_| E::invalid_value(Unexpected::Signed(n), &self);
        usize::try_from(n).map(Length::Fixed).map_err(wrong)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Length, E> {
        match text {
            "auto" => Ok(Length::Auto),
            text => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_written_as_a_number_or_auto() {
        for (length, text, json) in [(Length::Fixed(64), "64", "64"), (Length::Auto, "auto", r#""auto""#)] {
            assert_eq!((text.parse(), length.to_string().as_str()), (Ok(length), text));
            assert_eq!(serde_json::to_string(&length).unwrap(), json);
            assert_eq!(serde_json::from_str::<Length>(json).unwrap(), length);
        }
        assert_eq!(serde_json::from_str::<Option<Length>>("null").unwrap(), None);
    }

    #[test]
    fn whatever_else_is_written_is_told_what_may_be() {
        for text in ["-1", "", "Auto", "6.5", "99999999999999999999999"] {
            assert_eq!(text.parse::<Length>().unwrap_err(), "expected a whole number, 0 or more, or `auto`");
        }
        for json in ["-1", "6.5", r#""64""#, "true", "[]"] {
            let said = serde_json::from_str::<Length>(json).unwrap_err().to_string();
            assert!(said.contains("expected a whole number, 0 or more, or `auto`"), "{said}");
        }
    }
}
