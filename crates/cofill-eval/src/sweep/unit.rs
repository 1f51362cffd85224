//! A unit of work, and how it is written down: in a part that belongs to one claim, then at once and whole among the done.

use super::seal::{Seal, unseal};
use super::{Error, Planned, Sweep, address};
use cofill_report::results::{self, Header, Record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

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
    file: File,
    seal: Seal,
    /// How many examples are in it.
    pub(super) n: usize,
}

impl Part {
    /// Begins where the last worker stopped. Its part is copied, not continued: it may be only slow, and still be writing.
    pub(super) fn begin(sweep: &Sweep, unit: &Unit, generation: usize, header: &Header) -> Result<Part, Error> {
        let path = |generation: usize| sweep.dir.join("parts").join(format!("{}.{generation}.unit", unit.address));
        let mut inherited: Vec<Record> = Vec::new();
        for earlier in 0..generation {
            let records = trusted(&path(earlier), unit.from);
            if records.len() > inherited.len() {
                inherited = records;
            }
        }
        let own = path(generation);
        let file = OpenOptions::new().write(true).create_new(true).open(&own).map_err(Error::io(&own))?;
        let mut part = Part { path: own, done: sweep.done_path(unit), file, seal: Seal::default(), n: 0 };
        part.line(header)?;
        part.append(&inherited)?;
        for earlier in 0..generation {
            std::fs::remove_file(path(earlier)).ok(); // what stays is in nobody's way
        }
        Ok(part)
    }

    /// Adds records, in order.
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        for record in records {
            self.line(record)?;
        }
        self.n += records.len();
        Ok(())
    }

    /// Puts it among the done, unless there is one already.
    pub(super) fn finish(self) -> Result<End, Error> {
        self.file.sync_all().map_err(Error::io(&self.path))?;
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

    /// A sealed line in one write, so that whoever stops us stops us between lines.
    fn line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let written = results::line(value).and_then(|line| self.file.write_all(&self.seal.seal(&line)));
        written.map_err(Error::io(&self.path))
    }
}

/// What an earlier worker left of a part, as far as it can be trusted; the rest is done again.
fn trusted(path: &Path, from: usize) -> Vec<Record> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = unseal(&text[..results::whole(&text)]).text;
    // One that cannot be read was cut before its first line was whole.
    results::parse(path, &text, from).map(|(_, records)| records).unwrap_or_default()
}

/// What a finished unit holds.
pub(super) struct Finished {
    pub(super) header: Header,
    pub(super) records: Vec<Record>,
    /// Whether it has checksums; units of earlier versions have none.
    pub(super) is_sealed: bool,
}

impl Sweep {
    /// What a unit that is done holds, checked against its sums and its plan.
    pub(super) fn finished(&self, planned: &Planned, unit: &Unit) -> Result<Finished, Error> {
        let path = self.done_path(unit);
        let damaged = |problem: String| Error::Unit { path: path.clone(), problem };
        let text = std::fs::read(&path).map_err(Error::io(&path))?;
        if results::whole(&text) != text.len() {
            return Err(damaged("ends in the middle of a line".into()));
        }
        let unsealed = unseal(&text);
        if let Some(line) = unsealed.wrong {
            return Err(damaged(format!("is damaged: line {line} does not match its checksum")));
        }
        let parsed = results::parse(&path, &unsealed.text, unit.from);
        let (header, records) = parsed.map_err(|error| damaged(format!("is damaged: {error}")))?;
        if let Some((field, there, here)) = results::difference(&header.what, &planned.what) {
            return Err(damaged(format!("has {field} {there}, and its point {here}")));
        }
        if records.len() != unit.to - unit.from {
            return Err(damaged(format!("has {} records instead of {}", records.len(), unit.to - unit.from)));
        }
        Ok(Finished { header, records, is_sealed: unsealed.is_sealed })
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
