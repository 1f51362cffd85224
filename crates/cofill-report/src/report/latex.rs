//! The paper's tables in the paper's layout: matched gains, robustness by stopping rule and by dataset, ablations, detailed results.

use super::ablation::{Ablation, Kind, Setting, Value};
use super::tables::{NO_DISCOUNT, Names, ablation_table, gains, layer_name, models, robustness_row, varied};
use super::{Comparison, Report};
use crate::document::Table;
use crate::document::latex::{Float, Line, Tables, escaped, label};
use crate::points::{Key, OperatingPoint, Parameter, Rule, Variant};
use crate::statistics::matched::Summary;
use crate::tuned::score_text;
use cofill::adas::Weight;

/// All of them. The document that takes them in needs the packages `booktabs` and `makecell`, as the first lines say.
pub fn tables(report: &Report) -> Tables {
    let preamble = vec![
        "% \\usepackage{booktabs,makecell}".to_owned(),
        "\\providecommand{\\rescell}[2]{\\makecell{\\textbf{#1} \\\\ \\scriptsize #2}}".to_owned(),
    ];
    let mut tables = Vec::new();
    // The paper's discount comes first. Others are compared by the ablations.
    if let Some(comparison) = report.comparisons.iter().find(|comparison| !comparison.matched.gains.is_empty()) {
        tables.push(matched_gains(report, comparison));
        tables.push(robustness(report, comparison, "Method family", &comparison.by_rule, "rule"));
        tables.push(robustness(report, comparison, "Dataset", &comparison.by_task, "dataset"));
    }
    tables.extend(report.ablations.iter().map(ablation));
    for model in report.points.models() {
        tables.extend(report.points.rules().iter().filter_map(|rule| detailed(report, &model, rule)));
    }
    tables.extend(best_within(report));
    Tables { preamble, tables }
}

/// Which sampler is best within so many forwards.
fn best_within(report: &Report) -> Option<Float> {
    let mut lines =
        vec![Line::cells(["Model", "Dataset", "Forwards at most", "Sampler", "Score", "Forwards"]), Line::Rule];
    lines.extend(report.best_within.iter().map(|best| {
        let numbers =
            [best.budget.to_string(), best.sampler.clone(), score_text(&best.score), format!("{:.1}", best.nfe)];
        Line::texts([best.model.clone(), best.task.clone()].into_iter().chain(numbers))
    }));
    let caption = "The best setting within a budget of forwards, chosen on the even questions and scored on the odd ones (95\\% interval).";
    let float = Float { label: Some("best-within".into()), ..Float::new(caption, "llrlrr", lines) };
    Some(float).filter(|_| !report.best_within.is_empty())
}

/// Text with the paper's own spelling of a rule.
fn text(text: &str) -> String {
    escaped(text).replace("Top-k", "Top-$k$")
}

fn texts(row: &[String]) -> Line {
    Line::cells(row.iter().map(|field| text(field)))
}

fn matched_gains(report: &Report, comparison: &Comparison) -> Float {
    let table = gains(report, comparison);
    let head = table.head.iter().map(|name| match name.as_str() {
        "Task" => "Dataset".into(),
        name => text(name).replace("EB-Sampler", "EB"),
    });
    let mut lines = vec![Line::cells(head), Line::Rule];
    lines.extend(table.rows.iter().map(|row| texts(row)));
    // The means over datasets are the last row.
    lines.insert(lines.len() - 1, Line::Rule);
    let models = text(&models(report, comparison).join(" / "));
    let caption = format!(
        "Matched-NFE absolute gains of {} in the low-NFE regime, reported as {models} percentage points.",
        discount(comparison)
    );
    let columns = format!("l{}", "c".repeat(table.head.len() - 1));
    let label = format!("matched-nfe-gains{}", suffix(comparison));
    Float { label: Some(label), ..Float::new(caption, columns, lines) }
}

fn robustness(report: &Report, comparison: &Comparison, what: &str, summaries: &[Summary], by: &str) -> Float {
    let interval = "\\makecell{95\\% bootstrap\\\\interval}";
    let mut lines =
        vec![Line::cells([what, "Matched points", "Mean gain", interval, "Positive / negative"]), Line::Rule];
    lines.extend(summaries.iter().map(|summary| texts(&robustness_row(summary))));
    lines.extend([Line::Rule, texts(&robustness_row(&comparison.all))]);
    let caption = format!(
        "Robustness of gains of {} across matched operating points. Gains are absolute differences in percentage points after matching by NFE. \
         Bootstrap intervals use {} operating-point resamples.",
        discount(comparison),
        report.bootstrap.resamples
    );
    let label = format!("robustness-by-{by}{}", suffix(comparison));
    Float { label: Some(label), ..Float::new(caption, "lcccc", lines) }
}

/// One of the paper's three; the best strength on average is bold, or the best value of every setting.
fn ablation(ablation: &Ablation) -> Float {
    let Table { head, mut rows, .. } = ablation_table(ablation, &Names { value: ablated, setting });
    // Where strengths have a mean, it is the row after the settings.
    match ablation.kind {
        Kind::Alpha => bold_best(rows.iter_mut().skip(ablation.settings.len()).flat_map(|row| &mut row[1..])),
        _ => (1..head.len()).for_each(|i| bold_best(rows.iter_mut().map(|row| &mut row[i]))),
    }
    let columns = format!("l{}", "c".repeat(head.len() - 1));
    let mut lines = vec![Line::Cells(head), Line::Rule];
    for (i, row) in rows.into_iter().enumerate() {
        lines.extend((i == ablation.settings.len() && ablation.kind == Kind::Alpha).then_some(Line::Rule));
        lines.push(Line::Cells(row));
    }
    let (what, label) = match ablation.kind {
        Kind::Alpha => (" No discount is $\\alpha=0$.", "alpha"),
        Kind::Layer => ("", "attention-source"),
        Kind::Weight => ("", "uncertainty-weight"),
    };
    let place = text(&ablation.place());
    let caption = format!("Scores (\\%) by {} at equal parameters, {place}.{what}", varied(ablation.kind));
    Float { label: Some(format!("{label}-ablation")), ..Float::new(caption, columns, lines) }
}

