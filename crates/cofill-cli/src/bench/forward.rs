//! `cofill bench forward`: one decode step of a model of given size, where its time goes, and how long others take for the same.

mod file;
mod rivals;

use super::peer::{PeerArgs, settle};
use super::step::{SizeArgs, Split, ms, step, with_and_without};
use super::{binary_mb, forget_peak, peak_rss_mb as peak};
use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill::{Canvas, SamplerSpec, TokenId};
use cofill_model::{Config, Device, Dtype, ForwardRequest, Kernels, LoadOptions, Model};
use rivals::{Rival, Standing};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time one decode step of a model with random weights, with and without the attention discount.
///
/// Contenders take turns in one run, and the fastest of N rounds counts. `total` is the whole step; its parts are the blocks but
/// the last (`body`), the last for the masked rows (`final`), logits and their statistics (`head`), reading attention off
/// (`probe`), and choosing (`select`).
///
/// With `--peer` others compute the body, too: every block but the last, all rows, the same sizes (`--layers 9` is a body of
/// eight blocks). PyTorch computes in f32; llama.cpp gets the same weights in the same type, as a GGUF file.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    size: SizeArgs,
    /// How the weights are kept: f32, f16, bf16, q8_0, q6k or q4k, or several of them with commas (default: f32; GGUF files as stored).
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    dtype: Vec<Dtype>,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[arg(long, value_name = "NAME", default_value_t = Device::Cpu)]
    device: Device,
    /// A checkpoint instead of random weights: a folder or a .gguf file. Its step is compared with what a model of the default sizes predicts.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["hidden", "layers", "heads", "mlp", "vocab", "peers", "plain"])]
    file: Option<PathBuf>,
    /// The sampler; it is measured as it is and with `+ad`.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:8")]
    sampler: SamplerSpec,
    /// Rounds; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Also time a plain forward: candle's own operations only, every row through every layer.
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    peer: PeerArgs,
    /// Answer with one JSON object; with several types, one a line.
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
    /// Milliseconds of every round, in their order.
    every_round: Rounds,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peers: Vec<Standing>,
}

/// What was measured, round by round.
#[derive(Serialize, Default, Clone)]
struct Rounds {
    /// The body of steps without `+ad`: what peers are compared with.
    body_ms: Vec<f64>,
    total_ms: Vec<f64>,
    total_with_ad_ms: Vec<f64>,
}

/// A model of ours, and the best of its rounds so far.
struct Ours {
    dtype: Dtype,
    model: Model,
    canvas: Canvas,
    with: Option<Split>,
    without: Option<Split>,
    plain: Option<Duration>,
    every: Rounds,
}

impl Ours {
    fn new(args: &Args, dtype: Dtype) -> Done<Ours> {
        let model = args.size.random(LoadOptions { dtype: Some(dtype), device: args.device })?;
        let canvas = args.size.canvas(&model)?;
        Ok(Ours { dtype, model, canvas, with: None, without: None, plain: None, every: Rounds::default() })
    }

