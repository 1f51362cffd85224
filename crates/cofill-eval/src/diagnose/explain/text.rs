//! An explanation as lines: every step, whoever waited in it, and what both decodes came to.

use super::canvas::{self, Breaks, Fragment, Mark};
use super::story::{Story, reading};
use super::{Deferred, Explained, Explanation};
use cofill_engine::Spelling;
use cofill_report::document::count;
use std::fmt::{Result, Write};

/// What is written before and after a text to mark it; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Style {
    /// Before it.
    pub open: String,
    /// After it.
    pub close: String,
}

/// The colours of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Palette {
    /// Numbers of steps, names of samplers.
    pub bold: Style,
    /// What matters less.
    pub dim: Style,
    /// What was just committed.
    pub new: Style,
    /// Whoever waits.
    pub late: Style,
}

impl Style {
    fn around(&self, text: &str) -> String {
        format!("{}{text}{}", self.open, self.close)
    }
}

/// Columns where nobody says how many there are.
pub(super) const WIDTH: usize = 80;

/// What stands before every line of a canvas: the number of its first position.
const GUTTER: usize = 7;

/// Lines with at least so many positions have a ruler above them, with a number at every fifth.
const RULED: usize = 8;
const TICK: usize = 5;

pub(super) fn text(story: &Story, palette: &Palette, width: usize) -> String {
    let mut out = String::new();
    Lines { story, palette, width }.all(&mut out).expect("a string takes everything");
    out
}

struct Lines<'a> {
    story: &'a Story,
    palette: &'a Palette,
    width: usize,
}

