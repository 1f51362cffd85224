//! Statistics of a softmax, in one pass over its logits: c, 1 − c, margin and entropy of a row that never exists as a whole.
//!
//! [`Online::see`] is the definition; [`Online::see_all`] is the same for a tile of logits, in loops that vectorise.

use super::by_class::{ByClass, Exponentials};
use crate::{RowStats, TokenId};
use std::ops::Range;

/// Statistics of a softmax, kept up to date as its logits come. Sums are relative to the largest logit so far.
pub(crate) struct Online {
    max: f64,                       // largest logit
    second: f64,                    // second largest
    sum: f64,                       // Σ e^(l − max)
    weighted: f64,                  // Σ (l − max) e^(l − max)
    rest: f64,                      // Σ e^(l − max) without the chosen token: 1 − c without cancellation
    chosen: Option<(TokenId, f64)>, // the best key so far
    chosen_logit: f64,
    target: Option<TokenId>, // a given token, whose probability is asked for
    target_logit: f64,
}

impl Default for Online {
    fn default() -> Self {
        let none = f64::NEG_INFINITY;
        Online {
            max: none,
            second: none,
            sum: 0.0,
            weighted: 0.0,
            rest: 0.0,
            chosen: None,
            chosen_logit: none,
            target: None,
            target_logit: none,
        }
    }
}

impl Online {
    /// Also keeps the logit of this token, whatever is chosen.
    pub(crate) fn aim(&mut self, target: TokenId) {
        self.target = Some(target);
    }

    /// ln p of the target; -inf if it was never seen or has no probability.
    pub(crate) fn target_log_probability(&self) -> f64 {
        // Apart from the difference below, for -inf minus -inf is no number.
        if self.target_logit == f64::NEG_INFINITY {
            return f64::NEG_INFINITY;
        }
        self.target_logit - self.max - self.sum.ln()
    }

    /// `key` decides which token is chosen (the lowest id on a tie), `logit` is what it counts for.
    pub(crate) fn see(&mut self, token: TokenId, key: f64, logit: f64) {
        if logit > self.max {
            self.rescale(logit);
        } else if logit > self.second {
            self.second = logit;
        }
        let e = if logit > f64::NEG_INFINITY { (logit - self.max).exp() } else { 0.0 };
        if self.target == Some(token) {
            self.target_logit = logit;
        }
        self.sum += e;
        if e > 0.0 {
            self.weighted += (logit - self.max) * e; // 0·ln 0 = 0
        }
        let better = key > f64::NEG_INFINITY && self.chosen.is_none_or(|(_, best)| key > best);
        if better {
            self.choose(token, key, logit);
        } else {
            self.rest += e;
        }
    }

    /// Sees the logits of token ids `first..` where each is its own key, except the mask's, which is never chosen. So do classes of
    /// tokens, if there are any, with the same exponentials.
    pub(crate) fn see_all(
        &mut self,
        first: TokenId,
        logits: &[f32],
        mask_id: TokenId,
        mut classes: Option<&mut ByClass<'_>>,
    ) {
        let at = (mask_id as usize).wrapping_sub(first as usize).min(logits.len());
        let (before, rest) = logits.split_at(at);
        self.see_part(first, before, classes.as_deref_mut());
        if let Some((&mask, after)) = rest.split_first() {
            self.see(mask_id, f64::NEG_INFINITY, f64::from(mask));
            classes.as_deref_mut().into_iter().for_each(|classes| classes.see_alone(f64::from(mask)));
            self.see_part(mask_id + 1, after, classes);
        }
    }

    fn see_part(&mut self, first: TokenId, logits: &[f32], classes: Option<&mut ByClass<'_>>) {
        let Some(classes) = classes else { return self.see_tokens(first, logits) };
        for (i, few) in logits.chunks(Exponentials::MOST).enumerate() {
            self.see_with_classes(first + (i * Exponentials::MOST) as TokenId, few, classes);
        }
    }

    /// [`see`](Self::see) for many tokens at once, each its own key.
    fn see_tokens(&mut self, first: TokenId, logits: &[f32]) {
        if let Some(top) = self.raise(first, logits) {
            let max = self.max;
            self.count(first, logits, top, |range| sums(&logits[range], max));
        }
    }

    /// The same with the classes of tokens, from exponentials that are made once.
    fn see_with_classes(&mut self, first: TokenId, logits: &[f32], classes: &mut ByClass<'_>) {
        if let Some(top) = self.raise(first, logits) {
            let tile = Exponentials::of(logits, self.max);
            let sum = self.count(first, logits, top, |range| tile.sums(range));
            classes.see_tokens(first, logits, self.max, &tile, sum);
        }
    }

    /// Looks for the largest of these logits, which sums will be relative to if it is the largest so far. `None` where nothing is possible.
    fn raise(&mut self, first: TokenId, logits: &[f32]) -> Option<f64> {
        let (top, next) = top_two(logits);
        if top == f32::NEG_INFINITY {
            return None;
        }
        if let Some(logit) = self.target.and_then(|target| logits.get(target.checked_sub(first)? as usize)) {
            self.target_logit = f64::from(*logit);
        }
        let (top, next) = (f64::from(top), f64::from(next));
        if top > self.max {
            self.rescale(top);
            self.second = self.second.max(next);
        } else {
            self.second = self.second.max(top);
        }
        Some(top)
    }