    fn round(&mut self, (base, discounted): (&SamplerSpec, &SamplerSpec)) -> Done<()> {
        let without = step(&mut self.model, &self.canvas, base.build()?)?.0;
        let with = step(&mut self.model, &self.canvas, discounted.build()?)?.0;
        self.every.body_ms.push(without.body_ms);
        self.every.total_ms.push(without.total_ms);
        self.every.total_with_ad_ms.push(with.total_ms);
        keep_best(&mut self.without, without);
        keep_best(&mut self.with, with);
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.file {
        return file::run(args, path);
    }
    let samplers = with_and_without(&args.sampler)?;
    let samplers = (&samplers.0, &samplers.1);
    let mut dtypes = args.dtype.clone();
    if dtypes.is_empty() {
        dtypes.push(Dtype::default());
    }
    args.size.check()?;
    let mut rivals = Rival::all(&args.peer, &args.size, &dtypes)?;
    let mut ours: Vec<Ours> = dtypes.iter().map(|&dtype| Ours::new(args, dtype)).collect::<Done<_>>()?;
    let progress = Progress::measuring(args.rounds as usize, "rounds".to_owned());
    let mut peak_rss_mb = None;
    for _ in 0..args.rounds {
        forget_peak();
        for ours in &mut ours {
            settle();
            ours.round(samplers)?;
        }
        peak_rss_mb = peak().map(|mb| mb.max(peak_rss_mb.unwrap_or(0.0)));
        for ours in ours.iter_mut().filter(|_| args.plain) {
            let took = plain_forward(&mut ours.model, ours.canvas.tokens())?;
            ours.plain = Some(ours.plain.map_or(took, |best| best.min(took)));
        }
        for rival in &mut rivals {
            rival.round()?;
        }
        progress.measured();
    }
    drop(progress);
    // With several models in memory, nobody's peak is known.
    let peak_rss_mb = peak_rss_mb.filter(|_| ours.len() == 1);
    let answers: Vec<Answer> = ours
        .iter()
        .map(|ours| answer(args, ours, &rivals, peak_rss_mb))
        .collect::<Option<_>>()
        .ok_or_else(no_rounds)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        for answer in &answers {
            writeln!(out, "{}", serde_json::to_string(answer)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}", args.size)?;
    writeln!(out, "{} threads, fastest of {}; milliseconds", rayon::current_num_threads(), args.rounds)?;
    for answer in &answers {
        print(&mut out, samplers, answer)?;
    }
    rivals::print(&mut out, &args.size, &answers)?;
    Ok(ExitCode::SUCCESS)
}

fn no_rounds() -> Fail {
    Fail::request("--rounds must be at least 1")
}

fn answer(args: &Args, ours: &Ours, rivals: &[Rival], peak_rss_mb: Option<f64>) -> Option<Answer> {
    let step = ours.with?;
    Some(Answer {
        dtype: ours.dtype.to_string(),
        gflops: step_flops(ours.model.config(), args.size.positions, args.size.masked) / step.total_ms / 1e6,
        step,
        peak_rss_mb,
        binary_mb: binary_mb(),
        weights_mb: ours.model.transformer().bytes() as f64 / 1e6,
        without_ad: ours.without?,
        plain_ms: ours.plain.map(ms),
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
        every_round: ours.every.clone(),
        peers: rivals.iter().filter_map(|rival| rival.standing(ours.dtype, &ours.every.body_ms)).collect(),
    })
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

/// Multiplications and additions of the products of one block of which `rows` rows are asked.
pub(super) fn block_flops(config: &Config, positions: usize, rows: usize) -> f64 {
    let Config { hidden, heads, kv_heads, head_dim, mlp, .. } = *config;
    let [d, q, kv, mlp, n, m] = [hidden, heads * head_dim, kv_heads * head_dim, mlp, positions, rows].map(|x| x as f64);
    2.0 * (m * (2.0 * d * q + 3.0 * d * mlp) + n * 2.0 * d * kv + 2.0 * m * n * q)
}

/// The same of the logits.
pub(super) fn head_flops(config: &Config, rows: usize) -> f64 {
    2.0 * rows as f64 * config.hidden as f64 * config.vocab as f64
}

/// The same of a whole step: all rows through every block but the last, the masked ones through that and the head.
pub(super) fn step_flops(config: &Config, positions: usize, masked: usize) -> f64 {
    (config.layers - 1) as f64 * block_flops(config, positions, positions)
        + block_flops(config, positions, masked)
        + head_flops(config, masked)
}

fn print(out: &mut impl Write, (base, discounted): (&SamplerSpec, &SamplerSpec), answer: &Answer) -> Done<()> {
    writeln!(out)?;
    let columns = ["body", "final", "head", "probe", "select"];
    write!(out, "{:<16}", answer.dtype)?;
    columns.iter().try_for_each(|column| write!(out, "{column:>9}"))?;
    writeln!(out, "{:>10}", "total")?;
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
    writeln!(out, "{:.1} GFLOP/s; probe and select are {share:.2} % of the step", answer.gflops)?;
    write!(out, "weights {:.0} MB", answer.weights_mb)?;
    if let Some(peak) = answer.peak_rss_mb {
        write!(out, ", peak memory of the steps {peak:.0} MB")?;
    }
    writeln!(out, "{}", answer.binary_mb.map_or_else(String::new, |mb| format!("; this program {mb:.0} MB")))?;
    Ok(())
}
