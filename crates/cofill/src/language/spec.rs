//! A sampler with all of its parameters.

pub use super::entry::{Entry, Values};
pub use super::param::Param;

use super::form::{FormOption, SamplerForm};
use super::registry::Registry;
use crate::adas::AttentionDiscount;
use crate::{Error, Policy, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A sampler and its parameters, parsed from and printed as one string.
///
/// `str::parse` and serde know the samplers of this crate; [`Registry::parse`] knows those of its registry.
///
/// ```
/// use cofill::SamplerSpec;
/// let spec: SamplerSpec = "topk:8+ad".parse()?;
/// assert_eq!(spec.to_string(), "topk:8+ad:40", "what was left out is written out");
/// assert!("topk:0".parse::<SamplerSpec>().is_err());
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Clone)]
pub struct SamplerSpec {
    entry: Arc<Entry>,
    values: Values,
    discount: Option<AttentionDiscount>,
}

impl SamplerSpec {
    /// Without a discount. The values are those of the entry.
    pub(super) fn plain(entry: Arc<Entry>, values: Values) -> SamplerSpec {
        SamplerSpec { entry, values, discount: None }
    }

    /// Makes the sampler, ready for one decode.
    pub fn build(&self) -> Result<Policy> {
        self.entry.build(&self.values, self.discount)
    }

    /// What the language knows of it.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Its attention discount, if it has one.
    pub fn discount(&self) -> Option<AttentionDiscount> {
        self.discount
    }

    /// The same sampler with another discount, or none. Fails when it has no ranking to discount.
    pub fn with_discount(&self, discount: Option<AttentionDiscount>) -> Result<SamplerSpec> {
        self.discounted(discount, Registry::stock())
    }

    /// [`with_discount`](Self::with_discount), where a refusal names the samplers of `registry` that take one.
    pub(super) fn discounted(&self, discount: Option<AttentionDiscount>, registry: &Registry) -> Result<SamplerSpec> {
        if let Some(discount) = discount {
            if !self.entry.discountable {
                let (name, accepted) = (self.entry.name.clone(), registry.discountable());
                return Err(Error::NotDiscountable { name, accepted });
            }
            discount.check()?;
        }
        // What can be written can be built, once its strength is known.
        let settled = discount.map(|discount| if discount.auto { discount.with_alpha(0.0) } else { discount });
        SamplerSpec { discount: settled, ..self.clone() }.build()?;
        Ok(SamplerSpec { discount, ..self.clone() })
    }

    /// How it is written, in parts. Options at their defaults are left out.
    pub fn form(&self) -> SamplerForm {
        let Values { params, flags, options } = &self.values;
        let flags = self.entry.flags.iter().zip(flags).filter(|(group, word)| group.first() != Some(word));
        let options = self.entry.options.iter().zip(options).filter(|(option, value)| option.default != Some(**value));
        let words = flags.map(|(_, word)| FormOption { name: word.clone(), value: None });
        let numbers = options.map(|(option, &value)| FormOption { name: option.name.clone(), value: Some(value) });
        SamplerForm {
            name: self.entry.name.clone(),
            params: params.clone(),
            options: words.chain(numbers).collect(),
            discount: self.discount,
        }
    }
}

impl From<&SamplerSpec> for SamplerForm {
    fn from(spec: &SamplerSpec) -> SamplerForm {
        spec.form()
    }
}

impl FromStr for SamplerSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<SamplerSpec> {
        Registry::stock().parse(text)
    }
}

impl fmt::Display for SamplerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.form().fmt(f)
    }
}

impl PartialEq for SamplerSpec {
    fn eq(&self, other: &Self) -> bool {
        let named = |spec: &SamplerSpec| (spec.entry.name.clone(), spec.entry.version.clone());
        (named(self), &self.values, self.discount) == (named(other), &other.values, other.discount)
    }
}

impl fmt::Debug for SamplerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SamplerSpec({self})")
    }
}

impl serde::Serialize for SamplerSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SamplerSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SamplerSpec, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
