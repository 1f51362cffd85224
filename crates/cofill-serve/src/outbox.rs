//! Between the thread that computes and the task that answers: what a decode has come to, kept so that neither waits for the other.
//!
//! The thread overwrites the canvas and appends frames; the task takes what is new whenever its client reads. A client that does not read
//! costs a bounded number of frames, since the newest are merged: what is lost is only how many steps there were.

use crate::error::ApiError;
use crate::stream::Window;
use crate::top::{Likely, Tops};
use cofill::trace::{Commit, Header};
use cofill::{Canvas, Step, TokenId};
use cofill_engine::Generation;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most frames that wait for a reader.
pub(crate) const MOST_FRAMES: usize = 64;

/// What is known when a request was read and its canvas drawn.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    /// The canvas before the first step.
    pub start: Canvas,
    /// What its trace begins with.
    pub header: Arc<Header>,
    /// What whoever asked should hear.
    pub warnings: Vec<String>,
    /// What of the canvas is the answer.
    pub window: Window,
    /// Alternatives, if they are wanted.
    pub tops: Option<Arc<Tops>>,
}

impl Accepted {
    /// Tokens that were given.
    pub(crate) fn given(&self) -> usize {
        self.start.tokens().len() - self.start.free().len()
    }
}

/// What came of a decode.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The decode.
    pub generation: Generation,
    /// Its time limit ended it.
    pub timed_out: bool,
    /// From the moment that it was asked for to its first forward, in seconds.
    pub queued: f64,
}

/// One step on its way to a reader, or several that were merged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    /// What changed.
    pub step: Step,
    /// Forwards so far.
    pub nfe: usize,
    /// Masks left.
    pub masked: usize,
    /// The likeliest tokens of every candidate, if they are wanted.
    pub top: Vec<(usize, Vec<Likely>)>,
}

/// What is new since the last look.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// The canvas, if it changed.
    pub canvas: Option<Vec<TokenId>>,
    /// The steps, if they are wanted.
    pub frames: Vec<Frame>,
    /// How it ended, once it has.
    pub end: Option<Result<Arc<Ended>, ApiError>>,
}

/// The place between the two.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Notify,
    gone: AtomicBool,
    wants_frames: bool,
}

#[derive(Debug)]
struct State {
    accepted: Option<Result<Arc<Accepted>, ApiError>>,
    news: News,
}

