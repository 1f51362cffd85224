//! Which layer or head is the best signal: the same number for every head of every layer.

use super::folder::three;
use super::{Setting, mean, normal};
use cofill_report::document::Table;
use cofill_report::statistics::bootstrap::Estimate;
use cofill_report::statistics::spearman::spearman;
use serde::Serialize;

/// A number for every head, and for the mean of every layer's heads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByHead {
    /// What was measured, and on what.
    pub what: String,
    /// The name of the number.
    pub number: String,
    /// The number of every head. `[layer][head]`
    pub heads: Vec<Vec<Option<f64>>>,
    /// Of the head mean. `[layer]`
    pub means: Vec<Option<f64>>,
    /// The head with the largest number.
    pub best: Option<Best>,
}

/// A head that stands out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Best {
    /// The layer of the head, from 0.
    pub layer: usize,
    /// The head in its layer, from 0.
    pub head: usize,
    /// The number that is the largest.
    pub value: f64,
    /// Where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

impl ByHead {
    /// From a number for every head and every layer's mean.
    pub fn new(
        what: String,
        number: &str,
        (layers, heads): (usize, usize),
        of: impl Fn(usize, Option<usize>) -> Option<f64>,
    ) -> ByHead {
        let by_head: Vec<Vec<Option<f64>>> =
            (0..layers).map(|layer| (0..heads).map(|head| of(layer, Some(head))).collect()).collect();
        let all = by_head.iter().enumerate().flat_map(|(layer, heads)| {
            let head = move |(head, value): (usize, &Option<f64>)| {
                value.map(|value| Best { layer, head, value, estimate: None })
            };
            heads.iter().enumerate().filter_map(head)
        });
        let best = all.reduce(|best, next| if next.value > best.value { next } else { best });
        let means = (0..layers).map(|layer| of(layer, None)).collect();
        ByHead { what, number: number.into(), heads: by_head, means, best }
    }

    /// Layers down, heads across, the mean last.
    pub fn table(&self) -> Table {
        let heads = self.heads.first().map_or(0, Vec::len);
        let header = (0..heads).map(|head| format!("head {head}"));
        let row = |(layer, numbers): (usize, &Vec<Option<f64>>)| {
            let numbers = numbers.iter().chain(&self.means[layer..=layer]).map(|number| three(*number));
            [layer.to_string()].into_iter().chain(numbers).collect()
        };
        Table {
            caption: Some(format!("{} by layer and head: {}", self.number, self.what)),
            head: ["layer".to_owned()].into_iter().chain(header).chain(["mean".to_owned()]).collect(),
            words: 1,
            rows: self.heads.iter().enumerate().map(row).collect(),
        }
    }

    /// One sentence on the best.
    pub fn best_line(&self) -> Option<String> {
        let Best { layer, head, value, .. } = self.best?;
        let (last, mean) = (self.means.len().checked_sub(1)?, self.means.last().copied().flatten());
        Some(format!(
            "{}: the best signal is head {head} of layer {layer}, {} {}; the mean of the last layer, {last}, has {}.",
            self.what,
            self.number,
            three(Some(value)),
            three(mean)
        ))
    }
}

/// ρ̄_s(A, K) of every head, for settings whose heads were kept apart.
pub fn of_states(settings: &[Setting]) -> Vec<ByHead> {
    settings.iter().filter_map(of_setting).collect()
}

fn of_setting(setting: &Setting) -> Option<ByHead> {
    let measured = setting.states.iter().find(|state| !state.heads.is_empty())?;
    let (layers, heads) = (measured.heads.len(), measured.heads.first().map_or(0, Vec::len));
    let statewise = |layer: usize, head: Option<usize>| -> Vec<f64> {
        let rho = |state: &super::state::State| {
            let kl: Vec<f64> = state.pairs.iter().map(|pair| pair.kl).collect();
            let layer = state.heads.get(layer)?;
            match head {
                Some(head) => spearman(&layer[head], &kl),
                None => spearman(&mean_of(layer), &kl),
            }
        };
        setting.states.iter().filter_map(rho).collect()
    };
    let what = format!("{}, {}", setting.task, setting.model);
    let mut by_head = ByHead::new(what, "ρ̄_s(A, K)", (layers, heads), |layer, head| mean(&statewise(layer, head)));
    if let Some(best) = &mut by_head.best {
        best.estimate = normal(&statewise(best.layer, Some(best.head)));
    }
    Some(by_head)
}

/// The mean over heads, pair by pair. `heads: [head][pair]`
fn mean_of(heads: &[Vec<f64>]) -> Vec<f64> {
    let pairs = heads.first().map_or(0, Vec::len);
    (0..pairs).map(|pair| heads.iter().map(|head| head[pair]).sum::<f64>() / heads.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::super::state::{Effect, Revealed, State};
    use super::*;

    #[test]
    fn the_head_that_follows_kl_is_found() {
        let effect = |kl| Effect {
            position: 0,
            token: 0,
            token_after: 0,
            attention: 0.0,
            kl,
            confidence: 0.5,
            delta_confidence: 0.0,
            gated: 0.0,
            along_paths: 0.0,
            score: 0.5,
        };
        let revealed = Revealed { position: 0, token: 0, confidence: 0.5, uncertainty: 0.5 };
        // Layer 0: head 0 is constant, head 1 runs against K; layer 1: head 0 follows it, head 1 half.
        let heads =
            vec![vec![vec![0.1, 0.1, 0.1], vec![0.3, 0.2, 0.1]], vec![vec![0.1, 0.2, 0.3], vec![0.2, 0.1, 0.3]]];
        let pairs = vec![effect(1.0), effect(2.0), effect(3.0)];
        let state = State { doc: 0, step: 0, n_masked: 4, revealed, pairs, divergence: None, heads };
        let setting = Setting { task: "t".into(), model: "m".into(), states: vec![state] };
        let by_head = of_states(&[setting]).remove(0);
        let best = by_head.best.unwrap();
        assert_eq!((best.layer, best.head), (1, 0));
        assert!((best.value - 1.0).abs() < 1e-12);
        assert!(by_head.heads[0][0].is_none() && (by_head.heads[0][1].unwrap() + 1.0).abs() < 1e-12);
        // Layer 1's mean is .15, .15, .3 against 1, 2, 3: ranks 1.5, 1.5, 3, so ρ = 1.5 / √(1.5 · 2) = √3 / 2.
        assert!((by_head.means[1].unwrap() - 0.75f64.sqrt()).abs() < 1e-12);
        assert_eq!(by_head.table().rows[0], ["0", "—", "-1.000", "-1.000"]);
        assert!(by_head.best_line().unwrap().contains("head 0 of layer 1"));
    }
}
