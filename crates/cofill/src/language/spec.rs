//! One text form for every sampler: `eb:10+ad:40` names the same thing on the command line, in recipes, results and plots.
//!
//! ```text
//! name [":" number {"," number}] {"@" option} ["+ad" [":" alpha] {"@" option}]
//! ```
//!
//! A sampler's file holds its [`Entry`]: name, parameters, options, source and how to build it. Parsing, printing, the error
//! messages and the table of `cofill samplers` all read the entries; `samplers.rs` lists them.

use crate::adas::{AttentionDiscount, Weight};
use crate::samplers::REGISTRY;
use crate::{Error, Layers, Policy, Result};
use std::fmt::{self, Display};
use std::str::FromStr;

/// A sampler and its parameters, parsed from and printed as one string.
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
    entry: &'static Entry,
    values: Values,
    discount: Option<AttentionDiscount>,
}

/// What the sampler language knows of one sampler.
pub struct Entry {
    /// The name in the sampler language.
    pub name: &'static str,
    /// A few words on what it does.
    pub about: &'static str,
    /// Numbers after the colon, in order.
    pub params: &'static [Param],
    /// Groups of bare `@words` of which one holds; the first of each group is the default.
    pub flags: &'static [&'static [&'static str]],
    /// `@key=number` options.
    pub options: &'static [Param],
    /// Whether it has a ranking that `+ad` can discount.
    pub discountable: bool,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes the sampler.
    pub build: fn(&Values, Option<AttentionDiscount>) -> Result<Policy>,
}

/// A number with its name, range and default.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name: capitals for parameters, as in the form.
    pub name: &'static str,
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
    pub const fn number(name: &'static str, min: f64, max: f64) -> Param {
        Param { name, kind: Kind::Number, min, open: false, max, default: None }
    }

    /// A number above 0, up to `max`.
    pub const fn positive(name: &'static str, max: f64) -> Param {
        Param { open: true, ..Param::number(name, 0.0, max) }
    }

    /// A whole number from `min` to `max`, ends included.
    pub const fn count(name: &'static str, min: u64, max: u64) -> Param {
        Param { name, kind: Kind::Count, min: min as f64, open: false, max: max as f64, default: None }
    }

    /// May be left out.
    pub const fn default(mut self, value: f64) -> Param {
        self.default = Some(value);
        self
    }

    fn parse(&self, text: &str, form: &str) -> Result<f64> {
        let kind = if self.kind == Kind::Count { "a whole number" } else { "a number" };
        let not_a_number =
            || Error::NotANumber { text: text.into(), what: format!("{kind} for {}", self.name), form: form.into() };
        // Rust's own parser takes "nan", "inf" and "+1"; the language does not.
        let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e' | 'E');
        if !text.chars().all(plain) {
            return Err(not_a_number());
        }
        let value: f64 = text.parse().map_err(|_| not_a_number())?;
        let whole = self.kind == Kind::Number || text.chars().all(|c| c.is_ascii_digit());
        let negative_whole = text.strip_prefix('-').is_some_and(|t| t.chars().all(|c| c.is_ascii_digit()));
        if !whole && !negative_whole {
            return Err(not_a_number());
        }
        self.check(value, text, form)?;
        Ok(value + 0.0) // −0 is 0
    }

    fn check(&self, value: f64, given: &str, form: &str) -> Result<()> {
        let above = if self.open { value > self.min } else { value >= self.min };
        if value.is_finite() && above && value <= self.max {
            return Ok(());
        }
        let (what, given, form) = (self.name.into(), given.into(), form.into());
        Err(Error::OutOfRange { what, limit: self.range(), given, form })
    }

    /// The range, in words.
    pub fn range(&self) -> String {
        let kind = if self.kind == Kind::Count { "a whole number" } else { "a number" };
        match self.max.is_finite() {
            true if self.open => format!("{kind} above {}, at most {}", self.min, self.max),
            true => format!("{kind} from {} to {}", self.min, self.max),
            false => format!("{kind}, {} or more", self.min),
        }
    }
}

/// The numbers and options of a sampler, in the order its entry lists them.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    params: Vec<f64>,
    flags: Vec<&'static str>,
    options: Vec<f64>,
}

impl Values {
    /// The i-th parameter.
    pub fn param(&self, i: usize) -> f64 {
        self.params[i]
    }

    /// Refuses two parameters in the wrong order, naming the one that must not be larger.
    pub fn at_most(&self, (i, name): (usize, &'static str), (j, of): (usize, &'static str)) -> Result<()> {
        match self.params[i] <= self.params[j] {
            true => Ok(()),
            false => {
                let limit = format!("at most {of}, which is {}", self.params[j]);
                Err(Error::BadSetting { what: name, limit, given: self.params[i].to_string() })
            }
        }
    }

