//! In what order candidates are proposed.
//!
//! A token-wise ranking gives every candidate a score once. A dependency-aware one also lets each choice lower the scores
//! of the rest ([`Ranking::discount`]): that is all ADAS adds, see `adas.rs`.

use crate::{Needs, Slot, StepView};

/// Orders candidates, best first. Ties go to the lower position.
///
/// ```
/// use cofill::{Greedy, Policy, Ranking, Snapshot, StepView, rule::TopK};
///
/// /// Rightmost first.
/// struct Rightmost;
///
/// impl Ranking for Rightmost {
///     fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
///         scores.extend(view.slots().map(|slot| view.position(slot) as f64));
///     }
/// }
///
/// let greedy = Greedy::new(Box::new(Rightmost), Box::new(TopK { k: 2 }))?;
/// let picks = Snapshot::new(&[0.9, 0.8, 0.7]).ask(&mut Policy::Commits(Box::new(greedy)))?;
/// assert_eq!(picks.positions(), [2, 1]);
/// # Ok::<(), cofill::Error>(())
/// ```
pub trait Ranking: Send {
    /// What it must be shown.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Pushes one finite score per candidate, in slot order; larger is better.
    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>);

    /// A candidate is chosen; told once for each, in order, before its discount is asked for.
    fn choose(&mut self, _view: &StepView<'_>, _chosen: Slot) {}

    /// What choosing `chosen` takes from everybody else. Nothing, for a token-wise ranking.
    fn discount<'a>(&'a self, _view: &'a StepView<'_>, _chosen: Slot) -> Option<Discount<'a>> {
        None
    }

    /// The slots through which `deferred` depends on `chosen`, in order; none if it does so directly, for all this ranking knows.
    fn between(&mut self, _view: &StepView<'_>, _deferred: Slot, _chosen: Slot, between: &mut Vec<usize>) {
        between.clear();
    }

    /// Whether a candidate that has lost more than its confidence ends the step.
    fn vetoes(&self) -> bool {
        false
    }
}

/// Candidate i loses `weight * toward[i]`. A product rather than a function, so that applying it is one pass.
#[derive(Debug, Clone, Copy)]
pub struct Discount<'a> {
    /// How much the chosen position counts.
    pub weight: f64,
    /// How much each candidate depends on it. `[slots]`
    pub toward: &'a [f64],
}

/// c: the probability of the proposed token. Every experiment of the paper ranks by it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Confidence;

impl Ranking for Confidence {
    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        scores.extend(view.candidates.stats.iter().map(|row| row.confidence));
    }
}

/// p(1) - p(2): how far the best token is ahead of the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Margin;

impl Ranking for Margin {
    fn needs(&self) -> Needs {
        Needs::default().margin()
    }

    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        scores.extend(view.candidates.stats.iter().map(|row| row.margin));
    }
}

/// -H: the sharpest distribution first. (llama.cpp ranks by +H, the flattest first; a property test keeps us from that.)
#[derive(Debug, Clone, Copy, Default)]
pub struct NegEntropy;

impl Ranking for NegEntropy {
    fn needs(&self) -> Needs {
        Needs::default().entropy()
    }

    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        scores.extend(view.candidates.stats.iter().map(|row| -row.entropy));
    }
}

/// Any order, by the request's seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Ranking for Random {
    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        scores.extend(view.slots().map(|slot| view.noise(slot)));
    }
}

/// Draws an order without replacement from softmax(score / temperature): Dream's `alg_temp`.
///
/// Adding Gumbel noise to score / temperature and sorting is exactly that draw.
pub struct Perturbed {
    /// The ranking whose scores are perturbed.
    pub base: Box<dyn Ranking>,
    /// 0 would be the base ranking itself.
    pub temperature: f64,
}

impl Ranking for Perturbed {
    fn needs(&self) -> Needs {
        self.base.needs()
    }

    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        self.base.score(view, scores);
        for (score, slot) in scores.iter_mut().zip(view.slots()) {
            let gumbel = -(-view.noise(slot).ln()).ln();
            *score = *score / self.temperature + gumbel;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{SamplerSpec, Snapshot};

    #[track_caller]
    fn check(sampler: &str, step: &Snapshot, want: &[usize]) {
        let spec: SamplerSpec = sampler.parse().unwrap();
        assert_eq!(step.select(&spec).unwrap().positions(), want, "{sampler}");
    }

    #[test]
    fn each_ranking_has_its_own_order() {
        // c prefers 0, the margin 1, the entropy 2.
        let step = Snapshot::new(&[0.6, 0.5, 0.4]).margin(&[0.1, 0.4, 0.2]).entropy(&[1.2, 1.1, 0.9]);
        check("topk:3", &step, &[0, 1, 2]);
        check("topk:3@margin", &step, &[1, 2, 0]);
        check("topk:3@entropy", &step, &[2, 1, 0]);
    }

    #[test]
    fn t5_ties_go_to_the_lower_position() {
        check("topk:3", &Snapshot::new(&[0.5, 0.75, 0.75, 0.5]), &[1, 2, 0]);
    }

    #[test]
    fn t12_more_than_there_are_takes_all() {
        check("topk:16", &Snapshot::new(&[0.3, 0.2]), &[0, 1]);
    }

    #[test]
    fn random_orders_follow_the_seed_and_every_order_occurs() {
        let spec: SamplerSpec = "topk:3@random".parse().unwrap();
        let order = |seed| Snapshot::new(&[0.9, 0.5, 0.1]).seed(seed).select(&spec).unwrap().positions();
        assert_eq!(order(1), order(1));
        let orders: std::collections::HashSet<_> = (0..200).map(order).collect();
        assert_eq!(orders.len(), 6, "3! orders");
    }

    #[test]
    fn alg_temp_draws_positions_in_proportion() {
        // softmax([.9, .5] / .4) = 1/(1+e^-1) = .731 for the first.
        let spec: SamplerSpec = "dream:1@maskgit_plus@alg_temp=0.4".parse().unwrap();
        let mut policy = spec.build().unwrap();
        let mut first = |seed| Snapshot::new(&[0.9, 0.5]).seed(seed).ask(&mut policy).unwrap().positions()[0];
        let share = (0..4000).filter(|&seed| first(seed) == 0).count() as f64 / 4000.0;
        assert!((share - 0.731).abs() < 0.02, "{share}");
    }
}
