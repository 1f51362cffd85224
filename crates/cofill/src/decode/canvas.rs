//! The canvas: a prompt, masks, and the tokens that have replaced them.
//!
//! A position is committed once. Only a remasking sampler (P2) may take a token back, and only from a
//! position that was masked at the start.

use crate::{Error, Result};
use std::ops::Range;

/// A token id. The model's vocabulary gives it meaning; this crate never does.
pub type TokenId = u32;

/// A sequence being filled. Masks may stand anywhere, so infilling is not a special case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canvas {
    tokens: Vec<TokenId>, // [length]
    free: Vec<usize>,     // ascending: the positions that were masked at the start, or when they were added
    settled: usize,       // how many of them were filled before the canvas grew, and stay as they are
    mask_id: TokenId,
    n_masked: usize,
}

impl Canvas {
    /// Takes a sequence in which `mask_id` marks what is to be filled.
    pub fn new(tokens: Vec<TokenId>, mask_id: TokenId) -> Canvas {
        let free: Vec<usize> = (0..tokens.len()).filter(|&i| tokens[i] == mask_id).collect();
        let n_masked = free.len();
        Canvas { tokens, free, settled: 0, mask_id, n_masked }
    }

    /// A prompt followed by `length` masks.
    pub fn prompt(prompt: &[TokenId], length: usize, mask_id: TokenId) -> Canvas {
        let mut tokens = prompt.to_vec();
        tokens.resize(prompt.len() + length, mask_id);
        Canvas::new(tokens, mask_id)
    }

    /// The sequence as it stands.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The token that marks a position as open.
    pub fn mask_id(&self) -> TokenId {
        self.mask_id
    }

    /// Positions that were masked at the start, ascending.
    pub fn free(&self) -> &[usize] {
        &self.free
    }

    /// Those of them that were not settled before the canvas grew.
    pub(crate) fn open(&self) -> &[usize] {
        &self.free[self.settled..]
    }

    /// The first position behind everything that was given: where an end of text ends all of it.
    pub fn tail(&self) -> usize {
        let behind = (0..self.tokens.len()).rev().zip(self.free.iter().rev());
        self.tokens.len() - behind.take_while(|(position, free)| position == *free).count()
    }

    /// Adds `n` masks at the end. What was filled before, if all of it was, is from now on as good as given: blocks tile what was added, and
    /// nothing before it can be masked again.
    pub fn append(&mut self, n: usize) {
        if self.n_masked == 0 {
            self.settled = self.free.len();
        }
        self.free.extend(self.tokens.len()..self.tokens.len() + n);
        self.tokens.resize(self.tokens.len() + n, self.mask_id);
        self.n_masked += n;
    }

    /// How many masks are left.
    pub fn n_masked(&self) -> usize {
        self.n_masked
    }

    /// Whether `position` is still open.
    pub fn is_masked(&self, position: usize) -> bool {
        self.tokens.get(position) == Some(&self.mask_id)
    }

    /// Positions that are still masked, ascending.
    pub fn masked(&self) -> impl Iterator<Item = usize> + '_ {
        self.open().iter().copied().filter(|&i| self.is_masked(i))
    }

    /// From the first to the last position that was masked at the start, or when the canvas grew: what blocks tile.
    pub fn window(&self) -> Range<usize> {
        match (self.open().first(), self.open().last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        }
    }

    /// Writes `token` for good.
    pub fn commit(&mut self, position: usize, token: TokenId) -> Result<()> {
        if token == self.mask_id {
            return Err(Error::MaskProposed { position, mask_id: self.mask_id });
        }
        match self.tokens.get(position) {
            None => Err(Error::NotFree { position }),
            Some(&old) if old != self.mask_id => Err(Error::AlreadyCommitted { position, token: old }),
            Some(_) => {
                self.tokens[position] = token;
                self.n_masked -= 1;
                Ok(())
            }
        }
    }

    /// Takes a token back. Reached only through a [`RemaskingSampler`](crate::sampler::RemaskingSampler).
    pub(crate) fn remask(&mut self, position: usize) -> Result<()> {
        if self.open().binary_search(&position).is_err() {
            return Err(Error::NotFree { position });
        }
        if !self.is_masked(position) {
            self.tokens[position] = self.mask_id;
            self.n_masked += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: TokenId = 9;

    #[test]
    fn masks_may_stand_anywhere() {
        let canvas = Canvas::new(vec![1, M, 2, M, 3], M);
        assert_eq!(canvas.free(), [1, 3]);
        assert_eq!(canvas.window(), 1..4);
        assert_eq!(canvas.n_masked(), 2);
        assert_eq!(Canvas::new(vec![1, 2], M).window(), 0..0);
    }

    #[test]
    fn a_position_is_committed_once() {
        let mut canvas = Canvas::prompt(&[1], 2, M);
        canvas.commit(2, 7).unwrap();
        assert_eq!(canvas.tokens(), [1, M, 7]);
        assert_eq!(canvas.n_masked(), 1);
        assert!(matches!(canvas.commit(2, 8), Err(Error::AlreadyCommitted { position: 2, token: 7 })));
        assert!(matches!(canvas.commit(0, 8), Err(Error::AlreadyCommitted { position: 0, .. })));
        assert!(matches!(canvas.commit(3, 8), Err(Error::NotFree { position: 3 })));
        assert!(matches!(canvas.commit(1, M), Err(Error::MaskProposed { position: 1, .. })));
        assert_eq!(canvas.tokens(), [1, M, 7], "a refused commit changes nothing");
    }

    #[test]
    fn a_canvas_grows_and_settles_what_was_filled() {
        let mut canvas = Canvas::prompt(&[1], 2, M);
        assert_eq!(canvas.tail(), 1);
        canvas.commit(1, 5).unwrap();
        canvas.commit(2, 6).unwrap();
        canvas.append(3);
        assert_eq!((canvas.tokens(), canvas.n_masked()), ([1, 5, 6, M, M, M].as_slice(), 3));
        assert_eq!((canvas.free(), canvas.window(), canvas.tail()), ([1, 2, 3, 4, 5].as_slice(), 3..6, 1));
        assert!(matches!(canvas.remask(2), Err(Error::NotFree { position: 2 })));
        canvas.append(1);
        assert_eq!(canvas.window(), 3..7, "what is still masked is not settled");
    }

    #[test]
    fn the_tail_is_behind_everything_that_was_given() {
        assert_eq!(Canvas::new(vec![1, M, 2, M, M], M).tail(), 3);
        assert_eq!(Canvas::new(vec![1, M, 2], M).tail(), 3);
        assert_eq!(Canvas::new(vec![M, M], M).tail(), 0);
        assert_eq!(Canvas::new(vec![], M).tail(), 0);
    }

    #[test]
    fn the_prompt_cannot_be_remasked() {
        let mut canvas = Canvas::prompt(&[1], 1, M);
        canvas.commit(1, 5).unwrap();
        canvas.remask(1).unwrap();
        canvas.remask(1).unwrap();
        assert_eq!(canvas.n_masked(), 1, "remasking a mask changes nothing");
        assert!(matches!(canvas.remask(0), Err(Error::NotFree { position: 0 })));
    }
}
