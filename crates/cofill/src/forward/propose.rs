//! What to write: from a row of logits to a proposed token and the statistics samplers rank by.
//!
//! Temperature 0 proposes the argmax; above 0, seeded Gumbel noise on the logits samples from softmax(logits / T).
//! Under [`Style::Clean`] the statistics always come from the clean, untempered softmax: reading confidence after
//! the temperature makes every position look equally sure, and decoding silently degenerates to left-to-right
//! (DreamLM/Dream#72). The mask id is never proposed: the argmax skips it, while probabilities stay those of the full
//! softmax. Sums are f64: over a large vocabulary, f32 loses tail mass and with it entropy.

use super::by_class::ByClass;
use super::online::Online;
use crate::noise::{Purpose, Uniforms};
use crate::{ClassStats, Error, Result, TokenClasses, TokenId};
use std::ops::Range;

/// What a forward pass says about one position.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RowStats {
    /// The token to write if the position is committed.
    pub token: TokenId,
    /// c: the probability of `token`.
    pub confidence: f64,
    /// 1 - c, summed over the other tokens, so that it survives c close to 1.
    pub uncertainty: f64,
    /// m: the largest probability minus the second largest.
    pub margin: f64,
    /// H, in nats, over the full vocabulary.
    pub entropy: f64,
}

impl RowStats {
    /// A token and its probability c, for denoisers that have no logits; [`Proposal::propose`] computes everything from those.
    /// Uncertainty is 1 - c; margin and entropy are 0 unless they are set.
    pub fn new(token: TokenId, confidence: f64) -> RowStats {
        RowStats { token, confidence, uncertainty: 1.0 - confidence, margin: 0.0, entropy: 0.0 }
    }

    /// The largest probability minus the second largest.
    pub fn margin(mut self, margin: f64) -> RowStats {
        self.margin = margin;
        self
    }

    /// The entropy of the distribution, in nats.
    pub fn entropy(mut self, entropy: f64) -> RowStats {
        self.entropy = entropy;
        self
    }
}

/// How a token is proposed. The same for every position of a request.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Proposal {
    /// 0 proposes the likeliest token; above 0, tokens are sampled.
    pub temperature: f64,
    /// The root of all randomness in a decode.
    pub seed: u64,
    /// Where confidence comes from.
    pub style: Style,
    /// Ids whose logit is -inf before anything else (LLaDA's `logits_eos_inf`).
    pub suppress: Vec<TokenId>,
    /// Ids that may be proposed but count for nothing afterwards: their confidence is 0, and the others'
    /// grows accordingly (LLaDA's `confidence_eos_eot_inf`). What has no confidence goes last, whatever a
    /// sampler ranks by; only those that ask no model for their order (`dus`, `dream@origin`, `p2@random`) keep it.
    pub demote: Vec<TokenId>,
    /// The same at some positions only.
    pub guard: Option<Guard>,
}

/// Where some ids may be proposed but count for nothing: ends of text at the beginning of an answer, so that they come last there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The ids.
    pub tokens: Vec<TokenId>,
    /// The positions.
    pub span: Range<usize>,
}

/// Which distribution the statistics describe.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Style {
    /// The softmax of the logits as they are (LLaDA, Fast-dLLM, the ADAS paper).
    #[default]
    Clean,
    /// The tempered and filtered softmax (Dream's `sample_tokens`). The filters act at temperature 0 too.
    Filtered {
        /// Drop a token when the mass before it already exceeds this.
        top_p: Option<f64>,
        /// Drop tokens below the k-th largest logit.
        top_k: Option<usize>,
    },
}

impl Proposal {
    /// Greedy, with clean statistics: every experiment of the paper.
    pub fn greedy() -> Proposal {
        Proposal::default()
    }

    /// Sampling at a temperature, with a seed.
    pub fn sampled(temperature: f64, seed: u64) -> Proposal {
        Proposal { temperature, seed, ..Proposal::default() }
    }

