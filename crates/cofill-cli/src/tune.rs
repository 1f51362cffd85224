//! `cofill tune`: which sampler for this model, this task and this budget?

use crate::fail::{Done, Fail, warning_line};
use crate::output::{ForceArgs, refused};
use crate::progress::Progress;
use crate::signals;
use crate::typed::{self, quoted};
use cofill::SamplerSpec;
use cofill_engine::{DEFAULT_MODEL, MODEL_NAMES, RunOptions, provenance};
use cofill_eval::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill_eval::tune::candidates::given;
use cofill_eval::tune::model::{Answered, Error, Folder, Plan, Request, Run, Which};
use cofill_eval::tune::{Event, Group};
use cofill_report::document::{Block, count, markdown};
use cofill_report::results;
use cofill_report::tuned::{Budget, Tuned, Verdict};
use cofill_tasks::TaskName;
use cofill_tasks::wrapper::Wrapper;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Find the best sampler for a model and a task within a budget.
///
/// Every candidate answers a few prompts. Who takes more than the budget leaves, the better half stays and answers twice as many, and so on.
/// The best then answers prompts that chose nobody, and so does the default, which is what `generate` would use, with the parameter that
/// does best within the budget if it takes more than that. One paired test says whether the best is better. docs/tune.md has the whole
/// protocol.
///
/// Prompts that choose and prompts that confirm are the validation and the test split of a mini task or of a task file that names
/// validation rows, and rows drawn by --corpus-seed of any other. The exit code is 0 also when nothing is better.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model.
    #[arg(short, long, default_value = DEFAULT_MODEL, help = format!("The model: {MODEL_NAMES}"))]
    model: String,
    /// The task, as in `cofill eval`.
    #[arg(long)]
    task: TaskName,
    /// What an answer may take on average: `12` forwards, or `2s` on this machine (the median; noisy).
    #[arg(long, value_name = "N|Ns")]
    budget: Budget,
    /// A candidate, instead of the stock grid; may be given several times, with braces as in recipes: `fast:{1,2}{,+ad}`.
    #[arg(short, long = "sampler", value_name = "SPEC")]
    samplers: Vec<String>,
    /// A file of candidates, a line each; `#` begins a remark.
    #[arg(long = "samplers", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Leave out a sampler (`demask`), a discount (`+paths`) or a candidate (`topk:4+ad`); may be given several times.
    #[arg(long, value_name = "NAME")]
    exclude: Vec<String>,
    /// Compare the best with this sampler instead of the default.
    #[arg(long, value_name = "SPEC")]
    against: Option<SamplerSpec>,
    /// Prompts that choose, at the last rung; the first rung has an eighth of them.
    #[arg(long, value_name = "N", default_value = "128")]
    limit: NonZeroUsize,
    /// Prompts that confirm.
    #[arg(long, value_name = "N", default_value = "300")]
    confirm: NonZeroUsize,
    /// Stop the search after two thirds of this time and the confirmation after all of it: 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    time: Option<Duration>,
    /// Candidates that are asked at the same time; each has the model in memory once more. Changes no answer.
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,
    /// Which prompts of a mini task's splits; of other tasks, how rows are drawn.
    #[arg(long, value_name = "N", default_value_t = 17, allow_negative_numbers = true)]
    corpus_seed: u64,
    /// Prompts decoded together (default: 16 for narrow models, 1 for others and for a budget of seconds). Changes no score.
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroUsize>,
    /// Of a benchmark: few-shot examples (default: the paper's).
    #[arg(long, value_name = "N")]
    shots: Option<usize>,
    /// Of a benchmark: plain, llada or dream, whose treatment of special tokens is followed (default: that of the model's family).
    #[arg(long)]
    wrapper: Option<Wrapper>,
    /// Of a benchmark: the folder with its files. Of infill: its file.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Begin every prompt with the tokenizer's beginning-of-text token (default: as in `cofill eval`).
    #[arg(long, value_name = "BOOL")]
    bos: Option<bool>,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    judges: JudgeOptions,
    /// Keep every answer, tune.md, tune.html, tune.json and a figure in a folder. Interrupted, the same command goes on from there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// Rows of the table on a terminal; the files have all of them.
const ROWS: usize = 12;

