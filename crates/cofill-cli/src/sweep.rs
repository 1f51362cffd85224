//! `cofill sweep`: many scores from one recipe, on one machine or many.
//!
//! Everything that is shared is files in one folder, see `cofill_eval::sweep`; here are the commands, and what opens models for them.

mod merge;
mod plan;
mod run;
mod shard;
mod slurm;
mod status;
mod submit;
mod table;
mod waiting;
mod work;

use crate::fail::{Done, Fail};
use cofill_eval::sweep::Error;
use cofill_report::output;

/// Run many operating points from a recipe, on one machine or many.
///
/// A recipe (experiments/*.toml) names models, tasks, samplers and their grids. `run` does it all here. To share the work, `plan` a
/// folder that all machines see, start `work` on each of them, and `merge`; a worker that dies loses nothing, and planning more
/// later runs only what is missing. `status` says how far it is. `submit` does this with Slurm.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Work(work::Args),
    Status(status::Args),
    Merge(merge::Args),
    Submit(submit::Args),
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Work(args) => work::run(args),
        Command::Status(args) => status::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Submit(args) => submit::run(args),
    }
}

/// A folder that cannot be written is the machine's failure; what is in it, or not, is the user's.
impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        // The library knows no commands; these say what to type.
        let with = |remedy: String| Fail::request(format!("{error}; {remedy}"));
        match &error {
            Error::None { dir } => with(format!("`cofill sweep plan RECIPE {}` makes one", dir.display())),
            Error::Missing { dir, .. } => with(format!(
                "run `cofill sweep work {}`, or merge only what is complete with --partial",
                dir.display()
            )),
            Error::Unit { .. } => with("`cofill sweep work` does it again".into()),
            Error::Io { .. } | Error::Output(output::Error::Io { .. }) => Fail::Run(error.into()),
            _ => Fail::Request(error.into()),
        }
    }
}
