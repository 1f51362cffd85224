//! Algorithm 1: take the best candidate while the rule admits it.
//!
//! ```text
//! S ← ∅
//! while M \ S ≠ ∅:
//!     i* ← argmax_{i ∈ M\S} [ c_i − α Σ_{s∈S} A[i,s] (1 − c_s) ]      ranking.rs, adas.rs
//!     if not Adm(S ∪ {i*}): break                                      rule.rs
//!     S ← S ∪ {i*}
//! return S
//! ```
//!
//! The first inadmissible candidate ends the step; the next best is not tried. When even the very first is inadmissible the
//! algorithm as printed returns ∅ and decoding would never end (Fast-dLLM with f = 0.3, in the paper's own sweep). So:
//!
//! - If the rule admits a candidate alone, the best such candidate goes first, and those ranked before it are left out of this
//!   step. By confidence this never happens: a rule that refuses the surest candidate refuses all. By margin, entropy or chance it
//!   does, and a rule that admits one candidate must not force another.
//! - If it admits none, the best candidate is committed all the same, and the step is marked *forced*.
//!
//! A discount may come with a *veto* (`@veto`, not in the paper): then the step also ends when the best candidate has lost more than its
//! confidence, c_i − Σ_{s∈S} loss < 0. By confidence that is u(i | S) < 0, where the paper's own ordered utility would stop growing. The
//! first candidate has lost nothing, so a step still commits somebody, and the last step of a fixed budget has no veto.
//!
//! Candidates without any confidence (c = 0: an end of text under LLaDA's `confidence_eos_eot_inf`) come after all others, whatever
//! the ranking. Margin and entropy of such a row speak of other tokens than the proposed one, and a discount may take others below 0.

pub mod adas;
pub mod control;
pub mod fast_dllm;
pub mod paths;
pub mod profile;
pub mod quota;
pub mod ranking;
pub mod rule;

pub use ranking::Ranking;
pub use rule::StoppingRule;

use crate::{Deferral, Error, Job, Needs, Pick, Picks, Result, Sampler, Slot, StepView, Verdict};
use adas::{AttentionDiscount, AttentionDiscounted};
use ranking::Discount;
use rule::Tally;

/// A ranking and a stopping rule: Top-k, Fast-dLLM, EB-Sampler, with or without ADAS.
pub struct Greedy {
    ranking: Box<dyn Ranking>,
    rule: Box<dyn StoppingRule>,
    needs: Needs,
    scores: Vec<f64>, // [slots] before any discount; −∞ once chosen, and for those that wait or are left out
    utility: Vec<f64>, // [slots] u(i | S); −∞ likewise
    waiting: Vec<(Slot, f64)>, // candidates without confidence, with their scores, until all others are chosen
}

impl Greedy {
    /// Fails when the two need attention from different layers.
    pub fn new(ranking: Box<dyn Ranking>, rule: Box<dyn StoppingRule>) -> Result<Greedy> {
        let needs = ranking.needs().and(rule.needs())?;
        Ok(Greedy { ranking, rule, needs, scores: Vec::new(), utility: Vec::new(), waiting: Vec::new() })
    }

    /// The same with ADAS's discount on top of the ranking, if there is one: what `+ad` does to a sampler.
    pub fn discounted(
        base: Box<dyn Ranking>,
        discount: Option<AttentionDiscount>,
        rule: Box<dyn StoppingRule>,
    ) -> Result<Greedy> {
        let Some(discount) = discount else { return Greedy::new(base, rule) };
        let discount = discount.settled()?;
        // The discount would otherwise silently replace the base ranking's layer.
        if let Some(layers) = base.needs().attention.filter(|layers| *layers != discount.layers) {
            return Err(Error::TwoAttentionSources(layers.to_string(), discount.layers.to_string()));
        }
        Greedy::new(Box::new(AttentionDiscounted::new(base, discount)), rule)
    }
}

impl Sampler for Greedy {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.rule.begin(job)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        if !self.rule.open(view) {
            return Ok(Verdict::Wait);
        }
        self.scores.clear();
        self.ranking.score(view, &mut self.scores);
        if self.scores.len() != view.len() {
            let problem = format!("{} scores for {} candidates", self.scores.len(), view.len());
            return Err(Error::Contract { who: "ranking", problem });
        }
        // Copied and checked in one vectorised pass: a plain copy is a `rep movsb`, which some machines do slower than all the rest.
        self.utility.resize(view.len(), 0.0);
        let mut finite = true;
        for (u, score) in self.utility.iter_mut().zip(&self.scores) {
            *u = *score;
            finite &= score.is_finite();
        }
        if !finite {
            let index = self.scores.iter().position(|u| !u.is_finite()).expect("found above");
            return Err(Error::NotFinite { what: "score", index, value: self.scores[index] });
        }

