//! From units to one file of results per operating point.

use super::{Error, Planned, Sweep, replace};
use crate::results::{self, Header, Record, Totals};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How many incomplete points an error names.
const NAMED: usize = 4;

/// A point that was merged.
pub struct Merged {
    /// The point.
    pub planned: Planned,
    /// Its file.
    pub path: PathBuf,
    /// Its sums.
    pub totals: Totals,
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
        for unit in &planned.units {
            let (header, part) = self.records(&planned, unit)?;
            if !makers.contains(&header.made_by) {
                makers.push(header.made_by);
            }
            records.extend(part);
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
        replace(&path, &text)?;
        Ok(Merged { planned, path, totals })
    }
}

fn line(value: &impl serde::Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
