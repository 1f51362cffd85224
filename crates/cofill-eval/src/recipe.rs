//! A recipe: the operating points of an experiment, in a TOML file.
//!
//! ```toml
//! about = "What this shows."
//!
//! [[sweep]]
//! models = ["tiny-llada", "tiny-dream"]
//! tasks = ["chain", "sums"]
//! samplers = ["eb:{0.1,1,10}{,+ad}", "klass:0.7,1"]   # braces are a grid: six samplers and one
//! limit = 100
//! ```
//!
//! Each `[[sweep]]` is a product, models x tasks x samplers x lengths, and a recipe is the union of its sweeps, in their order: a point
//! that several of them name is run once. Everything else a section may say is an option of [`RunOptions`], [`TaskOptions`] or
//! [`JudgeOptions`], by the same name.
//!
//! A recipe says what to run, never where: folders of models and data are the machine's matter ([`EvalSpec::place`]). A word that
//! nobody knows is an error with its line, because a misspelt key would otherwise be a silent default.

mod grid;

pub(crate) use grid::samplers as braces;

use crate::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill::{Registry, SamplerSpec};
use cofill_engine::{Length, RunOptions};
use cofill_tasks::TaskName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A recipe that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its file, without folder and ending.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Its operating points, each once, in order.
    pub points: Vec<EvalSpec>,
}

/// How a recipe can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the recipe `{}`: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("`{}`, line {line}, `{text}`: {problem}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// Its lines are right, and together they are not.
    #[error("`{}`, sweep {section}: {problem}", .path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// Which `[[sweep]]`, counted from 1.
        section: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Recipe {
    /// Reads a file whose samplers are ours.
    pub fn read(path: &Path) -> Result<Recipe, Error> {
        Recipe::read_with(path, Registry::stock())
    }

    /// Reads a file whose samplers are those of `registry`.
    pub fn read_with(path: &Path, registry: &Registry) -> Result<Recipe, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.into(), source })?;
        Recipe::parse(path, &text, registry)
    }

    /// Reads a text; `path` is where it stood.
    pub fn parse(path: &Path, text: &str, registry: &Registry) -> Result<Recipe, Error> {
        let wrong =
            |error: toml::de::Error| wrong_line(path, text, error.span().map_or(0, |span| span.start), error.message());
        let mut top = DeTable::parse(text).map_err(wrong)?;
        let sections = top.get_mut().remove("sweep");
        let Top { about } = Top::deserialize(toml::Deserializer::from(top)).map_err(wrong)?;
        let mut points: Vec<EvalSpec> = Vec::new();
        for (table, i) in tables(sections).map_err(|at| wrong_line(path, text, at, NOT_TABLES))?.into_iter().zip(1..) {
            let section = Section::read(table).map_err(|(at, problem)| wrong_line(path, text, at, &problem))?;
            let samplers = section.samplers(registry).map_err(|(at, problem)| wrong_line(path, text, at, &problem))?;
            let found = section.points(&samplers);
            let found = found.map_err(|problem| Error::Section { path: path.into(), section: i, problem })?;
            for point in found {
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        if points.is_empty() {
            let problem = "there is none; add [[sweep]] with `models`, `tasks` and `samplers`".into();
            return Err(Error::Section { path: path.into(), section: 1, problem });
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Recipe { name: name.unwrap_or_default(), about, points })
    }
}

/// What a file says beside its sweeps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Top {
    about: String,
}

type Table<'t> = Spanned<DeTable<'t>>;

const NOT_TABLES: &str = "expected tables; write [[sweep]]";

/// The tables of an array of tables, or where something else is.
fn tables(value: Option<Spanned<DeValue<'_>>>) -> Result<Vec<Table<'_>>, usize> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let at = value.span().start;
    let DeValue::Array(items) = value.into_inner() else { return Err(at) };
    let mut tables = Vec::new();
    for item in items {
        let span = item.span();
        let DeValue::Table(table) = item.into_inner() else { return Err(span.start) };
        tables.push(Spanned::new(span, table));
    }
    Ok(tables)
}

/// A `[[sweep]]`: the lists that make a product, and the options that all of its points share.
struct Section {
    lists: Lists,
    run: RunOptions,
    questions: TaskOptions,
    judges: JudgeOptions,
}

/// The keys of [`Lists`].
const LISTS: [&str; 5] = ["models", "tasks", "samplers", "lengths", "limits"];

/// What a `[[sweep]]` says beside options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    models: Vec<String>,
    tasks: Vec<Named<TaskName>>,
    samplers: Vec<Spanned<String>>,
    #[serde(default)]
    lengths: Vec<NonZeroUsize>,
    /// By task, where one limit does not fit all.
    #[serde(default)]
    limits: BTreeMap<String, NonZeroUsize>,
}