impl Outbox {
    /// For a decode that is asked for now.
    pub(crate) fn new(wants_frames: bool) -> Arc<Outbox> {
        let state = State { accepted: None, news: News::default() };
        Arc::new(Outbox {
            state: Mutex::new(state),
            changed: Notify::new(),
            gone: AtomicBool::new(false),
            wants_frames,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the request can be decoded.
    pub(crate) fn accept(&self, accepted: Result<Accepted, ApiError>) {
        self.state().accepted = Some(accepted.map(Arc::new));
        self.changed.notify_one();
    }

    /// A step was made.
    pub(crate) fn step(&self, step: &Step, canvas: &Canvas, nfe: usize, tops: Option<&Tops>) {
        let mut state = self.state();
        state.news.canvas = Some(canvas.tokens().to_vec());
        if self.wants_frames {
            let top = tops.map(Tops::latest).unwrap_or_default();
            let frame = Frame { step: step.clone(), nfe, masked: canvas.n_masked(), top };
            push(&mut state.news.frames, frame);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Nothing comes after this.
    pub(crate) fn end(&self, end: Result<Ended, ApiError>) {
        let mut state = self.state();
        if state.accepted.is_none()
            && let Err(error) = &end
        {
            state.accepted = Some(Err(error.clone()));
        }
        state.news.end = Some(end.map(Arc::new));
        drop(state);
        self.changed.notify_one();
    }

    /// Whether the client went away.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Waits until the request was read, and its canvas drawn or refused.
    pub(crate) async fn accepted(&self) -> Result<Arc<Accepted>, ApiError> {
        loop {
            if let Some(accepted) = self.state().accepted.clone() {
                return accepted;
            }
            self.changed.notified().await;
        }
    }

    /// Waits until something is new, and takes it.
    pub(crate) async fn news(&self) -> News {
        loop {
            {
                let mut state = self.state();
                if state.news.canvas.is_some() || !state.news.frames.is_empty() || state.news.end.is_some() {
                    return std::mem::take(&mut state.news);
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits for the end and lets everything before it pass.
    pub(crate) async fn ended(&self) -> Result<Arc<Ended>, ApiError> {
        loop {
            if let Some(end) = self.news().await.end {
                return end;
            }
        }
    }
}

/// Held by whoever answers the client: when it is dropped, nobody wants the decode any more.
#[derive(Debug)]
pub(crate) struct Listener(pub Arc<Outbox>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }
}

fn push(frames: &mut Vec<Frame>, frame: Frame) {
    let full = frames.len() >= MOST_FRAMES;
    match frames.last_mut().filter(|_| full) {
        Some(last) => merge(last, frame),
        None => frames.push(frame),
    }
}

/// Two frames as one: replaying it leads to the same canvas.
fn merge(first: &mut Frame, then: Frame) {
    let before = first.step.n_masked;
    let piece = |step: &Step, at: usize| step.pieces.get(at).cloned().unwrap_or_default();
    let mut written: Vec<(Commit, String)> = Vec::new();
    let mut masked: Vec<usize> = Vec::new();
    for step in [&first.step, &then.step] {
        for (at, commit) in step.commits.iter().enumerate() {
            written.retain(|(old, _)| old.position != commit.position);
            written.push((*commit, piece(step, at)));
            masked.retain(|&position| position != commit.position);
        }
        for &position in &step.remasked {
            written.retain(|(old, _)| old.position != position);
            if !masked.contains(&position) {
                masked.push(position);
            }
        }
    }
    let (commits, pieces) = written.into_iter().unzip();
    let forwards = first.step.forwards + then.step.forwards;
    let companion = first.step.companion + then.step.companion;
    let appended = first.step.appended + then.step.appended;
    first.step =
        Step { commits, pieces, remasked: masked, forwards, companion, appended, n_masked: before, ..then.step };
    (first.nfe, first.masked, first.top) = (then.nfe, then.masked, then.top);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: usize, commits: &[(usize, TokenId)], remasked: &[usize]) -> Step {
        let commit = |&(position, token): &(usize, TokenId)| Commit {
            position,
            token,
            confidence: 0.5,
            entropy: 0.1,
            score: 0.5,
            utility: 0.5,
            clean_confidence: None,
        };
        serde_json::from_value(serde_json::json!({
            "step": number, "forwards": 1, "n_masked": 0, "candidates": 1, "forced": false,
            "commits": commits.iter().map(commit).collect::<Vec<_>>(), "remasked": remasked,
        }))
        .unwrap()
    }

    #[test]
    fn frames_that_nobody_takes_are_merged_to_the_same_canvas() {
        // 200 steps, one position each, into 64 frames: what is replayed is what happened.
        let mut canvas = Canvas::prompt(&[1], 200, 9);
        let outbox = Outbox::new(true);
        let mut replayed = canvas.clone();
        for at in 0..200 {
            let step = step(at, &[(1 + at, 5)], &[]);
            step.apply(&mut canvas).unwrap();
            outbox.step(&step, &canvas, at + 1, None);
        }
        let news = std::mem::take(&mut outbox.state().news);
        assert_eq!(news.frames.len(), MOST_FRAMES);
        news.frames.iter().for_each(|frame| frame.step.apply(&mut replayed).unwrap());
        assert_eq!(replayed, canvas);
        assert_eq!((news.frames[63].nfe, news.frames[63].masked), (200, 0));
        assert_eq!(news.frames.iter().map(|frame| frame.step.forwards).sum::<usize>(), 200);
    }

    #[test]
    fn merged_frames_keep_only_the_last_word_on_a_position() {
        let frame = |step: Step, masked| Frame { step, nfe: 1, masked, top: Vec::new() };
        let mut first = frame(step(0, &[(3, 7), (4, 8)], &[]), 0);
        merge(&mut first, frame(step(1, &[(5, 1)], &[3, 4]), 2));
        merge(&mut first, frame(step(2, &[(3, 6)], &[]), 1));
        let kept: Vec<(usize, TokenId)> = first.step.commits.iter().map(|c| (c.position, c.token)).collect();
        assert_eq!((kept, first.step.remasked), (vec![(5, 1), (3, 6)], vec![4]));
    }
}
