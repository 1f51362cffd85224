//! The paper's figures: for every model, rules by tasks, with and without discount; and where the gains are.

use super::Report;
use crate::document::NamedFigure;
use crate::plot::{Axis, Dot, Figure, LOOKS, Look, Mark, Panel, Row, Scale};
use crate::points::{Key, OperatingPoint, Rule, Variant};
use crate::statistics::matched::{Gain, LOW_NFE};

const PANEL: (u32, u32) = (430, 330);

/// Every figure of a report, in the order of the page.
pub fn figures(report: &Report) -> Vec<NamedFigure> {
    let models = report
        .points
        .models()
        .into_iter()
        .map(|model| NamedFigure { name: format!("tradeoff-{}", file_name(&model)), figure: tradeoff(report, &model) });
    let gains = report.comparisons.iter().filter(|comparison| !comparison.matched.gains.is_empty()).map(|comparison| {
        NamedFigure { name: gains_name(comparison.variant), figure: gains(report, comparison.variant) }
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

/// Score against tokens per forward. Rows: every rule with and without discount, then the discounted rules against their rivals. Columns:
/// tasks. To the right of the dotted line is the regime of the matched gains.
fn tradeoff(report: &Report, model: &str) -> Figure {
    let here = |task: &String| report.points.all().iter().any(|point| point.model == model && point.task == *task);
    let tasks: Vec<String> = report.points.tasks().into_iter().filter(here).collect();
    let discounted = report.points.discounted_rules();
    let (variants, all) = (report.drawn(), report.points.rules());
    let rivals: Vec<&Rule> = all.iter().filter(|rule| !discounted.contains(rule)).collect();
    let row = |title: String, series: &[(&Rule, Variant, Look)]| {
        let panel = |(i, task): (usize, &String)| panel(report, (model, task), series, i == 0);
        Row { title, panels: tasks.iter().enumerate().map(panel).collect() }
    };
    let looks = |i: usize| LOOKS[i % LOOKS.len()];
    let mut rows = Vec::new();
    for rule in &discounted {
        let series = variants.iter().enumerate().map(|(i, variant)| (rule, *variant, looks(i)));
        rows.push(row(String::new(), &series.collect::<Vec<_>>()));
    }
    if !rivals.is_empty() {
        let variant = variants.last().copied().unwrap_or(Variant::Base);
        let own = discounted.iter().enumerate().map(|(i, rule)| (rule, variant, looks(i + 1)));
        // Open shapes for rivals, filled ones for the discounted.
        let others =
            rivals.iter().enumerate().map(|(i, rule)| (*rule, Variant::Base, looks(i + 4.max(discounted.len() + 1))));
        rows.push(row(String::new(), &own.chain(others).collect::<Vec<_>>()));
    }
    rows.retain(|row| row.panels.iter().flat_map(|panel| &panel.marks).any(|mark| matches!(mark, Mark::Dots { .. })));
    Figure { title: format!("{model}: score against parallelism"), rows, panel: PANEL }
}

fn panel(report: &Report, (model, task): (&str, &str), series: &[(&Rule, Variant, Look)], first: bool) -> Panel {
    let mut marks = vec![Mark::Upright { at: LOW_NFE }];
    let (mut xs, mut ys) = (vec![LOW_NFE], Vec::new());
    for (rule, variant, look) in series {
        let mut curve = report.points.curve(Key { model, task, rule, variant: *variant });
        curve.sort_by(|a, b| a.tokens_per_forward.total_cmp(&b.tokens_per_forward));
        let dot = |p: &&OperatingPoint| Dot { x: p.tokens_per_forward, y: p.score, error: p.standard_error };
        let dots: Vec<Dot> = curve.iter().map(dot).collect();
        xs.extend(dots.iter().map(|dot| dot.x));
        ys.extend(dots.iter().flat_map(|dot| [dot.y + dot.error.unwrap_or(0.0), dot.y - dot.error.unwrap_or(0.0)]));
        let label = rule.title() + &variant.suffix();
        if !dots.is_empty() {
            marks.push(Mark::Dots { label, look: *look, dots, joined: true });
        }
    }
    let y = Axis::around(if first { "score (%)" } else { "" }, Scale::Linear, ys).from_zero();
    Panel { title: task.into(), x: Axis::around("tokens per forward", Scale::Log2, xs), y, marks }
}

/// Every matched gain as a point over a box, by rule, by task and by model.
fn gains(report: &Report, variant: Variant) -> Figure {
    let comparison = report.comparisons.iter().find(|comparison| comparison.variant == variant);
    let gains: Vec<_> = comparison.map(|comparison| comparison.matched.gains.iter().collect()).unwrap_or_default();
    let titles = |rules: Vec<Rule>| rules.iter().map(Rule::title).collect();
    let groups: [(&str, Vec<String>); 3] = [
        ("by rule", titles(report.points.rules())),
        ("by task", report.points.tasks()),
        ("by model", report.points.models()),
    ];
    let all = || gains.iter().map(|gain| gain.gain);
    let panel = |(i, (title, names)): (usize, &(&str, Vec<String>))| {
        let mut marks = vec![Mark::Level { at: 0.0 }];
        let mut ticks = Vec::new();
        for name in names {
            let of = |gain: &&&Gain| [&gain.rule.title(), &gain.task, &gain.model][i] == name;
            let values: Vec<f64> = gains.iter().filter(of).map(|gain| gain.gain).collect();
            if values.is_empty() {
                continue;
            }
            let at = ticks.len() as f64;
            ticks.push((at, name.clone()));
            // Raw points beside the box, spread so that they can be told apart, in the order of the table.
            let spread = |i: usize| at + 0.3 + 0.22 * (i as f64 + 0.5) / values.len() as f64;
            let dots = values.iter().enumerate().map(|(i, gain)| Dot { x: spread(i), y: *gain, error: None }).collect();
            marks.push(Mark::Box { label: String::new(), look: LOOKS[0], at, values: values.clone() });
            let look = Look { shape: crate::plot::Shape::Cross, ..LOOKS[1] };
            marks.push(Mark::Dots { label: "matched gain".into(), look, dots, joined: false });
        }
        let range = (-0.5, (ticks.len() as f64 - 0.4).max(0.5));
        let x = Axis { label: String::new(), scale: Scale::Named(ticks), range };
        let y = Axis::around(if i == 0 { "gain (points)" } else { "" }, Scale::Linear, all().chain([0.0]));
        Panel { title: (*title).into(), x, y, marks }
    };
    let panels = groups.iter().enumerate().map(panel).collect();
    let title = format!("Matched-NFE gains of{}, {} operating points", variant.suffix(), gains.len());
    Figure { title, rows: vec![Row { title: String::new(), panels }], panel: (560, 420) }
}
