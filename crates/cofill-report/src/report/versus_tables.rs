//! Tables of one variant against another, and of who is best within a budget.

use super::Report;
use crate::document::{Block, Table};
use crate::points::Variant;
use crate::statistics::bootstrap::Estimate;
use crate::statistics::budget::BUDGETS;
use crate::statistics::versus::{CellGain, Group, Versus};

/// Everything that was asked for with `Report::against`: the first comparison in sight, the others behind folds.
pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (i, versus) in report.versus.iter().enumerate() {
        let title = format!("{} against {}", contender(versus), reference(versus));
        let all = Block::Table(groups(versus));
        let cells = Block::Table(cells(versus));
        match i {
            0 => {
                blocks.push(Block::Heading(title));
                blocks.extend([all, Block::Fold { title: "The same, cell by cell".into(), blocks: vec![cells] }]);
            }
            _ => blocks.push(Block::Fold { title, blocks: vec![all, cells] }),
        }
    }
    if !report.budgets.is_empty() {
        blocks.push(Block::Heading("Best within a budget of forwards".into()));
        blocks.push(Block::Text(
            "Samplers with different parameters have no curve in common, but each can be asked for the best it does in so many forwards.".into(),
        ));
        blocks.push(Block::Fold {
            title: "Every sampler, by budget".into(),
            blocks: vec![Block::Table(budgets(report))],
        });
    }
    blocks
}

/// Who is compared with whom, in words.
pub(super) fn sides(versus: &Versus) -> (String, String) {
    (contender(versus), reference(versus))
}

fn names(variants: &[Variant]) -> String {
    let name = |variant: &Variant| match variant {
        Variant::Base => "no discount".into(),
        other => other.suffix().trim().to_owned(),
    };
    variants.iter().map(name).collect::<Vec<_>>().join(" or ")
}

fn contender(versus: &Versus) -> String {
    names(&versus.pairing.contender)
}

fn reference(versus: &Versus) -> String {
    names(&versus.pairing.reference)
}

fn signed(estimate: Option<Estimate>) -> String {
    estimate.map_or("-".into(), |Estimate { value, interval }| {
        format!("{value:+.1} [{:+.1}, {:+.1}]", interval.low, interval.high)
    })
}

fn groups(versus: &Versus) -> Table {
    let head = ["cells of", "cells", "own points", "points / out", "base points", "points / out"];
    let row = |group: &Group| {
        let pair = |(points, out): (usize, usize)| format!("{points} / {out}");
        vec![
            group.name.clone(),
            group.cells.to_string(),
            signed(group.own),
            pair(group.own_points),
            signed(group.base),
            pair(group.base_points),
        ]
    };
    let caption = Some(format!(
        "{} against {}. Gains in points at matched NFE, within one model, task and rule. Own points: every point of the first against the line \
         through the second's, the mean over cells. Base points: every point of the second against the line through the first's, the mean over \
         points. In brackets 95 % of resamples over questions; after the slash, points out of the other's range.",
        contender(versus),
        reference(versus)
    ));
    Table { caption, head: head.map(String::from).to_vec(), words: 1, rows: versus.groups.iter().map(row).collect() }
}

fn cells(versus: &Versus) -> Table {
    let head = ["model", "task", "rule", "own points", "p", "p (Holm)"];
    let p = |p: Option<f64>| p.map_or("-".into(), |p| if p < 0.001 { "< .001".into() } else { format!("{p:.3}") });
    let row = |cell: &CellGain| {
        vec![cell.model.clone(), cell.task.clone(), cell.rule.title(), signed(cell.own), p(cell.p), p(cell.p_holm)]
    };
    let caption = Some(format!(
        "{} against {}, cell by cell. p from the resamples, then after Holm's correction over all cells.",
        contender(versus),
        reference(versus)
    ));
    Table { caption, head: head.map(String::from).to_vec(), words: 3, rows: versus.cells.iter().map(row).collect() }
}

fn budgets(report: &Report) -> Table {
    // A mean over fewer models and tasks than others have would not compare with theirs.
    let places = report.budgets.iter().map(|family| family.places).max().unwrap_or(0);
    let head = ["sampler".to_owned()].into_iter().chain(BUDGETS.iter().map(|budget| format!("<= {budget}")));
    let row = |family: &crate::statistics::budget::Family| {
        let cell = |(score, reached): (&Option<f64>, &usize)| match score {
            Some(score) if family.places == places => format!("{score:.1}"),
            _ if *reached == 0 => "-".into(),
            _ => format!("[{reached} of {places}]"),
        };
        let cells = family.scores.iter().zip(&family.reached).map(cell);
        [family.name.clone()].into_iter().chain(cells).collect()
    };
    let caption = Some(
        "Best within a budget of forwards. Every sampler at its best setting within a mean number of forwards, chosen on the even questions and \
         scored on the odd ones; the mean over models and tasks. In brackets of how many of these it has a setting within the budget, where that is \
         not all."
            .into(),
    );
    Table { caption, head: head.collect(), words: 1, rows: report.budgets.iter().map(row).collect() }
}
