//! `cofill sweep run`: plan, work and merge, here and now.

use super::merge::answer;
use super::plan::{AllowArgs, PlanArgs, read, summary};
use super::work::{Log, WorkerArgs};
use crate::fail::Done;
use cofill_eval::sweep::{Share, Sweep};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Plan a recipe, do all of its work on this machine, and merge.
///
/// Interrupted, it leaves a folder that the same command continues.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recipe, a TOML file.
    recipe: PathBuf,
    /// The folder of the sweep (default: sweeps/ and the recipe's name).
    dir: Option<PathBuf>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    allow: AllowArgs,
    #[command(flatten)]
    workers: WorkerArgs,
    /// Answer with JSONL, a line per point.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let recipe = read(&args.recipe)?;
    let dir = args.dir.clone().unwrap_or_else(|| Path::new("sweeps").join(&recipe.name));
    let added = args.plan.plan(&recipe, &dir, args.allow)?;
    let tell = |line: &str| {
        let _ = writeln!(anstream::stderr(), "{line}"); // nobody is left to tell when stderr is gone
    };
    tell(&summary(&recipe, &dir, added));
    let sweep = Sweep::open(&dir)?;
    args.workers.work(&sweep, Share::All, Log::Points, args.allow)?;
    answer(&sweep.merge()?, args.json)?;
    tell(&format!("`cofill report {}` makes tables and figures of it", dir.display()));
    Ok(ExitCode::SUCCESS)
}
