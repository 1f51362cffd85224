//! `cofill bench forward`: one decode step of a model of given size, and where its time goes.

use super::{forget_peak, peak_rss_mb as peak};
use crate::fail::{Done, Fail};
use cofill::{Canvas, Decode, Denoiser, Policy, SamplerSpec, TokenId};
use cofill_model::{Ask, Keep, Kernels, Model, Precision, Processor, Sizes, Timing};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time one decode step of a model with random weights, with and without the attention discount.
///
/// Contenders take turns in one run, and the fastest of N rounds counts. `total` is the whole step; its parts are the blocks but
/// the last (`body`), the last for the masked rows (`final`), logits and their statistics (`head`), reading attention off
/// (`probe`), and choosing (`select`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Width of the model.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    hidden: usize,
    /// Its blocks.
    #[arg(long, value_name = "N", default_value_t = 8)]
    layers: usize,
    /// Its heads.
    #[arg(long, value_name = "N", default_value_t = 16)]
    heads: usize,
    /// Width of its MLP.
    #[arg(long, value_name = "N", default_value_t = 3072)]
    mlp: usize,
    /// Its token ids.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    vocab: usize,
    /// Length of the canvas.
    #[arg(long, value_name = "N", default_value_t = 512)]
    positions: usize,
    /// Masks on it.
    #[arg(long, value_name = "N", default_value_t = 256)]
    masked: usize,
    /// How the weights are kept: f32, f16, q8_0, q6k or q4k.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    dtype: Precision,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[arg(long, value_name = "NAME", default_value_t = Processor::Cpu)]
    device: Processor,
    /// The sampler; it is measured as it is and with `+ad`.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:8")]
    sampler: SamplerSpec,
    /// Rounds; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Also time a plain forward: candle's own operations only, every row through every layer.
    #[arg(long)]
    plain: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// `--json`: the step with `+ad`, and beside it the others.
#[derive(Serialize)]
struct Answer {
    dtype: String,
    #[serde(flatten)]
    step: Split,
    gflops: f64,
    peak_rss_mb: Option<f64>,
    weights_mb: f64,
    without_ad: Split,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_ms: Option<f64>,
    threads: usize,
    rounds: u32,
}

/// Milliseconds.
#[derive(Serialize, Clone, Copy)]
struct Split {
    body_ms: f64,
    final_layer_ms: f64,
    head_ms: f64,
    probe_ms: f64,
    select_ms: f64,
    total_ms: f64,
}

