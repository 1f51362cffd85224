//! APD, adaptive parallel decoding: an autoregressive model says how much of what the diffusion model proposes may stay.
//!
//! From left to right. The diffusion model proposes the next ≤ M tokens at once; the companion reads them in one forward and says what it
//! expects at each, given those before. The target mixes both,
//!
//! ```text
//! l = R l_diffusion + (1 − R) l_companion
//! ```
//!
//! a token is proposed from it again, with the same noise, and the longest prefix on which draft and target agree is committed; its first
//! token always. R = 1 takes everything, R = 0 only what the companion would have written.
//!
//! A step is a forward of each model, and both count as NFE; a step whose window has one position asks no companion, since that position
//! goes in any case. Against the published code (danielmisrael/apd, a555561): the diffusion model sees the whole canvas instead of the
//! next M positions and a window of caches; noise is the same in both draws, as the paper has it, where the code leaves it out of the
//! second; and nothing ends at the end of text. The last two change nothing at temperature 0 and no score.

use crate::spec::{Entry, Param, Values};
use crate::{Job, Needs, Pick, Picks, Policy, Result, Sampler, Slot, StepView, Verdict};

/// How much the diffusion model counts, how far it looks ahead, and what waits for the companion.
pub(crate) struct Apd {
    ratio: f64,
    window: usize,
    drafts: Vec<Draft>,
}

/// What the diffusion model proposed for a position.
struct Draft {
    pick: Pick,
    before: Vec<f32>, // [vocab]
}

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| {
        let (ratio, window) = (v.param(0), v.count(1));
        Ok(Policy::Commits(Box::new(Apd { ratio, window, drafts: Vec::new() })))
    };
    Entry::new("apd", "left to right, as far as a companion agrees", build)
        .params([Param::number("R", 0.0, 1.0).default(0.7), Param::count("M", 1, u32::MAX.into()).default(100.0)])
        .source("Israel et al. 2025 (APD)")
}

/// R ln p + (1 − R) ln q: the mixture of logits, up to a constant that no softmax sees. A model without weight is not asked; what
/// f32 rounds to 0 is as unlikely as f32 can say, so that two models that exclude each other's tokens still have a target.
fn mixture<'a>(ratio: f64, p: &'a [f32], q: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    let ln = |p: f32| f64::from(p.max(f32::MIN_POSITIVE)).ln();
    let weighted = move |weight: f64, p: f32| if weight > 0.0 { weight * ln(p) } else { 0.0 };
    // A companion may know fewer ids: what it does not know it never writes.
    let q = q.iter().copied().chain(std::iter::repeat(0.0));
    p.iter().zip(q).map(move |(&p, q)| weighted(ratio, p) + weighted(1.0 - ratio, q))
}

impl Sampler for Apd {
    fn needs(&self) -> Needs {
        Needs::default().distributions().companion()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.drafts.clear();
        Ok(2 * job.masks)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if self.drafts.is_empty() {
            let draft = |slot: Slot| Draft {
                pick: Pick::of(view, slot, view.confidence(slot)),
                before: view.distribution(slot).to_vec(),
            };
            self.drafts.extend(view.slots().take(self.window).map(draft)); // slots ascend in position
            if self.drafts.len() > 1 {
                return Ok(Verdict::Consult(self.drafts.iter().map(|d| (d.pick.slot, d.pick.token)).collect()));
            }
        }
        for (at, Draft { pick, before }) in self.drafts.iter().enumerate() {
            if at > 0 {
                let target = mixture(self.ratio, before, view.distribution(pick.slot));
                if view.propose(pick.slot, target)?.token != pick.token {
                    break;
                }
            }
            picks.add(*pick);
        }
        self.drafts.clear();
        Ok(Verdict::Commit)
    }
}

#[cfg(test)]
mod tests {
    use super::mixture;
    use crate::{
        Canvas, Decode, Denoiser, Distributions, Error, Prediction, Proposal, Query, Result, SamplerSpec, Step,
        TokenId, generate,
    };

    /// A model that proposes token 1 everywhere, and a companion that agrees up to a position of the canvas.
    struct Duo {
        agrees_before: usize,
        asked: Vec<(bool, Vec<TokenId>)>,
    }

    const MASK: TokenId = 3;

    impl Duo {
        fn answer(&mut self, query: &Query<'_>) -> Result<Prediction> {
            self.asked.push((query.companion, query.tokens.to_vec()));
            let p = |position: usize| match query.companion {
                false => [0.2, 0.7, 0.1, 0.0],
                true if position < self.agrees_before => [0.1, 0.8, 0.1, 0.0],
                true => [0.9, 0.05, 0.05, 0.0],
            };
            let logits = |at: usize| p(at).map(|p: f32| p.ln());
            let rows = query.rows.iter().map(|&at| query.proposal.propose(&logits(at), MASK, query.step, at));
            let flat = query.rows.iter().flat_map(|&at| p(at)).collect();
            Ok(Prediction::new(rows.collect::<Result<_>>()?).distributions(Distributions::new(4, flat)?))
        }
    }

