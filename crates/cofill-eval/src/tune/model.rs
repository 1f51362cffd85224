//! A model that answers: candidates opened, prompts parted, answers kept in files.
//!
//! A [`Plan`] is made before anything is asked: which samplers, which prompts, how many. [`Plan::search`] has the model answer. Every
//! candidate's answers are a file of results as evaluations write them, if there is a [`Folder`]; whatever stops a search, the same one goes on
//! from its files to the same end.

mod folder;
mod plan;
mod worker;

pub use folder::Folder;
pub use plan::{Plan, Request, Which};

use super::{Answer, Answers, Event, Job, Outcome, Part, search};
use crate::open;
use cofill_engine::Engine;
use cofill_report::results::{self, Record};
use cofill_report::{output, plot};
use cofill_tasks::mini::Split;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use worker::{Kept, Tasks};

/// Why a search cannot be made or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The task or the model.
    #[error(transparent)]
    Open(#[from] open::Error),
    /// A sampler that cannot be read.
    #[error("{0}")]
    Sampler(String),
    /// A sampler that the user named and this model cannot run.
    #[error("`{sampler}`: {source}")]
    Candidate {
        /// As it is written.
        sampler: String,
        /// What it lacks.
        source: Box<open::Error>,
    },
    /// Nobody to try.
    #[error("no candidate is left; {left_out} of the samplers cannot run here, and all others are excluded")]
    Nobody {
        /// How many this model cannot run.
        left_out: usize,
    },
    /// Something excluded that is not there.
    #[error(
        "`{pattern}` excludes nobody; give the name of a sampler (`demask`), a discount (`+paths`) or a candidate (`topk:4+ad`)"
    )]
    ExcludesNobody {
        /// As it was given.
        pattern: String,
    },
    /// Too little to choose and confirm with.
    #[error("{task} has {most} prompts, and choosing and confirming take at least {least}")]
    TooFewPrompts {
        /// The task.
        task: String,
        /// How many it has.
        most: usize,
        /// How many it takes.
        least: usize,
    },
    /// Too little in one of the files that a task file names.
    #[error(
        "{task} has {most} {split} rows (that did not choose, if they are to confirm), and choosing and confirming take at least {least} each"
    )]
    TooFewRows {
        /// The task.
        task: String,
        /// Which of its rows.
        split: Split,
        /// How many there are.
        most: usize,
        /// How many it takes.
        least: usize,
    },
    /// More than one at a time would change what seconds are.
    #[error("a budget of seconds is measured one answer at a time, and {jobs} jobs were asked for")]
    SecondsTogether {
        /// As given.
        jobs: usize,
    },
    /// The folder holds another search.
    #[error("`{}` holds another search: its {field} is {there}, and now {field} is {here}", dir.display())]
    Another {
        /// The folder.
        dir: PathBuf,
        /// The first field that differs.
        field: String,
        /// In the folder.
        there: Value,
        /// Now.
        here: Value,
    },
    /// The folder's plan cannot be read.
    #[error("`{}` is no plan of a search: {problem}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Somebody asked to stop; what was answered is kept.
    #[error("interrupted after {answers} answers")]
    Interrupted {
        /// How many there are, of all candidates.
        answers: usize,
    },
    /// A file of answers.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// A file of the folder.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// The figure.
    #[error(transparent)]
    Plot(#[from] plot::Error),
    /// A number that JSON cannot hold.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// An answer, for whoever watches.
#[derive(Debug)]
pub struct Answered<'a> {
    /// Who answered.
    pub sampler: &'a str,
    /// Which prompts.
    pub part: Part,
    /// The answer.
    pub record: &'a Record,
}

/// How a search is watched, hurried and stopped. None of it changes an answer.
pub struct Run<'a> {
    /// Where answers are kept.
    pub folder: Option<&'a Folder>,
    /// Candidates that are asked at the same time, each with a model of its own in memory.
    pub jobs: usize,
    /// How long it may take.
    pub time: Option<Duration>,
    /// While set, every forward fails.
    pub stop: Arc<AtomicBool>,
    /// Who runs this ([`cofill_engine::provenance`]).
    pub made_by: Value,
    /// Told of every rung.
    pub tell: &'a mut dyn FnMut(Event<'_>),
    /// Told of every answer that was made, from any thread.
    pub answered: &'a (dyn Fn(Answered<'_>) + Sync),
}

