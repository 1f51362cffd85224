//! `cofill generate`: the whole loop on one canvas.

use crate::canvas::CanvasArgs;
use crate::fail::{Done, Fail, warning_line};
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use crate::show::{Show, count, lines};
use cofill::trace::{End, TraceWriter};
use cofill::{SamplerSpec, Step, TokenId};
use cofill_engine::{Engine, Finish, Generation, Judged, Prepared, RunSpec, Spelling, StepEvent};
use cofill_report::output::{self, Output};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Fill a canvas: a prompt and masks, or masks anywhere.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    /// Show the canvas being filled (on stderr).
    #[arg(long)]
    show: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
    /// Write what happened, step by step, to FILE (see `cofill trace`).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.trace {
        // Before a model is loaded.
        output::check(path, args.force.existing()).map_err(refused("--trace"))?;
    }
    let RunSpec { model, sampler, options, .. } = &args.run;
    let begun = Instant::now();
    let mut engine = {
        let _line = (!args.show && Engine::is_checkpoint(model)).then(|| Progress::loading(model));
        Engine::open(model, options)?
    };
    let load = begun.elapsed().as_secs_f64();
    let (input, options) = args.canvas.input(&engine, options)?;
    let prepared = engine.prepare(&input, sampler, &options)?;
    prepared.warnings.iter().for_each(|warning| warning_line(warning));
    let generation = fill(args, &mut engine, prepared)?;
    report(args, &engine, &generation, load)
}

/// Fills the canvas while it is shown, traced, and counted.
fn fill(args: &Args, engine: &mut Engine, prepared: Prepared) -> Done<Generation> {
    let start = prepared.start.clone();
    let header = engine.trace_header(&start, &args.run.sampler, &args.run.options);
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
    let mut show = args.show.then(|| Show::new(&start, &header.pieces, Spelling::of(&args.run.model)));
    let progress = (!args.show).then(|| Progress::filling(start.n_masked()));
    let mut failed_to_trace = None;
    let mut watch = |event: &StepEvent<'_>| {
        // A picture that cannot be drawn (stderr is gone) must not cost the answer or the trace.
        if let Some(drawn) = &mut show
            && drawn.step(event.step, &event.step.pieces).is_err()
        {
            show = None;
        }
        if let Some(progress) = &progress {
            progress.step(start.n_masked() - event.canvas.n_masked(), event.nfe);
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
    if let Some(error) = failed_to_trace {
        return Err(torn(error));
    }
    let generation = generation?;
    drop(progress);
    if let Some(trace) = trace {
        trace.end(&End { nfe: generation.nfe, tokens: generation.canvas.tokens().to_vec() }).map_err(torn)?;
    }
    if let Some(mut file) = file {
        file.publish().map_err(failed("--trace"))?;
    }
    Ok(generation)
}

/// `1.20 s`, `3.00 ms`
fn duration(seconds: f64) -> String {
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
            nfe: *nfe,
            tokens_per_forward: per_forward,
            useful_tokens: generation.useful,
            useful_tokens_per_second: per_second,
            seconds: Seconds { load, model: seconds.model, sampler: seconds.sampler },
            finish: generation.finish,
            model: engine.name(),
            sampler,
            judged: judged.as_ref(),
            steps: generation.steps.iter().map(StepAnswer::of).collect(),
        };
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        // A file or a program gets the text as it is; a terminal, only what it shows.
        let text = if out.is_terminal() { lines(text) } else { text.clone() };
        writeln!(out, "{text}")?;
    }
    let _ = writeln!(
        anstream::stderr(),
        "{sampler}  {} in {}, {per_forward:.2} per forward; {per_second:.1} useful tokens/s; load {}, model {}, sampler {}",
        count(generation.filled(), "token"),
        count(*nfe, "forward"),
        duration(load),
        duration(seconds.model),
        duration(seconds.sampler),
    );
    match judged {
        Some(judged) => drop(writeln!(anstream::stderr(), "{}", judged.line())),
        None if engine.knows_mini_tasks() => warning_line(&format!(
            "`{}` knows only the mini tasks, and this is none of their prompts; `cofill mini corpus -n 1` prints some",
            engine.name()
        )),
        None => {}
    }
    if generation.finish == Finish::Capped {
        let left = count(generation.canvas.n_masked(), "mask");
        warning_line(&format!("{left} left after --max-nfe {nfe}; raise it"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    tokens: &'a [TokenId],
    text: &'a str,
    nfe: usize,
    tokens_per_forward: f64,
    useful_tokens: usize,
    useful_tokens_per_second: f64,
    seconds: Seconds,
    finish: Finish,
    model: &'a str,
    sampler: &'a SamplerSpec,
    #[serde(flatten)]
    judged: Option<&'a Judged>,
    steps: Vec<StepAnswer<'a>>,
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
}

impl StepAnswer<'_> {
    fn of(step: &Step) -> StepAnswer<'_> {
        StepAnswer {
            positions: step.commits.iter().map(|commit| commit.position).collect(),
            tokens: step.commits.iter().map(|commit| commit.token).collect(),
            confidence: step.commits.iter().map(|commit| commit.confidence).collect(),
            forced: step.forced,
            remasked: &step.remasked,
        }
    }
}
