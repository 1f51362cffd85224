//! Judging MATH answers: golden pairs, and answers nobody has written yet.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod math;