    /// Which distribution the statistics describe.
    pub fn style(mut self, style: Style) -> Proposal {
        self.style = style;
        self
    }

    /// Ids that are never proposed.
    pub fn suppress(mut self, tokens: Vec<TokenId>) -> Proposal {
        self.suppress = tokens;
        self
    }

    /// Ids that may be proposed, without any confidence.
    pub fn demote(mut self, tokens: Vec<TokenId>) -> Proposal {
        self.demote = tokens;
        self
    }

    /// Ids that may be proposed, without any confidence, at some positions.
    pub fn guard(mut self, guard: Guard) -> Proposal {
        self.guard = Some(guard);
        self
    }

    /// Refuses what cannot be computed with.
    pub fn check(&self) -> Result<()> {
        let bad = |what, limit: &str, given: String| Err(Error::BadSetting { what, limit: String::from(limit), given });
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return bad("temperature", "a finite number, 0 or more", self.temperature.to_string());
        }
        if let Style::Filtered { top_p, top_k } = self.style {
            if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
                return bad("top_p", "above 0 and at most 1", p.to_string());
            }
            if top_k == Some(0) {
                return bad("top_k", "1 or more", "0".into());
            }
        }
        Ok(())
    }

    /// Proposes a token for `position` from its logits and describes their distribution. `logits: [vocab]`
    pub fn propose(&self, logits: &[f32], mask_id: TokenId, step: usize, position: usize) -> Result<RowStats> {
        let mut row = self.row(mask_id, step, position);
        row.push(logits)?;
        row.finish()
    }

    /// The same, for logits that come in tiles: push them in the order of token ids, then finish. Whole rows of a large
    /// vocabulary never have to exist at once.
    pub fn row(&self, mask_id: TokenId, step: usize, position: usize) -> Row<'_> {
        let noise = self.noise_scale() > 0.0;
        Row {
            proposal: self,
            mask_id,
            position,
            guarded: match &self.guard {
                Some(guard) if guard.span.contains(&position) => &guard.tokens,
                _ => &[],
            },
            noise: noise.then(|| Uniforms::new(self.seed, Purpose::Token, step, position)),
            seen: 0,
            whole: Vec::new(),
            stats: Online::default(),
            classes: None,
        }
    }

    /// The Gumbel noise of a position, for whoever computes elsewhere what a [`Row`] computes here: above temperature 0 a token is chosen by
    /// `logit + scale * noise`, where the scale is the temperature, or 1 for logits that were tempered already (`Filtered`). `[vocab]`
    pub fn gumbel(&self, step: usize, position: usize, vocab: usize) -> Vec<f64> {
        let mut uniforms = Uniforms::new(self.seed, Purpose::Token, step, position);
        (0..vocab).map(|_| uniforms.gumbel()).collect()
    }

    /// Uniform numbers in (0, 1) for whoever draws the texts of a language at a position ([`Constraint`](crate::Constraint)); no other draw shares them.
    pub fn uniforms(&self, step: usize, position: usize) -> impl Iterator<Item = f64> + use<> {
        let mut uniforms = Uniforms::new(self.seed, Purpose::Language, step, position);
        std::iter::repeat_with(move || uniforms.uniform())
    }

    /// How strong the Gumbel noise is. Under `Filtered` the logits are tempered already, so their noise has scale 1.
    fn noise_scale(&self) -> f64 {
        match self.style {
            Style::Clean => self.temperature,
            Style::Filtered { .. } if self.temperature > 0.0 => 1.0,
            Style::Filtered { .. } => 0.0,
        }
    }
}

/// One row of logits on its way to a proposal.
pub struct Row<'a> {
    proposal: &'a Proposal,
    mask_id: TokenId,
    position: usize,
    guarded: &'a [TokenId], // demoted here, whatever is elsewhere
    noise: Option<Uniforms>,
    seen: usize,
    whole: Vec<f64>, // only filters need the whole row
    stats: Online,
    classes: Option<ByClass<'a>>,
}

