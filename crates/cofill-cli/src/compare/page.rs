//! A comparison for people: a table, the answers, and where they part.

use super::columns::{Column, Mark, paragraph, side_by_side};
use super::{Parting, letter};
use crate::show::{count, lines};
use anstyle::AnsiColor;
use cofill::trace_diff::Difference;
use cofill::{Step, Trace};
use cofill_engine::{Compared, Finish, Generation};
use cofill_model::printable;
use cofill_report::words::changes;
use std::io::IsTerminal;
use unicode_width::UnicodeWidthStr;

/// How wide the page is, and how it marks what differs.
#[derive(Clone)]
pub(crate) struct Look {
    pub(crate) width: usize,
    pub(crate) mark: Mark,
}

/// The least room for the last column of the table; with less, samplers are described one below the other.
const VERDICT: usize = 16;

impl Look {
    /// For whatever stdout is: a terminal has a width and perhaps colours, files are as wide as most terminals.
    pub(crate) fn of_stdout() -> Look {
        let out = std::io::stdout();
        let width = terminal_size::terminal_size_of(&out).map_or(80, |(width, _)| usize::from(width.0).max(20));
        let has_colour = anstream::AutoStream::choice(&out) != anstream::ColorChoice::Never;
        Look {
            width: if out.is_terminal() { width } else { 80 },
            mark: if has_colour { painted() } else { bracketed() },
        }
    }
}

/// Marked by colour.
fn painted() -> Mark {
    let style = AnsiColor::Yellow.on_default().bold().underline();
    Mark { open: style.to_string(), close: format!("{style:#}"), takes_room: false }
}

/// Marked without colour.
fn bracketed() -> Mark {
    Mark { open: "[".into(), close: "]".into(), takes_room: true }
}

