//! llama.cpp's dialect, as its editors' plugins and its page speak it.

use cofill::TokenId;
use cofill_engine::Schema;
use serde::Deserialize;
use serde_json::Value;

/// `POST /completion` and `/infill`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Completion {
    /// The model to ask.
    pub model: Option<String>,
    /// What to continue; of an infill, what was already typed inside the gap.
    pub prompt: Option<super::openai::Prompt>,
    /// Before the gap.
    pub input_prefix: Option<String>,
    /// Behind the gap.
    pub input_suffix: Option<String>,
    /// Other files.
    pub input_extra: Option<Vec<Extra>>,
    /// The window; -1 and absent are the server's, 0 is a warm-up.
    pub n_predict: Option<i64>,
    /// 0 or absent: the likeliest token.
    pub temperature: Option<f64>,
    /// Keep so many of the likeliest tokens; 0 and less are all.
    pub top_k: Option<i64>,
    /// Keep the likeliest tokens up to this mass.
    pub top_p: Option<f64>,
    /// The root of all randomness; -1 is any.
    pub seed: Option<i64>,
    /// What ends the text.
    pub stop: Option<Vec<String>>,
    /// An answer in events.
    pub stream: Option<bool>,
    /// The most time, in milliseconds.
    pub t_max_predict_ms: Option<i64>,
    /// The text must be JSON of this schema.
    pub json_schema: Option<Schema>,
    /// A context-free grammar.
    pub grammar: Option<String>,
    /// Never end.
    pub ignore_eos: Option<bool>,
    /// Which fields of the answer are wanted; `a/b` is the field `b` of `a`.
    pub response_fields: Option<Vec<String>>,
    /// Whether ids are part of the answer.
    pub return_tokens: Option<bool>,
    /// Ours.
    pub cofill: Option<super::openai::Cofill>,
}

/// Another file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Extra {
    /// Its name.
    pub filename: Option<String>,
    /// Its text.
    pub text: Option<String>,
}

/// `POST /tokenize`: llama.cpp's and vLLM's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tokenize {
    /// The model to ask.
    pub model: Option<String>,
    /// llama.cpp's text.
    pub content: Option<String>,
    /// vLLM's text.
    pub prompt: Option<String>,
    /// vLLM's chat.
    pub messages: Option<Vec<super::openai::ChatMessage>>,
    /// llama.cpp: begin with the beginning of text.
    pub add_special: Option<bool>,
    /// vLLM: the same.
    pub add_special_tokens: Option<bool>,
    /// llama.cpp: pieces beside ids.
    pub with_pieces: Option<bool>,
}

/// `POST /detokenize`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Detokenize {
    /// The model to ask.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Option<Vec<TokenId>>,
}

/// `POST /apply-template`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ApplyTemplate {
    /// The model to ask.
    pub model: Option<String>,
    /// The chat.
    pub messages: Option<Vec<super::openai::ChatMessage>>,
    /// Ignored.
    pub tools: Option<Value>,
}
