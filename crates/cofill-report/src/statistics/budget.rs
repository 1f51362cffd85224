//! Who is best within a budget of forwards: every family of samplers at its best setting, chosen on half of the questions and scored on the
//! other half.
//!
//! Families with different parameters (Top-k, KLASS, DAPD) have no curve in common, but everybody can be asked for the best it can do in so
//! many forwards. The best of many settings on the same questions would flatter whoever has the most settings; so questions with even
//! numbers choose, and those with odd numbers count.

use super::bootstrap::{Bootstrap, Estimate};
use super::difference::mean_score;
use crate::points::{OperatingPoint, Points};
use crate::tuned::score_text;
use serde::Serialize;

/// Forwards for a question, on average.
pub const BUDGETS: [f64; 6] = [2.5, 3.0, 4.0, 6.0, 8.0, 12.0];

/// A family's best settings within every budget, over all models and tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Family {
    /// The rule and its variant, as tables call them: `Fast-dLLM +paths:100`.
    pub name: String,
    /// For every budget the mean score in percent over the models and tasks it was run on; none where some of these has no setting within it.
    pub scores: Vec<Option<f64>>,
    /// On how many models x tasks it has a setting within the budget.
    pub reached: Vec<usize>,
    /// On how many it has any. Tasks that are asked in another way (with a companion, with a trained head) have names of their own, so this
    /// is the family's own count.
    pub places: usize,
}

/// Every family, in the order of the points; empty where answers are not known.
pub fn budgets(points: &Points) -> Vec<Family> {
    let mut families: Vec<String> = Vec::new();
    for point in points.all() {
        let name = family(point);
        if !point.outcomes.is_empty() && !families.contains(&name) {
            families.push(name);
        }
    }
    let places: Vec<(String, String)> =
        points.models().iter().flat_map(|m| points.tasks().into_iter().map(|t| (m.clone(), t))).collect();
    let best = |name: &str, (model, task): &(String, String), budget: f64| -> Option<f64> {
        let here = |point: &&OperatingPoint| {
            point.model == *model && point.task == *task && family(point) == name && !point.outcomes.is_empty()
        };
        let settings = points.all().iter().filter(here).filter(|point| half(point, 0).1 <= budget);
        let better = |a, b| if half(b, 0).0 > half(a, 0).0 { b } else { a };
        settings.reduce(better).map(|point| half(point, 1).0)
    };
    let of = |name: String| {
        let runs_here = |(model, task): &&(String, String)| {
            points.all().iter().any(|point| point.model == *model && point.task == *task && family(point) == name)
        };
        let places: Vec<&(String, String)> = places.iter().filter(runs_here).collect();
        let scores =
            |budget: f64| -> Vec<f64> { places.iter().filter_map(|place| best(&name, place, budget)).collect() };
        let found: Vec<Vec<f64>> = BUDGETS.iter().map(|&budget| scores(budget)).collect();
        Family {
            scores: found
                .iter()
                .map(|found| (found.len() == places.len()).then(|| found.iter().sum::<f64>() / found.len() as f64))
                .collect(),
            reached: found.iter().map(Vec::len).collect(),
            places: places.len(),
            name,
        }
    };
    families.into_iter().map(of).collect()
}

/// The best setting of all on one model and task within a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestWithin {
    /// The model that it is about.
    pub model: String,
    /// The task that it is about.
    pub task: String,
    /// The most forwards for a question, on average.
    pub budget: f64,
    /// As the sampler language writes it.
    pub sampler: String,
    /// Forwards for a question that counts, on average.
    pub nfe: f64,
    /// The mean score in percent over the questions that count, and its 95 % interval.
    pub score: Estimate,
    /// How many questions count.
    pub prompts: usize,
}

impl BestWithin {
    /// The answer in one line.
    pub fn answer(&self) -> String {
        let BestWithin { model, task, budget, sampler, nfe, score, prompts } = self;
        let score = score_text(score);
        format!(
            "best at <= {budget} forwards on {task} with {model}: {sampler} {score} at {nfe:.1} forwards ({prompts} prompts)"
        )
    }
}

