//! CLAD: sure neighbours are one span; spans that attend to each other most do not go together.
//!
//! 1. Candidates with c ≥ τ that stand side by side form a span. (When nobody is that sure, the surest is a span alone.)
//! 2. The tie of two spans: for each member of one, its mean attention to the members of the other; the largest of these, from
//!    whichever side. Attention counts by its stronger direction, max(A_ij, A_ji).
//! 3. Two spans conflict when each has its strongest tie with the other. Of just two spans, which always do, only if the tie is also at
//!    least 1.2 / L, with L the length of the block: 1.2 times an even share of attention.
//! 4. Of two that conflict the longer goes, the left one if they are equal; all others go.
//!
//! So at most half of the spans wait. In the code, three or more spans must also be tied by at least each one's mean, which their largest
//! ties always are.
//!
//! Read: the abstract (Qi et al. 2026, arXiv 2605.29607) and the published code (`CLAD`, commit ff0e685): all of the above; the mean of the last four layers;
//! τ from .70 to .75 by task. L is the block's length in the code for LLaDA and the whole sequence's in the code for Dream; ours is the
//! former, and without blocks the span of the masks. The paper itself could not be read, so where it differs from its code is not
//! known.

use crate::spec::{Entry, Param, Values};
use crate::{Attention, Layers, Needs, Picks, Policy, Result, Sampler, Slot, StepView, Verdict};
use std::ops::Range;

/// The sampler, with the least confidence of a span's members.
pub(crate) struct Clad {
    tau: f64,
}

/// The published code's `conflict_abs_tau`: two spans alone conflict from this many even shares of attention on.
const EVEN_SHARES: f64 = 1.2;

pub(crate) fn entry() -> Entry {
    let build = |v: &Values, _| Ok(Policy::Commits(Box::new(Clad { tau: v.param(0) })));
    Entry::new("clad", "spans of sure tokens; of two tied the longer", build)
        .params([Param::number("TAU", 0.0, 1.0).default(0.75)])
        .source("Qi et al. 2026 (CLAD), its LLaDA code")
}

impl Sampler for Clad {
    fn needs(&self) -> Needs {
        Needs::default().attention(Layers::LastN(4))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let spans = spans(view, self.tau);
        let length = view.block.end.min(view.job.window.end) - view.block.start;
        let waits = waiting(&spans, view.attention(), EVEN_SHARES / length as f64);
        for span in spans.iter().zip(waits).filter(|(_, waits)| !waits).map(|(span, _)| span) {
            span.clone().map(Slot).for_each(|slot| picks.push(view, slot, view.confidence(slot)));
        }
        Ok(picks.or_surest(view))
    }
}

/// Runs of sure candidates whose positions follow each other, as ranges of slots.
fn spans(view: &StepView<'_>, tau: f64) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for slot in view.slots().filter(|&slot| view.confidence(slot) >= tau) {
        match spans.last_mut() {
            Some(span) if span.end == slot.0 && view.position(Slot(span.end - 1)) + 1 == view.position(slot) => {
                span.end += 1;
            }
            _ => spans.push(slot.0..slot.0 + 1),
        }
    }
    spans
}

/// Which of the spans wait for another. `least` is the tie from which on two spans alone conflict.
fn waiting(spans: &[Range<usize>], attention: &Attention, least: f64) -> Vec<bool> {
    let n = spans.len();
    let mut waits = vec![false; n];
    let tie =
        |a: usize, b: usize| one_way(attention, &spans[a], &spans[b]).max(one_way(attention, &spans[b], &spans[a]));
    let ties: Vec<f64> = (0..n * n).map(|i| if i / n == i % n { 0.0 } else { tie(i / n, i % n) }).collect(); // [span x span]
    // The strongest tie of a span; the left one of equals.
    let strongest = |a: usize| {
        let others = (0..n).filter(|&b| b != a);
        others.reduce(|best, b| if ties[a * n + b] > ties[a * n + best] { b } else { best })
    };
    for a in 0..n {
        let Some(b) = strongest(a).filter(|&b| a < b && strongest(b) == Some(a)) else { continue };
        if n > 2 || ties[a * n + b] >= least {
            waits[if spans[a].len() >= spans[b].len() { b } else { a }] = true;
        }
    }
    waits
}

