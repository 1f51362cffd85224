//! `cofill samplers`: every sampler there is, as a table.

use crate::fail::Done;
use cofill::spec::Entry;
use cofill::{DISCOUNT_FORMS, Needs, Registry, Scope};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// List every sampler: how it is written, what it needs, where it comes from.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object per sampler.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut out = anstream::stdout().lock();
    if args.json {
        for entry in Registry::stock().entries() {
            writeln!(out, "{}", object(entry)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["FORM", "WHAT IT DOES", "NEEDS", "+ad", "DEFAULTS", "SOURCE"].map(String::from);
    let mut rows = vec![header];
    for entry in Registry::stock().entries() {
        rows.push([
            entry.form(),
            entry.about.clone(),
            needs(entry)?.join(", "),
            if entry.discountable { "yes".into() } else { String::new() },
            defaults(entry),
            entry.source.clone(),
        ]);
    }
    let widths = widths(&rows);
    let whole: usize = widths.iter().map(|width| width + 2).sum();
    let narrow = std::io::stdout().is_terminal()
        && terminal_size::terminal_size().is_some_and(|(width, _)| usize::from(width.0) < whole);
    // Where the whole table would wrap, what can be looked up with --json is left out.
    let columns = if narrow { 2 } else { rows[0].len() };
    for row in &rows {
        let cells = row.iter().zip(widths).take(columns).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    writeln!(out, "\nOptions")?;
    for (options, names) in options() {
        writeln!(out, "  {options}\n      {names}")?;
    }
    DISCOUNT_FORMS.iter().try_for_each(|form| writeln!(out, "  {form}"))?;
    writeln!(out, "      on every sampler with a yes above")?;
    Ok(ExitCode::SUCCESS)
}

fn object(entry: &Arc<Entry>) -> Done<Value> {
    let param = |p: &cofill::spec::Param| json!({"name": p.name, "range": p.range(), "default": p.default});
    Ok(json!({
        "name": entry.name,
        "form": entry.form(),
        "about": entry.about,
        "parameters": entry.params.iter().map(param).collect::<Vec<_>>(),
        "options": entry.option_forms(),
        "needs": needs(entry)?,
        "discountable": entry.discountable,
        "source": entry.source,
    }))
}

/// In words, what a sampler must be shown beyond confidences.
fn needs(entry: &Arc<Entry>) -> Done<Vec<String>> {
    let policy = entry.example().build()?;
    let Needs { scope, entropy, margin, attention, distributions, history, reveals, companion, .. } = policy.needs();
    let mut words = Vec::new();
    let mut say = |needed: bool, word: String| {
        if needed {
            words.push(word);
        }
    };
    say(entropy, "entropy".into());
    say(margin, "margin".into());
    say(attention.is_some(), format!("attention ({})", attention.map(|a| a.to_string()).unwrap_or_default()));
    say(distributions, "distributions".into());
    say(scope > Scope::Candidates, format!("{scope:?} rows").to_lowercase());
    say(history, "earlier steps".into());
    say(reveals, "extra forwards".into());
    say(companion, "a companion".into());
    say(matches!(policy, cofill::Policy::Remasks(_)), "remasking".into());
    if words.is_empty() {
        words.push("confidence".into());
    }
    Ok(words)
}

fn defaults(entry: &Entry) -> String {
    let given = entry.params.iter().chain(&entry.options).filter_map(|p| Some((&p.name, p.default?)));
    given.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Each set of options, and the samplers that have it.
fn options() -> Vec<(String, String)> {
    let mut sets: Vec<(String, String)> = Vec::new();
    for entry in Registry::stock().entries().iter().filter(|entry| !entry.option_forms().is_empty()) {
        let options = entry.option_forms().join(" ");
        match sets.iter_mut().find(|(known, _)| *known == options) {
            Some((_, names)) => *names += &format!(", {}", entry.name),
            None => sets.push((options, entry.name.clone())),
        }
    }
    sets
}

/// Columns as wide as their widest cell.
fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
}
