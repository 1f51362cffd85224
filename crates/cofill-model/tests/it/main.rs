//! The models against numbers from the published reference implementations, and against damaged files.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers are not `#[test]`s; counts are printed for CI

// Where the shared goldens are, and how to read them.
mod support;

// One forward pass: logits, statistics, attention of every layer, in every file layout.
mod forward;

// Tokenizers and chat templates.
mod tokenizer;

// Whole decodes, step by step, as the reference decoders made them.
mod trajectories;
