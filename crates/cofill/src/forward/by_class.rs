//! Statistics of every class of tokens, beside those of the row they are in.
//!
//! [`ByClass::see`] is the definition; [`ByClass::see_tokens`] is the same for a tile, from exponentials that the row's own statistics
//! need anyway. It goes class by class through lists of their tokens: token by token, nearly every sum would wait for the one before, since
//! most of a vocabulary is one class.

use crate::{ClassStats, TokenClasses, TokenId};

/// What is known of the classes of a row so far. Sums are relative to the largest logit.
pub(crate) struct ByClass<'a> {
    classes: &'a TokenClasses,
    temperature: f64, // of draws within a class; 0 is the likeliest
    max: f64,
    total: f64,      // Σ e^(l − max) of the whole row, the mask and tokens of no class included
    seen: Vec<Seen>, // [classes]
}

#[derive(Clone, Copy)]
struct Seen {
    sum: f64,      // Σ e^(l − max)
    weighted: f64, // Σ (l − max) e^(l − max)
    tempered: f64, // Σ e^((l − max) / T)
    token: TokenId,
    key: f64, // the best so far
    logit: f64,
    next: usize, // the first of its tokens that tiles have not brought yet
}

/// e^(l − max) and (l − max) e^(l − max) of a few tokens, side by side.
pub(crate) struct Exponentials {
    pub(crate) both: [[f64; 2]; Exponentials::MOST],
}

impl Exponentials {
    /// As many as stay in a core's nearest memory while classes pick theirs.
    pub(crate) const MOST: usize = 2048;
}

impl<'a> ByClass<'a> {
    pub(crate) fn new(classes: &'a TokenClasses, temperature: f64) -> ByClass<'a> {
        let none = f64::NEG_INFINITY;
        let unseen = Seen { sum: 0.0, weighted: 0.0, tempered: 0.0, token: 0, key: none, logit: none, next: 0 };
        ByClass { classes, temperature, max: none, total: 0.0, seen: vec![unseen; classes.len()] }
    }

    /// `key` decides which token of a class is chosen (the lowest id on a tie); one without a key counts for the row alone.
    pub(crate) fn see(&mut self, token: TokenId, key: f64, logit: f64) {
        if logit == f64::NEG_INFINITY {
            return;
        }
        self.rescale(logit);
        let d = logit - self.max;
        let e = d.exp();
        self.total += e;
        let Some(class) = self.classes.of(token).filter(|_| key > f64::NEG_INFINITY) else { return };
        let seen = &mut self.seen[class];
        seen.sum += e;
        seen.weighted += d * e;
        if self.temperature > 0.0 {
            seen.tempered += (d / self.temperature).exp();
        }
        if key > seen.key {
            (seen.token, seen.key, seen.logit) = (token, key, logit);
        }
    }

    /// A token that counts for the row, and that no class may choose: the mask.
    pub(crate) fn see_alone(&mut self, logit: f64) {
        if logit > f64::NEG_INFINITY {
            self.rescale(logit);
            self.total += (logit - self.max).exp();
        }
    }

    /// [`see`](Self::see) for token ids `first..`, each its own key, at temperature 0. Tiles come in the order of ids.
    pub(crate) fn see_tokens(&mut self, first: TokenId, logits: &[f32], max: f64, tile: &Exponentials, sum: f64) {
        self.rescale(max);
        self.total += sum;
        let end = first as usize + logits.len();
        for (class, seen) in self.seen.iter_mut().enumerate() {
            let tokens = self.classes.tokens(class);
            let mut next = seen.next;
            while tokens.get(next).is_some_and(|&token| token < first) {
                next += 1; // the mask, which comes between tiles
            }
            let mut sums = [[0.0; 2]; LANES];
            let mut see = |lane: usize, token: TokenId| {
                let at = (token - first) as usize;
                let both = tile.both[at];
                sums[lane] = [sums[lane][0] + both[0], sums[lane][1] + both[1]];
                let logit = f64::from(logits[at]);
                if logit > seen.key {
                    (seen.token, seen.key, seen.logit) = (token, logit, logit);
                }
            };
            while let Some(few) = tokens[next..].first_chunk::<LANES>()
                && (few[LANES - 1] as usize) < end
            {
                few.iter().enumerate().for_each(|(lane, &token)| see(lane, token));
                next += LANES;
            }
            while let Some(&token) = tokens.get(next).filter(|&&token| (token as usize) < end) {
                see(0, token);
                next += 1;
            }
            seen.next = next;
            seen.sum += sums.iter().map(|both| both[0]).sum::<f64>();
            seen.weighted += sums.iter().map(|both| both[1]).sum::<f64>();
        }
    }

    /// Makes sums relative to `max`, if that is the largest so far.
    fn rescale(&mut self, max: f64) {
        if max <= self.max {
            return;
        }
        if self.max > f64::NEG_INFINITY {
            let shift = self.max - max;
            let factor = shift.exp();
            let tempered = if self.temperature > 0.0 { (shift / self.temperature).exp() } else { 0.0 };
            self.total *= factor;
            for seen in &mut self.seen {
                seen.weighted = factor * (seen.weighted + shift * seen.sum);
                seen.sum *= factor;
                seen.tempered *= tempered;
            }
        }
        self.max = max;
    }

    /// Every class of the row.
    pub(crate) fn describe(&self) -> Vec<ClassStats> {
        let ln_total = self.total.ln();
        let describe = |seen: &Seen| {
            if seen.key == f64::NEG_INFINITY {
                return ClassStats::none();
            }
            let d = seen.logit - self.max;
            let log_probability = d - ln_total;
            // So improbable that its sum is 0: the token stands for its class.
            let (log_mass, entropy) = match seen.sum > 0.0 {
                true => (seen.sum.ln() - ln_total, (seen.sum.ln() - seen.weighted / seen.sum).max(0.0)),
                false => (log_probability, 0.0),
            };
            let log_tempered_mass = match self.temperature > 0.0 {
                true if seen.tempered > 0.0 => seen.tempered.ln(),
                true => d / self.temperature,
                false => log_mass,
            };
            ClassStats { token: seen.token, log_probability, log_mass, log_tempered_mass, entropy }
        };
        self.seen.iter().map(describe).collect()
    }
}

const LANES: usize = 4;

#[cfg(test)]
mod tests {
    use crate::{ClassStats, Proposal, Style, TokenClasses, TokenId};
    use proptest::prelude::*;

