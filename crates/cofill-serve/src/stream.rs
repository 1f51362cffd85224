//! From canvases to what a client reads: the settled prefix that is never retracted, the draft that is replaced, and the frames.
//!
//! Pure: tokens in, texts and chunks out. Whoever has a socket is elsewhere.

use crate::outbox::Frame;
use cofill::trace::Header;
use cofill::{Canvas, TokenId};
use cofill_engine::{Reader, Specials};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a stream tells of a canvas that fills in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// The settled prefix; what was sent never changes.
    #[default]
    Append,
    /// The whole text as it stands, every time; it replaces what was shown.
    Draft,
    /// The settled prefix, and a frame for every step.
    Delta,
}

/// What stands in a draft where a mask is.
pub(crate) const SHADE: char = '░';

/// Which part of a canvas is the answer, and what ends it.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The positions that were masked at the start, ascending.
    pub free: Vec<usize>,
    /// Positions of the canvas at the start; whatever is behind them was added as masks.
    pub length: usize,
    /// The mask.
    pub mask_id: TokenId,
    /// Tokens that end it.
    pub ends: Vec<TokenId>,
    /// Texts that end it.
    pub stops: Vec<String>,
    /// It is held to a language, and so is complete when every position is filled.
    pub is_held: bool,
    /// Special tokens are part of the text.
    pub show_specials: bool,
    /// Tokens may be taken back, so that nothing is settled before the end.
    pub revises: bool,
}

/// Why a text ends where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing ended it.
    None,
    /// A token that ends texts or turns.
    End,
    /// One of the stop strings.
    Stop(String),
}

/// The part of a canvas that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Where its tokens are.
    pub positions: Vec<usize>,
    /// Its text, without the stop string.
    pub text: String,
    /// Why it ends there.
    pub cut: Cut,
}

impl Window {
    /// Where the answer is on a canvas, which may have grown.
    fn positions(&self, tokens: &[TokenId]) -> impl Iterator<Item = usize> {
        let given = self.free.iter().copied().filter({
            let length = tokens.len();
            move |&at| at < length
        });
        given.chain(self.length..tokens.len())
    }

    /// The answer of a canvas that will not change any more. Masks that are left stand for nothing.
    pub(crate) fn read(&self, reader: &Reader, tokens: &[TokenId]) -> Taken {
        self.take(reader, tokens, self.positions(tokens).filter(|&at| tokens.get(at) != Some(&self.mask_id)))
    }

    /// What is settled of a canvas: everything before its first mask.
    pub(crate) fn settled(&self, reader: &Reader, tokens: &[TokenId]) -> Taken {
        if self.revises {
            return Taken { positions: Vec::new(), text: String::new(), cut: Cut::None };
        }
        self.take(reader, tokens, self.positions(tokens).take_while(|&at| tokens.get(at) != Some(&self.mask_id)))
    }

    /// Whether the answer is settled whatever else is filled in.
    pub(crate) fn is_settled(&self, reader: &Reader, tokens: &[TokenId]) -> bool {
        if self.revises {
            return false;
        }
        let prefix = || self.positions(tokens).map(|at| &tokens[at]).take_while(|&&token| token != self.mask_id);
        if prefix().any(|token| self.ends.contains(token)) {
            return true;
        }
        !self.stops.is_empty() && self.settled(reader, tokens).cut != Cut::None
    }

    /// Whether masks stand among what was taken, or before the end that ended it: then it is not all that there was to be.
    pub(crate) fn is_open(&self, tokens: &[TokenId], taken: &Taken) -> bool {
        let last = taken.positions.last().copied().unwrap_or(0);
        let read = self.positions(tokens).take_while(|&at| match taken.cut {
            Cut::Stop(_) => at <= last,
            _ => !self.ends.contains(&tokens[at]),
        });
        read.into_iter().any(|at| tokens[at] == self.mask_id)
    }

    /// The window as it stands, a shade for every mask.
    pub(crate) fn draft(&self, reader: &Reader, tokens: &[TokenId]) -> String {
        let (mut text, mut run) = (String::new(), Vec::new());
        for token in self.positions(tokens).map(|at| &tokens[at]) {
            if self.ends.contains(token) {
                break;
            }
            if *token == self.mask_id {
                text += &self.text(reader, &std::mem::take(&mut run));
                text.push(SHADE);
            } else {
                run.push(*token);
            }
        }
        text + &self.text(reader, &run)
    }

