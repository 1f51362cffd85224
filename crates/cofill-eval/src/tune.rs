//! Which sampler is best within a budget? A search by successive halving, and a confirmation on other prompts.
//!
//! Every candidate answers a few prompts; whoever takes more than the budget leaves at once, of the others the better half stays and
//! answers twice as many, and so on ([`Protocol`]). All candidates see the same prompts. The best within the budget at the last rung and the default
//! then answer prompts that chose nobody, and one paired test compares them. That the best of many looks better than it is spoils the
//! scores of the search and not those of the confirmation.
//!
//! [`search`] is the procedure alone: whoever answers is an [`Answers`], which tests make up. [`model`] is a model that answers, with its
//! answers kept in files; [`candidates`] are the samplers worth trying. `docs/tune.md` is the protocol in words.

pub mod candidates;
pub mod model;

use cofill_report::statistics::bootstrap::quantile;
use cofill_report::statistics::difference::{difference, mean_score};
use cofill_report::tuned::{
    Budget, Candidate, Confirmation, Confirmed, Measured, Out, Protocol, Reference, Role, Spent, Verdict,
};
use std::time::Duration;

/// The part of a task's prompts that something is asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Prompts that choose.
    Choose,
    /// Prompts that confirm.
    Confirm,
}

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// From 0, wrong, to 1, right.
    pub score: f64,
    /// Forwards that it took.
    pub nfe: usize,
    /// Positions that were filled.
    pub filled: usize,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Answers of one candidate that are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// The candidate, by its place in [`Field::samplers`].
    pub candidate: usize,
    /// Which prompts.
    pub part: Part,
    /// The first so many of them.
    pub prompts: usize,
    /// Once its answers took more forwards than this, no more are wanted: it is over the budget whatever comes.
    pub most_forwards: Option<f64>,
    /// No answer is begun after this much time.
    pub until: Option<Duration>,
}

/// Who answers prompts.
pub trait Answers {
    /// What can go wrong.
    type Error;

    /// The answers that every job wants, in the order of the prompts; fewer where the job says so. What was answered before is not asked again.
    fn answers(&mut self, jobs: &[Job]) -> Result<Vec<Vec<Answer>>, Self::Error>;

    /// The time since the search began.
    fn elapsed(&self) -> Duration;
}

/// Who is in the search, by name and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Everybody's name, as the sampler language writes it. Each is there once.
    pub samplers: Vec<String>,
    /// The places of those that may win.
    pub candidates: Vec<usize>,
    /// The place of the sampler to compare with.
    pub default: usize,
    /// The places of those that stand in for it if it does not fit the budget.
    pub stand_ins: Vec<usize>,
    /// Whether somebody named the sampler to compare with; then nobody stands in for it.
    pub given: bool,
}

/// What a watcher is told.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A rung begins.
    Rung {
        /// Who is compared.
        group: Group,
        /// Which rung, counted from 0.
        rung: usize,
        /// How many there are.
        rungs: usize,
        /// Prompts that everybody will have answered.
        prompts: usize,
        /// How many are still in the search.
        candidates: usize,
    },
    /// A rung is over, and this is the best so far.
    Best {
        /// Its name.
        sampler: &'a str,
        /// What it did on the prompts of the rung.
        measured: Measured,
    },
    /// The best and the default answer other prompts.
    Confirm {
        /// The best.
        best: &'a str,
        /// The default.
        default: &'a str,
        /// Prompts that both will have answered.
        prompts: usize,
    },
}

/// Who is compared in a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// All candidates.
    All,
    /// The default, or those that stand in for it.
    Default,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Everybody, in the order of [`Field::samplers`].
    pub candidates: Vec<Candidate>,
    /// The best within the budget.
    pub best: Option<String>,
    /// Whom it was compared with.
    pub default: Reference,
    /// Both on other prompts.
    pub confirmation: Option<Confirmation>,
    /// What follows.
    pub verdict: Verdict,
    /// Whether time ended the search before its last rung.
    pub cut_short: bool,
    /// Answers, their forwards, and seconds.
    pub spent: Spent,
}

