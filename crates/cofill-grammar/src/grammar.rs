//! A language for parts of a canvas, as the decode loop sees it.

use crate::automaton::TokenAutomaton;
use crate::fillings::{Cell, Fillings, Weight};
use crate::{Error, Result};
use cofill::{ClassStats, Constraint, ConstraintView, RowStats, TokenClasses, TokenId};
use std::ops::Range;
use std::sync::Arc;

/// Every span of a canvas holds a text of the language, followed by nothing but end tokens.
///
/// At temperature 0 the proposals are the most probable valid filling, each token by itself; above 0 they are drawn from the product of the tempered
/// distributions, given that the whole is valid. Either way the statistics are those of the clean marginals given validity:
///
/// - `confidence` is P(x = token | valid), `uncertainty` the sum over everything else;
/// - `entropy` is over all tokens;
/// - `margin` is between the likeliest two of the tokens that the classes propose, one of each class: a class's second token is not known here.
///
/// Where the language leaves one token, these are exactly 1, 0, 0 and 1.
#[derive(Debug)]
pub struct Grammar {
    automaton: Arc<TokenAutomaton>,
    spans: Vec<Range<usize>>,
    cells: Vec<Cell>,
    filling: Vec<u32>,
    fillings: Fillings,
}

impl Grammar {
    /// One text of the language in each span of the canvas. Tokens that stand there already (a template's literals) stay; a canvas that
    /// cannot be completed is refused.
    pub fn new(
        automaton: Arc<TokenAutomaton>,
        spans: Vec<Range<usize>>,
        tokens: &[TokenId],
        mask_id: TokenId,
    ) -> Result<Grammar> {
        if automaton.classes().of(mask_id).is_some() {
            return Err(Error::MaskHasText { mask_id });
        }
        let mut end = 0;
        for span in &spans {
            if span.start < end || span.end < span.start || span.end > tokens.len() {
                return Err(Error::BadSpan { span: span.clone(), length: tokens.len() });
            }
            end = span.end;
            if span.len() < automaton.shortest() {
                return Err(Error::Unsatisfiable {
                    shortest: automaton.shortest(),
                    window: span.len(),
                    span: span.clone(),
                });
            }
        }
        let grammar =
            Grammar { automaton, spans, cells: Vec::new(), filling: Vec::new(), fillings: Fillings::default() };
        grammar.check(tokens, mask_id)?;
        Ok(grammar)
    }

    /// Refuses a canvas none of whose fillings is valid.
    fn check(&self, tokens: &[TokenId], mask_id: TokenId) -> Result<()> {
        let automaton = &*self.automaton;
        let mut live = vec![false; automaton.states()];
        for span in &self.spans {
            let text = tokens.get(span.clone()).ok_or(Error::BadSpan { span: span.clone(), length: tokens.len() })?;
            live.fill(false);
            live[automaton.start as usize] = true;
            for (position, &token) in span.clone().zip(text) {
                let mut next = vec![false; live.len()];
                if token == mask_id {
                    let from = automaton.arcs.iter().zip(&live).filter(|(_, live)| **live);
                    from.flat_map(|(edges, _)| edges).for_each(|edge| next[edge.to as usize] = true);
                } else if let Some(class) = automaton.classes().of(token) {
                    let from = automaton.functions.of(class).iter().filter(|(from, _)| live[*from as usize]);
                    from.for_each(|&(_, to)| next[to as usize] = true);
                }
                if !next.contains(&true) {
                    return Err(if token == mask_id {
                        Error::NoFit { span: span.clone() }
                    } else {
                        Error::Contradiction { position, token }
                    });
                }
                live = next;
            }
            if !live.iter().zip(&automaton.accepts).any(|(live, accepts)| *live && *accepts) {
                return Err(Error::NoFit { span: span.clone() });
            }
        }
        Ok(())
    }

