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
//! A recipe says what to run, never where: folders of models and data are the machine's matter ([`EvalSpec::place`]); only task files are
//! named by their places, from the recipe's folder. A word that nobody knows is an error with its line, because a misspelt key would
//! otherwise be a silent default.

mod grid;

use crate::idle;
use crate::open;
pub(crate) use grid::samplers as braces;

use crate::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill::{Registry, SamplerSpec};
use cofill_engine::{Length, RunOptions};
use cofill_tasks::TaskName;
use cofill_tasks::toml_text::{WrongLine, unknown_key};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
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
    /// Where it names models and tasks, for errors that show only when these are opened.
    pub origins: Origins,
}

/// The lines of a recipe that name something.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Origins {
    path: PathBuf,
    models: BTreeMap<String, WrongLine>,
    tasks: BTreeMap<String, WrongLine>,
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
    #[error("`{}`, {wrong}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, and what is wrong with it.
        wrong: WrongLine,
    },
    /// It names no points.
    #[error("`{}` has no sweep; add [[sweep]] with `models`, `tasks` and `samplers`", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
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
        let line = |wrong: WrongLine| Error::Line { path: path.into(), wrong };
        let at = |(at, problem): Wrong| line(WrongLine::at(text, at, &problem));
        let mut top = DeTable::parse(text).map_err(|error| line(WrongLine::of(text, &error)))?;
        let sections = top.get_mut().remove("sweep");
        if let Some((at, problem)) = unknown_key(top.get_ref(), &["about"]) {
            return Err(line(WrongLine::at(text, at, &format!("{problem}, [[sweep]]"))));
        }
        let Top { about } = Top::deserialize(toml::Deserializer::from(top)).map_err(|error| at(wrong(&error)))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut origins = Origins { path: path.into(), ..Origins::default() };
        let mut points: Vec<EvalSpec> = Vec::new();
        for table in tables(sections).map_err(|place| at((place, NOT_TABLES.into())))? {
            let section = Section::read(table).map_err(at)?;
            let (samplers, tasks) = (section.samplers(registry).map_err(at)?, section.tasks(folder).map_err(at)?);
            section.check(&tasks).map_err(at)?;
            for point in section.points(&tasks, &samplers) {
                if !points.contains(&point) {
                    points.push(point);
                }
            }
            let origin = |at: usize| WrongLine::at(text, at, "");
            for model in &section.lists.models {
                origins.models.entry(model.get_ref().clone()).or_insert_with(|| origin(model.span().start));
            }
            for (task, given) in tasks.iter().zip(&section.lists.tasks) {
                origins.tasks.entry(task.name().to_owned()).or_insert_with(|| origin(given.span().start));
            }
        }
        if points.is_empty() {
            return Err(Error::Empty { path: path.into() });
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let recipe = Recipe { name: name.unwrap_or_default(), about, points, origins };
        recipe.check_names()?;
        Ok(recipe)
    }

    /// Refuses two task files of one name: their results could not be told apart.
    fn check_names(&self) -> Result<(), Error> {
        let mut files: BTreeMap<&str, &TaskName> = BTreeMap::new();
        for EvalSpec { task, .. } in &self.points {
            let first = *files.entry(task.name()).or_insert(task);
            if first != task {
                let problem = format!("`{first}` and `{task}` are both called `{}`; rename one of them", task.name());
                return Err(self.blame(self.origins.tasks.get(task.name()), problem));
            }
        }
        Ok(())
    }

    /// A problem with the model of a point, on the line that names it.
    pub(crate) fn model(&self, name: &str, error: cofill_engine::Error) -> open::Error {
        match self.origins.models.get(name) {
            Some(line) => self.blame(Some(line), error.to_string()).into(),
            None => error.into(),
        }
    }

    /// A problem with the task of a point, on the line that names it. What a recipe cannot change stays as it is.
    pub(crate) fn task(&self, name: &str, error: open::Error) -> open::Error {
        match (&error, self.origins.tasks.get(name)) {
            (open::Error::Own(problem), Some(line)) => self.blame(Some(line), problem.to_string()).into(),
            _ => error,
        }
    }

    fn blame(&self, line: Option<&WrongLine>, problem: String) -> Error {
        let unknown = WrongLine { line: 1, text: String::new(), problem: String::new() };
        let wrong = WrongLine { problem, ..line.cloned().unwrap_or(unknown) };
        Error::Line { path: self.origins.path.clone(), wrong }
    }
}

/// What a file says beside its sweeps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Top {
    #[serde(default)]
    about: String,
}

/// A problem at a byte of the text.
type Wrong = (usize, String);

fn wrong(error: &toml::de::Error) -> Wrong {
    (error.span().map_or(0, |span| span.start), error.message().replace("missing field", "missing key"))
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
    /// Where it begins, and each of its keys.
    begins: usize,
    keys: BTreeMap<String, usize>,
}

/// The keys of [`Lists`].
const LISTS: [&str; 5] = ["models", "tasks", "samplers", "lengths", "limits"];

/// What a `[[sweep]]` says beside options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    models: Vec<Spanned<String>>,
    tasks: Vec<Spanned<String>>,
    samplers: Vec<Spanned<String>>,
    #[serde(default)]
    lengths: Vec<NonZeroUsize>,
    /// By task, where one limit does not fit all.
    #[serde(default)]
    limits: BTreeMap<String, NonZeroUsize>,
}

