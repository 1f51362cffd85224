//! `cofill bench forward`: one decode step of a model of given size, and where its time goes.

use super::step::{SizeArgs, Split, ms, step, with_and_without};
use super::{binary_mb, forget_peak, peak_rss_mb as peak};
use crate::fail::{Done, Fail};
use cofill::{SamplerSpec, TokenId};
use cofill_model::{ForwardRequest, Kernels, Model};
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
    #[command(flatten)]
    size: SizeArgs,
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
    binary_mb: Option<f64>,
    weights_mb: f64,
    without_ad: Split,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_ms: Option<f64>,
    threads: usize,
    rounds: u32,
}

pub(crate) fn run(args: &Args) -> Done {
    let (base, discounted) = with_and_without(&args.sampler)?;
    let mut model = args.size.random()?;
    let weights_mb = model.transformer().bytes() as f64 / 1e6;
    let canvas = args.size.canvas(&model)?;

    let (mut with, mut without, mut plain, mut peak_rss_mb) = (None, None, None, None);
    for _ in 0..args.rounds {
        forget_peak();
        keep_best(&mut without, step(&mut model, &canvas, base.build()?)?.0);
        keep_best(&mut with, step(&mut model, &canvas, discounted.build()?)?.0);
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
        dtype: args.size.precision().to_string(),
        gflops: flops(args) / step.total_ms / 1e6,
        step,
        peak_rss_mb,
        binary_mb: binary_mb(),
        weights_mb,
        without_ad,
        plain_ms: plain.map(ms),
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        false => print(&mut out, args, (&base, &discounted), &answer)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn plain_forward(model: &mut Model, tokens: &[TokenId]) -> Done<Duration> {
    let rows: Vec<usize> = (0..tokens.len()).collect();
    let ours = model.transformer().kernels();
    model.transformer_mut().set_kernels(Kernels::Ops);
    let begun = Instant::now();
    let pass = model.transformer().forward(tokens, &ForwardRequest { rows: &rows, attention: None })?;
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
    let SizeArgs { hidden, mlp, positions, masked, layers, vocab, .. } = args.size;
    let [d, mlp, n, m] = [hidden, mlp, positions, masked].map(|x| x as f64);
    let block = |rows: f64| rows * (2.0 * d * d + 3.0 * d * mlp) + n * 2.0 * d * d + 2.0 * rows * n * d;
    2.0 * ((layers - 1) as f64 * block(n) + block(m) + m * d * vocab as f64)
}

fn print(
    out: &mut impl Write,
    args: &Args,
    (base, discounted): (&SamplerSpec, &SamplerSpec),
    answer: &Answer,
) -> Done<()> {
    let (dtype, rounds) = (args.size.precision(), args.rounds);
    writeln!(out, "{}", args.size)?;
    writeln!(out, "{dtype}, {} threads, fastest of {rounds}; milliseconds", answer.threads)?;
    writeln!(out)?;
    writeln!(out, "{:<16}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}", "", "body", "final", "head", "probe", "select", "total")?;
    for (name, s) in [(base.to_string(), answer.without_ad), (discounted.to_string(), answer.step)] {
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
    let megabytes = |size: Option<f64>| size.map_or_else(|| "unknown here".into(), |mb| format!("{mb:.0} MB"));
    let (peak, binary) = (megabytes(answer.peak_rss_mb), megabytes(answer.binary_mb));
    writeln!(out, "weights {:.0} MB, peak memory of the steps {peak}; this program {binary}", answer.weights_mb)?;
    Ok(())
}
