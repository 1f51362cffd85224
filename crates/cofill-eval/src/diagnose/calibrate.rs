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
//! of the veto. The largest α of a grid is taken whose precision is at least one half, as surely as the pairs can tell; with a smaller one,
//! more is committed together that should not be, with a larger one, most of what is kept back is kept back for nothing.

use super::ask;
use super::state::Steps;
use crate::open::{self, OpenTask, ResolvedRun};
use crate::spec::EvalSpec;
use cofill::paths::Paths;
use cofill::{Canvas, Decode, Denoiser, Error, Layers, Prediction, Proposal, Query, Result, SamplerSpec};
use cofill_engine::Engine;
use serde::Serialize;

/// k of the Top-k decodes that are probed, unless somebody says.
pub const K: usize = 8;

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
        CalibrationOptions { k: K, steps: Steps::Spread, proposal: Proposal::greedy() }
    }
}

/// One pair: i would be committed together with a surer s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// (1 − c_i) R\[i,s\] / c_i: α above its inverse keeps them apart.
    pub x: f64,
    /// Whether i's likeliest token is another once s is written.
    pub flips: bool,
}

/// The pairs of the first `limit` questions of a task, and the forwards it took to measure them; `done` is told after every question.
pub fn of_task(
    engine: &mut Engine,
    spec: &EvalSpec,
    limit: usize,
    done: &mut dyn FnMut(),
) -> Result<(Vec<Pair>, usize), open::Error> {
    let task = OpenTask::open_unjudged(spec)?;
    let settings = ResolvedRun::new(spec, &task, &engine.about()?)?.settings;
    let proposal = spec.run.proposal(engine.ends());
    let (model, codec) = engine.parts()?;
    let (mut all, mut forwards) = (Vec::new(), 0);
    for (doc, question) in task.sample(limit)? {
        let canvas = question.canvas(&settings, model.mask_id(), codec)?;
        let mut proposal = proposal.clone();
        proposal.seed = crate::run::seed_of(proposal.seed, doc);
        let (pairs, took) = pairs(model, canvas, &CalibrationOptions { proposal, ..CalibrationOptions::default() })?;
        all.extend(pairs);
        forwards += took;
        done();
    }
    Ok((all, forwards))
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

    /// What the precision is at least, as far as so few pairs can tell: the lower end of its one-sided 95 % interval (Wilson's).
    pub fn surely(&self) -> Option<f64> {
        const Z: f64 = 1.645;
        let (p, n) = (self.precision()?, self.held as f64);
        let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        Some((p + Z * Z / (2.0 * n) - spread) / (1.0 + Z * Z / n))
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
    /// Chooses the strongest that is precise enough; the weakest when none is.
    pub fn of(pairs: &[Pair]) -> Calibration {
        let strengths = GRID.map(|alpha| Strength::of(alpha, pairs));
        let fine = |strength: &&Strength| strength.surely().is_some_and(|precision| precision >= PRECISION);
        Calibration {
            alpha: strengths.iter().rev().find(fine).map_or(GRID[0], |strength| strength.alpha),
            pairs: pairs.len(),
            flips: pairs.iter().filter(|pair| pair.flips).count(),
            strengths: strengths.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill::toy::Toy;

    fn some(n: usize, x: f64, flips: bool) -> Vec<Pair> {
        vec![Pair { x, flips }; n]
    }

    #[test]
    fn a_strength_holds_back_whoever_loses_more_than_its_confidence() {
        // α x > 1: at 10, x = .2 is held back and x = .1 is not.
        let pairs = [some(3, 0.2, true), some(1, 0.2, false), some(2, 0.1, true), some(5, 0.0, false)].concat();
        let at_10 = Strength::of(10.0, &pairs);
        assert_eq!((at_10.held, at_10.right, at_10.missed), (4, 3, 2));
        assert_eq!((at_10.precision(), at_10.recall()), (Some(0.75), Some(0.6)));
        // Wilson: (.75 + 2.706/8 − 1.645 √(.75·.25/4 + 2.706/64)) / (1 + 2.706/4) = .3561.
        assert!((at_10.surely().unwrap() - 0.3561).abs() < 1e-4, "{:?}", at_10.surely());
        let nobody = Strength::of(1.0, &pairs);
        assert_eq!((nobody.held, nobody.precision(), nobody.surely()), (0, None, None));
    }

    #[test]
    fn the_strongest_that_is_surely_precise_is_taken() {
        // Up to 25 everybody who is held back flips; from 50 on, 100 more join who do not.
        let pairs = [some(60, 0.1, true), some(100, 0.03, false)].concat();
        assert_eq!(Calibration::of(&pairs).alpha, 25.0);
        // Few pairs settle nothing: 2 of 2 is at least .42.
        assert_eq!(Calibration::of(&some(2, 0.1, true)).alpha, GRID[0]);
        assert_eq!(Calibration::of(&[]).alpha, GRID[0]);
        let all = Calibration::of(&some(50, 0.5, true));
        assert_eq!((all.alpha, all.pairs, all.flips), (800.0, 50, 50));
    }

    #[test]
    fn on_the_toy_the_words_of_a_couple_are_kept_apart_and_nobody_else() {
        let mut toy = Toy::phrases(12);
        let canvas = Canvas::prompt(&[], 12, toy.mask_id());
        let (pairs, forwards) = pairs(&mut toy, canvas, &CalibrationOptions::default()).unwrap();
        // Top-8 has two steps: 8 of 12, then 4; each is one forward, and one for everybody but the last that would be committed.
        assert_eq!((forwards, pairs.len()), (1 + 7 + 1 + 3, 8 * 7 / 2 + 4 * 3 / 2));
        assert!(pairs.iter().all(|pair| pair.flips <= (pair.x > 0.0)), "who flips is coupled: {pairs:?}");
        assert!(pairs.iter().any(|pair| pair.flips) && pairs.iter().any(|pair| pair.x == 0.0));
    }
}
