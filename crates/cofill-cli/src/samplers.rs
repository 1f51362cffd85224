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
    let terminal = std::io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    out.write_all(table(terminal.map(|(width, _)| width.0.into()))?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The samplers and their options, in lines of at most `width` columns; without a width, as long as they come.
fn table(width: Option<usize>) -> Done<String> {
    let mut rows = vec![["FORM", "WHAT IT DOES", "NEEDS", "+ad", "DEFAULTS", "SOURCE"].map(String::from)];
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
    let narrow = width.filter(|width| *width < whole).map(|width| width.max(NARROWEST));
    let mut text = String::new();
    match narrow {
        None => {
            for row in &rows {
                let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
                text += &format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
            }
        }
        Some(width) => {
            let [form, _, _, discount, ..] = widths;
            let indent = form + discount + 4;
            for [name, about, _, yes, ..] in &rows {
                let lines = wrapped(about, width - indent).join(&format!("\n{:indent$}", ""));
                text += &format!("{name:<form$}  {yes:<discount$}  {lines}\n");
            }
            text += &format!("\nneeds, defaults and sources: --json, or a window of {whole} columns\n");
        }
    }
    let mut paragraph = |indent: usize, paragraph: &str| {
        let lines = match narrow {
            // What goes on in the next line stands further in than what begins there.
            Some(width) => wrapped(paragraph, width - indent - 2).join(&format!("\n{:1$}", "", indent + 2)),
            None => paragraph.to_owned(),
        };
        text += &format!("{:indent$}{lines}\n", "");
    };
    paragraph(0, "\nOptions");
    for (options, names) in options() {
        paragraph(2, &options);
        paragraph(6, &names);
    }
    DISCOUNT_FORMS.iter().for_each(|form| paragraph(2, form));
    paragraph(6, "on every sampler with a yes above");
    Ok(text)
}

/// Narrower windows get lines that are too long.
const NARROWEST: usize = 64;

/// Lines of at most `width` characters, broken at spaces and before the `[@` of an option; a longer word stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        for (i, piece) in word.split("[@").enumerate() {
            let piece = if i > 0 { format!("[@{piece}") } else { piece.to_owned() };
            let used = lines.last().map_or(0, |line| line.chars().count());
            match lines.last_mut() {
                Some(line) if used == 0 || used + piece.trim_end().chars().count() <= width => *line += &piece,
                _ => lines.push(piece),
            }
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_the_window() {
        for width in [64, 72, 80, 100, 140] {
            let table = table(Some(width)).unwrap();
            for line in table.lines() {
                assert!(line.chars().count() <= width, "{} columns of {width}: {line}", line.chars().count());
            }
            for entry in Registry::stock().entries() {
                assert!(table.contains(&entry.form()), "{} is left out at {width}", entry.form());
            }
        }
    }

    #[test]
    fn a_window_that_is_wide_enough_gets_what_a_file_gets() {
        assert_eq!(table(Some(1000)).unwrap(), table(None).unwrap());
    }

    #[test]
    fn lines_break_at_spaces_and_before_options() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("+ad[:A][@layer=N][@veto], default", 17), ["+ad[:A][@layer=N]", "[@veto], default"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
    }
}