/// The name of a setting: `Top-$k$, $k=8$`.
fn setting(prefix: &str, setting: &Setting) -> String {
    let (prefix, held) = (text(prefix), text(&setting.held));
    let (name, param) = (text(&setting.rule.title()), text(&setting.param.to_string()));
    match symbol(&setting.rule) {
        None => format!("{prefix}{name} {param}{held}"),
        Some(symbol) => format!("{prefix}{name}, ${symbol}={param}${held}"),
    }
}

fn ablated(value: Value) -> String {
    match value {
        Value::Alpha(alpha) => format!("$\\alpha={alpha}$"),
        Value::Weight(Weight::Chosen) => "Selected-token uncertainty $1-c_s$".into(),
        Value::Weight(Weight::Mean) => "Average masked-position uncertainty $1-c_{\\mathrm{mask}}$".into(),
        Value::NoDiscount => NO_DISCOUNT.into(),
        Value::Layer(layers) => layer_name(layers),
    }
}

fn bold_best<'a>(fields: impl Iterator<Item = &'a mut String>) {
    let fields: Vec<&mut String> = fields.collect();
    let score = |field: &str| field.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
    let best = fields.iter().map(|field| score(field)).fold(f64::NEG_INFINITY, f64::max);
    for field in fields {
        if best.is_finite() && score(field) == best {
            *field = format!("\\textbf{{{field}}}");
        }
    }
}

/// Score and NFE of every parameter, with and without discount, side by side for every task; none where a model has no point of the rule.
fn detailed(report: &Report, model: &str, rule: &Rule) -> Option<Float> {
    let shown = report.shown();
    let curve = |task: &str, variant: Variant| report.points.curve(Key { model, task, rule, variant });
    let here = |point: &&OperatingPoint| {
        point.model == model && point.sampler.rule == *rule && shown.contains(&point.sampler.variant)
    };
    let points: Vec<&OperatingPoint> = report.points.all().iter().filter(here).collect();
    let mut tasks = report.points.tasks();
    tasks.retain(|task| points.iter().any(|point| point.task == *task));
    if tasks.is_empty() {
        return None;
    }
    let mut variants = shown.clone();
    variants.retain(|variant| tasks.iter().any(|task| !curve(task, *variant).is_empty()));
    let mut params: Vec<&Parameter> = Vec::new();
    for point in &points {
        if !params.contains(&&point.sampler.param) {
            params.push(&point.sampler.param);
        }
    }
    params.sort_by(|a, b| a.single().unwrap_or(f64::MAX).total_cmp(&b.single().unwrap_or(f64::MAX)));
    let (n, name) = (variants.len(), text(&rule.title()));
    let over = tasks.iter().map(|task| format!("\\multicolumn{{{n}}}{{c}}{{{}}}", text(task)));
    let under = |i: usize| format!("\\cmidrule(lr){{{}-{}}} ", 2 + i * n, 1 + (i + 1) * n);
    let column = |variant: &Variant| short(&name) + &text(&variant.suffix()).replace('+', "+ ");
    let symbol = symbol(rule).map(|symbol| format!("${symbol}$")).unwrap_or_default();
    let mut lines = vec![
        Line::cells(std::iter::once(String::new()).chain(over)),
        Line::Verbatim((0..tasks.len()).map(under).collect()),
        Line::cells(std::iter::once(symbol).chain(tasks.iter().flat_map(|_| variants.iter().map(column)))),
    ];
    for param in params {
        let mut cells = vec![text(&param.to_string())];
        for task in &tasks {
            for variant in &variants {
                let found = curve(task, *variant).into_iter().find(|point| point.sampler.param == *param);
                cells.push(found.map_or(String::new(), |p| format!("\\rescell{{{:.2}}}{{{:.2}}}", p.score, p.nfe)));
            }
        }
        lines.extend([Line::Rule, Line::Cells(cells)]);
    }
    let caption = format!(
        "Results on \\textbf{{{}}} with {name}. Each cell reports the \\textbf{{score}} on the first line and average NFE over samples on the second.",
        text(model)
    );
    let columns = format!("c {}", vec!["c".repeat(n); tasks.len()].join("|"));
    let label = format!("detailed-{}", label(&format!("{rule}-{model}")));
    Some(Float { wide: true, label: Some(label), ..Float::new(caption, columns, lines) })
}

/// What the paper calls a rule where room is scarce.
fn short(name: &str) -> String {
    name.replace("EB-Sampler", "EB").replace("Fast-dLLM", "FD")
}

/// The letter of a rule's parameter.
fn symbol(rule: &Rule) -> Option<&'static str> {
    match rule.name() {
        "eb" => Some("\\gamma"),
        "fast" => Some("f"),
        "topk" => Some("k"),
        _ => None,
    }
}

/// A comparison's discount, as captions call it.
fn discount(comparison: &Comparison) -> String {
    text(comparison.variant.suffix().trim())
}

/// Labels of ablations differ from the paper's own.
fn suffix(comparison: &Comparison) -> String {
    match comparison.variant {
        adas if adas == Variant::adas() => String::new(),
        other => format!("-{}", label(&other.to_string())),
    }
}
