//! The paper's figures: for every model, rules by tasks, with and without discount; and where the gains are.

use super::Report;
use super::looks::Looks;
use crate::document::{NamedFigure, count};
use crate::plot::{Axis, Dot, ENOUGH, Figure, LOOKS, Look, Mark, Panel, Row, Scale};
use crate::points::{Key, OperatingPoint, Rule, Variant};
use crate::statistics::matched::{Gain, LOW_NFE};

/// The shape of the panels of both figures.
const TRADEOFF: (u32, u32) = (360, 290);
const GAINS: (u32, u32) = (360, 280);

/// More rivals in one panel than this cannot be followed; the others have a row of their own.
const RIVALS: usize = 4;

/// Every figure of a report that has enough points, in the order of the page.
pub fn figures(report: &Report) -> Vec<NamedFigure> {
    all(report).into_iter().filter(|(_, points)| *points >= ENOUGH).map(|(named, _)| named).collect()
}

/// Which figures there are none of, and why.
pub fn left_out(report: &Report) -> Option<String> {
    let few = all(report).into_iter().filter(|(_, points)| *points < ENOUGH);
    let few: Vec<String> = few.map(|(named, points)| format!("{} ({})", named.name, count(points, "point"))).collect();
    (!few.is_empty()).then(|| {
        format!(
            "Not drawn, because a figure of fewer than {ENOUGH} points says less than the tables: {}.",
            few.join(", ")
        )
    })
}

/// Every figure, and how many different points it shows.
fn all(report: &Report) -> Vec<(NamedFigure, usize)> {
    let looks = Looks::of(&report.points.rules());
    let models = report.points.models().into_iter().map(|model| {
        let (figure, points) = tradeoff(report, &model, &looks);
        let name = format!("tradeoff-{}", file_name(&model));
        (NamedFigure { name, caption: tradeoff_caption(report, &model), figure }, points)
    });
    let gains = report.comparisons.iter().filter(|comparison| !comparison.matched.gains.is_empty()).map(|comparison| {
        let (name, figure) = (gains_name(comparison.variant), gains(report, comparison.variant, &looks));
        let caption = gains_caption(comparison.variant);
        (NamedFigure { name, caption, figure }, comparison.matched.gains.len())
    });
    models.chain(gains).collect()
}

/// What the figure of a discount's gains is called.
pub(super) fn gains_name(variant: Variant) -> String {
    match variant {
        adas if adas == Variant::adas() => "gains".into(),
        other => format!("gains-{}", file_name(&other.to_string())),
    }
}

fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
}

/// A curve of a row.
type Series<'a> = (&'a Rule, Variant, Look);

/// Score against tokens per forward. Rows: every rule with and without discount, then the discounted rules against their rivals, a few at a
/// time. Columns: tasks. All panels have the same axes, so that places can be compared. To the right of the dashed line is the regime of the
/// matched gains. Also how many points it shows.
fn tradeoff(report: &Report, model: &str, looks: &Looks) -> (Figure, usize) {
    let here = |point: &&OperatingPoint| point.model == model;
    let tasks: Vec<String> = report.points.tasks();
    let tasks =
        tasks.into_iter().filter(|task| report.points.all().iter().filter(here).any(|point| point.task == *task));
    let tasks: Vec<String> = tasks.collect();
    let rows = tradeoff_rows(report, looks);
    let drawn = |point: &&OperatingPoint| {
        let of = |(rule, variant, _): &Series<'_>| **rule == point.sampler.rule && *variant == point.sampler.variant;
        rows.iter().flatten().any(of)
    };
    let points: Vec<&OperatingPoint> = report.points.all().iter().filter(here).filter(drawn).collect();
    let xs = points.iter().map(|point| point.tokens_per_forward).chain([LOW_NFE]);
    let ends = |point: &&OperatingPoint| {
        let error = point.standard_error.unwrap_or(0.0);
        [point.score + error, point.score - error]
    };
    let axes = (
        Axis::around("tokens per forward", Scale::Log2, xs),
        Axis::around("score (%)", Scale::Linear, points.iter().flat_map(ends)).from_zero(),
    );
    let row = |series: &Vec<Series<'_>>| {
        let panel = |task: &String| panel(report, (model, task), series, &axes);
        Row { title: String::new(), panels: tasks.iter().map(panel).collect() }
    };
    let mut rows: Vec<Row> = rows.iter().map(row).collect();
    rows.retain(|row| row.panels.iter().flat_map(|panel| &panel.marks).any(|mark| matches!(mark, Mark::Dots { .. })));
    (Figure { title: format!("{model}: score against parallelism"), rows, panel: TRADEOFF }, points.len())
}

/// The curves of every row.
fn tradeoff_rows<'a>(report: &'a Report, looks: &Looks) -> Vec<Vec<Series<'a>>> {
    // Rules in the order of the report, as long as the report.
    let all: Vec<&Rule> = report.points.rules().iter().filter_map(|rule| report.points.rule(rule)).collect();
    let discounted = report.points.discounted_rules();
    let (own, rivals): (Vec<&Rule>, Vec<&Rule>) = all.into_iter().partition(|rule| discounted.contains(rule));
    let variants = report.drawn();
    let of_rule = |rule: &&'a Rule| {
        let mut series: Vec<Series<'a>> = Vec::new();
        for variant in &variants {
            let look = unlike(&series, looks.look(rule, *variant));
            series.push((*rule, *variant, look));
        }
        series
    };
    let mut rows: Vec<Vec<Series<'a>>> = own.iter().map(of_rule).collect();
    let variant = variants.last().copied().unwrap_or(Variant::Base);
    let beside: Vec<Series<'a>> = own.iter().map(|rule| (*rule, variant, looks.look(rule, variant))).collect();
    let mut against: Vec<Vec<Series<'a>>> = Vec::new();
    for rule in rivals {
        let look = looks.look(rule, Variant::Base);
        // Whoever looks the same in black and white is in another row.
        let fits = |row: &&mut Vec<Series<'a>>| {
            let other = |(_, _, other): &Series<'a>| (other.shape, other.filled) != (look.shape, look.filled);
            row.len() < RIVALS && row.iter().all(other)
        };
        match against.iter_mut().find(fits) {
            Some(row) => row.push((rule, Variant::Base, look)),
            None => against.push(vec![(rule, Variant::Base, look)]),
        }
    }
    rows.extend(against.into_iter().map(|row| beside.iter().cloned().chain(row).collect()));
    rows
}

