//! How probable given tokens are, asked from Python.

use crate::arrays;
use crate::engine::Shared;
use crate::errors::OrRaise;
use cofill::TokenId;
use cofill_engine::Scored;
use pyo3::prelude::*;

impl Shared {
    /// ln p of every target of everything that is asked, one forward for all.
    pub(crate) fn score_all(&self, py: Python<'_>, asked: &[OwnedScored], cfg: f64) -> PyResult<Vec<Vec<f64>>> {
        let mut options = self.opened.clone();
        options.cfg = cfg;
        self.run_stoppable(py, &options, |engine| {
            let scored: Vec<Scored<'_>> = asked.iter().map(OwnedScored::lend).collect();
            engine.score(&scored).or_raise()
        })
    }
}

/// What is scored, out of Python's hands.
pub(crate) struct OwnedScored {
    tokens: Vec<TokenId>,
    rows: Vec<usize>,
    targets: Vec<TokenId>,
    free: Vec<usize>,
}

impl OwnedScored {
    pub(crate) fn of(
        tokens: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        free: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<OwnedScored> {
        let rows = arrays::positions("rows", rows)?;
        Ok(OwnedScored {
            tokens: arrays::tokens("tokens", tokens, None)?,
            targets: arrays::tokens("targets", targets, Some((rows.len(), "one per row")))?,
            free: free.map_or_else(|| Ok(rows.clone()), |free| arrays::positions("free", free))?,
            rows,
        })
    }

    fn lend(&self) -> Scored<'_> {
        let OwnedScored { tokens, rows, targets, free } = self;
        Scored { tokens, rows, targets, free }
    }
}
