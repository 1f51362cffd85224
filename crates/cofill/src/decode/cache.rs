//! Which forwards of a decode in blocks compute every position, and which only a window of them (Fast-dLLM's caches, and one that measures
//! what it costs).
//!
//! Let the current block be `s..e` of a canvas of L positions. The first forward of a block computes everything and keeps the keys and
//! values of every layer; it decides a step like any other. Later forwards of the block compute the window anew, over what was kept:
//!
//! ```text
//! prefix:       s..L    what stands before the block is as the block's first forward saw it
//! dual, auto:   s..e    and what stands behind it as well
//! ```
//!
//! [`Cache::Auto`] uses a cached answer only at an age (cached forwards since the last full one) whose drift it has measured: a *check* asks
//! the window and then the whole canvas about the same tokens, takes the mean over the candidates of KL(exact ‖ cached), and decides by the
//! exact answer, so a check never makes a step worse. Within the budget the age that is trusted grows, over it it shrinks.

use crate::divergence::kl;
use crate::trace::CacheMeter;
use crate::{CacheCell, Error, Needs, Part, Policy, Prediction, Result, Reuse, Schedule, Scope};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Cached forwards after which there is a check, however young the cache is: drift is measured to the end.
const CHECK_EVERY: usize = 16;
/// The same where the budget is infinite, once there have been some: after 1, 2, 4 and then every 8, so that short decodes have them, too.
const WATCH_EVERY: usize = 8;
/// The oldest age that is ever trusted.
const OLDEST: usize = 64;
/// The most full forwards between two checks while no cached answer is within the budget.
const LONGEST_REST: usize = 16;

/// Which forwards of a decode compute only a window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Cache {
    /// None: every forward computes everything.
    #[default]
    Off,
    /// All but the first of a block, from the block to the end.
    Prefix,
    /// All but the first of a block, the block alone.
    Dual,
    /// As `Dual`, while the measured drift is within a budget.
    Auto {
        /// Mean KL(exact ‖ cached) over the candidates, in nats. 0 trusts no cached answer; infinity trusts all, and drift is measured
        /// beside the decode without a change to it.
        budget: f64,
    },
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cache::Off => f.write_str("off"),
            Cache::Prefix => f.write_str("prefix"),
            Cache::Dual => f.write_str("dual"),
            Cache::Auto { budget } => write!(f, "auto:{budget}"),
        }
    }
}

/// What a user may write: `off`, `prefix`, `dual` or `auto:BUDGET`.
impl FromStr for Cache {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cache> {
        let words = ["off", "prefix", "dual", "auto"];
        let bad = |limit: &str| {
            let meant = crate::did_you_mean(text, words);
            Err(Error::BadSetting { what: "cache", limit: limit.into(), given: format!("`{text}`{meant}") })
        };
        match text.split_once(':') {
            None if text == "off" => Ok(Cache::Off),
            None if text == "prefix" => Ok(Cache::Prefix),
            None if text == "dual" => Ok(Cache::Dual),
            Some(("auto", budget)) => match budget.parse::<f64>() {
                Ok(budget) if budget >= 0.0 => Ok(Cache::Auto { budget: budget.abs() }), // -0 is 0
                _ => bad("auto:BUDGET with a mean KL in nats, 0 or more, or `inf` to measure and never to refresh"),
            },
            _ if text == "auto" => bad("auto:BUDGET, such as auto:0.01 (a mean KL in nats)"),
            _ => bad("off, prefix, dual or auto:BUDGET"),
        }
    }
}

impl Cache {
    /// Refuses what no cache is right for.
    fn check(self, schedule: Schedule, needs: &Needs, policy: &Policy, is_constrained: bool) -> Result<()> {
        let why = match schedule {
            Schedule::Full => {
                "the canvas is decoded without blocks, so there is no part of it to keep; decode in blocks"
            }
            _ if matches!(policy, Policy::Remasks(_)) => {
                "the sampler takes commits back, in blocks that are done as well; choose one that does not"
            }
            _ if needs.reveals => "the sampler looks ahead on copies of the canvas; choose one that does not",
            _ if needs.companion => "the sampler asks a companion, which has no such cache; choose one that asks none",
            _ if is_constrained => {
                "a text that is held to a language asks about every mask, beyond the block; leave one of the two out"
            }
            _ if needs.scope > Scope::Candidates => {
                "the sampler looks at positions beyond the block, of which a cached forward computes nothing; choose one that does not"
            }
            _ => return Ok(()),
        };
        Err(Error::NoCache { cache: self.to_string(), why })
    }
}