        self.hold_back(view);
        let mut best = argmax(&self.utility).or_else(|| self.release(view, picks));
        if let Some(leader) = best.filter(|&leader| !self.alone(view, leader)) {
            let forced = Pick::of(view, Slot(leader), self.scores[leader]);
            best = self.first_admitted(view);
            if best.is_none() {
                picks.add(forced);
                picks.forced = true;
                return Ok(Verdict::Commit);
            }
        }

        let vetoes = self.ranking.vetoes() && !self.rule.is_last();
        let mut set = Tally::empty(view.len());
        let mut discounted = false;
        while let Some(i) = best {
            let enlarged = set.with(view.stats(Slot(i)));
            let admitted = self.rule.admits(&enlarged);
            let lost = self.scores[i] - self.utility[i];
            let vetoed = vetoes && discounted && view.confidence(Slot(i)) - lost < 0.0;
            if discounted && picks.deferral.is_none() {
                let leader = argmax(&self.scores).expect("i itself is left");
                let instead = Slot(i);
                // If the rule refuses the leader as well, the step ends either way, and nothing was deferred.
                let passed_over = match vetoed {
                    true => self.rule.admits(&set.with(view.stats(Slot(leader)))),
                    false => leader != i && (admitted || self.rule.admits(&set.with(view.stats(Slot(leader))))),
                };
                if passed_over {
                    self.tell(view, picks, Slot(leader), (!vetoed).then_some(instead));
                }
            }
            if !admitted || vetoed {
                break;
            }
            picks.add(Pick { utility: self.utility[i], ..Pick::of(view, Slot(i), self.scores[i]) });
            set = enlarged;
            if self.rule.is_full(&set) {
                break;
            }
            self.take_out(i);
            self.ranking.choose(view, Slot(i));
            let discount = self.ranking.discount(view, Slot(i));
            if let Some(d) = discount.filter(|d| d.toward.len() != view.len()) {
                let problem = format!("a discount of {} entries for {} candidates", d.toward.len(), view.len());
                return Err(Error::Contract { who: "ranking", problem });
            }
            discounted = discount.is_some();
            best = match discount {
                Some(discount) => discount_and_argmax(&mut self.utility, discount),
                None => argmax(&self.utility),
            };
            best = best.or_else(|| self.release(view, picks));
        }
        Ok(Verdict::Commit)
    }
}

impl Greedy {
    /// Whether the rule admits a candidate by itself.
    fn alone(&self, view: &StepView<'_>, i: usize) -> bool {
        self.rule.admits(&Tally::empty(view.len()).with(view.stats(Slot(i))))
    }

    /// The best candidate that the rule admits alone; those ranked before it are left out of this step. `None` when it admits none.
    fn first_admitted(&mut self, view: &StepView<'_>) -> Option<usize> {
        let better = |first: usize, i: usize| if self.utility[i] > self.utility[first] { i } else { first };
        let left = (0..view.len()).filter(|&i| self.utility[i] > f64::NEG_INFINITY);
        let Some(first) = left.filter(|&i| self.alone(view, i)).reduce(better) else {
            // Those without confidence come last, after all others.
            (0..view.len()).for_each(|i| self.take_out(i));
            return self.release(view, &Picks::default()).and_then(|_| self.first_admitted(view));
        };
        let score = self.utility[first];
        for i in 0..view.len() {
            if self.utility[i] > score || (self.utility[i] == score && i < first) {
                self.take_out(i);
            }
        }
        Some(first)
    }

    fn take_out(&mut self, i: usize) {
        (self.scores[i], self.utility[i]) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    }

    /// Lets candidates without any confidence wait.
    fn hold_back(&mut self, view: &StepView<'_>) {
        self.waiting.clear();
        for slot in view.slots().filter(|&slot| view.confidence(slot) <= 0.0) {
            self.waiting.push((slot, self.scores[slot.0]));
            self.take_out(slot.0);
        }
    }

    /// Brings the waiting candidates back, less what the chosen ones discount them by, and returns the best.
    fn release(&mut self, view: &StepView<'_>, chosen: &Picks) -> Option<usize> {
        for (slot, score) in self.waiting.drain(..) {
            let loss = |s: Slot| self.ranking.discount(view, s).map_or(0.0, |d| d.weight * d.toward[slot.0]);
            let utility = chosen.iter().fold(score, |utility, pick| utility - loss(pick.slot));
            (self.scores[slot.0], self.utility[slot.0]) = (score, utility);
        }
        argmax(&self.utility)
    }

    /// Writes down who was passed over, for whom, and because of which chosen position: the one that took most.
    fn tell(&mut self, view: &StepView<'_>, picks: &mut Picks, deferred: Slot, instead: Option<Slot>) {
        let loss = |s: Slot| self.ranking.discount(view, s).map_or(0.0, |d| d.weight * d.toward[deferred.0]);
        let by = picks.iter().map(|pick| pick.slot).reduce(|by, s| if loss(s) > loss(by) { s } else { by });
        let by = by.expect("nobody is deferred before somebody is chosen");
        picks.deferral = Some(Deferral { deferred, instead, by, discount: loss(by) });
        self.ranking.between(view, deferred, by, &mut picks.through);
    }
}

