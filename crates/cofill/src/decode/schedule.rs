//! Which masks are eligible now.

use crate::{Canvas, Error, Result};

/// All of them, or block by block from the left (semi-autoregressive decoding).
///
/// The forward pass always sees the whole canvas. The ADAS paper uses no blocks; LLaDA's and Fast-dLLM's scripts do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Every mask is a candidate.
    #[default]
    Full,
    /// Masks left of the end of the first unfinished block are candidates. Blocks tile the span from the first to the last
    /// initially masked position; the last one may be shorter.
    Blocks {
        /// How many positions a block has; at least 1.
        len: usize,
    },
}

impl Schedule {
    /// Refuses blocks of nothing.
    pub fn check(self) -> Result<()> {
        match self {
            Schedule::Blocks { len: 0 } => Err(Error::EmptyBlock),
            _ => Ok(()),
        }
    }

    /// How many blocks a canvas has; at least 1.
    pub fn blocks(self, canvas: &Canvas) -> usize {
        match self {
            Schedule::Full => 1,
            Schedule::Blocks { len } => canvas.window().len().div_ceil(len).max(1),
        }
    }

    /// Where a block begins, by its number.
    pub(crate) fn start(self, canvas: &Canvas, index: usize) -> usize {
        let window = canvas.window();
        match self {
            Schedule::Full => window.start,
            Schedule::Blocks { len } => window.start + index * len,
        }
    }

    /// The unfinished block: its number and the first position after it. `None` when no mask is left.
    pub fn current(self, canvas: &Canvas) -> Option<(usize, usize)> {
        let window = canvas.window();
        let first = canvas.masked().next()?;
        Some(match self {
            Schedule::Full => (0, canvas.tokens().len()),
            Schedule::Blocks { len } => {
                let index = (first - window.start) / len;
                let end = (index + 1).saturating_mul(len).saturating_add(window.start);
                (index, if end < window.end { end } else { canvas.tokens().len() })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u32 = 9;

    #[test]
    fn blocks_tile_the_window_from_the_left() {
        let blocks = Schedule::Blocks { len: 2 };
        let mut canvas = Canvas::prompt(&[1, 1, 1], 5, M);
        assert_eq!(blocks.blocks(&canvas), 3);
        assert_eq!(Schedule::Blocks { len: usize::MAX }.blocks(&canvas), 1);
        assert_eq!(blocks.current(&canvas), Some((0, 5)));
        canvas.commit(3, 7).unwrap();
        assert_eq!(blocks.current(&canvas), Some((0, 5)));
        canvas.commit(4, 7).unwrap();
        assert_eq!(blocks.current(&canvas), Some((1, 7)));
        assert_eq!((blocks.start(&canvas, 1), Schedule::Full.start(&canvas, 0)), (5, 3));
        canvas.commit(7, 7).unwrap();
        assert_eq!(blocks.current(&canvas), Some((1, 7)), "a later block's token changes nothing");
        canvas.commit(5, 7).unwrap();
        canvas.commit(6, 7).unwrap();
        assert_eq!(blocks.current(&canvas), None);
    }

    #[test]
    fn infill_blocks_start_at_the_first_mask() {
        let canvas = Canvas::new(vec![1, M, 1, 1, M, 1], M);
        assert_eq!(Schedule::Blocks { len: 3 }.blocks(&canvas), 2);
        assert_eq!(Schedule::Blocks { len: 3 }.current(&canvas), Some((0, 4)));
        assert_eq!(Schedule::Full.current(&canvas), Some((0, 6)), "the context to the right is in sight");
        assert_eq!(Schedule::Blocks { len: usize::MAX }.current(&canvas), Some((0, 6)));
        assert!(matches!(Schedule::Blocks { len: 0 }.check(), Err(Error::EmptyBlock)));
    }
}
