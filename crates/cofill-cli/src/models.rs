//! `cofill models`: which there are; look at a checkpoint, check it against goldens, write it smaller.

mod inspect;
mod list;
mod quantise;
mod rm;
mod verify;

use crate::fail::{Done, Fail};
use cofill_engine::Engine;
use cofill_hub::ModelName;
use cofill_model::Checkpoint;
use std::path::Path;

/// List, remove, inspect, verify or quantise models.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(list::Args),
    Rm(rm::Args),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Quantise(quantise::Args),
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Rm(args) => rm::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Quantise(args) => quantise::run(args),
    }
}

/// A checkpoint by its path, or by its name on the hub as everywhere else.
fn open(path: &Path) -> Done<Checkpoint> {
    if Checkpoint::exists(path) {
        return Ok(Checkpoint::open(path)?);
    }
    match Engine::checkpoint_at(path) {
        Err(cofill_engine::Error::UnknownModel { .. }) => Ok(Checkpoint::open(path)?),
        found => Ok(found?),
    }
}

/// Refuses the name of a model that is not in any cache.
fn refuse_embedded(name: &str) -> Done<()> {
    if cofill_model::embedded::names().chain([cofill_engine::TOY]).any(|inside| inside == name) {
        Err(Fail::request(format!("`{name}` is inside this program; there is nothing to fetch or remove")))
    } else {
        Ok(())
    }
}

/// A model of the hub by its name, which may have a revision behind an `@`, or else by the one of `--revision`.
pub(crate) fn hub_name(given: &str, revision: Option<&String>) -> Done<ModelName> {
    refuse_embedded(given)?;
    let name = ModelName::parse(given)?;
    match (revision, &name.revision) {
        (None, _) => Ok(name),
        (Some(revision), None) => Ok(ModelName::parse(&format!("{name}@{revision}"))?),
        (Some(_), Some(_)) => {
            Err(Fail::request(format!("--revision: `{given}` names a revision already; leave one out")))
        }
    }
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(one, _)| bytes as f64 >= *one);
    unit.map_or(format!("{bytes} B"), |(one, unit)| format!("{:.1} {unit}", bytes as f64 / one))
}
