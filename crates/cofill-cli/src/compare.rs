//! `cofill compare`: samplers side by side on one prompt, where they part, and why.

mod columns;
mod page;

use crate::canvas::{CanvasArgs, warn_off_domain};
use crate::fail::{Done, Fail, warning_line};
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use cofill::trace_diff::{Difference, diff};
use cofill::{SamplerSpec, Trace};
use cofill_engine::{
    Compared, Comparison, DEFAULT_MODEL, Ended, Engine, Finish, Generation, Judged, MODEL_NAMES, RunOptions,
};
use cofill_report::output;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// How many samplers can be compared.
const MOST: usize = 8;

/// Put several samplers to one prompt: their answers side by side, where they part, and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    /// The model.
    #[arg(short, long, default_value = DEFAULT_MODEL, help = format!("The model: {MODEL_NAMES}"))]
    model: String,
    /// A sampler; given two to eight times. The others are compared with the first. `cofill samplers` lists the forms.
    #[arg(short, long = "sampler", value_name = "SPEC")]
    samplers: Vec<SamplerSpec>,
    #[command(flatten)]
    options: RunOptions,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
    /// Write what each sampler did, step by step, to a file in DIR (see `cofill trace`).
    #[arg(long, value_name = "DIR")]
    trace_dir: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn run(args: &mut Args) -> Done {
    args.canvas.read()?;
    let args = &*args;
    let samplers = &args.samplers;
    check(samplers)?;
    check_companion(samplers, &args.options)?;
    if let Some(folder) = &args.trace_dir {
        // Before a model is loaded.
        for name in samplers.iter().enumerate().map(|(i, sampler)| file_name(i, sampler)) {
            output::check(&folder.join(name), args.force.existing()).map_err(refused("--trace-dir"))?;
        }
    }
    let mut engine = {
        let _line = Engine::is_checkpoint(&args.model).then(|| Progress::loading(&args.model));
        Engine::open(&args.model, &args.options)?
    };
    let (input, options) = args.canvas.input(&engine, &args.options)?;
    let comparison = Comparison::prepare(&mut engine, &input, samplers, &options).map_err(|refused| {
        let fail = Fail::from(*refused.error);
        match refused.sampler {
            Some(sampler) => fail.about(&format!("-s {sampler}")),
            None => fail,
        }
    })?;
    comparison.warnings.iter().for_each(|warning| warning_line(warning));
    warn_off_domain(&engine, comparison.question());
    let all = fill(comparison, &mut engine, samplers.len());
    if let Some(folder) = &args.trace_dir {
        write_traces(folder, &all, &args.force)?;
    }
    let partings = partings(&all);
    let mut out = anstream::stdout().lock();
    if args.json {
        let object = Answer {
            model: engine.name(),
            samplers: all.iter().map(SamplerAnswer::of).collect(),
            divergences: partings.iter().map(|parting| Divergence::of(parting, &all)).collect(),
        };
        writeln!(out, "{}", serde_json::to_string(&object)?)?;
    } else {
        write!(out, "{}", page::page(&all, &partings, &page::Look::of_stdout()))?;
    }
    out.flush()?;
    let failures: Vec<Fail> = all
        .into_iter()
        .filter_map(|one| {
            let about = format!("-s {}", one.sampler);
            one.outcome.err().map(|error| Fail::from(error).about(&about))
        })
        .collect();
    let code = if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    for fail in failures {
        let _ = fail.report(); // one failure is as bad as several
    }
    Ok(code)
}

/// Refuses too few, too many, and the same twice, also where it is written differently.
fn check(samplers: &[SamplerSpec]) -> Done<()> {
    if !(2..=MOST).contains(&samplers.len()) {
        return Err(Fail::request(format!(
            "-s must be given 2 to {MOST} times, and {} given; for instance -s topk:4 -s topk:4+ad",
            match samplers.len() {
                0 => "none was".into(),
                1 => "1 was".into(),
                n => format!("{n} were"),
            }
        )));
    }
    for (i, sampler) in samplers.iter().enumerate() {
        let text = sampler.to_string();
        if samplers[..i].iter().any(|other| other.to_string() == text) {
            return Err(Fail::request(format!("-s {text} is given twice; leave one out, or change its numbers")));
        }
    }
    Ok(())
}

/// Refuses a companion whom nobody asks; samplers that ask none do without.
fn check_companion(samplers: &[SamplerSpec], options: &RunOptions) -> Done<()> {
    let Some(given) = &options.companion else { return Ok(()) };
    for sampler in samplers {
        if sampler.build()?.needs().companion {
            return Ok(());
        }
    }
    Err(Fail::request(format!(
        "--companion must be left out, since none of the samplers asks one, and `{given}` was given"
    )))
}

/// Fills the canvas with each, with a bar for each.
fn fill(comparison: Comparison, engine: &mut Engine, samplers: usize) -> Vec<Compared> {
    let masks = comparison.start().map_or(0, cofill::Canvas::n_masked);
    let mut bar: Option<(usize, Progress, usize)> = None;
    let all = comparison.run(engine, |i, event| {
        if bar.as_ref().is_none_or(|(of, ..)| *of != i) {
            drop(bar.take()); // one line at a time
            bar = Some((i, Progress::filling(masks), masks));
        }
        if let Some((_, progress, masks)) = &mut bar {
            *masks += event.step.appended;
            progress.step(*masks - event.canvas.n_masked(), *masks, event.nfe);
        }
    });
    debug_assert_eq!(all.len(), samplers);
    all
}

