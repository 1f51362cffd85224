//! Tasks whose answers a program can check, for scoring models and samplers.
//!
//! A task gives prompts and judges answers. It knows no model and no tokenizer, only texts. [`mini`] tasks are generated
//! here; the paper's [`benchmarks`] read their files through [`data`] and ask and score as lm-evaluation-harness does; a task file describes one of the
//! user's [`own`]. Formulas and
//! programs are handed to judges ([`judge`]), which live in crates of their own.
//!
//! ```
//! use cofill_tasks::mini::{Mini, Split};
//!
//! let example = Mini::Chain.example(Split::Test, 1, 0); // seed 1, question 0: the same on every machine
//! println!("{}", example.prompt); // Ana has 7 coins, buys 5, ...
//! assert_eq!(Mini::Chain.check(&example.prompt, &example.answer)?, Ok(()));
//! let wrong = Mini::Chain.check(&example.prompt, "#### 1000")?.unwrap_err();
//! assert!(wrong.to_string().ends_with("not 1000"));
//! # Ok::<(), cofill_tasks::mini::Error>(())
//! ```

pub mod benchmarks;
pub mod data;
pub mod judge;
pub mod mini;
pub mod mt19937;
pub mod own;
mod pystr;
pub mod sources;
pub mod toml_text;
pub mod wrapper;

use benchmarks::Benchmark;
use cofill::did_you_mean;
use mini::Mini;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A task of any kind, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TaskName {
    /// One whose questions are generated here.
    Mini(Mini),
    /// One whose questions are read from files.
    Benchmark(Benchmark),
    /// Texts with gaps from a file of the user's own, each with what belongs in its gaps.
    Infill,
    /// A task of the user's own, described in a task file ([`own`]).
    File(TaskFile),
}

/// The name of [`TaskName::Infill`], and of its file in a folder of data.
const INFILL: &str = "infill";

/// How the name of a task file ends.
const ENDING: &str = "toml";

/// A task file: where it is, and what its task is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskFile {
    path: PathBuf,
    name: String,
}

impl TaskFile {
    /// A task file at a place. Its task is called what the file is called, without folder and ending; that must be a plain word, and none that
    /// is a task already.
    pub fn new(path: impl Into<PathBuf>) -> Result<TaskFile, String> {
        let path = path.into();
        let (name, shown) = (TaskFile::name_of(&path), path.display());
        if path.to_str().is_none() {
            return Err(format!("the path `{shown}` of a task file is not UTF-8; rename it"));
        }
        if path.extension().is_none_or(|ending| ending != ENDING) {
            return Err(format!("`{shown}` is no task file; its name must end in .{ENDING}"));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let rule = "letters, digits, `-`, `_` and `.`, at most 64 of them";
            return Err(format!(
                "a task is called what its file is called, and `{name}` is no name: {rule}; rename it"
            ));
        }
        if built_in(&name).is_some() {
            return Err(format!("`{shown}` would be called `{name}`, as a task that is here already; rename the file"));
        }
        Ok(TaskFile { path, name })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, from wherever `folder` is meant.
    pub fn within(self, folder: &Path) -> TaskFile {
        TaskFile { path: folder.join(&self.path), name: self.name }
    }

    /// What the task of a file is called.
    pub(crate) fn name_of(path: &Path) -> String {
        path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The task that is here under a name.
fn built_in(given: &str) -> Option<TaskName> {
    let benchmark = || given.parse().ok().map(TaskName::Benchmark);
    let infill = || (given == INFILL).then_some(TaskName::Infill);
    given.parse().ok().map(TaskName::Mini).or_else(benchmark).or_else(infill)
}

impl TaskName {
    /// Its name, as users write it; of a task file, what its task is called.
    pub fn name(&self) -> &str {
        match self {
            TaskName::Mini(task) => task.name(),
            TaskName::Benchmark(task) => task.name(),
            TaskName::Infill => INFILL,
            TaskName::File(file) => &file.name,
        }
    }

    /// The names of all tasks that are here, in the order of every table.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Mini::ALL.map(Mini::name).into_iter().chain(Benchmark::ALL.map(Benchmark::name)).chain([INFILL])
    }

    /// How many positions a model generates after a prompt by default; 0 where rows or a task file say it.
    pub fn length(&self) -> usize {
        match self {
            TaskName::Mini(task) => task.length(),
            TaskName::Benchmark(task) => task.length(),
            TaskName::Infill | TaskName::File(_) => 0,
        }
    }
}

/// As it is read again: a name, or the path of a task file.
impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskName::File(file) => file.path.display().fmt(f),
            task => f.write_str(task.name()),
        }
    }
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(given: &str) -> Result<TaskName, String> {
        if let Some(task) = built_in(given) {
            return Ok(task);
        }
        if given.ends_with(&format!(".{ENDING}")) || given.contains(['/', '\\']) {
            return TaskFile::new(given).map(TaskName::File);
        }
        let names: Vec<String> = TaskName::names().map(|name| format!("`{name}`")).collect();
        let meant = did_you_mean(given, TaskName::names());
        Err(format!(
            "unknown task `{given}`{meant}; expected one of {}, or a task file (NAME.{ENDING})",
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_name_or_a_file() {
        for name in TaskName::names() {
            let task: TaskName = name.parse().unwrap();
            assert_eq!((task.name(), task.to_string().as_str()), (name, name));
        }
        let file: TaskName = "tasks/my-task_2.toml".parse().unwrap();
        assert_eq!((file.name(), file.to_string().as_str()), ("my-task_2", "tasks/my-task_2.toml"));
        let TaskName::File(file) = file else { panic!("no file") };
        assert_eq!(file.clone().within(Path::new("/recipes")).path(), Path::new("/recipes/tasks/my-task_2.toml"));
        assert_eq!(file.within(Path::new("/recipes")).name, "my-task_2");
    }

    #[test]
    fn what_is_neither_is_refused() {
        let said = |given: &str| given.parse::<TaskName>().unwrap_err();
        assert!(said("chian").contains("(did you mean `chain`?)"), "{}", said("chian"));
        assert!(said("riddles").ends_with("or a task file (NAME.toml)"), "{}", said("riddles"));
        assert!(said("sub/gsm8k.toml").contains("would be called `gsm8k`"), "{}", said("sub/gsm8k.toml"));
        assert!(said("minerva_math500.toml").contains("here already"), "an alias is a name, too");
        assert!(said("my task.toml").contains("`my task` is no name"), "{}", said("my task.toml"));
        assert!(said("tasks/my.json").contains("must end in .toml"), "{}", said("tasks/my.json"));
        assert!(said(".toml").contains("must end in .toml"), "{}", said(".toml"));
    }
}