    /// Reads what stands in a span.
    fn read(&mut self, view: &ConstraintView<'_>, span: &Range<usize>) -> cofill::Result<()> {
        let text = view.tokens.get(span.clone()).ok_or_else(|| outside(span, view.tokens.len()))?;
        self.cells.clear();
        let mut row = view.rows.partition_point(|&position| position < span.start);
        for (position, &token) in span.clone().zip(text) {
            while view.rows.get(row).is_some_and(|&p| p < position) {
                row += 1;
            }
            self.cells.push(if token != view.mask_id {
                let class = self.automaton.classes().of(token);
                Cell::Given(class.ok_or_else(|| failed(Error::Contradiction { position, token }))? as u32)
            } else if view.rows.get(row) == Some(&position) {
                Cell::Mask(row)
            } else {
                return Err(broken("denoiser", format!("the masked position {position} has no row")));
            });
        }
        Ok(())
    }

    /// Chooses a filling of one span, without statistics. Says whether there was anything to fill.
    fn fill_span(&mut self, view: &ConstraintView<'_>, span: &Range<usize>) -> cofill::Result<bool> {
        self.read(view, span)?;
        if !self.cells.iter().any(|cell| matches!(cell, Cell::Mask(_))) {
            return Ok(false);
        }
        let Grammar { automaton, cells, filling, fillings, .. } = self;
        let row = |r: usize| view.classes.row(r);
        let found = if view.proposal.temperature > 0.0 {
            fillings.weigh(automaton, cells, Weight::Tempered, row)?;
            fillings.sum(automaton, cells);
            fillings.draw(automaton, cells, |i| view.proposal.uniforms(view.step, span.start + i), filling)
        } else {
            fillings.weigh(automaton, cells, Weight::Best, row)?;
            fillings.best(automaton, cells, filling)
        };
        if !found {
            self.check(view.tokens, view.mask_id).map_err(failed)?;
            return Err(failed(Error::NoFit { span: span.clone() }));
        }
        Ok(true)
    }

    /// The token to write for a class: the one that its row proposes, or any of the class where the row has none to propose.
    fn token(&self, class: usize, stats: &ClassStats, position: usize) -> cofill::Result<TokenId> {
        if self.classes().of(stats.token) == Some(class) {
            return Ok(stats.token);
        }
        let none = [stats.log_probability, stats.log_mass, stats.log_tempered_mass].contains(&f64::NEG_INFINITY);
        let problem = || format!("token {}, proposed for position {position}, is not of its class", stats.token);
        if none { Ok(self.automaton.samples[class]) } else { Err(broken("denoiser", problem())) }
    }

    fn constrain_span(
        &mut self,
        view: &ConstraintView<'_>,
        span: &Range<usize>,
        stats: &mut [RowStats],
    ) -> cofill::Result<()> {
        if !self.fill_span(view, span)? {
            return Ok(());
        }
        for (i, &cell) in self.cells.iter().enumerate() {
            if let Cell::Mask(r) = cell {
                let class = self.filling[i] as usize;
                stats[r].token = self.token(class, &view.classes.row(r)[class], span.start + i)?;
            }
        }
        let Grammar { automaton, cells, filling, fillings, .. } = self;
        fillings.weigh(automaton, cells, Weight::Mass, |r| view.classes.row(r))?;
        fillings.sum(automaton, cells);
        fillings.marginals(automaton, cells, |i, marginals| {
            if let Cell::Mask(r) = cells[i] {
                let token = stats[r].token;
                stats[r] = describe(automaton, view.classes.row(r), marginals, filling[i] as usize, token);
            }
        });
        Ok(())
    }

    /// The canvas as it would be filled now, without statistics, which take most of the time.
    pub fn fill(&mut self, view: &ConstraintView<'_>) -> cofill::Result<Vec<TokenId>> {
        self.check_view(view)?;
        let mut tokens = view.tokens.to_vec();
        for span in self.spans.clone() {
            if !self.fill_span(view, &span)? {
                continue;
            }
            for (i, &cell) in self.cells.iter().enumerate() {
                if let Cell::Mask(r) = cell {
                    let class = self.filling[i] as usize;
                    tokens[span.start + i] = self.token(class, &view.classes.row(r)[class], span.start + i)?;
                }
            }
        }
        Ok(tokens)
    }

