//! LESS: commit what is confident, keeps its token, and has stopped drifting.
//!
//! A candidate is ready when all three hold: c ≥ τ; the token it proposes is the one it proposed in each of the last `persistence`
//! steps; and the Jensen-Shannon divergence of its distribution from the last step's is at most `drift`. All that are ready go together;
//! when none is, the surest goes alone.
//!
//! The divergence is coarse: each distribution is its eight likeliest tokens and one bucket for the rest, and what is not among the
//! eight counts as 0 there, its mass being in the bucket. Every candidate is remembered from the first step of its block on.
//!
//! Read: the abstract (Mohamed et al. 2026, arXiv 2606.16908) and the published code (`LESS-Is-More`, commit 4bfb672), whose LLaDA decoder this is:
//! inequalities, the eight tokens, the 1e-12 in the logarithms, τ = .75, drift .04, persistence 2. Its fallback commits the quota of LLaDA's
//! schedule, which in all of its experiments (as many steps as tokens) is one. Not here: the Dream decoder of the same code, which
//! commits runs from the leftmost mask and is stricter with the end-of-text token, whose id no sampler of this crate knows. Ours: above
//! temperature 0 the token is the drawn one and its confidence the clean softmax's, as everywhere in this crate.

use crate::spec::{Entry, Param, Values};
use crate::{Error, Job, Needs, Picks, Policy, Result, Sampler, StepView, TokenId, Verdict};
use std::collections::VecDeque;

/// LESS's thresholds and its memory.
pub(crate) struct Less {
    tau: f64,
    drift: f64,
    persistence: usize,
    memory: Vec<Memory>, // [position]
}

#[derive(Debug, Clone, Default)]
struct Memory {
    tokens: VecDeque<TokenId>, // proposed in the last steps, at most `persistence`
    top: Top,                  // of the last step; empty before the first
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (tau, drift, persistence) = (v.param(0), v.param(1), v.option_count(0));
        Ok(Policy::Commits(Box::new(Less { tau, drift, persistence, memory: Vec::new() })))
    };
    Entry::new("less", "confident, of one mind and without drift", build)
        .params([Param::number("TAU", 0.0, 1.0).default(0.75), Param::number("DRIFT", 0.0, 1.0).default(0.04)])
        .options([Param::count("persistence", 1, 64).default(2.0)])
        .source("Mohamed et al. 2026 (LESS), its LLaDA code")
}

impl Sampler for Less {
    fn needs(&self) -> Needs {
        Needs::default().distributions().history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.memory = vec![Memory::default(); job.length];
        Ok(job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if self.memory.len() < view.job.length {
            return Err(Error::Contract { who: "caller", problem: "it shows a step without `begin`".into() });
        }
        for slot in view.slots() {
            let (token, c) = (view.stats(slot).token, view.confidence(slot));
            let top = Top::of(view.distribution(slot));
            let memory = &mut self.memory[view.position(slot)];
            let persists = memory.tokens.len() == self.persistence && memory.tokens.iter().all(|&t| t == token);
            if persists && c >= self.tau && top.divergence(&memory.top) <= self.drift {
                picks.push(view, slot, c);
            }
            if memory.tokens.len() == self.persistence {
                memory.tokens.pop_front();
            }
            memory.tokens.push_back(token);
            memory.top = top;
        }
        Ok(picks.or_surest(view))
    }
}

/// How many tokens of a distribution are told apart.
const TOP: usize = 8;

/// A distribution, coarse: its likeliest tokens and what is left.
#[derive(Debug, Clone, Copy, Default)]
struct Top {
    likeliest: [(TokenId, f64); TOP], // largest first, ties by id
    n: usize,                         // how many of them there are; fewer than eight in a small vocabulary
    other: f64,
}

impl Top {
    /// The coarse form of p. `[vocab]`
    fn of(p: &[f32]) -> Top {
        let mut top = Top::default();
        for (token, &p) in (0..).zip(p) {
            let p = f64::from(p);
            if top.n == TOP && p <= top.likeliest[TOP - 1].1 {
                continue;
            }
            let at = top.likeliest[..top.n].iter().position(|&(_, q)| p > q).unwrap_or(top.n);
            top.n = (top.n + 1).min(TOP);
            top.likeliest[at..top.n].rotate_right(1);
            top.likeliest[at] = (token, p);
        }
        top.other = (1.0 - top.tokens().iter().map(|&(_, p)| p).sum::<f64>()).max(0.0);
        top
    }

    fn tokens(&self) -> &[(TokenId, f64)] {
        &self.likeliest[..self.n]
    }

    /// The probability of a token that is told apart; `None` for what is in the bucket.
    fn get(&self, token: TokenId) -> Option<f64> {
        self.tokens().iter().find(|&&(t, _)| t == token).map(|&(_, p)| p)
    }

    /// ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = ½ (p + q), in nats: at most ln 2.
    fn divergence(&self, before: &Top) -> f64 {
        const TINY: f64 = 1e-12; // the published code's guard against ln 0
        let term = |p: f64, q: f64| {
            let m = 0.5 * (p + q);
            let kl = |p: f64| p * ((p + TINY).ln() - (m + TINY).ln());
            0.5 * (kl(p) + kl(q))
        };
        let mut sum = term(self.other, before.other);
        sum += self.tokens().iter().map(|&(token, p)| term(p, before.get(token).unwrap_or(0.0))).sum::<f64>();
        let gone = before.tokens().iter().filter(|&&(token, _)| self.get(token).is_none());
        sum += gone.map(|&(_, q)| term(0.0, q)).sum::<f64>();
        sum.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Distributions, SamplerSpec, Snapshot};