    /// The i-th parameter, a whole number.
    pub fn count(&self, i: usize) -> usize {
        self.params[i] as usize
    }

    /// The word that holds in the i-th group.
    pub fn flag(&self, i: usize) -> &'static str {
        self.flags[i]
    }

    /// The i-th `@key=number` option.
    pub fn option(&self, i: usize) -> f64 {
        self.options[i]
    }

    /// The i-th `@key=number` option, a whole number.
    pub fn option_count(&self, i: usize) -> usize {
        self.options[i] as usize
    }
}

impl Entry {
    /// How it is written, with what may be left out in brackets.
    pub fn form(&self) -> String {
        let mut form = self.name.to_string();
        let mut closing = String::new();
        for (i, param) in self.params.iter().enumerate() {
            if param.default.is_some() {
                form.push('[');
                closing.push(']');
            }
            form.push(if i == 0 { ':' } else { ',' });
            form.push_str(param.name);
        }
        form + &closing
    }

    /// Its `@options`, as they are written.
    pub fn option_forms(&self) -> Vec<String> {
        let words = self.flags.iter().flat_map(|group| group.iter().map(|word| format!("@{word}")));
        words.chain(self.options.iter().map(|option| format!("@{}=", option.name))).collect()
    }

    /// The sampler with its defaults, and 1 for what has none.
    pub fn example(&'static self) -> SamplerSpec {
        let value = |param: &Param| param.default.unwrap_or(1.0);
        let values = Values {
            params: self.params.iter().map(value).collect(),
            flags: self.flags.iter().map(|group| group[0]).collect(),
            options: self.options.iter().map(value).collect(),
        };
        SamplerSpec { entry: self, values, discount: None }
    }

    fn parse_params(&self, text: Option<&str>) -> Result<Vec<f64>> {
        let form = self.form();
        let given: Vec<&str> = text.map(|text| text.split(',').collect()).unwrap_or_default();
        let required = self.params.iter().filter(|param| param.default.is_none()).count();
        if given.len() > self.params.len() || given.len() < required {
            let (least, most) = (required, self.params.len());
            let count = if least == most { format!("{most}") } else { format!("{least} to {most}") };
            let noun = if most == 1 { "parameter" } else { "parameters" };
            let (name, want) = (self.name.to_string(), format!("{count} {noun}"));
            return Err(Error::ParameterCount { name, want, got: given.len(), form });
        }
        let value = |(i, param): (usize, &Param)| match given.get(i) {
            Some(text) => param.parse(text, &form),
            None => Ok(param.default.expect("counted above")),
        };
        self.params.iter().enumerate().map(value).collect()
    }

    fn parse_options(&self, options: &[&str]) -> Result<(Vec<&'static str>, Vec<f64>)> {
        let problem = |problem, option: &str| Error::Option {
            name: self.name.into(),
            problem,
            option: option.into(),
            accepted: list(self.option_forms()),
        };
        let mut flags: Vec<Option<&'static str>> = vec![None; self.flags.len()];
        let mut numbers: Vec<Option<f64>> = vec![None; self.options.len()];
        for option in options {
            let word = |group: &&[&'static str]| group.iter().copied().find(|word| word == option);
            if let Some((i, word)) = self.flags.iter().enumerate().find_map(|(i, g)| Some((i, word(g)?))) {
                if flags[i].replace(word).is_some() {
                    return Err(problem("has already been told what to do instead of", option));
                }
            } else if let Some((key, text)) = option.split_once('=')
                && let Some(i) = self.options.iter().position(|param| param.name == key)
            {
                let form = format!("@{key}=NUMBER");
                if numbers[i].replace(self.options[i].parse(text, &form)?).is_some() {
                    return Err(problem("was given twice", option));
                }
            } else {
                return Err(problem("has no option", option));
            }
        }
        let flags = self.flags.iter().zip(flags).map(|(group, word)| word.unwrap_or(group[0]));
        let number = |(param, given): (&Param, Option<f64>)| given.or(param.default).expect("options have defaults");
        let numbers = self.options.iter().zip(numbers).map(number);
        Ok((flags.collect(), numbers.collect()))
    }
}

impl SamplerSpec {
    /// Makes the sampler.
    pub fn build(&self) -> Result<Policy> {
        (self.entry.build)(&self.values, self.discount)
    }

    /// What the language knows of it.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Its ADAS discount, if it has one.
    pub fn discount(&self) -> Option<AttentionDiscount> {
        self.discount
    }