/// Searches, then confirms. With a time limit, the search has two thirds of it and the confirmation the rest; when time runs out depends on the
/// machine, and nothing else here does.
pub fn search<A: Answers>(
    field: &Field,
    budget: Budget,
    protocol: &Protocol,
    time: Option<Duration>,
    answers: &mut A,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, A::Error> {
    let n = field.samplers.len();
    let until = time.map(|time| time * 2 / 3);
    let blank = |sampler: &String| Candidate { sampler: sampler.clone(), rungs: Vec::new(), out: None };
    let candidates = field.samplers.iter().map(blank).collect();
    let asked = vec![Vec::new(); n];
    let mut search = Search { field, budget, protocol, until, answers, tell, candidates, asked, cut_short: false };
    let best = search.halve(&field.candidates, Group::All)?;
    let (default, role) = search.default()?;
    let confirmation = match best {
        Some(best) => search.confirm(best, default, time)?,
        None => None,
    };
    let verdict = match (&confirmation, best) {
        // Whoever was not asked may fit.
        (_, None) if search.cut_short => Verdict::Unconfirmed,
        (_, None) => Verdict::NobodyFits,
        (None, _) => Verdict::Unconfirmed,
        (Some(Confirmation { difference: None, .. }), _) => Verdict::DefaultIsBest,
        (Some(Confirmation { difference: Some(found), .. }), _) => match found.gain > 0.0 && found.p < protocol.level {
            true => Verdict::Better,
            false => Verdict::NotBetter,
        },
    };
    let name = |place: usize| field.samplers[place].clone();
    let (cut_short, asked) = (search.cut_short, &search.asked);
    let mut spent = Spent { seconds: search.answers.elapsed().as_secs_f64(), ..Spent::default() };
    for answer in asked.iter().flat_map(|asked| asked.iter()) {
        spent.answers += 1;
        spent.forwards += answer.nfe;
    }
    if let Some(Confirmation { best, default, difference }) = &confirmation {
        let both = [Some(best), difference.as_ref().map(|_| default)];
        for Confirmed { measured, .. } in both.into_iter().flatten() {
            spent.answers += measured.prompts;
            spent.forwards += (measured.forwards * measured.prompts as f64).round() as usize;
        }
    }
    let default = Reference { sampler: name(default), role };
    Ok(Outcome {
        candidates: search.candidates,
        best: best.map(name),
        default,
        confirmation,
        verdict,
        cut_short,
        spent,
    })
}

/// A search on its way.
struct Search<'a, A> {
    field: &'a Field,
    budget: Budget,
    protocol: &'a Protocol,
    until: Option<Duration>,
    answers: &'a mut A,
    tell: &'a mut dyn FnMut(Event<'_>),
    candidates: Vec<Candidate>,
    /// Everybody's answers to the prompts that choose.
    asked: Vec<Vec<Answer>>,
    cut_short: bool,
}