    /// Every class by its definition, from the whole row.
    fn plainly(logits: &[f32], classes: &TokenClasses, mask: TokenId, proposal: &Proposal) -> Vec<ClassStats> {
        let allowed = |token: TokenId| !proposal.suppress.contains(&token);
        let logit = |token: usize| if allowed(token as TokenId) { f64::from(logits[token]) } else { f64::NEG_INFINITY };
        let all: Vec<f64> = (0..logits.len()).map(logit).collect();
        let max = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = all.iter().map(|l| (l - max).exp()).sum();
        let noise = proposal.gumbel(3, 5, logits.len());
        let t = proposal.temperature;
        let of = |class: usize| {
            let is_of = |token: &usize| {
                classes.of(*token as TokenId) == Some(class)
                    && *token != mask as usize
                    && all[*token] > f64::NEG_INFINITY
            };
            let members: Vec<usize> = (0..logits.len()).filter(is_of).collect();
            if members.is_empty() {
                return ClassStats::none();
            }
            let key = |token: usize| all[token] + t * noise[token];
            let token = members.iter().copied().reduce(|a, b| if key(b) > key(a) { b } else { a }).unwrap();
            let mass: f64 = members.iter().map(|&token| (all[token] - max).exp()).sum();
            let p = |token: usize| (all[token] - max).exp() / mass;
            let tempered: f64 = members.iter().map(|&token| ((all[token] - max) / t).exp()).sum();
            ClassStats {
                token: token as TokenId,
                log_probability: all[token] - max - total.ln(),
                log_mass: (mass / total).ln(),
                log_tempered_mass: if t > 0.0 { tempered.ln() } else { (mass / total).ln() },
                entropy: -members.iter().map(|&token| p(token) * p(token).max(1e-300).ln()).sum::<f64>(),
            }
        };
        (0..classes.len()).map(of).collect()
    }

