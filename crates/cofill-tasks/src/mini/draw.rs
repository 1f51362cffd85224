//! Seeded random choices for the generators of tasks.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of choices that depends on nothing but its key. ChaCha8 is portable: the corpus is the same on every machine.
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream of one (seed, task, index).
    pub fn new(seed: u64, task: u64, index: u64) -> Draw {
        let mut key = [0u8; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([seed, task, index]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Draw(ChaCha8Rng::from_seed(key))
    }

    /// A number from `low` to `high`, both included.
    pub fn number(&mut self, low: i64, high: i64) -> i64 {
        let n = low.abs_diff(high) + 1;
        // A remainder prefers small numbers by n / 2^64, which is far too little to matter.
        low + (self.0.next_u64() % n) as i64
    }

    /// One of `all`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// Puts them into a random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for i in (1..all.len()).rev() {
            all.swap(i, self.index(i + 1));
        }
    }

    fn index(&mut self, n: usize) -> usize {
        self.number(0, n as i64 - 1) as usize
    }
}
