//! `cofill sweep plan`: a recipe becomes units of work.

use crate::fail::{Done, Fail, warning_line};
use crate::progress::Progress;
use crate::show::count;
use cofill::Registry;
use cofill_engine::provenance;
use cofill_eval::recipe::Recipe;
use cofill_eval::sweep::{Added, Estimate, Places, estimate, plan};
use std::io::Write;
use std::num::NonZeroUsize;
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
    /// Write nothing: say what would be added, and how long the work would take here, by trying a few prompts.
    #[arg(long)]
    dry_run: bool,
}

/// Where things are on this machine, and how much of them is wanted.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// The folder with the checkpoints that the recipe names (default: the current one).
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// The folder with the data files of benchmarks; `cofill data check` says what belongs there. Of infill: the file with its rows.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// At most so many questions of each task, whatever the recipe says.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Questions in a unit of work, at most.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    unit: u32,
}

pub(crate) fn run(args: &Args) -> Done {
    let recipe = read(&args.recipe)?;
    if args.dry_run {
        let estimate = args.plan.estimate(&recipe, &args.dir)?;
        writeln!(std::io::stdout().lock(), "{}", estimated(&recipe, &args.dir, &estimate))?;
        return Ok(ExitCode::SUCCESS);
    }
    let added = args.plan.plan(&recipe, &args.dir)?;
    writeln!(std::io::stdout().lock(), "{}", summary(&recipe, &args.dir, added))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a recipe.
pub(crate) fn read(path: &Path) -> Done<Recipe> {
    Recipe::read(path).map_err(|error| Fail::Request(error.into()))
}

impl PlanArgs {
    /// Plans every point of a recipe.
    pub(crate) fn plan(&self, recipe: &Recipe, dir: &Path) -> Done<Added> {
        let made_by = provenance(crate::COMMIT);
        Ok(plan(recipe, dir, &self.places()?, (Registry::stock(), &made_by), &mut warning_line)?)
    }

    /// What that would be.
    fn estimate(&self, recipe: &Recipe, dir: &Path) -> Done<Estimate> {
        let _line = Progress::loading(&format!("and trying {}", count(recipe.points.len(), "point")));
        let made_by = provenance(crate::COMMIT);
        Ok(estimate(recipe, dir, &self.places()?, (Registry::stock(), &made_by), &mut warning_line)?)
    }

    fn places(&self) -> Done<Places> {
        let data = self.data.as_deref().map(|data| absolute(Some(data))).transpose()?;
        let models = absolute(self.models.as_deref())?;
        Ok(Places { models, data, limit: self.limit, unit: self.unit as usize })
    }
}

/// What a plan did, in words.
pub(crate) fn summary(recipe: &Recipe, dir: &Path, added: Added) -> String {
    let Added { points, units, named } = added;
    let (named, units) = (count(named, "point"), count(units, "unit"));
    format!("{}: {named}, {points} of them new; {units} added to `{}`", recipe.name, dir.display())
}

/// What a plan would do, and what its work would take.
fn estimated(recipe: &Recipe, dir: &Path, estimate: &Estimate) -> String {
    let Estimate { added, prompts, points, tried, seconds, is_bound } = *estimate;
    let (named, units) = (count(added.named, "point"), count(added.units, "unit"));
    let would = format!(
        "{}: {named}, {} of them new; {units} would be added to `{}`",
        recipe.name,
        added.points,
        dir.display()
    );
    if points == 0 {
        return format!("{would}\nnothing is left to do");
    }
    let (about, why) = match is_bound {
        true => ("at most", "; an answer takes too long to try, so one position a forward is assumed"),
        false => ("about", ""),
    };
    let (prompts, tried, time) =
        (count(prompts, "prompt"), format!("{tried} of {}", count(points, "point")), clock(seconds));
    format!("{would}\n{about} {time} for {prompts}, with one worker on this machine ({tried} tried{why})")
}

/// `12 s`, `4 min 10 s`, `3 h 20 min`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A path that means the same from everywhere: workers start where a scheduler wants them to.
fn absolute(path: Option<&Path>) -> Done<PathBuf> {
    Ok(std::path::absolute(path.unwrap_or(Path::new(".")))?)
}
