//! What a worker keeps open: one model and one task at a time. Units are ordered so that each is opened once.

use super::{Planned, Runner, Waiting};
use crate::open::{self, Error, OpenTask, ResolvedRun};
use cofill_engine::Engine;
use cofill_model::LoadOptions;
use cofill_report::results::{Header, Record, difference};
use serde_json::Value;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a worker tells whoever shows its work.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// For whom it waits; nobody, when it waits no more.
    Waiting(&'a [Waiting]),
    /// An answer was made.
    Answered(&'a Record),
}

/// The models, tasks and points of a sweep, the last of each open.
pub struct OpenPoints<'a> {
    model: Option<((PathBuf, LoadOptions), (Engine, String))>,
    task: Option<(String, OpenTask)>,
    point: Option<OpenPoint>,
    made_by: Value,
    allow_command: bool,
    stop: Option<Arc<AtomicBool>>,
    tell: &'a mut dyn FnMut(Notice<'_>),
}

struct OpenPoint {
    name: String,
    docs: usize,
    run: ResolvedRun,
    header: Header,
}

impl<'a> OpenPoints<'a> {
    /// Nothing is open yet. `made_by` says who works ([`cofill_engine::provenance`]).
    pub fn new(made_by: Value, tell: &'a mut dyn FnMut(Notice<'_>)) -> OpenPoints<'a> {
        OpenPoints { model: None, task: None, point: None, made_by, allow_command: false, stop: None, tell }
    }

    /// Lets task files judge by commands of their own.
    pub fn allow_command(mut self, allowed: bool) -> OpenPoints<'a> {
        self.allow_command = allowed;
        self
    }

    /// While the flag is set, every forward fails: how another thread ends the work.
    pub fn stop_when(mut self, flag: Arc<AtomicBool>) -> OpenPoints<'a> {
        self.stop = Some(flag);
        self
    }

    /// Opens a point, and of its model and task what is not open yet.
    fn open(&mut self, planned: &Planned) -> Result<(&mut Engine, &OpenTask, &OpenPoint), Error> {
        // What was planned counts, whatever a later recipe wants.
        let mut point = planned.point.clone();
        point.questions.limit = NonZeroUsize::new(planned.docs());
        point.judges.allow_command = self.allow_command;
        let key = (point.place(), point.run.load());
        let (model, was_open) = match self.model.take() {
            Some((open, model)) if open == key => (model, true),
            other => {
                drop(other); // the memory of one before that of the next is asked for
                (open::engine(&point)?, false)
            }
        };
        let (engine, sha256) = &mut self.model.insert((key, model)).1;
        engine.stop_when(self.stop.clone());
        let key = OpenTask::key(&point);
        let (task, task_was_open) = match self.task.take() {
            Some((open, task)) if open == key => (task, true),
            _ => (OpenTask::open(&point)?, false),
        };
        let task = &self.task.insert((key, task)).1;
        let same = |open: &OpenPoint| open.name == planned.name && open.docs == planned.docs();
        let open = match self.point.take().filter(|open| was_open && task_was_open && same(open)) {
            Some(open) => open,
            None => {
                let run = ResolvedRun::new(&point, task, &engine.about()?)?;
                let header = run.header(sha256, &self.made_by);
                check(planned, &header)?;
                OpenPoint { name: planned.name.clone(), docs: planned.docs(), run, header }
            }
        };
        Ok((engine, task, self.point.insert(open)))
    }
}

impl Runner for OpenPoints<'_> {
    type Error = Error;

    fn header(&mut self, planned: &Planned) -> Result<Header, Error> {
        Ok(self.open(planned)?.2.header.clone())
    }

    fn batch(&mut self, planned: &Planned) -> Result<usize, Error> {
        Ok(open::batch(self.open(planned)?.0, planned.point.questions.batch))
    }

    fn run(&mut self, planned: &Planned, docs: Range<usize>) -> Result<Vec<Record>, Error> {
        let (engine, task, open) = self.open(planned)?;
        let records = open::ask(engine, task, &open.run, docs);
        let records = records.map_err(|error| Error::Point { name: planned.name.clone(), source: error.into() })?;
        records.iter().for_each(|record| (self.tell)(Notice::Answered(record)));
        Ok(records)
    }

    fn waiting(&mut self, holders: &[Waiting]) {
        (self.tell)(Notice::Waiting(holders));
    }
}

/// A point must mean here what it meant where it was planned: the same weights, data, judges.
fn check(planned: &Planned, here: &Header) -> Result<(), Error> {
    match difference(&planned.what, &here.what) {
        None => Ok(()),
        Some((field, there, here)) => Err(Error::Changed { name: planned.name.clone(), field, planned: there, here }),
    }
}
