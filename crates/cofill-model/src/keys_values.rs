//! The keys and values of every layer, kept from one forward of a sequence to the next.
//!
//! A full forward stores those of every position. A forward of a window computes the window's rows alone: each layer overwrites their keys
//! and values in place and lets them attend to all keys, so that what stands outside of the window is as some earlier forward saw it. Keys
//! are kept rotated, each by its own position, which no cache changes.

use std::ops::Range;

/// Keys and values of one sequence. An f32 of each for every layer, position and key head's dimension.
pub struct KeysValues {
    length: usize,
    width: usize,     // key heads · dim
    keys: Vec<f32>,   // [layer x length x width]
    values: Vec<f32>, // [layer x length x width]
}

/// What a forward does with what is kept.
pub struct CacheUse<'a> {
    /// What is kept; of the sequence's length.
    pub kept: &'a mut KeysValues,
    /// The positions to compute; `None` for all of them, in a forward that stores everything.
    pub window: Option<Range<usize>>,
}

/// What is kept of one layer, and where the computed rows stand.
pub(crate) struct KeptLayer<'a> {
    pub(crate) first: usize,          // position of the first computed row
    pub(crate) keys: &'a mut [f32],   // [length x width]
    pub(crate) values: &'a mut [f32], // [length x width]
    width: usize,
}

impl KeysValues {
    /// Room for a sequence of so many positions.
    pub fn new(layers: usize, length: usize, width: usize) -> KeysValues {
        let n = layers * length * width;
        KeysValues { length, width, keys: vec![0.0; n], values: vec![0.0; n] }
    }

    /// The positions it has room for.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The bytes it takes.
    pub fn bytes(&self) -> usize {
        (self.keys.len() + self.values.len()) * size_of::<f32>()
    }

    /// What is kept of a layer, for rows that stand from `first` on.
    pub(crate) fn layer(&mut self, layer: usize, first: usize) -> KeptLayer<'_> {
        let n = self.length * self.width;
        let at = layer * n..(layer + 1) * n;
        KeptLayer { first, keys: &mut self.keys[at.clone()], values: &mut self.values[at], width: self.width }
    }
}

impl KeptLayer<'_> {
    /// Puts computed rows in their place. `keys`, `values`: `[rows, width]`, contiguous, the keys rotated
    pub(crate) fn store(&mut self, keys: &[f32], values: &[f32]) {
        let start = self.first * self.width;
        self.keys[start..start + keys.len()].copy_from_slice(keys);
        self.values[start..start + values.len()].copy_from_slice(values);
    }
}

#[cfg(test)]
mod tests {
    use super::KeysValues;

    #[test]
    fn rows_lie_by_layer_and_position() {
        // 2 layers, 3 positions, width 2: row 1 of layer 1 begins at (1 x 3 + 1) x 2 = 8.
        let mut kept = KeysValues::new(2, 3, 2);
        kept.layer(1, 1).store(&[1.0, 2.0], &[3.0, 4.0]);
        assert_eq!((&kept.keys[8..10], &kept.values[8..10]), ([1.0, 2.0].as_slice(), [3.0, 4.0].as_slice()));
        assert_eq!(kept.keys.iter().sum::<f32>() + kept.values.iter().sum::<f32>(), 10.0);
        assert_eq!((kept.length(), kept.bytes()), (3, 96));
    }
}
