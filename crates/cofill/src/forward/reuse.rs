//! What a denoiser may use again from one forward of a sequence to the next: keys and values of positions that are not computed anew.
//!
//! The core says *which* positions are to be computed ([`Part`]) and owns the place where a denoiser keeps the rest ([`CacheCell`]). What
//! lies there is the denoiser's own matter, so no tensor is named here. The place belongs to the decode: it is gone with it, however the
//! decode ends, and no two decodes can take each other's.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Where a denoiser keeps what it may use again for one sequence. Only what has been put there can be taken, by its type.
#[derive(Default)]
pub struct CacheCell(Mutex<Option<Box<dyn Any + Send>>>);

impl CacheCell {
    /// A cell in which nothing is kept.
    pub fn new() -> CacheCell {
        CacheCell::default()
    }

    /// Takes out what is kept; `None` if that is nothing or something else than a `T`. A denoiser that fails before it puts it back has
    /// lost it, and computes everything the next time.
    pub fn take<T: Any>(&self) -> Option<T> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        kept.downcast::<T>().ok().map(|kept| *kept)
    }

    /// Keeps this, and nothing that was kept before.
    pub fn put<T: Any + Send>(&self, kept: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(kept));
    }
}

impl fmt::Debug for CacheCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheCell(..)")
    }
}

/// How a forward may reuse what earlier ones of the sequence computed. A denoiser that cannot, or has lost what it kept, computes
/// everything: that is always right.
#[derive(Debug, Clone, Copy)]
pub struct Reuse<'a> {
    /// The sequence's own place.
    pub cell: &'a CacheCell,
    /// The positions to compute anew.
    pub part: Part,
}

/// Which positions a forward computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of them, and everything is kept.
    All,
    /// Those from `start` to before `end`, which contain every asked row; what was kept stands for all others. What is computed replaces
    /// what was kept of these positions.
    Window {
        /// The first position.
        start: usize,
        /// The one after the last.
        end: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::CacheCell;

    #[test]
    fn a_cell_gives_what_was_put_there_once_and_nothing_else() {
        let cell = CacheCell::new();
        assert_eq!(cell.take::<u32>(), None);
        cell.put(7u32);
        assert_eq!((cell.take::<u32>(), cell.take::<u32>()), (Some(7), None));
        cell.put(7u32);
        assert_eq!(cell.take::<String>(), None, "another denoiser's");
    }
}
