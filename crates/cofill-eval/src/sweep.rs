//! A sweep: many operating points, cut into units of work that any number of workers do together.
//!
//! Everything is files in one folder, so that a laptop, a cluster with a shared disk and whatever scheduler it has work alike:
//!
//! | | |
//! |---|---|
//! | `points/NAME.json` | an operating point: what it is ([`Planned`]) and its units |
//! | `workers/ID` | a worker's heartbeat, rewritten while it lives ([`claim`]) |
//! | `claims/ADDRESS.N` | who does a unit; N counts the workers that died over it |
//! | `parts/ADDRESS.N.unit` | its records so far, every line with a checksum |
//! | `done/ADDRESS.unit` | its records, all of them |
//! | `NAME.jsonl` | a merged point, as `cofill eval --out` would have written it |
//!
//! **Addresses are contents.** A unit is called after a hash of everything that decides its records: the `what` of
//! [`Header`] and the range of examples. So planning twice changes nothing, planning more adds what is missing, and the
//! same unit cannot exist twice with different meanings.
//!
//! **Nothing is ever taken back.** A plan only adds; a claim is never removed but followed by the next; a unit appears in `done` whole
//! and once, by a link that refuses to replace. Whoever is killed, at any moment, leaves at most a part that the next one continues.

mod address;
pub mod claim;
mod estimate;
mod heartbeat;
mod merge;
mod plan;
mod runner;
mod seal;
mod status;
mod unit;
mod watch;
mod work;

pub use estimate::{Estimate, estimate};
pub use heartbeat::{Holder, State};
pub use merge::Merged;
pub use plan::{Places, plan};
pub use runner::{Notice, OpenPoints};
pub use status::{AtWork, Counts};
pub use unit::Unit;
pub use watch::{Progress, Watch};
pub use work::{Runner, Share, Waiting, WorkDone, Worker};

use crate::spec::EvalSpec;
use cofill::{Registry, SamplerSpec};
use cofill_report::output;
use cofill_report::results::Header;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The format of `points/*.json`; another number is another format.
pub(crate) const VERSION: u64 = 1;

/// A folder with a sweep in it.
#[derive(Debug, Clone)]
pub struct Sweep {
    dir: PathBuf,
    /// Whoever the plans name as samplers.
    registry: Registry,
}

/// An operating point and its units. `S` is a sampler as text while it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned<S = SamplerSpec> {
    cofill_sweep: u64,
    /// Its file, without folder and ending.
    #[serde(skip)]
    pub name: String,
    /// How to open it.
    pub point: EvalSpec<S>,
    /// What decides its records.
    pub what: Map<String, Value>,
    /// In the order of their examples, without gaps, from 0.
    pub units: Vec<Unit>,
}

/// What a plan changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Points that were not there.
    pub points: usize,
    /// Units that were not there.
    pub units: usize,
    /// Points that the plan names, new or not.
    pub named: usize,
}

/// How a sweep can say no.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a sweep.
    #[error("`{}` holds no sweep; plan one there first", .dir.display())]
    None {
        /// The folder.
        dir: PathBuf,
    },
    /// A file or folder of it.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A point's file.
    #[error("`{}` is no operating point of a sweep: {problem}; remove it and plan again", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A merged file cannot be written.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// Where a merged file belongs, there is something else.
    #[error("`{}` {problem}; move it elsewhere and merge again", .path.display())]
    InTheWay {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A unit's file is not what it was planned to be.
    #[error("`{}` {problem}; remove it and have it done again", .path.display())]
    Unit {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Units are not done.
    #[error("{missing} of {units} units are not done, in {}", names.join(", "))]
    Missing {
        /// The folder.
        dir: PathBuf,
        /// How many are missing.
        missing: usize,
        /// How many there are.
        units: usize,
        /// The first points that lack some, with how many.
        names: Vec<String>,
    },
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    }
}

impl Sweep {
    /// A sweep that is there, with samplers of ours.
    pub fn open(dir: &Path) -> Result<Sweep, Error> {
        match dir.join("points").is_dir() {
            true => Ok(Sweep { dir: dir.into(), registry: Registry::default() }),
            false => Err(Error::None { dir: dir.into() }),
        }
    }

