//! A language that the text must belong to, whatever a sampler commits, and in whatever order.
//!
//! The constraint stands between the model and the sampler: it replaces the proposals of a step by one filling of *all* masks that is valid
//! as a whole. Any subset of a valid filling can be completed, by the rest of it, so every sampler works unchanged.

use crate::{ClassTable, Error, Pick, Prediction, Proposal, Result, RowStats, TokenClasses, TokenId};
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

/// A constraint at work in a decode: what it made of the last forward, and of the first one of the step.
#[derive(Debug)]
pub(crate) struct Constrained {
    pub(crate) constraint: Box<dyn Constraint>,
    pub(crate) stats: Vec<RowStats>, // [rows]
    filling: Vec<Filled>,            // of the step's first forward, by position
}

/// A masked position as the step's own filling has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    position: usize,
    pub(crate) stats: RowStats,
    clean: Option<f64>, // the model's own probability of its token
}

impl Constrained {
    pub(crate) fn new(constraint: Box<dyn Constraint>) -> Constrained {
        Constrained { constraint, stats: Vec::new(), filling: Vec::new() }
    }

    /// Makes of a forward's statistics those that samplers see. `is_first` of the step: its filling is kept.
    pub(crate) fn absorb(&mut self, view: &ConstraintView<'_>, prediction: &Prediction, is_first: bool) -> Result<()> {
        let (n, want) = (self.constraint.classes().len(), view.rows.len());
        self.stats.clone_from(&prediction.rows);
        if self.stats.len() != want {
            return Ok(()); // refused by whoever looks at the statistics, with its name
        }
        if view.classes.rows() != want || (want > 0 && view.classes.row(0).len() != n) {
            let (got, because) = (view.classes.rows(), "one of every class for every row");
            return Err(Error::Length { what: "classes", want, got, because });
        }
        // What a sampler reveals to look ahead may be its own idea; then it sees what the model says, and is held to the filling later.
        if is_first || self.constraint.is_completable(view.tokens, view.mask_id) {
            self.constraint.constrain(view, &mut self.stats)?;
        }
        let is_demoted = |row: &&mut RowStats| view.proposal.demote.contains(&row.token);
        for row in self.stats.iter_mut().filter(is_demoted) {
            (row.confidence, row.uncertainty) = (0.0, 1.0);
        }
        if is_first {
            let classes = self.constraint.classes();
            let clean = |r: usize, token: TokenId| {
                let of_class = classes.of(token).map(|class| view.classes.row(r)[class]);
                let known =
                    of_class.filter(|of_class| of_class.token == token).map(|of_class| of_class.log_probability.exp());
                known.or((prediction.rows[r].token == token).then_some(prediction.rows[r].confidence))
            };
            let masked = (0..want).filter(|&r| view.tokens.get(view.rows[r]) == Some(&view.mask_id));
            let filled = |r: usize| {
                let stats = self.stats[r];
                Filled { position: view.rows[r], stats, clean: clean(r, stats.token) }
            };
            self.filling = masked.map(filled).collect();
        }
        Ok(())
    }

    /// A masked position in the step's own filling.
    pub(crate) fn filled(&self, position: usize) -> Option<&Filled> {
        let at = self.filling.binary_search_by_key(&position, |filled| filled.position).ok()?;
        Some(&self.filling[at])
    }

    /// The model's own probability of a pick.
    pub(crate) fn clean_confidence(&self, pick: &Pick) -> Option<f64> {
        self.filled(pick.position).filter(|filled| filled.stats.token == pick.token)?.clean
    }

    /// Whether a token is the one that the step's own filling has there.
    pub(crate) fn agrees(&self, position: usize, token: TokenId) -> bool {
        self.filled(position).is_some_and(|filled| filled.stats.token == token)
    }
}
