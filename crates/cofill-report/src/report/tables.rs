//! What a report says: which tables there are, and what stands in them.

use super::ablation::{Ablation, Kind, Setting, Value};
use super::places::Places;
use super::{Comparison, Report};
use crate::document::{Block, NamedFigure, Table};
use crate::points::{OperatingPoint, Rule, Variant};
use crate::statistics::bootstrap::Interval;
use crate::statistics::budget::BestWithin;
use crate::statistics::matched::{LOW_NFE, Summary};
use crate::statistics::paired::{ENOUGH, NEAR, Paired};
use cofill::Layers;
use cofill::adas::Weight;

/// The whole report: a summary and the main figure, then what it rests on, from gains to single points and where these came from.
pub fn blocks(report: &Report, figures: &[NamedFigure]) -> Vec<Block> {
    let figures = Places::new(figures);
    let mut blocks = vec![Block::Heading("Samplers compared".into())];
    blocks.extend(super::summary::blocks(report));
    blocks.extend(figures.main());
    let mut comparisons = report.comparisons.iter();
    if let Some(first) = comparisons.next() {
        blocks.push(Block::Heading(heading(first)));
        blocks.extend(compare(report, first, &figures));
    }
    blocks.extend(super::versus_tables::blocks(report));
    blocks.extend(others(report, comparisons.as_slice(), &figures));
    blocks.extend(ablation(report));
    let rest = figures.other_models();
    if !rest.is_empty() {
        blocks.push(Block::Heading("Other models".into()));
        blocks.extend(rest);
    }
    blocks.extend(areas(report));
    blocks.extend(fronts(report));
    blocks.extend(super::figures::left_out(report).map(Block::Text));
    blocks.push(Block::Heading("Operating points".into()));
    blocks
        .push(Block::Text("Everything above is computed from these; points.csv beside the page has them, too.".into()));
    blocks.push(Block::Fold { title: "All points".into(), blocks: vec![Block::Table(points(report))] });
    if let Some(provenance) = &report.provenance {
        blocks.push(Block::Heading("Where this comes from".into()));
        blocks.extend(provenance.blocks(report.bootstrap));
    }
    blocks.extend(best_within(report));
    blocks
}

/// One line for every budget: the end of a report, and what most readers want of it.
fn best_within(report: &Report) -> Vec<Block> {
    if report.best_within.is_empty() {
        return Vec::new();
    }
    let how = "Of all settings the best within so many forwards, chosen on the even questions and scored on the odd ones, with the 95 % interval of \
               that score. A budget that is not named has the best of the one before it. `cofill tune` looks for better ones, and tests them.";
    let lines = report.best_within.iter().map(BestWithin::answer).collect();
    vec![Block::Heading("Which sampler?".into()), Block::Text(how.into()), Block::List(lines)]
}

fn heading(comparison: &Comparison) -> String {
    match comparison.matched.gains.is_empty() {
        true => format!("{} against no discount", name(comparison)),
        false => format!("Matched-NFE gains of {}", name(comparison)),
    }
}

/// How a variant is called by itself.
pub(super) fn name(comparison: &Comparison) -> String {
    comparison.variant.suffix().trim().to_owned()
}

/// Everything about one discount, under a heading or behind a fold.
fn compare(report: &Report, comparison: &Comparison, figures: &Places<'_>) -> Vec<Block> {
    let name = name(comparison);
    let mut blocks = Vec::new();
    if !comparison.matched.gains.is_empty() {
        blocks.push(Block::Text(format!(
            "For every base point with at least {LOW_NFE} tokens per forward: the score of the {name} curve at the same NFE, by linear \
             interpolation, minus the base score.",
        )));
        blocks.push(Block::Table(gains(report, comparison)));
        blocks.extend(figures.gains(comparison));
        let tables = [("Rule", &comparison.by_rule), ("Task", &comparison.by_task), ("Model", &comparison.by_model)];
        let tables = tables.map(|(what, summaries)| Block::Table(robustness(what, summaries, comparison)));
        blocks.push(Block::Fold { title: format!("Robustness of the gains of {name}"), blocks: tables.into() });
    }
    if let Some(dropped) = dropped(comparison) {
        blocks.push(Block::Fold {
            title: format!("Points without a gain: {}", comparison.matched.dropped.len()),
            blocks: vec![Block::Text(dropped)],
        });
    }
    if !comparison.paired.is_empty() {
        blocks.push(Block::Fold {
            title: format!("{name}, question by question"),
            blocks: vec![Block::Table(paired(comparison))],
        });
    }
    blocks
}

