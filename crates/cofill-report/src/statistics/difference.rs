//! Two samplers, the same questions: how much better is the first, and could that be chance?
//!
//! The questions are those on which nobody was chosen, so one test is all there is, and no correction.
//!
//! - **p**: under the null, which of the two answered a question better is a fair flip. Of scores that are right or wrong this is McNemar's
//!   exact test; of others, signs are drawn ([`Test::SignFlips`]) and p is the share of draws whose mean is at least as far from 0.
//! - **Interval**: the percentile bootstrap over questions, each drawn with both of its scores. With fewer than [`ENOUGH`] questions that differ there is
//!   none: a bootstrap would call four of them significant.

use super::bootstrap::{Bootstrap, Estimate, Interval, LEVEL};
use super::paired::{ENOUGH, exact};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// The first of two samplers against the second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// How many questions both were asked.
    pub n: usize,
    /// The mean of the first minus that of the second, in points.
    pub gain: f64,
    /// The gain if questions were drawn again; none if fewer than [`ENOUGH`] differ.
    pub interval: Option<Interval>,
    /// Questions that the first answered better.
    pub better: usize,
    /// Questions that the second answered better.
    pub worse: usize,
    /// How likely a difference at least as large is, if both are equally good.
    pub p: f64,
    /// Where p comes from.
    pub test: Test,
}

/// How p was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Answers are right or wrong: McNemar's test, exact.
    McnemarExact,
    /// Scores lie between: signs of the differences drawn at random.
    SignFlips,
}

/// Compares scores from 0 to 1, question by question; none without questions. Questions that only one was asked are left out.
///
/// ```
/// use cofill_report::statistics::{bootstrap::Bootstrap, difference::difference};
/// let difference = difference(&[1.0; 6], &[0.0; 6], Bootstrap::default()).expect("there are questions");
/// assert_eq!(difference.gain, 100.0);
/// assert!((difference.p - 2.0 / 64.0).abs() < 1e-12); // two of 64 ways to toss six coins are as one-sided
/// ```
pub fn difference(first: &[f64], second: &[f64], bootstrap: Bootstrap) -> Option<Difference> {
    let differences: Vec<f64> = first.iter().zip(second).map(|(first, second)| first - second).collect();
    let n = differences.len();
    let binary = are_binary(&first[..n]) && are_binary(&second[..n]);
    let (better, worse) =
        (differences.iter().filter(|d| **d > 0.0).count(), differences.iter().filter(|d| **d < 0.0).count());
    let (p, test) = match binary {
        true => (exact(better, worse), Test::McnemarExact),
        false => (sign_flips(&differences, bootstrap), Test::SignFlips),
    };
    let points: Vec<f64> = differences.iter().map(|d| 100.0 * d).collect();
    let Estimate { value, interval } = bootstrap.mean(&points)?;
    let interval = Some(interval).filter(|_| better + worse >= ENOUGH);
    Some(Difference { n, gain: value, interval, better, worse, p, test })
}

/// The mean of scores from 0 to 1 in percent, and its 95 % interval: Wilson's of answers that are right or wrong, which is no point even where all of
/// them are, and else the percentile bootstrap.
pub fn mean_score(scores: &[f64], bootstrap: Bootstrap) -> Option<Estimate> {
    if !are_binary(scores) {
        let percent: Vec<f64> = scores.iter().map(|score| 100.0 * score).collect();
        return bootstrap.mean(&percent);
    }
    let n = scores.len() as f64;
    if scores.is_empty() {
        return None;
    }
    let share = scores.iter().sum::<f64>() / n;
    let Interval { low, high } = wilson(share, n);
    Some(Estimate { value: 100.0 * share, interval: Interval { low: 100.0 * low, high: 100.0 * high } })
}

fn are_binary(scores: &[f64]) -> bool {
    scores.iter().all(|score| *score == 0.0 || *score == 1.0)
}

/// Wilson's interval of a share among n, at [`LEVEL`].
fn wilson(share: f64, n: f64) -> Interval {
    const Z: f64 = 1.959_963_984_540_054; // the normal quantile that leaves (1 - LEVEL) / 2 above it
    const { assert!(LEVEL == 0.95) };
    let centre = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Interval { low: ((centre - half) / scale).max(0.0), high: ((centre + half) / scale).min(1.0) }
}

