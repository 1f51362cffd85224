//! OpenAI's chat and text completions, with the fields that vLLM, llama.cpp and Mercury add to them. Unknown fields are ignored.

use crate::stream::Mode;
use cofill::TokenId;
use cofill_engine::{Length, Schema};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What chat and text completions share.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Common {
    /// The model to ask.
    pub model: Option<String>,
    /// The window, in positions.
    pub max_completion_tokens: Option<i64>,
    /// The same under its older name.
    pub max_tokens: Option<i64>,
    /// 0 or absent: the likeliest token.
    pub temperature: Option<f64>,
    /// Keep the likeliest tokens up to this mass.
    pub top_p: Option<f64>,
    /// Keep so many of the likeliest tokens.
    pub top_k: Option<i64>,
    /// Not supported above 0.
    pub min_p: Option<f64>,
    /// The root of all randomness.
    pub seed: Option<i64>,
    /// How many answers.
    pub n: Option<u32>,
    /// Must not be above `n`.
    pub best_of: Option<u32>,
    /// What ends the text.
    pub stop: Option<OneOrMany>,
    /// Only -100, which is never.
    pub logit_bias: Option<BTreeMap<String, f64>>,
    /// The language of the answer.
    pub response_format: Option<ResponseFormat>,
    /// The same as vLLM has it.
    pub structured_outputs: Option<StructuredOutputs>,
    /// The same as llama.cpp has it.
    pub json_schema: Option<Schema>,
    /// An answer in events.
    pub stream: Option<bool>,
    /// What else is streamed.
    pub stream_options: Option<StreamOptions>,
    /// Mercury's word for how many steps.
    pub reasoning_effort: Option<String>,
    /// Tools.
    pub tools: Option<Vec<Value>>,
    /// Which tool.
    pub tool_choice: Option<Value>,
    /// Ignored with a warning unless neutral.
    pub presence_penalty: Option<f64>,
    /// Ignored with a warning unless neutral.
    pub frequency_penalty: Option<f64>,
    /// Ignored with a warning unless neutral.
    pub repetition_penalty: Option<f64>,
    /// Mercury's word for drafts.
    pub diffusing: Option<bool>,
    /// vLLM: never end.
    pub ignore_eos: Option<bool>,
    /// vLLM: do not end before.
    pub min_tokens: Option<u64>,
    /// vLLM: these end, too.
    pub stop_token_ids: Option<Vec<TokenId>>,
    /// vLLM: special tokens are no text, which is the default.
    pub skip_special_tokens: Option<bool>,
    /// vLLM: ids beside the text.
    pub return_token_ids: Option<bool>,
    /// vLLM: the id of the request.
    pub request_id: Option<String>,
    /// vLLM's, ignored with a warning.
    pub include_stop_str_in_output: Option<bool>,
    /// vLLM's, ignored with a warning.
    pub truncate_prompt_tokens: Option<i64>,
    /// vLLM's, ignored with a warning.
    pub prompt_logprobs: Option<i64>,
    /// vLLM's, ignored with a warning.
    pub bad_words: Option<Vec<String>>,
    /// Ours.
    pub cofill: Option<Cofill>,
}

/// `POST /v1/chat/completions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chat {
    /// The chat.
    pub messages: Option<Vec<ChatMessage>>,
    /// The last message is the beginning of the answer.
    pub continue_final_message: Option<bool>,
    /// Whether log-probabilities are wanted.
    pub logprobs: Option<bool>,
    /// How many alternatives of each.
    pub top_logprobs: Option<u32>,
}

/// `POST /v1/completions` and `/v1/fim/completions`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Text {
    /// What to continue.
    pub prompt: Option<Prompt>,
    /// What comes behind the gap.
    pub suffix: Option<String>,
    /// Whether the prompt is part of the answer.
    pub echo: Option<bool>,
    /// How many alternatives of each token.
    pub logprobs: Option<u32>,
}

/// A prompt, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Prompt {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// Tokens.
    Tokens(Vec<TokenId>),
    /// Several lists of tokens.
    ManyTokens(Vec<Vec<TokenId>>),
}

/// One turn.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ChatMessage {
    /// Who speaks.
    pub role: String,
    /// What is said.
    #[serde(default)]
    pub content: Option<Content>,
}

/// A text, or parts of one.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    /// A text.
    Text(String),
    /// Parts.
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Part {
    /// `text`, or something that cannot be read here.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    #[serde(default)]
    pub text: Option<String>,
}

/// One text or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// `response_format`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ResponseFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
    /// OpenAI's place of the schema.
    #[serde(default)]
    pub json_schema: Option<NamedSchema>,
    /// llama.cpp's place of the schema.
    #[serde(default)]
    pub schema: Option<Schema>,
}

/// A schema with a name, which nobody needs.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NamedSchema {
    /// The schema.
    #[serde(default)]
    pub schema: Option<Schema>,
}

/// vLLM's constraints.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StructuredOutputs {
    /// A schema.
    pub json: Option<Schema>,
    /// A regular expression.
    pub regex: Option<String>,
    /// One of these.
    pub choice: Option<Vec<String>>,
    /// A context-free grammar.
    pub grammar: Option<String>,
    /// Any JSON object.
    pub json_object: Option<bool>,
}

/// What else is streamed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StreamOptions {
    /// A last chunk with the usage.
    pub include_usage: Option<bool>,
}

/// Our own fields. Strict: what is misspelled would be ignored in silence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Cofill {
    /// Which positions are committed together.
    pub sampler: Option<String>,
    /// Positions per block.
    pub block: Option<usize>,
    /// The window, or `auto`.
    pub length: Option<Length>,
    /// The most forwards.
    pub max_nfe: Option<usize>,
    /// How a stream tells of the canvas.
    pub stream: Option<Mode>,
    /// Whether the whole trace is part of the answer.
    pub trace: Option<bool>,
    /// The most time, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How many alternatives of each candidate.
    pub top: Option<u32>,
    /// Warnings become errors.
    pub strict: Option<bool>,
}
