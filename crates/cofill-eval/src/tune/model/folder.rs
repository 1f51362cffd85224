//! Where a search is kept: its plan, every candidate's answers, and at the end what came of it.
//!
//! | | |
//! |---|---|
//! | `plan.json` | what is searched: a folder with another plan is left alone |
//! | `choose/SAMPLER.jsonl` | answers of the search, as evaluations write them |
//! | `confirm/SAMPLER.jsonl` | answers of the confirmation |
//! | `tune.md`, `tune.html`, `tune.json`, `figures/` | the outcome |

use super::Error;
use crate::tune::Part;
use cofill_report::document::{html, markdown};
use cofill_report::output::{self, Existing};
use cofill_report::results::difference;
use cofill_report::tuned::{Tuned, VERSION};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const PLAN: &str = "plan.json";

/// What is searched.
#[derive(Debug, Serialize, Deserialize)]
struct Planned {
    cofill_tune: u64,
    what: Map<String, Value>,
    made_by: Value,
}

/// A folder with a search in it.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    is_new: bool,
}

impl Folder {
    /// Opens a folder for a search, or goes on with the same search in it. With [`Existing::Replace`] the search begins again, whatever was there.
    pub fn open(dir: &Path, what: &Map<String, Value>, made_by: &Value, existing: Existing) -> Result<Folder, Error> {
        let path = dir.join(PLAN);
        let there = read(&path)?;
        let is_new = match (&there, existing) {
            (Some(there), Existing::Refuse) => {
                if let Some((field, there, here)) = difference(&there.what, what) {
                    return Err(Error::Another { dir: dir.into(), field, there, here });
                }
                false
            }
            (Some(there), Existing::Replace) => {
                remove_answers(dir, there);
                true
            }
            (None, _) => {
                // What is in the way is said now, and not after an hour.
                for file in ["tune.md", "tune.html", "tune.json", "figures/tune.svg", "figures/tune.png"] {
                    output::check(&dir.join(file), existing)?;
                }
                true
            }
        };
        for part in [Part::Choose, Part::Confirm] {
            let folder = dir.join(name(part));
            std::fs::create_dir_all(&folder).map_err(|source| output::Error::Io { path: folder, source })?;
        }
        if is_new {
            let planned = Planned { cofill_tune: VERSION, what: what.clone(), made_by: made_by.clone() };
            let text = serde_json::to_string_pretty(&planned)? + "\n";
            output::write_all(dir, [(PLAN, text.as_bytes())], Existing::Replace)?;
        }
        Ok(Folder { dir: dir.into(), is_new })
    }

    /// Whether nothing in it is to be continued.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Where the answers of a sampler are.
    pub(super) fn answers(&self, part: Part, sampler: &str) -> PathBuf {
        answers(&self.dir, part, sampler)
    }

    /// Writes the outcome. An older one of this search is replaced.
    pub fn write(&self, tuned: &Tuned) -> Result<(), Error> {
        let document = tuned.document();
        let drawn = document.draw()?;
        let names: Vec<&str> = drawn.iter().map(|figure| figure.name.as_str()).collect();
        let mut files: Vec<(String, Vec<u8>)> = vec![
            ("tune.md".into(), markdown::with_figures(&document.blocks, &names).into()),
            ("tune.html".into(), html::page(&document.blocks, &drawn).into()),
            ("tune.json".into(), (serde_json::to_string_pretty(&tuned.json()?)? + "\n").into()),
        ];
        for figure in &drawn {
            files.push((format!("figures/{}.svg", figure.name), figure.drawn.svg.clone().into()));
            files.push((format!("figures/{}.png", figure.name), figure.drawn.png.clone()));
        }
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        output::write_all(&self.dir, files, Existing::Replace)?;
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<Planned>, Error> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(output::Error::Io { path: path.into(), source }.into()),
    };
    let bad = |problem: String| Error::Plan { path: path.into(), problem };
    let planned: Planned = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    match planned.cofill_tune == VERSION {
        true => Ok(Some(planned)),
        false => Err(bad(format!("format {}, but this program reads {VERSION}", planned.cofill_tune))),
    }
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Choose => "choose",
        Part::Confirm => "confirm",
    }
}

/// Samplers differ in more than the signs that a file name cannot have.
fn answers(dir: &Path, part: Part, sampler: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-+=".contains(c) { c } else { '_' };
    dir.join(name(part)).join(format!("{}.jsonl", sampler.chars().map(plain).collect::<String>()))
}

/// Removes the answers of a search that is begun again: those files that its plan names, and no other.
fn remove_answers(dir: &Path, planned: &Planned) {
    let samplers: HashSet<&str> = planned
        .what
        .get("samplers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for sampler in samplers {
        for part in [Part::Choose, Part::Confirm] {
            // One that was never asked has none.
            let _ = std::fs::remove_file(answers(dir, part, sampler));
        }
    }
}
