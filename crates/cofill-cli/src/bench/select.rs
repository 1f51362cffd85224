//! `cofill bench select`: what choosing costs, by |M| and |S|, next to the paper's formula as it is printed and to a forward.

use super::step::{KeepArgs, SizeArgs, step};
use crate::fail::Done;
use crate::progress::Progress;
use cofill::{Attention, Policy, Revision, SamplerSpec, Snapshot};
use serde::Serialize;
use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time what choosing costs: one `select` of Algorithm 1 with +ad, by candidates and by how many of them are committed.
///
/// Every rule is set to admit exactly the given number. Beside it stands the formula as the paper prints it, which sums over the
/// chosen set anew at every pick, and the share of a forward of a model with random weights. The goal is 0.1 %.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Masked positions.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [64, 256, 512, 4096], value_parser = clap::value_parser!(u32).range(1..=16_384))]
    candidates: Vec<u32>,
    /// How many of them are committed.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [8, 64], value_parser = clap::value_parser!(u32).range(1..=16_384))]
    chosen: Vec<u32>,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Rounds; the fastest counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// The share of a forward that choosing may take.
pub(super) const GOAL: f64 = 0.001;
/// Of +ad: reading attention off and choosing together.
pub(super) const GOAL_AD: f64 = 0.01;
/// How long one cell is repeated within a round.
const CELL: Duration = Duration::from_millis(20);

/// `--json`.
#[derive(Serialize)]
struct Answer {
    cells: Vec<Cell>,
    /// The forward of the shares.
    forward_ms: f64,
    positions: usize,
    goal: f64,
    threads: usize,
    rounds: u32,
}

#[derive(Serialize, Clone)]
struct Cell {
    rule: &'static str,
    sampler: String,
    candidates: usize,
    chosen: usize,
    us: f64,
    /// The formula as printed.
    printed_us: f64,
    /// As printed over ours.
    ratio: f64,
    /// Of the forward.
    share: f64,
    every_round_us: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut model = args.size.random(args.keep.of_random())?;
    let canvas = args.size.canvas(&model)?;
    let plain: SamplerSpec = "topk:8".parse()?;
    let mut forward_ms = f64::INFINITY;
    let (mut cells, mut steps) = (Vec::new(), Vec::new());
    for &candidates in &args.candidates {
        steps.push(Example::new(candidates as usize));
        for &chosen in args.chosen.iter().filter(|chosen| **chosen <= candidates) {
            for rule in Rule::ALL {
                let sampler = rule.admitting(chosen as usize)?;
                let cell = Cell {
                    rule: rule.name(),
                    sampler: sampler.to_string(),
                    candidates: candidates as usize,
                    chosen: chosen as usize,
                    us: f64::INFINITY,
                    printed_us: f64::INFINITY,
                    ratio: 0.0,
                    share: 0.0,
                    every_round_us: Vec::new(),
                };
                cells.push((cell, rule, sampler.build()?, steps.len() - 1));
            }
        }
    }
    let progress = Progress::measuring(args.rounds as usize, "rounds".to_owned());
    for _ in 0..args.rounds {
        forward_ms = forward_ms.min(step(&mut model, &canvas, plain.build()?)?.0.total_ms);
        for (cell, rule, policy, at) in &mut cells {
            let us = steps[*at].select(policy, cell.chosen)?;
            cell.every_round_us.push(us);
            cell.us = cell.us.min(us);
            cell.printed_us = cell.printed_us.min(steps[*at].printed(*rule, cell.chosen));
        }
        progress.measured();
    }
    drop(progress);
    let filled = |(cell, ..): (Cell, _, _, _)| Cell {
        ratio: cell.printed_us / cell.us,
        share: cell.us / 1e3 / forward_ms,
        ..cell
    };
    let cells = cells.into_iter().map(filled).collect();
    let (positions, threads) = (args.size.positions, rayon::current_num_threads());
    let answer = Answer { cells, forward_ms, positions, goal: GOAL, threads, rounds: args.rounds };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        print(&mut out, args, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rules of the paper, with +ad.
#[derive(Clone, Copy)]
enum Rule {
    TopK,
    Fast,
    Eb,
}

impl Rule {
    const ALL: [Rule; 3] = [Rule::TopK, Rule::Fast, Rule::Eb];

    fn name(self) -> &'static str {
        match self {
            Rule::TopK => "topk",
            Rule::Fast => "fast",
            Rule::Eb => "eb",
        }
    }

    /// Confidences just above ½ and entropies of 1 nat: n (1 - c) < |S|/2 + ¼ and n - 1 < |S| - ½ both hold up to n = |S|.
    fn limit(self, chosen: usize) -> f64 {
        match self {
            Rule::TopK => chosen as f64,
            Rule::Fast => 0.5 * chosen as f64 + 0.25,
            Rule::Eb => chosen as f64 - 0.5,
        }
    }

    fn admitting(self, chosen: usize) -> cofill::Result<SamplerSpec> {
        format!("{}:{}+ad:{ALPHA}", self.name(), self.limit(chosen)).parse()
    }

    fn admits(self, example: &Example, chosen: &[usize], limit: f64) -> bool {
        let n = chosen.len() as f64;
        let least = || chosen.iter().map(|&i| example.confidence[i]).fold(f64::INFINITY, f64::min);
        match self {
            Rule::TopK => n <= limit,
            Rule::Fast => n * (1.0 - least()) < limit,
            Rule::Eb => n - 1.0 < limit,
        }
    }
}

const ALPHA: f64 = 40.0;

/// One step of known numbers.
struct Example {
    confidence: Vec<f64>,
    attention: Vec<f64>, // [candidates x candidates] row by row
    snapshot: Snapshot,
}

impl Example {
    /// Random attention whose rows sum to about 1, confidences just above ½, entropies of exactly 1 nat.
    fn new(candidates: usize) -> Example {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut uniform = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let confidence: Vec<f64> = (0..candidates).map(|_| 0.5 + 1e-4 * uniform()).collect();
        let attention: Vec<f64> = (0..candidates * candidates).map(|_| 2.0 * uniform() / candidates as f64).collect();
        let matrix = Attention::from_fn(candidates, |query, key| attention[query * candidates + key]);
        let snapshot = Snapshot::new(&confidence).entropy(&vec![1.0; candidates]).attention(matrix);
        Example { confidence, attention, snapshot }
    }

