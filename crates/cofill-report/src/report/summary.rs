//! A report in words: what was compared, what came of it, and how sure that is. Every sentence is made from the numbers of the tables below it,
//! and says so where they show nothing.

use super::tables::{interval, name, signed};
use super::{Comparison, Report};
use crate::document::{Block, Table, count};
use crate::points::OperatingPoint;
use crate::statistics::bootstrap::Estimate;
use crate::statistics::budget::{BUDGETS, Family, budgets};
use crate::statistics::matched::{LOW_NFE, Summary};
use crate::statistics::versus::Versus;
use std::collections::BTreeSet;

/// With fewer settings, an interval over them says next to nothing.
const FEW: usize = 3;

/// Below this, a difference is called significant.
const LEVEL: f64 = 0.05;

/// Names that are listed before the rest is only counted.
const LISTED: usize = 6;

/// From what was compared to the warnings.
pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Text(about(report)), Block::List(findings(report))];
    blocks.extend(report.warnings.iter().map(|warning| Block::Text(format!("Warning: {warning}."))));
    blocks.extend(winners(report).map(Block::Table));
    blocks
}

/// What was compared.
fn about(report: &Report) -> String {
    let points = report.points.all();
    let families: BTreeSet<String> = points.iter().map(family).collect();
    let asked: Vec<usize> = points.iter().filter_map(|point| point.n).collect();
    let questions = match (asked.iter().min(), asked.iter().max()) {
        (Some(low), Some(high)) if low == high => format!(", {} each", count(*low, "question")),
        (Some(low), Some(high)) => format!(", {low} to {high} questions each"),
        _ => String::new(),
    };
    let tasks = tasks(report);
    format!(
        "{} on {} ({}) and {} ({}): {}{questions}. An operating point is a sampler at one setting: its score in percent, and \
         the forwards that an answer took (NFE).",
        count(families.len(), "sampler"),
        count(report.points.models().len(), "model"),
        listed(&report.points.models()),
        tasks.0,
        tasks.1,
        count(points.len(), "operating point"),
    )
}

