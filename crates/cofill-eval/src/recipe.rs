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
//! that several of them name is run once. Everything else a section may say is what `cofill eval` has an option for.
//!
//! A recipe says what to run, never where: folders of models and data are the machine's matter ([`Point::place`]). A word that
//! nobody knows is an error with its line, because a misspelt key would otherwise be a silent default.

mod grid;
mod point;

pub use point::Point;

use cofill::SamplerSpec;
use cofill_tasks::TaskName;
use cofill_tasks::judge::Math;
use cofill_tasks::mini::Split;
use cofill_tasks::wrapper::Wrapper;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A recipe that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Its file, without folder and ending.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Its operating points, each once, in order.
    pub points: Vec<Point>,
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
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Recipe, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.into(), source })?;
        Recipe::parse(path, &text)
    }

    /// Reads a text; `path` is where it stood.
    pub fn parse(path: &Path, text: &str) -> Result<Recipe, Error> {
        let file: File = toml::from_str(text).map_err(|error| wrong_line(path, text, &error))?;
        let mut points: Vec<Point> = Vec::new();
        for (section, i) in file.sweep.iter().zip(1..) {
            let found = section.points();
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
        Ok(Recipe { name: name.unwrap_or_default(), about: file.about, points })
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    #[serde(default)]
    sweep: Vec<Section>,
}

/// A `[[sweep]]` as it is written. What is left out is what `cofill eval` does without the option.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    models: Vec<String>,
    tasks: Vec<Named<TaskName>>,
    samplers: Vec<Grid>,
    #[serde(default)]
    lengths: Vec<NonZeroUsize>,
    limit: Option<NonZeroUsize>,
    /// By task, where one limit does not fit all.
    #[serde(default)]
    limits: BTreeMap<String, NonZeroUsize>,
    block: Option<NonZeroUsize>,
    #[serde(default)]
    temperature: f64,
    #[serde(default)]
    seed: u64,
    #[serde(default = "test")]
    split: Named<Split>,
    #[serde(default)]
    corpus_seed: u64,
    shots: Option<usize>,
    #[serde(default = "one")]
    ranks: NonZeroUsize,
    wrapper: Option<Named<Wrapper>>,
    bos: Option<bool>,
    #[serde(default)]
    math: Named<Math>,
    #[serde(default = "python")]
    python: PathBuf,
    #[serde(default)]
    unsafe_exec: bool,
    dtype: Option<String>,
    #[serde(default = "cpu")]
    device: String,
    batch: Option<NonZeroUsize>,
}

fn test() -> Named<Split> {
    Named(Split::Test)
}

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

fn python() -> PathBuf {
    "python3".into()
}

fn cpu() -> String {
    "cpu".into()
}

impl Section {
    /// The product.
    fn points(&self) -> Result<Vec<Point>, String> {
        self.check()?;
        let samplers: Vec<&SamplerSpec> = self.samplers.iter().flat_map(|grid| &grid.0).collect();
        let lengths: Vec<Option<usize>> = match self.lengths.is_empty() {
            true => vec![None],
            false => self.lengths.iter().map(|length| Some(length.get())).collect(),
        };
        let mut points = Vec::with_capacity(self.models.len() * self.tasks.len() * samplers.len() * lengths.len());
        for model in &self.models {
            for Named(task) in &self.tasks {
                for sampler in &samplers {
                    for length in &lengths {
                        points.push(self.point(model, *task, sampler, *length));
                    }
                }
            }
        }
        Ok(points)
    }

    fn point(&self, model: &str, task: TaskName, sampler: &SamplerSpec, length: Option<usize>) -> Point {
        Point {
            task,
            model: model.into(),
            sampler: sampler.clone(),
            length,
            limit: self.limits.get(task.name()).copied().or(self.limit).map(NonZeroUsize::get),
            block: self.block.map(NonZeroUsize::get),
            temperature: self.temperature,
            seed: self.seed,
            split: self.split.0,
            corpus_seed: self.corpus_seed,
            shots: self.shots,
            ranks: self.ranks,
            wrapper: self.wrapper.as_ref().map(|wrapper| wrapper.0),
            bos: self.bos,
            math: self.math.0,
            python: self.python.clone(),
            unsafe_exec: self.unsafe_exec,
            dtype: self.dtype.clone(),
            device: self.device.clone(),
            batch: self.batch.map(NonZeroUsize::get),
            models: None,
            data: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        let lists = [("models", self.models.len()), ("tasks", self.tasks.len()), ("samplers", self.samplers.len())];
        if let Some((key, _)) = lists.iter().find(|(_, n)| *n == 0) {
            return Err(format!("`{key}` is empty, and a product with nothing is nothing; name at least one"));
        }
        let is_asked = |task: &&String| self.tasks.iter().any(|Named(asked)| asked.name() == task.as_str());
        if let Some(task) = self.limits.keys().find(|task| !is_asked(task)) {
            return Err(format!(
                "`limits` names `{task}`, which is not among `tasks`; add it there, or remove it here"
            ));
        }
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return Err(format!("`temperature` is {}; give 0 or more", self.temperature));
        }
        Ok(())
    }
}

/// The samplers of one entry of `samplers`.
struct Grid(Vec<SamplerSpec>);

impl<'de> Deserialize<'de> for Grid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Grid, D::Error> {
        let text = String::deserialize(deserializer)?;
        grid::samplers(&text).map(Grid).map_err(serde::de::Error::custom)
    }
}

/// Anything that is written by its name.
#[derive(Default)]
struct Named<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Named<T>, D::Error> {
        String::deserialize(deserializer)?.parse().map(Named).map_err(serde::de::Error::custom)
    }
}

/// An error of the parser, with the line it is in.
fn wrong_line(path: &Path, text: &str, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    let text = text.lines().nth(line).unwrap_or_default().trim().to_owned();
    Error::Line { path: path.into(), line: line + 1, text, problem: error.message().replace('\n', " ") }
}

#[cfg(test)]
mod tests;
