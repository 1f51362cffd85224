//! CPython's `random.Random(seed)`, as far as the harness's few-shot draw needs it.
//!
//! Prompts are compared to the byte, so the draw must be CPython's own: the Mersenne Twister seeded through `init_by_array`,
//! numbers below `n` by rejection, and `random.sample` with both of its variants. CPython promises none of this between
//! versions; the goldens were made with 3.11, and the method has not changed since 3.2.

/// A Mersenne Twister (MT19937) in the state in which `random.Random(seed)` leaves it.
#[derive(Debug, Clone)]
pub struct Mt19937 {
    state: [u32; N],
    /// The next word to hand out; `N` when the state must be renewed first.
    at: usize,
}

const N: usize = 624;
const M: usize = 397;

impl Mt19937 {
    /// The generator of `random.Random(seed)`, for any seed from 0 on.
    pub fn seeded(seed: u64) -> Mt19937 {
        // CPython hands over the seed's 32-bit words, lowest first and without leading zeros, but at least one.
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        match high {
            0 => Mt19937::from_words(&[low]),
            _ => Mt19937::from_words(&[low, high]),
        }
    }

    /// `init_by_array` of Matsumoto and Nishimura.
    fn from_words(key: &[u32]) -> Mt19937 {
        let mut state = [0u32; N];
        state[0] = 19_650_218;
        for i in 1..N {
            state[i] = mixed(state[i - 1]).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        let mut i = 1;
        // Position 0 is never mixed, only a copy of the last word while the index goes round.
        let step = |state: &mut [u32; N], i: &mut usize| {
            *i += 1;
            if *i == N {
                state[0] = state[N - 1];
                *i = 1;
            }
        };
        for k in 0..N.max(key.len()) {
            let (j, word) = (k % key.len(), key[k % key.len()]);
            let before = mixed(state[i - 1]).wrapping_mul(1_664_525);
            state[i] = (state[i] ^ before).wrapping_add(word).wrapping_add(j as u32);
            step(&mut state, &mut i);
        }
        for _ in 1..N {
            let before = mixed(state[i - 1]).wrapping_mul(1_566_083_941);
            state[i] = (state[i] ^ before).wrapping_sub(i as u32);
            step(&mut state, &mut i);
        }
        state[0] = 0x8000_0000;
        Mt19937 { state, at: N }
    }

    /// The 624 words of the state, as `getstate()` shows them.
    pub fn state(&self) -> &[u32] {
        &self.state
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.at == N {
            self.renew();
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn renew(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.at = 0;
    }

    /// `getrandbits(k)`, for 1 to 32 bits: the *upper* bits of a word.
    pub fn bits(&mut self, k: u32) -> u32 {
        debug_assert!((1..=32).contains(&k));
        self.next_u32() >> (32 - k)
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

fn mixed(word: u32) -> u32 {
    word ^ (word >> 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected numbers: `random.Random(seed)` of CPython 3.11.

    #[test]
    fn the_words_of_a_small_and_of_a_long_seed() {
        let mut random = Mt19937::seeded(7);
        assert_eq!([(); 4].map(|()| random.next_u32()), [1_390_851_128, 4_071_050_724, 647_892_279, 1_695_753_998]);
        // 2^40 + 5 has two words.
        let mut random = Mt19937::seeded((1 << 40) + 5);
        assert_eq!([(); 3].map(|()| random.next_u32()), [2_166_296_868, 2_220_160_828, 1_153_647_273]);
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
