//! A language that the text must belong to, whatever a sampler commits, and in whatever order.
//!
//! The constraint stands between the model and the sampler: it replaces the proposals of a step by one filling of *all* masks that is valid
//! as a whole. Any subset of a valid filling can be completed, by the rest of it, so every sampler works unchanged.

use crate::{ClassTable, Proposal, Result, RowStats, TokenClasses, TokenId};
use std::fmt::Debug;

/// What a constraint is shown of a forward.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ConstraintView<'a> {
    /// The canvas that was asked about, with whatever a sampler revealed to look ahead. `[length]`
    pub tokens: &'a [TokenId],
    /// The mask.
    pub mask_id: TokenId,
    /// The positions of the rows, ascending; every masked position is among them. `[rows]`
    pub rows: &'a [usize],
    /// What the model says of every class. `[rows x classes]`
    pub classes: &'a ClassTable,
    /// Temperature and seed.
    pub proposal: &'a Proposal,
    /// With the seed and a position, the key of all noise.
    pub step: usize,
}

impl<'a> ConstraintView<'a> {
    /// What a forward says of a canvas, for whoever runs a constraint without a decode.
    pub fn new(
        tokens: &'a [TokenId],
        mask_id: TokenId,
        rows: &'a [usize],
        classes: &'a ClassTable,
        proposal: &'a Proposal,
        step: usize,
    ) -> ConstraintView<'a> {
        ConstraintView { tokens, mask_id, rows, classes, proposal, step }
    }
}

/// A language that the text must belong to.
pub trait Constraint: Send + Debug {
    /// The tokens it cannot tell apart; the model is asked for their statistics.
    fn classes(&self) -> &TokenClasses;

    /// Replaces the proposals of all masked positions it governs by the best filling that is valid as a whole (at a temperature: by one
    /// drawn from all valid fillings), and their statistics by those of the exact marginals given validity. `stats: [rows]`
    fn constrain(&mut self, view: &ConstraintView<'_>, stats: &mut [RowStats]) -> Result<()>;

    /// Whether some filling of the masks of this canvas is valid.
    fn is_completable(&self, tokens: &[TokenId], mask_id: TokenId) -> bool;
}