pub(crate) fn run(args: &Args) -> Done {
    let plan = Plan::new(&args.request()?).map_err(|error| refusal(error, args))?;
    plan.warnings.iter().for_each(|warning| warning_line(warning));
    let made_by = provenance(crate::COMMIT);
    let folder = match &args.out {
        None => None,
        Some(dir) => {
            let what = plan.what().map_err(|error| refusal(error, args))?;
            let opened = Folder::open(dir, &what, &made_by, args.force.existing());
            Some(opened.map_err(|error| refusal(error, args))?)
        }
    };
    signals::end_programs_first()?;
    let made = Arc::new(AtomicUsize::new(0));
    let interruptible = last_words(args, &made);
    let progress = Progress::tuning(plan.most_answers());
    let unjudged = AtomicUsize::new(0);
    let outcome = plan.search(Run {
        folder: folder.as_ref(),
        jobs: args.jobs.get(),
        time: args.time,
        stop: Arc::default(), // a signal ends the process, and what was answered is in its files
        made_by: made_by.clone(),
        tell: &mut |event| {
            if let Some(line) = rung_line(event, &plan) {
                progress.rung(&line);
            }
        },
        answered: &|Answered { sampler, record, .. }| {
            unjudged.fetch_add(usize::from(record.judge_failure().is_some()), Ordering::Relaxed);
            made.fetch_add(1, Ordering::Relaxed);
            progress.answered(sampler, record.nfe);
        },
    });
    drop((progress, interruptible));
    let outcome = outcome.map_err(|error| refusal(error, args))?;
    if let n @ 1.. = unjudged.into_inner() {
        warning_line(&format!("{} could not be judged and counted as wrong", count(n, "answer")));
    }
    let winner = match outcome.verdict {
        Verdict::Better => outcome.best.clone(),
        _ => None,
    };
    let command = args.command(winner.as_deref().unwrap_or(&outcome.default.sampler));
    let tuned = plan.tuned(outcome, command, made_by);
    if let Some(folder) = &folder {
        folder.write(&tuned).map_err(|error| refusal(error, args))?;
    }
    answer(args, &tuned)
}

fn answer(args: &Args, tuned: &Tuned) -> Done {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", tuned.json()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (table, all) = (tuned.table(ROWS), tuned.candidates.len());
    let hidden = all - table.rows.len();
    write!(out, "{}", markdown::markdown(&[Block::Table(table)]))?;
    if hidden > 0 {
        let place = args.out.as_ref().map(|dir| format!(", in {}", dir.join("tune.md").display())).unwrap_or_default();
        writeln!(out, "({hidden} more that left the search earlier{place})")?;
    }
    writeln!(out, "\n{}", tuned.about_default())?;
    writeln!(out, "{}", tuned.answer())?;
    writeln!(out, "{}", tuned.command)?;
    Ok(ExitCode::SUCCESS)
}

/// What Ctrl-C leaves: the answers in --out, and the command that goes on from there.
fn last_words(args: &Args, made: &Arc<AtomicUsize>) -> signals::Interruptible {
    let (out, made) = (args.out.as_ref().map(|dir| dir.display().to_string()), made.clone());
    signals::last_words(move || {
        let answers = count(made.load(Ordering::Relaxed), "more answer");
        match &out {
            Some(out) => format!("interrupted: {answers} in `{out}`; to go on: {}", typed::without("--force")),
            None => format!("interrupted: {answers} lost; with --out DIR they are kept, and the same command goes on"),
        }
    })
}

/// What is worth a line that stays.
fn rung_line(event: Event<'_>, plan: &Plan) -> Option<String> {
    Some(match event {
        Event::Rung { group: Group::All, rung, rungs, prompts, candidates } => {
            let (rung, who) = (rung + 1, count(candidates, "candidate"));
            format!("rung {rung} of {rungs}: {who}, {}", count(prompts, "prompt"))
        }
        Event::Rung { group: Group::Default, rung: 0, candidates: 1, .. } => {
            format!("to compare with: {}", plan.field.samplers[plan.field.default])
        }
        Event::Rung { group: Group::Default, rung: 0, candidates, .. } => {
            format!("it takes more than the budget: {candidates} other parameters of it")
        }
        Event::Best { sampler, measured } => {
            let cost = plan.budget.amount(measured.cost(&plan.budget));
            format!("  best so far: {sampler}, {:.1} % at {cost}", measured.score)
        }
        Event::Confirm { best, default, prompts } if best == default => {
            format!("confirming {best}: {}", count(prompts, "other prompt"))
        }
        Event::Confirm { best, default, prompts } => {
            format!("confirming {best} against {default}: {}", count(prompts, "other prompt"))
        }
        _ => return None,
    })
}

