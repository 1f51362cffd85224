//! What the sampler language knows of one sampler.

use super::param::Param;
use super::spec::SamplerSpec;
use crate::adas::AttentionDiscount;
use crate::{Error, Policy, Result};
use std::fmt;
use std::sync::Arc;

/// One named sampler: how it is written, and how it is built.
///
/// An entry is a value, made where and when it is needed; its name may be put together at run time, and its `build` may hold on
/// to whatever the sampler is made from.
///
/// ```
/// use cofill::spec::{Entry, Param};
/// use cofill::{Picks, Policy, Registry, Result, Sampler, StepView, Verdict};
///
/// /// Commits the leftmost candidates, a few at a time.
/// struct Leftmost(usize);
///
/// impl Sampler for Leftmost {
///     fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
///         view.slots().take(self.0).for_each(|slot| picks.push(view, slot, view.confidence(slot)));
///         Ok(Verdict::Commit)
///     }
/// }
///
/// let entry = Entry::new("leftmost", "the leftmost N", |v, _| Ok(Policy::Commits(Box::new(Leftmost(v.count(0))))))
///     .params([Param::count("N", 1, 64).default(1.0)])
///     .version(1);
/// let registry = Registry::default().with(entry)?;
/// assert_eq!(registry.parse("leftmost")?.to_string(), "leftmost:1");
/// # Ok::<(), cofill::Error>(())
/// ```
#[non_exhaustive]
pub struct Entry {
    /// The name in the sampler language.
    pub name: String,
    /// A few words on what it does.
    pub about: String,
    /// Numbers after the colon, in order.
    pub params: Vec<Param>,
    /// Groups of bare `@words` of which one holds; the first of each group is the default.
    pub flags: Vec<Vec<String>>,
    /// The `@key=number` options, in any order.
    pub options: Vec<Param>,
    /// Whether it has a ranking that `+ad` can discount.
    pub discountable: bool,
    /// The paper or code it comes from.
    pub source: String,
    /// `None` for the samplers of this crate, whose version is the crate's. Others state one, and change it whenever the sampler
    /// would decide differently, so that nobody mixes new results with old ones.
    pub version: Option<String>,
    build: Box<Build>,
}

type Build = dyn Fn(&Values, Option<AttentionDiscount>) -> Result<Policy> + Send + Sync;

