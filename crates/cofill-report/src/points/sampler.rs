//! The sampler of an operating point, in the three parts by which reports compare samplers: its rule, its parameter, its discount.
//!
//! All three are made once from a [`SamplerForm`], which also holds names that no registry knows, or from a row of a table, and stay typed until
//! the last cell is printed. `eb:10@entropy+ad` is the rule `eb@entropy` with the parameter `10` in the variant `adas`.

use cofill::adas::AttentionDiscount;
use cofill::{FormOption, Registry, SamplerForm};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};

/// A sampler at one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointSampler {
    /// What stays the same along a curve.
    pub rule: Rule,
    /// What varies along it.
    pub param: Parameter,
    /// With or without a discount.
    pub variant: Variant,
}

impl From<&SamplerForm> for PointSampler {
    fn from(form: &SamplerForm) -> PointSampler {
        PointSampler {
            rule: Rule::of(form),
            param: Parameter::Numbers(form.params().to_vec()),
            variant: form.discount().map_or(Variant::Base, Variant::Discounted),
        }
    }
}

impl PointSampler {
    /// As the sampler language writes it: `eb:10@entropy+ad:40`. With a parameter from a table that is no number, as tables call it.
    pub fn spelled(&self) -> String {
        let Parameter::Numbers(numbers) = &self.param else { return self.to_string() };
        let Rule { name, options } = &self.rule;
        let numbers = numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        let colon = if numbers.is_empty() { "" } else { ":" };
        let options: String = options.iter().map(FormOption::to_string).collect();
        let discount = self.variant.discount().map(|discount| format!("+{discount}")).unwrap_or_default();
        format!("{name}{colon}{numbers}{options}{discount}")
    }
}

/// As tables call it: `EB-Sampler 10`, `Top-k 8 +AD`.
impl Display for PointSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.rule.title(), self.param, self.variant.suffix())
    }
}

/// A sampler without its parameter and its discount: `eb`, `klass`, `eb@entropy`; or a name from a table, such as `WINO`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    name: String,
    options: Vec<FormOption>,
}

impl Rule {
    /// The rule of a sampler.
    pub fn of(form: &SamplerForm) -> Rule {
        Rule { name: form.name().into(), options: form.options().to_vec() }
    }

    /// A rule as a table names it. In this order:
    ///
    /// 1. A sampler, exactly as the sampler language spells it, is that sampler: `fast-dllm` stays `fast-dllm`.
    /// 2. The paper's names of its three rules, in any case, are those rules: `EB-Sampler` is `eb`, `Fast-dLLM` (with a capital, or `fastdllm`) is
    ///    `fast`, `Top-k` is `topk`.
    /// 3. A sampler in capitals is that sampler: `KLASS`.
    /// 4. Everything else keeps the name it has.
    pub fn read(given: &str) -> Rule {
        let known = |text: &str| {
            let form: SamplerForm = text.parse().ok()?;
            let is_rule = form.params().is_empty() && form.discount().is_none();
            (is_rule && Registry::stock().get(form.name()).is_some()).then(|| Rule::of(&form))
        };
        let small = given.to_lowercase();
        let papers = || {
            let name = match small.as_str() {
                "eb-sampler" => "eb",
                "fast-dllm" | "fastdllm" => "fast",
                "top-k" => "topk",
                _ => return None,
            };
            Some(Rule { name: name.into(), options: Vec::new() })
        };
        // A sampler that is not registered here may have options, too.
        let foreign =
            || given.parse().ok().map(|form: SamplerForm| Rule::of(&form)).filter(|rule| rule.to_string() == given);
        let verbatim = || Rule { name: given.into(), options: Vec::new() };
        known(given).or_else(papers).or_else(|| known(&small)).or_else(foreign).unwrap_or_else(verbatim)
    }

    /// The name without options: `eb` of `eb@entropy`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As the paper calls it: `EB-Sampler`, `EB-Sampler @entropy`.
    pub fn title(&self) -> String {
        let name = match self.name.as_str() {
            "eb" => "EB-Sampler",
            "fast" => "Fast-dLLM",
            "topk" => "Top-k",
            "klass" | "dapd" | "dawn" | "punt" | "dus" | "p2" | "less" | "clad" => &self.name.to_uppercase(),
            other => other,
        };
        match self.options.is_empty() {
            true => name.into(),
            false => format!("{name} {}", self.options.iter().map(FormOption::to_string).collect::<String>()),
        }
    }
}

/// As the sampler language writes it.
impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.options.iter().try_for_each(|option| option.fmt(f))
    }
}

/// What is set along a curve.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// The numbers behind a sampler's name; none is written `-`.
    Numbers(Vec<f64>),
    /// From a table, something that is no list of numbers.
    Text(String),
}

const NO_NUMBERS: &str = "-";

impl Parameter {
    /// As a table writes it: `10.0` and `10` are one parameter.
    pub fn read(given: &str) -> Parameter {
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        match given.trim() {
            NO_NUMBERS => Parameter::Numbers(Vec::new()),
            text => {
                let numbers: Option<Vec<f64>> = text.split(',').map(number).collect();
                numbers.map_or_else(|| Parameter::Text(text.into()), Parameter::Numbers)
            }
        }
    }

    /// The first number, by which points are sorted.
    pub fn first(&self) -> Option<f64> {
        match self {
            Parameter::Numbers(numbers) => numbers.first().copied(),
            Parameter::Text(_) => None,
        }
    }

