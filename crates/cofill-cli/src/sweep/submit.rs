//! `cofill sweep submit`: the work of a sweep as a job array of a Slurm cluster.
//!
//! The folder is the truth, not the scheduler: a shard has failed when its units are not done, whatever Slurm says of its task. So lost
//! nodes, time limits, preemption and killed tasks are all the same case, and submitting the same folder twice does no harm.

use super::merge::answer;
use super::slurm::{self, Job, Queue};
use super::table::Table;
use crate::fail::{Done, Fail, warning_line};
use crate::show::count;
use cofill_eval::sweep::{Share, Sweep, Watch};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How many times in a row the controller may not answer.
const PATIENCE: usize = 60;

/// Submit a planned sweep to a Slurm cluster as a job array, follow it, submit failed shards again, and merge.
///
/// The folder must be one that all nodes see. Interrupted, the job goes on; the same command follows up on what is left.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the sweep; `cofill sweep plan` makes it.
    dir: PathBuf,
    /// To Slurm. There is no other choice yet.
    #[arg(long)]
    slurm: bool,
    /// Tasks of the array.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    shards: u32,
    /// How many times failed shards are submitted again.
    #[arg(long, value_name = "N", default_value_t = 3)]
    retries: u32,
    /// Seconds between two looks at the queue.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = crate::arguments::at_least_one::<u64>)]
    poll: u64,
    /// Seconds after which a worker that was not heard of is taken for dead.
    #[arg(long, value_name = "SECONDS", default_value_t = cofill_eval::sweep::claim::LEASE.as_secs(), value_parser = crate::arguments::at_least_one::<u64>)]
    lease: u64,
    /// Answer with JSONL, a line per point.
    #[arg(long)]
    json: bool,
    /// Options for sbatch, after --: partition, time, memory, GPUs.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    options: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Done {
    if !args.slurm {
        return Err(Fail::request(
            "say to which scheduler: add --slurm; others start `cofill sweep work`, see docs/cluster.md",
        ));
    }
    if let Some(option) = args.options.iter().find(|option| is_array(option)) {
        return Err(Fail::request(format!("`{option}` after --: the array is ours to set; give --shards N")));
    }
    let sweep = Sweep::open(&args.dir)?;
    let mut watch = Watch::new(&sweep)?;
    let units: usize = watch.points.iter().map(|point| point.planned.units.len()).sum();
    let shards = (args.shards as usize).min(units).max(1);
    let folder = Folder::new(&args.dir, shards, args.lease)?;
    let mut table = Table::new(&watch);
    if let Some(job) = folder.left_behind()? {
        tell(&format!("job {} is still in the queue: following it", job.id));
        follow(&job, &mut watch, &mut table, Duration::from_secs(args.poll))?;
    }
    let mut open = unfinished(&watch, shards);
    let mut submitted = 0;
    while !open.is_empty() {
        if submitted > args.retries {
            return Err(folder.gave_up(&open, submitted));
        }
        let job = slurm::submit(&folder.script, &folder.logs, &open, &args.options)?;
        folder.remember(&job)?;
        submitted += 1;
        tell(&format!("job {}: {}, logs in `{}`", job.id, count(open.len(), "shard"), folder.logs.display()));
        follow(&job, &mut watch, &mut table, Duration::from_secs(args.poll))?;
        open = unfinished(&watch, shards);
        if !open.is_empty() {
            warning_line(&failure(&job, &open));
        }
    }
    drop(table);
    answer(&sweep.merge()?, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Looks on until everything is done or the job is out of the queue.
fn follow(job: &Job, watch: &mut Watch<'_>, table: &mut Table, poll: Duration) -> Done<()> {
    let mut silent = 0;
    loop {
        let queue = job.queue()?;
        let note = match &queue {
            Queue::Waiting(states) => {
                states.iter().fold(String::new(), |mut note, (state, n)| {
                    let _ = write!(note, "  {n} {state}"); // writing to a string cannot fail
                    note
                })
            }
            Queue::Gone => String::new(),
            Queue::Silent(_) => "  no answer from Slurm".into(),
        };
        table.look(watch, &note)?;
        if watch.complete() == watch.points.len() {
            job.cancel_pending();
            return Ok(());
        }
        match queue {
            Queue::Gone => return Ok(()),
            Queue::Waiting(_) => silent = 0,
            Queue::Silent(problem) => {
                silent += 1;
                if silent > PATIENCE {
                    let message = format!("squeue has not answered {silent} times: {problem}; the job goes on");
                    return Err(Fail::Run(anyhow::anyhow!("{message}, and the same command follows up on it")));
                }
            }
        }
        std::thread::sleep(poll);
    }
}

/// Shards with units that are not done.
fn unfinished(watch: &Watch<'_>, of: usize) -> Vec<usize> {
    let units = watch.points.iter().flat_map(|point| point.planned.units.iter().map(|unit| watch.is_done(unit)));
    let is_done: Vec<bool> = units.collect();
    let own = |index: usize| {
        let order = Share::Part { index, of }.order(is_done.len());
        order.into_iter().any(|(rank, i)| rank == 0 && !is_done[i])
    };
    (0..of).filter(|index| own(*index)).collect()
}

/// What is said of shards that did not do their share.
fn failure(job: &Job, open: &[usize]) -> String {
    let ends = job.ends();
    let shard = |index: &usize| match ends.get(index) {
        Some(end) => format!("{index} ({end})"),
        None => index.to_string(),
    };
    let shards: Vec<String> = open.iter().map(shard).collect();
    format!("job {} ended, and these shards are not done: {}", job.id, shards.join(", "))
}

/// Where a submission's files are.
struct Folder {
    logs: PathBuf,
    script: PathBuf,
    /// The last job's id.
    job: PathBuf,
}

impl Folder {
    fn new(dir: &Path, shards: usize, lease: u64) -> Done<Folder> {
        let dir = std::fs::canonicalize(dir)?;
        let logs = dir.join("slurm");
        std::fs::create_dir_all(&logs)?;
        let script = logs.join("worker.sh");
        let program = crate::program()?;
        let threads = crate::everywhere::given_threads().map(|n| format!(" --threads {n}")).unwrap_or_default();
        let text = format!(
            "#!/bin/sh\n# Written by `cofill sweep submit`: one shard of this sweep.\nexec {} sweep work {} --lease {lease}{threads} --shard \"$SLURM_ARRAY_TASK_ID/{shards}\"\n",
            quote(&program),
            quote(&dir),
        );
        std::fs::write(&script, text)?;
        let job = logs.join("job");
        Ok(Folder { logs, script, job })
    }

    fn remember(&self, job: &Job) -> Done<()> {
        Ok(std::fs::write(&self.job, &job.id)?)
    }

    /// The job of an interrupted submission, while it is in the queue: a second one would only wait for its units.
    fn left_behind(&self) -> Done<Option<Job>> {
        let Ok(id) = std::fs::read_to_string(&self.job) else { return Ok(None) };
        let job = Job { id: id.trim().into() };
        Ok(matches!(job.queue()?, Queue::Waiting(_)).then_some(job))
    }

    /// The end of the last log says more than we could.
    fn gave_up(&self, open: &[usize], submitted: u32) -> Fail {
        let newest = std::fs::read_dir(&self.logs).into_iter().flatten().flatten().filter_map(|entry| {
            let path = entry.path();
            let written = entry.metadata().ok()?.modified().ok()?;
            path.extension().is_some_and(|ending| ending == "log").then_some((written, path))
        });
        let last = newest.max().map(|(_, path)| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
            format!("; `{}` ends with: {line}", path.display())
        });
        let (shards, times) = (count(open.len(), "shard"), count(submitted as usize, "submission"));
        Fail::Run(anyhow::anyhow!("{shards} not done after {times}{}", last.unwrap_or_default()))
    }
}

/// A word for the shell.
fn quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn is_array(option: &str) -> bool {
    option == "-a" || option == "--array" || option.starts_with("--array=") || option.starts_with("-a=")
}

fn tell(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}"); // nobody is left to tell when stderr is gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_shell() {
        assert_eq!(quote(Path::new("/a b/it's")), r"'/a b/it'\''s'");
        assert!(["-a", "--array=1-3"].into_iter().all(is_array) && !is_array("--account=x"));
    }
}