/// Who is best on every model and task within 2, 4, 8, 16, ... forwards; a budget that changes nothing is passed over. Of equal scores the one
/// with fewer forwards, then the first. Empty where answers are not known.
pub fn best_within(points: &Points, bootstrap: Bootstrap) -> Vec<BestWithin> {
    let mut all: Vec<BestWithin> = Vec::new();
    for model in points.models() {
        for task in points.tasks() {
            // One question would choose and none would count.
            let here = |point: &&OperatingPoint| point.model == model && point.task == task && point.outcomes.len() > 1;
            let settings: Vec<&OperatingPoint> = points.all().iter().filter(here).collect();
            let most = settings.iter().map(|point| half(point, 0).1).fold(0.0, f64::max);
            let mut before = None;
            // The first power of two that everybody is within is the last that can change something.
            for budget in (1..).map(|power| 2f64.powi(power)).take_while(|budget| *budget < 2.0 * most.max(1.0)) {
                let within = settings.iter().filter(|point| half(point, 0).1 <= budget);
                let better = |a: &&OperatingPoint, b: &&OperatingPoint| {
                    let ((score, nfe), (other, others)) = (half(a, 0), half(b, 0));
                    other > score || (other == score && others < nfe)
                };
                let Some(&best) = within.reduce(|a, b| if better(a, b) { b } else { a }) else { continue };
                let sampler = best.sampler.spelled();
                if before.as_ref() == Some(&sampler) {
                    continue;
                }
                let scores: Vec<f64> = best.outcomes.iter().skip(1).step_by(2).map(|outcome| outcome.score).collect();
                let Some(score) = mean_score(&scores, bootstrap) else { continue };
                let (model, task, nfe) = (model.clone(), task.clone(), half(best, 1).1);
                all.push(BestWithin {
                    model,
                    task,
                    budget,
                    sampler: sampler.clone(),
                    nfe,
                    score,
                    prompts: scores.len(),
                });
                before = Some(sampler);
            }
        }
    }
    all
}

fn family(point: &OperatingPoint) -> String {
    point.sampler.rule.title() + &point.sampler.variant.suffix()
}

/// Score in percent and NFE over the questions whose number leaves this rest.
fn half(point: &OperatingPoint, rest: usize) -> (f64, f64) {
    let some: Vec<_> = point.outcomes.iter().skip(rest).step_by(2).collect();
    let n = some.len().max(1) as f64;
    let score = some.iter().map(|outcome| outcome.score).sum::<f64>();
    (100.0 * score / n, some.iter().map(|outcome| outcome.nfe as f64).sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Outcome;
    use crate::points::tests::{BASE, point};

    /// Even questions have one score, odd ones another.
    fn split(sampler: (&str, &str, &str), nfe: usize, (even, odd): (f64, f64)) -> OperatingPoint {
        let outcome =
            |i: usize| Outcome { prompt: i.to_string(), score: if i.is_multiple_of(2) { even } else { odd }, nfe };
        OperatingPoint { outcomes: (0..10).map(outcome).collect(), ..point(sampler, 50.0, nfe as f64) }
    }

    #[test]
    fn the_even_questions_choose_and_the_odd_ones_count() {
        // Of the settings within 4 forwards, the first looks best on even questions, and has 30 % on the odd ones.
        let points = Points::new(vec![
            split(("eb", "1", BASE), 4, (0.9, 0.3)),
            split(("eb", "2", BASE), 3, (0.5, 0.8)),
            split(("eb", "9", BASE), 9, (1.0, 1.0)),
        ])
        .unwrap();
        let families = budgets(&points);
        let [eb] = &families[..] else { panic!("{families:?}") };
        let scores: Vec<Option<i32>> = eb.scores.iter().map(|s| s.map(|s| s.round() as i32)).collect();
        // Budgets 2.5, 3, 4, 6, 8, 12.
        assert_eq!(scores, [None, Some(80), Some(30), Some(30), Some(30), Some(100)]);
        assert_eq!((eb.name.as_str(), eb.reached[0], eb.reached[1], eb.places), ("EB-Sampler", 0, 1, 1));
    }

    #[test]
    fn the_best_of_all_within_every_budget_is_a_line() {
        // Within 4 forwards eb:1 looks best on the even questions; 8 changes nothing; within 16 comes topk:2+ad, a tie that goes to fewer.
        let points = Points::new(vec![
            split(("eb", "1", BASE), 4, (1.0, 0.0)),
            split(("eb", "2", BASE), 3, (0.0, 1.0)),
            split(("topk", "2", BASE), 10, (1.0, 1.0)),
            split(("topk", "1", "adas"), 9, (1.0, 1.0)),
        ])
        .unwrap();
        let found = best_within(&points, Bootstrap::default());
        let lines: Vec<String> = found.iter().map(BestWithin::answer).collect();
        // None of 5, z = 1.96: up to z² / (5 + z²) = 43 %.
        assert_eq!(lines, ["best at <= 4 forwards on sums with tiny: eb:1 0.0 % [0, 43] at 4.0 forwards (5 prompts)"]);
        let points = Points::new(vec![
            split(("eb", "1", BASE), 3, (0.0, 1.0)),
            split(("topk", "2", BASE), 12, (1.0, 1.0)),
            split(("topk", "1", "adas"), 11, (1.0, 0.0)),
        ])
        .unwrap();
        let samplers: Vec<(f64, String)> =
            best_within(&points, Bootstrap::default()).into_iter().map(|best| (best.budget, best.sampler)).collect();
        assert_eq!(samplers, [(4.0, "eb:1".to_owned()), (16.0, "topk:1+ad:40".to_owned())]);
    }

    #[test]
    fn means_alone_choose_nothing() {
        assert!(
            best_within(&Points::new(vec![point(("eb", "1", BASE), 40.0, 3.0)]).unwrap(), Bootstrap::default())
                .is_empty()
        );
        assert!(budgets(&Points::new(vec![point(("eb", "1", BASE), 40.0, 3.0)]).unwrap()).is_empty());
    }
}
