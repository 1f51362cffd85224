//! `cofill bench overhead`: what `+ad` adds to a forward, under the same stopping rule and at equal NFE.
//!
//! Whole runs with and without ADAS cannot be compared on a busy machine: it drifts by more than what is to be
//! measured. So a plain decode is walked step by step, and at each of its states both samplers make one step from the
//! same canvas, one right after the other, in alternating order. Equal NFE holds by construction, for every rule. The
//! ratio of a pair is free of drift; the median of the ratios is free of whoever disturbed a few of them.

use super::select::{GOAL, GOAL_AD};
use super::step::{KeepArgs, SizeArgs, Split, step, with_and_without};
use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill::{Canvas, SamplerSpec};
use cofill_engine::{Engine, MODEL_NAMES};
use cofill_model::Model;
use cofill_report::statistics::bootstrap::{Bootstrap, LEVEL, quantile};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Measure what the attention discount adds to a forward: the ratio of a step with +ad to one without.
///
/// Along a plain decode, both samplers make one step from the same canvas, right after each other and in alternating
/// order; the answer is the median of the pairs' ratios with a 95 % bootstrap interval. `probe` is the time spent
/// reading attention off, `select` the time that choosing takes longer, both as shares of a plain forward. The paper
/// reports 3.1 % for its own code.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model.
    #[arg(short, long, conflicts_with_all = ["hidden", "layers", "heads", "mlp", "vocab"], help = format!("The model (default: one with random weights of the sizes below): {MODEL_NAMES}"))]
    model: Option<String>,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// The sampler; it is measured without its discount and with it, or with `+ad` where it has none.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:8")]
    sampler: SamplerSpec,
    /// Pairs of steps.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pairs: u32,
    /// Of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// `--json`.
#[derive(Serialize)]
struct Answer {
    /// Step with `+ad` over step without.
    ratio: f64,
    interval: [f64; 2],
    /// Reading attention off, as a share of a plain step.
    probe: f64,
    /// What choosing takes longer, likewise.
    select: f64,
    pairs: usize,
    /// Medians.
    with_ms: f64,
    without_ms: f64,
    model: String,
    sampler: String,
    positions: usize,
    masked: usize,
    threads: usize,
    goals: Goals,
}

/// The shares of a plain forward that +ad and choosing may take.
#[derive(Serialize)]
struct Goals {
    ad: f64,
    select: f64,
}

/// Both steps from one canvas.
#[derive(Clone, Copy)]
struct Pair {
    with: Split,
    without: Split,
}

pub(crate) fn run(args: &Args) -> Done {
    let (plain, discounted) = with_and_without(&args.sampler)?;
    let (mut model, name) = load(args.model.as_deref(), &args.size, &args.keep)?;
    let start = args.size.canvas(&model)?;
    let pairs = measure(args, &mut model, &start, (&plain, &discounted))?;
    let of = |number: fn(&Pair) -> f64| -> Vec<f64> { pairs.iter().map(number).collect() };
    let ratios = of(|pair| pair.with.total_ms / pair.without.total_ms);
    let bootstrap = Bootstrap { seed: args.seed, ..Bootstrap::default() };
    let interval = bootstrap
        .replicates(ratios.len(), |drawn| median(drawn.iter().map(|&i| ratios[i])))
        .interval(LEVEL)
        .ok_or_else(|| Fail::request("--pairs must be at least 2"))?;
    let answer = Answer {
        ratio: median(ratios.iter().copied()),
        interval: [interval.low, interval.high],
        probe: median(of(|pair| pair.with.probe_ms / pair.without.total_ms).into_iter()),
        select: median(of(|pair| (pair.with.select_ms - pair.without.select_ms) / pair.without.total_ms).into_iter()),
        pairs: pairs.len(),
        with_ms: median(of(|pair| pair.with.total_ms).into_iter()),
        without_ms: median(of(|pair| pair.without.total_ms).into_iter()),
        model: name,
        sampler: plain.to_string(),
        positions: args.size.positions,
        masked: args.size.masked,
        threads: rayon::current_num_threads(),
        goals: Goals { ad: GOAL_AD, select: GOAL },
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        false => print(&mut out, &discounted, &answer)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A named checkpoint, or a model with random weights, and what to call it.
pub(super) fn load(model: Option<&str>, size: &SizeArgs, keep: &KeepArgs) -> Done<(Model, String)> {
    let Some(name) = model else { return Ok((size.random(keep.of_random())?, format!("random, {size}"))) };
    size.check()?;
    if !Engine::is_checkpoint(name) {
        return Err(Fail::request(format!(
            "`{name}` for --model is no checkpoint; give {MODEL_NAMES}, but not the toy"
        )));
    }
    Ok((Model::of(&Engine::checkpoint_at(Path::new(name))?, keep.of_checkpoint())?, name.to_owned()))
}

/// Walks plain decodes until there are enough pairs.
fn measure(
    args: &Args,
    model: &mut Model,
    start: &Canvas,
    (base, discounted): (&SamplerSpec, &SamplerSpec),
) -> Done<Vec<Pair>> {
    let progress = Progress::measuring(args.pairs as usize, "pairs of steps".into());
    let mut pairs = Vec::with_capacity(args.pairs as usize);
    let mut canvas = start.clone();
    // The first pair warms caches and is not counted.
    for round in 0..=args.pairs {
        let mut with = None;
        if round % 2 == 0 {
            with = Some(step(model, &canvas, discounted.build()?)?.0);
        }
        let (without, plain) = step(model, &canvas, base.build()?)?;
        let with = match with {
            Some(with) => with,
            None => step(model, &canvas, discounted.build()?)?.0,
        };
        if round > 0 {
            pairs.push(Pair { with, without });
            progress.measured();
            if let Some(plain) = plain {
                plain.apply(&mut canvas)?;
            }
        }
        if canvas.n_masked() == 0 {
            canvas = start.clone();
        }
    }
    Ok(pairs)
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5).unwrap_or(f64::NAN)
}

fn print(out: &mut impl Write, discounted: &SamplerSpec, answer: &Answer) -> Done<()> {
    let Answer { ratio, interval: [low, high], probe, select, pairs, with_ms, without_ms, sampler, .. } = answer;
    writeln!(out, "{}", answer.model)?;
    writeln!(out, "{} positions, {} masked at the start, {} threads", answer.positions, answer.masked, answer.threads)?;
    writeln!(out)?;
    writeln!(out, "{sampler:<16}{without_ms:>10.2} ms a forward")?;
    writeln!(out, "{:<16}{with_ms:>10.2} ms", discounted.to_string())?;
    writeln!(out)?;
    writeln!(out, "ratio {ratio:.4} [{low:.4}, {high:.4}], median of {pairs} pairs, 95 % bootstrap interval")?;
    writeln!(
        out,
        "of a plain forward: {:.3} % reading attention off, {:.3} % choosing; the paper reports 3.1 % for both",
        100.0 * probe,
        100.0 * select
    )?;
    writeln!(
        out,
        "goals: +ad {:.3} % of at most {} %, choosing {:.3} % of at most {} %",
        100.0 * (ratio - 1.0),
        100.0 * GOAL_AD,
        100.0 * select,
        100.0 * GOAL
    )?;
    Ok(())
}
