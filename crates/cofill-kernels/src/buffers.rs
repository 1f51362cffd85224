//! Memory that is used again: asking the system for megabytes, and first touching them, costs as much as a small product.

use std::sync::{Mutex, PoisonError};

/// Buffers that nobody uses at the moment.
#[derive(Debug, Default)]
pub struct Buffers(Mutex<Vec<Vec<f32>>>);

impl Buffers {
    /// Room for so many numbers. What they are is left over from earlier.
    pub fn take(&self, size: usize) -> Vec<f32> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that is large enough, or else the largest, which grows.
        let fits = (0..free.len()).filter(|&i| free[i].capacity() >= size).min_by_key(|&i| free[i].capacity());
        let largest = || (0..free.len()).max_by_key(|&i| free[i].capacity());
        let mut buffer = fits.or_else(largest).map_or_else(Vec::new, |i| free.swap_remove(i));
        drop(free);
        if buffer.capacity() < size {
            buffer.clear(); // what would be copied is not wanted
        }
        buffer.resize(size, 0.0);
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&self, buffer: Vec<f32>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_never_too_small() {
        let buffers = Buffers::default();
        let first = buffers.take(1000);
        let place = first.as_ptr();
        buffers.give(first);
        let second = buffers.take(10);
        assert_eq!((second.len(), second.as_ptr()), (10, place));
        assert_eq!(buffers.take(5).len(), 5);
        buffers.give(second);
        assert_eq!(buffers.take(2000).len(), 2000);
    }
}