impl Lines<'_> {
    fn all(&self, out: &mut String) -> Result {
        let Palette { bold, dim, .. } = self.palette;
        let Explanation { steps, sampler, plain, nfe, plain_nfe, extra_forwards, .. } = &self.story.explanation;
        for step in steps {
            let left = step.step.n_masked - step.step.commits.len();
            let forced = if step.step.forced { "  forced" } else { "" };
            let number = bold.around(&format!("step {}", step.step.step));
            writeln!(out, "{number}  masked {} -> {left}{forced}", step.step.n_masked)?;
            self.canvas(out, step)?;
            let told: Vec<&Deferred> = step.deferred.iter().filter(|deferred| self.story.tells(deferred)).collect();
            told.iter().try_for_each(|deferred| self.deferred(out, deferred))?;
            if !told.is_empty() {
                self.instead(out, step)?;
            }
        }
        writeln!(out)?;
        writeln!(out, "{}", self.story.summary())?;
        if let Some(hidden) = self.story.hidden() {
            writeln!(out, "{}", dim.around(&hidden))?;
        }
        for (sampler, nfe, ending) in [(sampler, nfe, &self.story.with), (plain, plain_nfe, &self.story.without)] {
            let verdict = ending.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {verdict}"));
            let sampler = bold.around(&sampler.to_string());
            writeln!(out, "\n{sampler} ({}{verdict})", count(*nfe, "forward"))?;
            writeln!(out, "{}", ending.text.trim_end_matches('\n'))?;
        }
        writeln!(out, "\n{}", dim.around(&format!("{} more for this explanation", count(*extra_forwards, "forward"))))
    }

    /// The canvas after a step, a line for each of the text: new commits in brackets, whoever is masked as `_`.
    fn canvas(&self, out: &mut String, explained: &Explained) -> Result {
        for line in canvas::lines(self.story, explained, Breaks::Plain) {
            for row in self.wrapped(&line) {
                self.row(out, row)?;
            }
        }
        Ok(())
    }

    /// A line as rows that fit.
    fn wrapped<'f>(&self, line: &'f [Fragment]) -> Vec<&'f [Fragment]> {
        let room = self.width.saturating_sub(GUTTER).max(1);
        // Brackets of its own, and a space before it.
        let width = |fragment: &Fragment| {
            fragment.text.chars().count()
                + if fragment.mark == Mark::New { 2 } else { 0 }
                + usize::from(self.story.spelling == Spelling::Words)
        };
        let (mut rows, mut begin, mut used) = (Vec::new(), 0, 0);
        for (i, fragment) in line.iter().enumerate() {
            if i > begin && used + width(fragment) > room {
                rows.push(&line[begin..i]);
                (begin, used) = (i, 0);
            }
            used += width(fragment);
        }
        rows.push(&line[begin..]);
        rows
    }

    /// One row behind the number of its first position, under a ruler if it is long.
    fn row(&self, out: &mut String, row: &[Fragment]) -> Result {
        let Palette { dim, new, late, .. } = self.palette;
        let words = self.story.spelling == Spelling::Words;
        // Words have brackets of their own; pieces that were committed together share them.
        let runs = row.chunk_by(|a, b| !words && a.mark == b.mark);
        let (mut text, mut ruler, mut column) = (String::new(), String::new(), GUTTER);
        for (i, run) in runs.enumerate() {
            if words && i > 0 {
                text.push(' ');
                column += 1;
            }
            let is_new = run[0].mark == Mark::New;
            column += usize::from(is_new);
            for fragment in run {
                let at = if is_new && words { column - 1 } else { column };
                // A space between numbers, or they would be read as one.
                if fragment.position.is_multiple_of(TICK) && (ruler.is_empty() || ruler.len() < at) {
                    let _ = write!(ruler, "{:at$}{}", "", fragment.position, at = at - ruler.len());
                }
                column += fragment.text.chars().count();
            }
            column += usize::from(is_new);
            let said: String = run.iter().map(|fragment| fragment.text.as_str()).collect();
            text += &match run[0].mark {
                Mark::New => new.around(&format!("[{said}]")),
                Mark::Late => late.around(&said),
                _ => said,
            };
        }
        if row.len() >= RULED && !ruler.is_empty() {
            writeln!(out, "{}", dim.around(&ruler))?;
        }
        let first = row.first().map_or_else(String::new, |fragment| fragment.position.to_string());
        writeln!(out, "{}", format!("{}  {text}", dim.around(&format!("{first:>5}"))).trim_end())
    }

    fn deferred(&self, out: &mut String, deferred: &Deferred) -> Result {
        let story = self.story;
        let Deferred { position, token, confidence, reason, after, lost, committed } = deferred;
        let by = format!("{} `{}`", reason.position, story.piece(reason.token));
        writeln!(
            out,
            "  {} {position} `{}` (c {confidence:.3}): attends {} {by} (c {:.3}) and lost {lost:.3}{}",
            self.palette.late.around("deferred"),
            story.piece(*token),
            reading(reason),
            reason.confidence,
            match reason.lost < 0.995 * lost {
                true => format!(", {:.3} of it to {}", reason.lost, reason.position),
                false => String::new(),
            },
        )?;
        let end = committed.map_or_else(String::new, |end| match end.token == *token {
            true => format!("; committed in step {} after all", end.step),
            false => format!("; committed in step {} as `{}`", end.step, story.piece(end.token)),
        });
        writeln!(
            out,
            "           after {by}: `{}` (c {:.3}, {:+.3}), KL {:.3}{end}",
            story.piece(after.token),
            after.confidence,
            after.confidence - confidence,
            after.kl,
        )
    }

    /// Whom the step took instead of those that wait.
    fn instead(&self, out: &mut String, step: &Explained) -> Result {
        if step.instead.is_empty() {
            return Ok(());
        }
        let name = |position: &usize| {
            let commit = step.step.commits.iter().find(|commit| commit.position == *position);
            commit.map_or_else(String::new, |commit| {
                format!("{position} `{}` (c {:.3})", self.story.piece(commit.token), commit.confidence)
            })
        };
        let names: Vec<String> = step.instead.iter().map(name).collect();
        writeln!(out, "  instead  {}", names.join(", "))
    }
}