/// Everything that a row was asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RowAnswer {
    /// The proposal, and the statistics samplers rank by.
    pub stats: RowStats,
    /// ln p of the token that the row was aimed at: -inf if it was at none, or at one without a probability.
    pub log_probability: f64,
    /// What the row says of every class; empty if it was not asked. `[classes]`
    pub classes: Vec<ClassStats>,
}

impl<'a> Row<'a> {
    /// Also keeps the probability of this token, whatever is proposed.
    pub fn aim(&mut self, target: TokenId) {
        self.stats.aim(target);
    }

    /// Also keeps the statistics of every class of tokens. Those of tokens that are demoted count here as they are: a text may need an end,
    /// however late it is committed. The mask is in no class.
    pub fn classify(&mut self, classes: &'a TokenClasses) {
        self.classes = Some(ByClass::new(classes, self.proposal.noise_scale()));
    }

    /// The logits of the next token ids.
    pub fn push(&mut self, logits: &[f32]) -> Result<()> {
        let Proposal { style, suppress, demote, .. } = self.proposal;
        let all_count = demote.is_empty() && self.guarded.is_empty();
        let plain = *style == Style::Clean && self.noise.is_none() && suppress.is_empty() && all_count;
        // The common case, for which a tile is a few vectorised passes. Whatever is not finite is found and named below.
        if plain && logits.iter().fold(true, |fine, &l| fine & (l < f32::INFINITY)) {
            self.stats.see_all(self.seen as TokenId, logits, self.mask_id, self.classes.as_mut());
            self.seen += logits.len();
            return Ok(());
        }
        self.push_wide(logits.iter().map(|&l| f64::from(l)))
    }

    /// The same, for logits known exactly.
    pub(crate) fn push_wide(&mut self, logits: impl Iterator<Item = f64>) -> Result<()> {
        for logit in logits {
            if logit.is_nan() || logit == f64::INFINITY {
                return Err(Error::NotFinite { what: "logits", index: self.seen, value: logit });
            }
            let token = self.seen as TokenId;
            self.seen += 1;
            let logit = if self.proposal.suppress.contains(&token) { f64::NEG_INFINITY } else { logit };
            match self.proposal.style {
                Style::Clean => self.see(token, logit),
                Style::Filtered { .. } => self.whole.push(logit),
            }
        }
        Ok(())
    }

    fn see(&mut self, token: TokenId, logit: f64) {
        let noise = self.noise.as_mut().map_or(0.0, |noise| self.proposal.noise_scale() * noise.gumbel());
        let key = if token == self.mask_id { f64::NEG_INFINITY } else { logit + noise };
        if let Some(classes) = &mut self.classes {
            classes.see(token, key, logit);
        }
        let counts = !self.proposal.demote.contains(&token) && !self.guarded.contains(&token);
        self.stats.see(token, key, if counts { logit } else { f64::NEG_INFINITY });
    }

    /// The proposal. Fails when no token but the mask has any probability.
    pub fn finish(self) -> Result<RowStats> {
        Ok(self.answer()?.stats)
    }

    /// The proposal, and whatever else was asked for. Fails when no token but the mask has any probability.
    pub fn answer(mut self) -> Result<RowAnswer> {
        let nothing = Error::NothingToPropose { position: self.position };
        let unfiltered = self.filter();
        let alone = |token| RowStats::new(token, 0.0);
        Ok(RowAnswer {
            stats: self.stats.describe().or(unfiltered.map(alone)).ok_or(nothing)?,
            log_probability: self.stats.target_log_probability(),
            classes: self.classes.as_ref().map_or_else(Vec::new, ByClass::describe),
        })
    }

