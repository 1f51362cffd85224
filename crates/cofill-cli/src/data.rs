//! `cofill data`: the benchmarks' files.

use crate::download_bars::DownloadBars;
use crate::fail::{Done, Fail};
use cofill_engine::data_folder;
use cofill_eval::fetch_data::{Outcome, Servers, fetch};
use cofill_hub::{Hub, Settings};
use cofill_tasks::benchmarks::{Benchmark, Finding, check};
use cofill_tasks::data::Error;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Get the benchmarks' data files, or look at them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Fetch(Fetch),
    Check(Check),
}

/// Get the data files of a benchmark, or of all.
///
/// Rows come from where their authors publish them, few-shot examples out of the wheel
/// of lm_eval 0.4.8, of which nothing is executed. Each file is compared with its known
/// SHA-256. What is there stays, and what was interrupted continues. Prints the folder,
/// which --data takes; eval, diagnose and sweep look there without it.
#[derive(clap::Args)]
struct Fetch {
    /// gsm8k, gsm8k_cot, math500, humaneval or mbpp; all of them unless said.
    #[arg(value_name = "TASK")]
    tasks: Vec<Benchmark>,
    /// The folder; `data` in cofill's cache unless said.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Answer with JSONL: a line per file.
    #[arg(long)]
    json: bool,
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
    match &args.command {
        Command::Fetch(args) => run_fetch(args),
        Command::Check(args) => run_check(args),
    }
}

fn run_fetch(args: &Fetch) -> Done {
    let folder = args.to.clone().or_else(data_folder);
    let folder = folder.ok_or_else(|| Fail::request("no home folder is known; give the folder with --to DIR"))?;
    let tasks = if args.tasks.is_empty() { Benchmark::ALL.to_vec() } else { args.tasks.clone() };
    crate::signals::end_programs_first()?;
    let _interruptible =
        crate::signals::last_words(|| "interrupted: what is there is kept, and the same command goes on".into());
    let bars = DownloadBars::new();
    let hub = Hub::new(Settings::from_env());
    let fetched = fetch(&hub, &Servers::from_env(), &tasks, &folder, &mut |event| bars.event(event));
    drop(bars);
    let outcomes = fetched?;
    let mut out = std::io::stdout().lock();
    for (file, outcome) in &outcomes {
        let word = match outcome {
            Outcome::Fetched => "fetched",
            Outcome::Present => "present",
            Outcome::Unknown => "unknown",
        };
        if *outcome == Outcome::Unknown {
            let path = folder.join(file.name);
            let keep = "another content than the known one; it stays. Move it away to fetch the known one";
            crate::fail::warning_line(&format!("`{}` has {keep}", path.display()));
        }
        if args.json {
            let path = folder.join(file.name);
            writeln!(out, "{}", json!({"file": file.name, "state": word, "path": path, "sha256": file.sha256}))?;
        } else {
            let _ = writeln!(std::io::stderr(), "{:24}  {word}", file.name);
        }
    }
    if !args.json {
        writeln!(out, "{}", folder.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_check(args: &Check) -> Done {
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
            let to = args.folder.display();
            let _ = writeln!(std::io::stderr(), "`cofill data fetch --to {to}` gets what is missing");
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
