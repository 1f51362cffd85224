//! LookUM: try a few ways to go on, look at where each leads, and take one.
//!
//! From the pool of the surest candidates, draw `paths` sets of `tokens`; fill each, run the model, and weigh the path by
//! exp(−mean entropy of what is left): importance resampling then picks one. Each path is one more forward. Only
//! secondary summaries of the paper were available; pool order (entropy) and weight are our reading of them.

use crate::spec::{Entry, Param, Values};
use crate::{Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, TokenId, Verdict};

/// The sampler, with its search width and the search that is under way.
pub(crate) struct LookUm {
    paths: usize,
    pool: usize,
    tokens: usize,
    search: Option<Search>,
}

/// The paths of one step.
struct Search {
    sets: Vec<Vec<Pick>>,
    weights: Vec<f64>, // of those already seen
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let [pool, tokens] = [v.option_count(0), v.option_count(1)];
        Ok(Policy::Commits(Box::new(LookUm { paths: v.count(0), pool, tokens, search: None })))
    };
    Entry::new("lookum", "looks ahead along a few paths", build)
        .params([Param::count("PATHS", 1, 64).default(2.0)])
        .options([
            Param::count("pool", 1, u32::MAX as u64).default(5.0),
            Param::count("tokens", 1, u32::MAX as u64).default(2.0),
        ])
        .source("Lee et al. 2025 (LookUM), from summaries")
}

impl LookUm {
    fn draw(&self, view: &StepView<'_>) -> Search {
        let mut pool: Vec<Slot> = view.slots().collect();
        // Stable: ties by position. The entropy of a row whose proposal has no confidence at all speaks of other tokens.
        let hopeless = |slot| view.confidence(slot) <= 0.0;
        let entropy = |slot| view.stats(slot).entropy;
        pool.sort_by(|&a, &b| hopeless(a).cmp(&hopeless(b)).then(entropy(a).total_cmp(&entropy(b))));
        pool.truncate(self.pool.max(self.tokens));
        let mut coin = view.coin(0);
        let mut draw = || {
            let mut left = pool.clone();
            let mut set: Vec<Slot> = Vec::new();
            while set.len() < self.tokens && !left.is_empty() {
                set.push(left.remove(coin.weighted(&vec![1.0; left.len()])));
            }
            set.sort_unstable();
            set.into_iter().map(|slot| Pick::of(view, slot, -view.stats(slot).entropy)).collect()
        };
        // With no more candidates than tokens there is one path, and nothing to look at.
        let paths = if pool.len() <= self.tokens { 1 } else { self.paths };
        Search { sets: (0..paths).map(|_| draw()).collect(), weights: Vec::new() }
    }
}

/// exp(−mean H) over what stays masked; 1, the best there is, when nothing does.
fn weight(view: &StepView<'_>) -> f64 {
    let left = view.slots().filter(|slot| view.revealed.iter().all(|(revealed, _)| revealed != slot));
    let (sum, n) = left.fold((0.0, 0usize), |(sum, n), slot| (sum + view.stats(slot).entropy, n + 1));
    (-sum / n.max(1) as f64).exp()
}

impl Sampler for LookUm {
    fn needs(&self) -> Needs {
        Needs::default().entropy().reveals()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.search = None;
        Ok(job.masks * (1 + self.paths))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let mut search = match self.search.take() {
            None => self.draw(view),
            Some(mut search) => {
                search.weights.push(weight(view));
                search
            }
        };
        if search.sets.len() > 1 && search.weights.len() < search.sets.len() {
            let reveal = |pick: &Pick| -> (Slot, TokenId) { (pick.slot, pick.token) };
            let path = search.sets[search.weights.len()].iter().map(reveal).collect();
            self.search = Some(search);
            return Ok(Verdict::Reveal(path));
        }
        let chosen = if search.weights.is_empty() { 0 } else { view.coin(1).weighted(&search.weights) };
        search.sets.swap_remove(chosen).into_iter().for_each(|pick| picks.add(pick));
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use crate::toy::{Toy, decode_toy};

    #[test]
    fn what_has_no_confidence_is_the_last_of_the_pool() {
        // Entropies prefer 0, whose own token has no probability at all. One path of two tokens: nothing to look at.
        let step = crate::Snapshot::new(&[0.0, 0.5, 0.6]).entropy(&[0.0, 1.0, 1.2]);
        let mut lookum = "lookum:1@pool=2".parse::<crate::SamplerSpec>().unwrap().build().unwrap();
        assert_eq!(step.ask(&mut lookum).unwrap().positions(), [1, 2]);
    }

    #[test]
    fn every_path_is_a_forward() {
        let steps = decode_toy(Toy::phrases(8), "lookum:3", None);
        // Two tokens a step; 1 + 3 forwards, but the last step has only one path.
        let seen: Vec<_> = steps.iter().map(|s| (s.commits.len(), s.forwards)).collect();
        assert_eq!(seen, [(2, 4), (2, 4), (2, 4), (2, 1)]);
    }

    #[test]
    fn commits_come_from_the_pool_of_the_surest() {
        let pool = |pool: usize| {
            let steps = decode_toy(Toy::phrases(16), &format!("lookum:2@pool={pool}@tokens=1"), None);
            steps[0].commits[0].entropy
        };
        let surest = pool(1);
        assert!((1..8).all(|n| pool(n) >= surest));
    }
}
