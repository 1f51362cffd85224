//! A model's text: what turns prompts into tokens and tokens into text.

use cofill::TokenId;
use cofill_model::{ChatTemplate, Message, Tokenizer};
use cofill_tasks::wrapper::Specials;

/// What turns prompts into tokens and tokens into text. Benchmarks and diagnostics ask nothing more of a tokenizer.
pub trait Codec: Specials {
    /// The tokens of a text.
    fn encode(&self, text: &str) -> Result<Vec<TokenId>, String>;
    /// The text of tokens, special ones included.
    fn decode(&self, tokens: &[TokenId]) -> Result<String, String>;
    /// A prompt as the one message of a chat, in the words that the model was trained on.
    fn chat(&self, _prompt: &str) -> Result<String, String> {
        Err(NO_TEMPLATE.into())
    }
}

const NO_TEMPLATE: &str = "the model has no chat template";

/// A checkpoint's tokenizer, the text of its end of text, and its chat template, if it has one that can be read.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) eos: String,
    pub(crate) chat: Result<Option<ChatTemplate>, cofill_model::Error>,
}

impl Specials for Text {
    fn eos(&self) -> Option<&str> {
        Some(&self.eos)
    }

    fn remove(&self, text: &str) -> Result<String, String> {
        let tokens = self.encode(text)?;
        self.tokenizer.decode(&tokens, true).map_err(|error| error.to_string())
    }
}

impl Codec for Text {
    fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
        self.tokenizer.encode(text).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
        self.tokenizer.decode(tokens, false).map_err(|error| error.to_string())
    }

    fn chat(&self, prompt: &str) -> Result<String, String> {
        match &self.chat {
            Ok(Some(template)) => {
                template.render(&[Message::new("user", prompt)], true).map_err(|error| error.to_string())
            }
            Ok(None) => Err(NO_TEMPLATE.into()),
            Err(error) => Err(error.to_string()),
        }
    }
}
