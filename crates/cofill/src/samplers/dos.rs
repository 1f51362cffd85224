//! DOS, experimental: attention to what is already revealed counts as support.
//!
//! `score_i = Σ_{j ∉ M} A[i,j]`, final layer. The paper's exact formula, layers and normalisation could not be obtained, so the
//! name in the sampler language says `experimental`.

use crate::{Layers, Needs, Ranking, Scope, Slot, StepView};

/// Ranks by attention to unmasked positions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Support;

impl Ranking for Support {
    fn needs(&self) -> Needs {
        Needs::default().scope(Scope::Canvas).attention(Layers::Last)
    }

    fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
        let rows = view.wide;
        let attention = rows.attention.expect("DOS asks for attention");
        let unmasked: Vec<usize> = (0..attention.len()).filter(|&j| !view.is_masked(rows.positions[j])).collect();
        let support = |slot: Slot| unmasked.iter().map(|&j| attention.get(view.row(slot), j)).sum::<f64>();
        scores.extend(view.slots().map(support));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attention, SamplerSpec, Snapshot};

    #[test]
    fn revealed_context_supports() {
        // 0 and 2 are revealed. 1 attends to them by .1 + .2, 3 by .4 + 0; what 1 and 3 give each other does not count.
        let mut rows = [[0.0; 4]; 4];
        rows[1] = [0.1, 0.2, 0.2, 0.5];
        rows[3] = [0.4, 0.6, 0.0, 0.0];
        let step =
            Snapshot::new(&[1.0, 0.9, 1.0, 0.2]).attention(Attention::from_rows(&rows).unwrap()).candidates(&[1, 3]);
        let select = |sampler: &str| step.select(&sampler.parse::<SamplerSpec>().unwrap()).unwrap();
        let picks = select("topk:2@experimental-dos");
        assert_eq!(picks.positions(), [3, 1]);
        assert!((picks[1].score - 0.3).abs() < 1e-12);
        // With ADAS on top: choosing 3 costs 1, which attends to it, 40·.5·(1−.2).
        let picks = select("topk:2@experimental-dos+ad");
        assert!((picks[1].utility - (0.3 - 16.0)).abs() < 1e-9);
    }
}