/// The largest, over members of `from`, of the mean attention to the members of `to`; attention by its stronger direction.
fn one_way(attention: &Attention, from: &Range<usize>, to: &Range<usize>) -> f64 {
    let between = |i: usize, j: usize| attention.get(i, j).max(attention.get(j, i));
    let mean = |i: usize| to.clone().map(|j| between(i, j)).sum::<f64>() / to.len() as f64;
    from.clone().map(mean).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SamplerSpec, Snapshot};

    /// Attention is 0 but for (query, key, value).
    #[track_caller]
    fn check(sampler: &str, c: &[f64], entries: &[(usize, usize, f64)], want: &[usize], forced: bool) {
        let a = Attention::from_fn(c.len(), |q, k| entries.iter().find(|e| (e.0, e.1) == (q, k)).map_or(0.0, |e| e.2));
        let picks = Snapshot::new(c).attention(a).select(&sampler.parse::<SamplerSpec>().unwrap()).unwrap();
        assert_eq!((picks.positions().as_slice(), picks.forced), (want, forced), "{c:?} {entries:?}");
    }

    #[test]
    fn of_two_spans_tied_strongly_enough_the_shorter_waits() {
        // L = 6: the tie must reach 1.2 / 6 = .2. Spans {0, 1} and {3, 4, 5}; 2 is not sure.
        let c = [0.9, 0.8, 0.5, 0.75, 0.9, 0.9];
        check("clad", &c, &[], &[0, 1, 3, 4, 5], false);
        // 1 attends to the three by .3, .3 and 0: .2 on average. Each of the three sees at most .3 / 2 = .15 from the two.
        check("clad", &c, &[(1, 3, 0.3), (1, 4, 0.3)], &[3, 4, 5], false);
        check("clad", &c, &[(1, 3, 0.3), (1, 4, 0.29)], &[0, 1, 3, 4, 5], false);
        // The other direction counts the same, and so does the other side's mean: 4 attends to the two by .4 and 0.
        check("clad", &c, &[(3, 1, 0.3), (4, 1, 0.3)], &[3, 4, 5], false);
        check("clad", &c, &[(4, 0, 0.4)], &[3, 4, 5], false);
        check("clad", &c, &[(4, 0, 0.39)], &[0, 1, 3, 4, 5], false);
        // Attention to those that are not sure, and within a span, is nobody's business.
        check("clad", &c, &[(1, 2, 1.0), (2, 4, 1.0), (0, 1, 1.0)], &[0, 1, 3, 4, 5], false);
        // Of equal spans the left one goes.
        check("clad", &[0.9, 0.5, 0.99, 0.5], &[(0, 2, 0.9)], &[0], false);
    }

    #[test]
    fn of_many_spans_only_mutual_favourites_conflict() {
        // Spans {0}, {2, 3}, {5}, {7}. Ties: 0-{2,3} .1/1 from 2's side (its mean of one), 0-5 .05, 5-7 .01. The strongest of {0} is {2, 3}
        // and back; of {5} it is {0}, which prefers another; of {7} it is {5}. So {0} waits and all others go, however weak the tie is.
        let c = [0.9, 0.1, 0.8, 0.8, 0.1, 0.8, 0.1, 0.8];
        check("clad", &c, &[(2, 0, 0.1), (0, 5, 0.05), (5, 7, 0.01)], &[2, 3, 5, 7], false);
        // Nothing attends to anything: the left one of equals is everybody's strongest tie, and {0} and {2, 3} conflict.
        check("clad", &c, &[], &[2, 3, 5, 7], false);
    }

    #[test]
    fn spans_are_of_positions_not_of_candidates() {
        // 1 is filled already: 0 and 2 are neighbours among the candidates, not in the canvas. Their tie reaches 1.2 / 3.
        let a = Attention::from_fn(3, |q, k| if (q, k) == (0, 2) { 0.5 } else { 0.0 });
        let step = Snapshot::new(&[0.9, 1.0, 0.9]).attention(a).candidates(&[0, 2]);
        assert_eq!(step.select(&"clad".parse().unwrap()).unwrap().positions(), [0]);
    }

    #[test]
    fn nobody_sure_enough() {
        check("clad", &[0.5, 0.7, 0.7], &[], &[1], true);
        check("clad:0.7", &[0.5, 0.7, 0.7], &[], &[1, 2], false);
    }
}
