//! The text of a sampler, taken apart without knowing its name.

use super::param::number;
use crate::adas::AttentionDiscount;
use crate::{Error, Result};
use std::fmt::{self, Display};
use std::str::FromStr;

/// How a sampler is written: its name, numbers and options, and its discount.
///
/// Reports use it instead of [`SamplerSpec`](crate::SamplerSpec), because results may name samplers that are registered
/// elsewhere. Nothing is known here of the name, so nothing that was left out can be written out;
/// [`Registry::normalise`](crate::Registry::normalise) does that for the names it knows.
///
/// ```
/// use cofill::SamplerForm;
/// let form: SamplerForm = "peaks:0.5,2@wide+ad".parse()?;
/// assert_eq!((form.name(), form.params(), form.rule().as_str()), ("peaks", &[0.5, 2.0][..], "peaks@wide"));
/// assert_eq!(form.discount().map(|ad| ad.alpha), Some(40.0));
/// assert_eq!(form.to_string(), "peaks:0.5,2@wide+ad:40");
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerForm {
    pub(super) name: String,
    pub(super) params: Vec<f64>,
    pub(super) options: Vec<FormOption>,
    pub(super) discount: Option<AttentionDiscount>,
}

/// One `@word` or `@key=number`.
#[derive(Debug, Clone, PartialEq)]
pub struct FormOption {
    /// The word, or the key.
    pub name: String,
    /// The number, unless the option is a bare word.
    pub value: Option<f64>,
}

impl SamplerForm {
    /// The name alone: `eb` of `eb:10@entropy+ad`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name with its options, which is what stays the same along a curve of parameters: `eb@entropy` of `eb:10@entropy+ad`.
    pub fn rule(&self) -> String {
        SamplerForm { params: Vec::new(), discount: None, ..self.clone() }.to_string()
    }

    /// The numbers after the colon.
    pub fn params(&self) -> &[f64] {
        &self.params
    }

    /// The numbers after the colon as they are written: `0.7,1`. Empty when there are none.
    pub fn params_text(&self) -> String {
        self.params.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
    }

    /// The `@options` of the base, without those of the discount.
    pub fn options(&self) -> &[FormOption] {
        &self.options
    }

    /// The discount behind `+ad`, if there is one.
    pub fn discount(&self) -> Option<AttentionDiscount> {
        self.discount
    }

    /// The same without its discount.
    pub fn base(&self) -> SamplerForm {
        SamplerForm { discount: None, ..self.clone() }
    }
}

impl Display for SamplerForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.params.is_empty() {
            write!(f, ":{}", self.params_text())?;
        }
        self.options.iter().try_for_each(|option| write!(f, "{option}"))?;
        match &self.discount {
            Some(discount) => write!(f, "+{discount}"),
            None => Ok(()),
        }
    }
}

impl Display for FormOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "@{}={value}", self.name),
            None => write!(f, "@{}", self.name),
        }
    }
}

impl FromStr for SamplerForm {
    type Err = Error;

    fn from_str(text: &str) -> Result<SamplerForm> {
        let parts = Parts::of(text);
        let bad =
            |problem: &str, given: &str| Error::BadForm { text: text.into(), problem: format!("{problem} `{given}`") };
        let word = |given: &str| {
            if is_word(given) {
                Ok(given.to_string())
            } else {
                Err(bad("names are small letters, digits, `-` and `_` after a letter, but it has", given))
            }
        };
        let finite = |given: &&str| {
            let value = number(given).filter(|value| value.is_finite());
            value.ok_or_else(|| bad("it has a number that is none:", given))
        };
        let option = |given: &&str| match given.split_once('=') {
            Some((name, value)) => Ok(FormOption { name: word(name)?, value: Some(finite(&value)?) }),
            None => Ok(FormOption { name: word(given)?, value: None }),
        };
        Ok(SamplerForm {
            name: word(parts.name)?,
            params: parts.params.iter().map(finite).collect::<Result<_>>()?,
            options: parts.options.iter().map(option).collect::<Result<_>>()?,
            discount: parts.discount.map(str::parse).transpose()?,
        })
    }
}

/// What a sampler, an option or a flag may be called.
pub(super) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
}

/// A text cut at `+`, `@`, `:` and `,`; the pieces have not been looked at.
pub(super) struct Parts<'a> {
    pub(super) name: &'a str,
    pub(super) params: Vec<&'a str>,
    pub(super) options: Vec<&'a str>,
    /// What stands behind the plus.
    pub(super) discount: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(text: &'a str) -> Parts<'a> {
        let (base, discount) = cut(text, '+');
        let (head, options) = cut(base, '@');
        let (name, params) = cut(head, ':');
        let split = |text: Option<&'a str>, at| text.map(|text| text.split(at).collect()).unwrap_or_default();
        Parts { name, params: split(params, ','), options: split(options, '@'), discount }
    }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

impl serde::Serialize for SamplerForm {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SamplerForm {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SamplerForm, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
