//! A step from bare numbers: how unit tests and `cofill select` show a sampler one forward pass without a model.

use crate::{
    Attention, Block, Distributions, Error, Job, Needs, Picks, Policy, Proposal, Result, Revision, RowStats, Rows,
    SamplerSpec, Scope, StepView, TokenId, Verdict,
};

/// One step's numbers, owned. Everything but the confidences is optional.
///
/// ```
/// use cofill::{Attention, SamplerSpec, Snapshot};
/// // Position 1 attends to 0, which is unsure: 2 joins 0 and 1 waits.
/// let attention = Attention::from_rows(&[[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])?;
/// let step = Snapshot::new(&[0.78, 0.73, 0.70]).attention(attention);
/// let picks = step.select(&"topk:2+ad:40".parse::<SamplerSpec>()?)?;
/// assert_eq!(picks.positions(), [0, 2]);
/// # Ok::<(), cofill::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    confidence: Vec<f64>,
    tokens: Option<Vec<TokenId>>,
    uncertainty: Option<Vec<f64>>,
    entropy: Option<Vec<f64>>,
    margin: Option<Vec<f64>>,
    attention: Option<Attention>,
    distributions: Option<Distributions>,
    candidates: Option<Vec<usize>>,
    masks_at_start: Option<usize>,
    step: usize,
    seed: u64,
}

impl Snapshot {
    /// A step whose every position is a candidate.
    pub fn new(confidence: &[f64]) -> Snapshot {
        Snapshot { confidence: confidence.to_vec(), ..Snapshot::default() }
    }

    /// The token that each position proposes; 0 unless said.
    pub fn tokens(mut self, tokens: &[TokenId]) -> Snapshot {
        self.tokens = Some(tokens.to_vec());
        self
    }

    /// 1 - c of each position, for those who know it better than the difference does, near c = 1.
    pub fn uncertainty(mut self, uncertainty: &[f64]) -> Snapshot {
        self.uncertainty = Some(uncertainty.to_vec());
        self
    }

    /// H of each position, in nats.
    pub fn entropy(mut self, entropy: &[f64]) -> Snapshot {
        self.entropy = Some(entropy.to_vec());
        self
    }

    /// p(1) - p(2) of each position.
    pub fn margin(mut self, margin: &[f64]) -> Snapshot {
        self.margin = Some(margin.to_vec());
        self
    }

    /// Attention among the positions.
    pub fn attention(mut self, attention: Attention) -> Snapshot {
        self.attention = Some(attention);
        self
    }

    /// Takes the attention out again, whose memory can serve the next step.
    pub fn take_attention(&mut self) -> Option<Attention> {
        self.attention.take()
    }

    /// Whole distributions, one per candidate.
    pub fn distributions(mut self, distributions: Distributions) -> Snapshot {
        self.distributions = Some(distributions);
        self
    }

    /// Only these positions are masked; the others are context (DAWN and DOS look at it).
    pub fn candidates(mut self, candidates: &[usize]) -> Snapshot {
        self.candidates = Some(candidates.to_vec());
        self
    }

    /// |M0|, for samplers that change their mind as decoding goes on (DAPD).
    pub fn masks_at_start(mut self, masks: usize) -> Snapshot {
        self.masks_at_start = Some(masks);
        self
    }

    /// Steps made before this one.
    pub fn step(mut self, step: usize) -> Snapshot {
        self.step = step;
        self
    }

    /// The seed of random rankings.
    pub fn seed(mut self, seed: u64) -> Snapshot {
        self.seed = seed;
        self
    }

    /// What a sampler that sees only this step commits. Refuses samplers that need more than one.
    pub fn select(&self, spec: &SamplerSpec) -> Result<Picks> {
        let mut policy = spec.build()?;
        match policy.needs() {
            needs if needs.history => Err(Error::NeedsDecode { what: "the steps before this one" }),
            needs if needs.reveals => Err(Error::NeedsDecode { what: "further forward passes" }),
            needs if needs.companion => Err(Error::NeedsDecode { what: "a companion's forward passes" }),
            _ => self.ask(&mut policy),
        }
    }

    /// Shows the step to a sampler that lives on, for those that remember. Step 0 starts it anew and must come first.
    pub fn ask(&self, policy: &mut Policy) -> Result<Picks> {
        let needs = policy.needs();
        let missing = |what, lacks: bool| match lacks {
            true => Err(Error::Missing { what }),
            false => Ok(()),
        };
        missing("entropy", needs.entropy && self.entropy.is_none())?;
        missing("margin", needs.margin && self.margin.is_none())?;
        let mut revision = Revision::default();
        if self.step == 0 {
            policy.begin(&self.job()?)?;
        }
        let verdict = self.view(&needs, |view| policy.step(view, &mut revision))?;
        match verdict {
            Verdict::Commit if !revision.remask.is_empty() => {
                Err(Error::NeedsDecode { what: "a canvas it may mask again" })
            }
            Verdict::Commit | Verdict::Wait => Ok(revision.picks),
            Verdict::Reveal(_) => Err(Error::NeedsDecode { what: "further forward passes" }),
            Verdict::Consult(_) => Err(Error::NeedsDecode { what: "a companion's forward passes" }),
        }
    }