    fn check_view(&self, view: &ConstraintView<'_>) -> cofill::Result<()> {
        if view.rows.is_empty() {
            return Ok(());
        }
        same_length("classes", view.rows.len(), view.classes.rows(), "one row of classes for each row")?;
        same_length("classes", self.classes().len(), view.classes.row(0).len(), "the classes of the language")
    }
}

impl Constraint for Grammar {
    fn classes(&self) -> &TokenClasses {
        self.automaton.classes()
    }

    fn constrain(&mut self, view: &ConstraintView<'_>, stats: &mut [RowStats]) -> cofill::Result<()> {
        same_length("stats", view.rows.len(), stats.len(), "one for each row")?;
        self.check_view(view)?;
        for i in 0..self.spans.len() {
            let span = self.spans[i].clone();
            self.constrain_span(view, &span, stats)?;
        }
        Ok(())
    }

    fn is_completable(&self, tokens: &[TokenId], mask_id: TokenId) -> bool {
        self.check(tokens, mask_id).is_ok()
    }
}

/// ln of the part of its class that a class's proposed token is. A class without any probability is as if all of its tokens had the same.
fn log_share(automaton: &TokenAutomaton, class: usize, stats: &ClassStats) -> f64 {
    match automaton.sizes[class] {
        1 => 0.0,
        size if stats.log_mass == f64::NEG_INFINITY => -f64::from(size).ln(),
        _ => (stats.log_probability - stats.log_mass).min(0.0),
    }
}

/// The entropy of the tokens of a class among themselves.
fn entropy_within(automaton: &TokenAutomaton, class: usize, stats: &ClassStats) -> f64 {
    match automaton.sizes[class] {
        1 => 0.0,
        size if stats.log_mass == f64::NEG_INFINITY => f64::from(size).ln(),
        _ => stats.entropy,
    }
}

/// The statistics of a position from the marginals of its classes.
fn describe(
    automaton: &TokenAutomaton,
    row: &[ClassStats],
    marginals: &[f64],
    chosen: usize,
    token: TokenId,
) -> RowStats {
    let (mut confidence, mut uncertainty, mut entropy) = (0.0, 0.0, 0.0);
    let (mut first, mut second) = (0.0f64, 0.0f64);
    for (class, (&marginal, stats)) in marginals.iter().zip(row).enumerate().filter(|(_, (m, _))| **m > 0.0) {
        if class == chosen {
            let log_share = log_share(automaton, class, stats);
            confidence = marginal * log_share.exp();
            uncertainty -= marginal * log_share.exp_m1();
        } else {
            uncertainty += marginal;
        }
        entropy += marginal * (entropy_within(automaton, class, stats) - marginal.ln());
        // A token is no likelier than its class, so that most classes need no look at theirs.
        if marginal > second {
            let likely = marginal * log_share(automaton, class, stats).exp();
            (first, second) = if likely > first { (likely, first) } else { (first, second.max(likely)) };
        }
    }
    let mut stats =
        RowStats::new(token, confidence.min(1.0)).margin((first - second).min(1.0)).entropy(entropy.max(0.0));
    stats.uncertainty = uncertainty.clamp(0.0, 1.0);
    stats
}

fn same_length(what: &'static str, want: usize, got: usize, because: &'static str) -> cofill::Result<()> {
    if want == got { Ok(()) } else { Err(cofill::Error::Length { what, want, got, because }) }
}

fn failed(error: Error) -> cofill::Error {
    cofill::Error::Constraint(Box::new(error))
}

fn broken(who: &'static str, problem: String) -> cofill::Error {
    cofill::Error::Contract { who, problem }
}

fn outside(span: &Range<usize>, length: usize) -> cofill::Error {
    failed(Error::BadSpan { span: span.clone(), length })
}
