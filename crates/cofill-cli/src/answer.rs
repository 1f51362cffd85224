//! What a person reads of a filled canvas, and how much of it is of use. The tokens are all there in `--json`.

use crate::fail::Done;
use crate::model::{Model, Specials};
use cofill::{Canvas, TokenId};

/// The text, and how many generated tokens it took.
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) useful: usize,
}

impl Reading {
    /// Ends the text at end of text, end of turn or one of `stops`, but only behind everything that was given: a chat's prompt has turns
    /// that ended, a few-shot prompt has stop strings, and text around a gap is kept as it was written.
    pub(crate) fn of(model: &Model, start: &Canvas, filled: &Canvas, stops: &[String]) -> Done<Reading> {
        let tokens = filled.tokens();
        let given = |&at: &usize| !start.is_masked(at);
        let tail = (0..tokens.len()).rev().find(given).map_or(0, |at| at + 1);
        let infill = (0..tail).any(|at| start.is_masked(at));
        let (eos, eot) = (model.eos_id(), model.end_of_turn());
        let ends = |at: usize| start.is_masked(at) && [eos, eot].contains(&Some(tokens[at]));
        let mut end = (tail..tokens.len()).find(|&at| ends(at)).unwrap_or(tokens.len());
        // An end inside a gap is nothing to read. Special tokens that were written around one are part of the text.
        let specials = if infill { Specials::Shown } else { Specials::Hidden };
        let read = |end: usize| {
            let kept: Vec<TokenId> = (0..end).filter(|&at| !ends(at)).map(|at| tokens[at]).collect();
            model.text(&kept, specials)
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
        Ok(Reading { text, useful })
    }
}
