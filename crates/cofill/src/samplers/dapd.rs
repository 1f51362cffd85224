//! DAPD: an attention edge is a hard conflict; commit an independent set.
//!
//! s_ij = ½(a_ij + a_ji) over masked pairs, divided by its largest entry (the ADAS paper's "masked max-normalised" score).
//! An edge is s_ij > τ. Candidates are scanned by degree x confidence and join unless they have an edge to a member. Once
//! fewer than half of the masks are left, everything above 0.9 goes instead. The published schedule of τ between its two
//! ends could not be recovered; ours is linear in the share of masks already filled: careful early, permissive late.
//!
//! Under blocks, that share counts the masks of the whole canvas, as |M| / |M0| says, while edges, degrees and their largest entry
//! are those among the candidates, the masks of the block. So a decode begins with graphs and ends with confidence, once, and not
//! once in every block: the last blocks never see a graph. (The paper has one block, where both readings are the same.)

use crate::spec::{Entry, Param, Values};
use crate::{Attention, Layers, Needs, Picks, Policy, Result, Sampler, Slot, StepView, Verdict};

/// The edge threshold at the start and at the end of a decode.
pub(crate) struct Dapd {
    tau_min: f64,
    tau_max: f64,
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        v.at_most((0, "TAU_MIN"), (1, "TAU_MAX"))?;
        Ok(Policy::Commits(Box::new(Dapd { tau_min: v.param(0), tau_max: v.param(1) })))
    };
    Entry::new("dapd", "independent set of the attention graph", build)
        .params([Param::number("TAU_MIN", 0.0, 1.0).default(0.01), Param::number("TAU_MAX", 0.0, 1.0).default(0.1)])
        .source("Kim et al. 2026 (DAPD); schedule ours")
}

/// Below this share of masks left, confidence alone decides.
const LATE: f64 = 0.5;
const LATE_CONFIDENCE: f64 = 0.9;

/// s: symmetric, zero on the diagonal, largest entry 1 (or all 0). `[slots x slots]`
fn dependence(a: &Attention) -> Attention {
    let half = |i: usize, j: usize| if i == j { 0.0 } else { 0.5 * (a.get(i, j) + a.get(j, i)) };
    let s = Attention::from_fn(a.len(), half);
    let max = (0..s.len()).flat_map(|j| s.toward(j)).copied().fold(0.0, f64::max);
    if max > 0.0 { Attention::from_fn(s.len(), |i, j| s.get(i, j) / max) } else { s }
}

/// A maximal independent set, in scan order.
fn independent_set(s: &Attention, confidence: impl Fn(usize) -> f64, tau: f64) -> Vec<(usize, f64)> {
    let key = |i: usize| s.toward(i).iter().sum::<f64>() * confidence(i); // degree x confidence
    let mut scan: Vec<(usize, f64)> = (0..s.len()).map(|i| (i, key(i))).collect();
    scan.sort_by(|a, b| b.1.total_cmp(&a.1)); // stable: ties stay in position order
    let mut set: Vec<(usize, f64)> = Vec::new();
    for (i, key) in scan {
        if set.iter().all(|&(j, _)| s.get(i, j) <= tau) {
            set.push((i, key));
        }
    }
    set
}

