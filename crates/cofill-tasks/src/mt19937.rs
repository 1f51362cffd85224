//! CPython's `random.Random(seed)`, as far as the harness's few-shot draw needs it.
//!
//! Prompts are compared to the byte, so the draw must be CPython's own: the Mersenne Twister seeded through `init_by_array`,
//! numbers below `n` by rejection, and `random.sample` with both of its variants. The twister itself is the crate `rand_mt`; what
//! CPython makes of its words is here. CPython promises none of this between versions; the goldens were made with 3.11, and the
//! method has not changed since 3.2.

use rand_mt::Mt;

/// The generator of `random.Random(seed)`.
#[derive(Debug, Clone)]
pub struct Mt19937(Mt);

impl Mt19937 {
    /// The generator of `random.Random(seed)`, for any seed from 0 on.
    pub fn seeded(seed: u64) -> Mt19937 {
        // CPython hands over the seed's 32-bit words, lowest first and without leading zeros, but at least one.
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Mt19937(match high {
            0 => Mt::new_with_key([low]),
            _ => Mt::new_with_key([low, high]),
        })
    }

    /// `getrandbits(k)`, for 1 to 32 bits: the *upper* bits of a word.
    pub fn bits(&mut self, k: u32) -> u32 {
        debug_assert!((1..=32).contains(&k));
        self.0.next_u32() >> (32 - k)
    }

    /// A number below `n`, which is at least 1: draws as many bits as `n` has until they are few enough.
    pub fn below(&mut self, n: u32) -> u32 {
        let k = u32::BITS - n.leading_zeros();
        loop {
            let drawn = self.bits(k);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// `sample(range(n), k)`: `k` different numbers below `n` in the order they were drawn; `None` when there are too few.
    pub fn sample(&mut self, n: u32, k: u32) -> Option<Vec<u32>> {
        if k > n {
            return None;
        }
        // CPython asks whether a list of the population is smaller than a set of the chosen ones: 21 is the size of an empty
        // set less that of an empty list, and a set of more than 5 grows by powers of 4.
        let table =
            |k: u32| std::iter::successors(Some(1), |size| Some(size * 4)).find(|size| *size >= 3 * u64::from(k));
        let set_size = 21 + if k > 5 { table(k).unwrap_or_default() } else { 0 };
        let mut chosen = Vec::with_capacity(k as usize);
        if u64::from(n) <= set_size {
            let mut pool: Vec<u32> = (0..n).collect();
            for left in (n - k + 1..=n).rev() {
                let at = self.below(left) as usize;
                chosen.push(pool[at]);
                pool[at] = pool[left as usize - 1];
            }
        } else {
            while chosen.len() < k as usize {
                let drawn = self.below(n);
                if !chosen.contains(&drawn) {
                    chosen.push(drawn);
                }
            }
        }
        Some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected numbers: `random.Random(seed)` of CPython 3.11.

    #[test]
    fn the_words_of_a_small_and_of_a_long_seed() {
        let mut random = Mt19937::seeded(7);
        assert_eq!([(); 4].map(|()| random.bits(32)), [1_390_851_128, 4_071_050_724, 647_892_279, 1_695_753_998]);
        // 2^40 + 5 has two words.
        let mut random = Mt19937::seeded((1 << 40) + 5);
        assert_eq!([(); 3].map(|()| random.bits(32)), [2_166_296_868, 2_220_160_828, 1_153_647_273]);
        assert_eq!(random.sample(200, 6), Some(vec![169, 7, 135, 194, 11, 42]));
    }

    #[test]
    fn samples_of_many_and_of_few() {
        assert_eq!(Mt19937::seeded(7).sample(1000, 6), Some(vec![331, 970, 154, 404, 666, 49]));
        assert_eq!(Mt19937::seeded(7).sample(10, 4), Some(vec![5, 2, 6, 9]));
    }

    #[test]
    fn nothing_of_nothing_everything_and_too_much() {
        let mut random = Mt19937::seeded(1);
        assert_eq!(random.sample(0, 0), Some(vec![]));
        assert_eq!(random.sample(3, 4), None);
        let mut all = random.sample(30, 30).unwrap();
        all.sort_unstable();
        assert_eq!(all, (0..30).collect::<Vec<_>>());
    }
}
