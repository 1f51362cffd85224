//! Tasks against the harness's own prompts and scores.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// Prompts of the harness, from the shared goldens.
mod prompts;

// Scores of the harness, from the shared goldens.
mod scores;

// Where the goldens are, and how they are read.
mod goldens;
