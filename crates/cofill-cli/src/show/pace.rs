//! How long a picture stays: long enough to be seen, and all of them together no longer than somebody watches.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// What all pauses together come to, unless somebody says how long each is.
const ALL: Duration = Duration::from_secs(4);

/// The longest pause that nobody asked for: a canvas of three steps need not take four seconds.
const LONGEST: Duration = Duration::from_millis(300);

/// A pause between two pictures: `300`, `300ms`, `0.3s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delay(Duration);

impl Delay {
    const MOST: Duration = Duration::from_secs(60);
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Delay, String> {
        let (number, unit) = match text.strip_suffix("ms") {
            Some(number) => (number, 1e-3),
            None => text.strip_suffix('s').map_or((text, 1e-3), |number| (number, 1.0)),
        };
        let seconds = number.trim_end().parse::<f64>().map(|number| number * unit);
        match seconds {
            Ok(seconds) if (0.0..=Delay::MOST.as_secs_f64()).contains(&seconds) => {
                Ok(Delay(Duration::from_secs_f64(seconds)))
            }
            _ => Err("expected milliseconds from 0 to 60000, or a time such as 300ms or 0.3s".into()),
        }
    }
}

/// Keeps pictures apart. Time that the model takes counts: one that is slow is not made slower.
#[derive(Debug)]
pub(super) struct Pace {
    given: Option<Delay>,
    watched: bool,
    steps: usize,
    filled: usize,
    last: Option<Instant>,
}

impl Pace {
    /// `watched` says whether somebody looks; elsewhere only a delay that was asked for is kept.
    pub(super) fn new(given: Option<Delay>, watched: bool) -> Pace {
        Pace { given, watched, steps: 0, filled: 0, last: None }
    }

    /// After a picture of a step that filled so many positions and left so many.
    pub(super) fn pause(&mut self, filled: usize, left: usize) {
        let last = self.last.unwrap_or_else(Instant::now);
        if let Some(rest) = self.delay(filled, left).checked_sub(last.elapsed()) {
            std::thread::sleep(rest);
        }
        self.last = Some(Instant::now());
    }

    /// How long the picture should stay. Nobody waits after the last one.
    fn delay(&mut self, filled: usize, left: usize) -> Duration {
        self.steps += 1;
        self.filled += filled;
        match self.given {
            _ if left == 0 => Duration::ZERO,
            Some(Delay(given)) => given,
            None if !self.watched => Duration::ZERO,
            None => {
                // As many steps for a position from here on as up to here.
                let steps = self.steps as f64 * (1.0 + left as f64 / self.filled.max(1) as f64);
                ALL.div_f64(steps.max(1.0)).min(LONGEST)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_written_with_a_unit_or_without() {
        let read = |text: &str| text.parse::<Delay>().map(|Delay(time)| time.as_millis());
        assert_eq!(
            [read("300"), read("300ms"), read("0.3s"), read("1.5 s"), read("0")],
            [Ok(300), Ok(300), Ok(300), Ok(1500), Ok(0)]
        );
        for wrong in ["", "-1", "fast", "61s", "nan", "1m", "inf"] {
            assert!(read(wrong).unwrap_err().contains("0 to 60000"), "{wrong}");
        }
    }

    #[test]
    fn all_pauses_together_are_a_few_seconds() {
        for (masks, each) in [(6, 2), (38, 2), (64, 1), (512, 4), (8000, 1)] {
            let mut pace = Pace::new(None, true);
            let steps = 1..=masks / each;
            let sum: Duration = steps.map(|step| pace.delay(each, masks - each * step)).sum();
            assert!(sum <= ALL, "{masks}: {sum:?}");
            // Few steps stay as long as they may, many share the four seconds.
            let shared = masks / each > 20;
            assert_eq!(sum > Duration::from_millis(3900), shared, "{masks}: {sum:?}");
        }
    }

    #[test]
    fn nobody_waits_for_a_pipe_unless_told_to() {
        assert_eq!(Pace::new(None, false).delay(2, 9), Duration::ZERO);
        let told = Some(Delay(Duration::from_millis(70)));
        assert_eq!(Pace::new(told, false).delay(2, 9), Duration::from_millis(70));
        assert_eq!(Pace::new(told, true).delay(2, 0), Duration::ZERO, "the answer does not wait");
    }
}
