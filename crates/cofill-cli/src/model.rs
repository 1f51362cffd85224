//! What `-m` names: a model, with the text of its tokens.

use crate::fail::Fail;
use cofill::toy::Toy;
use cofill::{Denoiser, TokenId};

/// The models that can be named.
pub(crate) const NAMES: &str = "`toy` (a known joint distribution over short sentences)";

/// A loaded model.
pub(crate) struct Model {
    /// As the user named it.
    pub(crate) name: String,
    /// What answers queries.
    pub(crate) denoiser: Box<dyn Denoiser>,
}

impl Model {
    /// Loads a model for canvases of `length` positions.
    pub(crate) fn load(name: &str, length: usize) -> Result<Model, Fail> {
        match name {
            "toy" => Ok(Model { name: name.into(), denoiser: Box::new(Toy::phrases(length)) }),
            _ => Err(Fail::request(format!("unknown model `{name}` for --model; this build has {NAMES}"))),
        }
    }

    /// The text of a token.
    pub(crate) fn piece(&self, token: TokenId) -> String {
        Toy::piece(token).to_string()
    }

    /// The text of a sequence.
    pub(crate) fn text(&self, tokens: &[TokenId]) -> String {
        tokens.iter().map(|&token| self.piece(token)).collect::<Vec<_>>().join(" ")
    }

    /// The tokens of a text: the toy knows whole words only.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<TokenId>, Fail> {
        let words = 0..self.denoiser.mask_id();
        let token = |word: &str| words.clone().find(|&token| Toy::piece(token) == word);
        let known = || words.clone().map(Toy::piece).collect::<Vec<_>>().join(", ");
        text.split_whitespace()
            .map(|word| {
                token(word).ok_or_else(|| {
                    Fail::request(format!(
                        "the toy does not know the word `{word}` of the prompt; it knows {}",
                        known()
                    ))
                })
            })
            .collect()
    }
}