    fn text(&self, reader: &Reader, tokens: &[TokenId]) -> String {
        let specials = if self.show_specials { Specials::Shown } else { Specials::Hidden };
        reader.text(tokens, specials).unwrap_or_default()
    }

    fn take(&self, reader: &Reader, tokens: &[TokenId], positions: impl Iterator<Item = usize>) -> Taken {
        let mut taken: Vec<usize> = Vec::new();
        let mut cut = Cut::None;
        for at in positions {
            if tokens.get(at).is_some_and(|token| self.ends.contains(token)) {
                cut = Cut::End;
                break;
            }
            taken.push(at);
        }
        let ids: Vec<TokenId> = taken.iter().filter_map(|&at| tokens.get(at).copied()).collect();
        let mut text = self.text(reader, &ids);
        if let Some((at, stop)) = earliest(&text, &self.stops) {
            text.truncate(at);
            // As many tokens as it takes to write what is left.
            let enough = |n: &usize| self.text(reader, &ids[..*n]).len() >= text.len();
            let kept = (0..=ids.len()).find(enough).unwrap_or(ids.len());
            taken.truncate(kept);
            cut = Cut::Stop(stop);
        }
        Taken { positions: taken, text, cut }
    }
}

/// The first place where one of the stop strings stands, and which.
fn earliest(text: &str, stops: &[String]) -> Option<(usize, String)> {
    stops.iter().filter_map(|stop| text.find(stop.as_str()).map(|at| (at, stop.clone()))).min()
}

/// The prefix that was sent, and what may be sent next.
#[derive(Debug, Default)]
pub(crate) struct Append {
    sent: String,
}

impl Append {
    /// What to send now that so much is settled: the difference, without what may still become something else.
    pub(crate) fn settle(&mut self, taken: &Taken, stops: &[String]) -> Option<String> {
        let text = match taken.cut {
            Cut::None => safe(&taken.text, stops),
            _ => &taken.text,
        };
        self.difference(text)
    }

    /// The rest, now that nothing changes any more.
    pub(crate) fn finish(&mut self, text: &str) -> Option<String> {
        self.difference(text)
    }

    fn difference(&mut self, text: &str) -> Option<String> {
        let new = text.strip_prefix(self.sent.as_str()).filter(|new| !new.is_empty())?.to_owned();
        self.sent += &new;
        Some(new)
    }
}

/// The part of a text that stays whatever follows: without the beginning of a character, and of a stop string.
fn safe<'a>(text: &'a str, stops: &[String]) -> &'a str {
    let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let begun = |stop: &String| {
        let longest = stop.len().saturating_sub(1).min(text.len());
        (1..=longest).rev().find(|&n| stop.is_char_boundary(n) && text.ends_with(&stop[..n])).unwrap_or(0)
    };
    let hold = stops.iter().map(begun).max().unwrap_or(0);
    &text[..text.len() - hold]
}

/// `cofill.canvas` of the first frame.
pub(crate) fn canvas(start: &Canvas, header: &Header) -> Value {
    let window = start.window();
    json!({
        "tokens": header.tokens,
        "pieces": header.pieces,
        "window": [window.start, window.end],
        "mask": header.mask_id,
    })
}

/// `cofill` of a frame: the fields of the trace's step, the text of every commit beside it.
pub(crate) fn frame(frame: &Frame, reader: &Reader, top: u32) -> Value {
    let step = &frame.step;
    let commit = |(at, commit): (usize, &cofill::trace::Commit)| {
        json!({
            "position": commit.position,
            "token": commit.token,
            "piece": step.pieces.get(at),
            "confidence": commit.confidence,
            "entropy": commit.entropy,
            "score": commit.score,
            "utility": commit.utility,
        })
    };
    let mut it = json!({
        "step": step.step,
        "nfe": frame.nfe,
        "masked": frame.masked,
        "commits": step.commits.iter().enumerate().map(commit).collect::<Vec<_>>(),
        "deferred": step.deferred,
        "remasked": step.remasked,
        "forced": step.forced,
        "appended": step.appended,
        "collapsed": step.collapsed,
    });
    if top > 0 {
        it["top"] = tops(frame, reader, top);
    }
    it
}

