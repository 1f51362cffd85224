//! The canvas that arguments describe: a prompt and masks, masks anywhere by id, or a template with gaps.

use crate::fail::{Done, Fail};
use cofill_engine::{Engine, Error, Input, RunOptions, parse_tokens};

/// What to fill.
#[derive(clap::Args)]
pub(crate) struct CanvasArgs {
    /// The prompt, as text.
    prompt: Option<String>,
    /// Begin with the tokenizer's beginning-of-text token, unless the prompt has it already (as LLaDA's chat template does). BERT and its
    /// relatives always get theirs, and the one that ends a text, but for --tokens.
    #[arg(long, conflicts_with = "tokens")]
    bos: bool,
    /// The prompt, as token ids: 1,2,3.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "chat"])]
    prompt_tokens: Option<String>,
    /// The whole canvas, as token ids with M for a mask: 0,M,16,M,M.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "prompt_tokens", "length", "chat"])]
    tokens: Option<String>,
    /// Text with gaps to fill.
    #[arg(long, value_name = "TEXT", help = "Text with gaps to fill, the rest kept verbatim: \"The capital of France is [MASK:4].\" [MASK:auto] finds its own length", conflicts_with_all = ["prompt", "prompt_tokens", "tokens", "length", "chat"])]
    template: Option<String>,
}

impl CanvasArgs {
    /// What is to be filled, and the options with what these arguments say of them.
    pub(crate) fn input(&self, engine: &Engine, options: &RunOptions) -> Done<(Input, RunOptions)> {
        let mut options = options.clone();
        options.bos = self.bos.then_some(true); // else what the model was trained with
        let tokens = |flag: &str, ids: &str, mask| {
            parse_tokens(ids, mask).map_err(|error| match error {
                Error::NotATokenId { given, expected } => {
                    Fail::request(format!("`{given}` in {flag} is not a token id; expected {expected}"))
                }
                error => error.into(),
            })
        };
        let input = match self {
            CanvasArgs { tokens: Some(ids), .. } => Input::Tokens(tokens("--tokens", ids, Some(engine.mask_id()))?),
            CanvasArgs { template: Some(text), .. } => Input::Template(text.clone()),
            CanvasArgs { prompt_tokens: Some(ids), .. } => Input::PromptTokens(tokens("--prompt-tokens", ids, None)?),
            CanvasArgs { prompt: Some(text), .. } => Input::Prompt(text.clone()),
            _ => Input::Nothing,
        };
        Ok((input, options))
    }
}