/// All of it.
pub(crate) fn page(all: &[Compared], partings: &[Parting], look: &Look) -> String {
    let parts = [table(all, look.width), answers(all, look), differences(all, partings, look.width)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// What a sampler cost and what came of it.
struct Line {
    sampler: String,
    forwards: String,
    per_forward: String,
    verdict: String,
}

impl Line {
    fn of(one: &Compared) -> Line {
        let sampler = one.sampler.to_string();
        match &one.outcome {
            Err(error) => {
                let none = String::from("-");
                Line { sampler, forwards: none.clone(), per_forward: none, verdict: format!("failed: {error}") }
            }
            Ok((generation, _)) => Line {
                sampler,
                forwards: generation.nfe.to_string(),
                per_forward: format!("{:.2}", generation.tokens_per_forward()),
                verdict: verdict(generation),
            },
        }
    }
}

/// Whether the answer is right, where that is known, or whether it is all of it.
fn verdict(generation: &Generation) -> String {
    let left = generation.canvas.n_masked();
    match &generation.judged {
        _ if generation.finish == Finish::Capped && left > 0 => format!("{} left", count(left, "mask")),
        Some(judged) => judged.verdict(),
        None if generation.finish == Finish::Capped => "no end yet".into(),
        None if generation.is_cut_off() => "no end; may be cut off".into(),
        None => String::new(),
    }
}

fn table(all: &[Compared], width: usize) -> String {
    let rows: Vec<Line> = all.iter().map(Line::of).collect();
    let title = Line {
        sampler: "sampler".into(),
        forwards: "forwards".into(),
        per_forward: "tokens/forward".into(),
        verdict: if rows.iter().all(|row| row.verdict.is_empty()) { String::new() } else { "answer".into() },
    };
    let widest =
        |cell: fn(&Line) -> &String| rows.iter().chain([&title]).map(|row| cell(row).width()).max().unwrap_or(0);
    let [names, forwards, rates] =
        [widest(|row| &row.sampler), widest(|row| &row.forwards), widest(|row| &row.per_forward)];
    let before = 3 + names + 2 + forwards + 2 + rates + 2;
    let letters = std::iter::once(' ').chain((0..rows.len()).map(letter));
    let mut text = String::new();
    let is_narrow = before + if title.verdict.is_empty() { 0 } else { VERDICT } > width;
    for (letter, row) in letters.zip([&title].into_iter().chain(&rows)) {
        let Line { sampler, forwards: nfe, per_forward, verdict } = row;
        let line = match is_narrow {
            true if letter == ' ' => continue,
            true => {
                let verdict = if verdict.is_empty() { String::new() } else { format!("; {verdict}") };
                let forwards = if nfe == "1" { "forward" } else { "forwards" };
                paragraph(
                    &printable(&format!("{letter}  {sampler}: {nfe} {forwards}, {per_forward} each{verdict}")),
                    width,
                    3,
                )
            }
            false => {
                let line = format!("{letter}  {sampler:<names$}  {nfe:>forwards$}  {per_forward:>rates$}  {verdict}");
                paragraph(&printable(&line), width, before)
            }
        };
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The answers in columns; what the first does not have is marked.
fn answers(all: &[Compared], look: &Look) -> String {
    let texts: Vec<(usize, String)> =
        all.iter().enumerate().filter_map(|(i, one)| Some((i, lines(one.outcome.as_ref().ok()?.0.reply())))).collect();
    let Some((_, first)) = texts.first() else { return String::new() };
    let column = |(i, text): &'_ (usize, String)| {
        let heading = format!("{} {}", letter(*i), all[*i].sampler);
        (heading, text.clone())
    };
    let named: Vec<(String, String)> = texts.iter().map(column).collect();
    let columns: Vec<Column<'_>> =
        named.iter().map(|(heading, text)| Column { heading: heading.clone(), pieces: changes(first, text) }).collect();
    side_by_side(&columns, look.width, &look.mark)
}

/// Where everybody parts from the first, and why.
fn differences(all: &[Compared], partings: &[Parting], width: usize) -> String {
    let mut text = String::new();
    for parting in partings {
        let Some((a, b)) = parting.traces(all) else { continue };
        let (a_name, b_name) = (letter(parting.a).to_string(), letter(parting.b).to_string());
        let said = match &parting.difference {
            None => vec![format!("{b_name} does the same as {a_name} at every step")],
            Some(Difference::Start) => vec![format!("{b_name} starts from another canvas than {a_name}")],
            Some(Difference::Ended { steps }) => vec![format!(
                "{b_name} does the same as {a_name} up to step {}, where one of them ends ({a_name} has {} steps, {b_name} {})",
                steps.0.min(steps.1),
                steps.0,
                steps.1
            )],
            Some(Difference::Step { step, only_a, only_b, why }) => {
                let mut said = vec![format!("{b_name} parts from {a_name} at step {step}")];
                for (name, trace, only) in [(&a_name, a, only_a), (&b_name, b, only_b)] {
                    if !only.is_empty() {
                        said.push(format!("  only {name} commits {}", commits(trace, *step, only)));
                    }
                }
                said.push(format!("  why: {}", why.named(&a_name, &b_name)));
                said
            }
        };
        for line in said {
            let hanging = if line.starts_with(' ') { 4 } else { 2 };
            text += &paragraph(&printable(&line), width, hanging);
            text.push('\n');
        }
    }
    text
}

/// Positions with what a step wrote there: 14 `3`, 16 `24`.
fn commits(trace: &Trace, step: usize, positions: &[usize]) -> String {
    let named = |step: &Step, position: usize| {
        let at = step.commits.iter().position(|commit| commit.position == position)?;
        Some(step.pieces.get(at)?.replace('\n', "⏎"))
    };
    let one = |&position: &usize| match trace.steps.get(step).and_then(|step| named(step, position)) {
        Some(piece) => format!("{position} `{piece}`"),
        None => position.to_string(),
    };
    positions.iter().map(one).collect::<Vec<_>>().join(", ")
}
