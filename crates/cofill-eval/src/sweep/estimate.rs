//! What a recipe would plan, and how long it would take here: nothing of the sweep is written.
//!
//! Each model and task is tried for two forwards. Where a whole answer is then a matter of seconds, each point answers a few prompts, which gives
//! its real time; elsewhere one position a forward is assumed, which is the most that a sampler without extra forwards needs.

use super::plan::{Places, plan};
use super::{Added, Planned, Sweep};
use crate::open::{self, Error, OpenTask, ResolvedRun};
use crate::recipe::Recipe;
use crate::spec::EvalSpec;
use cofill::Registry;
use cofill_engine::Engine;
use serde_json::Value;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// An answer that may take longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// When that was spent on trying points, the rest is taken to be like those that were tried.
const TRYING: Duration = Duration::from_secs(30);
/// Forwards of a first look. The first of a model reads its weights from the disk, so it takes two to know what one costs.
const LOOK: usize = 2;

/// What a plan would do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// What it would add.
    pub added: Added,
    /// Prompts that are left to answer, of all points in the folder.
    pub prompts: usize,
    /// Points that have some.
    pub points: usize,
    /// Of these, how many were tried.
    pub tried: usize,
    /// Seconds of one worker on this machine.
    pub seconds: f64,
    /// Whether that is the most it can be rather than what was measured.
    pub is_bound: bool,
}

/// A folder that goes when this does.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, super::Error> {
        static SCRATCHES: AtomicUsize = AtomicUsize::new(0);
        let n = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cofill-dry-run-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).map_err(super::Error::io(&path))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // the system's own temporary folder is tidied by others, too
    }
}

/// Plans a recipe beside the sweep in `dir`, if there is one, and tries what it would have to do.
pub fn estimate(
    recipe: &Recipe,
    dir: &Path,
    places: &Places,
    (registry, made_by): (&Registry, &Value),
    warn: &mut dyn FnMut(&str),
) -> Result<Estimate, Error> {
    // What is planned there already stays as it is, so a plan on top of a copy adds what one on top of the original would.
    let scratch = Scratch::new()?;
    let there = Sweep::open(dir).ok();
    let copy = Sweep::create(&scratch.0)?;
    if let Some(there) = &there {
        for planned in there.points()? {
            let name = format!("points/{}.json", planned.name);
            let (from, to) = (there.dir().join(&name), copy.dir().join(&name));
            std::fs::copy(&from, to).map_err(super::Error::io(&from))?;
        }
    }
    let added = plan(recipe, &scratch.0, places, (registry, made_by), warn)?;
    let done = there.map(|there| there.done()).transpose()?.unwrap_or_default();
    let left = |planned: &Planned| -> usize {
        let units = planned.units.iter().filter(|unit| !done.contains(&unit.address));
        units.map(|unit| unit.to - unit.from).sum()
    };
    let points = copy.with_registry(registry.clone()).points()?.into_iter();
    let points = points.map(|planned| {
        let left = left(&planned);
        (planned, left)
    });
    let points: Vec<(Planned, usize)> = points.filter(|(_, left)| *left > 0).collect();
    let tried = try_out(&points)?;
    Ok(Estimate {
        added,
        prompts: points.iter().map(|(_, left)| left).sum(),
        points: points.len(),
        tried: tried.iter().filter(|tried| tried.is_measured).count(),
        seconds: points.iter().zip(&tried).map(|((_, left), tried)| *left as f64 * tried.seconds).sum(),
        is_bound: tried.iter().any(|tried| tried.is_bound),
    })
}

/// What a prompt of a point takes.
#[derive(Clone, Copy)]
struct Tried {
    seconds: f64,
    is_measured: bool,
    is_bound: bool,
}

/// A prompt of every point. Points come in the order of their models and tasks, so that each is opened once.
fn try_out(points: &[(Planned, usize)]) -> Result<Vec<Tried>, Error> {
    let begun = Instant::now();
    let mut all: Vec<Tried> = Vec::with_capacity(points.len());
    let mut open: Option<(String, Trial)> = None;
    // By model and task: what those that were measured took.
    let mut known: HashMap<String, Vec<f64>> = HashMap::new();
    for (planned, _) in points {
        let point = EvalSpec {
            questions: crate::spec::TaskOptions {
                limit: NonZeroUsize::new(planned.docs()),
                ..planned.point.questions.clone()
            },
            ..planned.point.clone()
        };
        let key = format!("{:?} {:?} {}", point.place(), point.run.load(), OpenTask::key(&point));
        let before = known.entry(key.clone()).or_default();
        if begun.elapsed() > TRYING && !before.is_empty() {
            let seconds = before.iter().sum::<f64>() / before.len() as f64;
            all.push(Tried { seconds, is_measured: false, is_bound: false });
            continue;
        }
        let trial = match open.take() {
            Some((name, trial)) if name == key => trial,
            other => {
                drop(other); // the memory of one before that of the next is asked for
                Trial::open(&point)?
            }
        };
        let (key, trial) = open.insert((key, trial));
        let tried = trial.run(&point)?;
        if !tried.is_bound {
            known.entry(key.clone()).or_default().push(tried.seconds);
        }
        all.push(tried);
    }
    Ok(all)
}

/// A model and a task, open.
struct Trial {
    engine: Engine,
    task: OpenTask,
}

impl Trial {
    fn open(point: &EvalSpec) -> Result<Trial, Error> {
        let task = OpenTask::open(point)?;
        Ok(Trial { engine: open::engine(point)?.0, task })
    }

    fn run(&mut self, point: &EvalSpec) -> Result<Tried, Error> {
        let mut look = point.clone();
        look.run.max_nfe = Some(LOOK);
        let n = open::batch(&self.engine, point.questions.batch).clamp(1, self.task.docs(point).max(1));
        let (seconds, length) = self.ask(&look, n)?;
        let most = seconds / LOOK as f64 * length as f64;
        if most > PATIENCE.as_secs_f64() {
            return Ok(Tried { seconds: most / n as f64, is_measured: true, is_bound: true });
        }
        let (seconds, _) = self.ask(point, n)?;
        Ok(Tried { seconds: seconds / n as f64, is_measured: true, is_bound: false })
    }

    /// Answers the first `n` prompts; the seconds that took, and the positions of an answer.
    fn ask(&mut self, point: &EvalSpec, n: usize) -> Result<(f64, usize), Error> {
        let run = ResolvedRun::new(point, &self.task, &self.engine.about()?)?;
        let begun = Instant::now();
        open::ask(&mut self.engine, &self.task, &run, 0..n)?;
        Ok((begun.elapsed().as_secs_f64(), run.settings.length))
    }
}
