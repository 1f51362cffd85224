//! `cofill sweep work`: a worker, or several in one process.

use super::plan::AllowArgs;
use super::shard::{Shard, share};
use super::table::Table;
use super::waiting::Waits;
use crate::fail::{Done, Fail};
use crate::judges;
use crate::show::{count, live};
use crate::signals;
use cofill_engine::provenance;
use cofill_eval::open::Error;
use cofill_eval::sweep::{Notice, OpenPoints, Share, Sweep, Watch, WorkDone, Worker, claim};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How often the table is drawn anew.
const LOOK: Duration = Duration::from_millis(500);

/// Do units of a sweep until this worker's share is done.
///
/// Any number of workers may share a folder: each unit is done once, and a worker that dies is replaced by whoever comes next. A worker
/// does its own share first, then helps with the rest. Which share that is, Slurm (SLURM_ARRAY_TASK_ID and _COUNT), Kubernetes
/// (JOB_COMPLETION_INDEX) and HyperQueue (HQ_TASK_ID) say by themselves; for the last two, COFILL_SHARDS says of how many.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the sweep.
    dir: PathBuf,
    /// Which share: 0/4 is the first of four (default: what the scheduler says, else everything).
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    #[command(flatten)]
    allow: AllowArgs,
    #[command(flatten)]
    workers: WorkerArgs,
}

/// How the work is done on this machine.
#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    /// Workers in this process. They share its cores, and each loads the model for itself.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Seconds after which others take over from a worker that exists but was not heard of: on another machine, or stopped.
    #[arg(long, value_name = "SECONDS", default_value_t = claim::LEASE.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    lease: u64,
}

/// Whether finished points are told where nobody sees a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// A line per point.
    Points,
    /// Nothing: another process tells.
    Silent,
}

pub(crate) fn run(args: &Args) -> Done {
    let share = share(args.shard, |name| std::env::var(name).ok())?;
    let sweep = Sweep::open(&args.dir)?;
    let did = args.workers.work(&sweep, share, Log::Silent, args.allow)?;
    let (units, prompts) = (count(did.units, "unit"), count(did.examples, "prompt"));
    let late = match did.late {
        0 => String::new(),
        late => format!("; {} had been taken over by others", count(late, "unit")),
    };
    writeln!(std::io::stdout().lock(), "{units} done, {prompts}{late}")?;
    Ok(ExitCode::SUCCESS)
}

impl WorkerArgs {
    /// Works, and shows how far everybody is.
    pub(crate) fn work(&self, sweep: &Sweep, share: Share, log: Log, allow: AllowArgs) -> Done<WorkDone> {
        let (n, lease) = (usize::from(self.workers), Duration::from_secs(self.lease));
        let threads = (rayon::current_num_threads() / n).max(1);
        let waits = Waits::new();
        signals::end_programs_first()?;
        let work = || -> Done<WorkDone> {
            let mut tell = |notice: Notice<'_>| match notice {
                Notice::Waiting(holders) => waits.hear(holders),
                Notice::Answered(record) => judges::warn(record.doc_id, record.judge_failure()),
                _ => {}
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.map_err(|error| Fail::Run(error.into()))?;
            let worker = Worker::new(sweep, share, lease)?;
            let made_by = provenance(crate::COMMIT);
            let done: Result<WorkDone, Error> = pool
                .install(|| worker.work(&mut OpenPoints::new(made_by, &mut tell).allow_command(allow.allow_command)));
            Ok(done?)
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..n).map(|_| scope.spawn(work)).collect();
            if live() || log == Log::Points {
                let mut watch = Watch::new(sweep)?;
                let mut table = Table::new(&watch);
                while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                    table.look(&mut watch, &waits.note())?;
                    std::thread::sleep(LOOK);
                }
                table.look(&mut watch, "")?;
            }
            let mut sum = WorkDone::default();
            for worker in workers {
                let did = worker.join().map_err(|_| Fail::Run(anyhow::anyhow!("a worker panicked")))??;
                sum.units += did.units;
                sum.examples += did.examples;
                sum.late += did.late;
            }
            Ok(sum)
        })
    }
}
