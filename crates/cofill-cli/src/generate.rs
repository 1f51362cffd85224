//! `cofill generate`: the whole loop on one canvas.

use crate::canvas::{CanvasArgs, forewarn};
use crate::fail::{Done, Fail, warning_line};
use crate::meter::{self, incomplete, meter};
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use crate::quiet::{QuietArgs, note};
use crate::settled;
use crate::show::{Show, ShowArgs, lines};
use cofill::trace::{CacheMeter, TraceWriter};
use cofill::{SamplerSpec, Step, TokenId};
use cofill_engine::{Ended, Engine, Finish, Generation, Judged, Prepared, RunSpec, SettledGap, StepEvent};
use cofill_report::output::{self, Output};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Fill a canvas: a prompt and masks, or masks anywhere.
///
/// The text goes to stdout, everything else to stderr. `cofill infill` fills the gaps of a file.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    #[command(flatten)]
    show: ShowArgs,
    /// Print what was generated without what was given; of several gaps, a line each.
    #[arg(long)]
    answer_only: bool,
    /// Answer with one JSON object: `text` is all of it, `answer` what was generated.
    #[arg(long, conflicts_with = "answer_only")]
    json: bool,
    #[command(flatten)]
    quiet: QuietArgs,
    /// Write what happened, step by step, to FILE (see `cofill trace`).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn run(args: &mut Args) -> Done {
    args.quiet.apply();
    settled(&mut args.run)?;
    args.canvas.read()?;
    let args = &*args;
    if let Some(path) = &args.trace {
        // Before a model is loaded.
        output::check(path, args.force.existing()).map_err(refused("--trace"))?;
    }
    let RunSpec { model, sampler, options, .. } = &args.run;
    let begun = Instant::now();
    let mut engine = {
        let _line = (!args.show.show && Engine::is_checkpoint(model)).then(|| Progress::loading(model));
        Engine::open(model, options)?
    };
    let load = begun.elapsed().as_secs_f64();
    engine.warning().into_iter().for_each(warning_line);
    let (input, options) = args.canvas.input(&engine, options)?;
    let prepared = engine.prepare_auto(&input, sampler, &options)?;
    forewarn(&engine, &input, &prepared);
    let generation = fill(args, &mut engine, prepared)?;
    report(args, &engine, &generation, load)
}

/// Fills the canvas while it is shown, traced, and counted.
fn fill(args: &Args, engine: &mut Engine, prepared: Prepared) -> Done<Generation> {
    let start = prepared.start.clone();
    let mut header = engine.trace_header(&start, &args.run.sampler, &args.run.options);
    header.probes = prepared.probes();
    let file = args.trace.as_ref().map(|path| Output::growing(path, args.force.existing())).transpose();
    let mut file = file.map_err(refused("--trace"))?;
    let torn = |error: std::io::Error| match &args.trace {
        Some(path) => {
            Fail::Run(anyhow::Error::new(error)).about(&format!("--trace: cannot write `{}`", path.display()))
        }
        None => error.into(),
    };
    let mut trace = match &mut file {
        Some(file) => Some(TraceWriter::new(file, &header).map_err(torn)?),
        None => None,
    };
    let ShowArgs { show, delay } = args.show;
    let mut show = if show { Show::begun(engine, &start, header.probes, delay) } else { None };
    let progress = (!args.show.show).then(|| Progress::filling(start.n_masked()));
    let (mut failed_to_trace, mut masks) = (None, start.n_masked());
    let mut watch = |event: &StepEvent<'_>| {
        // A picture that cannot be drawn (stderr is gone) must not cost the answer or the trace.
        if let Some(drawn) = &mut show
            && drawn.step(event.step, &event.step.pieces).is_err()
        {
            show = None;
        }
        if let Some(progress) = &progress {
            masks += event.step.appended;
            progress.step(masks - event.canvas.n_masked(), masks, event.nfe);
        }
        match trace.as_mut().map(|trace| trace.step(event.step)) {
            Some(Err(error)) => {
                failed_to_trace = Some(error);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    };
    let generation = engine.generate_watched(prepared, &mut watch);
    drop(show);
    if let Some(error) = failed_to_trace {
        return Err(torn(error));
    }
    let generation = generation?;
    drop(progress);
    if let Some(trace) = trace {
        trace.end(&generation.trace_end()).map_err(torn)?;
    }
    if let Some(mut file) = file {
        file.publish().map_err(failed("--trace"))?;
    }
    Ok(generation)
}

/// `1.20 s`, `3.00 ms`
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s => format!("{:.2} ms", s * 1e3),
    }
}