    impl Denoiser for Duo {
        fn mask_id(&self) -> TokenId {
            MASK
        }
        fn vocab(&self) -> usize {
            4
        }
        fn denoise(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
            assert!(batch.iter().all(|query| !query.companion));
            batch.iter().map(|query| self.answer(query)).collect()
        }
        fn consult(&mut self, batch: &[Query<'_>]) -> Result<Vec<Prediction>> {
            assert!(batch.iter().all(|query| query.companion));
            batch.iter().map(|query| self.answer(query)).collect()
        }
    }

    fn decode(sampler: &str, agrees_before: usize, proposal: Proposal) -> (Vec<Step>, Decode, Duo) {
        let policy = sampler.parse::<SamplerSpec>().unwrap().build().unwrap();
        let mut decode = Decode::builder(Canvas::prompt(&[0], 6, MASK), policy).proposal(proposal).begin().unwrap();
        let mut duo = Duo { agrees_before, asked: Vec::new() };
        let steps = generate(&mut duo, &mut decode).unwrap();
        (steps, decode, duo)
    }

    fn committed(steps: &[Step]) -> Vec<usize> {
        steps.iter().map(|step| step.commits.len()).collect()
    }

    #[test]
    fn what_both_agree_on_stays() {
        // Six masks, 1 to 6; the companion wants token 0 from position 4 on. R = .5: sqrt(.2 .9) = .42 > sqrt(.7 .05) = .19, so there the
        // target is 0. Step 0 keeps 1 to 3; then position 4 is first, goes unasked of whether it agrees, and 5 does not.
        let (steps, decode, duo) = decode("apd:0.5", 4, Proposal::greedy());
        assert_eq!(committed(&steps), [3, 1, 1, 1]);
        // Two forwards a step, but for the last, whose window is one position.
        assert_eq!((decode.nfe(), decode.companion_nfe()), (7, 3));
        assert_eq!(
            steps.iter().map(|step| (step.forwards, step.companion)).collect::<Vec<_>>(),
            [(2, 1), (2, 1), (2, 1), (1, 0)]
        );
        assert_eq!(decode.canvas().tokens(), [0, 1, 1, 1, 1, 1, 1], "what is written is what the model proposed");
        // The companion read the draft; the model never does.
        assert_eq!(duo.asked[0], (false, vec![0, 3, 3, 3, 3, 3, 3]));
        assert_eq!(duo.asked[1], (true, vec![0, 1, 1, 1, 1, 1, 1]));
        assert_eq!(duo.asked[2], (false, vec![0, 1, 1, 1, 3, 3, 3]));
    }

    #[test]
    fn the_ratio_decides_who_is_believed() {
        // R = 1: all at once. R = .9: .7^.9 .05^.1 = .54 > .2^.9 .9^.1 = .23: all at once, too. R = 0: as the companion wants.
        assert_eq!(committed(&decode("apd:1", 0, Proposal::greedy()).0), [6]);
        assert_eq!(committed(&decode("apd:0.9", 0, Proposal::greedy()).0), [6]);
        assert_eq!(committed(&decode("apd:0", 4, Proposal::greedy()).0), [3, 1, 1, 1]);
    }

    #[test]
    fn the_window_limits_what_is_proposed() {
        assert_eq!(committed(&decode("apd:0.5,2", 9, Proposal::greedy()).0), [2, 2, 2]);
        let (steps, decode, duo) = decode("apd:0.5,1", 9, Proposal::greedy());
        assert_eq!((committed(&steps), decode.companion_nfe()), (vec![1; 6], 0), "one position needs no judge");
        assert!(duo.asked.iter().all(|(companion, _)| !companion));
    }

    #[test]
    fn the_same_noise_agrees_with_itself() {
        // R = 1: the target is the model's own distribution, so the second draw is the first one if and only if the noise is the same.
        for seed in 0..20 {
            assert_eq!(committed(&decode("apd:1", 0, Proposal::sampled(1.0, seed)).0), [6], "seed {seed}");
        }
    }

    #[test]
    fn mixtures_are_finite_whatever_is_excluded() {
        let of = |ratio| mixture(ratio, &[1.0, 0.0, 0.0], &[0.0, 1.0]).collect::<Vec<_>>();
        assert!(of(0.5).iter().all(|l| l.is_finite()));
        assert_eq!(of(1.0)[0], 0.0, "no weight, no opinion");
        assert!(of(0.3)[1] > of(0.3)[0] && of(0.7)[0] > of(0.7)[1] && of(0.5)[2] < of(0.5)[0]);
    }

    #[test]
    fn a_model_alone_is_refused_when_it_is_asked() {
        let policy = "apd".parse::<SamplerSpec>().unwrap().build().unwrap();
        let mut toy = crate::toy::Toy::phrases(6);
        let mut decode = Decode::new(Canvas::prompt(&[], 6, toy.mask_id()), policy).unwrap();
        assert!(matches!(generate(&mut toy, &mut decode), Err(Error::NoCompanion)));
    }
}
