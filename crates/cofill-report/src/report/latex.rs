//! The paper's tables in the paper's layout: matched gains, robustness by stopping rule and by dataset, ablations, detailed results.

use super::ablation::{Ablation, Kind, Setting};
use super::tables::{Names, ablation_table, gains, layer_name, models, robustness_row, varied};
use super::{Comparison, Report};
use crate::document::Table;
use crate::points::{ADAS, Key, Point, rule_name, variant_suffix};
use crate::statistics::matched::Summary;
use std::fmt::Write;

/// All of them. The document that takes them in needs the packages `booktabs` and `makecell`, as the first lines say.
pub fn latex(report: &Report) -> String {
    let mut tex = "% \\usepackage{booktabs,makecell}\n\
                   \\providecommand{\\rescell}[2]{\\makecell{\\textbf{#1} \\\\ \\scriptsize #2}}\n"
        .to_owned();
    // The paper's discount comes first. Others are compared by the ablations.
    if let Some(comparison) = report.comparisons.iter().find(|comparison| !comparison.matched.gains.is_empty()) {
        tex += &matched_gains(report, comparison);
        tex += &robustness(report, comparison, "Method family", &comparison.by_rule, "rule");
        tex += &robustness(report, comparison, "Dataset", &comparison.by_task, "dataset");
    }
    report.ablations.iter().for_each(|ablation| tex += &self::ablation(ablation));
    for model in report.points.models() {
        for rule in report.points.rules() {
            tex += &detailed(report, &model, &rule);
        }
    }
    tex
}

fn table(star: &str, caption: &str, label: &str, columns: &str, body: &str) -> String {
    format!(
        "\n\\begin{{table{star}}}[t]\n\\caption{{{caption}}}\n\\label{{tab:{label}}}\n\\centering\n\\small\n\
         \\begin{{tabular}}{{{columns}}}\n\\toprule\n{body}\\bottomrule\n\\end{{tabular}}\n\\end{{table{star}}}\n"
    )
}

fn line(fields: &[String]) -> String {
    fields.join(" & ") + " \\\\\n"
}

fn matched_gains(report: &Report, comparison: &Comparison) -> String {
    let table_of = gains(report, comparison);
    let (last, rows) = table_of.rows.split_last().expect("the mean of all is the last row");
    let tex = |row: &Vec<String>| line(&row.iter().map(|field| escaped(field)).collect::<Vec<_>>());
    let head = tex(&table_of.head).replace("Task", "Dataset").replace("EB-Sampler", "EB");
    let mut body = head + "\\midrule\n";
    rows.iter().for_each(|row| body += &tex(row));
    body += "\\midrule\n";
    body += &tex(last);
    let models = escaped(&models(report, comparison).join(" / "));
    let caption = format!(
        "Matched-NFE absolute gains of {} in the low-NFE regime, reported as {models} percentage points.",
        discount(comparison)
    );
    let columns = format!("l{}", "c".repeat(table_of.head.len() - 1));
    self::table("", &caption, &format!("matched-nfe-gains{}", suffix(comparison)), &columns, &body)
}

fn robustness(report: &Report, comparison: &Comparison, what: &str, summaries: &[Summary], label: &str) -> String {
    let head = format!(
        "{what} & Matched points & Mean gain & \\makecell{{95\\% bootstrap\\\\interval}} & Positive / negative \\\\\n"
    );
    let row = |summary: &Summary| line(&robustness_row(summary).iter().map(|field| escaped(field)).collect::<Vec<_>>());
    let mut body = head + "\\midrule\n" + &summaries.iter().map(row).collect::<String>();
    body += &format!("\\midrule\n{}", row(&comparison.all));
    let caption = format!(
        "Robustness of gains of {} across matched operating points. Gains are absolute differences in percentage points after matching by NFE. \
         Bootstrap intervals use {} operating-point resamples.",
        discount(comparison),
        report.bootstrap.resamples
    );
    table("", &caption, &format!("robustness-by-{label}{}", suffix(comparison)), "lcccc", &body)
}

/// One of the paper's three; the best strength on average is bold, or the best value of every setting.
fn ablation(ablation: &Ablation) -> String {
    let Table { head, mut rows, .. } = ablation_table(ablation, &Names { value: ablated, setting });
    // Where strengths have a mean, it is the row after the settings.
    match ablation.kind {
        Kind::Alpha => bold_best(rows.iter_mut().skip(ablation.settings.len()).flat_map(|row| &mut row[1..])),
        _ => (1..head.len()).for_each(|i| bold_best(rows.iter_mut().map(|row| &mut row[i]))),
    }
    let mut body = line(&head) + "\\midrule\n";
    for (i, row) in rows.iter().enumerate() {
        body += if i == ablation.settings.len() && ablation.kind == Kind::Alpha { "\\midrule\n" } else { "" };
        body += &line(row);
    }
    let (what, label) = match ablation.kind {
        Kind::Alpha => (" No discount is $\\alpha=0$.", "alpha"),
        Kind::Layer => ("", "attention-source"),
        Kind::Weight => ("", "uncertainty-weight"),
    };
    let place = escaped(&ablation.place());
    let caption = format!("Scores (\\%) by {} at equal parameters, {place}.{what}", varied(ablation.kind));
    let columns = format!("l{}", "c".repeat(head.len() - 1));
    table("", &caption, &format!("{label}-ablation"), &columns, &body)
}

