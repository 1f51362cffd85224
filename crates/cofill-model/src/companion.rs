//! A causal language model beside a diffusion model, for samplers that ask one (APD).
//!
//! The same transformer with another mask: a position sees only itself and what stands before it, and row i − 1 says what comes at i.
//! Qwen2 and Qwen3, whose vocabulary Dream has, and the tiny one that `tools/train` trains on the mini tasks.

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::load_options::LoadOptions;
use crate::model::Model;
use crate::tokenizer::Tokenizer;
use crate::transformer::Transformer;
use cofill::TokenId;

/// A causal language model that is loaded, to be put beside a [`Model`] by [`Model::accompany`].
pub struct Companion {
    pub(crate) model: Model,
    tokenizer: Result<Tokenizer>,
}

impl Companion {
    /// Loads the companion of a model that has this mask.
    pub fn of(checkpoint: &Checkpoint, options: impl Into<LoadOptions>, mask_id: TokenId) -> Result<Companion> {
        let config = checkpoint.companion_config(mask_id)?;
        let model = Model::new(Transformer::load(config, &checkpoint.weights()?, options)?);
        Ok(Companion { model, tokenizer: checkpoint.tokenizer() })
    }

    /// Refuses a companion whose ids mean other tokens than the model's. What only one of them has is no contradiction: rows that pad a
    /// vocabulary, and the mask. Where there are no tokenizers to compare, the vocabularies must be of the same size.
    pub fn check_vocabulary(&self, tokenizer: Option<&Tokenizer>, model: &Model) -> Result<()> {
        let (ours, theirs) = (model.config(), self.model.config());
        let (Some(tokenizer), Ok(own)) = (tokenizer, &self.tokenizer) else {
            return match ours.vocab == theirs.vocab {
                true => Ok(()),
                false => Err(Error::OtherSize { companion: theirs.vocab, model: ours.vocab }),
            };
        };
        match own.first_difference(tokenizer, ours.mask_id) {
            Some((id, companion, model)) => Err(Error::OtherVocabulary { id, companion, model }),
            None => Ok(()),
        }
    }
}
