//! `cofill score`: the scores of any engine's answers to a task.

use crate::fail::{Done, Fail, warning_line};
use crate::judges;
use crate::progress::Progress;
use crate::show::count;
use crate::signals;
use anyhow::Context;
use cofill_eval::judges::JudgeSet;
use cofill_eval::open::{OpenTask, scoring};
use cofill_eval::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill_report::results::{filters, notes};
use cofill_tasks::TaskName;
use cofill_tasks::benchmarks::{Loaded, Mean, Scored, Tally};
use cofill_tasks::data::{json_problem, without_lone_surrogates};
use cofill_tasks::wrapper::{SpecialTexts, Wrapper};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// Answers that are judged together: a command of a task file is started once for so many.
const TOGETHER: usize = 16;

/// Score answers to a benchmark or a task file, whoever gave them.
///
/// Those to a benchmark are scored as lm-evaluation-harness 0.4.8 does, those to a task file of your own by its checker.
///
/// Each line of the predictions is {"case_id":..,"doc_id":0,"raw_output":".."}: the question and all that was generated,
/// before any stop string is looked for. `case_id` is optional and is given back; other fields are passed over. Half a
/// surrogate pair, which Python can write and no text can hold, is read as U+FFFD.
///
/// Each line of the answer is {"case_id":..,"doc_id":0,"filters":{NAME:{"filtered":..,"metrics":{..}}}} and what lies in
/// between; the last is {"summary":{..}} with mean and standard error of every metric.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// gsm8k, gsm8k_cot, math500, humaneval, mbpp, or a task file (NAME.toml).
    #[arg(long)]
    task: TaskName,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The answers, as JSONL; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    predictions: PathBuf,
    /// Of a benchmark: plain, llada or dream, whose treatment of special tokens is followed. plain cuts at the task's stop strings only, llada
    /// deletes special tokens afterwards, dream cuts at the end of text first.
    #[arg(long, default_value = "plain")]
    wrapper: Wrapper,
    /// The text of a special token, for --wrapper and task files; the end of text first. May be given several times.
    #[arg(long, value_name = "TEXT")]
    special: Vec<String>,
    #[command(flatten)]
    judges: JudgeOptions,
    /// Answer with JSONL: a line per answer, then the summary.
    #[arg(long)]
    json: bool,
}

/// A line of the predictions.
#[derive(Deserialize)]
struct Prediction {
    case_id: Option<Value>,
    doc_id: usize,
    raw_output: String,
}

pub(crate) fn run(args: &Args) -> Done {
    if args.wrapper != Wrapper::Plain && args.special.is_empty() {
        let wrapper = args.wrapper;
        return Err(Fail::request(format!("--wrapper {wrapper} needs the texts of special tokens; add --special")));
    }
    signals::end_programs_first()?;
    let (task, spec) = open(args)?;
    let docs = task.docs(&spec);
    let predictions = predictions(&args.predictions, args.task.name(), docs)?;
    task.warnings().iter().for_each(|warning| warning_line(warning));
    let specials = SpecialTexts(args.special.clone());
    let mut out = std::io::stdout().lock();
    // Lines of the answer and a line that moves do not go together on one screen.
    let is_seen = !(args.json && out.is_terminal());
    let progress = is_seen.then(|| Progress::measuring(predictions.len(), format!("answers to {}", args.task.name())));
    let mut tally = Tally::default();
    let (mut unjudged, answers) = (0, predictions.len());
    for some in predictions.chunks(TOGETHER) {
        for (prediction, scored) in some.iter().zip(scores(&task, some, args.wrapper, &specials, progress.as_ref())?) {
            tally.add(&scored);
            judges::warn(prediction.doc_id, scored.judge_failure());
            unjudged += usize::from(scored.judge_failure().is_some());
            if args.json {
                writeln!(out, "{}", line(prediction, &scored))?;
            }
        }
    }
    drop(progress);
    match args.json {
        true => writeln!(out, "{}", json!({"summary": summary(args, &task, &tally, unjudged)}))?,
        false => out.write_all(table(args, &tally.means()).as_bytes())?,
    }
    judges::outcome(unjudged, answers)
}

/// The task and its judges.
fn open(args: &Args) -> Done<(OpenTask, EvalSpec)> {
    match args.task {
        TaskName::Mini(task) => {
            let problem =
                format!("--task: {task} is a mini task; `cofill mini check --task {task}` judges its answers");
            return Err(Fail::request(problem));
        }
        TaskName::Infill => {
            return Err(Fail::request("--task: gaps are judged by the tokens of a model; `cofill eval` does that"));
        }
        TaskName::Benchmark(_) | TaskName::File(_) => {}
    }
    // Nobody is asked: no model, and a sampler that decides nothing.
    let mut spec = EvalSpec::new(args.task.clone(), "", "topk:1".parse()?);
    spec.data = args.data.clone();
    spec.judges = args.judges.clone();
    let wrapper = Some(args.wrapper).filter(|wrapper| *wrapper != Wrapper::Plain);
    spec.questions = TaskOptions { wrapper, ..TaskOptions::default() };
    // Answers are scored without their prompts, so a benchmark needs none of its few-shot examples here.
    let mut unprompted = spec.clone();
    unprompted.questions.shots = matches!(spec.task, TaskName::Benchmark(_)).then_some(0);
    let mut task = OpenTask::open_unjudged(&unprompted)?;
    task.check_options(&spec)?;
    task.start_judges(&spec)?;
    Ok((task, spec))
}

