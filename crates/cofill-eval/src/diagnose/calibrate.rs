//! How strong `+paths` should be for a model: its α, chosen by interventions.
//!
//! `+paths` keeps i out of a step once the chosen positions have taken more than its confidence: for one chosen s, when
//!
//! ```text
//! α (1 − c_i) R[i,s] > c_i,          that is α > 1 / x,   x = (1 − c_i) R[i,s] / c_i
//! ```
//!
//! Keeping i out was right if it changes its mind once s is written (it *flips*), and cost a place in the step for nothing if it does
//! not. So along plain Top-k decodes, every position that Top-k commits is revealed by itself in a copy, and the less sure ones it would be
//! committed with are looked at: for every α, how many pairs would be kept apart, and what share of them flips, which is the *precision*
//! of the veto. The largest α of a grid whose precision is still at least one half is taken; with a smaller one, more is committed together that
//! should not be, with a larger one, most of what is kept back is kept back for nothing.

use super::ask;
use super::state::Steps;
use cofill::paths::Paths;
use cofill::{Canvas, Decode, Denoiser, Error, Layers, Prediction, Proposal, Query, Result, SamplerSpec};
use serde::Serialize;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationOptions {
    /// k of the Top-k decode that is probed.
    pub k: usize,
    /// The steps of the decode at which it is probed.
    pub steps: Steps,
    /// How tokens are proposed.
    pub proposal: Proposal,
}

impl Default for CalibrationOptions {
    fn default() -> CalibrationOptions {
        CalibrationOptions { k: 8, steps: Steps::Spread, proposal: Proposal::greedy() }
    }
}

/// One pair: i would be committed together with a surer s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// (1 − c_i) R[i,s] / c_i: α above its inverse keeps them apart.
    pub x: f64,
    /// Whether i's likeliest token is another once s is written.
    pub flips: bool,
}

/// The pairs of one decode, and the forwards it took to measure them.
pub fn pairs(denoiser: &mut dyn Denoiser, canvas: Canvas, options: &CalibrationOptions) -> Result<(Vec<Pair>, usize)> {
    let spec: SamplerSpec = format!("topk:{}", options.k).parse()?;
    let probed = options.steps.of(canvas.n_masked().div_ceil(options.k));
    let mut decode = Decode::builder(canvas, spec.build()?).proposal(options.proposal.clone()).begin()?;
    let (mut pairs, mut forwards) = (Vec::new(), 0);
    while let Some(query) = decode.query() {
        if probed.last().is_none_or(|&last| query.step > last) {
            break;
        }
        let is_probed = probed.contains(&query.step);
        let query = if is_probed { query.attention(Layers::Last) } else { query };
        let prediction = ask(denoiser, query)?;
        forwards += 1;
        if is_probed {
            forwards += reveal_each(denoiser, &query, &prediction, options.k, &mut pairs)?;
        }
        decode.absorb(&prediction)?;
    }
    Ok((pairs, forwards))
}

/// Reveals everybody whom Top-k would commit, one at a time, and looks at those that are less sure.
fn reveal_each(
    denoiser: &mut dyn Denoiser,
    query: &Query<'_>,
    before: &Prediction,
    k: usize,
    pairs: &mut Vec<Pair>,
) -> Result<usize> {
    let missing = || Error::Contract { who: "denoiser", problem: "it answers no attention".into() };
    let attention = before.attention.as_ref().ok_or_else(missing)?;
    let rows = &before.rows;
    // By confidence; a stable sort leaves ties to the lower position.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| rows[b].confidence.total_cmp(&rows[a].confidence));
    order.truncate(k);
    let weight: Vec<f64> = rows.iter().map(|row| row.uncertainty).collect();
    let (mut paths, mut influence) = (Paths::default(), vec![0.0; rows.len()]);
    paths.open(attention, &weight);
    let mut forwards = 0;
    for (rank, &s) in order.iter().enumerate() {
        let mut later = order[rank + 1..].to_vec();
        if later.is_empty() {
            break;
        }
        later.sort_unstable();
        paths.column(attention, s, &mut influence);
        let mut tokens = query.tokens.to_vec();
        tokens[query.rows[s]] = rows[s].token;
        let positions: Vec<usize> = later.iter().map(|&i| query.rows[i]).collect();
        let after = ask(denoiser, query.tokens(&tokens).rows(&positions).attention(None))?;
        forwards += 1;
        for (&i, after) in later.iter().zip(&after.rows) {
            let x = rows[i].uncertainty * influence[i] / rows[i].confidence.max(f64::MIN_POSITIVE);
            pairs.push(Pair { x, flips: after.token != rows[i].token });
        }
    }
    Ok(forwards)
}

/// What one strength would do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Strength {
    /// α.
    pub alpha: f64,
    /// Pairs it would keep apart.
    pub held: usize,
    /// How many of those flip.
    pub right: usize,
    /// Pairs that flip and that it would commit together.
    pub missed: usize,
}

impl Strength {
    fn of(alpha: f64, pairs: &[Pair]) -> Strength {
        let held = |pair: &&Pair| alpha * pair.x > 1.0;
        Strength {
            alpha,
            held: pairs.iter().filter(held).count(),
            right: pairs.iter().filter(held).filter(|pair| pair.flips).count(),
            missed: pairs.iter().filter(|pair| !held(pair) && pair.flips).count(),
        }
    }

    /// The share of pairs held back that really flip; none when it holds nobody back.
    pub fn precision(&self) -> Option<f64> {
        if self.held == 0 { None } else { Some(self.right as f64 / self.held as f64) }
    }

    /// The share of flips that are held back; none when nothing flips.
    pub fn recall(&self) -> Option<f64> {
        let flips = self.right + self.missed;
        if flips == 0 { None } else { Some(self.right as f64 / flips as f64) }
    }
}

/// The strengths that are compared, from weak to strong; each is about twice the one before.
pub const GRID: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0, 800.0];

/// At least this share of what is held back must flip.
pub const PRECISION: f64 = 0.5;

/// A chosen strength, and what it was chosen from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The α that was chosen.
    pub alpha: f64,
    /// Pairs that were looked at.
    pub pairs: usize,
    /// Those that flip.
    pub flips: usize,
    /// Every strength of the grid.
    pub strengths: Vec<Strength>,
}

impl Calibration {
    /// Chooses. Sets of pairs (one a task) weigh the same, however many pairs they have: the precision of a strength is the mean of
    /// theirs, over those where it holds anybody back.
    pub fn of(sets: &[Vec<Pair>]) -> Calibration {
        let all: Vec<Pair> = sets.iter().flatten().copied().collect();
        let fine = |alpha: &f64| {
            let each: Vec<f64> = sets.iter().filter_map(|set| Strength::of(*alpha, set).precision()).collect();
            each.is_empty() || each.iter().sum::<f64>() / each.len() as f64 >= PRECISION
        };
        // From weak to strong until it is no longer worth it; the weakest if it never is.
        let alpha = GRID.iter().copied().take_while(fine).last().unwrap_or(GRID[0]);
        Calibration {
            alpha,
            pairs: all.len(),
            flips: all.iter().filter(|pair| pair.flips).count(),
            strengths: GRID.iter().map(|&alpha| Strength::of(alpha, &all)).collect(),
        }
    }
}
