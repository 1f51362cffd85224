//! The likeliest tokens of every candidate, for requests that want to see alternatives.
//!
//! A sampler inside another one, which also asks for distributions and writes down the top of each. Only requests that want it pay: whole
//! distributions of a window are large, so windows and vocabularies have a limit here.

use cofill::spec::Entry;
use cofill::{
    Job, Needs, Picks, Policy, Registry, RemaskingSampler, Result, Revision, Sampler, SamplerSpec, StepView, TokenId,
    Verdict,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most probabilities that one forward may have to answer with: 256 MiB.
pub(crate) const MOST_PROBABILITIES: usize = 64 << 20;

/// A token and its probability.
pub(crate) type Likely = (TokenId, f32);

/// What was seen, by position.
#[derive(Debug, Default)]
pub(crate) struct Tops {
    k: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Of the last step in which a position was a candidate: the one that committed it, if it is committed.
    by_position: BTreeMap<usize, Vec<Likely>>,
    /// The candidates of the last step.
    latest: Vec<usize>,
}

impl Tops {
    /// The `k` likeliest tokens.
    pub(crate) fn new(k: u32) -> Arc<Tops> {
        Arc::new(Tops { k: k as usize, seen: Mutex::default() })
    }

    /// The likeliest tokens of a position when it was committed.
    pub(crate) fn of(&self, position: usize) -> Vec<Likely> {
        self.lock().by_position.get(&position).cloned().unwrap_or_default()
    }

    /// Those of the candidates of the last step.
    pub(crate) fn latest(&self) -> Vec<(usize, Vec<Likely>)> {
        let seen = self.lock();
        seen.latest.iter().map(|&at| (at, seen.by_position.get(&at).cloned().unwrap_or_default())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what a forward says, unless the sampler only looks ahead.
    fn see(&self, view: &StepView<'_>) {
        if !view.revealed.is_empty() {
            return;
        }
        let mut seen = self.lock();
        seen.latest.clear();
        for slot in view.slots() {
            let position = view.position(slot);
            seen.latest.push(position);
            seen.by_position.insert(position, top(view.distribution(slot), self.k));
        }
    }

    /// A sampler that does what `inner` does, and lets this see.
    pub(crate) fn watch(self: &Arc<Tops>, inner: &SamplerSpec) -> Result<SamplerSpec> {
        let (tops, inner) = (self.clone(), inner.clone());
        let build = move |_: &cofill::spec::Values, _| {
            let tops = tops.clone();
            Ok(match inner.build()? {
                Policy::Commits(inner) => Policy::Commits(Box::new(Watched { inner, tops })),
                Policy::Remasks(inner) => Policy::Remasks(Box::new(Watched { inner, tops })),
            })
        };
        Registry::default().with(Entry::new("watched", "another sampler, watched", build).version(1))?.parse("watched")
    }
}

/// The largest `k` of a row, the lower id first where they are equal.
fn top(row: &[f32], k: usize) -> Vec<Likely> {
    let mut best: Vec<Likely> = Vec::with_capacity(k + 1);
    for (token, &p) in (0..).zip(row) {
        if best.len() < k || best.last().is_some_and(|last| p > last.1) {
            let at = best.partition_point(|other| other.1 >= p);
            best.insert(at, (token, p));
            best.truncate(k);
        }
    }
    best
}

struct Watched<S> {
    inner: S,
    tops: Arc<Tops>,
}

impl Sampler for Watched<Box<dyn Sampler>> {
    fn needs(&self) -> Needs {
        self.inner.needs().distributions()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.inner.begin(job)
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        self.tops.see(view);
        self.inner.select(view, picks)
    }
}

impl RemaskingSampler for Watched<Box<dyn RemaskingSampler>> {
    fn needs(&self) -> Needs {
        self.inner.needs().distributions()
    }

    fn begin(&mut self, job: &Job) -> Result<usize> {
        self.inner.begin(job)
    }

    fn revise(&mut self, view: &StepView<'_>, revision: &mut Revision) -> Result<Verdict> {
        self.tops.see(view);
        self.inner.revise(view, revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_sorted_and_ties_go_to_the_lower_id() {
        assert_eq!(top(&[0.1, 0.4, 0.1, 0.4], 3), [(1, 0.4), (3, 0.4), (0, 0.1)]);
        assert_eq!(top(&[0.5], 3), [(0, 0.5)]);
        assert_eq!(top(&[0.5, 0.2], 0), []);
    }
}
