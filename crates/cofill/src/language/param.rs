//! The numbers a sampler can be given: what is accepted, and in which words a number is refused.

use crate::{Error, Result};

/// A number with its name, range and default.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Its name: in capitals for the numbers after the colon, in small letters for `@name=number`.
    pub name: String,
    kind: Kind,
    min: f64,
    /// Whether `min` itself is refused.
    open: bool,
    max: f64,
    /// What holds when it is left out; `None` when it must be given.
    pub default: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Count,
}

impl Param {
    /// A finite number from `min` to `max`, ends included.
    pub fn number(name: impl Into<String>, min: f64, max: f64) -> Param {
        Param { name: name.into(), kind: Kind::Number, min, open: false, max, default: None }
    }

    /// A number above 0, up to `max`.
    pub fn positive(name: impl Into<String>, max: f64) -> Param {
        Param { open: true, ..Param::number(name, 0.0, max) }
    }

    /// A whole number from `min` to `max`, ends included.
    pub fn count(name: impl Into<String>, min: u64, max: u64) -> Param {
        Param { kind: Kind::Count, ..Param::number(name, min as f64, max as f64) }
    }

    /// Lets the number be left out; `value` then holds.
    pub fn default(mut self, value: f64) -> Param {
        self.default = Some(value);
        self
    }

    /// The range, in words.
    pub fn range(&self) -> String {
        let kind = self.kind();
        match self.max.is_finite() {
            true if self.open => format!("{kind} above {}, at most {}", self.min, self.max),
            true => format!("{kind} from {} to {}", self.min, self.max),
            false => format!("{kind}, {} or more", self.min),
        }
    }

    /// A value to show the sampler with: the default, or the accepted number nearest to 1.
    pub(super) fn example(&self) -> f64 {
        self.default.unwrap_or(1f64.min(self.max).max(self.min))
    }

    /// Reads a number; `form` is how the whole sampler is written, for the error message.
    pub(super) fn parse(&self, text: &str, form: &str) -> Result<f64> {
        let whole = text.strip_prefix('-').unwrap_or(text).chars().all(|c| c.is_ascii_digit());
        let value = number(text).filter(|_| whole || self.kind == Kind::Number);
        let value = value.ok_or_else(|| {
            let what = format!("{} for {}", self.kind(), self.name);
            Error::NotANumber { text: text.into(), what, form: form.into() }
        })?;
        self.check(value, text, form)?;
        Ok(value)
    }

    /// Refuses a number outside the range; `given` is how it was written.
    pub(super) fn check(&self, value: f64, given: &str, form: &str) -> Result<()> {
        let above = if self.open { value > self.min } else { value >= self.min };
        let whole = self.kind == Kind::Number || value.fract() == 0.0;
        if value.is_finite() && above && value <= self.max && whole {
            return Ok(());
        }
        let (what, given, form) = (self.name.clone(), given.into(), form.into());
        Err(Error::OutOfRange { what, limit: self.range(), given, form })
    }

    fn kind(&self) -> &'static str {
        if self.kind == Kind::Count { "a whole number" } else { "a number" }
    }
}

/// A number as the language writes it. Rust's own parser also takes "nan", "inf" and "+1"; the language does not.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e' | 'E');
    let value: f64 = text.chars().all(plain).then(|| text.parse().ok())??;
    Some(value + 0.0) // −0 is 0
}