    fn job(&self) -> Result<Job> {
        let length = self.confidence.len();
        let masks = self.candidates.as_ref().map_or(length, Vec::len);
        if masks == 0 {
            return Err(Error::NoCandidates);
        }
        if let Some(given) = self.masks_at_start.filter(|&at_start| at_start < masks) {
            let (limit, given) = (format!("{masks} or more, the candidates of this step"), given.to_string());
            return Err(Error::BadSetting { what: "masks_at_start", limit, given });
        }
        let masks = self.masks_at_start.unwrap_or(masks);
        Ok(Job { length, masks, window: 0..length, blocks: 1, seed: self.seed, first_step: 0 })
    }

    /// Runs `f` on the step as a sampler sees it.
    pub fn view<T>(&self, needs: &Needs, f: impl FnOnce(&StepView<'_>) -> Result<T>) -> Result<T> {
        const MASK: TokenId = TokenId::MAX;
        let job = self.job()?;
        let n = self.confidence.len();
        let per_position = |what, field: &Option<Vec<f64>>| match field {
            Some(values) if values.len() != n => {
                Err(Error::Length { what, want: n, got: values.len(), because: "one per confidence" })
            }
            values => Ok(values.clone()),
        };
        let uncertainty = per_position("uncertainty", &self.uncertainty)?;
        let entropy = per_position("entropy", &self.entropy)?;
        let margin = per_position("margin", &self.margin)?;
        if let Some(tokens) = self.tokens.as_ref().filter(|tokens| tokens.len() != n) {
            let (got, because) = (tokens.len(), "one per confidence");
            return Err(Error::Length { what: "tokens", want: n, got, because });
        }
        if let Some(a) = self.attention.as_ref().filter(|a| a.len() != n) {
            return Err(Error::Length { what: "attention", want: n, got: a.len(), because: "one row per confidence" });
        }
        let stats: Vec<RowStats> = (0..n)
            .map(|i| RowStats {
                token: self.tokens.as_ref().map_or(0, |tokens| tokens[i]),
                confidence: self.confidence[i],
                uncertainty: uncertainty.as_ref().map_or(1.0 - self.confidence[i], |u| u[i]),
                margin: margin.as_ref().map_or(0.0, |m| m[i]),
                entropy: entropy.as_ref().map_or(0.0, |h| h[i]),
            })
            .collect();
        let all: Vec<usize> = (0..n).collect();
        let slots = match &self.candidates {
            None => all.clone(),
            Some(slots) => {
                let in_order = slots.windows(2).all(|w| w[0] < w[1]) && slots.iter().all(|&i| i < n);
                if !in_order {
                    return Err(Error::BadCandidates { below: n, given: slots.clone() });
                }
                slots.clone()
            }
        };
        let slot_stats: Vec<RowStats> = slots.iter().map(|&i| stats[i]).collect();
        // Without context the candidates are everybody, and nothing need be copied.
        let restricted = self.candidates.as_ref().and_then(|_| Some(self.attention.as_ref()?.restrict(&slots)));
        let slot_attention = restricted.as_ref().or(self.attention.as_ref());
        let tokens: Vec<TokenId> = all.iter().map(|i| if slots.binary_search(i).is_ok() { MASK } else { 0 }).collect();
        let candidates = Rows { positions: &slots, stats: &slot_stats, attention: slot_attention };
        let wide = match needs.scope {
            Scope::Candidates | Scope::Masked => candidates,
            Scope::Free | Scope::Canvas => Rows { positions: &all, stats: &stats, attention: self.attention.as_ref() },
        };
        let view = StepView {
            candidates,
            wide,
            distributions: self.distributions.as_ref(),
            tokens: &tokens,
            mask_id: MASK,
            job: &job,
            block: Block { index: 0, step: self.step, start: 0, end: n },
            step: self.step,
            revealed: &[],
            proposal: &Proposal::greedy(),
        };
        view.check(needs)?;
        f(&view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_uncertainty_counts_where_confidence_rounds_to_1() {
        // 1 attends to 0 alone. 1 - c_0 is 0, so nothing is taken from 1; if it is .001, 1 loses 40 · 1 · .001 = .04 and falls behind 2.
        let attention = Attention::from_rows(&[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).unwrap();
        let step = Snapshot::new(&[1.0, 0.73, 0.70]).attention(attention);
        let spec: SamplerSpec = "topk:2+ad:40".parse().unwrap();
        assert_eq!(step.select(&spec).unwrap().positions(), [0, 1]);
        let told = step.clone().uncertainty(&[0.001, 0.27, 0.3]);
        assert_eq!(told.select(&spec).unwrap().positions(), [0, 2]);
        let wrong = step.uncertainty(&[0.001]).select(&spec).unwrap_err().to_string();
        assert!(wrong.contains("uncertainty"), "{wrong}");
    }
}
