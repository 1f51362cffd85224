//! What a sampler sees of one forward pass.
//!
//! Two kinds of index meet here, and mixing them is the likeliest bug, so they have different types: a *position* is
//! an index in the canvas, a [`Slot`] an index among this step's candidates. Candidates ascend in position, so "ties go
//! to the lower slot" and "ties go to the lower position" are the same rule.

use crate::noise::{Purpose, Uniforms};
use crate::{Attention, Distributions, Error, Needs, Proposal, Result, RowStats, TokenId};
use std::ops::Range;

/// An index among this step's candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub usize);

/// What a sampler is told once, before the first step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The number of positions of the canvas.
    pub length: usize,
    /// |M0|: masks at the start.
    pub masks: usize,
    /// The span that blocks tile.
    pub window: Range<usize>,
    /// How many blocks there are; 1 without blocks.
    pub blocks: usize,
    /// The root of all randomness.
    pub seed: u64,
    /// Steps that were made before the canvas grew to what it is. Noise counts them, and nothing else does.
    pub first_step: usize,
}

impl Job {
    /// For samplers whose plan covers the whole canvas.
    pub fn refuse_blocks(&self, sampler: &'static str) -> Result<()> {
        match self.blocks {
            0 | 1 => Ok(()),
            blocks => Err(Error::NoBlocks { sampler, blocks }),
        }
    }
}

/// Where a step stands in the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Which block, from 0.
    pub index: usize,
    /// Steps already made in this block.
    pub step: usize,
    /// Its first position.
    pub start: usize,
    /// The first position after it. Candidates are the masks left of here.
    pub end: usize,
}

/// Statistics for some positions, and the attention among them.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Canvas positions, ascending. `[rows]`
    pub positions: &'a [usize],
    /// What the model says about each of them. `[rows]`
    pub stats: &'a [RowStats],
    /// How much each of them attends to each, if the sampler asked. `[rows x rows]`
    pub attention: Option<&'a Attention>,
}

/// One forward pass, as a sampler sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StepView<'a> {
    /// The positions that may be committed now; slots index these.
    pub candidates: Rows<'a>,
    /// Everything the sampler's [`Scope`](crate::Scope) asked for, a superset of the candidates.
    pub wide: Rows<'a>,
    /// Whole distributions, one per wide row, when asked for.
    pub distributions: Option<&'a Distributions>,
    /// The canvas this pass saw. `[length]`
    pub tokens: &'a [TokenId],
    /// The token that marks a position as open.
    pub mask_id: TokenId,
    /// The job this step belongs to.
    pub job: &'a Job,
    /// Where the step stands in the schedule.
    pub block: Block,
    /// Steps made before this one.
    pub step: usize,
    /// What the sampler had asked to be revealed for this pass; empty for the step's first pass.
    pub revealed: &'a [(Slot, TokenId)],
    /// How tokens are proposed.
    pub proposal: &'a Proposal,
}

