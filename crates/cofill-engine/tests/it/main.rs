//! An engine from outside: the toy, and the tiny models as folders.
#![allow(clippy::unwrap_used, missing_docs)]

// Text to canvas: prompts, chats, gaps, lengths.
mod inputs;

// How long an answer or a gap becomes, and how it ends.
mod length;
// Texts in a language: every schema, every sampler.
mod constraints;

// Canvases filled one by one and together, watched and cancelled.
mod steps;

use cofill_engine::{Engine, RunOptions};
use serde_json::Value;

/// The folder of a tiny model, as anybody might have copied it.
pub(crate) fn tiny(name: &str) -> Engine {
    let folder = format!("{}/../../models/{name}", env!("CARGO_MANIFEST_DIR"));
    Engine::open(&folder, &RunOptions::default()).unwrap()
}

/// Options as JSON has them.
pub(crate) fn options(json: Value) -> RunOptions {
    serde_json::from_value(json).unwrap()
}