/// How many tasks there are, and which. Of those that were run in several ways, the names without what tells the ways apart.
fn tasks(report: &Report) -> (String, String) {
    let all = report.points.tasks();
    let mut names: Vec<String> = Vec::new();
    for task in &all {
        let name = plain_name(task).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let ways = if names.len() < all.len() { format!(", run in {} ways", all.len()) } else { String::new() };
    (count(names.len(), "task") + &ways, listed(&names))
}

/// A task without what tells it apart from the same task run in another way.
fn plain_name(task: &str) -> &str {
    task.split_once(" (").map_or(task, |(name, _)| name)
}

fn family(point: &OperatingPoint) -> String {
    point.sampler.rule.title() + &point.sampler.variant.suffix()
}

fn listed(names: &[String]) -> String {
    match names.len() {
        n if n > LISTED => format!("{} and {} more", names[..LISTED].join(", "), n - LISTED),
        _ => names.join(", "),
    }
}

/// What came of it.
fn findings(report: &Report) -> Vec<String> {
    let mut findings = Vec::new();
    match report.comparisons.first() {
        Some(comparison) if !comparison.matched.gains.is_empty() => {
            findings.push(gain(comparison));
            findings.extend(extremes(comparison));
            findings.extend(tests(comparison));
        }
        Some(comparison) => {
            findings.push(format!(
                "{} has no point that could be compared with no discount at equal forwards.",
                name(comparison)
            ));
            findings.extend(tests(comparison));
        }
        None => findings.push(
            "No sampler was run both with and without a discount, so no gain can be stated; scores and forwards are below."
                .into(),
        ),
    }
    findings.extend(report.versus.iter().filter_map(versus));
    findings
}

/// The mean gain, with its interval and what that means.
fn gain(comparison: &Comparison) -> String {
    let Summary { points, mean, wins, losses, .. } = &comparison.all;
    let ties = points - wins - losses;
    let Some(mean) = mean else { return String::new() };
    let sure = match (mean.interval.low > 0.0, mean.interval.high < 0.0) {
        _ if *points < FEW => "too few settings for the interval to mean much",
        (true, _) => "the whole interval lies above 0",
        (_, true) => "the whole interval lies below 0: a loss",
        _ => "not significant: the interval holds 0",
    };
    let ties = if ties > 0 { format!(", {ties} equal") } else { String::new() };
    format!(
        "{} over no discount, at equal forwards and {LOW_NFE} or more tokens per forward: {} points on average over {} (95 % interval {} \
         over settings; {sure}). {wins} better, {losses} worse{ties}.",
        name(comparison),
        signed(Some(mean.value)),
        count(*points, "setting"),
        interval(mean.interval),
    )
}

/// On which task it does the most, and on which the least.
fn extremes(comparison: &Comparison) -> Option<String> {
    let mean = |summary: &&Summary| summary.mean.map_or(f64::NAN, |mean| mean.value);
    let by = |a: &&Summary, b: &&Summary| mean(a).total_cmp(&mean(b));
    let tasks = || comparison.by_task.iter().filter(|summary| summary.mean.is_some());
    let (most, least) = (tasks().max_by(by)?, tasks().min_by(by)?);
    if most.name == least.name {
        return None;
    }
    let told_apart = |name: &str| tasks().filter(|other| plain_name(&other.name) == name).count() > 1;
    let of = |summary: &Summary| {
        let short = plain_name(&summary.name);
        format!(
            "{} ({} over {})",
            if told_apart(short) { &summary.name } else { short },
            signed(summary.mean.map(|m| m.value)),
            count(summary.points, "setting")
        )
    };
    Some(format!("It does the most on {} and the least on {}.", of(most), of(least)))
}

/// How many gains are more than chance, over the same questions.
fn tests(comparison: &Comparison) -> Option<String> {
    let tested: Vec<_> = comparison.paired.iter().filter_map(|test| test.mcnemar.as_ref().zip(test.p_holm)).collect();
    if tested.is_empty() {
        return None;
    }
    let significant = tested.iter().filter(|(_, p)| *p < LEVEL);
    let better = significant.clone().filter(|(exact, _)| exact.only_discounted > exact.only_base).count();
    let worse = significant.count() - better;
    let said = match (better, worse) {
        (0, 0) => "none is significant".into(),
        _ => format!(
            "{better} significantly better, {worse} significantly worse, {} not significant",
            tested.len() - better - worse
        ),
    };
    Some(format!(
        "Over the same questions, setting by setting ({}, p < {LEVEL} after Holm's correction): {said}.",
        count(tested.len(), "paired test")
    ))
}

/// One variant against another, over questions.
fn versus(versus: &Versus) -> Option<String> {
    let Estimate { value, interval: range } = versus.groups.first()?.own?;
    let sure = match (range.low > 0.0, range.high < 0.0) {
        (true, _) => "more than chance",
        (_, true) => "a loss, and more than chance",
        _ => "not significant: the interval holds 0",
    };
    let (contender, reference) = super::versus_tables::sides(versus);
    Some(format!(
        "{contender} over {reference}, over questions: {} points at its own settings (95 % interval {}; {sure}).",
        signed(Some(value)),
        interval(range),
    ))
}

/// Who is best within how many forwards, and who without a discount.
fn winners(report: &Report) -> Option<Table> {
    let families = if report.budgets.is_empty() { budgets(&report.points) } else { report.budgets.clone() };
    let places = families.iter().map(|family| family.places).max()?;
    // A mean over fewer models and tasks than others have would not compare with theirs.
    let families: Vec<&Family> = families.iter().filter(|family| family.places == places).collect();
    let plain: BTreeSet<String> = report.points.rules().iter().map(crate::points::Rule::title).collect();
    let best = |budget: usize, among: &dyn Fn(&Family) -> bool| -> Option<(f64, String)> {
        let scores = families.iter().filter(|family| among(family));
        let scores = scores.filter_map(|family| Some((family.scores[budget]?, family.name.as_str())));
        let best = scores.clone().map(|(score, _)| score).max_by(f64::total_cmp)?;
        let names: Vec<&str> = scores.filter(|(score, _)| best - score < 0.05).map(|(_, name)| name).collect();
        let names = match names.len() {
            n if n > 3 => format!("{} and {} more", names[..3].join(", "), n - 3),
            _ => names.join(", "),
        };
        Some((best, names))
    };
    let row = |(i, budget): (usize, &f64)| {
        let (score, who) = best(i, &|_| true)?;
        let without = best(i, &|family| plain.contains(&family.name));
        let (other, rival) = without.map_or(("-".into(), "-".into()), |(score, name)| (format!("{score:.1}"), name));
        Some(vec![format!("{budget} forwards"), who, rival, format!("{score:.1}"), other])
    };
    let rows: Vec<Vec<String>> = BUDGETS.iter().enumerate().filter_map(row).collect();
    let head = ["At most", "Best sampler", "Best without discount", "Score", "Without"];
    let on = if places == 1 { String::new() } else { format!(", the mean over {places} pairs of model and task") };
    let ways = match report.points.tasks().iter().any(|task| plain_name(task) != task) {
        true => {
            " Where a task was run in several ways (with a companion, a trained head), every sampler counts as it was run."
        }
        false => "",
    };
    let caption = format!(
        "Who is best within a budget of forwards. Every sampler at its best setting, chosen on the even questions and scored in percent on the odd \
         ones{on}. The last column is the score of the best without discount.{ways} Differences in this table are not tested; the paired tests below are."
    );
    (rows.len() > 1).then(|| Table { caption: Some(caption), head: head.map(str::to_owned).into(), rows, words: 3 })
}
