//! A bound on what making one language may cost, whatever it is made of.

use crate::{Error, Result};
use std::cell::Cell;

/// Steps that one language may take, each a few nanoseconds.
const STEPS: usize = 20_000_000;

/// Steps that are left.
pub(crate) struct Work(Cell<usize>);

impl Work {
    pub(crate) fn new() -> Work {
        Work(Cell::new(STEPS))
    }

    /// Takes so many steps; refused when they are used up.
    pub(crate) fn spend(&self, steps: usize) -> Result<()> {
        match self.0.get().checked_sub(steps) {
            Some(left) => self.0.set(left),
            None => return Err(Error::TooLarge { what: "steps to make the language", given: STEPS, limit: STEPS }),
        }
        Ok(())
    }
}
