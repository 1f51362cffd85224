//! `cofill bench decode`: a whole decode of one canvas, forward by forward.

use super::overhead::load;
use super::peer::settle;
use super::step::{KeepArgs, SizeArgs, ms};
use crate::fail::{Done, Fail};
use crate::meter;
use crate::progress::Progress;
use cofill::trace::CacheMeter;
use cofill::{Cache, Canvas, Decode, Denoiser, SamplerSpec, Schedule};
use cofill_engine::MODEL_NAMES;
use cofill_model::{Model, Timing};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time a whole decode of a canvas: forwards, milliseconds a forward, tokens a second.
///
/// Random weights are unsure of everything, so a sampler that asks for confidence commits a token a forward. --tokens-per-forward
/// sets the pace instead.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model.
    #[arg(short, long, conflicts_with_all = ["hidden", "layers", "heads", "mlp", "vocab"], help = format!("The model (default: one with random weights of the sizes below): {MODEL_NAMES}"))]
    model: Option<String>,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Positions of a block; 0 decodes all masks at once.
    #[arg(long, value_name = "N", default_value_t = 32)]
    block: usize,
    /// The sampler.
    #[arg(short, long, value_name = "SPEC", default_value = "fast:1")]
    sampler: SamplerSpec,
    /// Commit so many tokens with every forward, whatever the model says: topk:N.
    #[arg(long, value_name = "N", conflicts_with = "sampler", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tokens_per_forward: Option<u32>,
    /// A cache, as `generate --cache` takes it; again for more of them, which take turns: the first is what others are compared with.
    /// `auto:inf` commits what dual commits, and measures the drift.
    #[arg(long, value_name = "CACHE", default_value = "off")]
    cache: Vec<Cache>,
    /// End after so many forwards.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    forwards: Option<u32>,
    /// Rounds; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// `--json`.
#[derive(Serialize)]
struct Answer {
    model: String,
    dtype: Option<String>,
    sampler: String,
    positions: usize,
    masked: usize,
    block: usize,
    threads: usize,
    rounds: u32,
    contenders: Vec<Standing>,
}

/// How one way to decode did.
#[derive(Serialize)]
struct Standing {
    name: String,
    nfe: usize,
    tokens: usize,
    total_ms: f64,
    ms_per_forward: f64,
    tokens_per_second: f64,
    /// Of the fastest round, together over its forwards.
    body_ms: f64,
    final_layer_ms: f64,
    head_ms: f64,
    /// The first contender's time over this one's: above 1, this one is faster.
    ratio: f64,
    every_round_ms: Vec<f64>,
    /// What the cache saved, and what that cost as far as it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheMeter>,
}

/// A way to decode that is measured in turns with the others: one for each cache that is asked for.
struct Contender {
    cache: Cache,
    best: Option<Run>,
    every_round_ms: Vec<f64>,
}

/// One decode.
#[derive(Clone)]
struct Run {
    nfe: usize,
    tokens: usize,
    took: Duration,
    timing: Timing,
    cache: Option<CacheMeter>,
}

impl Contender {
    fn decode(&self, args: &Args, sampler: &SamplerSpec, model: &mut Model, canvas: &Canvas) -> Done<Run> {
        let schedule = if args.block == 0 { Schedule::Full } else { Schedule::Blocks { len: args.block } };
        let builder = Decode::builder(canvas.clone(), sampler.build()?).schedule(schedule);
        let mut decode = builder.cache(self.cache).cap(args.forwards.map(|n| n as usize)).begin()?;
        let masks = canvas.n_masked();
        model.take_timing();
        let begun = Instant::now();
        while let Some(query) = decode.query() {
            let predictions = model.denoise(&[query])?;
            predictions.iter().try_for_each(|prediction| decode.absorb(prediction).map(drop))?;
        }
        let took = begun.elapsed();
        let (nfe, tokens) = (decode.nfe(), masks - decode.canvas().n_masked());
        Ok(Run { nfe, tokens, took, timing: model.take_timing(), cache: decode.cache_meter().cloned() })
    }

