//! `cofill generate`: the whole loop on one canvas.

use crate::answer::Reading;
use crate::canvas::CanvasArgs;
use crate::fail::{Done, Fail, warning_line};
use crate::model::{DEFAULT, KeepArgs, Model, NAMES, spelling};
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use crate::show::{Show, count, lines};
use crate::tiny::{Judged, Question};
use anyhow::Context;
use cofill::trace::{End, Header, TraceWriter, VERSION};
use cofill::{Canvas, Decode, Finish, Proposal, SamplerSpec, Schedule, Step, Style, TokenId};
use cofill_report::output::{self, Output};
use serde::Serialize;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fill a canvas: a prompt and masks, or masks anywhere.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    /// The model.
    #[arg(short, long, default_value = DEFAULT, help = format!("The model: {NAMES}"))]
    model: String,
    #[command(flatten)]
    keep: KeepArgs,
    /// Which positions are committed together; `cofill samplers` lists the forms.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:2+ad")]
    sampler: SamplerSpec,
    /// Decode blocks of N positions from left to right (default: no blocks).
    #[arg(long, value_name = "N")]
    block: Option<usize>,
    /// 0 proposes the likeliest token, more draws at random.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f64,
    /// The root of all randomness.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Stop after N forwards, with masks left if need be.
    #[arg(long, value_name = "N")]
    max_nfe: Option<usize>,
    /// Keep the likeliest tokens up to this mass, before confidence is read (Dream's way; also at temperature 0).
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Keep the N likeliest tokens, before confidence is read (Dream's way; also at temperature 0).
    #[arg(long, value_name = "N")]
    top_k: Option<usize>,
    /// Classifier-free guidance: above 0, every forward also runs without what was given.
    #[arg(long, value_name = "SCALE", default_value_t = 0.0, allow_negative_numbers = true)]
    cfg: f64,
    /// Take attention for position i from the row that predicts it (i - 1 in Dream), not from its own.
    #[arg(long)]
    attention_of_source: bool,
    /// Cut the generated text at the first of these; may be given several times.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Never propose end of text (LLaDA's option of that name).
    #[arg(long)]
    logits_eos_inf: bool,
    /// Propose end of text and end of turn last, whatever the sampler ranks by (LLaDA's option of that name). Samplers that ask no
    /// model for their order (dus, dream@origin, p2@random) keep it.
    #[arg(long)]
    confidence_eos_eot_inf: bool,
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
    let mut meter = Meter::default();
    if let Some(path) = &args.trace {
        // Before a model is loaded.
        output::check(path, args.force.existing()).map_err(refused("--trace"))?;
    }
    let mut model = {
        let _line = (!args.show && Model::is_checkpoint(&args.model)).then(|| Progress::loading(&args.model));
        meter.load.time(|| Model::load(&args.model, &args.keep))?
    };
    model.configure(args.cfg, args.attention_of_source)?;
    let question = args.canvas.question(&model);
    let canvas = args.canvas.build(&mut model, question.as_ref())?;
    let start = canvas.clone();
    let pieces: Vec<String> = start.tokens().iter().map(|&token| model.piece(token)).collect();
    let proposal = proposal(args, &model);
    let schedule = args.block.map_or(Schedule::Full, |len| Schedule::Blocks { len });
    let builder = Decode::builder(canvas, args.sampler.build()?).proposal(proposal).schedule(schedule);
    let mut decode = builder.cap(args.max_nfe).begin()?;
    let file = args.trace.as_ref().map(|path| Output::growing(path, args.force.existing())).transpose();
    let mut file = file.map_err(refused("--trace"))?;
    let torn = |error: std::io::Error| match &args.trace {
        Some(path) => {
            Fail::Run(anyhow::Error::new(error)).about(&format!("--trace: cannot write `{}`", path.display()))
        }
        None => error.into(),
    };
    let mut trace = match &mut file {
        Some(file) => Some(TraceWriter::new(file, &header(args, &start, &pieces)).map_err(torn)?),
        None => None,
    };
    let mut show = args.show.then(|| Show::new(&start, &pieces, spelling(&args.model)));
    let progress = (!args.show).then(|| Progress::filling(start.n_masked()));

    let mut steps = Vec::new();
    while let Some(query) = decode.query() {
        let predictions = meter.model.time(|| model.denoiser().denoise(&[query]))?;
        let prediction = predictions.first().context("the model answered no prediction").map_err(Fail::Run)?;
        let Some(mut step) = meter.sampler.time(|| decode.absorb(prediction))? else { continue };
        step.pieces = step.commits.iter().map(|commit| model.piece(commit.token)).collect();
        // A picture that cannot be drawn (stderr is gone) must not cost the answer or the trace.
        if let Some(drawn) = &mut show
            && drawn.step(&step, &step.pieces).is_err()
        {
            show = None;
        }
        if let Some(trace) = &mut trace {
            trace.step(&step).map_err(torn)?;
        }
        steps.push(step);
        if let Some(progress) = &progress {
            progress.step(start.n_masked() - decode.canvas().n_masked(), decode.nfe());
        }
    }
    drop(progress);
    if let Some(trace) = trace {
        trace.end(&End { nfe: decode.nfe(), tokens: decode.canvas().tokens().to_vec() }).map_err(torn)?;
    }
    if let Some(mut file) = file {
        file.publish().map_err(failed("--trace"))?;
    }
    report(args, &model, &Outcome { decode, start, question, steps, meter })
}

