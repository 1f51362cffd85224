//! `cofill sweep merge`: units become one file of results per operating point.

use crate::fail::{Done, warning_line};
use crate::show::count;
use cofill_eval::sweep::{Merged, Sweep};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write one file of results per operating point, as `cofill eval --out` would have.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the sweep; the files are written into it.
    dir: PathBuf,
    /// Leave out points that are not complete, instead of refusing.
    #[arg(long)]
    partial: bool,
    /// Answer with JSONL, a line per point.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let sweep = Sweep::open(&args.dir)?;
    let merged = match args.partial {
        false => sweep.merge()?,
        true => {
            let (merged, incomplete) = sweep.merge_complete()?;
            if incomplete > 0 {
                let points = count(incomplete, "point");
                warning_line(&format!("{points} left out, not complete; `cofill sweep work {}`", args.dir.display()));
            }
            merged
        }
    };
    answer(&merged, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// A line per point: where, which, how good, how many forwards.
pub(crate) fn answer(merged: &[Merged], as_json: bool) -> Done<()> {
    let unsealed: usize = merged.iter().map(|point| point.unsealed).sum();
    if unsealed > 0 {
        let units = count(unsealed, "unit");
        warning_line(&format!(
            "{units} without checksums, from an earlier version: taken as they are; to have them made anew, remove them from done/ and run `cofill sweep work`"
        ));
    }
    let unjudged: usize = merged.iter().map(|point| point.totals.unjudged).sum();
    if unjudged > 0 {
        let answers = count(unjudged, "answer");
        warning_line(&format!(
            "{answers} could not be judged and count as wrong; `judge_failed` in the records says why"
        ));
    }
    let mut out = std::io::stdout().lock();
    let width = |of: fn(&Merged) -> String| merged.iter().map(|point| of(point).len()).max().unwrap_or(0);
    let model = |merged: &Merged| merged.planned.point.model.clone();
    let sampler = |merged: &Merged| merged.planned.point.sampler.to_string();
    let (models, samplers) = (width(model), width(sampler));
    for point in merged {
        let (totals, task) = (&point.totals, point.planned.point.task.name());
        let (score, error) = totals.score();
        if as_json {
            let line = json!({
                "model": model(point),
                "task": task,
                "sampler": sampler(point),
                "n": totals.n,
                "score": score,
                "standard_error": error,
                "nfe": totals.mean_nfe(),
                "steps": totals.mean_steps(),
                "tokens_per_forward": totals.per_forward(),
                "seconds": totals.seconds,
                "unjudged": totals.unjudged,
                "file": point.path,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let error = error.map(|error| format!("± {:.1}", 100.0 * error)).unwrap_or_default();
        let (model, sampler) = (model(point), sampler(point));
        let (score, n, nfe) = (100.0 * score, totals.n, totals.mean_nfe());
        let line = format!(
            "{model:<models$}  {task:<10}  {sampler:<samplers$}  {score:5.1} % {error:<6} of {n}  nfe {nfe:.2}"
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}