impl Args {
    fn request(&self) -> Done<Request> {
        let mut spec = EvalSpec::new(self.task.clone(), &self.model, cofill_engine::DEFAULT_SAMPLER.parse()?);
        spec.run = self.options.clone();
        spec.run.bos = self.bos;
        spec.questions = TaskOptions {
            corpus_seed: self.corpus_seed,
            batch: self.batch,
            shots: self.shots,
            wrapper: self.wrapper,
            ..TaskOptions::default()
        };
        spec.judges = self.judges.clone();
        spec.data = self.data.clone();
        Ok(Request {
            spec,
            budget: self.budget,
            which: self.which()?,
            exclude: self.exclude.clone(),
            against: self.against.clone(),
            limit: self.limit,
            confirm: self.confirm,
        })
    }

    /// The grid, unless candidates were named.
    fn which(&self) -> Done<Which> {
        let mut samplers = Vec::new();
        for text in &self.samplers {
            samplers.extend(given(text).map_err(|problem| Fail::request(format!("--sampler: {problem}")))?);
        }
        if let Some(path) = &self.file {
            let place = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Fail::request(format!("--samplers: cannot read `{place}`: {error}")))?;
            samplers.extend(given(&text).map_err(|problem| Fail::request(format!("--samplers `{place}`: {problem}")))?);
            if samplers.is_empty() {
                return Err(Fail::request(format!("--samplers: `{place}` names no sampler; write one on each line")));
            }
        }
        Ok(if samplers.is_empty() { Which::Grid } else { Which::Given(samplers) })
    }

    /// The command that generates with a sampler as it was tuned here.
    fn command(&self, sampler: &str) -> String {
        let mut words = vec![
            "cofill".to_owned(),
            "generate".into(),
            "-m".into(),
            quoted(&self.model),
            "-s".into(),
            quoted(sampler),
        ];
        let fields = |options: &RunOptions| serde_json::to_value(options).unwrap_or_default();
        let (ours, usual) = (fields(&self.options), fields(&RunOptions::default()));
        for (name, value) in ours.as_object().into_iter().flatten() {
            if usual.get(name) == Some(value) {
                continue;
            }
            let flag = format!("--{}", name.replace('_', "-"));
            let values = match value {
                serde_json::Value::Array(values) => values.clone(),
                value => vec![value.clone()],
            };
            for value in values {
                words.push(flag.clone());
                match value {
                    serde_json::Value::Bool(_) => {}
                    serde_json::Value::String(text) => words.push(quoted(&text)),
                    value => words.push(quoted(&value.to_string())),
                }
            }
        }
        words.join(" ")
    }
}

/// `90s`, `10m`, `2h`.
fn time(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no time; give a number above 0 with its unit, as in `90s`, `10m` or `2h`");
    let unit = text.chars().next_back().ok_or_else(bad)?;
    let seconds = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * seconds).ok().filter(|time| !time.is_zero()).ok_or_else(bad)
}

/// What a flag could change is said here: the library knows none.
fn refusal(error: Error, args: &Args) -> Fail {
    let with = |remedy: &str| Fail::request(format!("{error}; {remedy}"));
    match error {
        Error::Open(error) => error.into(),
        Error::Another { .. } => with("give --out another folder, or --force to begin again"),
        Error::Plan { .. } => with("give --out another folder"),
        Error::SecondsTogether { .. } => with("leave out --jobs"),
        Error::TooFewPrompts { .. } | Error::TooFewRows { .. } => with("give more rows"),
        Error::Nobody { .. } => with("leave out --exclude, or name candidates with --sampler"),
        Error::Candidate { sampler, source } => Fail::from(*source).about(&format!("candidate `{sampler}`")),
        Error::Output(error) => refused("--out")(error),
        Error::Results(results::Error::Output(error)) => refused("--out")(error),
        Error::Results(error) => {
            Fail::request(format!("--out: {error}; give another folder, or --force to begin again"))
        }
        Error::Plot(_) | Error::Json(_) | Error::Interrupted { .. } => Fail::Run(error.into()),
        Error::ExcludesNobody { .. } if args.exclude.is_empty() => Fail::Run(error.into()),
        error => Fail::Request(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "10", "m", "0s", "-1s", "1d", "nans", "infs", "10 é"] {
            assert!(time(bad).unwrap_err().contains("`10m`"), "{bad}");
        }
    }
}