/// What is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// Everything, because a block begins.
    First,
    /// Everything, within a block.
    Refresh,
    /// The window.
    Window,
    /// The window, and then everything about the same canvas: the first half of a check.
    Cached,
    /// The second half.
    Exact,
}

/// The cache of one decode.
#[derive(Debug)]
pub(super) struct Caching {
    cache: Cache,
    cell: CacheCell,
    block: Option<usize>, // whose first forward was asked
    window: Range<usize>,
    ask: Ask,
    age: usize,               // cached forwards since the last full one
    trusted: usize,           // the oldest age whose drift was within the budget
    unmeasured: usize,        // cached forwards since the last check
    rest: usize,              // full forwards to come before the next check
    wait: usize,              // how many there will be if that fails
    length: usize,            // of the canvas
    kl: f64,                  // sum over the checks
    held: Option<Prediction>, // the cached answer of a check
    pub(super) beside: usize, // forwards that decided no step, of all checks
    step: (usize, usize),     // forwards of this step that decided nothing, and those that were partial
    meter: CacheMeter,
}

/// What a check compares.
pub(super) struct Check {
    pub(super) cached: Prediction,
    /// Whether the step is decided by the cached answer all the same.
    pub(super) is_beside: bool,
}

impl Caching {
    /// The cache of a decode, if it has one and may.
    pub(super) fn begin(
        cache: Cache,
        schedule: Schedule,
        policy: &Policy,
        is_constrained: bool,
        length: usize,
    ) -> Result<Option<Caching>> {
        if cache == Cache::Off {
            return Ok(None);
        }
        cache.check(schedule, &policy.needs(), policy, is_constrained)?;
        Ok(Some(Caching {
            cache,
            cell: CacheCell::new(),
            block: None,
            window: 0..0,
            ask: Ask::First,
            age: 0,
            trusted: 0,
            unmeasured: 0,
            rest: 0,
            wait: 1,
            length,
            kl: 0.0,
            held: None,
            beside: 0,
            step: (0, 0),
            meter: CacheMeter { cache: cache.to_string(), ..CacheMeter::default() },
        }))
    }

    /// Goes on after an older cache of the sequence: what was counted and learned stays, what was kept does not.
    pub(super) fn after(self, older: Caching) -> Caching {
        let Caching { age, trusted, unmeasured, rest, wait, kl, meter, .. } = older;
        Caching { age, trusted, unmeasured, rest, wait, kl, meter, ..self }
    }

    /// Works out what the next step asks.
    pub(super) fn aim(&mut self, block: usize, window: Range<usize>) {
        self.step = (0, 0);
        self.window = if self.cache == Cache::Prefix { window.start..self.length } else { window };
        self.ask = if self.block != Some(block) {
            Ask::First
        } else {
            match self.cache {
                Cache::Auto { budget } => self.weigh(budget),
                _ => Ask::Window,
            }
        };
        self.block = Some(block);
    }

    fn weigh(&self, budget: f64) -> Ask {
        if budget == 0.0 {
            return Ask::Refresh;
        }
        if budget == f64::INFINITY {
            let gap = WATCH_EVERY.min(1 << self.meter.checks.min(8));
            return if self.unmeasured >= gap { Ask::Cached } else { Ask::Window };
        }
        match () {
            () if self.age < self.trusted && self.unmeasured < CHECK_EVERY => Ask::Window,
            () if self.rest > 0 => Ask::Refresh,
            () => Ask::Cached,
        }
    }

