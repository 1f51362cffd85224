//! `cofill models`: look at a checkpoint, check it against goldens, write it smaller.

mod inspect;
mod quantise;
mod verify;

use crate::fail::Done;

/// Inspect, verify or quantise a checkpoint.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Verify(verify::Args),
    Quantise(quantise::Args),
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::Inspect(args) => inspect::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Quantise(args) => quantise::run(args),
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(one, _)| bytes as f64 >= *one);
    unit.map_or(format!("{bytes} B"), |(one, unit)| format!("{:.1} {unit}", bytes as f64 / one))
}