impl<A: Answers> Search<'_, A> {
    /// The best of a group within the budget.
    fn halve(&mut self, group: &[usize], who: Group) -> Result<Option<usize>, A::Error> {
        let mut alive = group.to_vec();
        let mut complete = 0;
        for (rung, &prompts) in self.protocol.rungs.iter().enumerate() {
            let (rungs, candidates) = (self.protocol.rungs.len(), alive.len());
            (self.tell)(Event::Rung { group: who, rung, rungs, prompts, candidates });
            if !self.climb(&alive, rung)? {
                self.cut_short = true;
                self.leave(&alive, who, Out::TimeUp);
                break;
            }
            complete = rung + 1;
            let most = (1.0 + self.protocol.slack[rung]) * self.budget.most();
            let (mut fit, over): (Vec<usize>, Vec<usize>) =
                alive.iter().partition(|&&place| self.measured(place, rung).cost(&self.budget) <= most);
            self.leave(&over, who, Out::OverBudget);
            self.rank(&mut fit, rung);
            if let (Some(&first), Group::All) = (fit.first(), who) {
                let measured = self.measured(first, rung);
                (self.tell)(Event::Best { sampler: &self.field.samplers[first], measured });
            }
            let kept = if rung + 1 < rungs { self.protocol.kept(fit.len()) } else { fit.len().min(1) };
            let outscored = fit.split_off(kept);
            self.leave(&outscored, who, Out::Outscored);
            alive = fit;
            if alive.is_empty() {
                break;
            }
        }
        Ok(self.winner(group, complete))
    }

    /// Has everybody answer the prompts of a rung. False if time was up before all did.
    fn climb(&mut self, alive: &[usize], rung: usize) -> Result<bool, A::Error> {
        let prompts = self.protocol.rungs[rung];
        let most_forwards = match self.budget {
            Budget::Forwards(most) => Some((1.0 + self.protocol.slack[rung]) * most * prompts as f64),
            Budget::Seconds(_) => None,
        };
        let job = |&candidate: &usize| Job { candidate, part: Part::Choose, prompts, most_forwards, until: self.until };
        let jobs: Vec<Job> = alive.iter().map(job).collect();
        let answers = self.answers.answers(&jobs)?;
        let mut all = true;
        for (&place, answers) in alive.iter().zip(answers) {
            let forwards: usize = answers.iter().map(|answer| answer.nfe).sum();
            let over = most_forwards.is_some_and(|most| forwards as f64 > most);
            all &= answers.len() >= prompts || over;
            if answers.len() > self.asked[place].len() {
                self.asked[place] = answers;
            }
        }
        if all {
            for &place in alive {
                if self.candidates[place].rungs.len() == rung {
                    let measured = measure(&self.asked[place][..prompts.min(self.asked[place].len())]);
                    self.candidates[place].rungs.extend(measured);
                }
            }
        }
        Ok(all)
    }

    fn measured(&self, place: usize, rung: usize) -> Measured {
        self.candidates[place].rungs[rung]
    }

    /// By score, then by cost, then by name: the shorter first.
    fn rank(&self, places: &mut [usize], rung: usize) {
        places.sort_by(|&a, &b| {
            let (left, right) = (self.measured(a, rung), self.measured(b, rung));
            let (first, second) = (&self.field.samplers[a], &self.field.samplers[b]);
            let closer = left.forwards.total_cmp(&right.forwards);
            let cheaper = match self.budget {
                Budget::Forwards(_) => closer,
                Budget::Seconds(_) => closer.then(left.seconds.total_cmp(&right.seconds)),
            };
            right
                .score
                .total_cmp(&left.score)
                .then(cheaper)
                .then(first.len().cmp(&second.len()))
                .then(first.cmp(second))
        });
    }

    /// The best within the budget at the last complete rung that somebody within it came to: all on the same prompts.
    fn winner(&self, group: &[usize], complete: usize) -> Option<usize> {
        for rung in (0..complete).rev() {
            let fits = |&&place: &&usize| {
                let rungs = &self.candidates[place].rungs;
                rungs.get(rung).is_some_and(|measured| {
                    measured.prompts == self.protocol.rungs[rung] && measured.cost(&self.budget) <= self.budget.most()
                })
            };
            let mut fitting: Vec<usize> = group.iter().filter(fits).copied().collect();
            self.rank(&mut fitting, rung);
            if let Some(&first) = fitting.first() {
                return Some(first);
            }
        }
        None
    }

    /// Notes why candidates leave; what befalls stand-ins for the default is no verdict on them.
    fn leave(&mut self, places: &[usize], who: Group, why: Out) {
        if who == Group::All {
            places.iter().for_each(|&place| self.candidates[place].out = Some(why));
        }
    }

    /// Whom the best is compared with: the default as it is if it fits, else the best of its stand-ins.
    fn default(&mut self) -> Result<(usize, Role), A::Error> {
        let Field { default, stand_ins, given, .. } = self.field;
        let fits = self.halve(&[*default], Group::Default)?.is_some();
        let role = match (fits, given) {
            (true, false) => Role::Default,
            (true, true) => Role::Given,
            (false, true) => Role::GivenOverBudget,
            (false, false) => match self.halve(stand_ins, Group::Default)? {
                Some(stand_in) => return Ok((stand_in, Role::DefaultWithinBudget)),
                None => Role::DefaultOverBudget,
            },
        };
        Ok((*default, role))
    }

    /// Both answer other prompts, some at a time, so that what there was time for is of both.
    fn confirm(
        &mut self,
        best: usize,
        default: usize,
        time: Option<Duration>,
    ) -> Result<Option<Confirmation>, A::Error> {
        const PORTIONS: usize = 8;
        let both: &[usize] = if best == default { &[best] } else { &[best, default] };
        let all = self.protocol.confirm;
        let names = &self.field.samplers;
        (self.tell)(Event::Confirm { best: &names[best], default: &names[default], prompts: all });
        let mut answered: Vec<Vec<Answer>> = vec![Vec::new(); both.len()];
        for portion in 1..=PORTIONS {
            let prompts = all * portion / PORTIONS;
            let job =
                |&candidate: &usize| Job { candidate, part: Part::Confirm, prompts, most_forwards: None, until: time };
            let jobs: Vec<Job> = both.iter().map(job).collect();
            answered = self.answers.answers(&jobs)?;
            if answered.iter().any(|answers| answers.len() < prompts) {
                break;
            }
        }
        let n = answered.iter().map(Vec::len).min().unwrap_or(0);
        answered.iter_mut().for_each(|answers| answers.truncate(n));
        let scores: Vec<Vec<f64>> =
            answered.iter().map(|answers| answers.iter().map(|answer| answer.score).collect()).collect();
        let bootstrap = self.protocol.bootstrap;
        let confirmed = |place: usize, answers: &[Answer], scores: &[f64]| {
            let (measured, interval) = (measure(answers)?, mean_score(scores, bootstrap)?);
            let over_budget = measured.cost(&self.budget) > self.budget.most();
            Some(Confirmed { sampler: names[place].clone(), measured, interval, over_budget })
        };
        let (Some(first), last) = (confirmed(best, &answered[0], &scores[0]), both.len() - 1) else { return Ok(None) };
        let Some(second) = confirmed(default, &answered[last], &scores[last]) else { return Ok(None) };
        let difference = if best == default { None } else { difference(&scores[0], &scores[last], bootstrap) };
        Ok(Some(Confirmation { best: first, default: second, difference }))
    }
}

/// Answers summed up; none of none.
fn measure(answers: &[Answer]) -> Option<Measured> {
    let n = answers.len() as f64;
    let forwards: usize = answers.iter().map(|answer| answer.nfe).sum();
    let filled: usize = answers.iter().map(|answer| answer.filled).sum();
    let mut seconds: Vec<f64> = answers.iter().map(|answer| answer.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    Some(Measured {
        prompts: answers.len(),
        score: 100.0 * answers.iter().map(|answer| answer.score).sum::<f64>() / n,
        forwards: forwards as f64 / n,
        tokens_per_forward: filled as f64 / forwards.max(1) as f64,
        seconds: quantile(&seconds, 0.5)?,
    })
}

#[cfg(test)]
mod tests;