/// Every other discount: a row each, and everything about it behind a fold.
fn others(report: &Report, comparisons: &[Comparison], figures: &Places<'_>) -> Vec<Block> {
    if comparisons.is_empty() {
        return Vec::new();
    }
    let row = |comparison: &Comparison| robustness_row(&Summary { name: name(comparison), ..comparison.all.clone() });
    let caption = "Gains of every other discount over none. Each discount against the same rule without it at equal NFE, the mean over its \
                   matched points; the interval is over these points. Rows rest on different points, so compare them only by the ablations."
        .to_owned();
    let head = ["Discount", "Matched points", "Mean gain", "95 % interval", "Positive / negative"];
    let table = Table {
        caption: Some(caption),
        head: head.map(str::to_owned).into(),
        rows: comparisons.iter().map(row).collect(),
        words: 1,
    };
    let mut blocks = vec![Block::Heading("Other discounts".into()), Block::Table(table)];
    let fold = |comparison| Block::Fold { title: heading(comparison), blocks: compare(report, comparison, figures) };
    blocks.extend(comparisons.iter().map(fold));
    blocks
}

/// The models for which there are gains, in order.
pub(super) fn models(report: &Report, comparison: &Comparison) -> Vec<String> {
    let has = |model: &String| comparison.cells.iter().any(|cell| cell.model == *model);
    report.points.models().into_iter().filter(has).collect()
}

/// The rules for which there are gains, in order.
pub(super) fn rules(report: &Report, comparison: &Comparison) -> Vec<Rule> {
    let has = |rule: &Rule| comparison.cells.iter().any(|cell| cell.rule == *rule);
    report.points.rules().into_iter().filter(has).collect()
}

/// The tasks for which there are gains, in order.
pub(super) fn tasks(report: &Report, comparison: &Comparison) -> Vec<String> {
    let has = |task: &String| comparison.cells.iter().any(|cell| cell.task == *task);
    report.points.tasks().into_iter().filter(has).collect()
}

/// The paper's table: tasks by rules, models in a cell, and means of cells around them.
pub(super) fn gains(report: &Report, comparison: &Comparison) -> Table {
    let (models, rules) = (models(report, comparison), rules(report, comparison));
    let joined = |gain: &dyn Fn(&String) -> Option<f64>| {
        models.iter().map(|model| signed(gain(model))).collect::<Vec<_>>().join(" / ")
    };
    let mut head = vec!["Task".to_owned()];
    head.extend(rules.iter().map(Rule::title));
    head.push("Avg. over methods".into());
    let mut rows = Vec::new();
    for task in tasks(report, comparison) {
        let mut row = vec![task.clone()];
        row.extend(rules.iter().map(|rule| joined(&|model| comparison.cell(model, &task, rule))));
        row.push(joined(&|model| comparison.mean_of_cells(|cell| cell.model == *model && cell.task == task)));
        rows.push(row);
    }
    let mut last = vec!["Avg. over datasets".to_owned()];
    for rule in &rules {
        last.push(joined(&|model| comparison.mean_of_cells(|cell| cell.model == *model && cell.rule == *rule)));
    }
    last.push(joined(&|model| comparison.mean_of_cells(|cell| cell.model == *model)));
    rows.push(last);
    let several = match &models[..] {
        [_] => String::new(),
        models => format!(" Cells read as {}.", models.join(" / ")),
    };
    let caption = format!(
        "Matched-NFE gains of {} in points. Above 0, the discount gets more right with the same forwards; the last row and column are means of \
         cells.{several}",
        name(comparison)
    );
    Table { caption: Some(caption), head, rows, words: 1 }
}