/// The look, with other dashes and filling if one before it is the same without colour: two rare discounts of one rule.
fn unlike(before: &[Series<'_>], look: Look) -> Look {
    use crate::plot::Stroke::{DashDot, Dashed, Dotted, Solid};
    let taken = |look: &Look| before.iter().any(|(_, _, other)| other.without_colour() == look.without_colour());
    let manners = [Dotted, Solid, Dashed, DashDot].into_iter().flat_map(|stroke| [(false, stroke), (true, stroke)]);
    let other = manners.map(|(filled, stroke)| Look { filled, stroke, ..look });
    std::iter::once(look).chain(other).find(|look| !taken(look)).unwrap_or(look)
}

fn panel(report: &Report, (model, task): (&str, &str), series: &[Series<'_>], (x, y): &(Axis, Axis)) -> Panel {
    let label = format!(
        "{LOW_NFE} tokens per forward: right of it is the paper's low-NFE regime, where gains at matched NFE are measured"
    );
    let mut marks = vec![Mark::Guide { at: LOW_NFE, label }];
    for (rule, variant, look) in series {
        let mut curve = report.points.curve(Key { model, task, rule, variant: *variant });
        curve.sort_by(|a, b| a.tokens_per_forward.total_cmp(&b.tokens_per_forward));
        let dot = |p: &&OperatingPoint| Dot { x: p.tokens_per_forward, y: p.score, error: p.standard_error };
        let dots: Vec<Dot> = curve.iter().map(dot).collect();
        let label = rule.title() + &variant.suffix();
        if !dots.is_empty() {
            marks.push(Mark::Dots { label, look: *look, dots, joined: true });
        }
    }
    Panel { title: task.into(), x: x.clone(), y: y.clone(), marks }
}

fn tradeoff_caption(report: &Report, model: &str) -> String {
    let variants: Vec<String> =
        report.drawn().into_iter().map(Variant::suffix).filter(|name| !name.is_empty()).collect();
    let rows = match variants.is_empty() {
        true => "Samplers a few at a time, so that each can be followed".to_owned(),
        false => format!(
            "Every rule without and with{}, then the discounted rules next to the others, a few at a time",
            variants.join(" and")
        ),
    };
    format!(
        "Score against tokens per forward with {model}, a column for every task: up and to the right is better. {rows}. All panels have the \
         same axes; bars are standard errors. The dashed line at {LOW_NFE} tokens per forward is where the paper's low-NFE regime begins. A \
         sampler has the same colour and marker in every figure; open and dashed without a discount."
    )
}

/// Every matched gain in a box, by rule, by task and by model.
fn gains(report: &Report, variant: Variant, looks: &Looks) -> Figure {
    let comparison = report.comparisons.iter().find(|comparison| comparison.variant == variant);
    let gains: Vec<&Gain> = comparison.map(|comparison| comparison.matched.gains.iter().collect()).unwrap_or_default();
    let y = Axis::around("gain (points)", Scale::Linear, gains.iter().map(|gain| gain.gain).chain([0.0]));
    let panel = |title: &str, groups: Vec<(String, Look, Vec<f64>)>| {
        let mut marks = vec![Mark::Level { at: 0.0 }];
        let mut ticks = Vec::new();
        for (name, look, values) in groups.into_iter().filter(|(_, _, values)| !values.is_empty()) {
            let at = ticks.len() as f64;
            ticks.push((at, format!("{name}\nn = {}", values.len())));
            marks.push(Mark::Box { label: String::new(), look, at, values });
        }
        let range = (-0.6, (ticks.len() as f64 - 0.4).max(0.6));
        let x = Axis { label: String::new(), scale: Scale::Named(ticks), range };
        Panel { title: title.into(), x, y: y.clone(), marks }
    };
    let of =
        |belongs: &dyn Fn(&Gain) -> bool| gains.iter().filter(|gain| belongs(gain)).map(|gain| gain.gain).collect();
    let by_rule = |rule: &Rule| (rule.title(), looks.look(rule, variant), of(&|gain| gain.rule == *rule));
    let by_task = |task: &String| (task.clone(), LOOKS[0], of(&|gain| gain.task == *task));
    let by_model = |model: &String| (model.clone(), LOOKS[0], of(&|gain| gain.model == *model));
    let panels = vec![
        panel("by rule", report.points.rules().iter().map(by_rule).collect()),
        panel("by task", report.points.tasks().iter().map(by_task).collect()),
        panel("by model", report.points.models().iter().map(by_model).collect()),
    ];
    let title = format!("Matched-NFE gains of{}: {}", variant.suffix(), count(gains.len(), "operating point"));
    Figure { title, rows: vec![Row { title: String::new(), panels }], panel: GAINS }
}

fn gains_caption(variant: Variant) -> String {
    format!(
        "What{} adds at the NFE of every base point with at least {LOW_NFE} tokens per forward, the same gains grouped in three ways. Boxes have \
         quartiles and median, whiskers the furthest gain within 1.5 boxes, points all others; diamonds are means. n: operating points.",
        variant.suffix()
    )
}