    /// What the next forward may reuse. The exact half of a check beside the decode keeps nothing, so that it changes nothing.
    pub(super) fn reuse(&self) -> Option<Reuse<'_>> {
        let part = match self.ask {
            Ask::Exact if self.is_beside() => return None,
            Ask::First | Ask::Refresh | Ask::Exact => Part::All,
            Ask::Window | Ask::Cached => Part::Window { start: self.window.start, end: self.window.end },
        };
        Some(Reuse { cell: &self.cell, part })
    }

    /// Whether the next forward is compared, and its distributions are wanted.
    pub(super) fn measures(&self) -> bool {
        matches!(self.ask, Ask::Cached | Ask::Exact)
    }

    fn is_beside(&self) -> bool {
        matches!(self.cache, Cache::Auto { budget } if budget == f64::INFINITY)
    }

    /// Keeps the cached half of a check for the exact one, and says whether it did: then this forward decides nothing.
    pub(super) fn hold(&mut self, prediction: &Prediction) -> bool {
        if self.ask != Ask::Cached || prediction.reused == 0 {
            return false; // an answer that reuses nothing is exact
        }
        self.held = Some(prediction.clone());
        self.ask = Ask::Exact;
        self.beside += 1;
        self.step.0 += 1;
        self.count(prediction);
        true
    }

    /// The check that this answer completes, if it does.
    pub(super) fn completes(&mut self) -> Option<Check> {
        Some(Check { cached: self.held.take()?, is_beside: self.is_beside() })
    }

    /// Counts a check: how far the cached answer was from the exact one, and whether the sampler would have chosen otherwise.
    pub(super) fn compared(&mut self, cached: &Prediction, exact: &Prediction, flipped: Option<bool>) -> Result<()> {
        let missing = || Error::Missing { what: "distributions" };
        let (p, q) = (exact.distributions.as_ref(), cached.distributions.as_ref());
        let (p, q) = (p.ok_or_else(missing)?, q.ok_or_else(missing)?);
        p.check()?;
        q.check()?;
        let rows = p.len().min(q.len()).max(1);
        let drift =
            ((0..p.len().min(q.len())).map(|row| kl(p.row(row), q.row(row))).sum::<f64>() / rows as f64).max(0.0);
        self.kl += drift;
        self.meter.checks += 1;
        self.meter.mean_kl = Some(self.kl / self.meter.checks as f64);
        self.meter.max_kl = Some(self.meter.max_kl.map_or(drift, |max| max.max(drift)));
        if let Some(flipped) = flipped {
            *self.meter.flips.get_or_insert(0) += usize::from(flipped);
        }
        self.unmeasured = 0;
        if let (Cache::Auto { budget }, false) = (self.cache, self.is_beside()) {
            self.learn(drift, budget);
        }
        Ok(())
    }

    /// What a drift at the next age says about the ages to come.
    fn learn(&mut self, drift: f64, budget: f64) {
        let age = self.age + 1;
        if drift <= budget {
            let grown = if drift <= budget / 4.0 { 2 * age } else { age };
            (self.trusted, self.wait, self.rest) = (self.trusted.max(grown).min(OLDEST), 1, 0);
        } else {
            self.trusted = (age - 1) / 2;
            if self.trusted == 0 {
                self.rest = self.wait;
                self.wait = (2 * self.wait).min(LONGEST_REST);
            }
        }
    }

    /// Counts a forward that decided a step.
    pub(super) fn absorbed(&mut self, prediction: &Prediction) {
        self.count(prediction);
        if prediction.reused > 0 {
            self.age += 1;
            self.unmeasured += 1;
        } else if self.is_beside() && self.ask == Ask::Exact {
            self.age += 1; // the step was decided by the cached answer
        } else {
            self.age = 0;
            self.meter.refreshes += usize::from(matches!(self.ask, Ask::Refresh | Ask::Exact));
            self.rest = if self.ask == Ask::Refresh { self.rest.saturating_sub(1) } else { self.rest };
        }
    }

    fn count(&mut self, prediction: &Prediction) {
        let is_partial = prediction.reused > 0;
        self.meter.partial_forwards += usize::from(is_partial);
        self.meter.full_forwards += usize::from(!is_partial);
        self.meter.positions += self.length;
        self.meter.computed += self.length.saturating_sub(prediction.reused);
        self.step.1 += usize::from(is_partial);
    }

    /// Forwards of this step that decided nothing, and how many of all were partial.
    pub(super) fn step(&self) -> (usize, usize) {
        self.step
    }

    pub(super) fn meter(&self) -> &CacheMeter {
        &self.meter
    }

    pub(super) fn cache(&self) -> Cache {
        self.cache
    }
}