/// A row of the paper's robustness tables: name, points, mean, interval, wins and losses.
pub(super) fn robustness_row(summary: &Summary) -> Vec<String> {
    vec![
        summary.name.clone(),
        summary.points.to_string(),
        signed(summary.mean.map(|mean| mean.value)),
        summary.mean.map_or("-".into(), |mean| interval(mean.interval)),
        format!("{} / {}", summary.wins, summary.losses),
    ]
}

fn robustness(what: &str, summaries: &[Summary], comparison: &Comparison) -> Table {
    let head = [what, "Matched points", "Mean gain", "95 % interval", "Positive / negative"].map(str::to_owned).into();
    let caption = format!(
        "Gains of {} by {}. Intervals are over operating points: how stable gains are across settings, not whether one of them is chance.",
        name(comparison),
        what.to_lowercase()
    );
    let rows = summaries.iter().chain([&comparison.all]).map(robustness_row).collect();
    Table { caption: Some(caption), head, rows, words: 1 }
}

/// Who was left out, by rule.
fn dropped(comparison: &Comparison) -> Option<String> {
    let dropped = &comparison.matched.dropped;
    if dropped.is_empty() {
        return None;
    }
    let list = dropped.iter().map(|d| {
        let (low, high) = d.range;
        let rule = d.rule.title();
        format!(
            "{} {} {rule} {} (NFE {:.2}; the curve goes from {low:.2} to {high:.2})",
            d.model, d.task, d.param, d.nfe
        )
    });
    let all = dropped.len() + comparison.matched.gains.len();
    Some(format!(
        "{} of {all} base points of the low-NFE regime lie outside the range of the{} curve and are left out: {}. Points of that curve with \
         a larger parameter would bring them in.",
        dropped.len(),
        comparison.variant.suffix(),
        list.collect::<Vec<_>>().join("; "),
    ))
}

fn paired(comparison: &Comparison) -> Table {
    let (tests, name) = (&comparison.paired, name(comparison));
    let caption = format!(
        "{name} and no discount on the same questions. Gain: at the base point's NFE. McNemar's exact test compares with the nearest {name} \
         point, if its NFE is within {:.0} %: how many questions only one of both got right; corrected after Holm for {} tests. Interval and p \
         (bootstrap) are over questions, each drawn with its scores and its forwards, and stand only where at least {ENOUGH} questions differ \
         between the base point and the nearest {name} point: with fewer, no two-sided test of them reaches p < 0.05.",
        100.0 * NEAR,
        tests.iter().filter(|test| test.mcnemar.is_some()).count(),
    );
    let head = [
        "Model",
        "Task",
        "Sampler",
        "NFE",
        "n",
        "Gain",
        "Differ",
        "95 % interval",
        "p (bootstrap)",
        "Only base / only +AD",
        "At NFE",
        "p (McNemar)",
        "p (Holm)",
    ];
    let row = |test: &Paired| {
        let exact = test.mcnemar.as_ref();
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        vec![
            test.model.clone(),
            test.task.clone(),
            format!("{} {}", test.rule.title(), test.param),
            format!("{:.2}", test.nfe),
            test.n.to_string(),
            signed(Some(test.gain)),
            test.differing.to_string(),
            or_none(test.interval.map(interval)),
            or_none(test.p_bootstrap.map(p_value)),
            or_none(exact.map(|exact| format!("{} / {}", exact.only_base, exact.only_discounted))),
            or_none(exact.map(|exact| format!("{:.2}", exact.nfe))),
            or_none(exact.map(|exact| p_value(exact.p))),
            or_none(test.p_holm.map(p_value)),
        ]
    };
    let rows = tests.iter().map(row).collect();
    Table { caption: Some(caption), head: head.map(str::to_owned).into(), rows, words: 3 }
}

