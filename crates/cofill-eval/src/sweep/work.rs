//! A worker: claims units, runs them, and goes on until its share is done.

use super::claim::{Claim, Claims, Taken};
use super::heartbeat::Holder;
use super::unit::{End, Part};
use super::{Error, Planned, Sweep, Unit};
use cofill_report::results::{Header, Record};
use std::ops::Range;
use std::time::Duration;

/// How often a worker looks whether those it waits for are done or dead.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers questions. It may keep what it has opened: units of one model and task follow each other.
pub trait Runner {
    /// How it fails.
    type Error: From<Error>;
    /// What a unit's file begins with. An error if the point is not what it was when it was planned.
    fn header(&mut self, planned: &Planned) -> Result<Header, Self::Error>;
    /// How many questions of a point are best asked together.
    fn batch(&mut self, planned: &Planned) -> Result<usize, Self::Error>;
    /// Answers some questions of a point, in order.
    fn run(&mut self, planned: &Planned, docs: Range<usize>) -> Result<Vec<Record>, Self::Error>;
    /// Hears for whom the worker waits, as often as it looks; of nobody when it waits no more.
    fn waiting(&mut self, _holders: &[Waiting]) {}
}

/// Somebody who has what we wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub holder: Holder,
    /// How many units.
    pub units: usize,
    /// For how long already: the oldest of its claims.
    pub since: Duration,
}

/// Which units a worker does first, and whether it may leave when others are at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Everything.
    All,
    /// Every `of`-th unit, from `index` on.
    Part {
        /// Counted from 0.
        index: usize,
        /// How many there are.
        of: usize,
    },
    /// Where to begin, when nobody knows how many workers there are.
    From {
        /// Counted from 0.
        index: usize,
    },
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Units it finished.
    pub units: usize,
    /// Examples it ran.
    pub examples: usize,
    /// Units that it ran and others finished before.
    pub late: usize,
}

/// A worker of a sweep.
pub struct Worker<'a> {
    sweep: &'a Sweep,
    claims: Claims,
    share: Share,
}

impl Share {
    /// The order in which a worker looks at `n` units: its own first. A rank of 0 is its own.
    pub fn order(self, n: usize) -> Vec<(usize, usize)> {
        let rank = |i: usize| match self {
            Share::All => 0,
            Share::Part { index, of } => (i % of + of - index % of) % of,
            // Far from where the workers before it begin: multiples of the golden ratio spread evenly, however many there are.
            Share::From { index } => {
                let begin = ((index as f64 * 0.618_033_988_749_894_9).fract() * n as f64) as usize;
                usize::from(i < begin)
            }
        };
        let mut order: Vec<(usize, usize)> = (0..n).map(|i| (rank(i), i)).collect();
        order.sort_unstable();
        order
    }

    /// Whether a worker answers for the units of a rank: it does not leave before they are done.
    fn answers_for(self, rank: usize) -> bool {
        rank == 0 || !matches!(self, Share::Part { .. })
    }
}

impl<'a> Worker<'a> {
    /// Joins a sweep. Others take over what it holds when it has not been heard of for `lease`.
    pub fn new(sweep: &'a Sweep, share: Share, lease: Duration) -> Result<Worker<'a>, Error> {
        Ok(Worker { sweep, claims: Claims::new(sweep, lease)?, share })
    }

    /// Works until its share is done, by itself or by others. When its own units are done or taken, it helps with the rest.
    pub fn work<R: Runner>(&self, runner: &mut R) -> Result<WorkDone, R::Error> {
        let mut did = WorkDone::default();
        loop {
            // Read again each time: somebody may have planned more.
            let points = self.sweep.points()?;
            let units: Vec<(&Planned, &Unit)> =
                points.iter().flat_map(|planned| planned.units.iter().map(move |unit| (planned, unit))).collect();
            let done = self.sweep.done()?;
            let (mut claimed, mut taken, mut waiting) = (false, false, Vec::new());
            for (rank, i) in self.share.order(units.len()) {
                let (planned, unit) = units[i];
                if done.contains(&unit.address) || self.sweep.done_path(unit).exists() {
                    continue;
                }
                match self.claims.take(unit)? {
                    // It was finished between our look and our claim.
                    Taken::Ours(_) if self.sweep.done_path(unit).exists() => {}
                    Taken::Ours(claim) => {
                        runner.waiting(&[]);
                        self.run(runner, planned, unit, &claim, &mut did)?;
                        claimed = true;
                    }
                    Taken::Theirs { holder, since } if self.share.answers_for(rank) => {
                        taken = true;
                        holder.into_iter().for_each(|holder| add(&mut waiting, holder, since));
                    }
                    Taken::Theirs { .. } => {}
                }
            }
            runner.waiting(if claimed { &[] } else { &waiting });
            match (claimed, taken) {
                (true, _) => {}
                (false, true) => std::thread::sleep(PAUSE),
                (false, false) => return Ok(did),
            }
        }
    }

    fn run<R: Runner>(
        &self,
        runner: &mut R,
        planned: &Planned,
        unit: &Unit,
        claim: &Claim,
        did: &mut WorkDone,
    ) -> Result<(), R::Error> {
        let header = runner.header(planned)?;
        let batch = runner.batch(planned)?.max(1);
        let mut part = Part::begin(self.sweep, unit, claim.generation, &header)?;
        while unit.from + part.n < unit.to {
            if !claim.is_ours() {
                part.abandon();
                did.late += 1;
                return Ok(());
            }
            let from = unit.from + part.n;
            let records = runner.run(planned, from..unit.to.min(from + batch))?;
            did.examples += records.len();
            part.append(&records)?;
        }
        match part.finish()? {
            End::Done => did.units += 1,
            End::Late => did.late += 1,
        }
        Ok(())
    }
}

/// One more unit that somebody has.
fn add(waiting: &mut Vec<Waiting>, holder: Holder, since: Duration) {
    match waiting.iter_mut().find(|known| known.holder.worker == holder.worker) {
        Some(known) => {
            known.units += 1;
            known.since = known.since.max(since);
        }
        None => waiting.push(Waiting { holder, units: 1, since }),
    }
}