    /// Sees what filters leave of the whole row, if there are any; returns the best token that there was before.
    fn filter(&mut self) -> Option<TokenId> {
        let Style::Filtered { top_p, top_k } = self.proposal.style else { return None };
        let mut logits = std::mem::take(&mut self.whole);
        // A filter may leave nothing but the mask; then the best of the rest is proposed, with the confidence it has left: none.
        let unfiltered = argmax(logits.iter().copied(), self.mask_id);
        if self.proposal.temperature > 0.0 {
            logits.iter_mut().for_each(|l| *l /= self.proposal.temperature);
        }
        top_p.into_iter().for_each(|p| keep_top_p(&mut logits, p));
        top_k.into_iter().for_each(|k| keep_top_k(&mut logits, k));
        for (token, logit) in (0..).zip(logits) {
            self.see(token, logit);
        }
        unfiltered
    }
}

/// The lowest id with the largest value, the mask excepted.
fn argmax(values: impl Iterator<Item = f64>, mask_id: TokenId) -> Option<TokenId> {
    let mut best: Option<(TokenId, f64)> = None;
    for (v, value) in (0..).zip(values) {
        let better = best.is_none_or(|(_, b)| value > b);
        if v != mask_id && value > f64::NEG_INFINITY && better {
            best = Some((v, value));
        }
    }
    best.map(|(v, _)| v)
}

/// Drops a token when the probability *before* it, largest first, is already above `p`; the first always stays.
fn keep_top_p(logits: &mut [f64], p: f64) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let Some(max) = order.first().map(|&v| logits[v]) else { return };
    let sum: f64 = logits.iter().map(|l| (l - max).exp()).sum();
    let mut before = 0.0;
    for v in order {
        let mass = (logits[v] - max).exp() / sum;
        if before > p {
            logits[v] = f64::NEG_INFINITY;
        }
        before += mass;
    }
}

