//! What a worker keeps open: one model and one task at a time. Units are ordered so that each is opened once.

use super::waiting::Waits;
use crate::fail::{Done, Fail};
use crate::model;
use crate::setup::{Asked, Ready, Settled};
use cofill_eval::recipe::Point;
use cofill_eval::sweep::{Planned, Runner, Waiting};
use cofill_report::results::{Header, Record, difference};
use std::ops::Range;
use std::path::PathBuf;

/// The models, tasks and points of a sweep, the last of each open.
pub(crate) struct Opened<'a> {
    model: Option<OpenModel>,
    task: Option<(String, Asked)>,
    point: Option<OpenPoint>,
    waits: &'a Waits,
}

struct OpenModel {
    key: (PathBuf, Option<String>, String),
    ready: Ready,
    sha256: String,
}

struct OpenPoint {
    name: String,
    docs: usize,
    settled: Settled,
    header: Header,
}

impl<'a> Opened<'a> {
    /// Nothing is open yet.
    pub(super) fn new(waits: &'a Waits) -> Opened<'a> {
        Opened { model: None, task: None, point: None, waits }
    }

    /// Opens a point, and of its model and task what is not open yet.
    fn open(&mut self, planned: &Planned) -> Done<(&mut Ready, &Asked, &OpenPoint)> {
        // What was planned counts, whatever a later recipe wants.
        let point = &Point { limit: Some(planned.docs()), ..planned.point.clone() };
        let key = (point.place(), point.dtype.clone(), point.device.clone());
        if self.model.as_ref().is_none_or(|open| open.key != key) {
            self.model = None; // the memory of one before that of the next is asked for
            let sha256 = model::checkpoint(&point.place())?.fingerprint()?;
            self.model = Some(OpenModel { key, ready: Ready::load(point)?, sha256 });
            self.point = None;
        }
        let key = Asked::key(point);
        if self.task.as_ref().is_none_or(|(open, _)| *open != key) {
            self.task = Some((key, Asked::open(point)?));
            self.point = None;
        }
        let (Some(OpenModel { ready, sha256, .. }), Some((_, asked))) = (&mut self.model, &self.task) else {
            return Err(Fail::request("neither model nor task is open")); // both are, just above
        };
        if self.point.as_ref().is_none_or(|open| open.name != planned.name || open.docs != planned.docs()) {
            let settled = Settled::new(point, asked, &ready.about())?;
            let header = settled.header(sha256);
            check(planned, &header)?;
            self.point = Some(OpenPoint { name: planned.name.clone(), docs: planned.docs(), settled, header });
        }
        match &self.point {
            Some(open) => Ok((ready, asked, open)),
            None => Err(Fail::request("no point is open")),
        }
    }
}

impl Runner for Opened<'_> {
    type Error = Fail;

    fn header(&mut self, planned: &Planned) -> Done<Header> {
        Ok(self.open(planned)?.2.header.clone())
    }

    fn batch(&mut self, planned: &Planned) -> Done<usize> {
        Ok(self.open(planned)?.0.batch(&planned.point))
    }

    fn run(&mut self, planned: &Planned, docs: Range<usize>) -> Done<Vec<Record>> {
        let (ready, asked, open) = self.open(planned)?;
        let records = asked.lend(open.settled.wrapper, |task| ready.ask(task, &open.settled.settings, docs));
        records.map_err(|fail| fail.about(&format!("point `{}`", planned.name)))
    }

    fn waiting(&mut self, holders: &[Waiting]) {
        self.waits.hear(holders);
    }
}

/// A point must mean here what it meant where it was planned: the same weights, data, judges.
fn check(planned: &Planned, here: &Header) -> Done<()> {
    match difference(&planned.what, &here.what) {
        None => Ok(()),
        Some((field, there, here)) => Err(Fail::request(format!(
            "`{}` was planned with {field} {there}, and here {field} is {here}; make it the same here, or plan again here",
            planned.name,
        ))),
    }
}