impl Entry {
    /// A sampler without parameters and options; the methods below add them.
    ///
    /// `build` gets the values that were written, and the discount behind `+ad` if the entry is
    /// [discountable](Entry::discountable). It is called for every decode, and also when a text is parsed, so that whatever
    /// parses can be built: it should only make the sampler.
    pub fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        build: impl Fn(&Values, Option<AttentionDiscount>) -> Result<Policy> + Send + Sync + 'static,
    ) -> Entry {
        Entry {
            name: name.into(),
            about: about.into(),
            params: Vec::new(),
            flags: Vec::new(),
            options: Vec::new(),
            discountable: false,
            source: String::new(),
            version: None,
            build: Box::new(build),
        }
    }

    /// The numbers after the colon, in order; those with a default come last.
    pub fn params(mut self, params: impl IntoIterator<Item = Param>) -> Entry {
        self.params.extend(params);
        self
    }

    /// Adds a group of `@words` of which one holds: the first, unless another is written.
    pub fn flags<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Entry {
        self.flags.push(words.into_iter().map(Into::into).collect());
        self
    }

    /// The `@key=number` options. Each has a default.
    pub fn options(mut self, options: impl IntoIterator<Item = Param>) -> Entry {
        self.options.extend(options);
        self
    }

    /// It takes `+ad`: `build` passes the discount on, for example to [`Greedy::discounted`](crate::Greedy::discounted).
    pub fn discountable(mut self) -> Entry {
        self.discountable = true;
        self
    }

    /// The paper or code it comes from.
    pub fn source(mut self, source: impl Into<String>) -> Entry {
        self.source = source.into();
        self
    }

    /// A number or a text that changes whenever the sampler would decide differently.
    pub fn version(mut self, version: impl fmt::Display) -> Entry {
        self.version = Some(version.to_string());
        self
    }

    /// How it is written, with what may be left out in brackets.
    pub fn form(&self) -> String {
        let mut form = self.name.clone();
        let mut closing = String::new();
        for (i, param) in self.params.iter().enumerate() {
            if param.default.is_some() {
                form.push('[');
                closing.push(']');
            }
            form.push(if i == 0 { ':' } else { ',' });
            form.push_str(&param.name);
        }
        form + &closing
    }

    /// Its `@options`, as they are written.
    pub fn option_forms(&self) -> Vec<String> {
        let words = self.flags.iter().flatten().map(|word| format!("@{word}"));
        words.chain(self.options.iter().map(|option| format!("@{}=", option.name))).collect()
    }

    /// The sampler with its defaults, and a number near 1 for what has none.
    pub fn example(self: &Arc<Entry>) -> SamplerSpec {
        let values = Values {
            params: self.params.iter().map(Param::example).collect(),
            flags: self.flags.iter().map(|group| group.first().cloned().unwrap_or_default()).collect(),
            options: self.options.iter().map(Param::example).collect(),
        };
        SamplerSpec::plain(self.clone(), values)
    }

    pub(super) fn build(&self, values: &Values, discount: Option<AttentionDiscount>) -> Result<Policy> {
        (self.build)(values, discount)
    }

    /// Gives the written numbers and options their meaning, and what was left out its default.
    pub(super) fn read(&self, params: &[&str], options: &[&str]) -> Result<Values> {
        let params = self.read_params(params)?;
        let (flags, options) = self.read_options(options)?;
        Ok(Values { params, flags, options })
    }

    fn read_params(&self, given: &[&str]) -> Result<Vec<f64>> {
        let form = self.form();
        let (least, most) = (self.params.iter().filter(|param| param.default.is_none()).count(), self.params.len());
        if given.len() > most || given.len() < least {
            let count = if least == most { format!("{most}") } else { format!("{least} to {most}") };
            let noun = if most == 1 { "parameter" } else { "parameters" };
            let (name, want) = (self.name.clone(), format!("{count} {noun}"));
            return Err(Error::ParameterCount { name, want, got: given.len(), form });
        }
        let value = |(i, param): (usize, &Param)| match given.get(i) {
            Some(text) => param.parse(text, &form),
            None => Ok(param.example()), // its default: those without one come first, and are counted above
        };
        self.params.iter().enumerate().map(value).collect()
    }

    fn read_options(&self, given: &[&str]) -> Result<(Vec<String>, Vec<f64>)> {
        let problem = |problem, option: &str| Error::Option {
            name: self.name.clone(),
            problem,
            option: option.into(),
            accepted: super::list(self.option_forms()),
        };
        let mut flags: Vec<Option<&String>> = vec![None; self.flags.len()];
        let mut numbers: Vec<Option<f64>> = vec![None; self.options.len()];
        for option in given {
            let find = |group: &'_ Vec<String>| group.iter().position(|word| word == option);
            if let Some((i, at)) = self.flags.iter().enumerate().find_map(|(i, group)| Some((i, find(group)?))) {
                if flags[i].replace(&self.flags[i][at]).is_some() {
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
        let flag = |(group, word): (&Vec<String>, Option<&String>)| word.or(group.first()).cloned().unwrap_or_default();
        let flags = self.flags.iter().zip(flags).map(flag).collect();
        let number = |(param, given): (&Param, Option<f64>)| given.unwrap_or_else(|| param.example());
        Ok((flags, self.options.iter().zip(numbers).map(number).collect()))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.form())
    }
}

/// The numbers and options of a sampler, in the order its entry lists them. Asking for one that the entry does not list panics: it is
/// a mistake in the entry, which every parse would show.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    pub(super) params: Vec<f64>,
    pub(super) flags: Vec<String>,
    pub(super) options: Vec<f64>,
}

impl Values {
    /// The i-th number after the colon.
    pub fn param(&self, i: usize) -> f64 {
        self.params[i]
    }

    /// The i-th number after the colon, a [`Param::count`].
    pub fn count(&self, i: usize) -> usize {
        self.params[i] as usize
    }

    /// The word that holds in the i-th group of flags.
    pub fn flag(&self, i: usize) -> &str {
        &self.flags[i]
    }

    /// The number of the i-th `@key=number` option.
    pub fn option(&self, i: usize) -> f64 {
        self.options[i]
    }

    /// The number of the i-th `@key=number` option, a [`Param::count`].
    pub fn option_count(&self, i: usize) -> usize {
        self.options[i] as usize
    }

    /// Refuses two parameters in the wrong order, naming the one that must not be larger.
    pub fn at_most(&self, (i, name): (usize, &'static str), (j, of): (usize, &'static str)) -> Result<()> {
        if self.params[i] <= self.params[j] {
            return Ok(());
        }
        let limit = format!("at most {of}, which is {}", self.params[j]);
        Err(Error::BadSetting { what: name, limit, given: self.params[i].to_string() })
    }
}