    /// The same sweep, whose plans may name the samplers of `registry`.
    pub fn with_registry(self, registry: Registry) -> Sweep {
        Sweep { registry, ..self }
    }

    /// A sweep that may not be there yet.
    pub fn create(dir: &Path) -> Result<Sweep, Error> {
        for part in ["workers", "claims", "parts", "done", "points"] {
            let path = dir.join(part);
            std::fs::create_dir_all(&path).map_err(Error::io(&path))?;
        }
        Ok(Sweep { dir: dir.into(), registry: Registry::default() })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Plans a point: `docs` examples, cut into units of at most `size`. Of a point that is there already, only the examples that
    /// nobody has planned yet; its units stay as they are, so that what is done stays done.
    pub fn plan(&self, point: &EvalSpec, header: &Header, docs: usize, size: usize) -> Result<Added, Error> {
        let name = address::name(point, &header.what);
        let path = self.dir.join("points").join(format!("{name}.json"));
        let there = match path.exists() {
            true => Some(self.read(&path)?),
            false => None,
        };
        let is_new = there.is_none();
        let mut planned = there.unwrap_or_else(|| Planned {
            cofill_sweep: VERSION,
            name,
            point: point.clone(),
            what: header.what.clone(),
            units: Vec::new(),
        });
        let before = planned.units.len();
        planned.units.extend(unit::cut(&planned.what, planned.docs()..docs, size));
        let added = planned.units.len() - before;
        // What does not decide records may change: folders move, a batch was too large. The last plan knows best.
        if is_new || added > 0 || planned.point != *point {
            planned.point = point.clone();
            let text = serde_json::to_vec_pretty(&planned).map_err(std::io::Error::from).map_err(Error::io(&path))?;
            replace(&path, &text)?;
        }
        Ok(Added { points: usize::from(is_new), units: added, named: 1 })
    }

    /// Every point, those of one model and task together. All workers see the same order.
    pub fn points(&self) -> Result<Vec<Planned>, Error> {
        let folder = self.dir.join("points");
        let mut points = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let path = entry.map_err(Error::io(&folder))?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                points.push(self.read(&path)?);
            }
        }
        let key = |planned: &Planned| {
            let EvalSpec { model, run, task, .. } = &planned.point;
            let dtype = run.dtype.map(|dtype| dtype.to_string());
            (model.clone(), dtype, task.name(), planned.name.clone())
        };
        points.sort_by_cached_key(key);
        Ok(points)
    }

    /// The addresses of units that are done.
    pub fn done(&self) -> Result<HashSet<String>, Error> {
        let folder = self.dir.join("done");
        let mut done = HashSet::new();
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let name = entry.map_err(Error::io(&folder))?.file_name();
            done.extend(name.to_str().and_then(|name| name.strip_suffix(".unit")).map(str::to_owned));
        }
        Ok(done)
    }

    fn done_path(&self, unit: &Unit) -> PathBuf {
        self.dir.join("done").join(format!("{}.unit", unit.address))
    }
}

impl Planned {
    /// Examples that are planned.
    pub fn docs(&self) -> usize {
        self.units.last().map_or(0, |unit| unit.to)
    }
}

impl Sweep {
    /// A point's file, checked.
    fn read(&self, path: &Path) -> Result<Planned, Error> {
        let damaged = |problem: String| Error::Damaged { path: path.into(), problem };
        let text = std::fs::read(path).map_err(Error::io(path))?;
        let planned: Planned<String> = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let Planned { cofill_sweep, point, what, units, .. } = planned;
        if cofill_sweep != VERSION {
            return Err(damaged(format!("format {cofill_sweep}, but this program reads {VERSION}")));
        }
        let mut from = 0;
        for unit in &units {
            if unit.from != from || unit.to <= from || unit.address != address::unit(&what, unit.from..unit.to) {
                return Err(damaged(format!("unit {} is not of examples {from} and on of this point", unit.address)));
            }
            from = unit.to;
        }
        let point = point.resolve(&self.registry).map_err(|error| damaged(error.to_string()))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Planned { cofill_sweep, name, point, what, units })
    }
}

/// Writes a file so that readers see the old or the new one, never a half.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(Error::io(path))
}

#[cfg(test)]
mod tests;