/// The paper's ablations, a table each.
fn ablation(report: &Report) -> Vec<Block> {
    if report.ablations.is_empty() {
        return Vec::new();
    }
    let table = |ablation: &Ablation| {
        let caption = format!(
            "Scores in percent by {}. {}; at the same parameter, whatever NFE that takes.",
            varied(ablation.kind),
            ablation.place()
        );
        Table { caption: Some(caption), ..ablation_table(ablation, &Names { value, setting }) }
    };
    let fold = |ablation: &Ablation| Block::Fold {
        title: format!("Scores by {}", varied(ablation.kind)),
        blocks: vec![Block::Table(table(ablation))],
    };
    let text = "One setting of the discount is varied, everything else held.";
    let mut blocks = vec![Block::Heading("Ablations".into()), Block::Text(text.into())];
    blocks.extend(report.ablations.iter().map(fold));
    blocks
}

/// What an ablation varies, in words.
pub(super) fn varied(kind: Kind) -> &'static str {
    match kind {
        Kind::Alpha => "strength of the discount",
        Kind::Layer => "layer of the attention",
        Kind::Weight => "weight of the discount",
    }
}

/// How values and settings are called: differently in LaTeX.
pub(super) struct Names {
    pub(super) value: fn(Value) -> String,
    /// Given what stands before it.
    pub(super) setting: fn(&str, &Setting) -> String,
}

fn setting(prefix: &str, setting: &Setting) -> String {
    format!("{prefix}{} {}{}", setting.rule.title(), setting.param, setting.held)
}

fn value(value: Value) -> String {
    match value {
        Value::Alpha(alpha) => format!("α = {alpha}"),
        Value::Weight(Weight::Chosen) => "Selected token's uncertainty, 1 − c_s".into(),
        Value::Weight(Weight::Mean) => "Mean uncertainty of masks, 1 − c_mask".into(),
        Value::NoDiscount => NO_DISCOUNT.into(),
        Value::Layer(layers) => layer_name(layers),
    }
}

/// What selects where there is no discount.
pub(super) const NO_DISCOUNT: &str = "Confidence, no discount";

pub(super) fn layer_name(layers: Layers) -> String {
    match layers {
        Layers::First => "First-layer attention".into(),
        Layers::Middle => "Middle-layer attention".into(),
        Layers::Last => "Final-layer attention".into(),
        Layers::Learned => "Learned influence".into(),
        other => format!("Attention of layer {other}"),
    }
}

/// As in the paper: strengths beside each other, layers and weights below each other. The means, if any, are the last row or column.
pub(super) fn ablation_table(ablation: &Ablation, names: &Names) -> Table {
    let score = |score: &Option<f64>| score.map_or("-".into(), |score| format!("{score:.2}"));
    let first = match ablation.kind {
        Kind::Alpha => "Setting",
        Kind::Layer => "Selection rule",
        Kind::Weight => "Uncertainty weighting term",
    };
    let mut head = vec![first.to_owned()];
    head.extend(ablation.values.iter().map(|value| (names.value)(*value)));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for setting in &ablation.settings {
        let name = (names.setting)(&ablation.prefix(setting), setting);
        rows.push(std::iter::once(name).chain(setting.scores.iter().map(score)).collect());
    }
    if let Some((n, means)) = ablation.average() {
        let means = means.iter().map(|mean| format!("{mean:.2}"));
        rows.push(std::iter::once(format!("Average over {n} settings")).chain(means).collect());
    }
    if ablation.kind == Kind::Alpha {
        return Table { caption: None, head, rows, words: 1 };
    }
    let turned = |i: usize| std::iter::once(&head).chain(&rows).map(|row| row[i].clone()).collect();
    Table { caption: None, head: turned(0), rows: (1..head.len()).map(turned).collect(), words: 1 }
}

