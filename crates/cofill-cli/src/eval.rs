//! `cofill eval`: score a model and a sampler on a task.

use crate::fail::{Done, Fail, warning_line};
use crate::generate::CacheAnswer;
use crate::judges;
use crate::output::ForceArgs;
use crate::progress::Progress;
use crate::quiet::QuietArgs;
use crate::signals;
use crate::typed;
use cofill_engine::{RunSpec, provenance};
use cofill_eval::open::Evaluation;
use cofill_eval::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill_report::output::{self, Existing};
use cofill_report::results::{self, Header, Results, Totals};
use cofill_tasks::TaskName;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Score a model and a sampler on a task.
///
/// chain, sums, code, sudoku and predicates need no data files. gsm8k, gsm8k_cot, math500, humaneval and mbpp read theirs from
/// --data, and ask and score as lm-evaluation-harness 0.4.8 does. infill fills gaps in texts of your own. FILE.toml is a task of your own:
/// a prompt template over rows, and a checker (docs/tasks.md). A result depends on neither --batch nor the number of threads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// chain, sums, code, sudoku, predicates, gsm8k, gsm8k_cot, math500, humaneval, mbpp, infill, or a task file (NAME.toml).
    #[arg(long)]
    task: TaskName,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    #[command(flatten)]
    questions: TaskOptions,
    #[command(flatten)]
    judges: JudgeOptions,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there. Of infill: a file with a line
    /// `{"template":"..[MASK:4]..","answer":".."}` for each text; a gap is as many tokens as its answer.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Begin every prompt with the tokenizer's beginning-of-text token (default: only with --wrapper dream, as Dream's scripts do, and with
    /// BERT and its relatives, whose texts then also end as they were trained to).
    #[arg(long, value_name = "BOOL")]
    bos: Option<bool>,
    /// Write what was run to FILE, then a line per question: tokens, text, scores, forwards, seconds.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Continue FILE where it ends, after whatever stopped it.
    #[arg(long, requires = "out", conflicts_with = "force")]
    resume: bool,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: QuietArgs,
}

pub(crate) fn run(args: &Args) -> Done {
    args.quiet.apply();
    if let (Some(path), false) = (&args.out, args.resume) {
        // Before a model is loaded and hashed.
        check(path, args.force.existing())?;
    }
    signals::end_programs_first()?;
    let mut evaluation = Evaluation::open(&args.spec())?;
    evaluation.warnings().iter().for_each(|warning| warning_line(warning));
    let docs = evaluation.docs();
    let mut totals = Totals::default();
    let mut out = match &args.out {
        None => None,
        Some(path) => {
            let (results, done) = open(path, args, &evaluation.header(&provenance(crate::COMMIT))?)?;
            // Of a file that was made with a higher limit, the score of this one.
            done.iter().take(docs).for_each(|record| totals.add(record));
            Some(results)
        }
    };
    let kept = Arc::new(AtomicUsize::new(totals.n));
    let interruptible = last_words(args, &kept, docs);
    let progress = Progress::scoring(docs);
    progress.score(&totals, None);
    while totals.n < docs {
        for record in evaluation.next_watched(totals.n, &mut |round| progress.score(&totals, Some(round)))? {
            if let Some(out) = &mut out {
                out.append(&record).map_err(|error| Fail::Run(error.into()))?;
            }
            judges::warn(record.doc_id, record.judge_failure());
            totals.add(&record);
            kept.store(totals.n, Ordering::Relaxed);
        }
        progress.score(&totals, None);
    }
    drop((progress, interruptible));
    warn_cut(args, &totals);
    report(args, &totals)
}

/// What Ctrl-C leaves: the answers in --out, and the command that goes on from there.
fn last_words(args: &Args, kept: &Arc<AtomicUsize>, docs: usize) -> signals::Interruptible {
    let (out, kept) = (args.out.as_ref().map(|path| path.display().to_string()), kept.clone());
    signals::last_words(move || words(out.as_deref(), kept.load(Ordering::Relaxed), docs))
}

fn words(out: Option<&str>, n: usize, docs: usize) -> String {
    match out {
        Some(out) => {
            let command = typed::again("--resume", "--force");
            format!("interrupted: {n} of {docs} answers are in `{out}`; to go on: {command}")
        }
        None => format!("interrupted after {n} of {docs} answers, and none is kept; --out FILE keeps them"),
    }
}

