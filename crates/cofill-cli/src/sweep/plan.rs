//! `cofill sweep plan`: a recipe becomes units of work.

use crate::fail::{Done, Fail};
use crate::model;
use crate::setup::{About, Asked, Settled};
use crate::show::count;
use cofill_eval::recipe::{Point, Recipe};
use cofill_eval::sweep::{Added, Sweep};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a recipe's units of work into a folder; what is there already stays.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recipe, a TOML file.
    recipe: PathBuf,
    /// The folder of the sweep.
    dir: PathBuf,
    #[command(flatten)]
    plan: PlanArgs,
}

/// Where things are on this machine, and how much of them is wanted.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// The folder with the checkpoints that the recipe names (default: the current one).
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// The folder with the data files of benchmarks; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// At most so many questions of each task, whatever the recipe says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Questions in a unit of work, at most.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    unit: u32,
}

pub(crate) fn run(args: &Args) -> Done {
    let recipe = read(&args.recipe)?;
    let added = args.plan.plan(&recipe, &args.dir)?;
    writeln!(std::io::stdout().lock(), "{}", summary(&recipe, &args.dir, added))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a recipe.
pub(crate) fn read(path: &Path) -> Done<Recipe> {
    Recipe::read(path).map_err(|error| Fail::Request(error.into()))
}

impl PlanArgs {
    /// Plans every point of a recipe. All of them are opened before anything is written, so that a wrong recipe leaves nothing behind.
    pub(crate) fn plan(&self, recipe: &Recipe, dir: &Path) -> Done<Added> {
        let (models, data) = (absolute(self.models.as_deref())?, self.data.as_deref().map(|data| absolute(Some(data))));
        let data = data.transpose()?;
        let mut known = Known::default();
        let mut points = Vec::new();
        for point in &recipe.points {
            let limit = [point.limit, self.limit.map(|limit| limit as usize)].into_iter().flatten().min();
            let point = Point { limit, models: Some(models.clone()), data: data.clone(), ..point.clone() };
            let (header, docs) = known.open(&point)?;
            points.push((point, header, docs));
        }
        let sweep = Sweep::create(dir)?;
        let mut sum = Added::default();
        for (point, header, docs) in points {
            let added = sweep.plan(&point, &header, docs, self.unit as usize)?;
            sum.points += added.points;
            sum.units += added.units;
            sum.named += added.named;
        }
        Ok(sum)
    }
}

/// What a plan did, in words.
pub(crate) fn summary(recipe: &Recipe, dir: &Path, added: Added) -> String {
    let Added { points, units, named } = added;
    let (named, units) = (count(named, "point"), count(units, "unit"));
    format!("{}: {named}, {points} of them new; {units} added to `{}`", recipe.name, dir.display())
}

/// A path that means the same from everywhere: workers start where a scheduler wants them to.
fn absolute(path: Option<&Path>) -> Done<PathBuf> {
    Ok(std::path::absolute(path.unwrap_or(Path::new(".")))?)
}

/// What was opened already. Points share models and tasks, and hashing a checkpoint takes its time.
#[derive(Default)]
struct Known {
    models: HashMap<PathBuf, (About, String)>,
    tasks: HashMap<String, Asked>,
}

impl Known {
    fn open(&mut self, point: &Point) -> Done<(cofill_report::results::Header, usize)> {
        let asked = match self.tasks.entry(Asked::key(point)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let asked = Asked::open(point)?;
                asked.warn();
                new.insert(asked)
            }
        };
        let (about, sha256) = match self.models.entry(point.place()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let checkpoint = model::checkpoint(&point.place())?;
                new.insert((About::checkpoint(&checkpoint)?, checkpoint.fingerprint()?))
            }
        };
        Ok((Settled::new(point, asked, about)?.header(sha256), asked.docs(point)))
    }
}