    /// Adds these logits up, the largest of which is `top`. Returns Σ e^(l − max) of them.
    fn count(&mut self, first: TokenId, logits: &[f32], top: f64, sums: impl Fn(Range<usize>) -> (f64, f64)) -> f64 {
        if self.chosen.is_none_or(|(_, best)| top > best) {
            // Summed around the chosen one, so that 1 − c does not come from a difference.
            let chosen = logits.iter().position(|&l| f64::from(l) == top).unwrap_or_default();
            let (left, right) = (sums(0..chosen), sums((chosen + 1).min(logits.len())..logits.len()));
            let (sum, weighted, e) = (left.0 + right.0, left.1 + right.1, (top - self.max).exp());
            self.choose(first + chosen as TokenId, top, top);
            self.rest += sum;
            self.sum += sum + e;
            self.weighted += weighted + (top - self.max) * e;
            sum + e
        } else {
            let (sum, weighted) = sums(0..logits.len());
            self.rest += sum;
            self.sum += sum;
            self.weighted += weighted;
            sum
        }
    }

    /// The token that was chosen before joins the rest.
    fn choose(&mut self, token: TokenId, key: f64, logit: f64) {
        if self.chosen_logit > f64::NEG_INFINITY {
            self.rest += (self.chosen_logit - self.max).exp();
        }
        (self.chosen, self.chosen_logit) = (Some((token, key)), logit);
    }

    fn rescale(&mut self, max: f64) {
        if self.max > f64::NEG_INFINITY {
            let shift = self.max - max;
            let factor = shift.exp();
            self.weighted = factor * (self.weighted + shift * self.sum);
            self.sum *= factor;
            self.rest *= factor;
        }
        (self.max, self.second) = (max, self.max);
    }

    pub(crate) fn describe(&self) -> Option<RowStats> {
        let (token, _) = self.chosen?;
        if self.max == f64::NEG_INFINITY {
            // Every token is demoted: nothing is left to be confident of.
            return Some(RowStats { token, confidence: 0.0, uncertainty: 1.0, margin: 0.0, entropy: 0.0 });
        }
        let e = |logit: f64| if logit > f64::NEG_INFINITY { (logit - self.max).exp() } else { 0.0 };
        Some(RowStats {
            token,
            confidence: e(self.chosen_logit) / self.sum,
            uncertainty: self.rest / self.sum,
            margin: (1.0 - e(self.second)) / self.sum,
            entropy: (self.sum.ln() - self.weighted / self.sum).max(0.0),
        })
    }
}

const LANES: usize = 8;

/// Compiles a loop again for wider vectors, and picks the widest that this machine has. Same order, same bits.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident = $any:ident($($arg:ident: $type:ty),*) -> $out:ty) => {
        $(#[$doc])*
        fn $name($($arg: $type),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide($($arg: $type),*) -> $out {
                    $any($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn wider($($arg: $type),*) -> $out {
                    $any($($arg),*)
                }
                if is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the machine has AVX-512.
                    #[allow(unsafe_code)]
                    return unsafe { wider($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has AVX2.
                    #[allow(unsafe_code)]
                    return unsafe { wide($($arg),*) };
                }
            }
            $any($($arg),*)
        }
    };
}

dispatch! {
    /// The largest and the second largest value, counting ties.
    top_two = top_two_any(values: &[f32]) -> (f32, f32)
}
dispatch! {
    /// Σ e^(l − max) and Σ (l − max) e^(l − max), where 0 · ln 0 = 0.
    sums = sums_any(logits: &[f32], max: f64) -> (f64, f64)
}

#[inline(always)]
fn top_two_any(values: &[f32]) -> (f32, f32) {
    let one = |(top, next): (f32, f32), v: f32| {
        let lesser = if v > top { top } else { v };
        (if v > top { v } else { top }, if lesser > next { lesser } else { next })
    };
    let (chunks, tail) = values.as_chunks::<LANES>();
    let (mut top, mut next) = ([f32::NEG_INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for chunk in chunks {
        for i in 0..LANES {
            (top[i], next[i]) = one((top[i], next[i]), chunk[i]);
        }
    }
    let all = top.into_iter().chain(next).chain(tail.iter().copied());
    all.fold((f32::NEG_INFINITY, f32::NEG_INFINITY), one)
}

#[inline(always)]
fn sums_any(logits: &[f32], max: f64) -> (f64, f64) {
    let (chunks, tail) = logits.as_chunks::<LANES>();
    let (mut sum, mut weighted) = ([0.0; LANES], [0.0; LANES]);
    for chunk in chunks {
        for i in 0..LANES {
            // Far below, e^d and d e^d are 0 either way; the bound keeps −∞ out of the product.
            let d = f64::from(chunk[i]) - max;
            let d = if d < LOWEST { LOWEST } else { d };
            let e = exp(d);
            sum[i] += e;
            weighted[i] += d * e;
        }
    }
    let last = tail.iter().map(|&l| (f64::from(l) - max).max(LOWEST)).map(|d| (exp(d), d * exp(d)));
    let lanes = sum.into_iter().zip(weighted).chain(last);
    lanes.fold((0.0, 0.0), |(sum, weighted), (e, d_e)| (sum + e, weighted + d_e))
}

impl Exponentials {
    /// Of at most [`Exponentials::MOST`] logits, the largest of which is `max` at most.
    fn of(logits: &[f32], max: f64) -> Exponentials {
        let mut tile = Exponentials { both: [[0.0; 2]; Exponentials::MOST] };
        for (&l, both) in logits.iter().zip(&mut tile.both) {
            let d = f64::from(l) - max;
            let d = if d < LOWEST { LOWEST } else { d };
            let e = exp(d);
            *both = [e, d * e];
        }
        tile
    }

    /// Σ e^(l − max) and Σ (l − max) e^(l − max) of some of them.
    fn sums(&self, range: Range<usize>) -> (f64, f64) {
        let (chunks, tail) = self.both[range].as_chunks::<LANES>();
        let mut lanes = [[0.0; 2]; LANES];
        for chunk in chunks {
            for i in 0..LANES {
                lanes[i] = [lanes[i][0] + chunk[i][0], lanes[i][1] + chunk[i][1]];
            }
        }
        lanes.iter().chain(tail).fold((0.0, 0.0), |(sum, weighted), both| (sum + both[0], weighted + both[1]))
    }
}

/// Where [`exp`] is 0.
const LOWEST: f64 = -700.0;

/// e^x for x in [−700, 0], to a few units in the last place; 0 at −700. Arithmetic only, so that loops over it vectorise.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // x = n ln 2 + r with |r| ≤ ln 2 / 2. Adding 1.5 · 2⁵² rounds to a whole number and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8; // few bits, so that n · LN_2_HIGH is exact
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    // Taylor: the first term left out is r¹³ / 13! < 2e-16.
    let mut p = INVERSE_FACTORIALS[0];
    for f in &INVERSE_FACTORIALS[1..] {
        p = p * r + f;
    }
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits())); // 2^n
    if x > LOWEST { p * power } else { 0.0 }
}

