//! Tasks against the harness's own prompts and scores, and in tokens of the tiny models.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// The mini tasks in tokens of the tiny models.
mod tokens;

// Prompts of the harness, from the shared goldens.
mod prompts;

// Scores of the harness, from the shared goldens.
mod scores;

// Where the goldens are, and how they are read.
mod goldens;
