//! `cofill prompts`: a task's prompts, for any engine.

use crate::fail::{Done, Fail, warning_line};
use cofill_eval::open::OpenTask;
use cofill_eval::spec::{EvalSpec, TaskOptions};
use cofill_tasks::TaskName;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the prompts of a benchmark or a task file, for any engine.
///
/// Those of a benchmark are lm-evaluation-harness 0.4.8's to the byte; of a task file of your own, all rows are checked.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// gsm8k, gsm8k_cot, math500, humaneval, mbpp, or a task file (NAME.toml).
    #[arg(long)]
    task: TaskName,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Few-shot examples [default: 8 for both gsm8k, 4 for math500, 3 for mbpp, none for humaneval; what a task file says].
    #[arg(long, value_name = "N")]
    shots: Option<usize>,
    /// Of gsm8k: processes that the harness would run on. They draw examples each for themselves, so the prompts depend on it.
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
    if let TaskName::Mini(task) = args.task {
        let problem = format!("--task: {task} is a mini task; `cofill mini corpus --task {task}` prints its prompts");
        return Err(Fail::request(problem));
    }
    if args.task == TaskName::Infill {
        return Err(Fail::request("--task: the prompts of infill are the templates of its file"));
    }
    // Nobody is asked: no model, and a sampler that decides nothing.
    let mut spec = EvalSpec::new(args.task.clone(), "", "topk:1".parse()?);
    spec.data = args.data.clone();
    spec.questions = TaskOptions { shots: args.shots, ranks: args.ranks, ..TaskOptions::default() };
    let task = OpenTask::open_unjudged(&spec)?;
    task.check_options(&spec)?;
    task.warnings().iter().for_each(|warning| warning_line(warning));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut print = |doc_id: usize, prompt: &str| -> Done<()> {
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(&Line { doc_id, prompt })?)?,
            false => writeln!(out, "=== {} {doc_id}\n{prompt}", args.task.name())?,
        }
        Ok(())
    };
    let docs = task.docs(&spec).min(args.limit.unwrap_or(usize::MAX));
    match &task {
        OpenTask::Benchmark { loaded, variant, .. } => {
            let prompts = loaded.prompts(*variant)?;
            (0..docs).try_for_each(|doc| print(doc, &prompts.prompt(doc)?))?;
        }
        OpenTask::File(file) => (0..docs).try_for_each(|doc| print(doc, &file.task.prompt(doc)))?,
        OpenTask::Mini(_) | OpenTask::Infill(_) => {}
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