    fn in_tiles(
        logits: &[f32],
        classes: &TokenClasses,
        mask: TokenId,
        proposal: &Proposal,
        tile: usize,
    ) -> Vec<ClassStats> {
        let mut row = proposal.row(mask, 3, 5);
        row.classify(classes);
        logits.chunks(tile).for_each(|tile| row.push(tile).unwrap());
        row.answer().map(|answer| answer.classes).unwrap_or_default()
    }

    fn near(a: f64, b: f64) -> bool {
        a == b || (a - b).abs() <= 1e-11 * (1.0 + a.abs().max(b.abs()))
    }

    proptest! {
        #[test]
        fn tiles_say_of_classes_what_the_whole_row_says(
            row in proptest::collection::vec(
                (prop_oneof![4 => (-40i8..40).prop_map(f32::from), 1 => Just(f32::NEG_INFINITY), 2 => -5.0f32..60.0],
                 prop_oneof![6 => 0u32..4, 1 => Just(TokenClasses::NONE)]),
                2..90,
            ),
            mask in 0u32..100,
            tile in 1usize..100,
            temperature in prop_oneof![Just(0.0), Just(0.5), Just(1.0)],
            suppress in proptest::collection::vec(0u32..90, 0..3),
            demote in proptest::collection::vec(0u32..90, 0..3),
        ) {
            let (logits, of): (Vec<f32>, Vec<u32>) = row.into_iter().unzip();
            let classes = TokenClasses::new(of);
            let proposal = Proposal::sampled(temperature, 7).suppress(suppress).demote(demote);
            let got = in_tiles(&logits, &classes, mask, &proposal, tile);
            if got.is_empty() {
                return Ok(()); // nothing but the mask has a probability, or there is no class
            }
            for (a, b) in got.iter().zip(plainly(&logits, &classes, mask, &proposal)) {
                prop_assert_eq!(a.token, b.token);
                prop_assert!(near(a.log_probability, b.log_probability), "{a:?} {b:?}");
                prop_assert!(near(a.log_mass, b.log_mass), "{a:?} {b:?}");
                // A constant of the row may stand between them.
                prop_assert!(near(a.log_tempered_mass, b.log_tempered_mass), "{a:?} {b:?}");
                prop_assert!((a.entropy - b.entropy).abs() < 1e-9, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn classes_see_what_filters_leave() {
        // .6, .3, .06, .04: top_k = 2 leaves 2/3 and 1/3. Class 0 has .6 and .06, class 1 the .3, class 2 nothing that is left.
        let logits = [0.6f32, 0.3, 0.06, 0.04].map(f32::ln);
        let classes = TokenClasses::new(vec![0, 1, 0, 2]);
        let proposal = Proposal::greedy().style(Style::Filtered { top_p: None, top_k: Some(2) });
        let got = in_tiles(&logits, &classes, 99, &proposal, 3);
        assert!((got[0].log_mass.exp() - 2.0 / 3.0).abs() < 1e-6 && (got[1].log_mass.exp() - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!((got[0].token, got[0].entropy, got[2]), (0, 0.0, ClassStats::none()));
    }

    #[test]
    fn rows_say_the_same_with_classes_as_without() {
        let logits: Vec<f32> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) % 1000) as f32 / 50.0).collect();
        let classes = TokenClasses::new((0..5000).map(|i| i % 7).collect());
        let of = |classes: Option<&TokenClasses>| {
            let proposal = Proposal::greedy();
            let mut row = proposal.row(17, 0, 0);
            classes.into_iter().for_each(|classes| row.classify(classes));
            logits.chunks(1024).for_each(|tile| row.push(tile).unwrap());
            row.answer().unwrap().stats
        };
        let (with, without) = (of(Some(&classes)), of(None));
        assert_eq!(with.token, without.token);
        for (a, b) in [
            (with.confidence, without.confidence),
            (with.uncertainty, without.uncertainty),
            (with.margin, without.margin),
            (with.entropy, without.entropy),
        ] {
            assert!(near(a, b), "{a} {b}");
        }
    }
}