/// 1/12!, 1/11!, ..., 1/0!
const INVERSE_FACTORIALS: [f64; 13] = {
    let mut inverse = [1.0; 13];
    let (mut factorial, mut k) = (1.0, 1);
    while k <= 12 {
        factorial *= k as f64;
        inverse[12 - k] = 1.0 / factorial;
        k += 1;
    }
    inverse
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exp_is_right_to_the_last_digits() {
        for i in 0..=699_000 {
            let x = -f64::from(i) / 1000.0;
            assert!((exp(x) - x.exp()).abs() <= 1e-15 * x.exp(), "e^{x}: {} is not {}", exp(x), x.exp());
        }
        assert_eq!((exp(0.0), exp(-700.0)), (1.0, 0.0));
    }

    #[test]
    fn ties_count_twice() {
        for n in 2..30 {
            let mut values = vec![-1.0f32; n];
            (values[0], values[n - 1]) = (3.0, 3.0);
            assert_eq!(top_two(&values), (3.0, 3.0));
            values[0] = 2.0;
            assert_eq!(top_two(&values), (3.0, 2.0));
        }
        assert_eq!(top_two(&[]), (f32::NEG_INFINITY, f32::NEG_INFINITY));
    }

    proptest! {
        #[test]
        fn tiles_say_what_tokens_one_by_one_say(
            // Few values, so that there are ties; some impossible tokens; sharp rows, where 1 − c is easily lost.
            logits in proptest::collection::vec(
                prop_oneof![4 => (-40i8..40).prop_map(f32::from), 1 => Just(f32::NEG_INFINITY), 2 => -5.0f32..60.0],
                1..80,
            ),
            mask_id in 0..90u32,
            tile in 1..90usize,
        ) {
            let (mut slow, mut fast) = (Online::default(), Online::default());
            for (token, &logit) in (0..).zip(&logits) {
                let logit = f64::from(logit);
                slow.see(token, if token == mask_id { f64::NEG_INFINITY } else { logit }, logit);
            }
            for (i, tile_logits) in logits.chunks(tile).enumerate() {
                fast.see_all((i * tile) as u32, tile_logits, mask_id, None);
            }
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-13 * a.abs().max(b.abs());
            match (slow.describe(), fast.describe()) {
                (None, None) => {}
                (Some(a), Some(b)) => {
                    prop_assert_eq!(a.token, b.token);
                    for (what, a, b) in [
                        ("confidence", a.confidence, b.confidence),
                        ("uncertainty", a.uncertainty, b.uncertainty),
                        ("margin", a.margin, b.margin),
                    ] {
                        prop_assert!(near(a, b), "{}: {}, {}", what, a, b);
                    }
                    prop_assert!((a.entropy - b.entropy).abs() <= 1e-13 * (1.0 + a.entropy), "{} {}", a.entropy, b.entropy);
                }
                (a, b) => prop_assert!(false, "{:?}, {:?}", a, b),
            }
        }
    }
}