    #[test]
    fn a_coarse_distribution_keeps_the_eight_likeliest() {
        let mut p = [0.02f32; 12];
        (p[3], p[11], p[5]) = (0.38, 0.25, 0.19);
        let top = Top::of(&p);
        // Of the nine equals, the five with the lowest ids; the other four times .02 are left over.
        let tokens: Vec<TokenId> = top.tokens().iter().map(|&(token, _)| token).collect();
        assert_eq!(tokens, [3, 11, 5, 0, 1, 2, 4, 6]);
        assert!((top.other - 0.08).abs() < 1e-6, "{}", top.other);
        assert_eq!((top.get(11), top.get(7)), (Some(0.25), None), "7 is in the bucket");
        let small = Top::of(&[0.25, 0.75]);
        assert_eq!((small.tokens(), small.other), (&[(1, 0.75), (0, 0.25)][..], 0.0));
    }

    #[test]
    fn divergences() {
        let js = |p: &[f32], q: &[f32]| Top::of(p).divergence(&Top::of(q));
        assert_eq!(js(&[0.75, 0.25], &[0.75, 0.25]), 0.0);
        // Nothing in common: ½ ln 2 + ½ ln 2.
        assert!((js(&[1.0, 0.0], &[0.0, 1.0]) - 2f64.ln()).abs() < 1e-9);
        // p = (¾, ¼), q = (¼, ¾), m = (½, ½): ½·2·(¾ ln 3/2 + ¼ ln 1/2).
        let want = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        assert!((js(&[0.75, 0.25], &[0.25, 0.75]) - want).abs() < 1e-9);
        assert!((js(&[0.25, 0.75], &[0.75, 0.25]) - want).abs() < 1e-9, "it is symmetric");
        // Ten tokens of a tenth against the same, the ninth and tenth a little ahead: they push 6 and 7 into the bucket, so those four
        // count as come and gone although hardly anything moved. Terms: six equal ones 0; p = (0, 0, .1, .1), q = (.1, .1, 0, 0) give
        // ½·.1 ln 2 each, .2 ln 2 in all; the bucket holds .2 in both.
        let even = [0.1f32; 10];
        let mut tilted = even;
        (tilted[8], tilted[9]) = (0.1 + 1e-6, 0.1 + 1e-6);
        assert!((js(&tilted, &even) - 0.2 * 2f64.ln()).abs() < 1e-4);
    }

    /// Three positions over four steps, two tokens. Position 0 is sure from the beginning, 1 changes its mind after the first step, 2 keeps
    /// its token and drifts.
    const STEPS: [[[f32; 2]; 3]; 4] = [
        [[0.9, 0.1], [0.2, 0.8], [0.80, 0.20]],
        [[0.9, 0.1], [0.8, 0.2], [0.99, 0.01]],
        [[0.9, 0.1], [0.8, 0.2], [0.76, 0.24]],
        [[0.9, 0.1], [0.8, 0.2], [0.76, 0.24]],
    ];

    fn run(sampler: &str) -> Vec<(Vec<usize>, bool)> {
        let spec: SamplerSpec = sampler.parse().unwrap();
        let mut policy = spec.build().unwrap();
        let mut ask = |t: usize| {
            let p = &STEPS[t];
            let tokens = p.map(|p| TokenId::from(p[1] > p[0]));
            let c = p.map(|p| f64::from(p[0].max(p[1])));
            let step = Snapshot::new(&c).tokens(&tokens).distributions(Distributions::new(2, p.concat()).unwrap());
            let picks = step.step(t).ask(&mut policy).unwrap();
            (picks.positions(), picks.forced)
        };
        (0..4).map(&mut ask).collect() // nothing is committed in between
    }

    #[test]
    fn all_three_must_hold() {
        // Two earlier proposals are needed, so steps 0 and 1 force the surest: 0, then 2 (.99). In step 2 position 0 has proposed the same
        // three times and moved by 0. Position 1 has only once before; position 2 moved from .99 to .76:
        // m = (.875, .125), ½(.99 ln .99/.875 + .01 ln .01/.125) + ½(.76 ln .76/.875 + .24 ln .24/.125)
        // = ½(.12225 − .02526) + ½(−.10709 + .15656) = .0732 > .04. In step 3 all three are ready.
        let forced = |i| (vec![i], true);
        assert_eq!(run("less"), [forced(0), forced(2), (vec![0], false), (vec![0, 1, 2], false)]);
        // A drift of .08 lets 2 go a step earlier.
        assert_eq!(run("less:0.75,0.08")[2], (vec![0, 2], false));
        // One earlier proposal is enough: 0 in step 1, where 1 has just changed its mind and 2 moved from .8 to .99:
        // m = (.895, .105), ½(.99 ln .99/.895 + .01 ln .01/.105) + ½(.8 ln .8/.895 + .2 ln .2/.105) = .0577 > .04.
        assert_eq!(run("less@persistence=1")[1], (vec![0], false));
        assert_eq!(run("less@persistence=1")[2], (vec![0, 1], false));
        // τ is inclusive up to rounding: .8 in f32 is a little more than .8.
        assert_eq!(run("less:0.8")[3], (vec![0, 1], false));
        assert_eq!(run("less:0.95")[3], forced(0));
    }
}
