//! From units to one file of results per operating point.

use super::{Error, Planned, Sweep};
use cofill_report::output::{self, Existing, Output};
use cofill_report::results::{self, Header, Record, Results, Totals, line};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many incomplete points an error names.
const NAMED: usize = 4;

/// How often, and after which pause, a merge tries again when somebody else is at the same file. `cofill eval` would be so for longer.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A point that was merged.
pub struct Merged {
    /// The point.
    pub planned: Planned,
    /// Its file.
    pub path: PathBuf,
    /// Its sums.
    pub totals: Totals,
    /// Units of an earlier version, which have no checksums and were taken as they are.
    pub unsealed: usize,
}

/// A point, and how many of its units are not done.
type Lacking = (Planned, usize);

impl Sweep {
    /// Writes a file for every point. A missing unit is an error before anything is written.
    pub fn merge(&self) -> Result<Vec<Merged>, Error> {
        let (complete, incomplete) = self.split()?;
        if incomplete.is_empty() {
            return complete.into_iter().map(|planned| self.merge_point(planned)).collect();
        }
        let missing = incomplete.iter().map(|(_, missing)| missing).sum();
        let all = complete.iter().chain(incomplete.iter().map(|(planned, _)| planned));
        let units = all.map(|planned| planned.units.len()).sum();
        let mut names: Vec<String> = incomplete
            .iter()
            .take(NAMED)
            .map(|(planned, missing)| format!("`{}` ({missing} of {})", planned.name, planned.units.len()))
            .collect();
        if let more @ 1.. = incomplete.len().saturating_sub(NAMED) {
            names.push(format!("and {more} more"));
        }
        Err(Error::Missing { dir: self.dir.clone(), missing, units, names })
    }

    /// Writes a file for every point that is complete. Gives how many are not.
    pub fn merge_complete(&self) -> Result<(Vec<Merged>, usize), Error> {
        let (complete, incomplete) = self.split()?;
        let merged: Result<_, _> = complete.into_iter().map(|planned| self.merge_point(planned)).collect();
        Ok((merged?, incomplete.len()))
    }

    /// Writes the files of those points that have been completed since their file was written, if it ever was. Gives how many.
    pub fn merge_news(&self) -> Result<usize, Error> {
        let news: Vec<Planned> = self.split()?.0.into_iter().filter(|planned| self.is_news(planned)).collect();
        let n = news.len();
        news.into_iter().try_for_each(|planned| self.merge_point(planned).map(drop))?;
        Ok(n)
    }

    /// Whether a point's file is missing, or older than one of its units.
    fn is_news(&self, planned: &Planned) -> bool {
        let time = |path: &Path| path.metadata().and_then(|there| there.modified()).ok();
        match time(&self.dir.join(format!("{}.jsonl", planned.name))) {
            None => true,
            merged => planned.units.iter().any(|unit| time(&self.done_path(unit)) > merged),
        }
    }

    /// Points that are complete, and the others with how much they lack.
    fn split(&self) -> Result<(Vec<Planned>, Vec<Lacking>), Error> {
        let done = self.done()?;
        let (mut complete, mut incomplete) = (Vec::new(), Vec::new());
        for planned in self.points()? {
            match planned.units.iter().filter(|unit| !done.contains(&unit.address)).count() {
                0 => complete.push(planned),
                missing => incomplete.push((planned, missing)),
            }
        }
        Ok((complete, incomplete))
    }

    fn merge_point(&self, planned: Planned) -> Result<Merged, Error> {
        let path = self.dir.join(format!("{}.jsonl", planned.name));
        let (mut makers, mut records): (Vec<Value>, Vec<Record>) = (Vec::new(), Vec::new());
        let mut unsealed = 0;
        for unit in &planned.units {
            let finished = self.finished(&planned, unit)?;
            if !makers.contains(&finished.header.made_by) {
                makers.push(finished.header.made_by);
            }
            records.extend(finished.records);
            unsealed += usize::from(!finished.is_sealed);
            self.tidy(unit);
        }
        // One machine made it as `cofill eval` would have; several are named side by side.
        let made_by = match makers.len() {
            1 => makers.remove(0),
            _ => json!({"several": makers}),
        };
        let header = Header { cofill_eval: results::VERSION, what: planned.what.clone(), made_by };
        let mut text = line(&header).map_err(Error::io(&path))?;
        let mut totals = Totals::default();
        for record in &records {
            text.extend(line(record).map_err(Error::io(&path))?);
            totals.add(record);
        }
        let mut tries = 0;
        loop {
            let existing = may_replace(&path, &planned, records.len())?;
            match put(&path, existing, &text) {
                // Others merge, too: the same records, and in a moment they are done.
                Err(output::Error::Exists { .. } | output::Error::Busy { .. }) if tries < TRIES => tries += 1,
                done => break done?,
            }
            std::thread::sleep(PAUSE);
        }
        Ok(Merged { planned, path, totals, unsealed })
    }
}

fn put(path: &Path, existing: Existing, text: &[u8]) -> Result<(), output::Error> {
    let mut output = Output::whole(path, existing)?;
    output.write_all(text).map_err(|source| output.failed(source))?;
    output.publish()
}

/// A merged file is made again by every merge; anything else under its name stays. So does one that somebody has continued.
fn may_replace(path: &Path, planned: &Planned, n: usize) -> Result<Existing, Error> {
    let problem = match Results::read(path) {
        Err(results::Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(Existing::Refuse),
        Err(error) => format!("is no merged point: {error}"),
        // A merge ends its last line; whatever follows is somebody else's.
        Ok(_) if std::fs::read(path).is_ok_and(|text| !text.ends_with(b"\n")) => {
            "does not end where a line does".into()
        }
        Ok((header, records)) => match results::difference(&header.what, &planned.what) {
            Some((field, there, here)) => format!("is another point: its {field} is {there}, and not {here}"),
            None if records.len() > n => format!("has {} records, and there are units for {n}", records.len()),
            None => return Ok(Existing::Replace),
        },
    };
    Err(Error::InTheWay { path: path.into(), problem })
}