/// `A-topk-4-ad-40.jsonl`: a name that every file system takes.
fn file_name(i: usize, sampler: &SamplerSpec) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("{}-{}.jsonl", letter(i), sampler.to_string().chars().map(plain).collect::<String>())
}

/// What a sampler is called beside the others: A, B and so on.
fn letter(i: usize) -> char {
    char::from(b'A' + (i % 26) as u8)
}

fn write_traces(folder: &std::path::Path, all: &[Compared], force: &ForceArgs) -> Done<()> {
    let mut files = Vec::new();
    for (i, one) in all.iter().enumerate() {
        if let Ok((_, trace)) = &one.outcome {
            let mut bytes = Vec::new();
            trace.write(&mut bytes)?;
            files.push((file_name(i, &one.sampler), bytes));
        }
    }
    let named = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    output::write_all(folder, named, force.existing()).map_err(failed("--trace-dir"))?;
    Ok(())
}

/// Where one parts from the first, by their numbers; `None` when they do the same at every step.
struct Parting {
    a: usize,
    b: usize,
    difference: Option<Difference>,
}

impl Parting {
    /// Their traces.
    fn traces<'a>(&self, all: &'a [Compared]) -> Option<(&'a Trace, &'a Trace)> {
        let trace = |i: usize| all.get(i)?.outcome.as_ref().ok().map(|(_, trace)| trace);
        Some((trace(self.a)?, trace(self.b)?))
    }
}

/// Everybody who has an answer against the first who has.
fn partings(all: &[Compared]) -> Vec<Parting> {
    let mut traces = all.iter().enumerate().filter_map(|(i, one)| Some((i, &one.outcome.as_ref().ok()?.1)));
    let Some((a, first)) = traces.next() else { return Vec::new() };
    traces.map(|(b, trace)| Parting { a, b, difference: diff(first, trace) }).collect()
}

/// `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    model: &'a str,
    samplers: Vec<SamplerAnswer<'a>>,
    divergences: Vec<Divergence<'a>>,
}

/// What one sampler made of the canvas.
#[derive(Serialize)]
#[serde(untagged)]
enum SamplerAnswer<'a> {
    Done {
        sampler: &'a SamplerSpec,
        nfe: usize,
        tokens_per_forward: f64,
        steps: usize,
        text: &'a str,
        answer: &'a str,
        finish: Finish,
        ended: Ended,
        #[serde(skip_serializing_if = "Option::is_none")]
        judged: Option<&'a Judged>,
        seconds: cofill_engine::Seconds,
    },
    Failed {
        sampler: &'a SamplerSpec,
        error: String,
    },
}

impl SamplerAnswer<'_> {
    fn of(one: &Compared) -> SamplerAnswer<'_> {
        let sampler = &one.sampler;
        match &one.outcome {
            Err(error) => SamplerAnswer::Failed { sampler, error: error.to_string() },
            Ok((generation, _)) => {
                let Generation { text, nfe, finish, ended, judged, seconds, steps, .. } = generation;
                SamplerAnswer::Done {
                    sampler,
                    nfe: *nfe,
                    tokens_per_forward: generation.tokens_per_forward(),
                    steps: steps.len(),
                    text,
                    answer: generation.reply(),
                    finish: *finish,
                    ended: *ended,
                    judged: judged.as_ref(),
                    seconds: *seconds,
                }
            }
        }
    }
}

/// Where two part: `step` is null when they do the same at every step.
#[derive(Serialize)]
struct Divergence<'a> {
    a: &'a SamplerSpec,
    b: &'a SamplerSpec,
    step: Option<usize>,
    only_a: &'a [usize],
    only_b: &'a [usize],
    why: Option<String>,
}

impl Divergence<'_> {
    fn of<'a>(parting: &'a Parting, all: &'a [Compared]) -> Divergence<'a> {
        let (a, b) = (&all[parting.a].sampler, &all[parting.b].sampler);
        let names = (a.to_string(), b.to_string());
        match &parting.difference {
            None => Divergence { a, b, step: None, only_a: &[], only_b: &[], why: None },
            Some(Difference::Step { step, only_a, only_b, why }) => {
                let why = Some(why.named(&names.0, &names.1).to_string());
                Divergence { a, b, step: Some(*step), only_a, only_b, why }
            }
            Some(Difference::Ended { steps }) => {
                let why = Some(format!("{a} ends after {} steps, {b} after {}", steps.0, steps.1));
                Divergence { a, b, step: Some(steps.0.min(steps.1)), only_a: &[], only_b: &[], why }
            }
            Some(Difference::Start) => {
                Divergence { a, b, step: Some(0), only_a: &[], only_b: &[], why: Some("they start differently".into()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_get_names_that_every_file_system_takes() {
        let sampler = "topk:4+ad:40@layer=first".parse().unwrap();
        assert_eq!(file_name(1, &sampler), "B-topk-4-ad-40-layer-first.jsonl");
        assert_eq!(file_name(0, &"klass:0.7,1".parse().unwrap()), "A-klass-0.7-1.jsonl");
    }
}
