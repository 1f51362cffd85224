//! `cofill sweep status`: how far a sweep is, and who is at it.

use super::plan::clock;
use crate::fail::Done;
use crate::show::count;
use cofill_eval::sweep::{AtWork, Progress, State, Sweep, Watch};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say how far a sweep is, and who is at work on it.
///
/// It only reads, so it can be asked while workers of any machine are busy.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the sweep.
    dir: PathBuf,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// Points of one model and task.
struct Group {
    model: String,
    task: String,
    points: usize,
    complete: usize,
    prompts: usize,
    done: usize,
    /// What is left would take one worker, going by what was done.
    seconds_left: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Done {
    let sweep = Sweep::open(&args.dir)?;
    let watch = Watch::new(&sweep)?;
    let (groups, workers) = (groups(&watch.points), sweep.workers()?);
    let (done, prompts) = watch.examples();
    let (complete, points) = (watch.complete(), watch.points.len());
    // Known only where every group that has something left has done something.
    let left: Option<f64> = groups.iter().map(|group| group.seconds_left).sum();
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = json!({
            "points": points, "complete": complete, "prompts": prompts, "done": done, "seconds_left": left,
            "groups": groups.iter().map(Group::json).collect::<Vec<_>>(),
            "workers": workers.iter().map(worker).collect::<Vec<_>>(),
        });
        writeln!(out, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let dir = args.dir.display();
    writeln!(
        out,
        "`{dir}`: {complete} of {} complete, {done} of {}",
        count(points, "point"),
        count(prompts, "prompt")
    )?;
    let width = |of: fn(&Group) -> &str| groups.iter().map(|group| of(group).chars().count()).max().unwrap_or(0);
    let (models, tasks) = (width(|group| &group.model), width(|group| &group.task));
    for Group { model, task, points, complete, prompts, done, seconds_left } in &groups {
        let left = seconds_left.filter(|left| *left > 0.0).map(|left| format!("  about {} left", clock(left)));
        let left = left.unwrap_or_default();
        writeln!(
            out,
            "  {model:<models$}  {task:<tasks$}  {complete:>4}/{points} points  {done:>6}/{prompts} prompts{left}"
        )?;
    }
    for AtWork { holder, units } in &workers {
        let process = holder.process.as_ref().map(|(host, pid)| format!(", process {pid} on {host}"));
        let state = if holder.state == State::Stopped { ", stopped" } else { "" };
        let (who, process) = (&holder.worker, process.unwrap_or_default());
        writeln!(out, "  worker {who}{process}{state}: {} claimed", count(*units, "unit"))?;
    }
    match (complete < points, workers.is_empty()) {
        (true, true) => writeln!(out, "nobody is at work; `cofill sweep work {dir}` goes on")?,
        (true, false) => {}
        (false, _) => writeln!(out, "`cofill report {dir}` makes tables and figures of it")?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Group {
    fn json(&self) -> Value {
        let Group { model, task, points, complete, prompts, done, seconds_left } = self;
        json!({
            "model": model, "task": task, "points": points, "complete": complete, "prompts": prompts, "done": done,
            "seconds_left": seconds_left,
        })
    }
}

fn worker(worker: &AtWork) -> Value {
    let (host, pid) = worker.holder.process.clone().unzip();
    let stopped = worker.holder.state == State::Stopped;
    json!({"worker": worker.holder.worker, "host": host, "pid": pid, "stopped": stopped, "units": worker.units})
}

/// Points by model and task, in their order.
fn groups(points: &[Progress]) -> Vec<Group> {
    let place = |progress: &Progress| (progress.planned.point.model.clone(), progress.planned.point.task.name());
    let group = |points: &[Progress]| {
        let (model, task) = place(&points[0]);
        let prompts: usize = points.iter().map(|point| point.planned.docs()).sum();
        let done: usize = points.iter().map(|point| point.totals.n).sum();
        let seconds: f64 = points.iter().map(|point| point.totals.seconds).sum();
        let left = (prompts - done) as f64;
        let seconds_left = match done {
            0 => None,
            _ => Some(seconds / done as f64 * left),
        };
        let complete = points.iter().filter(|point| point.is_complete()).count();
        Group { model, task: task.to_string(), points: points.len(), complete, prompts, done, seconds_left }
    };
    points.chunk_by(|a, b| place(a) == place(b)).map(group).collect()
}
