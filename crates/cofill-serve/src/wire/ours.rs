//! Our own routes: any canvas, whole traces, one selection, one forward. Unknown fields are errors.

use super::openai::{ChatMessage, OneOrMany};
use cofill::TokenId;
use cofill_engine::{Length, Schema};
use serde::Deserialize;

/// `POST /v1/cofill/decode`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Decode {
    /// The model to ask.
    pub model: Option<String>,
    /// Text, and masks after it.
    pub prompt: Option<String>,
    /// A chat, and masks after it.
    pub messages: Option<Vec<ChatMessage>>,
    /// Text with gaps, `[MASK:4]`.
    pub template: Option<String>,
    /// A whole canvas; `null` is a mask.
    pub tokens: Option<Vec<Option<TokenId>>>,
    /// Which positions are committed together.
    pub sampler: Option<String>,
    /// The window, or `auto`.
    pub length: Option<Length>,
    /// Positions per block.
    pub block: Option<usize>,
    /// 0 or absent: the likeliest token.
    pub temperature: Option<f64>,
    /// The root of all randomness.
    pub seed: Option<u64>,
    /// Keep the likeliest tokens up to this mass.
    pub top_p: Option<f64>,
    /// Keep so many of the likeliest tokens.
    pub top_k: Option<usize>,
    /// What ends the text.
    pub stop: Option<OneOrMany>,
    /// The most forwards.
    pub max_nfe: Option<usize>,
    /// The text must be JSON of this schema.
    pub schema: Option<Schema>,
    /// The text must match this.
    pub regex: Option<String>,
    /// The text must be one of these.
    pub choice: Option<Vec<String>>,
    /// How many alternatives of each candidate.
    pub top: Option<u32>,
    /// An answer in events.
    pub stream: bool,
}

/// `POST /v1/cofill/select`: one step from bare numbers, as `cofill select` reads it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Select {
    /// Which positions are committed together.
    pub sampler: Option<String>,
    /// c of every candidate.
    pub confidence: Vec<f64>,
    /// H of every candidate.
    pub entropy: Option<Vec<f64>>,
    /// m of every candidate.
    pub margin: Option<Vec<f64>>,
    /// Who attends to whom: rows are queries.
    pub attention: Option<Vec<Vec<f64>>>,
    /// The positions of the candidates.
    pub candidates: Option<Vec<usize>>,
    /// Masks at the start.
    pub masks_at_start: Option<usize>,
    /// The number of the step.
    pub step: Option<usize>,
    /// The root of all randomness.
    pub seed: Option<u64>,
    /// Given back.
    pub id: Option<serde_json::Value>,
    /// Also say who was passed over.
    #[serde(default)]
    pub why: bool,
}

/// `POST /v1/cofill/probe`: one forward.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// The model to ask.
    pub model: Option<String>,
    /// The canvas; `null` is a mask.
    pub tokens: Vec<Option<TokenId>>,
    /// `masked` or `all`.
    pub rows: Option<String>,
    /// Whose attention: `first`, `middle`, `last` or a number.
    pub layer: Option<String>,
}