/// Drops logits strictly below the k-th largest; ties at the boundary stay.
fn keep_top_k(logits: &mut [f64], k: usize) {
    if k >= logits.len() {
        return;
    }
    let mut sorted = logits.to_vec();
    let (_, &mut kth, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    logits.iter_mut().filter(|l| **l < kth).for_each(|l| *l = f64::NEG_INFINITY);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_MASK: TokenId = 99;

    fn logits(p: &[f64]) -> Vec<f32> {
        p.iter().map(|p| p.ln() as f32).collect()
    }

    fn propose(proposal: &Proposal, logits: &[f32]) -> RowStats {
        proposal.propose(logits, NO_MASK, 0, 0).unwrap()
    }

    #[track_caller]
    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 5e-5, "{a} is not {b}");
    }

    #[test]
    fn statistics_of_a_known_distribution() {
        let row = propose(&Proposal::greedy(), &logits(&[0.25, 0.5, 0.125, 0.125]));
        assert_eq!(row.token, 1);
        near(row.confidence, 0.5);
        near(row.uncertainty, 0.5);
        near(row.margin, 0.25);
        near(row.entropy, 1.75 * 2f64.ln()); // 1/2·1 + 1/4·2 + 2·1/8·3 bits
    }

    #[test]
    fn t23_degenerate_rows() {
        // Uniform: c = 1/V, H = ln V, and the tie goes to the lowest id.
        let row = propose(&Proposal::greedy(), &[3.0; 8]);
        assert_eq!(row.token, 0);
        near(row.confidence, 0.125);
        near(row.entropy, 8f64.ln());
        // One-hot, with exact zeros: 0·ln 0 is 0, not NaN.
        let row = propose(&Proposal::greedy(), &[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
        assert_eq!((row.token, row.confidence, row.entropy, row.margin), (1, 1.0, 0.0, 1.0));
        // NaN is an error, never a selection; so is +inf, whose softmax is NaN.
        for bad in [f32::NAN, f32::INFINITY] {
            let row = Proposal::greedy().propose(&[0.0, bad], NO_MASK, 0, 0);
            assert!(matches!(row, Err(Error::NotFinite { what: "logits", index: 1, .. })));
        }
    }

    #[test]
    fn the_mask_is_never_proposed_but_keeps_its_probability() {
        // p(mask) = .6: the proposal is the .3, and its confidence is .3, not the renormalised .75.
        let row = Proposal::greedy().propose(&logits(&[0.1, 0.3, 0.6]), 2, 0, 0).unwrap();
        assert_eq!(row.token, 1);
        near(row.confidence, 0.3);
        near(row.uncertainty, 0.7);
        let only_mask = Proposal::greedy().propose(&[f32::NEG_INFINITY, 1.0], 1, 0, 4);
        assert!(matches!(only_mask, Err(Error::NothingToPropose { position: 4 })));
    }

    #[test]
    fn uncertainty_survives_where_one_minus_c_does_not() {
        // exp(-40) = 4e-18 is lost in 1 - c, which is exactly 0.
        let row = propose(&Proposal::greedy(), &[0.0, -40.0]);
        assert_eq!(1.0 - row.confidence, 0.0);
        assert!(row.uncertainty > 4e-18 && row.uncertainty < 5e-18);
    }

    #[test]
    fn the_log_probability_of_a_given_token_comes_with_the_row() {
        // Of .25, .5, .125 and .125 the third: ln .125, whether the row comes whole, in tiles, or with something suppressed.
        let row = logits(&[0.25, 0.5, 0.125, 0.125]);
        let of = |proposal: &Proposal, target: TokenId, tile: usize| {
            let mut given = proposal.row(1, 0, 0);
            given.aim(target);
            row.chunks(tile).for_each(|tile| given.push(tile).unwrap());
            given.answer().unwrap().log_probability
        };
        for tile in [1, 3, 4] {
            near(of(&Proposal::greedy(), 2, tile), 0.125f64.ln());
            near(of(&Proposal::greedy(), 1, tile), 0.5f64.ln()); // the mask, too: the softmax is the full one
            near(of(&Proposal::greedy().suppress(vec![0]), 2, tile), (0.125f64 / 0.75).ln());
        }
        assert_eq!(of(&Proposal::greedy().suppress(vec![0]), 0, 4), f64::NEG_INFINITY);
        assert_eq!(of(&Proposal::greedy(), 9, 4), f64::NEG_INFINITY, "no such token");
    }

    #[test]
    fn noise_is_what_a_row_adds() {
        let (proposal, flat) = (Proposal::sampled(1.5, 7), [0.0f32; 40]);
        for position in 0..10 {
            let noise = proposal.gumbel(3, position, flat.len());
            let best = (0..flat.len()).max_by(|&a, &b| noise[a].total_cmp(&noise[b])).unwrap();
            assert_eq!(proposal.propose(&flat, NO_MASK, 3, position).unwrap().token as usize, best);
        }
    }

    #[test]
    fn sampling_follows_the_tempered_softmax_and_confidence_stays_clean() {
        // T = 1/2 squares the odds: p ∝ (.6², .4²), so token 0 is drawn with .36/.52 = .6923.
        let row = logits(&[0.6, 0.4]);
        let n = 4000;
        let mut hits = 0;
        for position in 0..n {
            let stats = Proposal::sampled(0.5, 7).propose(&row, NO_MASK, 3, position).unwrap();
            near(stats.confidence, if stats.token == 0 { 0.6 } else { 0.4 });
            near(stats.entropy, -0.6 * 0.6f64.ln() - 0.4 * 0.4f64.ln());
            hits += usize::from(stats.token == 0);
        }
        let share = hits as f64 / n as f64;
        assert!((share - 0.6923).abs() < 0.02, "{share}");
        let again = |seed| Proposal::sampled(2.0, seed).propose(&[0.0; 50], NO_MASK, 1, 1).unwrap().token;
        assert_eq!(again(5), again(5));
        assert!((0..20).any(|seed| again(seed) != again(5)), "the seed must matter");
    }

    #[test]
    fn dream_filters_act_before_confidence_even_at_temperature_0() {
        let filtered = |top_p, top_k| Proposal { style: Style::Filtered { top_p, top_k }, ..Proposal::greedy() };
        // samplers.md 1.4: only the first survives top_p = .95, so c = 1 and H = 0.
        let row = propose(&filtered(Some(0.95), None), &logits(&[0.96, 0.02, 0.01, 0.01]));
        assert_eq!((row.confidence, row.entropy), (1.0, 0.0));
        // The mass before the third is .90 ≤ .95, before the fourth .96: three stay.
        let row = propose(&filtered(Some(0.95), None), &logits(&[0.60, 0.30, 0.06, 0.04]));
        near(row.confidence, 0.625);
        near(row.margin, 0.3125);
        // top_k = 2 with a tie at the boundary keeps three.
        let row = propose(&filtered(None, Some(2)), &[2.0, 1.0, 1.0, 0.0]);
        near(row.confidence, 1.0 / (1.0 + 2.0 * (-1f64).exp()));
        // A row that is all mask after the filter still proposes, with no confidence left.
        let row = filtered(Some(0.9), None).propose(&logits(&[0.02, 0.03, 0.95]), 2, 0, 0).unwrap();
        assert_eq!((row.token, row.confidence, row.uncertainty), (1, 0.0, 1.0));
        // At T > 0 the tempered probability is what counts.
        let tempered = Proposal { temperature: 0.5, ..filtered(None, None) };
        let row = propose(&tempered, &logits(&[0.6, 0.4]));
        near(row.confidence, if row.token == 0 { 0.36 / 0.52 } else { 0.16 / 0.52 });
    }

    #[test]
    fn t20_llada_end_of_text_options() {
        // Vocabulary {EOS, a, b, EoT}.
        let rows = [[2.0, 1.0, 0.0, -1.0], [0.0, 1.0, 0.5, -1.0], [1.0, 1.0, 3.0, 0.0]];
        let check = |proposal: &Proposal, tokens: [TokenId; 3], c: [f64; 3]| {
            for i in 0..3 {
                let row = propose(proposal, &rows[i]);
                assert_eq!(row.token, tokens[i]);
                near(row.confidence, c[i]);
            }
        };
        check(&Proposal::greedy(), [0, 1, 2], [0.6439, 0.474, 0.7573]);
        let demote = Proposal { demote: vec![0, 3], ..Proposal::greedy() };
        check(&demote, [0, 1, 2], [0.0, 0.6225, 0.8808]);
        // `suppress` acts before the argmax: EOS is not proposed at all. 1/(1+e^-1+e^-2) = .6652.
        let suppress = Proposal { suppress: vec![0], ..Proposal::greedy() };
        assert_eq!(propose(&suppress, &rows[0]).token, 1);
        near(propose(&suppress, &rows[0]).confidence, 0.6652);
    }

    #[test]
    fn a_guard_demotes_at_its_positions_alone() {
        let row = [2.0, 1.0, 0.0, -1.0]; // as above: EOS is likeliest
        let proposal = Proposal::greedy().guard(Guard { tokens: vec![0, 3], span: 4..6 });
        for position in 0..9 {
            let said = proposal.propose(&row, NO_MASK, 0, position).unwrap();
            let inside = (4..6).contains(&position);
            let like = if inside { Proposal::greedy().demote(vec![0, 3]) } else { Proposal::greedy() };
            assert_eq!(said, like.propose(&row, NO_MASK, 0, position).unwrap(), "{position}");
            assert_eq!(said.confidence == 0.0, inside, "{position}");
        }
    }

    #[test]
    fn impossible_proposals_are_refused() {
        let check = |p: Proposal, field: &str| match p.check() {
            Err(Error::BadSetting { what, .. }) => assert_eq!(what, field),
            other => panic!("{other:?}"),
        };
        check(Proposal::sampled(-1.0, 0), "temperature");
        check(Proposal::sampled(f64::NAN, 0), "temperature");
        let filtered = |top_p, top_k| Proposal { style: Style::Filtered { top_p, top_k }, ..Proposal::greedy() };
        check(filtered(Some(0.0), None), "top_p");
        check(filtered(Some(f64::NAN), None), "top_p");
        check(filtered(None, Some(0)), "top_k");
        assert!(Proposal::sampled(0.7, 1).check().is_ok());
    }
}
