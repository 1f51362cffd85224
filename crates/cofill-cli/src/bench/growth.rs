//! `cofill bench growth`: how time and memory grow along one axis while the others stay.

use super::step::{SEED, Split, canvas_of};
use super::{forget_peak, peak_rss_mb, rss_mb};
use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill::{Decode, Denoiser, SamplerSpec};
use cofill_model::{Checkpoint, Device, Dtype, Inspection, LoadOptions, Model, Sizes};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

/// Time how a step grows: along positions, masks, batch, vocabulary or layers, each with the others fixed, with fitted exponents.
///
/// An exponent is the slope of a line through the logarithms (least squares): 1 is linear. Positions have two, below and above
/// 1,024, because attention grows with their square. Memory stands beside what `models inspect` predicts for the weights.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// positions, masks, batch, vocab or layers; may be repeated (default: all).
    #[arg(long = "axis", value_name = "AXIS")]
    axes: Vec<Axis>,
    /// Width of the model.
    #[arg(long, value_name = "N", default_value_t = 512)]
    hidden: usize,
    /// Its blocks, where they are not the axis.
    #[arg(long, value_name = "N", default_value_t = 5)]
    layers: usize,
    /// Its heads.
    #[arg(long, value_name = "N", default_value_t = 8)]
    heads: usize,
    /// Width of its MLP.
    #[arg(long, value_name = "N", default_value_t = 1536)]
    mlp: usize,
    /// Its token ids, where they are not the axis.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    vocab: usize,
    /// Length of the canvas, where it is not the axis.
    #[arg(long, value_name = "N", default_value_t = 512)]
    positions: usize,
    /// Masks, where they are not the axis.
    #[arg(long, value_name = "N", default_value_t = 64)]
    masked: usize,
    /// The largest number of positions.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    most_positions: usize,
    /// How the weights are kept: f32, f16, q8_0, q6k or q4k.
    #[arg(long, value_name = "TYPE", default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Rounds; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Axis {
    Positions,
    Masks,
    Batch,
    Vocab,
    Layers,
}

impl Axis {
    const ALL: [(&'static str, Axis); 5] = [
        ("positions", Axis::Positions),
        ("masks", Axis::Masks),
        ("batch", Axis::Batch),
        ("vocab", Axis::Vocab),
        ("layers", Axis::Layers),
    ];

    /// The part of a step that grows along it.
    fn part(self) -> (&'static str, fn(&Split) -> f64) {
        match self {
            Axis::Positions | Axis::Layers => ("body", |split| split.body_ms),
            Axis::Masks | Axis::Vocab => ("head", |split| split.head_ms),
            Axis::Batch => ("total", |split| split.total_ms),
        }
    }

    /// Where it is measured: doubled and doubled again.
    fn values(self, args: &Args) -> Vec<usize> {
        let doubled = |from: usize, n: u32| (0..n).map(|i| from << i).collect::<Vec<_>>();
        match self {
            Axis::Positions => {
                let most = args.most_positions;
                let least = args.masked.max(128.min(most));
                (0..32).map(|i| least << i).take_while(|n| *n <= most).collect()
            }
            Axis::Masks => {
                let mut masks: Vec<usize> = (0..5).map(|i| args.positions >> i).filter(|n| *n > 0).collect();
                masks.reverse();
                masks
            }
            Axis::Batch => doubled(1, 4),
            Axis::Vocab => doubled(args.vocab, 4),
            // The last block is not of the body.
            Axis::Layers => doubled(1, 4).into_iter().map(|blocks| blocks + 1).collect(),
        }
    }

    /// What the exponent is of: the number itself, or the blocks of the body.
    fn amount(self, value: usize) -> f64 {
        let value = if self == Axis::Layers { value - 1 } else { value };
        value as f64
    }
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Axis, String> {
        let known = Axis::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, axis)| *axis).ok_or_else(|| "expected positions, masks, batch, vocab or layers".into())
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Axis::ALL.iter().find(|(_, axis)| axis == self).map_or("", |(name, _)| name))
    }
}