const LANES: usize = 8;
const BLOCK: usize = 64;

/// u_i −= weight · toward_i, and the leftmost largest of the result, in one pass. `None` when all are chosen.
fn discount_and_argmax(utility: &mut [f64], discount: Discount<'_>) -> Option<usize> {
    let mut best = Best::NONE;
    for (block, (u, toward)) in utility.chunks_mut(BLOCK).zip(discount.toward.chunks(BLOCK)).enumerate() {
        for (u, a) in u.iter_mut().zip(toward) {
            *u -= discount.weight * a;
        }
        best.see(block, u);
    }
    best.leftmost(utility)
}

/// The leftmost largest; `None` when all are −∞.
fn argmax(values: &[f64]) -> Option<usize> {
    let mut best = Best::NONE;
    values.chunks(BLOCK).enumerate().for_each(|(block, v)| best.see(block, v));
    best.leftmost(values)
}

/// The first block that holds the largest value. Lanes let the search vectorise but forget where the largest stood; a
/// second look at one block finds it.
struct Best {
    value: f64,
    block: usize,
}

impl Best {
    const NONE: Best = Best { value: f64::NEG_INFINITY, block: 0 };

    fn see(&mut self, block: usize, values: &[f64]) {
        let larger = |a: f64, b: f64| if a > b { a } else { b }; // one instruction; NaN never gets here
        let mut lanes = [f64::NEG_INFINITY; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for v in chunks {
            lanes = std::array::from_fn(|lane| larger(v[lane], lanes[lane]));
        }
        for (lane, v) in lanes.iter_mut().zip(rest) {
            *lane = larger(*v, *lane);
        }
        // By halves: a chain of eight comparisons would wait for each of them.
        let four: [f64; 4] = std::array::from_fn(|i| larger(lanes[i], lanes[i + 4]));
        let value = larger(larger(four[0], four[2]), larger(four[1], four[3]));
        if value > self.value {
            *self = Best { value, block };
        }
    }

    fn leftmost(&self, values: &[f64]) -> Option<usize> {
        let start = self.block * BLOCK;
        if self.value > f64::NEG_INFINITY {
            values[start..].iter().position(|&v| v == self.value).map(|i| start + i)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Snapshot, rule::TopK};

    #[test]
    fn argmax_is_the_leftmost_largest_for_every_length() {
        for n in (0..40).chain([64, 65, 128, 200]) {
            for at in 0..n {
                let mut values = vec![1.0; n];
                values[at] = 2.0;
                values[n - 1] = 2.0; // a tie further right never wins
                assert_eq!(argmax(&values), Some(at));
                let toward = vec![0.5; n];
                let mut utility = values.clone();
                assert_eq!(discount_and_argmax(&mut utility, Discount { weight: 4.0, toward: &toward }), Some(at));
                assert!(utility.iter().zip(&values).all(|(u, v)| *u == v - 2.0));
            }
            assert_eq!(argmax(&vec![f64::NEG_INFINITY; n]), None);
        }
    }

    #[test]
    fn a_ranking_that_says_nan_is_an_error() {
        struct Broken;
        impl Ranking for Broken {
            fn score(&mut self, view: &StepView<'_>, scores: &mut Vec<f64>) {
                scores.extend(view.slots().map(|slot| if slot.0 == 1 { f64::NAN } else { 0.5 }));
            }
        }
        assert!(matches!(ask(Broken), Err(Error::NotFinite { what: "score", index: 1, .. })));
    }

    fn ask(ranking: impl Ranking + 'static) -> Result<Picks> {
        let greedy = Greedy::new(Box::new(ranking), Box::new(TopK { k: 2 }))?;
        Snapshot::new(&[0.5, 0.5]).ask(&mut Policy::Commits(Box::new(greedy)))
    }

    #[test]
    fn a_ranking_must_speak_of_every_candidate() {
        struct Short {
            scores: usize,
            toward: [f64; 1],
        }
        impl Ranking for Short {
            fn score(&mut self, _: &StepView<'_>, scores: &mut Vec<f64>) {
                scores.resize(self.scores, 0.5);
            }
            fn discount<'a>(&'a self, _: &'a StepView<'_>, _: Slot) -> Option<Discount<'a>> {
                Some(Discount { weight: 1.0, toward: &self.toward })
            }
        }
        for scores in [0, 1, 3] {
            let picks = ask(Short { scores, toward: [0.0] });
            assert!(matches!(picks, Err(Error::Contract { who: "ranking", .. })), "{scores} scores");
        }
        assert!(matches!(ask(Short { scores: 2, toward: [0.0] }), Err(Error::Contract { .. })), "a short discount");
    }
}
