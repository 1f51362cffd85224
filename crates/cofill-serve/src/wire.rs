//! What comes over the wire, by dialect. Types only: what they mean is `valid.rs`'s to say.

pub mod llama;
pub mod mercury;
pub mod openai;
pub mod ours;