impl StepView<'_> {
    /// |M|: the number of candidates.
    pub fn len(&self) -> usize {
        self.candidates.stats.len()
    }

    /// Whether there is nothing to choose from; never in a decode.
    pub fn is_empty(&self) -> bool {
        self.candidates.stats.is_empty()
    }

    /// Every candidate, in the order of positions.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + Clone + use<> {
        (0..self.len()).map(Slot)
    }

    /// The statistics of a candidate.
    pub fn stats(&self, slot: Slot) -> &RowStats {
        &self.candidates.stats[slot.0]
    }

    /// c of a candidate.
    pub fn confidence(&self, slot: Slot) -> f64 {
        self.stats(slot).confidence
    }

    /// Where a candidate stands in the canvas.
    pub fn position(&self, slot: Slot) -> usize {
        self.candidates.positions[slot.0]
    }

    /// The wide row of a candidate.
    pub fn row(&self, slot: Slot) -> usize {
        match self.wide.positions.len() == self.len() {
            true => slot.0,
            false => {
                self.wide.positions.binary_search(&self.position(slot)).expect("every scope contains the candidates")
            }
        }
    }

    /// p(. | candidate). `[vocab]`
    pub fn distribution(&self, slot: Slot) -> &[f32] {
        self.distributions.expect("the sampler asked for distributions").row(self.row(slot))
    }

    /// Attention among the candidates; rows and columns are slots.
    pub fn attention(&self) -> &Attention {
        self.candidates.attention.expect("the sampler asked for attention")
    }

    /// What would be proposed for a candidate from other logits than the model's, with the same noise. `[vocab]`
    pub fn propose(&self, slot: Slot, logits: impl Iterator<Item = f64>) -> Result<RowStats> {
        let mut row = self.proposal.row(self.mask_id, self.noise_step(), self.position(slot));
        row.push_wide(logits)?;
        row.finish()
    }

    /// Whether `position` is open in the canvas this pass saw.
    pub fn is_masked(&self, position: usize) -> bool {
        self.tokens[position] == self.mask_id
    }

    /// The surest candidate; ties go to the lower position.
    pub fn surest(&self) -> Slot {
        self.best(|slot| self.confidence(slot))
    }

    /// The candidate with the largest key; ties go to the lower position.
    pub fn best(&self, key: impl Fn(Slot) -> f64) -> Slot {
        let best = self.slots().reduce(|best, slot| if key(slot) > key(best) { slot } else { best });
        best.expect("a step has candidates")
    }

    /// A uniform number in (0, 1) for a candidate. It does not depend on other decodes in the batch.
    pub fn noise(&self, slot: Slot) -> f64 {
        self.noise_at(self.position(slot))
    }

    /// The same, for any position.
    pub fn noise_at(&self, position: usize) -> f64 {
        Uniforms::new(self.job.seed, Purpose::Order, self.noise_step(), position).uniform()
    }

    /// The step as noise counts it: no step of a sequence shares its noise with another.
    pub(crate) fn noise_step(&self) -> usize {
        self.job.first_step + self.step
    }

    /// The step's own random numbers; each `stream` is independent of the others.
    pub(crate) fn coin(&self, stream: usize) -> Uniforms {
        Uniforms::new(self.job.seed, Purpose::Coin, self.noise_step(), stream)
    }

    /// Refuses numbers no sampler may rank, and a view that lacks what the sampler needs. After this, samplers may
    /// index freely.
    pub(crate) fn check(&self, needs: &Needs) -> Result<()> {
        let n = self.wide.positions.len();
        if self.candidates.positions.is_empty() {
            return Err(Error::NoCandidates);
        }
        let length = |what, got, because| match got == n {
            true => Ok(()),
            false => Err(Error::Length { what, want: n, got, because }),
        };
        length("rows", self.wide.stats.len(), "one per asked position")?;
        check_stats(self.wide.stats)?;
        if needs.attention.is_some() {
            let attention = self.wide.attention.ok_or(Error::Missing { what: "attention" })?;
            length("attention", attention.len(), "one row per asked position")?;
            attention.check()?;
        }
        if needs.distributions {
            let p = self.distributions.ok_or(Error::Missing { what: "distributions" })?;
            length("distributions", p.len(), "one per asked position")?;
            p.check()?;
            if let Some(row) = self.wide.stats.iter().position(|row| row.token as usize >= p.vocab()) {
                let (token, position) = (self.wide.stats[row].token, self.wide.positions[row]);
                return Err(Error::UnknownToken { token, position, last: p.vocab() as TokenId - 1 });
            }
        }
        Ok(())
    }
}

fn check_stats(stats: &[RowStats]) -> Result<()> {
    // Rounding may carry a probability past its end; a mistake carries it further.
    const SLACK: f64 = 1e-6;
    for (index, row) in stats.iter().enumerate() {
        let fields = [
            ("confidence", row.confidence, 1.0),
            ("uncertainty", row.uncertainty, 1.0),
            ("margin", row.margin, 1.0),
            ("entropy", row.entropy, f64::INFINITY),
        ];
        for (what, value, most) in fields {
            if !value.is_finite() {
                return Err(Error::NotFinite { what, index, value });
            }
            if value < -SLACK || value > most + SLACK {
                let limit = if most == 1.0 { "between 0 and 1" } else { "0 or more (nats)" };
                return Err(Error::BadValue { what, index, value, limit });
            }
        }
        // Left at 0, it would turn ADAS off without a word.
        if (row.confidence + row.uncertainty - 1.0).abs() > 1e-3 {
            let (what, value, limit) = ("uncertainty", row.uncertainty, "1 - confidence");
            return Err(Error::BadValue { what, index, value, limit });
        }
    }
    Ok(())
}