/// The share of random signs under which the sum is at least as far from 0. The data themselves are one such draw, so no p is 0.
fn sign_flips(differences: &[f64], bootstrap: Bootstrap) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(bootstrap.seed);
    let sum = differences.iter().sum::<f64>().abs();
    // What so many additions may round away does not make a draw smaller.
    let rounding = differences.len() as f64 * f64::EPSILON * differences.iter().map(|d| d.abs()).sum::<f64>();
    let mut as_far = 1;
    for _ in 0..bootstrap.resamples {
        let mut bits = 0;
        let mut drawn = 0.0;
        for (i, difference) in differences.iter().enumerate() {
            if i % 64 == 0 {
                bits = random.next_u64();
            }
            drawn += if bits >> (i % 64) & 1 == 1 { *difference } else { -difference };
        }
        as_far += usize::from(drawn.abs() + rounding >= sum);
    }
    as_far as f64 / (bootstrap.resamples + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_and_wrong_is_mcnemars_test() {
        // Of 10 questions, 7 only the first, 1 only the second, 2 both: gain 60, p = 2 (1 + 8) / 2^8.
        let first = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0];
        let second = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let found = difference(&first, &second, Bootstrap::default()).unwrap();
        assert_eq!((found.n, found.better, found.worse, found.test), (10, 7, 1, Test::McnemarExact));
        assert!((found.gain - 60.0).abs() < 1e-9 && (found.p - 18.0 / 256.0).abs() < 1e-12, "{found:?}");
        let interval = found.interval.unwrap();
        assert!(interval.low < 60.0 && 60.0 < interval.high && interval.high <= 100.0, "{interval:?}");
        // The other way round: the same p, the gain with the other sign.
        let other = difference(&second, &first, Bootstrap::default()).unwrap();
        assert_eq!((other.p, other.better, other.worse), (found.p, 1, 7));
        assert!((other.gain + 60.0).abs() < 1e-9);
    }

    #[test]
    fn shares_are_compared_by_their_signs() {
        // All eight differences are +.25: only all signs equal come as far, 2 of 2^8 = .0078; so nearly of 10,000 draws.
        let found = difference(&[0.75; 8], &[0.5; 8], Bootstrap::default()).unwrap();
        assert_eq!(found.test, Test::SignFlips);
        assert!((found.p - 2.0 / 256.0).abs() < 0.004, "{}", found.p);
        // No difference is no evidence.
        let same = difference(&[0.3; 5], &[0.3; 5], Bootstrap::default()).unwrap();
        assert_eq!((same.p, same.gain, same.interval), (1.0, 0.0, None));
    }

    #[test]
    fn too_few_that_differ_have_no_interval() {
        let found = difference(&[1.0; 20], &[1.0; 20], Bootstrap::default()).unwrap();
        assert_eq!((found.interval, found.p), (None, 1.0));
        assert_eq!(difference(&[], &[], Bootstrap::default()), None);
    }

    #[test]
    fn intervals_of_shares_are_wilsons() {
        // 8 of 10, z = 1.96: (.8 + .19207 ± 1.96 √(.016 + .0096037)) / 1.38415 = [.4902, .9433].
        let found = mean_score(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0], Bootstrap::default()).unwrap();
        assert!((found.value - 80.0).abs() < 1e-9, "{found:?}");
        assert!((found.interval.low - 49.02).abs() < 0.01 && (found.interval.high - 94.33).abs() < 0.01, "{found:?}");
        // All right is not certainly all: (1 + z²/2n ± ..) gives n / (n + z²).
        let all = mean_score(&[1.0; 10], Bootstrap::default()).unwrap().interval;
        assert!((all.low - 100.0 * 10.0 / 13.841_459).abs() < 0.01 && all.high > 99.999, "{all:?}");
        let shares = mean_score(&[0.25, 0.75], Bootstrap::default()).unwrap();
        assert_eq!(shares.value, 50.0);
        assert_eq!(mean_score(&[], Bootstrap::default()), None);
    }
}
