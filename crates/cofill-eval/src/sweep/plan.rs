//! A recipe becomes units of work.

use super::{Added, Sweep};
use crate::open::{Error, OpenTask, ResolvedRun};
use crate::recipe::Recipe;
use crate::spec::EvalSpec;
use cofill::Registry;
use cofill_engine::{About, Engine};
use cofill_report::results::Header;
use cofill_tasks::TaskName;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Where things are on this machine, and how much of them is wanted. None of it changes a record.
#[derive(Debug, Clone)]
pub struct Places {
    /// The folder with the checkpoints that the recipe names.
    pub models: PathBuf,
    /// The folder with the data files of benchmarks.
    pub data: Option<PathBuf>,
    /// At most so many questions of each task, whatever the recipe says.
    pub limit: Option<NonZeroUsize>,
    /// Questions in a unit of work, at most.
    pub unit: usize,
    /// Whether task files may judge by commands of their own. Planning starts none; it is asked again when work begins.
    pub allow_command: bool,
}

/// Plans every point of a recipe in a folder. All of them are opened before anything is written, so that a wrong recipe leaves nothing
/// behind. `warn` hears what a reader of the scores must know.
pub fn plan(
    recipe: &Recipe,
    dir: &Path,
    places: &Places,
    (registry, made_by): (&Registry, &Value),
    warn: &mut dyn FnMut(&str),
) -> Result<Added, Error> {
    let mut cache = PlanCache::default();
    let mut points = Vec::new();
    for point in &recipe.points {
        let mut point = point.clone();
        point.questions.limit = [point.questions.limit, places.limit].into_iter().flatten().min();
        point.models = Some(places.models.clone());
        point.data = places.data.clone();
        point.judges.allow_command = places.allow_command;
        if let TaskName::File(file) = &point.task {
            // A plan means the same from everywhere: workers start where a scheduler wants them to.
            if let Ok(here) = std::env::current_dir() {
                point.task = TaskName::File(file.clone().within(&here));
            }
        }
        // Plans, headers and addresses have the number: what `auto` means may change, a plan may not.
        if point.sampler.discount().is_some_and(|discount| discount.auto) {
            let checkpoint =
                Engine::checkpoint_at(&point.place()).map_err(|error| recipe.model(&point.model, error))?;
            point.sampler = cofill_engine::settle(&point.sampler, &checkpoint)?;
        }
        let (header, docs) = cache.open(&point, recipe, made_by, warn)?;
        points.push((point, header, docs));
    }
    let sweep = Sweep::create(dir)?.with_registry(registry.clone());
    let mut sum = Added::default();
    for (point, header, docs) in points {
        let added = sweep.plan(&point, &header, docs, places.unit)?;
        sum.points += added.points;
        sum.units += added.units;
        sum.named += added.named;
    }
    Ok(sum)
}

/// What was opened already. Points share models and tasks, and hashing a checkpoint takes its time.
#[derive(Default)]
struct PlanCache {
    models: HashMap<PathBuf, (About, String)>,
    tasks: HashMap<String, OpenTask>,
}

impl PlanCache {
    fn open(
        &mut self,
        point: &EvalSpec,
        recipe: &Recipe,
        made_by: &Value,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(Header, usize), Error> {
        let task = match self.tasks.entry(OpenTask::key(point)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let task = OpenTask::open(point).map_err(|error| recipe.task(point.task.name(), error))?;
                task.warnings().iter().for_each(|warning| warn(warning));
                new.insert(task)
            }
        };
        let (about, sha256) = match self.models.entry(point.place()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let checkpoint = Engine::checkpoint_at(&point.place());
                let checkpoint = checkpoint.map_err(|error| recipe.model(&point.model, error))?;
                let sha256 = checkpoint.fingerprint().map_err(cofill_engine::Error::from)?;
                new.insert((About::checkpoint(&checkpoint)?, sha256))
            }
        };
        Ok((ResolvedRun::new(point, task, about)?.header(sha256, made_by), task.docs(point)))
    }
}
