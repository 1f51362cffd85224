//! KLASS: commit what is both confident and stable.
//!
//! A candidate is ready when its last h divergences KL(p_t ‖ p_{t−1}) are all below κ and its confidence passes θ; all
//! ready candidates go together. The distribution before the first step is all zeros, so the first divergence is about
//! 27.6 − H nats and nothing is stable in the first h steps. Distributions are remembered for every masked position, blocks
//! to come included, as in the reference code.

use crate::divergence::kl;
use crate::spec::{Entry, Param, Values};
use crate::{Error, Job, Needs, Picks, Policy, Result, Sampler, Scope, StepView, Verdict};
use std::collections::VecDeque;

/// KLASS's two thresholds and its memory.
pub(crate) struct Klass {
    theta: f64,
    kappa: f64,
    history: usize,
    family: Family,
    memory: Vec<Memory>, // [position]
}

/// The published code differs between its two models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// c > θ, and at least h − 1 steps into the block.
    Llada,
    /// c ≥ θ, from the first step on.
    Dream,
}

#[derive(Debug, Clone, Default)]
struct Memory {
    previous: Vec<f32>, // [vocab]; empty before the first step
    divergences: VecDeque<f64>,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        Ok(Policy::Commits(Box::new(Klass {
            theta: v.param(0),
            kappa: v.param(1),
            history: v.option_count(0),
            family: if v.flag(0) == "llada" { Family::Llada } else { Family::Dream },
            memory: Vec::new(),
        })))
    };
    Entry::new("klass", "confident and stable under KL", build)
        .params([
            Param::number("THETA", 0.0, 1.0).default(0.7),
            Param::number("KAPPA", 0.0, f64::INFINITY).default(1.0),
        ])
        .flags(["llada", "dream"])
        .options([Param::count("history", 1, 64).default(2.0)])
        .source("Kim et al. 2026 (KLASS)")
}

impl Klass {
    fn remember(&mut self, view: &StepView<'_>) {
        let distributions = view.distributions.expect("KLASS asks for distributions");
        for (row, &position) in view.wide.positions.iter().enumerate() {
            let memory = &mut self.memory[position];
            let p = distributions.row(row);
            memory.divergences.push_back(kl(p, &memory.previous));
            if memory.divergences.len() > self.history {
                memory.divergences.pop_front();
            }
            memory.previous.clear();
            memory.previous.extend_from_slice(p);
        }
    }
}

impl Sampler for Klass {
    fn needs(&self) -> Needs {
        Needs::default().scope(Scope::Masked).distributions().history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.memory = vec![Memory::default(); job.length];
        Ok(job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if self.memory.len() < view.job.length {
            return Err(Error::Contract { who: "caller", problem: "it shows a step without `begin`".into() });
        }
        self.remember(view);
        let gated = self.family == Family::Llada && view.block.step + 1 < self.history;
        for slot in view.slots().filter(|_| !gated) {
            let divergences = &self.memory[view.position(slot)].divergences;
            let stable = divergences.iter().all(|kl| *kl < self.kappa);
            let c = view.confidence(slot);
            let confident = match self.family {
                Family::Llada => c > self.theta,
                Family::Dream => c >= self.theta,
            };
            if stable && confident {
                picks.push(view, slot, c);
            }
        }
        Ok(picks.or_surest(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Distributions, SamplerSpec, Snapshot};

    /// The four steps of T14, by position.
    const T14: [[[f32; 3]; 4]; 4] = [
        [[0.90, 0.05, 0.05], [0.92, 0.04, 0.04], [0.93, 0.04, 0.03], [0.93, 0.04, 0.03]],
        [[0.55, 0.40, 0.05], [0.65, 0.30, 0.05], [0.80, 0.15, 0.05], [0.82, 0.13, 0.05]],
        [[0.70, 0.20, 0.10], [0.72, 0.18, 0.10], [0.73, 0.17, 0.10], [0.73, 0.17, 0.10]],
        [[0.34, 0.33, 0.33]; 4],
    ];

    fn step(t: usize) -> Snapshot {
        let c: Vec<f64> = T14.iter().map(|p| f64::from(p[t][0])).collect();
        let p = T14.iter().flat_map(|p| p[t]).collect();
        Snapshot::new(&c).distributions(Distributions::new(3, p).unwrap()).step(t)
    }

    #[test]
    fn t14_divergences() {
        let want = [
            [27.237, 26.786, 26.829, 26.533],
            [0.00237, 0.02228, 0.00132, 0.0],
            [0.00142, 0.06214, 0.00035, 0.0],
            [0.0, 0.00164, 0.0, 0.0],
        ];
        for (t, row) in want.iter().enumerate() {
            for (i, want) in row.iter().enumerate() {
                let previous: &[f32] = if t == 0 { &[] } else { &T14[i][t - 1] };
                let got = kl(&T14[i][t], previous);
                let tolerance = if t == 0 { 1e-3 } else { 1e-5 };
                assert!((got - want).abs() < tolerance, "t{t} position {i}: {got} is not {want}");
            }
        }
    }

    #[test]
    fn t14_ready_sets() {
        // θ = .6, κ = .015, h = 2, nothing committed in between. At t3 position 1's history still holds .062; position 3 is
        // stable, but c = .34.
        for family in ["", "@dream"] {
            let spec: SamplerSpec = format!("klass:0.6,0.015{family}").parse().unwrap();
            let mut policy = spec.build().unwrap();
            let got: Vec<_> = (0..4)
                .map(|t| step(t).ask(&mut policy).unwrap())
                .map(|picks| (picks.positions(), picks.forced))
                .collect();
            let want = [(vec![0], true), (vec![0], true), (vec![0, 2], false), (vec![0, 2], false)];
            assert_eq!(got, want, "{spec}");
        }
    }

    #[test]
    fn the_two_families_differ_at_equality() {
        // c is exactly θ, and everything is stable (κ is huge). LLaDA also waits one step.
        let ready = |sampler: &str, t: usize| {
            let spec: SamplerSpec = sampler.parse().unwrap();
            let mut policy = spec.build().unwrap();
            let p = Distributions::new(2, vec![0.75, 0.25, 0.5, 0.5]).unwrap();
            let step = |t| Snapshot::new(&[0.75, 0.5]).distributions(p.clone()).step(t);
            let picks: Vec<_> = (0..=t).map(|t| step(t).ask(&mut policy).unwrap()).collect();
            !picks[t].forced
        };
        assert!(ready("klass:0.75,100@dream", 0));
        assert!(!ready("klass:0.75,100@llada", 1));
        assert!(!ready("klass:0.5,100@llada", 0), "the first step of a block is too early");
        assert!(ready("klass:0.5,100@llada", 1));
    }
}