/// How tokens are proposed.
fn proposal(args: &Args, model: &Model) -> Proposal {
    let eos: Vec<TokenId> = model.eos_id().into_iter().collect();
    let eot = model.end_of_turn();
    let style = match (args.top_p, args.top_k) {
        (None, None) => Style::Clean,
        (top_p, top_k) => Style::Filtered { top_p, top_k },
    };
    Proposal::sampled(args.temperature, args.seed)
        .style(style)
        .suppress(if args.logits_eos_inf { eos.clone() } else { Vec::new() })
        .demote(if args.confidence_eos_eot_inf { eos.into_iter().chain(eot).collect() } else { Vec::new() })
}

/// What a trace begins with.
fn header(args: &Args, start: &Canvas, pieces: &[String]) -> Header {
    Header {
        cofill_trace: VERSION,
        sampler: args.sampler.form(),
        model: args.model.clone(),
        tokens: start.tokens().to_vec(),
        mask_id: start.mask_id(),
        block: args.block,
        temperature: args.temperature,
        seed: args.seed,
        pieces: pieces.to_vec(),
    }
}

/// Where the time went.
#[derive(Default)]
struct Meter {
    load: Stopwatch,
    model: Stopwatch,
    sampler: Stopwatch,
}

#[derive(Default)]
struct Stopwatch(Duration);

impl Stopwatch {
    fn time<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = f();
        self.0 += start.elapsed();
        done
    }

    fn seconds(&self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds() {
            s if s >= 1.0 => write!(f, "{s:.2} s"),
            s => write!(f, "{:.2} ms", s * 1e3),
        }
    }
}

/// All that there is to tell.
struct Outcome {
    decode: Decode,
    start: Canvas,
    question: Option<Question>,
    steps: Vec<Step>,
    meter: Meter,
}

/// The answer on stdout, the meter on stderr.
fn report(args: &Args, model: &Model, outcome: &Outcome) -> Done {
    let Outcome { decode, start, question, steps, meter } = outcome;
    let tokens = decode.canvas().tokens();
    let Reading { text, useful } = Reading::of(model, start, decode.canvas(), &args.stop)?;
    let filled = start.n_masked() - decode.canvas().n_masked();
    let per_forward = filled as f64 / decode.nfe().max(1) as f64;
    let per_second = useful as f64 / (meter.model.seconds() + meter.sampler.seconds()).max(1e-9);
    let judged = question.as_ref().map(|question| question.judge(&text));
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = Answer {
            tokens,
            text: &text,
            nfe: decode.nfe(),
            tokens_per_forward: per_forward,
            useful_tokens: useful,
            useful_tokens_per_second: per_second,
            seconds: Seconds {
                load: meter.load.seconds(),
                model: meter.model.seconds(),
                sampler: meter.sampler.seconds(),
            },
            finish: if decode.finish() == Some(Finish::Capped) { "capped" } else { "complete" },
            model: &model.name,
            sampler: &args.sampler,
            judged: judged.as_ref(),
            steps: steps.iter().map(StepAnswer::of).collect(),
        };
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        // A file or a program gets the text as it is; a terminal, only what it shows.
        let text = if out.is_terminal() { lines(&text) } else { text };
        writeln!(out, "{text}")?;
    }
    let _ = writeln!(
        anstream::stderr(),
        "{}  {} in {}, {per_forward:.2} per forward; {per_second:.1} useful tokens/s; load {}, model {}, sampler {}",
        args.sampler,
        count(filled, "token"),
        count(decode.nfe(), "forward"),
        meter.load,
        meter.model,
        meter.sampler,
    );
    match judged {
        Some(judged) => drop(writeln!(anstream::stderr(), "{}", judged.line())),
        None if model.is_tiny() => warning_line(&format!(
            "`{}` knows only the mini tasks, and this is none of their prompts; `cofill mini corpus -n 1` prints some",
            model.name
        )),
        None => {}
    }
    if decode.finish() == Some(Finish::Capped) {
        let left = decode.canvas().n_masked();
        let left = count(left, "mask");
        warning_line(&format!("{left} left after --max-nfe {}; raise it", decode.nfe()));
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
    finish: &'static str,
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
