//! dInfer's credit decoder: a token that keeps winning at a position gains credit there.
//!
//! C ← β C, then the top token of each masked position gains p^γ; logits are raised by α ln(1 + C), which is p ∝ p (1 + C)^α; the
//! boosted confidence is compared with τ. Only tokens that once won hold credit, so C is kept sparse. The written token is the
//! boosted winner, which may differ from the proposed one; the trace has the model's probability of it as confidence and the
//! boosted one as score.

use crate::spec::{Entry, Param, Values};
use crate::{Error, Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, TokenId, Verdict};

/// dInfer's parameters and the credit of the current block.
pub(crate) struct Credit {
    tau: f64,
    alpha: f64,
    beta: f64,
    gamma: f64,
    credit: Vec<Vec<(TokenId, f64)>>, // [position], sparse over tokens
}

/// dInfer commits what lies this close to the surest along with it.
const CLOSE: f64 = 1e-5;

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (tau, [alpha, beta, gamma]) = (v.param(0), std::array::from_fn(|i| v.option(i)));
        Ok(Policy::Commits(Box::new(Credit { tau, alpha, beta, gamma, credit: Vec::new() })))
    };
    Entry::new("credit", "a threshold on confidence boosted by past wins", build)
        .params([Param::number("TAU", 0.0, 1.0).default(0.9)])
        .options([
            Param::number("alpha", 0.0, 100.0).default(0.7),
            Param::number("beta", 0.0, 1.0).default(0.8),
            Param::number("gamma", 0.0, 100.0).default(0.2),
        ])
        .source("dInfer, credit decoder")
}

impl Credit {
    /// The winner after the boost, and its probability.
    fn boosted(&mut self, view: &StepView<'_>, slot: Slot) -> (TokenId, f64) {
        let p = view.distribution(slot);
        let (top, c) = (view.stats(slot).token, view.confidence(slot));
        let credit = &mut self.credit[view.position(slot)];
        credit.iter_mut().for_each(|(_, credit)| *credit *= self.beta);
        let gain = c.powf(self.gamma);
        match credit.iter_mut().find(|(token, _)| *token == top) {
            Some((_, credit)) => *credit += gain,
            None => credit.push((top, gain)),
        }
        // Σ p (1+C)^α: tokens without credit keep their probability. At T = 0 the top token is the likeliest and has credit, so no
        // token without it can win; above, the drawn token competes with those that have credit.
        let mut sum = 1.0;
        let mut best = (top, 0.0);
        for &(token, credit) in credit.iter() {
            let before = if token == top { c } else { f64::from(p[token as usize]) };
            let after = before * (1.0 + credit).powf(self.alpha);
            sum += after - before;
            if after > best.1 || (after == best.1 && token < best.0) {
                best = (token, after);
            }
        }
        (best.0, (best.1 / sum).min(1.0))
    }
}

impl Sampler for Credit {
    fn needs(&self) -> Needs {
        Needs::default().distributions().history()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.credit = vec![Vec::new(); job.length];
        Ok(job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if self.credit.len() < view.job.length {
            return Err(Error::Contract { who: "caller", problem: "it shows a step without `begin`".into() });
        }
        let boosted: Vec<(TokenId, f64)> = view.slots().map(|slot| self.boosted(view, slot)).collect();
        let most = boosted.iter().map(|&(_, c)| c).fold(0.0, f64::max);
        let threshold = self.tau.min(most - CLOSE);
        picks.forced = most < self.tau;
        for (slot, &(token, c)) in view.slots().zip(&boosted) {
            if c >= threshold {
                let mut pick = Pick::of(view, slot, c);
                if token != pick.token {
                    (pick.token, pick.confidence) = (token, f64::from(view.distribution(slot)[token as usize]));
                }
                picks.add(pick);
            }
        }
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Distributions, Policy, SamplerSpec, Snapshot};

    fn policy(spec: &str) -> Policy {
        spec.parse::<SamplerSpec>().unwrap().build().unwrap()
    }

    fn step(t: usize, p: &[[f32; 2]]) -> Snapshot {
        let c: Vec<f64> = p.iter().map(|p| f64::from(p[0].max(p[1]))).collect();
        Snapshot::new(&c).distributions(Distributions::new(2, p.concat()).unwrap()).step(t)
    }

    #[test]
    fn credit_grows_with_every_win() {
        // γ = 0: a win is worth 1. α = 1. Position 0: p = [.5, .5], C = 1, so .5·2/(.5·2 + .5) = 2/3.
        // The next step C = .5·1 + 1 = 1.5 and .5·2.5/(.5·2.5 + .5) = 5/7.
        let mut credit = policy("credit:0.7@alpha=1@beta=0.5@gamma=0");
        let first = step(0, &[[0.5, 0.5], [0.25, 0.75]]).ask(&mut credit).unwrap();
        // Position 1: .75·2/(1.5 + .25) = 6/7 passes τ = .7; position 0 does not yet.
        assert_eq!((first.positions(), first.forced), (vec![1], false));
        assert!((first[0].score - 6.0 / 7.0).abs() < 1e-12);
        let second = step(1, &[[0.5, 0.5]]).ask(&mut credit).unwrap();
        assert_eq!((second.positions(), second.forced), (vec![0], false));
        assert!((second[0].score - 5.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_close_to_the_surest_goes_along() {
        // samplers.md 3.15, with the boost switched off by α = 0.
        let p = [[0.5, 0.5], [0.499995, 0.500005], [0.6, 0.4]].map(|p: [f32; 2]| [1.0 - p[1], p[1]]);
        let picks = step(0, &[p[0], p[1]]).ask(&mut policy("credit:0.9@alpha=0")).unwrap();
        assert_eq!((picks.positions(), picks.forced), (vec![0, 1], true));
        let picks = step(0, &p).ask(&mut policy("credit:0.9@alpha=0")).unwrap();
        assert_eq!(picks.positions(), [2]);
    }
}
