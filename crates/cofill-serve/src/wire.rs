//! What comes over the wire, by dialect. Types only: what they mean is `valid.rs`'s to say.

pub(crate) mod llama;
pub(crate) mod mercury;
pub(crate) mod openai;
pub(crate) mod ours;
