//! Tasks together with what they are run on.
#![allow(clippy::unwrap_used, missing_docs)]

// The mini tasks in tokens of the tiny models.
mod tokens;
