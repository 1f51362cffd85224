//! The canvas that arguments describe: a prompt and masks, masks anywhere by id, or a template with gaps.

use crate::fail::{Done, Fail};
use crate::model::Model;
use crate::tiny::{self, Question};
use cofill::{Canvas, TokenId};
use cofill_tasks::mini::Form;

/// What to fill.
#[derive(clap::Args)]
pub(crate) struct CanvasArgs {
    /// The prompt, as text.
    prompt: Option<String>,
    /// How many positions to generate after the prompt (default: 12 for the toy, what a mini task needs for its prompts, else 64).
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    length: Option<usize>,
    /// Put the prompt through the checkpoint's chat template.
    #[arg(long, requires = "prompt")]
    chat: bool,
    /// Begin with the tokenizer's beginning-of-text token, unless the prompt has it already (as LLaDA's chat template does).
    #[arg(long, conflicts_with = "tokens")]
    bos: bool,
    /// The prompt, as token ids: 1,2,3.
    #[arg(long, value_name = "IDS", conflicts_with = "prompt")]
    prompt_tokens: Option<String>,
    /// The whole canvas, as token ids with M for a mask: 0,M,16,M,M.
    #[arg(long, value_name = "IDS", conflicts_with_all = ["prompt", "prompt_tokens", "length", "chat"])]
    tokens: Option<String>,
    /// Text with gaps to fill.
    #[arg(long, value_name = "TEXT", help = "Text with gaps to fill, the rest kept verbatim: \"The capital of France is [MASK:4].\"", conflicts_with_all = ["prompt", "prompt_tokens", "tokens", "length", "chat"])]
    template: Option<String>,
}

impl CanvasArgs {
    /// The question that a tiny model is asked. Asked nothing at all, it is given one.
    pub(crate) fn question(&self, model: &Model) -> Option<Question> {
        if !model.is_tiny() {
            return None;
        }
        match (&self.prompt, &self.template) {
            (Some(text), _) => Question::of(text).filter(|question| question.task.form() == Form::Continue),
            (_, Some(text)) => Question::of(text).filter(|question| question.task.form() == Form::Infill),
            (None, None) if self.length.is_none() && self.prompt_tokens.is_none() && self.tokens.is_none() => {
                Question::of(tiny::PROMPT)
            }
            (None, None) => None,
        }
    }

    /// The canvas; a question says what its prompt and length should be.
    pub(crate) fn build(&self, model: &mut Model, question: Option<&Question>) -> Done<Canvas> {
        let mask_id = model.mask_id();
        if let Some(ids) = &self.tokens {
            let tokens = parse_ids("--tokens", ids, Some(mask_id))?;
            return self.check(tokens, 0, model);
        }
        let bos = if self.bos { Some(model.bos()?) } else { None };
        if let Some(template) = &self.template {
            let template = question.map_or(template, |question| &question.prompt);
            let tokens = begin(bos, parse_template(template, model)?);
            return self.check(tokens, 0, model);
        }
        let prompt = question.map(|question| &question.prompt).or(self.prompt.as_ref());
        let prompt = match (&self.prompt_tokens, prompt) {
            (Some(ids), _) => parse_ids("--prompt-tokens", ids, None)?,
            (_, Some(text)) if self.chat => model.encode(&model.chat(text)?)?,
            (_, Some(text)) => model.encode(text)?,
            _ => Vec::new(),
        };
        if prompt.contains(&mask_id) {
            let remedy = "give the whole canvas with --tokens and M";
            return Err(Fail::request(format!("the prompt contains {mask_id}, which is the mask; {remedy}")));
        }
        let length = self.length.unwrap_or_else(|| match question {
            Some(question) => question.task.length(),
            None => model.usual_length(),
        });
        self.check(begin(bos, prompt), length, model)
    }

    /// Adds `masks` and refuses what the model cannot hold or does not know.
    fn check(&self, mut tokens: Vec<TokenId>, masks: usize, model: &mut Model) -> Done<Canvas> {
        let length = tokens.len().saturating_add(masks);
        model.fit(length)?;
        let (mask_id, last) = (model.mask_id(), model.last_id());
        if let Some(position) = tokens.iter().position(|&token| token > last) {
            return Err(cofill::Error::UnknownToken { token: tokens[position], position, last }.into());
        }
        tokens.resize(length, mask_id);
        Ok(Canvas::new(tokens, mask_id))
    }
}

/// `tokens` after `bos`, which is never there twice.
fn begin(bos: Option<TokenId>, tokens: Vec<TokenId>) -> Vec<TokenId> {
    match bos {
        Some(bos) if tokens.first() != Some(&bos) => [vec![bos], tokens].concat(),
        _ => tokens,
    }
}

/// `1,2,M`: ids, and M for the mask where masks are allowed.
pub(crate) fn parse_ids(field: &str, text: &str, mask: Option<TokenId>) -> Done<Vec<TokenId>> {
    let accepted =
        if mask.is_some() { "token ids and M, separated by commas" } else { "token ids, separated by commas" };
    let refused = |id: &str| Fail::request(format!("`{id}` in {field} is not a token id; expected {accepted}"));
    text.split(',')
        .map(str::trim)
        .map(|id| match (id, mask) {
            ("M", Some(mask)) => Ok(mask),
            _ => id.parse().map_err(|_| refused(id)),
        })
        .collect()
}

/// Text with `[MASK:n]` gaps. What stands between them is encoded piece by piece, so it stays as it is.
fn parse_template(text: &str, model: &Model) -> Done<Vec<TokenId>> {
    const GAP: &str = "[MASK:";
    let wrong = |gap: &str| {
        Fail::request(format!("`{GAP}{gap}` in --template is not a gap; write [MASK:4] for four positions, 1 to 65535"))
    };
    let mut parts = text.split(GAP);
    let mut tokens = model.encode(parts.next().unwrap_or_default())?;
    let mut gaps = 0;
    for part in parts {
        let (n, rest) = part.split_once(']').ok_or_else(|| wrong(part))?;
        let n: u16 = n.parse().ok().filter(|&n| n > 0).ok_or_else(|| wrong(n))?;
        tokens.resize(tokens.len() + usize::from(n), model.mask_id());
        tokens.extend(model.encode(rest)?);
        gaps += 1;
    }
    match gaps {
        0 => Err(Fail::request("--template has no gap; write [MASK:4] where four positions are to be filled")),
        _ => Ok(tokens),
    }
}