/// `--json`.
#[derive(Serialize)]
struct Answer {
    dtype: String,
    threads: usize,
    rounds: u32,
    hidden: usize,
    layers: usize,
    heads: usize,
    mlp: usize,
    vocab: usize,
    positions: usize,
    masked: usize,
    axes: Vec<Growth>,
}

/// One axis.
#[derive(Serialize)]
struct Growth {
    axis: Axis,
    part: &'static str,
    points: Vec<Point>,
    exponents: Vec<Exponent>,
}

#[derive(Serialize)]
struct Point {
    value: usize,
    #[serde(flatten)]
    split: Split,
    /// Milliseconds of attention's products over those of all products of the body, were they equally fast.
    attention_share: f64,
    /// What the process held more at most, since before the model was made.
    rss_mb: Option<f64>,
    /// What `models inspect` says of its weights.
    weights_mb: f64,
}

/// A slope between two values of an axis.
#[derive(Serialize)]
struct Exponent {
    from: usize,
    to: usize,
    exponent: f64,
}

/// Where the cost of attention begins to show.
const KNEE: usize = 1024;

pub(crate) fn run(args: &Args) -> Done {
    let Args { positions, masked, .. } = *args;
    if masked == 0 || masked > positions || masked > args.most_positions {
        let most = positions.min(args.most_positions);
        return Err(Fail::request(format!(
            "--masked is {masked}, but must be from 1 to {most}, the smaller of --positions and --most-positions"
        )));
    }
    let mut axes: Vec<Axis> = Vec::new();
    let all: Vec<Axis> = Axis::ALL.iter().map(|(_, axis)| *axis).collect();
    for &axis in if args.axes.is_empty() { &all } else { &args.axes } {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let points: usize = axes.iter().map(|axis| axis.values(args).len()).sum();
    let progress = Progress::measuring(points, "points".to_owned());
    let mut grown = Vec::new();
    for axis in axes {
        let mut points = Vec::new();
        for value in axis.values(args) {
            points.push(measure(args, axis, value)?);
            progress.measured();
        }
        let exponents = exponents(axis, &points);
        grown.push(Growth { axis, part: axis.part().0, points, exponents });
    }
    drop(progress);
    let answer = Answer {
        dtype: args.dtype.to_string(),
        threads: rayon::current_num_threads(),
        rounds: args.rounds,
        hidden: args.hidden,
        layers: args.layers,
        heads: args.heads,
        mlp: args.mlp,
        vocab: args.vocab,
        positions: args.positions,
        masked: args.masked,
        axes: grown,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        print(&mut out, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A model and a canvas of which one number is `value`, and the fastest of its steps.
fn measure(args: &Args, axis: Axis, value: usize) -> Done<Point> {
    let of = |wanted: Axis, usual: usize| if axis == wanted { value } else { usual };
    let (positions, masked) = (of(Axis::Positions, args.positions), of(Axis::Masks, args.masked));
    let (layers, vocab) = (of(Axis::Layers, args.layers), of(Axis::Vocab, args.vocab));
    let sizes = Sizes { hidden: args.hidden, layers, heads: args.heads, mlp: args.mlp, vocab, context: positions };
    let keep = LoadOptions { dtype: Some(args.dtype), device: Device::Cpu };
    let config = sizes.config()?;
    let checkpoint = Checkpoint::random(config.clone(), SEED);
    let before = rss_mb();
    let mut model = Model::of(&checkpoint, keep)?;
    let canvas = canvas_of(&model, positions, masked)?;
    let sampler: SamplerSpec = "topk:8".parse()?;
    let batch = of(Axis::Batch, 1);
    forget_peak();
    let mut best: Option<Split> = None;
    for _ in 0..args.rounds {
        let mut decodes = (0..batch)
            .map(|_| Decode::new(canvas.clone(), sampler.build()?))
            .collect::<cofill::Result<Vec<Decode>>>()?;
        let queries: Vec<_> = decodes.iter().filter_map(Decode::query).collect();
        let begun = Instant::now();
        let predictions = model.denoise(&queries)?;
        let answered = begun.elapsed();
        drop(queries);
        for (decode, prediction) in decodes.iter_mut().zip(&predictions) {
            decode.absorb(prediction)?;
        }
        let total = begun.elapsed();
        let split = Split::of(model.take_timing(), total, total - answered);
        if best.is_none_or(|best| split.total_ms < best.total_ms) {
            best = Some(split);
        }
    }
    let (n, d, q) = (positions as f64, args.hidden as f64, args.hidden as f64);
    let (attention, others) = (2.0 * n * n * q, n * (4.0 * d * q + 3.0 * d * args.mlp as f64));
    let memory = Inspection::of(&checkpoint)?.memory;
    let weights = memory.at.iter().find(|(dtype, _)| *dtype == args.dtype).map_or(0, |(_, bytes)| *bytes);
    Ok(Point {
        value,
        split: best.ok_or_else(|| Fail::request("--rounds must be at least 1"))?,
        attention_share: attention / (attention + others),
        rss_mb: before.zip(peak_rss_mb()).map(|(before, peak)| peak - before),
        weights_mb: weights as f64 / 1e6,
    })
}

fn exponents(axis: Axis, points: &[Point]) -> Vec<Exponent> {
    let (_, part) = axis.part();
    let fitted = |points: &[&Point]| {
        let (first, last) = (points.first()?, points.last()?);
        let logs: Vec<(f64, f64)> =
            points.iter().map(|point| (axis.amount(point.value).ln(), part(&point.split).ln())).collect();
        Some(Exponent { from: first.value, to: last.value, exponent: slope(&logs)? })
    };
    if axis != Axis::Positions {
        return fitted(&points.iter().collect::<Vec<_>>()).into_iter().collect();
    }
    let below: Vec<&Point> = points.iter().filter(|point| point.value <= KNEE).collect();
    let above: Vec<&Point> = points.iter().filter(|point| point.value >= KNEE).collect();
    [fitted(&below), fitted(&above)].into_iter().flatten().collect()
}

/// Of the line with the least squares; `None` without two places.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    Some(common / spread).filter(|slope| slope.is_finite())
}

fn print(out: &mut impl Write, answer: &Answer) -> Done<()> {
    let Answer { dtype, threads, rounds, hidden, layers, heads, mlp, vocab, positions, masked, .. } = answer;
    writeln!(
        out,
        "hidden {hidden}, {layers} layers, {heads} heads, MLP {mlp}, vocabulary {vocab}, {positions} positions, {masked} masked, but for the axis"
    )?;
    writeln!(out, "{dtype}, {threads} threads, fastest of {rounds}; milliseconds and megabytes")?;
    for Growth { axis, part, points, exponents } in &answer.axes {
        writeln!(out)?;
        let columns = ["body", "final", "head", "total", "attention", "memory", "weights"];
        write!(out, "{axis:<12}")?;
        columns.iter().try_for_each(|column| write!(out, "{column:>10}"))?;
        writeln!(out)?;
        for Point { value, split, attention_share, rss_mb, weights_mb } in points {
            let Split { body_ms, final_layer_ms, head_ms, total_ms, .. } = split;
            let (share, rss) = (100.0 * attention_share, rss_mb.map_or("?".into(), |mb| format!("{mb:.0}")));
            write!(out, "{value:<12}{body_ms:>10.1}{final_layer_ms:>10.1}{head_ms:>10.1}{total_ms:>10.1}")?;
            writeln!(out, "{share:>8.1} %{rss:>10}{weights_mb:>10.0}")?;
        }
        for Exponent { from, to, exponent } in exponents {
            writeln!(out, "{part} from {from} to {to}: exponent {exponent:.2}")?;
        }
    }
    writeln!(out)?;
    writeln!(out, "attention: its share of the products of the body")?;
    writeln!(out, "memory: what the process held more at most; weights: as `models inspect` counts")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_power_is_its_exponent() {
        let power = |exponent: f64| -> Vec<(f64, f64)> {
            [1.0f64, 2.0, 4.0, 8.0].iter().map(|x| (x.ln(), (3.0 * x.powf(exponent)).ln())).collect()
        };
        for exponent in [0.0, 1.0, 2.0] {
            assert!((slope(&power(exponent)).unwrap() - exponent).abs() < 1e-12);
        }
        assert_eq!(slope(&power(1.0)[..1]), None, "one place has no slope");
        assert_eq!(slope(&[]), None);
    }
}