impl Plan {
    /// Searches and confirms with the model.
    pub fn search(&self, run: Run<'_>) -> Result<Outcome, Error> {
        let Run { folder, jobs, time, stop, made_by, tell, answered } = run;
        if jobs > 1 && matches!(self.budget, cofill_report::tuned::Budget::Seconds(_)) {
            return Err(Error::SecondsTogether { jobs });
        }
        let begun = Instant::now();
        let n = self.field.samplers.len();
        let kept = || (0..n).map(|_| Mutex::new(Kept::default())).collect();
        let shared = Shared { plan: self, folder, begun, stop, made_by, answered, kept: [kept(), kept()] };
        let engines = (0..jobs.max(1)).map(|_| None).collect();
        let mut answers = ModelAnswers { shared, engines, tasks: None };
        search(&self.field, self.budget, &self.protocol, time, &mut answers, tell)
    }
}

/// What all workers see, and what they have answered.
struct Shared<'a> {
    plan: &'a Plan,
    folder: Option<&'a Folder>,
    begun: Instant,
    stop: Arc<AtomicBool>,
    made_by: Value,
    answered: &'a (dyn Fn(Answered<'_>) + Sync),
    /// Of both parts, by candidate.
    kept: [Vec<Mutex<Kept>>; 2],
}

/// Models that answer.
struct ModelAnswers<'a> {
    shared: Shared<'a>,
    /// One for each worker, opened when it is needed.
    engines: Vec<Option<Engine>>,
    /// Of the only worker; judges do not change threads, so several open theirs for every rung.
    tasks: Option<Tasks>,
}

impl Shared<'_> {
    /// Does jobs until there are none.
    fn work(
        &self,
        engine: &mut Option<Engine>,
        tasks: &mut Option<Tasks>,
        jobs: &[Job],
        next: &AtomicUsize,
    ) -> Result<(), Error> {
        loop {
            let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            let mut kept = lock(&self.kept[job.part as usize][job.candidate]);
            if engine.is_none() {
                *engine = Some(worker::engine(self.plan, self.stop.clone())?);
            }
            if tasks.is_none() {
                *tasks = Some(Tasks::open(self.plan)?);
            }
            let (Some(engine), Some(tasks)) = (engine.as_mut(), tasks.as_ref()) else { return Ok(()) };
            let done = self.answer(engine, tasks, job, &mut kept);
            // A forward that was told to stop fails; that is no failure.
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted { answers: 0 });
            }
            done?;
        }
    }
}

/// A thread that panicked has not left half an answer: they are pushed whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers for ModelAnswers<'_> {
    type Error = Error;

    fn answers(&mut self, jobs: &[Job]) -> Result<Vec<Vec<Answer>>, Error> {
        let next = &AtomicUsize::new(0);
        let ModelAnswers { shared, engines, tasks } = self;
        let shared = &*shared;
        let done: Vec<Result<(), Error>> = match engines.as_mut_slice() {
            [engine] => vec![shared.work(engine, tasks, jobs, next)],
            engines => std::thread::scope(|scope| {
                let work = |engine| scope.spawn(move || shared.work(engine, &mut None, jobs, next));
                let handles: Vec<_> = engines.iter_mut().map(work).collect();
                let joined = |handle: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                handles.into_iter().map(joined).collect()
            }),
        };
        if shared.stop.load(Ordering::Relaxed) {
            let answers = shared.kept.iter().flatten().map(|kept| lock(kept).answers.len()).sum();
            return Err(Error::Interrupted { answers });
        }
        done.into_iter().collect::<Result<(), Error>>()?;
        let of = |job: &Job| {
            let kept = lock(&shared.kept[job.part as usize][job.candidate]);
            kept.answers[..kept.answers.len().min(job.prompts)].to_vec()
        };
        Ok(jobs.iter().map(of).collect())
    }

    fn elapsed(&self) -> Duration {
        self.shared.begun.elapsed()
    }
}