impl Section {
    /// Deals the keys of a table to whom they belong. What is left belongs to nobody, and is refused with its line.
    fn read(mut table: Table<'_>) -> Result<Section, (usize, String)> {
        let wrong = |error: toml::de::Error| (error.span().map_or(0, |span| span.start), error.message().to_owned());
        let run = options(&mut table).map_err(wrong)?;
        let questions = options(&mut table).map_err(wrong)?;
        let judges = options(&mut table).map_err(wrong)?;
        if let Some((key, _)) = table.get_ref().iter().find(|(key, _)| !LISTS.contains(&key.get_ref().as_ref())) {
            let known = LISTS.map(str::to_owned).into_iter();
            let known = known.chain(keys::<RunOptions>()).chain(keys::<TaskOptions>()).chain(keys::<JudgeOptions>());
            let known: Vec<String> = known.map(|key| format!("`{key}`")).collect();
            let problem = format!("unknown field `{}`, expected one of {}", key.get_ref(), known.join(", "));
            return Err((key.span().start, problem));
        }
        let lists = Lists::deserialize(toml::Deserializer::from(table)).map_err(wrong)?;
        Ok(Section { lists, run, questions, judges })
    }

    /// The samplers of every entry, or where one is wrong and why.
    fn samplers(&self, registry: &Registry) -> Result<Vec<SamplerSpec>, (usize, String)> {
        let mut all = Vec::new();
        for entry in &self.lists.samplers {
            let found = grid::samplers(entry.get_ref(), registry);
            all.extend(found.map_err(|problem| (entry.span().start, problem))?);
        }
        Ok(all)
    }

    /// The product.
    fn points(&self, samplers: &[SamplerSpec]) -> Result<Vec<EvalSpec>, String> {
        self.check()?;
        let Lists { models, tasks, lengths, limits, .. } = &self.lists;
        let lengths: Vec<Option<Length>> = match lengths.is_empty() {
            true => vec![self.run.length],
            false => lengths.iter().map(|length| Some(length.get().into())).collect(),
        };
        let mut points = Vec::with_capacity(models.len() * tasks.len() * samplers.len() * lengths.len());
        for model in models {
            for Named(task) in tasks {
                for sampler in samplers {
                    for &length in &lengths {
                        let mut spec = EvalSpec::new(*task, model, sampler.clone());
                        spec.run = self.run.clone();
                        spec.run.length = length;
                        spec.questions = self.questions.clone();
                        spec.questions.limit = limits.get(task.name()).copied().or(self.questions.limit);
                        spec.judges = self.judges.clone();
                        points.push(spec);
                    }
                }
            }
        }
        Ok(points)
    }

    fn check(&self) -> Result<(), String> {
        let Lists { models, tasks, samplers, lengths, limits } = &self.lists;
        let lists = [("models", models.len()), ("tasks", tasks.len()), ("samplers", samplers.len())];
        if let Some((key, _)) = lists.iter().find(|(_, n)| *n == 0) {
            return Err(format!("`{key}` is empty, and a product with nothing is nothing; name at least one"));
        }
        let is_asked = |task: &&String| tasks.iter().any(|Named(asked)| asked.name() == task.as_str());
        if let Some(task) = limits.keys().find(|task| !is_asked(task)) {
            return Err(format!(
                "`limits` names `{task}`, which is not among `tasks`; add it there, or remove it here"
            ));
        }
        if self.run.length.is_some() && !lengths.is_empty() {
            return Err("`length` and `lengths` are both given; remove one".into());
        }
        self.run.check().and_then(|()| self.run.fixed_length()).map(drop).map_err(|error| error.to_string())
    }
}

/// The names of a list of options.
fn keys<T: Serialize + Default>() -> Vec<String> {
    let all = serde_json::to_value(T::default()).unwrap_or_default();
    all.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect()
}

/// Takes the keys of one list of options out of a table, and reads them.
fn options<T: DeserializeOwned + Serialize + Default>(table: &mut Table<'_>) -> Result<T, toml::de::Error> {
    let span = table.span();
    let mut own = DeTable::new();
    for key in keys::<T>() {
        if let Some((key, value)) = table.get_mut().remove_entry(key.as_str()) {
            own.insert(key, value);
        }
    }
    T::deserialize(toml::Deserializer::from(Spanned::new(span, own)))
}

/// Anything that is written by its name.
#[derive(Default)]
struct Named<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Named<T>, D::Error> {
        String::deserialize(deserializer)?.parse().map(Named).map_err(serde::de::Error::custom)
    }
}

/// A problem with the line it is in; `at` counts bytes.
fn wrong_line(path: &Path, text: &str, at: usize, problem: &str) -> Error {
    let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
    let text = text.lines().nth(line).unwrap_or_default().trim().to_owned();
    Error::Line { path: path.into(), line: line + 1, text, problem: problem.replace('\n', " ") }
}

#[cfg(test)]
mod tests;