pub(crate) fn run(args: &Args) -> Done {
    if args.masked == 0 || args.masked > args.positions {
        let (masked, positions) = (args.masked, args.positions);
        return Err(Fail::request(format!(
            "--masked is {masked}, but must be from 1 to --positions, which is {positions}"
        )));
    }
    let discounted: SamplerSpec = format!("{}+ad", args.sampler).parse().map_err(|_| {
        Fail::request(format!(
            "--sampler `{}` cannot be measured with and without +ad; give one like topk:8",
            args.sampler
        ))
    })?;
    let Args { hidden, layers, heads, mlp, vocab, positions, .. } = *args;
    let keep = Keep { precision: Some(args.dtype), processor: args.device };
    let mut model = Model::random(Sizes { hidden, layers, heads, mlp, vocab, context: positions }, keep, 0)?;
    let weights_mb = model.transformer().bytes() as f64 / 1e6;
    // Given tokens first, then masks, as a prompt has them.
    let tokens = |i: usize| (i * 7919 % (vocab - 2)) as TokenId;
    let prompt: Vec<TokenId> = (0..positions - args.masked).map(tokens).collect();
    let canvas = Canvas::prompt(&prompt, args.masked, model.mask_id());

    let (mut with, mut without, mut plain, mut peak_rss_mb) = (None, None, None, None);
    for _ in 0..args.rounds {
        forget_peak();
        keep_best(&mut without, step(&mut model, &canvas, args.sampler.build()?)?);
        keep_best(&mut with, step(&mut model, &canvas, discounted.build()?)?);
        peak_rss_mb = peak().map(|mb| mb.max(peak_rss_mb.unwrap_or(0.0)));
        if args.plain {
            let took = plain_forward(&mut model, canvas.tokens())?;
            plain = Some(plain.map_or(took, |best: Duration| best.min(took)));
        }
    }
    let (Some(step), Some(without_ad)) = (with, without) else {
        return Err(Fail::request("--rounds must be at least 1"));
    };
    let answer = Answer {
        dtype: args.dtype.to_string(),
        gflops: flops(args) / step.total_ms / 1e6,
        step,
        peak_rss_mb,
        weights_mb,
        without_ad,
        plain_ms: plain.map(ms),
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        false => print(&mut out, args, &discounted, &answer)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// One decode step: what the sampler asks, the model's answer, the choice.
fn step(model: &mut Model, canvas: &Canvas, policy: Policy) -> Done<Split> {
    let mut decode = Decode::new(canvas.clone(), policy)?;
    let query = decode.query().ok_or_else(|| Fail::request("--masked must be at least 1"))?;
    let begun = Instant::now();
    let predictions = model.denoise(&[query])?;
    let answered = begun.elapsed();
    predictions.first().map(|prediction| decode.absorb(prediction)).transpose()?;
    let total = begun.elapsed();
    let Timing { body, final_block, head, probe } = model.take_timing();
    Ok(Split {
        body_ms: ms(body),
        final_layer_ms: ms(final_block),
        head_ms: ms(head),
        probe_ms: ms(probe),
        select_ms: ms(total - answered),
        total_ms: ms(total),
    })
}

fn plain_forward(model: &mut Model, tokens: &[TokenId]) -> Done<Duration> {
    let rows: Vec<usize> = (0..tokens.len()).collect();
    let ours = model.transformer().kernels();
    model.transformer_mut().set_kernels(Kernels::Ops);
    let begun = Instant::now();
    let pass = model.transformer().forward(tokens, &Ask { rows: &rows, attention: None })?;
    model.transformer().logits(&pass.hidden).try_for_each(|tile| tile.map(drop))?;
    let took = begun.elapsed();
    model.transformer_mut().set_kernels(ours);
    Ok(took)
}

fn keep_best(best: &mut Option<Split>, split: Split) {
    if best.is_none_or(|best| split.total_ms < best.total_ms) {
        *best = Some(split);
    }
}

/// Multiplications and additions of the matrix products that a step needs.
fn flops(args: &Args) -> f64 {
    let [d, mlp, n, m] = [args.hidden, args.mlp, args.positions, args.masked].map(|x| x as f64);
    let block = |rows: f64| rows * (2.0 * d * d + 3.0 * d * mlp) + n * 2.0 * d * d + 2.0 * rows * n * d;
    2.0 * ((args.layers - 1) as f64 * block(n) + block(m) + m * d * args.vocab as f64)
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn print(out: &mut impl Write, args: &Args, discounted: &SamplerSpec, answer: &Answer) -> Done<()> {
    let Args { hidden, layers, heads, mlp, vocab, positions, masked, dtype, rounds, .. } = args;
    writeln!(
        out,
        "hidden {hidden}, {layers} layers, {heads} heads, MLP {mlp}, vocabulary {vocab}, {positions} positions, {masked} masked"
    )?;
    writeln!(out, "{dtype}, {} threads, fastest of {rounds}; milliseconds", answer.threads)?;
    writeln!(out)?;
    writeln!(out, "{:<16}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}", "", "body", "final", "head", "probe", "select", "total")?;
    for (name, s) in [(args.sampler.to_string(), answer.without_ad), (discounted.to_string(), answer.step)] {
        let [body, last, head] = [s.body_ms, s.final_layer_ms, s.head_ms];
        let [probe, select, total] = [s.probe_ms, s.select_ms, s.total_ms];
        writeln!(out, "{name:<16}{body:>9.1}{last:>9.1}{head:>9.1}{probe:>9.2}{select:>9.3}{total:>10.1}")?;
    }
    if let Some(plain) = answer.plain_ms {
        writeln!(out, "{:<61}{plain:>10.1}", "plain candle, every row")?;
        writeln!(out, "plain / {discounted}: {:.2}", plain / answer.step.total_ms)?;
    }
    let share = 100.0 * (answer.step.probe_ms + answer.step.select_ms) / answer.step.total_ms;
    writeln!(out)?;
    writeln!(out, "{:.1} GFLOP/s; probe and select are {share:.2} % of the step", answer.gflops)?;
    let peak = answer.peak_rss_mb.map_or_else(|| "unknown here".into(), |mb| format!("{mb:.0} MB"));
    writeln!(out, "weights {:.0} MB, peak memory of the steps {peak}", answer.weights_mb)?;
    Ok(())
}
