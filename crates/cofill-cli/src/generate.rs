//! `cofill generate`: the whole loop on one canvas.

use crate::fail::{Done, Fail};
use crate::model::{Model, NAMES};
use crate::show::{Show, count};
use anyhow::Context;
use cofill::trace::{End, Header, TraceWriter, VERSION};
use cofill::{Canvas, Decode, Finish, Proposal, SamplerSpec, Schedule, Step, TokenId};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fill a canvas: a prompt and masks, or masks anywhere.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The prompt, as text.
    prompt: Option<String>,
    /// The model.
    #[arg(short, long, default_value = "toy", help = format!("The model: {NAMES}"))]
    model: String,
    /// Which positions are committed together; `cofill samplers` lists the forms.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:2+ad")]
    sampler: SamplerSpec,
    /// How many positions to generate after the prompt.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 12, allow_negative_numbers = true)]
    length: usize,
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
    /// The prompt, as token ids: 1,2,3.
    #[arg(long, value_name = "IDS", conflicts_with = "prompt")]
    prompt_tokens: Option<String>,
    /// The whole canvas, as token ids with M for a mask: 0,M,16,M,M.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "prompt_tokens", "length"])]
    tokens: Option<String>,
    /// Show the canvas being filled (on stderr).
    #[arg(long)]
    show: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
    /// Write what happened, step by step, to FILE (see `cofill trace`).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Done {
    let (mut model, canvas) = prepare(args)?;
    let start = canvas.clone();
    let pieces: Vec<String> = start.tokens().iter().map(|&token| model.piece(token)).collect();
    let proposal = Proposal::sampled(args.temperature, args.seed);
    let schedule = args.block.map_or(Schedule::Full, |len| Schedule::Blocks { len });
    let mut decode = Decode::new(canvas, args.sampler.build()?)?.with_proposal(proposal)?.with_schedule(schedule)?;
    if let Some(cap) = args.max_nfe {
        decode = decode.with_cap(cap);
    }
    let mut trace = args.trace.as_ref().map(|path| open_trace(args, path, &start, &pieces)).transpose()?;
    let mut show = args.show.then(|| Show::new(&start, &pieces));

    let mut steps = Vec::new();
    let mut meter = Meter::default();
    while let Some(query) = decode.query() {
        let predictions = meter.model.time(|| model.denoiser.denoise(&[query]))?;
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
            trace.step(&step)?;
        }
        steps.push(step);
    }
    if let Some(trace) = trace {
        trace.end(&End { nfe: decode.nfe(), tokens: decode.canvas().tokens().to_vec() })?;
    }
    report(args, &model, &decode, &start, &steps, &meter)
}

/// The model and the canvas that the arguments describe.
fn prepare(args: &Args) -> Done<(Model, Canvas)> {
    // The toy's words are the same for every length, so an empty one can read the prompt before the length is known.
    let empty = Model::load(&args.model, 0)?;
    let mask_id = empty.denoiser.mask_id();
    let (mut tokens, masks) = match (&args.tokens, &args.prompt_tokens, &args.prompt) {
        (Some(ids), _, _) => (parse_ids("--tokens", ids, Some(mask_id))?, 0),
        (_, Some(ids), _) => (parse_ids("--prompt-tokens", ids, None)?, args.length),
        (_, _, Some(text)) => (empty.encode(text)?, args.length),
        _ => (Vec::new(), args.length),
    };
    const MOST: usize = 8192;
    let length = tokens.len().saturating_add(masks);
    if length > MOST {
        return Err(Fail::request(format!(
            "the canvas has {length} positions, but `{}` holds {MOST}; lower --length",
            args.model
        )));
    }
    if args.tokens.is_none() && tokens.contains(&mask_id) {
        let remedy = "give the whole canvas with --tokens and M";
        return Err(Fail::request(format!("--prompt-tokens contains {mask_id}, which is the mask; {remedy}")));
    }
    tokens.resize(length, mask_id);
    let canvas = Canvas::new(tokens, mask_id);
    let model = Model::load(&args.model, length)?;
    let last = model.denoiser.vocab() as TokenId - 1;
    let unknown = canvas.tokens().iter().position(|&token| token > last);
    if let Some(position) = unknown {
        let token = canvas.tokens()[position];
        return Err(cofill::Error::UnknownToken { token, position, last }.into());
    }
    Ok((model, canvas))
}

/// `1,2,M`: ids, and M for the mask where masks are allowed.
fn parse_ids(field: &str, text: &str, mask: Option<TokenId>) -> Done<Vec<TokenId>> {
    let accepted =
        if mask.is_some() { "token ids and M, separated by commas" } else { "token ids, separated by commas" };
    text.split(',')
        .map(str::trim)
        .map(|id| match (id, mask) {
            ("M", Some(mask)) => Ok(mask),
            _ => id
                .parse()
                .map_err(|_| Fail::request(format!("`{id}` in {field} is not a token id; expected {accepted}"))),
        })
        .collect()
}

fn open_trace(args: &Args, path: &PathBuf, start: &Canvas, pieces: &[String]) -> Done<TraceWriter<BufWriter<File>>> {
    let file = File::create(path)
        .with_context(|| format!("--trace: cannot write `{}`", path.display()))
        .map_err(Fail::Request)?;
    let header = Header {
        cofill_trace: VERSION,
        sampler: args.sampler.clone(),
        model: args.model.clone(),
        tokens: start.tokens().to_vec(),
        mask_id: start.mask_id(),
        block: args.block,
        temperature: args.temperature,
        seed: args.seed,
        pieces: pieces.to_vec(),
    };
    Ok(TraceWriter::new(BufWriter::new(file), &header)?)
}

/// Where the time went.
#[derive(Default)]
struct Meter {
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

    fn ms(&self) -> f64 {
        self.0.as_secs_f64() * 1e3
    }
}

/// The answer on stdout, the meter on stderr.
fn report(args: &Args, model: &Model, decode: &Decode, start: &Canvas, steps: &[Step], meter: &Meter) -> Done {
    let tokens = decode.canvas().tokens();
    let text = model.text(tokens);
    let mut out = std::io::stdout().lock();
    if args.json {
        let answer = Answer {
            tokens,
            text: &text,
            nfe: decode.nfe(),
            finish: if decode.finish() == Some(Finish::Capped) { "capped" } else { "complete" },
            model: &model.name,
            sampler: &args.sampler,
            steps: steps.iter().map(StepAnswer::of).collect(),
        };
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        writeln!(out, "{text}")?;
    }
    let filled = start.n_masked() - decode.canvas().n_masked();
    let per_forward = filled as f64 / decode.nfe().max(1) as f64;
    let _ = writeln!(
        anstream::stderr(),
        "{}  {} in {}, {per_forward:.2} per forward; model {:.2} ms, sampler {:.2} ms",
        args.sampler,
        count(filled, "token"),
        count(decode.nfe(), "forward"),
        meter.model.ms(),
        meter.sampler.ms(),
    );
    if decode.finish() == Some(Finish::Capped) {
        let left = decode.canvas().n_masked();
        let left = count(left, "mask");
        crate::fail::warning_line(&format!("{left} left after --max-nfe {}; raise it", decode.nfe()));
    }
    Ok(ExitCode::SUCCESS)
}

/// `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    tokens: &'a [TokenId],
    text: &'a str,
    nfe: usize,
    finish: &'static str,
    model: &'a str,
    sampler: &'a SamplerSpec,
    steps: Vec<StepAnswer<'a>>,
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
