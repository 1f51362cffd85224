//! Randomness that does not depend on what else is being decoded.
//!
//! Every draw is a pure function of (seed, purpose, step, position): a sequence gets the same noise alone and in
//! any batch, with any number of threads, and after a resume. ChaCha8 is portable, so it is the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a draw is for. Two purposes never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Gumbel noise on a row of logits.
    Token = 1,
    /// The order of a random ranking.
    Order = 2,
    /// A sampler's own coin.
    Coin = 3,
    /// The order of a row of attention, where a control shuffles it.
    Control = 4,
    /// A filling drawn from a language.
    Language = 5,
}

/// An endless stream of uniform numbers in (0, 1).
pub(crate) struct Uniforms(ChaCha8Rng);

impl Uniforms {
    /// The stream of one (seed, purpose, step, position).
    pub(crate) fn new(seed: u64, purpose: Purpose, step: usize, position: usize) -> Uniforms {
        let mut key = [0u8; 32];
        let words = [seed, purpose as u64, step as u64, position as u64];
        for (bytes, word) in key.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Uniforms(ChaCha8Rng::from_seed(key))
    }

    /// A number in the open interval (0, 1): 53 random bits, moved half a step off zero.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard Gumbel noise, -ln(-ln u).
    pub(crate) fn gumbel(&mut self) -> f64 {
        -(-self.uniform().ln()).ln()
    }

    /// An index drawn with probability proportional to `weights`.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.uniform() * weights.iter().sum::<f64>();
        for (i, w) in weights.iter().enumerate() {
            left -= w;
            if left < 0.0 {
                return i;
            }
        }
        weights.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_nothing_but_its_key() {
        let draw = |seed, step, position| Uniforms::new(seed, Purpose::Order, step, position).uniform();
        assert_eq!(draw(7, 3, 5), draw(7, 3, 5));
        let all = [draw(7, 3, 5), draw(8, 3, 5), draw(7, 4, 5), draw(7, 3, 6)];
        for (i, a) in all.iter().enumerate() {
            assert!(*a > 0.0 && *a < 1.0);
            assert!(all[i + 1..].iter().all(|b| a != b), "keys must not share a stream");
        }
    }

    #[test]
    fn draws_of_a_language_share_no_stream_with_tokens() {
        let proposal = crate::Proposal::sampled(1.0, 7);
        let drawn: Vec<f64> = proposal.uniforms(3, 5).take(2).collect();
        let mut token = Uniforms::new(7, Purpose::Token, 3, 5);
        assert!(drawn[0] != drawn[1] && !drawn.contains(&token.uniform()) && !drawn.contains(&token.uniform()));
        assert_eq!(drawn, proposal.uniforms(3, 5).take(2).collect::<Vec<_>>());
    }

    #[test]
    fn the_stream_is_the_same_on_every_machine() {
        // Computed once with rand_chacha 0.10; a change would silently change every seeded result.
        let mut u = Uniforms::new(1, Purpose::Token, 2, 3);
        assert_eq!([u.uniform(), u.uniform()], [0.7851342870539948, 0.7612285586091483]);
    }

    #[test]
    fn uniforms_are_uniform_and_weighted_draws_follow_their_weights() {
        let n = 20_000;
        let mut u = Uniforms::new(1, Purpose::Coin, 0, 0);
        let mean = (0..n).map(|_| u.uniform()).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let hits = (0..n).filter(|_| u.weighted(&[1.0, 3.0]) == 1).count();
        assert!((hits as f64 / n as f64 - 0.75).abs() < 0.01, "{hits}");
    }
}