/// The answer on stdout, the meter on stderr.
fn report(args: &Args, engine: &Engine, generation: &Generation, load: f64) -> Done {
    let Generation { text, nfe, seconds, judged, .. } = generation;
    let (per_forward, per_second) = (generation.tokens_per_forward(), generation.useful_tokens_per_second());
    let sampler = &args.run.sampler;
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = Answer {
            tokens: generation.canvas.tokens(),
            text,
            answer: generation.answer(),
            answers: if args.canvas.has_gaps() { &generation.answers } else { &[] },
            nfe: *nfe,
            probes: generation.probes(),
            gaps: generation.gaps.iter().map(GapAnswer::of).collect(),
            tokens_per_forward: per_forward,
            useful_tokens: generation.useful,
            useful_tokens_per_second: per_second,
            seconds: Seconds { load, model: seconds.model, sampler: seconds.sampler },
            finish: generation.finish,
            ended: generation.ended,
            cache: generation.cache.as_ref().map(CacheAnswer::of),
            model: engine.name(),
            sampler,
            judged: judged.as_ref(),
            steps: generation.steps.iter().map(StepAnswer::of).collect(),
        };
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        // A file or a program gets the text as it is; a terminal, only what it shows.
        let text = if args.answer_only { generation.answer() } else { text.clone() };
        let text = if out.is_terminal() { lines(&text) } else { text };
        writeln!(out, "{text}")?;
    }
    let took = [load, seconds.model, seconds.sampler].map(duration);
    let [load, model, decided] = &took;
    note(&format!("{}; load {load}, model {model}, sampler {decided}", meter(sampler, generation)));
    if let Some(cache) = &generation.cache {
        note(&meter::cache(cache));
    }
    if let Some(judged) = judged {
        note(&judged.line());
    }
    if let Some(warning) = incomplete(generation, &args.run.options, "--") {
        warning_line(&warning);
    }
    Ok(ExitCode::SUCCESS)
}

/// `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    tokens: &'a [TokenId],
    text: &'a str,
    answer: String,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    answers: &'a [String],
    nfe: usize,
    #[serde(skip_serializing_if = "is_zero")]
    probes: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapAnswer>,
    tokens_per_forward: f64,
    useful_tokens: usize,
    useful_tokens_per_second: f64,
    seconds: Seconds,
    finish: Finish,
    ended: Ended,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheAnswer<'a>>,
    model: &'a str,
    sampler: &'a SamplerSpec,
    #[serde(flatten)]
    judged: Option<&'a Judged>,
    steps: Vec<StepAnswer<'a>>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// What a cache saved, and at which drift.
#[derive(Serialize)]
pub(crate) struct CacheAnswer<'a> {
    #[serde(flatten)]
    meter: &'a CacheMeter,
    positions_computed_share: f64,
}

impl CacheAnswer<'_> {
    pub(crate) fn of(meter: &CacheMeter) -> CacheAnswer<'_> {
        CacheAnswer { meter, positions_computed_share: meter.computed_share() }
    }
}

/// A gap whose length was found.
#[derive(Serialize)]
struct GapAnswer {
    length: usize,
    probes: usize,
}

impl GapAnswer {
    fn of(gap: &SettledGap) -> GapAnswer {
        GapAnswer { length: gap.length, probes: gap.tried.len() }
    }
}

/// Where the time went; with the rate it makes, the only part of an answer that differs from run to run.
#[derive(Serialize)]
struct Seconds {
    load: f64,
    model: f64,
    sampler: f64,
}

/// One step of `--json`; the whole story is in `--trace`.
#[derive(Serialize)]
struct StepAnswer<'a> {
    positions: Vec<usize>,
    tokens: Vec<TokenId>,
    confidence: Vec<f64>,
    forced: bool,
    #[serde(skip_serializing_if = "<[usize]>::is_empty")]
    remasked: &'a [usize],
    #[serde(skip_serializing_if = "is_zero")]
    appended: usize,
}

impl StepAnswer<'_> {
    fn of(step: &Step) -> StepAnswer<'_> {
        StepAnswer {
            positions: step.commits.iter().map(|commit| commit.position).collect(),
            tokens: step.commits.iter().map(|commit| commit.token).collect(),
            confidence: step.commits.iter().map(|commit| commit.confidence).collect(),
            forced: step.forced,
            remasked: &step.remasked,
            appended: step.appended,
        }
    }
}
