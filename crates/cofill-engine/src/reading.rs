//! What a person reads of a filled canvas, and how much of it is of use.

use crate::constrain::runs;
use crate::engine::Specials;
use crate::{Engine, Result, TOY};
use cofill::{Canvas, TokenId};
use std::ops::Range;

/// How the pieces of tokens make a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// They are words.
    Words,
    /// They bring their own spaces and line breaks.
    Pieces,
}

impl Spelling {
    /// Of the tokens of the model that is named so.
    pub fn of(model: &str) -> Spelling {
        if model == TOY { Spelling::Words } else { Spelling::Pieces }
    }
}

/// The text, what of it was generated, and how many generated tokens it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) answers: Vec<String>,
    pub(crate) useful: usize,
    /// Bytes of the text that were given and stand before everything generated; 0 of a text with gaps.
    pub(crate) given: usize,
}

/// Tokens before a gap that its text is read with: more than any character or word is made of.
const BEFORE: usize = 32;

impl Engine {
    /// Reads a canvas that began as `start`.
    ///
    /// The text ends at end of text, end of turn or one of `stops`, but only behind everything that was given: a chat's prompt has turns
    /// that ended, a few-shot prompt has stop strings, and text around a gap is kept as it was written.
    pub(crate) fn read(&self, start: &Canvas, filled: &Canvas, stops: &[String]) -> Result<Reading> {
        let (tokens, inside) = (filled.tokens(), self.inside_frame(start)?);
        let given = |&at: &usize| !start.is_masked(at);
        let tail = inside.clone().rev().find(given).map_or(inside.start, |at| at + 1);
        let infill = (inside.start..tail).any(|at| start.is_masked(at));
        let known = self.ends();
        let ends = |at: usize| start.is_masked(at) && [known.of_text, known.of_turn].contains(&Some(tokens[at]));
        let mut end = (tail..inside.end).find(|&at| ends(at)).unwrap_or(inside.end);
        // An end inside a gap is nothing to read. Special tokens that were written around one are part of the text.
        let specials = if infill { Specials::Shown } else { Specials::Hidden };
        let read = |end: usize| {
            let kept: Vec<TokenId> = (inside.start..end).filter(|&at| !ends(at)).map(|at| tokens[at]).collect();
            self.text(&kept, specials)
        };
        let mut text = read(end)?;
        let fixed = read(tail)?.len();
        let stop = |stop: &String| text.get(fixed..).and_then(|text| text.find(stop.as_str()));
        if let Some(cut) = stops.iter().filter_map(stop).min().map(|at| fixed + at) {
            text.truncate(cut);
            while end > tail && read(end)?.len() > cut {
                end -= 1;
            }
        }
        let useful = (0..end).filter(|&at| start.is_masked(at) && !filled.is_masked(at)).count();
        let given = match text.get(fixed..) {
            _ if infill => 0,
            Some(answer) if self.writes_words() && answer.starts_with(' ') => fixed + 1,
            _ => fixed.min(text.len()),
        };
        let mut answers = Vec::new();
        for gap in runs(start).into_iter().filter(|gap| gap.start < tail) {
            answers.push(self.gap_text(tokens, inside.start, gap)?);
        }
        if tail < inside.end {
            answers.push(text.get(fixed..).unwrap_or_default().to_owned());
        }
        Ok(Reading { text, answers, useful, given })
    }

    /// What a person reads of an answer that is not finished: `hole` stands for every run of masks, and masks at its end for nothing. Of a text with
    /// gaps, the whole text. `start` has the masks that were added since.
    pub fn read_unfinished(&self, start: &Canvas, canvas: &Canvas, hole: &str) -> Result<String> {
        let (tokens, inside) = (canvas.tokens(), self.inside_frame(start)?);
        let tail = inside.clone().rev().find(|&at| !start.is_masked(at)).map_or(inside.start, |at| at + 1);
        let infill = (inside.start..tail).any(|at| start.is_masked(at));
        let known = self.ends().tokens();
        let is_end = |at: usize| start.is_masked(at) && known.contains(&tokens[at]);
        let begin = if infill { inside.start } else { tail };
        let end = (tail..inside.end).find(|&at| is_end(at)).unwrap_or(inside.end);
        let filled = (begin..end).rev().find(|&at| !canvas.is_masked(at)).map_or(begin, |at| at + 1);
        let positions: Vec<usize> = (begin..filled).collect();
        let mut parts = Vec::new();
        for run in positions.chunk_by(|&a, &b| canvas.is_masked(a) == canvas.is_masked(b)) {
            let kept: Vec<TokenId> = run.iter().filter(|&&at| !is_end(at)).map(|&at| tokens[at]).collect();
            parts.push(if canvas.is_masked(run[0]) { hole.into() } else { self.text(&kept, Specials::Hidden)? });
        }
        Ok(parts.join(if self.writes_words() { " " } else { "" }))
    }

    /// What was written into a gap of a canvas whose text begins at `from`: no ends and no special tokens, as a person reads it behind what
    /// stands before it.
    pub(crate) fn gap_text(&self, tokens: &[TokenId], from: usize, gap: Range<usize>) -> Result<String> {
        let ends = self.ends().tokens();
        let before = &tokens[gap.start.saturating_sub(BEFORE).max(from)..gap.start];
        let inside = tokens[gap].iter().copied().filter(|token| !ends.contains(token));
        let all: Vec<TokenId> = before.iter().copied().chain(inside).collect();
        let (known, all_text) = (self.text(before, Specials::Hidden)?, self.text(&all, Specials::Hidden)?);
        match all_text.strip_prefix(known.as_str()) {
            Some(text) => Ok(text.to_owned()),
            // A character that begins before the gap: what is written by the gap alone.
            None => self.text(&all[before.len()..], Specials::Hidden),
        }
    }

    /// The positions of a canvas without what every text of the model begins and ends with, which nobody reads.
    fn inside_frame(&self, start: &Canvas) -> Result<Range<usize>> {
        let (tokens, frame) = (start.tokens(), self.around(None)?);
        Ok(match tokens {
            [first, .., last] if frame == (Some(*first), Some(*last)) => 1..tokens.len() - 1,
            _ => 0..tokens.len(),
        })
    }

    /// The text of a canvas that began as `start` and holds `tokens` now.
    pub fn read_tokens(&self, start: &Canvas, tokens: &[TokenId], stops: &[String]) -> Result<String> {
        let mut filled = start.clone();
        for position in start.masked() {
            filled.commit(position, tokens[position])?;
        }
        Ok(self.read(start, &filled, stops)?.text)
    }
}