/// The scores of some answers, in their order.
fn scores(
    task: &OpenTask,
    some: &[Prediction],
    wrapper: Wrapper,
    specials: &SpecialTexts,
    progress: Option<&Progress>,
) -> Done<Vec<Scored>> {
    let judged = || progress.into_iter().for_each(Progress::measured);
    match task {
        OpenTask::Benchmark { loaded, judges, .. } => {
            let one = |prediction: &Prediction| -> Done<Scored> {
                let reply = wrapper.reply(&prediction.raw_output, loaded.benchmark().until(), specials);
                let reply = reply.map_err(|error| Fail::Request(error.into()))?;
                let scored = loaded.score(prediction.doc_id, &reply, &judges.judges())?;
                judged();
                Ok(scored)
            };
            some.iter().map(one).collect()
        }
        OpenTask::File(file) => {
            let reply = |prediction: &Prediction| -> Done<(usize, String)> {
                let reply = file.reply(&prediction.raw_output, specials).map_err(Fail::request)?;
                Ok((prediction.doc_id, reply))
            };
            let replies = some.iter().map(reply).collect::<Done<Vec<_>>>()?;
            let all = file.judged(&replies).map_err(cofill_eval::open::Error::from)?;
            some.iter().for_each(|_| judged());
            Ok(all.into_iter().map(|judged| judged.scored).collect())
        }
        OpenTask::Mini(_) | OpenTask::Infill(_) => Ok(Vec::new()), // refused before
    }
}

/// All predictions, checked before the first one is scored: running programs takes its time.
fn predictions(path: &Path, task: &str, docs: usize) -> Done<Vec<Prediction>> {
    let mut text = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().lock().read_to_end(&mut text),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text)),
    };
    read.with_context(|| format!("--predictions: cannot read `{}`", path.display())).map_err(Fail::Request)?;
    let mut predictions = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let at = |problem: String| Fail::request(format!("line {number} of --predictions: {problem}"));
        let line = match without_lone_surrogates(line) {
            None => Cow::Borrowed(line),
            Some(mended) => {
                warning_line(&format!(
                    "line {number} of --predictions: half a surrogate pair is no character; read as U+FFFD"
                ));
                Cow::Owned(mended)
            }
        };
        let prediction: Prediction = serde_json::from_slice(&line).map_err(|error| at(json_problem(&error)))?;
        if prediction.doc_id >= docs {
            let (doc, last) = (prediction.doc_id, docs.saturating_sub(1));
            return Err(at(format!("{task} has no doc_id {doc}; they go from 0 to {last}")));
        }
        predictions.push(prediction);
    }
    match predictions.is_empty() {
        true => Err(Fail::request(format!("--predictions: `{}` has no line", path.display()))),
        false => Ok(predictions),
    }
}

/// What is said of an answer.
fn line(prediction: &Prediction, scored: &Scored) -> Value {
    let mut line = Map::new();
    line.extend(prediction.case_id.clone().map(|id| ("case_id".into(), id)));
    line.insert("doc_id".into(), json!(prediction.doc_id));
    line.insert("filters".into(), Value::Object(filters(scored)));
    line.extend(notes(scored));
    Value::Object(line)
}

fn summary(args: &Args, task: &OpenTask, tally: &Tally, unjudged: usize) -> Value {
    let of_benchmark = |loaded: &Loaded, judges: &JudgeSet| scoring(loaded, args.wrapper, judges);
    let mut summary = match task {
        OpenTask::Benchmark { loaded, judges, .. } => of_benchmark(loaded, judges),
        OpenTask::File(file) => file.what(),
        OpenTask::Mini(_) | OpenTask::Infill(_) => Map::new(),
    };
    summary.insert("task".into(), json!(args.task.name()));
    summary.insert("n".into(), json!(tally.means().first().map_or(0, |mean| mean.n)));
    summary.insert("unjudged".into(), json!(unjudged));
    summary.insert("filters".into(), tally.json());
    summary.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
    Value::Object(summary)
}

fn table(args: &Args, means: &[Mean]) -> String {
    let n = means.first().map_or(0, |mean| mean.n);
    let wrapper = match args.task {
        TaskName::File(_) => String::new(),
        _ => format!("  wrapper {}", args.wrapper),
    };
    let mut text = format!("{}  {}{wrapper}\n", args.task.name(), count(n, "answer"));
    for Mean { filter, metric, mean, standard_error, .. } in means {
        let error = standard_error.map(|error| format!(" ± {:.1}", 100.0 * error)).unwrap_or_default();
        text += &format!("{filter:16}  {metric}  {:.1} %{error}\n", 100.0 * mean);
    }
    text
}
