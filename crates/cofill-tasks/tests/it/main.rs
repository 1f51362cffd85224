//! Tasks together with what they are run on.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// Generated programs: the harmless pass, the hostile get nowhere.
#[cfg(target_os = "linux")]
mod sandbox;

// Judging MATH answers: goldens, and answers nobody has written yet.
mod math;
// The mini tasks in tokens of the tiny models.
mod tokens;

// Prompts of the harness, from the shared goldens.
mod prompts;

// Scores of the harness, from the shared goldens.
mod scores;

// Where the goldens are, and how they are read.
mod goldens;
