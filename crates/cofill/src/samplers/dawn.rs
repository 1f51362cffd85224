//! DAWN: let revealed context vouch for its dependants, and keep coupled uncertain positions apart.
//!
//! 1. Sinks (columns that everybody attends to) are ignored.
//! 2. An edge j → i stands where i attends to j by τ_edge or more. So τ_edge is above 0: at 0 no attention at all would be an edge,
//!    every anchor would vouch for everybody, and a column that was emptied as a sink would be one again.
//! 3. High: candidates of confidence ≥ 0.9. Induced: candidates with an edge from an anchor (an unmasked position whose
//!    current prediction is that confident) and confidence ≥ τ_induce. Both are committed.
//! 4. Of the rest above τ_low that have no edge with those, a maximal independent set, surest first.
//!
//! This is the paper's version. The published code differs in ways that overwrite prompt tokens; those are not reproduced.

use crate::spec::{Entry, Param, Values};
use crate::{Attention, Layers, Needs, Picks, Policy, Result, Sampler, Scope, Slot, StepView, Verdict};

/// The sampler, with its four thresholds.
pub(crate) struct Dawn {
    induce: f64,
    sink: f64,
    edge: f64,
    low: f64,
}

/// τ_high: surer candidates are anchors, and are committed.
const HIGH: f64 = 0.9;

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let [induce, sink, edge, low] = std::array::from_fn(|i| v.param(i));
        Ok(Policy::Commits(Box::new(Dawn { induce, sink, edge, low })))
    };
    Entry::new("dawn", "anchors, induced positions and an independent rest", build)
        .params([
            Param::number("INDUCE", 0.0, 1.0).default(0.7),
            Param::number("SINK", 0.0, 1.0).default(0.01),
            Param::positive("EDGE", 1.0).default(0.07),
            Param::number("LOW", 0.0, 1.0).default(0.75),
        ])
        .source("Luo et al. 2026 (DAWN), paper version")
}

/// The dependency graph over the whole canvas.
struct Graph<'a> {
    attention: &'a Attention,
    sinks: Vec<bool>, // [row]
    edge: f64,
}

impl Graph<'_> {
    /// i attends to j strongly enough, and not because everybody does.
    fn depends(&self, i: usize, j: usize) -> bool {
        i != j && !self.sinks[j] && self.attention.get(i, j) >= self.edge
    }

    fn conflict(&self, i: usize, j: usize) -> bool {
        self.depends(i, j) || self.depends(j, i)
    }
}

impl Sampler for Dawn {
    fn needs(&self) -> Needs {
        Needs::default().scope(Scope::Canvas).attention(Layers::LastN(4))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let rows = view.wide;
        let attention = rows.attention.expect("DAWN asks for attention");
        let n = attention.len();
        let mean = |j: usize| attention.toward(j).iter().sum::<f64>() / n as f64;
        let sinks = (0..n).map(|j| mean(j) > self.sink).collect();
        let graph = Graph { attention, sinks, edge: self.edge };

        let anchors: Vec<usize> = (0..n)
            .filter(|&j| !view.is_masked(rows.positions[j]) && rows.positions[j] < view.block.end)
            .filter(|&j| rows.stats[j].confidence >= HIGH)
            .collect();
        for slot in view.slots() {
            let c = view.confidence(slot);
            let induced = || anchors.iter().any(|&j| graph.depends(view.row(slot), j));
            if c >= HIGH || (c >= self.induce && induced()) {
                picks.push(view, slot, c);
            }
        }

        let mut rest: Vec<Slot> =
            view.slots().filter(|&slot| view.confidence(slot) >= self.low && !picks.contains(slot)).collect();
        rest.sort_by(|&a, &b| view.confidence(b).total_cmp(&view.confidence(a))); // stable: ties by position
        for slot in rest {
            let conflicts = |chosen: Slot| graph.conflict(view.row(slot), view.row(chosen));
            if !picks.iter().any(|pick| conflicts(pick.slot)) {
                picks.push(view, slot, view.confidence(slot));
            }
        }
        Ok(picks.or_surest(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SamplerSpec, Snapshot};

    const CONFIDENCE: [f64; 6] = [0.99, 0.95, 0.72, 0.85, 0.80, 0.60];

    /// T16: position 0 is unmasked; everything off the diagonal is .02 but for what is named.
    #[track_caller]
    fn check(sampler: &str, changes: &[(usize, usize, f64)], c: [f64; 6], want: &[usize]) {
        let diagonal = [0.5, 0.3, 0.4, 0.6, 0.6, 0.9];
        let named = [(1, 0, 0.05), (2, 0, 0.20), (3, 0, 0.01), (4, 0, 0.01), (3, 4, 0.15), (4, 3, 0.10)];
        let attention = Attention::from_fn(6, |q, k| {
            let entry = changes.iter().chain(&named).find(|e| (e.0, e.1) == (q, k));
            if q == k { diagonal[q] } else { entry.map_or(0.02, |e| e.2) }
        });
        let step = Snapshot::new(&c).attention(attention).candidates(&[1, 2, 3, 4, 5]);
        let mut got = step.select(&sampler.parse::<SamplerSpec>().unwrap()).unwrap().positions();
        got.sort_unstable();
        assert_eq!(got, want);
    }

    #[test]
    fn t16() {
        // No column mean exceeds 1, so there are no sinks. High {1}; 0 vouches for 2; of 3 and 4, which conflict, 3 is surer.
        check("dawn:0.7,1,0.07,0.75", &[], CONFIDENCE, &[1, 2, 3]);
        check("dawn:0.7,1,0.07,0.75", &[(2, 0, 0.05)], CONFIDENCE, &[1, 3]);
        check("dawn:0.7,1,0.07,0.75", &[(3, 4, 0.02), (4, 3, 0.02)], CONFIDENCE, &[1, 2, 3, 4]);
        // Column means .132, .067, .083, .13, .138, .167: 0, 3, 4 and 5 are sinks. 0 vouches for nobody, 3 and 4 do not conflict.
        check("dawn:0.7,0.12,0.07,0.75", &[], CONFIDENCE, &[1, 3, 4]);
        check("dawn:0.7,1,0.07,0.75", &[], [0.99, 0.3, 0.4, 0.35, 0.2, 0.1], &[2]);
    }

    #[test]
    fn an_edge_needs_some_attention() {
        let refused = "dawn:0.7,1,0,0.75".parse::<SamplerSpec>().unwrap_err().to_string();
        for says in ["EDGE must be a number above 0, at most 1", "0 was given", "dawn[:INDUCE[,SINK[,EDGE[,LOW]]]]"] {
            assert!(refused.contains(says), "`{refused}` does not say `{says}`");
        }
        assert!("dawn:0.7,1,-0,0.75".parse::<SamplerSpec>().is_err(), "-0 is 0");
        // With the least there is, whoever does not attend has no edge: 3 and 4 go together.
        let apart: Vec<_> = (0..6).flat_map(|q| (0..6).map(move |k| (q, k, 0.0))).collect();
        check("dawn:0.7,1,1e-300,0.75", &apart, CONFIDENCE, &[1, 3, 4]);
    }
}
