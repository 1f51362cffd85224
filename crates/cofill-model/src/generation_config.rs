//! `generation_config.json`: how a checkpoint wants to be asked, when nobody says otherwise.
//!
//! Published checkpoints have this file for other engines, with temperatures and lengths that would change results without a word.
//! Nothing of that is taken. Only a section of our own counts:
//!
//! ```json
//! {"cofill": {"tasks": "mini", "length": 64, "paths_alpha": 25}}
//! ```
//!
//! A GGUF file has the section as the text of one key. The file is as untrusted as every other of a checkpoint: what the section may
//! hold is typed and bounded here, and what its texts mean is for whoever uses them to check.

use crate::config::MOST;
use crate::error::{Error, Result};
use crate::files;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;

pub(crate) const FILE: &str = "generation_config.json";

/// The name of our section.
const SECTION: &str = "cofill";

/// Bytes of the section in a GGUF file, whose texts may be as long as the file; a file of its own has the limit of every configuration.
const MOST_SECTION: usize = 4096;

/// Bytes of a text in the section: the name of a family of tasks.
const MOST_BYTES: usize = 256;

/// The largest strength of a discount that the sampler language knows.
const MOST_ALPHA: f64 = 1e9;

/// What a checkpoint says about how to ask it. Everything may be absent, and mostly is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GenerationDefaults {
    /// The family of tasks that it was made for; `mini` for the tiny models, whose answers have a length for each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
    /// How many tokens to generate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// The strength of `+paths:auto`, as `cofill calibrate` chose it for this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths_alpha: Option<f64>,
}

impl GenerationDefaults {
    /// Of a folder. Without the file, and without our section in it, there are none.
    pub(crate) fn load(dir: &Path) -> Result<GenerationDefaults> {
        let path = dir.join(FILE);
        let Some(text) = files::read(&path)? else { return Ok(GenerationDefaults::default()) };
        match parse(&text, &path)?.remove(SECTION) {
            None => Ok(GenerationDefaults::default()),
            Some(Value::Object(section)) => Section { path: &path, name: SECTION }.read(section),
            Some(_) => Err(malformed(&path, format!("`{SECTION}` is no JSON object; write `{{}}` for no defaults"))),
        }
    }

    /// Of the text that a GGUF file has for the section, under the key `name`.
    pub(crate) fn from_section(text: &str, path: &Path, name: &str) -> Result<GenerationDefaults> {
        if text.len() > MOST_SECTION {
            let problem = format!("`{name}` has {} bytes, but may have at most {MOST_SECTION}", text.len());
            return Err(malformed(path, problem));
        }
        Section { path, name }.read(parse(text, path)?)
    }

    /// The section as text, if there is anything in it.
    pub(crate) fn to_section(&self) -> Option<String> {
        if *self == GenerationDefaults::default() { None } else { serde_json::to_string(self).ok() }
    }
}

fn malformed(path: &Path, problem: String) -> Error {
    Error::Malformed { path: path.into(), problem }
}

fn parse(text: &str, path: &Path) -> Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(malformed(path, "the generation defaults are no JSON object".into())),
        Err(error) => Err(malformed(path, format!("the generation defaults are not JSON: {error}"))),
    }
}

/// Where the section is, for errors.
struct Section<'a> {
    path: &'a Path,
    name: &'a str,
}

impl Section<'_> {
    fn read(&self, section: Map<String, Value>) -> Result<GenerationDefaults> {
        let mut defaults = GenerationDefaults::default();
        for (key, value) in section {
            match key.as_str() {
                "tasks" => defaults.tasks = Some(self.text("tasks", value)?),
                "length" => defaults.length = Some(self.count("length", &value)?),
                "paths_alpha" => defaults.paths_alpha = Some(self.strength("paths_alpha", &value)?),
                _ => {
                    let key: String = key.chars().take(64).collect();
                    return Err(malformed(
                        self.path,
                        format!(
                            "`{}` has the key `{key}`, but may have only tasks, length and paths_alpha; take it out",
                            self.name
                        ),
                    ));
                }
            }
        }
        Ok(defaults)
    }

    fn text(&self, key: &str, value: Value) -> Result<String> {
        match value {
            Value::String(text) if (1..=MOST_BYTES).contains(&text.len()) => Ok(text),
            _ => Err(self.wrong(key, &format!("a text of 1 to {MOST_BYTES} bytes"))),
        }
    }

    fn count(&self, key: &str, value: &Value) -> Result<usize> {
        let count = value.as_u64().filter(|n| (1..=MOST).contains(n));
        count.map(|n| n as usize).ok_or_else(|| self.wrong(key, &format!("a whole number from 1 to {MOST}")))
    }

    fn strength(&self, key: &str, value: &Value) -> Result<f64> {
        let alpha = value.as_f64().filter(|alpha| (0.0..=MOST_ALPHA).contains(alpha));
        alpha.ok_or_else(|| self.wrong(key, &format!("a number from 0 to {MOST_ALPHA}")))
    }

    fn wrong(&self, key: &str, want: &str) -> Error {
        malformed(self.path, format!("`{key}` of `{}` must be {want}; correct it or take it out", self.name))
    }
}
