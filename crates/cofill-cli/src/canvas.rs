//! The canvas that arguments describe: a prompt and masks, masks anywhere by id, or a template with gaps.

use crate::fail::{Done, Fail, warning_line};
use crate::{piped, quiet};
use cofill_engine::{Engine, Error, Input, Prepared, Question, RunOptions, parse_tokens};
use std::path::{Path, PathBuf};

/// What to fill.
#[derive(clap::Args)]
pub(crate) struct CanvasArgs {
    /// The prompt, as text; `-` reads it from standard input, and so does a pipe without it.
    prompt: Option<String>,
    /// Read the prompt from FILE, without the line break at its end.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Begin with the tokenizer's beginning-of-text token, unless the prompt has it already (as LLaDA's chat template does). BERT and its
    /// relatives always get theirs, and the one that ends a text, but for --tokens.
    #[arg(long, conflicts_with = "tokens")]
    bos: bool,
    /// The prompt, as token ids: 1,2,3.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "prompt_file", "chat"])]
    prompt_tokens: Option<String>,
    /// The whole canvas, as token ids with M for a mask: 0,M,16,M,M.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "prompt_file", "prompt_tokens", "length", "chat"])]
    tokens: Option<String>,
    /// Text with gaps to fill.
    #[arg(long, value_name = "TEXT", help = "Text with gaps to fill, the rest kept verbatim: \"The capital of France is [MASK:4].\" [MASK:auto] finds its own length", conflicts_with_all = ["prompt", "prompt_file", "prompt_tokens", "tokens", "length", "chat"])]
    template: Option<String>,
}

impl CanvasArgs {
    /// Reads the prompt that is in a file or comes through a pipe, so that it is here as if it had been typed: before a model is loaded, and only
    /// where nothing else says what to fill.
    pub(crate) fn read(&mut self) -> Done<()> {
        match self {
            CanvasArgs { prompt: Some(text), .. } if text != "-" => {}
            CanvasArgs { prompt: Some(_), .. } => self.prompt = Some(piped::prompt_file(Path::new("-"))?),
            CanvasArgs { prompt_file: Some(path), .. } => {
                self.prompt = Some(piped::prompt_file(path).map_err(|fail| fail.about("--prompt-file"))?);
            }
            CanvasArgs { prompt_tokens: None, tokens: None, template: None, .. } => {
                self.prompt = piped::piped_prompt()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether masks may be anywhere, and there may be several answers.
    pub(crate) fn has_gaps(&self) -> bool {
        self.template.is_some() || self.tokens.is_some()
    }

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

/// What whoever asked should hear before the answer: warnings, that an example is asked, and that a tiny model does not know such prompts.
pub(crate) fn forewarn(engine: &Engine, input: &Input, prepared: &Prepared) {
    prepared.warnings.iter().for_each(|warning| warning_line(warning));
    match (input, &prepared.question) {
        (Input::Nothing, Some(question)) => {
            quiet::note(&format!("no prompt was given; this example is asked: {}", question.prompt.trim_end()));
        }
        (_, question) => warn_off_domain(engine, question.as_ref()),
    }
}

/// That a model knows nothing of what it is asked.
pub(crate) fn warn_off_domain(engine: &Engine, question: Option<&Question>) {
    if question.is_none() && engine.knows_mini_tasks() {
        warning_line(&format!(
            "`{}` knows only the mini tasks, and this is none of their prompts; `cofill mini corpus -n 1` prints some",
            engine.name()
        ));
    }
}
