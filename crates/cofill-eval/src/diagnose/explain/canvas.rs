//! The canvas after a step as lines of text: where a line breaks in the text, it breaks in the picture.

use super::Explained;
use super::story::{BREAK, MASK, Story};

/// What a step did to a position, and what it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Committed in this step.
    New,
    /// Deferred in this step.
    Late,
    /// Deferred, which changed nothing, and is not told.
    Quiet,
    /// Masked, and nobody's concern in this step.
    Mask,
    /// Committed earlier.
    Done,
    /// Never masked.
    Given,
}

/// A token, or as much of it as stands on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) position: usize,
    pub(super) mark: Mark,
    pub(super) text: String,
}

/// Whether line breaks that are not news have a sign of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    /// They only break the line.
    Plain,
    /// All of them are shown, so that a pointer can find them.
    Shown,
}

/// The lines of a canvas after a step, from the line of the first mask on. A blank line has no fragments.
pub(super) fn lines(story: &Story, explained: &Explained, breaks: Breaks) -> Vec<Vec<Fragment>> {
    let mut lines: Vec<Vec<Fragment>> = vec![Vec::new()];
    for position in story.shown_from()..explained.before.len() {
        let mark = mark(story, explained, position);
        let parts = match mark {
            Mark::Late | Mark::Quiet | Mark::Mask => vec![MASK.to_owned()],
            Mark::New => story.parts(committed(explained, position)),
            Mark::Done | Mark::Given => story.parts(explained.before[position]),
        };
        let last = parts.len() - 1;
        for (i, mut text) in parts.into_iter().enumerate() {
            if i < last && (mark == Mark::New || breaks == Breaks::Shown) {
                text.push_str(BREAK);
            }
            if !text.is_empty() {
                lines.last_mut().expect("begun with one").push(Fragment { position, mark, text });
            }
            if i < last {
                lines.push(Vec::new());
            }
        }
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn mark(story: &Story, explained: &Explained, position: usize) -> Mark {
    if explained.step.commits.iter().any(|commit| commit.position == position) {
        return Mark::New;
    }
    match explained.deferred.iter().find(|deferred| deferred.position == position) {
        Some(deferred) if story.tells(deferred) => Mark::Late,
        Some(_) => Mark::Quiet,
        None if explained.before[position] == story.canvas.mask_id() => Mark::Mask,
        None if story.canvas.is_masked(position) => Mark::Done,
        None => Mark::Given,
    }
}

fn committed(explained: &Explained, position: usize) -> cofill::TokenId {
    let commit = explained.step.commits.iter().find(|commit| commit.position == position);
    commit.map_or(explained.before[position], |commit| commit.token)
}
