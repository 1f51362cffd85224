//! Where figures stand in a report.

use super::Comparison;
use crate::document::{Block, NamedFigure};

/// The figures of a report. One that is not drawn (too few points) has no place.
pub(super) struct Places<'a>(&'a [NamedFigure]);

impl<'a> Places<'a> {
    pub(super) fn new(figures: &'a [NamedFigure]) -> Places<'a> {
        Places(figures)
    }

    /// What a reader sees first: score against parallelism, of the first model.
    pub(super) fn main(&self) -> Option<Block> {
        self.named("tradeoff").next()
    }

    /// The same of every other model, and whatever else is drawn that has no place elsewhere.
    pub(super) fn other_models(&self) -> Vec<Block> {
        let stray = |figure: &&NamedFigure| !["tradeoff", "gains"].iter().any(|kind| figure.name.starts_with(kind));
        let stray = self.0.iter().filter(stray).map(NamedFigure::block);
        self.named("tradeoff").skip(1).chain(stray).collect()
    }

    /// Where the gains of a discount are.
    pub(super) fn gains(&self, comparison: &Comparison) -> Option<Block> {
        let of = super::figures::gains_name(comparison.variant);
        self.0.iter().find(|figure| figure.name == of).map(NamedFigure::block)
    }

    fn named(&self, kind: &str) -> impl Iterator<Item = Block> {
        self.0.iter().filter(move |figure| figure.name.starts_with(kind)).map(NamedFigure::block)
    }
}
