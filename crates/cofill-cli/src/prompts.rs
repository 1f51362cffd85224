//! `cofill prompts`: a benchmark's prompts, for any engine.

use crate::fail::{Done, warning_line};
use cofill_tasks::benchmarks::{Benchmark, Variant};
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print a benchmark's prompts, those of lm-evaluation-harness 0.4.8 to the byte, for any engine.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// gsm8k, gsm8k_cot, math500, humaneval or mbpp.
    #[arg(long)]
    task: Benchmark,
    /// The folder with the data files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Few-shot examples [default: 8 for both gsm8k, 4 for math500, 3 for mbpp; humaneval has none].
    #[arg(long, value_name = "N")]
    shots: Option<usize>,
    /// Processes that the harness would run on. They draw gsm8k's examples each for themselves, so the prompts depend on it.
    #[arg(long, value_name = "W", default_value = "1")]
    ranks: NonZeroUsize,
    /// Only the first N prompts.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Answer with JSONL: doc_id, prompt.
    #[arg(long)]
    json: bool,
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    doc_id: usize,
    prompt: &'a str,
}

pub(crate) fn run(args: &Args) -> Done {
    let task = args.task.load(&args.data)?;
    let prompts = task.prompts(Variant { shots: args.shots, ranks: args.ranks })?;
    task.warnings().iter().for_each(|warning| warning_line(warning));
    if args.shots.is_some_and(|shots| shots != prompts.shots()) {
        warning_line(&format!("{} has no few-shot examples; --shots is ignored, as in the harness", args.task));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    for doc_id in 0..task.docs().min(args.limit.unwrap_or(usize::MAX)) {
        let prompt = &prompts.prompt(doc_id)?;
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(&Line { doc_id, prompt })?)?,
            false => writeln!(out, "=== {} {doc_id}\n{prompt}", args.task)?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