    /// The number, if there is exactly one.
    pub fn single(&self) -> Option<f64> {
        match self {
            Parameter::Numbers(numbers) if numbers.len() == 1 => self.first(),
            _ => None,
        }
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Text(text) => f.write_str(text),
            Parameter::Numbers(numbers) if numbers.is_empty() => f.write_str(NO_NUMBERS),
            Parameter::Numbers(numbers) => {
                f.write_str(&numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// With or without a discount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Variant {
    /// Without a discount: `base`.
    Base,
    /// With the paper's, `adas`, or with another: `ad:20`, `ad:40@layer=first`.
    Discounted(AttentionDiscount),
}

impl Variant {
    /// With the paper's discount, `+ad`.
    pub fn adas() -> Variant {
        Variant::Discounted(AttentionDiscount::default())
    }

    /// As a table writes it, in any case; none if it is no variant.
    pub fn read(given: &str) -> Option<Variant> {
        match given.to_lowercase().as_str() {
            BASE => Some(Variant::Base),
            ADAS => Some(Variant::adas()),
            other => other.strip_prefix('+').unwrap_or(other).parse().ok().map(Variant::Discounted),
        }
    }

    /// The discount, if there is one.
    pub fn discount(self) -> Option<AttentionDiscount> {
        match self {
            Variant::Base => None,
            Variant::Discounted(discount) => Some(discount),
        }
    }

    /// What it adds to the name of its rule: nothing, ` +AD`, ` +ad:20`.
    pub fn suffix(self) -> String {
        match self {
            Variant::Base => String::new(),
            adas if adas == Variant::adas() => " +AD".into(),
            other => format!(" +{other}"),
        }
    }

    /// Where it stands among others: without, with the paper's, then by strength.
    pub(super) fn order(self) -> f64 {
        match self.discount() {
            None => -2.0,
            Some(discount) if discount == AttentionDiscount::default() => -1.0,
            Some(discount) => discount.alpha,
        }
    }
}

const BASE: &str = "base";
const ADAS: &str = "adas";

impl Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Base => f.write_str(BASE),
            adas if *adas == Variant::adas() => f.write_str(ADAS),
            Variant::Discounted(discount) => discount.fmt(f),
        }
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Parameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Variant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(form: &str) -> [String; 3] {
        let PointSampler { rule, param, variant } = PointSampler::from(&form.parse::<SamplerForm>().unwrap());
        [rule.to_string(), param.to_string(), variant.to_string()]
    }

    #[test]
    fn a_sampler_is_spelled_as_it_was_read() {
        for text in [
            "topk:8",
            "eb:10@entropy+ad:40",
            "klass:0.7,1",
            "fast:2+paths:200",
            "peaks@wide",
            "topk:4+ad:40@layer=first",
        ] {
            let form: SamplerForm = text.parse().unwrap();
            assert_eq!(PointSampler::from(&form).spelled(), text);
        }
    }

    #[test]
    fn a_sampler_has_a_rule_a_parameter_and_a_variant() {
        assert_eq!(parts("eb:10"), ["eb", "10", "base"]);
        assert_eq!(parts("fast:3+ad"), ["fast", "3", "adas"]);
        assert_eq!(parts("eb:0.5@entropy+ad:40@layer=first"), ["eb@entropy", "0.5", "ad:40@layer=first"]);
        assert_eq!(parts("klass:0.7,1"), ["klass", "0.7,1", "base"]);
        // Of a name that is not registered here.
        assert_eq!(parts("peaks@wide@width=3+ad:20"), ["peaks@wide@width=3", "-", "ad:20"]);
    }

    #[test]
    fn the_papers_rule_and_the_sampler_of_that_name_are_two() {
        let read = |name: &str| Rule::read(name).to_string();
        assert_eq!(read("fast-dllm"), "fast-dllm", "the sampler, as the language spells it");
        for papers in ["Fast-dLLM", "FAST-DLLM", "fastdllm", "fast"] {
            assert_eq!(read(papers), "fast", "{papers}");
        }
        assert_eq!([read("fast-dllm@margin"), read("Fast-Published")], ["fast-dllm@margin", "fast-published"]);
        assert_eq!([Rule::read("fast").title(), Rule::read("fast-dllm").title()], ["Fast-dLLM", "fast-dllm"]);
    }

    #[test]
    fn names_are_known_in_any_case_and_strangers_keep_theirs() {
        let read = |name: &str| Rule::read(name).to_string();
        assert_eq!(
            ["EB", "EB-Sampler", "Top-k", "KLASS", "EB@entropy"].map(read),
            ["eb", "eb", "topk", "klass", "eb@entropy"]
        );
        assert_eq!(
            ["WINO", "Peaks", "peaks@wide", "a b", "x@@"].map(read),
            ["WINO", "Peaks", "peaks@wide", "a b", "x@@"]
        );
        assert_eq!(Rule::read("peaks@wide").title(), "peaks @wide");
        // No rule: it has a parameter.
        assert_eq!(Rule::read("topk:8").name(), "topk:8");
    }

    #[test]
    fn parameters_and_variants_have_one_spelling() {
        let param = |given: &str| Parameter::read(given).to_string();
        assert_eq!(
            ["12.0", " 0.70, 1", "-", "1e3", "k = 3", "inf"].map(param),
            ["12", "0.7,1", "-", "1000", "k = 3", "inf"]
        );
        assert_eq!((Parameter::read("-"), Parameter::read("inf").first()), (Parameter::Numbers(Vec::new()), None));
        let variant = |given: &str| Variant::read(given).map(|variant| variant.to_string());
        for (given, want) in [("Base", "base"), ("ADAS", "adas"), ("+AD:40", "adas"), ("Ad:20.0", "ad:20")] {
            assert_eq!(variant(given).as_deref(), Some(want), "{given}");
        }
        assert_eq!(variant("ad@Layer=first").as_deref(), Some("ad:40@layer=first"));
        assert_eq!([variant("ours"), variant("ad:-1"), variant("")], [None, None, None]);
    }
}