impl Args {
    /// What was typed, as one score.
    fn spec(&self) -> EvalSpec {
        let RunSpec { model, sampler, options, .. } = &self.run;
        let mut spec = EvalSpec::new(self.task.clone(), model, sampler.clone());
        spec.run = options.clone();
        spec.run.bos = self.bos;
        spec.questions = self.questions.clone();
        spec.judges = self.judges.clone();
        spec.data = self.data.clone();
        spec
    }
}

fn open(path: &Path, args: &Args, header: &Header) -> Done<(Results, Vec<results::Record>)> {
    let opened = match args.resume {
        true => Results::resume(path, header),
        false => Results::create(path, header, args.force.existing()).map(|results| (results, Vec::new())),
    };
    let (results, done) = opened.map_err(refused)?;
    if let Some(why) = results.unlocked() {
        let path = path.display();
        warning_line(&format!("`{path}` cannot be locked here ({why}); start no second run that writes to it"));
    }
    Ok((results, done))
}

fn check(path: &Path, existing: Existing) -> Done<()> {
    output::check(path, existing).map_err(|error| refused(error.into()))
}

/// Nothing was touched; that is part of the message.
fn refused(error: results::Error) -> Fail {
    let remedy = "it stays as it is; give another file, or --force instead of --resume to replace it";
    match error {
        results::Error::Output(error) => crate::output::refused("--out")(error),
        results::Error::Exists { path } => Fail::request(format!(
            "--out: `{}` exists; continue it with --resume, replace it with --force, or give another file",
            path.display()
        )),
        results::Error::Damaged { .. } => Fail::request(format!("--out: {error}; {remedy}")),
        error => Fail::request(format!("--out: {error}")),
    }
}

/// That answers may be cut off. Answers to mini tasks fill the canvas that they need, and gaps always fill theirs.
fn warn_cut(args: &Args, totals: &Totals) {
    let length = args.run.options.length.and_then(cofill_engine::Length::fixed);
    let expects_end = match args.task {
        TaskName::Benchmark(_) | TaskName::File(_) => true,
        TaskName::Mini(task) => length.is_some_and(|length| length < task.length()),
        TaskName::Infill => false,
    };
    if expects_end && totals.endless > 0 {
        let (cut, n) = (totals.endless, totals.n);
        warning_line(&format!("{cut} of {n} answers fill their positions without an end and may be cut off; raise -n"));
    }
}

fn report(args: &Args, totals: &Totals) -> Done {
    let mut stdout = std::io::stdout().lock();
    let (score, error) = totals.score();
    if args.json {
        let mut answer = json!({
            "task": args.task.name(),
            "model": args.run.model,
            "sampler": args.run.sampler,
            "n": totals.n,
            "score": score,
            "standard_error": error,
            "filters": totals.means(),
            "nfe": totals.mean_nfe(),
            "steps": totals.mean_steps(),
            "tokens_per_forward": totals.per_forward(),
            "seconds": totals.seconds,
            "unjudged": totals.unjudged,
            "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(cache) = &totals.cache {
            answer["cache"] = json!(CacheAnswer::of(cache));
        }
        writeln!(stdout, "{answer}")?;
        return judges::outcome(totals.unjudged, totals.n);
    }
    let percent = |mean: f64, error: Option<f64>| {
        let error = error.map(|error| format!(" ± {:.1}", 100.0 * error)).unwrap_or_default();
        format!("{:.1} %{error}", 100.0 * mean)
    };
    // Only a sampler that looks ahead has fewer steps than forwards.
    let steps = match totals.steps == totals.nfe {
        true => String::new(),
        false => format!(" in {:.2} steps", totals.mean_steps()),
    };
    writeln!(
        stdout,
        "{}  {}  {} of {}  nfe {:.2}{steps}, {:.2} tokens per forward",
        args.task.name(),
        args.run.sampler,
        percent(score, error),
        totals.n,
        totals.mean_nfe(),
        totals.per_forward(),
    )?;
    if let Some(cache) = &totals.cache {
        writeln!(stdout, "  {}", crate::meter::cache(cache))?;
    }
    let means = totals.tally.means();
    if means.len() > 1 {
        for mean in means {
            writeln!(stdout, "  {:<18} {:<12} {}", mean.filter, mean.metric, percent(mean.mean, mean.standard_error))?;
        }
    }
    judges::outcome(totals.unjudged, totals.n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_without_a_file_keeps_nothing_and_says_so() {
        let said = words(None, 3, 40);
        assert_eq!(said, "interrupted after 3 of 40 answers, and none is kept; --out FILE keeps them");
    }
}
