//! What a model can be asked, and what counts as right.

pub mod mini;