    /// Microseconds of one `select`.
    fn select(&self, policy: &mut Policy, chosen: usize) -> Done<f64> {
        let needs = policy.needs();
        let us = self.snapshot.view(&needs, |view| {
            let mut revision = Revision::default();
            policy.step(view, &mut revision)?;
            debug_assert_eq!(revision.picks.len(), chosen);
            repeat(|| policy.step(black_box(view), &mut revision).map(drop))
        })?;
        Ok(us)
    }

    /// Microseconds of the same choice by the formula as printed: u(i | S) = c_i - alpha * sum over s in S of A[i, s] (1 - c_s),
    /// from the whole of S at every pick.
    fn printed(&self, rule: Rule, chosen: usize) -> f64 {
        let begun = Instant::now();
        let n = self.confidence.len();
        let limit = rule.limit(chosen);
        let mut set: Vec<usize> = Vec::new();
        while set.len() < n {
            let utility = |i: usize| {
                let taken = set.iter().map(|&s| self.attention[i * n + s] * (1.0 - self.confidence[s]));
                self.confidence[i] - ALPHA * taken.sum::<f64>()
            };
            let left = (0..n).filter(|i| !set.contains(i));
            let best = left.map(|i| (i, utility(i))).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((best, _)) = best else { break };
            set.push(best);
            if !rule.admits(self, &set, limit) {
                set.pop();
                break;
            }
        }
        black_box(&set);
        begun.elapsed().as_secs_f64() * 1e6
    }
}

/// Microseconds of one call, of as many as take a few milliseconds.
fn repeat(mut once: impl FnMut() -> cofill::Result<()>) -> cofill::Result<f64> {
    let begun = Instant::now();
    let mut n = 0;
    loop {
        once()?;
        n += 1;
        let took = begun.elapsed();
        if took >= CELL {
            return Ok(took.as_secs_f64() * 1e6 / f64::from(n));
        }
    }
}

fn print(out: &mut impl Write, args: &Args, answer: &Answer) -> Done<()> {
    writeln!(out, "{}", args.size)?;
    let Answer { forward_ms, threads, rounds, .. } = answer;
    writeln!(out, "a forward takes {forward_ms:.1} ms, {threads} threads, fastest of {rounds}")?;
    writeln!(out)?;
    let columns = ["select us", "printed us", "ratio", "of a forward"];
    write!(out, "{:<10}{:>11}{:>8}", "", "candidates", "chosen")?;
    columns.iter().try_for_each(|column| write!(out, "{column:>13}"))?;
    writeln!(out)?;
    for Cell { rule, candidates, chosen, us, printed_us, ratio, share, .. } in &answer.cells {
        let rule = format!("{rule}+ad");
        let share = format!("{:.4} %", 100.0 * share);
        writeln!(out, "{rule:<10}{candidates:>11}{chosen:>8}{us:>13.2}{printed_us:>13.1}{ratio:>13.1}{share:>13}")?;
    }
    writeln!(out, "goal: at most {:.1} % of a forward, where there are as many candidates as masks", 100.0 * GOAL)?;
    Ok(())
}