fn areas(report: &Report) -> Vec<Block> {
    let tasks = report.points.tasks();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for model in report.points.models() {
        for rule in report.points.rules() {
            for variant in std::iter::once(Variant::Base).chain(report.points.variants()) {
                let area = |task: &String| {
                    let here =
                        |a: &&super::Area| (&a.model, &a.task, &a.rule, &a.variant) == (&model, task, &rule, &variant);
                    report.aup.iter().find(here).map(|area| area.aup)
                };
                let areas: Vec<Option<f64>> = tasks.iter().map(area).collect();
                if areas.iter().any(Option::is_some) {
                    let mut row = vec![model.clone(), rule.title() + &variant.suffix()];
                    row.extend(areas.into_iter().map(|area| area.map_or("-".into(), |area| format!("{area:.1}"))));
                    rows.push(row);
                }
            }
        }
    }
    let mut head: Vec<String> = ["Model", "Sampler"].map(str::to_owned).into();
    head.extend(tasks);
    let what = "The area under accuracy by tokens per forward, as d3LLM defines it. It leaves out points more than 5 below the least parallel \
                one, so it shows how far a sampler goes without loss, and nothing of what comes after.";
    let caption = "AUP of every sampler, by task. More is better; a dash where a sampler has no points.";
    let table = Table { caption: Some(caption.into()), head, rows, words: 2 };
    vec![
        Block::Heading("Accuracy under parallelism (AUP)".into()),
        Block::Text(what.into()),
        Block::Fold { title: "AUP by sampler and task".into(), blocks: vec![Block::Table(table)] },
    ]
}

fn fronts(report: &Report) -> Vec<Block> {
    let mut rows = Vec::new();
    for front in &report.pareto {
        for on in &front.points {
            let numbers = [format!("{:.2}", on.nfe), format!("{:.2}", on.score)];
            let words = [front.model.clone(), front.task.clone(), on.sampler.clone()];
            rows.push(words.into_iter().chain(numbers).collect());
        }
    }
    let head = ["Model", "Task", "Sampler", "NFE", "Score"].map(str::to_owned).into();
    let caption = "Points on the Pareto front. By model and task, from few forwards to many: each costs more than the one above it, and scores \
                   more.";
    let table = Table { caption: Some(caption.into()), head, rows, words: 3 };
    vec![
        Block::Heading("Pareto front".into()),
        Block::Text("Points that no other beats in both score and forwards.".into()),
        Block::Fold { title: "Points on the front".into(), blocks: vec![Block::Table(table)] },
    ]
}

fn points(report: &Report) -> Table {
    let head = ["Model", "Task", "Sampler", "n", "Score", "± SE", "NFE", "Tokens/forward", "Useful tokens/s"];
    let row = |p: &OperatingPoint| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        vec![
            p.model.clone(),
            p.task.clone(),
            p.sampler.to_string(),
            or_none(p.n.map(|n| n.to_string())),
            format!("{:.2}", p.score),
            or_none(p.standard_error.map(|error| format!("{error:.2}"))),
            format!("{:.2}", p.nfe),
            format!("{:.2}", p.tokens_per_forward),
            or_none(p.useful_per_second.map(|speed| format!("{speed:.1}"))),
        ]
    };
    let caption = "Operating points. Scores in percent with their standard errors (SE); n: questions; NFE: forwards per question; useful tokens \
                   are those before the end of text; a dash where a number is not known.";
    Table {
        caption: Some(caption.into()),
        head: head.map(str::to_owned).into(),
        rows: report.points.all().iter().map(row).collect(),
        words: 3,
    }
}

/// Points with their sign, `+1.50`; a dash where there are none.
pub(super) fn signed(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:+.2}"))
}

/// Both ends with their sign: `[+1.00, +2.00]`.
pub(super) fn interval(Interval { low, high }: Interval) -> String {
    format!("[{low:+.2}, {high:+.2}]")
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".into() } else { format!("{p:.3}") }
}
