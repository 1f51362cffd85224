//! A request that was read and checked: what one decode is to do.

use crate::stream::Window;
use crate::top::{MOST_PROBABILITIES, Tops};
use cofill::{Policy, SamplerSpec, TokenId};
use cofill_engine::{Engine, Error, Input, Length, Prepared, Result, RunOptions};
use cofill_model::Message;
use std::sync::Arc;
use std::time::Duration;

/// One decode.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Which of the served models.
    pub model: usize,
    /// What to fill.
    pub ask: Ask,
    /// Which positions are committed together.
    pub sampler: SamplerSpec,
    /// Everything else that decides the result.
    pub options: RunOptions,
    /// Ends the decode beside the model's own ends.
    pub stop_ids: Vec<TokenId>,
    /// Special tokens are part of the text.
    pub show_specials: bool,
    /// The most time it may take, from the moment it was asked for.
    pub timeout: Option<Duration>,
    /// Whether to end as soon as the answer is settled, whatever is masked behind it.
    pub ends_early: bool,
    /// Whether steps are wanted, and not only what they lead to.
    pub frames: bool,
    /// Where alternatives are written down, if they are wanted.
    pub tops: Option<Arc<Tops>>,
}

/// What to fill.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// As the engine takes it.
    Input(Input),
    /// A chat whose last message is the beginning of the answer.
    Prefill(Vec<Message>),
    /// Text before a gap, and text behind it.
    Infill {
        /// Before.
        prefix: String,
        /// Behind.
        suffix: String,
    },
}

/// How a gap is written in a template.
const GAP: &str = "[MASK:";

/// More bytes than this for every position of the context is a text that no tokenizer makes fit; it is refused before one tries.
const BYTES_PER_POSITION: usize = 16;

impl Ask {
    /// How many bytes of text a tokenizer would have to read.
    fn bytes(&self) -> usize {
        match self {
            Ask::Input(Input::Prompt(text) | Input::Template(text)) => text.len(),
            Ask::Input(Input::Messages(messages)) | Ask::Prefill(messages) => {
                messages.iter().map(|message| message.content.len()).sum()
            }
            Ask::Infill { prefix, suffix } => prefix.len() + suffix.len(),
            Ask::Input(_) => 0,
        }
    }

    /// How many positions it takes at least, as far as that is known without a tokenizer.
    fn tokens(&self) -> usize {
        match self {
            Ask::Input(Input::PromptTokens(tokens) | Input::Tokens(tokens)) => tokens.len(),
            _ => 0,
        }
    }

    /// Refuses what cannot fit into a context, before a tokenizer spends time on it. The text of the refusal, or nothing.
    pub(crate) fn too_long(&self, context: usize, model: &str) -> Option<String> {
        let (bytes, most) = (self.bytes(), context.saturating_mul(BYTES_PER_POSITION));
        if bytes > most {
            return Some(format!(
                "the prompt has {bytes} bytes, but `{model}` holds {context} tokens, and text of more than {most} bytes is refused unread; shorten it"
            ));
        }
        let tokens = self.tokens();
        (tokens > context).then(|| format!("the prompt has {tokens} tokens, but `{model}` holds {context}; shorten it"))
    }
}

impl Job {
    /// The decode of it.
    pub(crate) fn prepare(&self, engine: &mut Engine) -> Result<Prepared> {
        let mut options = self.options.clone();
        let input = match &self.ask {
            Ask::Infill { prefix, suffix } if options.length == Some(Length::Auto) => {
                if let Some(text) = [prefix, suffix].into_iter().find(|text| text.contains(GAP)) {
                    let gap = text.split(GAP).nth(1).unwrap_or_default().chars().take(8).collect::<String>();
                    return Err(Error::BadGap { gap: format!("{GAP}{gap}") });
                }
                (options.length, options.max_length) = (None, None);
                Input::Template(format!("{prefix}{GAP}auto]{suffix}"))
            }
            Ask::Input(input) => input.clone(),
            Ask::Prefill(messages) => prefilled(engine, messages)?,
            Ask::Infill { prefix, suffix } => {
                let (before, after) = (engine.encode(prefix)?, engine.encode(suffix)?);
                let (bos, end) = engine.around(None)?;
                let mask_id = engine.mask_id();
                if before.contains(&mask_id) || after.contains(&mask_id) {
                    return Err(Error::MaskInPrompt { mask_id });
                }
                let gap = options.length.and_then(Length::fixed).unwrap_or_else(|| engine.usual_length());
                engine.fit(before.len().saturating_add(gap).saturating_add(after.len()))?;
                let bos = bos.filter(|bos| before.first() != Some(bos));
                let gap = std::iter::repeat_n(mask_id, gap);
                Input::Tokens(bos.into_iter().chain(before).chain(gap).chain(after).chain(end).collect())
            }
        };
        let Some(tops) = &self.tops else { return engine.prepare_auto(&input, &self.sampler, &options) };
        let watched = tops.watch(&engine.settle(&self.sampler)?)?;
        let prepared = engine.prepare_auto(&input, &watched, &options)?;
        let (rows, vocab) = (prepared.start.tokens().len(), engine.last_id() as usize + 1);
        if rows.saturating_mul(vocab) > MOST_PROBABILITIES {
            let limit =
                format!("a canvas of at most {} positions when alternatives are wanted", MOST_PROBABILITIES / vocab);
            return Err(cofill::Error::BadSetting { what: "top", limit, given: rows.to_string() }.into());
        }
        Ok(prepared)
    }

    /// What of the canvas is the answer, and where it ends.
    pub(crate) fn window(&self, engine: &Engine, prepared: &Prepared) -> Window {
        let ends = engine.ends();
        Window {
            free: prepared.start.free().to_vec(),
            length: prepared.start.tokens().len(),
            mask_id: prepared.start.mask_id(),
            ends: ends.of_text.into_iter().chain(ends.of_turn).chain(self.stop_ids.iter().copied()).collect(),
            stops: self.options.stop.clone(),
            is_held: !self.options.constraints().is_empty(),
            show_specials: self.show_specials,
            revises: self.sampler.build().is_ok_and(|policy| matches!(policy, Policy::Remasks(_))),
        }
    }
}

/// A chat and the beginning of its answer.
fn prefilled(engine: &Engine, messages: &[Message]) -> Result<Input> {
    let Some((begun, before)) = messages.split_last() else { return Ok(Input::Messages(Vec::new())) };
    let user = || before.iter().rev().find(|message| message.role == "user").map(|message| message.content.clone());
    let prompt = match engine.render_chat(before, true)? {
        Some(prompt) => prompt,
        None => user().ok_or_else(|| Error::NoUserMessage { name: engine.name().into() })?,
    };
    Ok(Input::PromptTokens(engine.encode(&(prompt + &begun.content))?))
}