impl Sampler for Dapd {
    fn needs(&self) -> Needs {
        Needs::default().attention(Layers::LastShare(0.3))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let left = view.tokens.iter().filter(|&&t| t == view.mask_id).count();
        let r = left as f64 / view.job.masks as f64; // |M| / |M0|
        if r < LATE {
            for slot in view.slots().filter(|&slot| view.confidence(slot) > LATE_CONFIDENCE) {
                picks.push(view, slot, view.confidence(slot));
            }
        } else {
            let tau = self.tau_min + (self.tau_max - self.tau_min) * (1.0 - r);
            let s = dependence(view.attention());
            for (i, key) in independent_set(&s, |i| view.confidence(Slot(i)), tau) {
                picks.push(view, Slot(i), key);
            }
        }
        Ok(picks.or_surest(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SamplerSpec, Snapshot};

    const T15: [[f64; 5]; 5] = [
        [0.0, 0.08, 0.02, 0.0, 0.0],
        [0.04, 0.0, 0.06, 0.01, 0.0],
        [0.02, 0.02, 0.0, 0.05, 0.01],
        [0.0, 0.01, 0.03, 0.0, 0.02],
        [0.0, 0.0, 0.01, 0.02, 0.0],
    ];
    const CONFIDENCE: [f64; 5] = [0.9, 0.8, 0.5, 0.7, 0.6];

    #[test]
    fn t15_dependence() {
        // The largest is s01 = (.08 + .04)/2 = .06.
        let s = dependence(&Attention::from_rows(&T15).unwrap());
        let want = [(0, 1, 1.0), (0, 2, 1.0 / 3.0), (1, 2, 2.0 / 3.0), (1, 3, 1.0 / 6.0), (2, 3, 2.0 / 3.0)];
        for (i, j, s_ij) in want.into_iter().chain([(2, 4, 1.0 / 6.0), (3, 4, 1.0 / 3.0), (0, 3, 0.0)]) {
            assert!((s.get(i, j) - s_ij).abs() < 1e-12, "s{i}{j}");
            assert_eq!(s.get(i, j), s.get(j, i));
        }
    }

    #[test]
    fn t15_independent_sets() {
        let s = dependence(&Attention::from_rows(&T15).unwrap());
        let set = |tau| independent_set(&s, |i| CONFIDENCE[i], tau);
        let members = |tau| set(tau).into_iter().map(|(i, _)| i).collect::<Vec<_>>();
        // Keys 1.2, 1.4667, .9167, .8167, .3: the scan is 1, 0, 2, 3, 4.
        assert_eq!(members(1.0), [1, 0, 2, 3, 4], "strictly above 1 is no edge");
        let keys: Vec<f64> = set(1.0).into_iter().map(|(_, key)| key).collect();
        for (key, want) in keys.iter().zip([1.46667, 1.2, 0.91667, 0.81667, 0.3]) {
            assert!((key - want).abs() < 1e-5, "{key} is not {want}");
        }
        assert_eq!(members(0.05), [1, 4]);
        assert_eq!(members(0.2), [1, 3]);
        assert_eq!(members(0.5), [1, 3, 4]);
        assert_eq!(members(0.7), [1, 2, 3, 4]);
    }

    #[test]
    fn t15_no_attention_takes_everything_in_order() {
        let spec: SamplerSpec = "dapd".parse().unwrap();
        let none = Attention::from_fn(3, |_, _| 0.0);
        let picks = Snapshot::new(&[0.1, 0.9, 0.5]).attention(none).select(&spec).unwrap();
        assert_eq!(picks.positions(), [0, 1, 2]);
    }

    #[test]
    fn t15_through_the_sampler() {
        // All masks are left, so τ = τ_min.
        let spec: SamplerSpec = "dapd:0.2,0.9".parse().unwrap();
        let step = Snapshot::new(&CONFIDENCE).attention(Attention::from_rows(&T15).unwrap());
        assert_eq!(step.select(&spec).unwrap().positions(), [1, 3]);
        // 5 of 8 left: τ = .2 + .7·3/8 = .4625.
        assert_eq!(step.masks_at_start(8).select(&spec).unwrap().positions(), [1, 3, 4]);
    }

    #[test]
    fn blocks_share_one_count_of_masks() {
        // Three blocks of four. One of the first block's four masks is left in step 1, but 9 of 12 in all: still the graph. The last block
        // begins with all of its own masks and 4 of 12 in all: from there confidence decides, and none is above .9.
        let steps = crate::toy::decode_toy(crate::toy::Toy::phrases(12), "dapd", Some(4));
        let seen = |step: &crate::Step| (step.candidates, step.n_masked, step.forced);
        assert_eq!((seen(&steps[1]), seen(&steps[4])), ((1, 9, false), (4, 4, true)));
    }

    #[test]
    fn t29_late_stage() {
        let late = |c: &[f64]| {
            // 4 of 9 left: r = .44 < .5.
            let step = Snapshot::new(c).attention(Attention::from_fn(c.len(), |_, _| 0.2)).masks_at_start(9);
            let picks = step.select(&"dapd".parse().unwrap()).unwrap();
            (picks.positions(), picks.forced)
        };
        assert_eq!(late(&[0.95, 0.91, 0.9, 0.5]), (vec![0, 1], false), "strictly above .9");
        assert_eq!(late(&[0.9, 0.8]), (vec![0], true));
    }
}
