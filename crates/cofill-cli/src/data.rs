//! `cofill data`: the benchmarks' files.

use crate::fail::{Done, Fail};
use cofill_tasks::benchmarks::{Benchmark, Finding, check};
use cofill_tasks::data::Error;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at the benchmarks' data files.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
}

/// Say which data files are there, whether they are the known ones, and where to get the others. Exit code 1 when a file is
/// missing or cannot be used.
#[derive(clap::Args)]
struct Check {
    /// The folder.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Answer with JSONL: a line per file.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let Command::Check(args) = &args.command;
    let findings = check(&args.folder).map_err(|error| Fail::Request(error.into()))?;
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        match args.json {
            true => writeln!(out, "{}", object(finding))?,
            false => writeln!(out, "{}", describe(finding))?,
        }
    }
    let complete = findings.iter().all(|finding| finding.found.is_ok());
    if !args.json {
        let ready = |task: &Benchmark| findings.iter().all(|file| !file.tasks.contains(task) || file.found.is_ok());
        let (ready, lacking): (Vec<_>, Vec<_>) = Benchmark::ALL.into_iter().partition(ready);
        writeln!(out, "\n{}", verdict("can be run", &ready))?;
        if !complete {
            writeln!(out, "{}", verdict("lack files", &lacking))?;
        }
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(what: &str, tasks: &[Benchmark]) -> String {
    let names: Vec<&str> = tasks.iter().map(|task| task.name()).collect();
    format!("{what}: {}", if names.is_empty() { "none".into() } else { names.join(", ") })
}

/// A file in a word.
fn state(finding: &Finding) -> &'static str {
    match &finding.found {
        Ok(source) if source.is_known() => "known",
        Ok(_) => "unknown",
        Err(Error::Missing { .. }) => "missing",
        Err(_) => "unusable",
    }
}

fn describe(finding: &Finding) -> String {
    let start = format!("{:24}  {:8}  ", finding.file.name, state(finding));
    let rest = match &finding.found {
        Ok(source) if source.is_known() => format!("{} rows", source.rows),
        Ok(source) => format!("{} rows; sha256 {}, not {}", source.rows, source.sha256, finding.file.sha256),
        Err(Error::Missing { .. }) => format!("get {}", finding.file.origin),
        Err(error) => error.to_string(),
    };
    start + &rest
}

fn object(finding: &Finding) -> Value {
    let file = finding.file;
    let mut object = json!({
        "file": file.name,
        "state": state(finding),
        "tasks": finding.tasks.iter().map(|task| task.name()).collect::<Vec<_>>(),
        "expected": {"rows": file.rows, "sha256": file.sha256},
        "origin": file.origin,
    });
    match &finding.found {
        Ok(source) => object["found"] = json!({"rows": source.rows, "sha256": source.sha256}),
        Err(error) => object["problem"] = json!(error.to_string()),
    }
    object
}
