//! Which sampler was found for a model, a task and a budget: everything that `cofill tune` measured and decided.
//!
//! The procedure is elsewhere (`cofill_eval::tune`); this is its answer, and how it is told: one line ([`Tuned::answer`]), a table and a
//! figure ([`Tuned::document`]), JSON ([`Tuned::json`]).
//!
//! Scores of the search are those of the best of many, so they flatter; only those of the confirmation, on other prompts, are quoted.

mod budget;
mod figure;
mod words;

pub use budget::{BadBudget, Budget};
pub use words::{p_value, points, score_text};

use crate::statistics::bootstrap::{Bootstrap, Estimate};
use crate::statistics::difference::Difference;
use serde::Serialize;
use serde_json::Value;

/// The form of the JSON; another number is another form.
pub const VERSION: u64 = 1;

/// What a search for a sampler found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// The form of this JSON: [`VERSION`].
    pub cofill_tune: u64,
    /// The model, as it was named.
    pub model: String,
    /// The task, as it was named.
    pub task: String,
    /// What an answer may take.
    pub budget: Budget,
    /// How it was searched.
    pub protocol: Protocol,
    /// Which prompts chose and which confirmed, in words.
    pub prompts: Prompts,
    /// Everybody who was tried, in the order of the grid.
    pub candidates: Vec<Candidate>,
    /// Samplers of the grid that this model cannot run, and why.
    pub left_out: Vec<LeftOut>,
    /// The sampler that did best within the budget on the prompts that choose.
    pub best: Option<String>,
    /// Whom it is compared with.
    pub default: Reference,
    /// Both on prompts that chose nobody; none if there was no time or nobody fits.
    pub confirmation: Option<Confirmation>,
    /// What follows.
    pub verdict: Verdict,
    /// Whether the time limit ended the search before its last rung.
    pub cut_short: bool,
    /// What it took.
    pub spent: Spent,
    /// The command that uses the answer.
    pub command: String,
    /// Who made it: version, commit, machine.
    pub made_by: Value,
}

/// How candidates are chosen and confirmed. All of it is decided before the first answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Protocol {
    /// The prompts of each rung, from few to many; every rung has those of the one before.
    pub rungs: Vec<usize>,
    /// How far over the budget a candidate may be at each rung, as a share; 0 at the last.
    pub slack: Vec<f64>,
    /// As many candidates as this stay in the search however few that is a half of.
    pub least: usize,
    /// Prompts that confirm.
    pub confirm: usize,
    /// Below this p, a gain is called significant.
    pub level: f64,
    /// How intervals are drawn.
    pub bootstrap: Bootstrap,
}

impl Protocol {
    /// Four rungs up to `limit` prompts, each twice the one before, and `confirm` others. With few prompts there are fewer rungs.
    pub fn new(limit: usize, confirm: usize) -> Protocol {
        let mut rungs: Vec<usize> = [8, 4, 2, 1].map(|part| limit.div_ceil(part).max(1)).to_vec();
        rungs.dedup();
        let last = rungs.len() - 1;
        let slack = |rung: usize| match rung {
            rung if rung == last => 0.0,
            0 => 0.25,
            _ => 0.1,
        };
        let slack = (0..rungs.len()).map(slack).collect();
        Protocol { rungs, slack, least: 3, confirm, level: 0.05, bootstrap: Bootstrap::default() }
    }

    /// How many candidates of so many go on to the next rung.
    pub fn kept(&self, n: usize) -> usize {
        n.div_ceil(2).max(self.least).min(n)
    }
}

/// Which prompts were used, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompts {
    /// Those that choose.
    pub choose: String,
    /// Those that confirm.
    pub confirm: String,
}

/// A sampler that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// As it is written.
    pub sampler: String,
    /// What it did at each rung, as far as it came.
    pub rungs: Vec<Measured>,
    /// Why it went no further; none for the best, and for whoever was only tried as a stand-in for the default.
    pub out: Option<Out>,
}

/// Why a candidate went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Out {
    /// It takes more than the budget.
    OverBudget,
    /// Others scored better, or as well with less.
    Outscored,
    /// The search ended before its next rung.
    TimeUp,
}

/// A sampler on the first prompts of a part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// How many prompts.
    pub prompts: usize,
    /// The mean score in percent.
    pub score: f64,
    /// Forwards for an answer, on average.
    pub forwards: f64,
    /// Positions that a forward fills, on average.
    pub tokens_per_forward: f64,
    /// Seconds for an answer, the median.
    pub seconds: f64,
}

impl Measured {
    /// What the budget is about.
    pub fn cost(&self, budget: &Budget) -> f64 {
        match budget {
            Budget::Forwards(_) => self.forwards,
            Budget::Seconds(_) => self.seconds,
        }
    }
}

/// A sampler that was not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// As it is written.
    pub sampler: String,
    /// What it lacks.
    pub why: String,
}

/// Whom the best is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// As it is written.
    pub sampler: String,
    /// Where it comes from.
    pub role: Role,
}

/// What the best is compared with, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The default as it is: it fits the budget.
    Default,
    /// The default takes more than the budget: the same sampler with the parameter that did best within it.
    DefaultWithinBudget,
    /// The default, though it takes more than the budget; with no parameter it takes less.
    DefaultOverBudget,
    /// The sampler that the user named.
    Given,
    /// The same, and it takes more than the budget.
    GivenOverBudget,
}

/// The best and the default on prompts that chose nobody.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confirmation {
    /// The sampler that was chosen.
    pub best: Confirmed,
    /// The default; the same as the best if that is who was chosen.
    pub default: Confirmed,
    /// The best against the default; none if they are the same.
    pub difference: Option<Difference>,
}

/// A sampler on the prompts that confirm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confirmed {
    /// As it is written.
    pub sampler: String,
    /// What it took and scored.
    #[serde(flatten)]
    pub measured: Measured,
    /// The score in percent with its 95 % interval.
    pub interval: Estimate,
    /// Whether it took more than the budget on these prompts.
    pub over_budget: bool,
}

/// What a search ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The best is significantly better than the default.
    Better,
    /// It is not.
    NotBetter,
    /// The default is the best that was found.
    DefaultIsBest,
    /// Nobody fits the budget.
    NobodyFits,
    /// The time was up before anything could be confirmed.
    Unconfirmed,
}

/// What a search took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Answers that were used, those of an interrupted run included.
    pub answers: usize,
    /// Their forwards.
    pub forwards: usize,
    /// Seconds that this run took.
    pub seconds: f64,
}

impl Tuned {
    /// Everything as one JSON object, with the line of [`Tuned::answer`] as `answer`.
    pub fn json(&self) -> Result<Value, serde_json::Error> {
        let mut json = serde_json::to_value(self)?;
        json["answer"] = self.answer().into();
        Ok(json)
    }

    /// The last rung that candidates came to, counted from 0.
    fn last_rung(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.rungs.len()).max().unwrap_or(0).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
