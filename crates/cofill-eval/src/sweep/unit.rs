//! A unit of work, and how it is written down: in a part that belongs to one claim, then at once and whole among the done.

use super::{Error, Planned, Sweep, address};
use crate::results::{Header, Record, Results};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;

/// Some examples of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// A hash of everything that decides its records.
    pub address: String,
    /// Its first example.
    pub from: usize,
    /// The first that is not its own.
    pub to: usize,
}

/// Units of at most `size` examples, none much smaller than the others.
pub(super) fn cut(what: &Map<String, Value>, docs: Range<usize>, size: usize) -> Vec<Unit> {
    let units = docs.len().div_ceil(size.max(1));
    let size = docs.len().div_ceil(units.max(1)).max(1);
    let unit = |from: usize| {
        let to = docs.end.min(from + size);
        Unit { address: address::unit(what, from..to), from, to }
    };
    docs.clone().step_by(size).map(unit).collect()
}

/// What became of a unit at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Done, by us.
    Done,
    /// Somebody else was faster; ours is thrown away.
    Late,
}

/// A unit that is being written. Nobody else writes this file: its name has the number of the claim.
pub(super) struct Part {
    path: PathBuf,
    done: PathBuf,
    results: Results,
    /// How many examples are in it.
    pub(super) n: usize,
}

impl Part {
    /// Begins where the last worker stopped. Its part is copied, not continued: it may be only slow, and still be writing.
    pub(super) fn begin(sweep: &Sweep, unit: &Unit, generation: usize, header: &Header) -> Result<Part, Error> {
        let path = |generation: usize| sweep.dir.join("parts").join(format!("{}.{generation}.unit", unit.address));
        let mut inherited: Vec<Record> = Vec::new();
        for earlier in 0..generation {
            // One that cannot be read was cut before its first line was whole; its examples are done again.
            if let Ok((_, records)) = Results::read_from(&path(earlier), unit.from)
                && records.len() > inherited.len()
            {
                inherited = records;
            }
        }
        let own = path(generation);
        let mut results = Results::create(&own, header)?;
        for record in &inherited {
            results.append(record)?;
        }
        for earlier in 0..generation {
            std::fs::remove_file(path(earlier)).ok(); // what stays is in nobody's way
        }
        Ok(Part { path: own, done: sweep.done_path(unit), results, n: inherited.len() })
    }

    /// Adds records, in order.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        for record in records {
            self.results.append(record)?;
        }
        self.n += records.len();
        Ok(())
    }

    /// Puts it among the done, unless there is one already.
    pub(super) fn finish(self) -> Result<End, Error> {
        self.results.sync()?;
        let linked = match std::fs::hard_link(&self.path, &self.done) {
            // File systems without links: a rename may replace, but only by the same records.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                match self.done.exists() {
                    true => Err(ErrorKind::AlreadyExists.into()),
                    false => std::fs::rename(&self.path, &self.done),
                }
            }
            linked => linked,
        };
        std::fs::remove_file(&self.path).ok();
        match linked {
            Ok(()) => Ok(End::Done),
            // There is one, or our part was copied and removed by whoever took over.
            Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(End::Late),
            Err(error) => Err(Error::io(&self.done)(error)),
        }
    }

    /// Leaves it to whoever took over.
    pub(super) fn abandon(self) {
        std::fs::remove_file(&self.path).ok();
    }
}

impl Sweep {
    /// The header and the records of a unit that is done, checked against its plan.
    pub(super) fn records(&self, planned: &Planned, unit: &Unit) -> Result<(Header, Vec<Record>), Error> {
        let path = self.done_path(unit);
        let (header, records) = Results::read_from(&path, unit.from)?;
        let problem = match crate::results::difference(&header.what, &planned.what) {
            Some((field, there, here)) => Some(format!("has {field} {there}, and its point {here}")),
            None if records.len() != unit.to - unit.from => {
                Some(format!("has {} records instead of {}", records.len(), unit.to - unit.from))
            }
            None => None,
        };
        match problem {
            Some(problem) => Err(Error::Unit { path, problem }),
            None => Ok((header, records)),
        }
    }

    /// Removes parts of units that are done: what a worker leaves that is killed between its last two steps.
    pub(super) fn tidy(&self, unit: &Unit) {
        let mut generation = 0;
        while self.dir.join("claims").join(format!("{}.{generation}", unit.address)).is_symlink() {
            std::fs::remove_file(self.dir.join("parts").join(format!("{}.{generation}.unit", unit.address))).ok();
            generation += 1;
        }
    }
}
