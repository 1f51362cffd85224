//! `cofill models rm`: a model out of the cache.

use super::size;
use crate::fail::{Done, Fail};
use cofill_hub::{Settings, remove};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Remove a model from the Hugging Face cache, or one revision of it, and say what that
/// freed. Files that another revision shares stay. Nothing is asked.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model: org/name, as `cofill models list` has it.
    #[arg(value_name = "NAME")]
    name: String,
    /// Only this revision: a branch, a tag or a commit.
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let name = super::hub_name(&args.name, args.revision.as_ref()).map_err(|refused| {
        match Path::new(&args.name).exists() {
            true => Fail::request(format!("`{}` is a path; only models in the cache are removed", args.name)),
            false => refused,
        }
    })?;
    let cache = Settings::from_env().cache;
    let removed = remove(&cache, &name).map_err(|error| match error {
        error @ cofill_hub::Error::NotCached { .. } if Path::new(&args.name).exists() => {
            Fail::request(format!("{error}. `{}` on this disk is no part of the cache and stays", args.name))
        }
        error => error.into(),
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let object = json!({
            "name": name.repo,
            "commits": removed.commits,
            "freed_bytes": removed.freed,
            "kept_bytes": removed.kept,
        });
        writeln!(out, "{object}")?;
    } else {
        let kept =
            if removed.kept > 0 { format!("; {} stay for other revisions", size(removed.kept)) } else { String::new() };
        writeln!(out, "removed {name}: {} freed{kept}", size(removed.freed))?;
    }
    Ok(ExitCode::SUCCESS)
}
