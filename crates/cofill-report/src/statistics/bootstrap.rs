//! The bootstrap: how much a statistic would move if the data were drawn again.
//!
//! A resample is n indices drawn with replacement; a statistic of it is a replicate; the central 95 % of sorted replicates are the
//! percentile interval. What an index stands for is the caller's: an operating point, an example, a state. Values that belong together
//! (both samplers' scores of one example) stay together because they share an index, and that is all "paired" means.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// How often to resample, and from which seed. Same settings, same data, same replicates, on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bootstrap {
    /// Resamples; the paper takes 10,000.
    pub resamples: usize,
    /// The root of the draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Bootstrap {
        Bootstrap { resamples: 10_000, seed: 0 }
    }
}

impl Bootstrap {
    /// The replicates of `statistic`, which sees n indices below n. A statistic that a resample leaves undefined (NaN: a correlation
    /// of constants) has no replicate there.
    ///
    /// ```
    /// use cofill_report::statistics::bootstrap::Bootstrap;
    /// let gains = [1.0, 2.0, 6.0];
    /// let mean = |drawn: &[usize]| drawn.iter().map(|&i| gains[i]).sum::<f64>() / drawn.len() as f64;
    /// let interval = Bootstrap::default().replicates(gains.len(), mean).interval(0.95).expect("there are replicates");
    /// assert!(1.0 <= interval.low && interval.low < 3.0 && 3.0 < interval.high && interval.high <= 6.0);
    /// ```
    pub fn replicates(&self, n: usize, mut statistic: impl FnMut(&[usize]) -> f64) -> Replicates {
        if n == 0 {
            return Replicates { sorted: Vec::new(), undefined: self.resamples };
        }
        let mut values = Vec::with_capacity(self.resamples);
        self.resample(n, |drawn| values.push(statistic(drawn)));
        Replicates::of(values)
    }

    /// Shows every resample, n indices below n, to `visit`: for whoever has several statistics of the same draws.
    pub fn resample(&self, n: usize, mut visit: impl FnMut(&[usize])) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut drawn = vec![0; n];
        for _ in 0..self.resamples {
            drawn.fill_with(|| index(random.next_u64(), n));
            visit(&drawn);
        }
    }

    /// The mean of `values` and its central 95 % interval; without values there is neither.
    pub fn mean(&self, values: &[f64]) -> Option<Estimate> {
        let mean_of = |drawn: &[usize]| drawn.iter().map(|&i| values[i]).sum::<f64>() / drawn.len() as f64;
        let interval = self.replicates(values.len(), mean_of).interval(LEVEL)?;
        Some(Estimate { value: values.iter().sum::<f64>() / values.len() as f64, interval })
    }
}

/// The share of replicates inside an interval.
pub const LEVEL: f64 = 0.95;

/// A number below n from 64 random bits: their share of 2^64, scaled. Its bias is below n / 2^64.
fn index(bits: u64, n: usize) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}

/// The replicates of a statistic, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Replicates {
    sorted: Vec<f64>,
    /// Resamples on which the statistic has no value.
    pub undefined: usize,
}

impl Replicates {
    /// A statistic's values, in any order; NaN where it has none.
    pub fn of(mut values: Vec<f64>) -> Replicates {
        let resamples = values.len();
        values.retain(|replicate| !replicate.is_nan());
        values.sort_by(f64::total_cmp);
        Replicates { undefined: resamples - values.len(), sorted: values }
    }

    /// All of them, the lowest first.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The `q`-quantile, between two replicates by linear interpolation (as NumPy's `percentile` has it).
    pub fn quantile(&self, q: f64) -> Option<f64> {
        quantile(&self.sorted, q)
    }

    /// The central `level` of the replicates: the percentile interval.
    pub fn interval(&self, level: f64) -> Option<Interval> {
        let tail = (1.0 - level) / 2.0;
        Some(Interval { low: self.quantile(tail)?, high: self.quantile(1.0 - tail)? })
    }
}

/// The `q`-quantile of sorted values by linear interpolation; none of no values. For box plots, too.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, share) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + share * (sorted[above] - sorted[below]))
}

/// From low to high.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// A value and the interval around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Of the data as they are.
    pub value: f64,
    /// Of the data drawn again.
    pub interval: Interval,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_known_numbers() {
        // Of 0, 1, 2, 10: the median is halfway between 1 and 2, and .9 · 3 = 2.7 is .7 of the way from 2 to 10.
        let sorted = [0.0, 1.0, 2.0, 10.0];
        assert_eq!(quantile(&sorted, 0.5), Some(1.5));
        assert!((quantile(&sorted, 0.9).unwrap() - 7.6).abs() < 1e-12);
        assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 1.0)), (Some(0.0), Some(10.0)));
        assert_eq!((quantile(&[3.0], 0.2), quantile(&[], 0.5)), (Some(3.0), None));
    }

    #[test]
    fn the_seed_is_all_that_decides() {
        let replicates =
            |seed| Bootstrap { resamples: 50, seed }.replicates(9, |drawn| drawn.iter().sum::<usize>() as f64);
        assert_eq!(replicates(1), replicates(1));
        assert_ne!(replicates(1), replicates(2));
    }

    #[test]
    fn the_interval_of_a_coin_is_the_binomial_one() {
        // The mean of 100 fair flips has standard deviation .05, so the central 95 % are about .5 ± 1.96 · .05.
        let flips: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let Estimate { value, interval } = Bootstrap::default().mean(&flips).unwrap();
        assert_eq!(value, 0.5);
        assert!((interval.low - 0.402).abs() < 0.012 && (interval.high - 0.598).abs() < 0.012, "{interval:?}");
    }

    #[test]
    fn what_has_no_value_has_no_replicate() {
        // Undefined when the first draw is 0, which happens in about half of the resamples of two.
        let half = Bootstrap { resamples: 1000, seed: 0 };
        let replicates = half.replicates(2, |drawn| if drawn[0] == 0 { f64::NAN } else { 1.0 });
        assert_eq!(replicates.sorted().len() + replicates.undefined, 1000);
        assert!((400..600).contains(&replicates.undefined), "{}", replicates.undefined);
        assert_eq!((half.mean(&[]), half.replicates(0, |_| 1.0).undefined), (None, 1000));
    }

    proptest! {
        #[test]
        fn indices_stay_below_n(bits: u64, n in 1..1000usize) {
            prop_assert!(index(bits, n) < n);
        }

        #[test]
        fn a_mean_stays_within_its_values(values in prop::collection::vec(-100.0..100.0f64, 1..20), seed: u64) {
            let Estimate { interval, .. } = Bootstrap { resamples: 40, seed }.mean(&values).unwrap();
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
            prop_assert!(low - 1e-9 <= interval.low && interval.low <= interval.high && interval.high <= high + 1e-9);
        }
    }
}
