//! A step of a checkpoint that exists: how long it takes to open, to step, and in how much memory; and what a small model predicts.

use super::super::step::{SizeArgs, Split, step, with_and_without};
use super::super::{forget_peak, peak_rss_mb, rss_mb};
use super::{Args, block_flops, head_flops, keep_best, no_rounds, step_flops};
use crate::fail::{Done, Fail};
use cofill_model::{Checkpoint, Config, Dtype, Inspection, LoadOptions, Model};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// `--json` with `--file`.
#[derive(Serialize)]
struct Answer {
    file: String,
    dtype: String,
    positions: usize,
    masked: usize,
    /// From its path to a model that answers.
    open_ms: f64,
    file_mb: f64,
    weights_mb: f64,
    /// What `models inspect` says that the weights take.
    inspect_mb: f64,
    /// Of the whole process, before the model is opened, after, and at most while it steps.
    rss_before_mb: Option<f64>,
    rss_open_mb: Option<f64>,
    peak_rss_mb: Option<f64>,
    #[serde(flatten)]
    step: Split,
    gflops: f64,
    /// The total that the small model's rates in blocks and in the head make of this model's products.
    predicted_ms: f64,
    /// Measured over predicted.
    of_predicted: f64,
    small: Split,
    threads: usize,
    rounds: u32,
    every_round_ms: Vec<f64>,
}

pub(super) fn run(args: &Args, path: &Path) -> Done {
    let (base, _) = with_and_without(&args.sampler)?;
    let dtype = match args.dtype[..] {
        [] => None,
        [dtype] => Some(dtype),
        _ => return Err(Fail::request("--file is measured in one type; give --dtype once, or leave it out")),
    };
    let keep = LoadOptions { dtype, device: args.device };
    let rss_before_mb = rss_mb();
    let begun = Instant::now();
    let checkpoint = Checkpoint::open(path)?;
    let mut model = Model::of(&checkpoint, keep)?;
    let open_ms = begun.elapsed().as_secs_f64() * 1e3;
    let rss_open_mb = rss_mb();
    let canvas = args.size.canvas(&model)?;
    let inspection = Inspection::of(&checkpoint)?;
    let memory = &inspection.memory;
    let at = |dtype: Dtype| memory.at.iter().find(|(known, _)| *known == dtype).map_or(0, |(_, bytes)| *bytes);
    let inspect_mb = dtype.map_or(memory.default, at) as f64 / 1e6;

    let mut every_round_ms = Vec::new();
    let (mut best, mut small_best) = (None, None);
    forget_peak();
    for _ in 0..args.rounds {
        let split = step(&mut model, &canvas, base.build()?)?.0;
        every_round_ms.push(split.total_ms);
        keep_best(&mut best, split);
    }
    let peak_rss_mb = peak_rss_mb();
    // Its type: of files that say nothing, that in which most weights are stored.
    let small_dtype = dtype.unwrap_or_else(|| stored(&inspection));
    let size = SizeArgs { positions: args.size.positions, masked: args.size.masked, ..args.size.clone() };
    let mut small = size.random(LoadOptions { dtype: Some(small_dtype), device: args.device })?;
    let small_canvas = size.canvas(&small)?;
    for _ in 0..args.rounds.max(3) {
        keep_best(&mut small_best, step(&mut small, &small_canvas, base.build()?)?.0);
    }
    let (step, small_step) = best.zip(small_best).ok_or_else(no_rounds)?;
    let (positions, masked) = (args.size.positions, args.size.masked);
    let predicted_ms = predict(&small_step, small.config(), model.config(), positions, masked);
    let answer = Answer {
        file: path.display().to_string(),
        dtype: small_dtype.to_string(),
        positions,
        masked,
        open_ms,
        file_mb: inspection.file_bytes as f64 / 1e6,
        weights_mb: model.transformer().bytes() as f64 / 1e6,
        inspect_mb,
        rss_before_mb,
        rss_open_mb,
        peak_rss_mb,
        gflops: step_flops(model.config(), positions, masked) / step.total_ms / 1e6,
        predicted_ms,
        of_predicted: step.total_ms / predicted_ms,
        step,
        small: small_step,
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
        every_round_ms,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        print(&mut out, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The type in which a file has most of its weights, among those that models are loaded as.
fn stored(inspection: &Inspection) -> Dtype {
    let most = inspection.stored.iter().max_by_key(|(_, (_, weights))| *weights).map(|(name, _)| name.as_str());
    match most {
        Some("F16" | "BF16") => Dtype::F16,
        Some("Q8_0") => Dtype::Q8_0,
        Some("Q6_K") => Dtype::Q6K,
        Some("Q4_K") => Dtype::Q4K,
        _ => Dtype::F32,
    }
}

/// What a step should take whose products run at the rates of another model's, its blocks at that of blocks, its head at that of heads.
fn predict(small: &Split, from: &Config, to: &Config, positions: usize, masked: usize) -> f64 {
    let blocks = |config: &Config| {
        (config.layers - 1) as f64 * block_flops(config, positions, positions) + block_flops(config, positions, masked)
    };
    let head = |config: &Config| head_flops(config, masked);
    (small.body_ms + small.final_layer_ms) * blocks(to) / blocks(from) + small.head_ms * head(to) / head(from)
}

fn print(out: &mut impl Write, answer: &Answer) -> Done<()> {
    let megabytes = |size: Option<f64>| size.map_or_else(|| "unknown here".into(), |mb| format!("{mb:.0} MB"));
    let Answer { file, dtype, positions, masked, open_ms, file_mb, weights_mb, inspect_mb, .. } = answer;
    writeln!(
        out,
        "{file}: {file_mb:.0} MB, mostly {dtype}, {positions} positions, {masked} masked, {} threads",
        answer.threads
    )?;
    writeln!(
        out,
        "opened in {open_ms:.0} ms; weights {weights_mb:.0} MB, as `models inspect` counts {inspect_mb:.0} MB"
    )?;
    let [before, open, peak] = [answer.rss_before_mb, answer.rss_open_mb, answer.peak_rss_mb].map(megabytes);
    writeln!(out, "memory of the process: {before} before, {open} once open, {peak} at most while stepping")?;
    let Split { body_ms, final_layer_ms, head_ms, total_ms, .. } = answer.step;
    writeln!(
        out,
        "a step: {total_ms:.0} ms, of which body {body_ms:.0}, final {final_layer_ms:.0}, head {head_ms:.0}; {:.1} GFLOP/s, fastest of {}",
        answer.gflops, answer.rounds
    )?;
    writeln!(
        out,
        "a model of the default sizes predicts {:.0} ms: measured / predicted {:.2}",
        answer.predicted_ms, answer.of_predicted
    )?;
    Ok(())
}