    /// The same sampler with another discount, or none. Fails when it has no ranking to discount.
    pub fn with_discount(&self, discount: Option<AttentionDiscount>) -> Result<SamplerSpec> {
        if let Some(ad) = discount {
            if !self.entry.discountable {
                return Err(not_discountable(self.entry));
            }
            ALPHA.check(ad.alpha, &ad.alpha.to_string(), AD_FORM)?;
            if matches!(ad.layers, Layers::LastN(_) | Layers::LastShare(_)) {
                let (what, limit) = ("the layer of +ad", "first, middle, last or a number".into());
                return Err(Error::BadSetting { what, limit, given: ad.layers.to_string() });
            }
        }
        let spec = SamplerSpec { discount, ..self.clone() };
        spec.build()?; // what can be written can be built
        Ok(spec)
    }
}

fn not_discountable(entry: &Entry) -> Error {
    let names = REGISTRY.iter().filter(|e| e.discountable).map(|e| format!("`{}`", e.name));
    Error::NotDiscountable { name: entry.name.into(), accepted: list(names) }
}

impl FromStr for SamplerSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<SamplerSpec> {
        let (base, suffix) = match text.split_once('+') {
            Some((base, suffix)) => (base, Some(suffix)),
            None => (text, None),
        };
        let (head, options) = split_options(base);
        let (name, params) = split_params(head);
        let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| Error::UnknownSampler {
            name: text.into(),
            accepted: list(REGISTRY.iter().map(|entry| format!("`{}`", entry.form()))) + ", optionally `+ad[:ALPHA]`",
        })?;
        let params = entry.parse_params(params)?;
        let (flags, options) = entry.parse_options(&options)?;
        let discount = suffix.map(parse_discount).transpose()?;
        let values = Values { params, flags, options };
        SamplerSpec { entry, values, discount: None }.with_discount(discount)
    }
}

const AD_FORM: &str = "+ad[:ALPHA][@layer=first|middle|last|N][@weight=self|mask]";
/// Far above use; bounded so that no utility can reach −∞, which stands for "chosen".
const ALPHA: Param = Param::number("ALPHA", 0.0, 1e9);

/// `ad[:ALPHA][@layer=..][@weight=..]`, behind the plus.
fn parse_discount(text: &str) -> Result<AttentionDiscount> {
    let (head, options) = split_options(text);
    let (name, alpha) = split_params(head);
    if name != "ad" {
        return Err(Error::UnknownSuffix { suffix: text.into() });
    }
    let mut ad = AttentionDiscount::default();
    if let Some(alpha) = alpha {
        ad.alpha = ALPHA.parse(alpha, AD_FORM)?;
    }
    let problem = |problem, option: &str| Error::Option {
        name: "+ad".into(),
        problem,
        option: option.into(),
        accepted: "`@layer=first|middle|last|N`, `@weight=self|mask`".into(),
    };
    let (mut layer_given, mut weight_given) = (false, false);
    for option in options {
        let twice = match option.split_once('=') {
            Some(("layer", layer)) => {
                ad.layers = parse_layer(layer).ok_or_else(|| problem("has no option", option))?;
                std::mem::replace(&mut layer_given, true)
            }
            Some(("weight", weight)) => {
                ad.weight = match weight {
                    "self" => Weight::Chosen,
                    "mask" => Weight::Mean,
                    _ => return Err(problem("has no option", option)),
                };
                std::mem::replace(&mut weight_given, true)
            }
            _ => return Err(problem("has no option", option)),
        };
        if twice {
            return Err(problem("was given twice", option));
        }
    }
    Ok(ad)
}

fn parse_layer(text: &str) -> Option<Layers> {
    match text {
        "first" => Some(Layers::First),
        "middle" => Some(Layers::Middle),
        "last" => Some(Layers::Last),
        n if n.chars().all(|c| c.is_ascii_digit()) => n.parse().ok().map(Layers::Nth),
        _ => None,
    }
}

fn split_options(text: &str) -> (&str, Vec<&str>) {
    let mut parts = text.split('@');
    (parts.next().expect("split yields at least one part"), parts.collect())
}

fn split_params(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, params)) => (name, Some(params)),
        None => (text, None),
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

impl Display for SamplerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)?;
        for (i, value) in self.values.params.iter().enumerate() {
            write!(f, "{}{value}", if i == 0 { ':' } else { ',' })?;
        }
        for (group, word) in self.entry.flags.iter().zip(&self.values.flags) {
            if group[0] != *word {
                write!(f, "@{word}")?;
            }
        }
        for (option, value) in self.entry.options.iter().zip(&self.values.options) {
            if option.default != Some(*value) {
                write!(f, "@{}={value}", option.name)?;
            }
        }
        if let Some(ad) = &self.discount {
            write!(f, "+ad:{}", ad.alpha)?;
            if ad.layers != Layers::Last {
                write!(f, "@layer={}", ad.layers)?;
            }
            if ad.weight == Weight::Mean {
                f.write_str("@weight=mask")?;
            }
        }
        Ok(())
    }
}

impl PartialEq for SamplerSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.entry.name, &self.values, self.discount) == (other.entry.name, &other.values, other.discount)
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
