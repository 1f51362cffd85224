//! What a person at a terminal sees while a checkpoint loads or is written, a canvas fills or a score grows.
//!
//! One line on stderr that is gone when the answer comes. Nothing is drawn when stderr is no terminal, so logs and pipes stay clean.

use crate::quiet::is_quiet;
use crate::show::live;
use cofill_eval::run::Round;
use cofill_model::printable;
use cofill_report::results::Totals;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::Write;
use std::time::Duration;

/// How often the line is redrawn while nothing else happens.
const TICK: Duration = Duration::from_millis(100);

const LOADING: &str = "{spinner} loading {msg}  {elapsed}";
const SCORING: &str = "{bar:30} {pos}/{len} prompts  {msg}  {elapsed}, {eta} left";
const MEASURING: &str = "{bar:30} {pos}/{len}  {msg}  {elapsed}, {eta} left";
const FILLING: &str = "{bar:30} {pos}/{len} positions  {msg}  {elapsed}";
const TUNING: &str = "{bar:20} {pos}/{len} answers at most  {msg}  {elapsed}";
const WRITING: &str = "{bar:30} {pos}/{len} tensors  {msg}  {elapsed}";

/// A line that vanishes when dropped, also when the run fails.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// While a checkpoint loads.
    pub(crate) fn loading(name: &str) -> Progress {
        Progress::new(ProgressBar::new_spinner(), LOADING, name.into())
    }

    /// While `n` prompts are answered.
    pub(crate) fn scoring(n: usize) -> Progress {
        Progress::new(ProgressBar::new(n as u64), SCORING, String::new())
    }

    /// After some answers, and after every forward of those that are on their way.
    pub(crate) fn score(&self, totals: &Totals, now: Option<Round>) {
        self.bar.set_position(totals.n as u64);
        self.bar.set_message(scored(totals, now));
    }

    /// While `n` things are measured.
    pub(crate) fn measuring(n: usize, what: String) -> Progress {
        Progress::new(ProgressBar::new(n as u64), MEASURING, what)
    }

    /// After one more of them.
    pub(crate) fn measured(&self) {
        self.bar.inc(1);
    }

    /// While `masks` positions fill.
    pub(crate) fn filling(masks: usize) -> Progress {
        Progress::new(ProgressBar::new(masks as u64), FILLING, String::new())
    }

    /// While candidates answer, `most` prompts in all.
    pub(crate) fn tuning(most: usize) -> Progress {
        Progress::new(ProgressBar::new(most as u64), TUNING, String::new())
    }

    /// Says something above the line that stays.
    pub(crate) fn rung(&self, said: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(anstream::stderr(), "{said}"); // nobody is left to tell when stderr is gone
        });
    }

    /// After one more answer of a candidate, which took so many forwards.
    pub(crate) fn answered(&self, sampler: &str, nfe: usize) {
        self.bar.inc(1);
        self.bar.set_message(format!("{sampler}, nfe {nfe}"));
    }

    /// While a file is written.
    pub(crate) fn writing() -> Progress {
        Progress::new(ProgressBar::new(0), WRITING, String::new())
    }

    /// Before tensor `i` of `n` is.
    pub(crate) fn tensor(&self, name: &str, i: usize, n: usize) {
        self.bar.set_length(n as u64);
        self.bar.set_position(i as u64);
        self.bar.set_message(printable(name).into_owned());
    }

    fn new(bar: ProgressBar, template: &str, message: String) -> Progress {
        let is_seen = live() && !is_quiet();
        bar.set_draw_target(if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        // A template that cannot be read is a plain line, and a test.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = bar.with_finish(ProgressFinish::AndClear).with_style(style).with_message(message);
        // No thread for a line that nobody sees.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar }
    }

    /// After a step: positions filled so far, of how many, and the forwards it took.
    pub(crate) fn step(&self, filled: usize, of: usize, nfe: usize) {
        self.bar.set_length(of as u64);
        self.bar.set_position(filled as u64);
        self.bar.set_message(status(filled, nfe, self.bar.elapsed()));
    }
}

/// No score before there is one; then how far the answers on their way are.
fn scored(totals: &Totals, now: Option<Round>) -> String {
    let score = match totals.n {
        0 => "nothing scored yet".into(),
        _ => format!("{:.1} % right  nfe {:.2}", 100.0 * totals.score().0, totals.mean_nfe()),
    };
    let now = now.map(|Round { forwards, filled, masks }| format!("  forward {forwards}: {filled}/{masks} positions"));
    score + &now.unwrap_or_default()
}

fn status(filled: usize, nfe: usize, elapsed: Duration) -> String {
    let per_forward = filled as f64 / nfe.max(1) as f64;
    let per_second = filled as f64 / elapsed.as_secs_f64().max(1e-9);
    format!("nfe {nfe}  {per_forward:.2} per forward  {per_second:.1} tokens/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [LOADING, SCORING, MEASURING, FILLING, TUNING, WRITING] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn a_score_is_shown_once_there_is_one() {
        let mut totals = Totals::default();
        let now = Some(Round { forwards: 3, filled: 12, masks: 38 });
        assert_eq!(scored(&totals, None), "nothing scored yet");
        assert_eq!(scored(&totals, now), "nothing scored yet  forward 3: 12/38 positions");
        (totals.n, totals.nfe) = (1, 19);
        assert_eq!(scored(&totals, None), "0.0 % right  nfe 19.00");
    }

    #[test]
    fn rates_are_of_what_is_filled() {
        // 12 tokens in 5 forwards and 4 seconds.
        assert_eq!(status(12, 5, Duration::from_secs(4)), "nfe 5  2.40 per forward  3.0 tokens/s");
        assert_eq!(status(0, 0, Duration::ZERO), "nfe 0  0.00 per forward  0.0 tokens/s");
    }
}
