//! How a sweep stands, at one look: what is complete, who is at work.

use super::claim::{LEASE, holder};
use super::heartbeat::{Heartbeats, Holder};
use super::{Error, Sweep};
use std::collections::BTreeMap;

/// How far a sweep is, from the names of its files alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Points that there are.
    pub points: usize,
    /// Points of which nothing is left to do.
    pub complete: usize,
    /// Prompts of all points.
    pub prompts: usize,
    /// Prompts in units that are done.
    pub done: usize,
}

/// A worker that is alive, and what it has claimed and not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtWork {
    /// Who.
    pub holder: Holder,
    /// How many units.
    pub units: usize,
}

impl Sweep {
    /// How far it is.
    pub fn counts(&self) -> Result<Counts, Error> {
        let done = self.done()?;
        let mut counts = Counts::default();
        for planned in self.points()? {
            let finished = planned.units.iter().filter(|unit| done.contains(&unit.address));
            let (units, prompts) = finished.fold((0, 0), |(n, sum), unit| (n + 1, sum + unit.to - unit.from));
            counts.points += 1;
            counts.complete += usize::from(units == planned.units.len());
            counts.prompts += planned.docs();
            counts.done += prompts;
        }
        Ok(counts)
    }

    /// Every worker that is alive, in the order of their names.
    pub fn workers(&self) -> Result<Vec<AtWork>, Error> {
        let folder = self.dir().join("workers");
        let heartbeats = Heartbeats::new(&folder, LEASE);
        let mut workers = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
            let name = entry.map_err(Error::io(&folder))?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.')
                && let Some(holder) = heartbeats.holder(&name)?
            {
                workers.insert(name, AtWork { holder, units: 0 });
            }
        }
        let done = self.done()?;
        for planned in self.points()? {
            for unit in planned.units.iter().filter(|unit| !done.contains(&unit.address)) {
                if let Some(worker) = holder(self, unit)?.and_then(|worker| workers.get_mut(&worker)) {
                    worker.units += 1;
                }
            }
        }
        Ok(workers.into_values().collect())
    }
}
