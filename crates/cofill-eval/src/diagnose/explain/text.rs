//! An explanation as lines: every step, whoever waited in it, and what both decodes came to.

use super::story::{MASK, Story, reading};
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

/// What a step did to a position.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Late,
    Old,
}

pub(super) fn text(story: &Story, palette: &Palette) -> String {
    let mut out = String::new();
    Lines { story, palette }.all(&mut out).expect("a string takes everything");
    out
}

struct Lines<'a> {
    story: &'a Story,
    palette: &'a Palette,
}

impl Lines<'_> {
    fn all(&self, out: &mut String) -> Result {
        let Palette { bold, dim, .. } = self.palette;
        let Explanation { steps, sampler, plain, nfe, plain_nfe, extra_forwards, .. } = &self.story.explanation;
        for step in steps {
            let left = step.step.n_masked - step.step.commits.len();
            let forced = if step.step.forced { "  forced" } else { "" };
            let number = bold.around(&format!("step {}", step.step.step));
            writeln!(out, "{number}  masked {} -> {left}{forced}  {}", step.step.n_masked, self.canvas(step))?;
            for deferred in &step.deferred {
                self.deferred(out, step, deferred)?;
            }
        }
        writeln!(out)?;
        writeln!(out, "{}", self.story.summary())?;
        for (sampler, nfe, ending) in [(sampler, nfe, &self.story.with), (plain, plain_nfe, &self.story.without)] {
            let verdict = ending.verdict.as_ref().map_or_else(String::new, |verdict| format!(", {verdict}"));
            let sampler = bold.around(&sampler.to_string());
            writeln!(out, "\n{sampler} ({}{verdict})", count(*nfe, "forward"))?;
            writeln!(out, "{}", ending.text.trim_end_matches('\n'))?;
        }
        writeln!(out, "\n{}", dim.around(&format!("{} more for this explanation", count(*extra_forwards, "forward"))))
    }

    /// The canvas after a step: new commits in brackets, whoever waits as `_`.
    fn canvas(&self, explained: &Explained) -> String {
        let story = self.story;
        let cell = |position: usize| {
            let commit = explained.step.commits.iter().find(|commit| commit.position == position);
            match commit {
                Some(commit) => (Mark::New, story.piece(commit.token)),
                None if explained.deferred.iter().any(|d| d.position == position) => (Mark::Late, MASK.into()),
                None => (Mark::Old, story.piece(explained.before[position])),
            }
        };
        let cells: Vec<(Mark, String)> = (story.shown_from()..explained.before.len()).map(cell).collect();
        let show = |mark: Mark, text: String| match mark {
            Mark::New => self.palette.new.around(&format!("[{text}]")),
            Mark::Late => self.palette.late.around(&text),
            Mark::Old => text,
        };
        match story.spelling {
            Spelling::Words => cells.into_iter().map(|(mark, text)| show(mark, text)).collect::<Vec<_>>().join(" "),
            Spelling::Pieces => {
                let run = |run: &[(Mark, String)]| show(run[0].0, run.iter().map(|cell| cell.1.as_str()).collect());
                cells.chunk_by(|a, b| a.0 == b.0).map(run).collect()
            }
        }
    }

    fn deferred(&self, out: &mut String, step: &Explained, deferred: &Deferred) -> Result {
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
        )?;
        if step.deferred.last() == Some(deferred) && !step.instead.is_empty() {
            let name = |position: &usize| {
                let commit = step.step.commits.iter().find(|commit| commit.position == *position);
                commit.map_or_else(String::new, |commit| {
                    format!("{position} `{}` (c {:.3})", story.piece(commit.token), commit.confidence)
                })
            };
            let names: Vec<String> = step.instead.iter().map(name).collect();
            writeln!(out, "  instead  {}", names.join(", "))?;
        }
        Ok(())
    }
}