/// `top` of a frame: the likeliest tokens of every candidate.
pub(crate) fn tops(frame: &Frame, reader: &Reader, most: u32) -> Value {
    let token = |&(token, p): &(TokenId, f32)| json!({"token": token, "piece": reader.piece(token), "p": p});
    let candidate = |(position, likely): &(usize, Vec<(TokenId, f32)>)| {
        let tokens: Vec<Value> = likely.iter().take(most as usize).map(token).collect();
        json!({"position": position, "tokens": tokens})
    };
    frame.top.iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofill_engine::{Engine, RunOptions};

    /// A window of everything, in words of the toy: tokens are joined by blanks.
    fn toy(stops: &[&str]) -> (Engine, Window) {
        let engine = Engine::open("toy", &RunOptions::default()).unwrap();
        let window = Window {
            free: (0..4).collect(),
            length: 4,
            mask_id: engine.mask_id(),
            ends: vec![3],
            stops: stops.iter().map(|&stop| stop.into()).collect(),
            is_held: false,
            show_specials: false,
            revises: false,
        };
        (engine, window)
    }

    #[test]
    fn only_what_stands_before_the_first_mask_is_settled() {
        let (engine, window) = toy(&[]);
        let (reader, m) = (engine.reader(), window.mask_id);
        let words: Vec<String> = (0..3).map(|token| reader.piece(token)).collect();
        let taken = window.settled(&reader, &[0, m, 2, m]);
        assert_eq!((taken.text.as_str(), taken.positions.as_slice()), (words[0].as_str(), &[0][..]));
        let taken = window.read(&reader, &[0, m, 2, m]);
        assert_eq!(taken.text, format!("{} {}", words[0], words[2]), "masks that are left stand for nothing");
        assert!(!window.is_settled(&reader, &[0, m, 3, m]));
        assert!(window.is_settled(&reader, &[0, 1, 3, m]), "an end in the settled prefix");
        assert_eq!(window.read(&reader, &[0, 1, 3, 2]).cut, Cut::End);
        let is_open = |tokens: &[TokenId]| window.is_open(tokens, &window.read(&reader, tokens));
        assert!(is_open(&[0, m, 3, 2]) && is_open(&[0, 1, m, 2]) && !is_open(&[0, 1, 3, m]) && !is_open(&[0, 1, 2, 0]));
        assert_eq!(window.draft(&reader, &[0, m, 1, m]), format!("{}{SHADE}{}{SHADE}", words[0], words[1]));
    }

    #[test]
    fn the_earliest_stop_wins_and_only_tokens_before_it_count() {
        let (engine, mut window) = toy(&[]);
        let reader = engine.reader();
        let words: Vec<String> = (0..3).map(|token| reader.piece(token)).collect();
        window.stops = vec![words[2].clone(), words[1].clone()];
        let taken = window.read(&reader, &[0, 1, 2, 0]);
        assert_eq!(taken.text, format!("{} ", words[0]));
        assert_eq!(taken.cut, Cut::Stop(words[1].clone()));
        assert_eq!(taken.positions, [0, 1], "the blank before the second word takes its token");
    }

    #[test]
    fn what_may_become_a_stop_or_a_character_is_held_back() {
        let stops = ["\n\n".to_owned(), "END".to_owned()];
        assert_eq!(safe("a\n", &stops), "a");
        assert_eq!(safe("a EN", &stops), "a ");
        assert_eq!(safe("a ENx", &stops), "a ENx");
        assert_eq!(safe("a\u{fffd}\u{fffd}", &[]), "a");
        let mut append = Append::default();
        let taken = |text: &str| Taken { positions: Vec::new(), text: text.into(), cut: Cut::None };
        assert_eq!(append.settle(&taken("a\n"), &stops).as_deref(), Some("a"));
        assert_eq!(append.settle(&taken("a\nb"), &stops).as_deref(), Some("\nb"));
        assert_eq!(append.settle(&taken("a\nb"), &stops), None);
        assert_eq!(append.finish("a\nb\n").as_deref(), Some("\n"));
    }
}