    fn round(&mut self, args: &Args, sampler: &SamplerSpec, model: &mut Model, canvas: &Canvas) -> Done<()> {
        settle();
        let run = self.decode(args, sampler, model, canvas)?;
        self.every_round_ms.push(ms(run.took));
        if self.best.as_ref().is_none_or(|best| run.took < best.took) {
            self.best = Some(run);
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Done {
    let (mut model, name) = load(args.model.as_deref(), &args.size, &args.keep)?;
    let canvas = args.size.canvas(&model)?;
    let sampler = match args.tokens_per_forward {
        Some(n) => format!("topk:{n}").parse()?,
        None => args.sampler.clone(),
    };
    let contender = |&cache: &Cache| Contender { cache, best: None, every_round_ms: Vec::new() };
    let mut contenders: Vec<Contender> = args.cache.iter().map(contender).collect();
    let progress = Progress::measuring(args.rounds as usize, "rounds".to_owned());
    for _ in 0..args.rounds {
        for contender in &mut contenders {
            contender.round(args, &sampler, &mut model, &canvas)?;
        }
        progress.measured();
    }
    drop(progress);
    let first = contenders.first().and_then(|contender| contender.best.as_ref()).map(|best| best.took);
    let standings: Option<Vec<Standing>> = contenders.iter().map(|contender| standing(contender, first?)).collect();
    let answer = Answer {
        model: name,
        dtype: args.keep.dtype.map(|dtype| dtype.to_string()),
        sampler: sampler.to_string(),
        positions: args.size.positions,
        masked: args.size.masked,
        block: args.block,
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
        contenders: standings.ok_or_else(|| Fail::request("--rounds must be at least 1"))?,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        print(&mut out, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn standing(contender: &Contender, first: Duration) -> Option<Standing> {
    let &Run { nfe, tokens, took, timing, ref cache } = contender.best.as_ref()?;
    Some(Standing {
        name: match contender.cache {
            Cache::Off => "no cache".into(),
            cache => format!("cache {cache}"),
        },
        nfe,
        tokens,
        total_ms: ms(took),
        ms_per_forward: ms(took) / nfe.max(1) as f64,
        tokens_per_second: tokens as f64 / took.as_secs_f64(),
        body_ms: ms(timing.body),
        final_layer_ms: ms(timing.final_block),
        head_ms: ms(timing.head),
        ratio: first.as_secs_f64() / took.as_secs_f64(),
        every_round_ms: contender.every_round_ms.clone(),
        cache: cache.clone(),
    })
}

fn print(out: &mut impl Write, answer: &Answer) -> Done<()> {
    let Answer { model, sampler, positions, masked, block, threads, rounds, .. } = answer;
    writeln!(out, "{model}")?;
    let blocks = if *block == 0 { "no blocks".into() } else { format!("blocks of {block}") };
    writeln!(
        out,
        "{sampler}, {positions} positions, {masked} masked, {blocks}, {threads} threads, fastest of {rounds}"
    )?;
    writeln!(out)?;
    let columns = ["NFE", "tokens", "total ms", "ms/NFE", "tokens/s", "ratio"];
    write!(out, "{:<14}", "")?;
    columns.iter().try_for_each(|column| write!(out, "{column:>10}"))?;
    writeln!(out)?;
    for Standing { name, nfe, tokens, total_ms, ms_per_forward, tokens_per_second, ratio, .. } in &answer.contenders {
        write!(out, "{name:<14}{nfe:>10}{tokens:>10}{total_ms:>10.0}{ms_per_forward:>10.1}")?;
        writeln!(out, "{tokens_per_second:>10.1}{ratio:>10.2}")?;
    }
    let caches = answer.contenders.iter().filter_map(|contender| contender.cache.as_ref());
    caches.into_iter().try_for_each(|cache| writeln!(out, "{}", meter::cache(cache)))?;
    Ok(())
}
