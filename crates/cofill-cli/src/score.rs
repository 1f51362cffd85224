//! `cofill score`: the scores of any engine's answers to a benchmark.

use crate::fail::{Done, Fail, warning_line};
use crate::judges;
use crate::show::count;
use crate::signals;
use anyhow::Context;
use cofill_eval::judges::JudgeSet;
use cofill_eval::open::scoring;
use cofill_eval::spec::JudgeOptions;
use cofill_report::results::{filters, notes};
use cofill_tasks::benchmarks::{Benchmark, Loaded, Mean, Scored, Tally};
use cofill_tasks::data::{json_problem, without_lone_surrogates};
use cofill_tasks::wrapper::{SpecialTexts, Wrapper};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Score answers to a benchmark as lm-evaluation-harness 0.4.8 does, whoever gave them.
///
/// Each line of the predictions is {"case_id":..,"doc_id":0,"raw_output":".."}: the question and all that was generated,
/// before any stop string is looked for. `case_id` is optional and is given back; other fields are passed over. Half a
/// surrogate pair, which Python can write and no text can hold, is read as U+FFFD.
///
/// Each line of the answer is {"case_id":..,"doc_id":0,"filters":{NAME:{"filtered":..,"metrics":{..}}}} and what lies in
/// between; the last is {"summary":{..}} with mean and standard error of every metric.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// gsm8k, gsm8k_cot, math500, humaneval or mbpp.
    #[arg(long)]
    task: Benchmark,
    /// The folder with the data files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The answers, as JSONL; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    predictions: PathBuf,
    /// plain, llada or dream: whose treatment of special tokens is followed. plain cuts at the task's stop strings only, llada
    /// deletes special tokens afterwards, dream cuts at the end of text first.
    #[arg(long, default_value = "plain")]
    wrapper: Wrapper,
    /// The text of a special token, for --wrapper; the end of text first. May be given several times.
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
    let task = args.task.load(&args.data)?;
    let predictions = predictions(&args.predictions, &task)?;
    let made = JudgeSet::start(args.task, &args.judges)?;
    task.warnings().iter().for_each(|warning| warning_line(warning));
    let specials = SpecialTexts(args.special.clone());
    let mut out = std::io::stdout().lock();
    let mut tally = Tally::default();
    let (mut unjudged, answers) = (0, predictions.len());
    for prediction in predictions {
        let reply = args.wrapper.reply(&prediction.raw_output, args.task.until(), &specials);
        let reply = reply.map_err(|error| Fail::Request(error.into()))?;
        let scored = task.score(prediction.doc_id, &reply, &made.judges())?;
        tally.add(&scored);
        judges::warn(prediction.doc_id, scored.judge_failure());
        unjudged += usize::from(scored.judge_failure().is_some());
        if args.json {
            writeln!(out, "{}", line(&prediction, &scored))?;
        }
    }
    match args.json {
        true => writeln!(out, "{}", json!({"summary": summary(args, &task, &made, &tally, unjudged)}))?,
        false => out.write_all(table(args, &tally.means()).as_bytes())?,
    }
    judges::outcome(unjudged, answers)
}

/// All predictions, checked before the first one is scored: running programs takes its time.
fn predictions(path: &Path, task: &Loaded) -> Done<Vec<Prediction>> {
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
        task.target(prediction.doc_id).map_err(|error| at(error.to_string()))?;
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

fn summary(args: &Args, task: &Loaded, made: &JudgeSet, tally: &Tally, unjudged: usize) -> Value {
    let mut summary = scoring(task, args.wrapper, made);
    summary.insert("task".into(), json!(args.task.name()));
    summary.insert("n".into(), json!(tally.means().first().map_or(0, |mean| mean.n)));
    summary.insert("unjudged".into(), json!(unjudged));
    summary.insert("filters".into(), tally.json());
    summary.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
    Value::Object(summary)
}

fn table(args: &Args, means: &[Mean]) -> String {
    let n = means.first().map_or(0, |mean| mean.n);
    let mut text = format!("{}  {}  wrapper {}\n", args.task, count(n, "answer"), args.wrapper);
    for Mean { filter, metric, mean, standard_error, .. } in means {
        let error = standard_error.map(|error| format!(" ± {:.1}", 100.0 * error)).unwrap_or_default();
        text += &format!("{filter:16}  {metric}  {:.1} %{error}\n", 100.0 * mean);
    }
    text
}
