//! Where figures stand in a report, and how each is read.

use super::{Comparison, Report};
use crate::document::{Block, NamedFigure};
use crate::points::Variant;
use crate::statistics::matched::LOW_NFE;

/// The figures of a report with what is said below them. A figure that is not drawn (too few points) has no place.
pub(super) struct Captions<'a> {
    report: &'a Report,
    figures: &'a [NamedFigure],
}

impl<'a> Captions<'a> {
    pub(super) fn new(report: &'a Report, figures: &'a [NamedFigure]) -> Captions<'a> {
        Captions { report, figures }
    }

    /// What a reader sees first: score against parallelism, of the first model.
    pub(super) fn main(&self) -> Option<Block> {
        self.named("tradeoff").next()
    }

    /// The same of every other model, and whatever else is drawn that has no place elsewhere.
    pub(super) fn other_models(&self) -> Vec<Block> {
        let stray = |figure: &&NamedFigure| !["tradeoff", "gains"].iter().any(|kind| figure.name.starts_with(kind));
        let stray = self.figures.iter().filter(stray).map(|figure| self.block(figure));
        self.named("tradeoff").skip(1).chain(stray).collect()
    }

    /// Where the gains of a discount are.
    pub(super) fn gains(&self, comparison: &Comparison) -> Option<Block> {
        let of = super::figures::gains_name(comparison.variant);
        self.figures.iter().find(|figure| figure.name == of).map(|figure| self.block(figure))
    }

    fn named(&self, kind: &str) -> impl Iterator<Item = Block> {
        self.figures.iter().filter(move |figure| figure.name.starts_with(kind)).map(|figure| self.block(figure))
    }

    fn block(&self, NamedFigure { name, figure }: &NamedFigure) -> Block {
        let title = figure.title.trim_end_matches('.');
        let how = match name {
            name if name.starts_with("tradeoff") => self.tradeoff(),
            name if name.starts_with("gains") => {
                "Every cross is a matched setting: the score with the discount minus the score without it, at the same forwards. Boxes hold \
                 the middle half, with the median as a line. Above 0 the discount gets more right."
                    .into()
            }
            _ => String::new(),
        };
        Block::Figure { name: name.clone(), caption: format!("{title}. {how}").trim_end().to_owned() }
    }

    fn tradeoff(&self) -> String {
        let bars = match self.report.points.all().iter().any(|point| point.standard_error.is_some()) {
            true => " with its standard error",
            false => "",
        };
        let discounts = self.report.points.variants().iter().any(|variant| *variant != Variant::Base);
        let regime = match discounts {
            true => format!(
                " Gains are compared to the right of the line at {LOW_NFE} tokens per forward, where decoding is parallel enough to go wrong."
            ),
            false => String::new(),
        };
        format!(
            "A panel for each task. Every mark is one setting of a sampler{bars}; lines join settings of the same sampler. Further right is \
             faster: one forward fills more positions. Of two curves, the upper one gets more right at the same cost.{regime}"
        )
    }
}