impl Section {
    /// Deals the keys of a table to whom they belong. What is left belongs to nobody, and is refused with its line.
    fn read(mut table: Table<'_>) -> Result<Section, Wrong> {
        let begins = table.span().start;
        let place = |(key, _): (&Spanned<_>, _)| (AsRef::<str>::as_ref(key.get_ref()).to_owned(), key.span().start);
        let keys = table.get_ref().iter().map(place).collect();
        let run = options(&mut table).map_err(|error| wrong(&error))?;
        let questions = options(&mut table).map_err(|error| wrong(&error))?;
        let judges = options(&mut table).map_err(|error| wrong(&error))?;
        if table.get_ref().contains_key("allow_command") {
            let problem = "a recipe cannot allow commands; give --allow-command to the sweep";
            let at = table.get_ref().get("allow_command").map_or(begins, |value| value.span().start);
            return Err((at, problem.into()));
        }
        let known = LISTS.map(str::to_owned).into_iter();
        let known = known.chain(self::keys::<RunOptions>()).chain(self::keys::<TaskOptions>());
        let known: Vec<String> = known.chain(self::keys::<JudgeOptions>()).collect();
        // Of what is left, the lists are known, and the rest to nobody.
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        if let Some(unknown) = unknown_key(table.get_ref(), &known) {
            return Err(unknown);
        }
        let missing = LISTS[..3].iter().find(|key| !table.get_ref().contains_key(**key));
        if let Some(key) = missing {
            return Err((begins, format!("missing key `{key}`; add {key} = [\"..\"]")));
        }
        let lists = Lists::deserialize(toml::Deserializer::from(table)).map_err(|error| wrong(&error))?;
        Ok(Section { lists, run, questions, judges, begins, keys })
    }

    /// Where a key stands.
    fn at(&self, key: &str) -> usize {
        self.keys.get(key).copied().unwrap_or(self.begins)
    }

    /// The samplers of every entry, or where one is wrong and why.
    fn samplers(&self, registry: &Registry) -> Result<Vec<SamplerSpec>, Wrong> {
        let mut all = Vec::new();
        for entry in &self.lists.samplers {
            let found = grid::samplers(entry.get_ref(), registry);
            all.extend(found.map_err(|problem| (entry.span().start, problem))?);
        }
        Ok(all)
    }

    /// The tasks, or where one is wrong and why. Task files are meant from the recipe's folder.
    fn tasks(&self, folder: &Path) -> Result<Vec<TaskName>, Wrong> {
        let task = |given: &Spanned<String>| match given.get_ref().parse() {
            Ok(TaskName::File(file)) => Ok(TaskName::File(file.within(folder))),
            parsed => parsed.map_err(|problem| (given.span().start, problem)),
        };
        self.lists.tasks.iter().map(task).collect()
    }

    /// The product.
    fn points(&self, tasks: &[TaskName], samplers: &[SamplerSpec]) -> Vec<EvalSpec> {
        let Lists { models, lengths, limits, .. } = &self.lists;
        let lengths: Vec<Option<Length>> = match lengths.is_empty() {
            true => vec![self.run.length],
            false => lengths.iter().map(|length| Some(length.get().into())).collect(),
        };
        let mut points = Vec::with_capacity(models.len() * tasks.len() * samplers.len() * lengths.len());
        for model in models {
            for task in tasks {
                for sampler in samplers {
                    for &length in &lengths {
                        let mut spec = EvalSpec::new(task.clone(), model.get_ref(), sampler.clone());
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
        points
    }

    /// Refuses keys that are right by themselves and not together.
    fn check(&self, tasks: &[TaskName]) -> Result<(), Wrong> {
        let Lists { models, samplers, lengths, limits, .. } = &self.lists;
        let lists = [("models", models.len()), ("tasks", tasks.len()), ("samplers", samplers.len())];
        if let Some((key, _)) = lists.iter().find(|(_, n)| *n == 0) {
            let problem = format!("`{key}` is empty, and a product with nothing is nothing; name at least one");
            return Err((self.at(key), problem));
        }
        let is_asked = |task: &&String| tasks.iter().any(|asked| asked.name() == task.as_str());
        if let Some(task) = limits.keys().find(|task| !is_asked(task)) {
            let problem =
                format!("`limits` names `{task}`, which is not among `tasks`; add it there, or remove it here");
            return Err((self.at("limits"), problem));
        }
        if self.run.length.is_some() && !lengths.is_empty() {
            return Err((self.at("lengths"), "`length` and `lengths` are both given; remove one".into()));
        }
        if let Some(idle) = idle::idle_for_all(tasks, &self.questions, &self.judges) {
            return Err((self.at(idle.option), format!("{idle}; remove it")));
        }
        let checked = self.run.check().and_then(|()| self.run.fixed_length());
        checked.map(drop).map_err(|error| {
            // The error knows its setting, whose first word is the key.
            let said = error.to_string();
            let named = self.keys.iter().find(|(key, _)| said.starts_with(key.as_str()));
            let constraint = || self.run.constraints().first().and_then(|key| self.keys.get_key_value(*key));
            (named.or_else(constraint).map_or(self.begins, |(_, at)| *at), said)
        })
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

#[cfg(test)]
mod tests;
