//! How far a sweep is, for whoever looks on: a reader of the folder, so it sees the work of every machine.

use super::{Error, Planned, Sweep, Unit};
use cofill_report::results::Totals;
use std::collections::HashSet;

/// Follows a sweep.
pub struct Watch<'a> {
    sweep: &'a Sweep,
    seen: HashSet<String>,
    /// Every point, in the order of [`Sweep::points`].
    pub points: Vec<Progress>,
}

/// How far a point is.
pub struct Progress {
    /// The point.
    pub planned: Planned,
    /// Units that are done.
    pub done: usize,
    /// Sums over them.
    pub totals: Totals,
}

impl Progress {
    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.done == self.planned.units.len()
    }
}

impl<'a> Watch<'a> {
    /// Begins with what is done already.
    pub fn new(sweep: &'a Sweep) -> Result<Watch<'a>, Error> {
        let progress = |planned| Progress { planned, done: 0, totals: Totals::default() };
        let points = sweep.points()?.into_iter().map(progress).collect();
        let mut watch = Watch { sweep, seen: HashSet::new(), points };
        watch.look()?;
        Ok(watch)
    }

    /// Looks again. Gives the points that are complete now and were not before, by their place in [`Watch::points`].
    pub fn look(&mut self) -> Result<Vec<usize>, Error> {
        let done = self.sweep.done()?;
        let mut completed = Vec::new();
        for (i, progress) in self.points.iter_mut().enumerate() {
            let was_complete = progress.is_complete();
            for unit in &progress.planned.units {
                if done.contains(&unit.address) && self.seen.insert(unit.address.clone()) {
                    let finished = self.sweep.finished(&progress.planned, unit)?;
                    finished.records.iter().for_each(|record| progress.totals.add(record));
                    progress.done += 1;
                }
            }
            if progress.is_complete() && !was_complete {
                completed.push(i);
            }
        }
        Ok(completed)
    }

    /// Whether a unit was done when we last looked.
    pub fn is_done(&self, unit: &Unit) -> bool {
        self.seen.contains(&unit.address)
    }

    /// Examples that are done, and that there are.
    pub fn examples(&self) -> (usize, usize) {
        let sum = |of: fn(&Progress) -> usize| self.points.iter().map(of).sum();
        (sum(|progress| progress.totals.n), sum(|progress| progress.planned.docs()))
    }

    /// Points that are complete.
    pub fn complete(&self) -> usize {
        self.points.iter().filter(|progress| progress.is_complete()).count()
    }
}