/// `Top-$k$, $k=8$`.
fn setting(prefix: &str, setting: &Setting) -> String {
    let (prefix, held) = (escaped(prefix), escaped(&setting.held));
    let (name, param) = (escaped(&rule_name(&setting.rule)), escaped(&setting.param));
    match symbol(&setting.rule).trim_matches('$') {
        "" => format!("{prefix}{name} {param}{held}"),
        symbol => format!("{prefix}{name}, ${symbol}={param}${held}"),
    }
}

fn ablated(kind: Kind, value: &str) -> String {
    match (kind, value) {
        (Kind::Alpha, alpha) => format!("$\\alpha={alpha}$"),
        (Kind::Weight, "self") => "Selected-token uncertainty $1-c_s$".into(),
        (Kind::Weight, _) => "Average masked-position uncertainty $1-c_{\\mathrm{mask}}$".into(),
        (Kind::Layer, layer) => layer_name(layer),
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

/// Score and NFE of every parameter, with and without discount, side by side for every task.
fn detailed(report: &Report, model: &str, rule: &str) -> String {
    let mut variants = report.shown();
    let curve = |task: &str, variant: &str| report.points.curve(Key { model, task, rule, variant });
    let shown = variants.clone();
    let here = |point: &Point| point.model == model && point.rule == rule && shown.contains(&point.variant);
    let tasks: Vec<String> = report
        .points
        .tasks()
        .into_iter()
        .filter(|task| report.points.all().iter().any(|point| here(point) && point.task == *task))
        .collect();
    if tasks.is_empty() {
        return String::new();
    }
    variants.retain(|variant| tasks.iter().any(|task| !curve(task, variant).is_empty()));
    let mut params: Vec<String> = Vec::new();
    for point in report.points.all().iter().filter(|point| here(point)) {
        if !params.contains(&point.param) {
            params.push(point.param.clone());
        }
    }
    params.sort_by(|a, b| a.parse().unwrap_or(f64::MAX).total_cmp(&b.parse().unwrap_or(f64::MAX)));
    let (n, name) = (variants.len(), escaped(&rule_name(rule)));
    let mut body = String::new();
    for task in &tasks {
        // Writing to a string cannot fail.
        let _ = write!(body, " & \\multicolumn{{{n}}}{{c}}{{{}}}", escaped(task));
    }
    body += " \\\\\n";
    for i in 0..tasks.len() {
        let _ = write!(body, "\\cmidrule(lr){{{}-{}}} ", 2 + i * n, 1 + (i + 1) * n);
    }
    let head = |variant: &String| short(&name) + &escaped(&variant_suffix(variant)).replace('+', "+ ");
    let heads = tasks.iter().flat_map(|_| variants.iter().map(head));
    body += &format!("\n{}", line(&std::iter::once(symbol(rule).to_owned()).chain(heads).collect::<Vec<_>>()));
    for param in &params {
        let mut cells = vec![escaped(param)];
        for task in &tasks {
            for variant in &variants {
                let found = curve(task, variant).into_iter().find(|point| point.param == *param);
                cells.push(found.map_or(String::new(), |p| format!("\\rescell{{{:.2}}}{{{:.2}}}", p.score, p.nfe)));
            }
        }
        body += &format!("\\midrule\n{}", line(&cells));
    }
    let caption = format!(
        "Results on \\textbf{{{}}} with {name}. Each cell reports the \\textbf{{score}} on the first line and average NFE over samples on the second.",
        escaped(model)
    );
    let columns = format!("c {}", vec!["c".repeat(n); tasks.len()].join("|"));
    let label: String = format!("{rule}-{model}").chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    table("*", &caption, &format!("detailed-{label}"), &columns, &body)
}

/// What the paper calls a rule where room is scarce.
fn short(name: &str) -> String {
    name.replace("EB-Sampler", "EB").replace("Fast-dLLM", "FD")
}

/// The letter of a rule's parameter.
fn symbol(rule: &str) -> &'static str {
    match rule.split('@').next() {
        Some("eb") => "$\\gamma$",
        Some("fast") => "$f$",
        Some("topk") => "$k$",
        _ => "",
    }
}

/// A comparison's discount, as captions call it.
fn discount(comparison: &Comparison) -> String {
    escaped(variant_suffix(&comparison.variant).trim())
}

/// Labels of ablations differ from the paper's own.
fn suffix(comparison: &Comparison) -> String {
    let safe = |c: char| if c.is_alphanumeric() { c } else { '-' };
    match comparison.variant.as_str() {
        ADAS => String::new(),
        other => format!("-{}", other.chars().map(safe).collect::<String>()),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\\' => escaped += "\\textbackslash{}",
            '%' | '&' | '_' | '#' | '$' | '{' | '}' => escaped.extend(['\\', c]),
            '~' | '^' => escaped.extend(['\\', c, '{', '}']),
            c => escaped.push(c),
        }
    }
    // The paper's own name of the rule.
    escaped.replace("Top-k", "Top-$k$")
}
