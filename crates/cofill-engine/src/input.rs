//! From what was given to a canvas: a prompt and masks, a chat, a text with gaps, or tokens.

use crate::growth::Room;
use crate::length::Length;
use crate::options::RunOptions;
use crate::question::Question;
use crate::{Engine, Error, Result, TextLanguage};
use cofill::{Canvas, TokenId};
use cofill_model::Message;
use cofill_tasks::mini::Form;

/// How a gap begins: `[MASK:4]` is four positions.
pub(crate) const MASK_GAP: &str = "[MASK:";

/// What is to be filled.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Input {
    /// Masks alone; a model that was trained on the mini tasks is asked one of their questions instead.
    #[default]
    Nothing,
    /// Text, and masks after it.
    Prompt(String),
    /// A chat, and masks for its next turn. A model without a chat template gets the user's last message as its prompt, with a warning.
    Messages(Vec<Message>),
    /// Text with gaps (`[MASK:4]`, `[MASK:auto]`), everything around them kept as it is.
    Template(String),
    /// A prompt as tokens, and masks after it.
    PromptTokens(Vec<TokenId>),
    /// A whole canvas; masks are where the mask's id is.
    Tokens(Vec<TokenId>),
}

/// A canvas, the question it asks, and what its maker should hear.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) canvas: Canvas,
    pub(crate) question: Option<Question>,
    pub(crate) warnings: Vec<String>,
    /// How far it may grow, if it may.
    pub(crate) room: Option<Room>,
}

impl Engine {
    /// The question of a mini task that an input asks, for models that know them. Asked nothing at all, they are given one.
    fn question(&self, input: &Input, options: &RunOptions) -> Option<Question> {
        let of = |text: &str, form: Form| Question::of(text).filter(|question| question.task.form() == form);
        match input {
            _ if !self.knows_mini_tasks() => None,
            Input::Prompt(text) => of(text, Form::Continue),
            Input::Template(text) => of(text, Form::Infill),
            Input::Nothing if options.length.and_then(Length::fixed).is_none() => Question::of(Question::USUAL),
            Input::Messages(messages) if !self.has_chat_template() => of(last_of_user(messages)?, Form::Continue),
            _ => None,
        }
    }

    /// The canvas that an input describes; a question says what its prompt and length should be, and a language how long it is at least.
    pub(crate) fn draw(&self, input: &Input, options: &RunOptions, language: Option<&TextLanguage>) -> Result<Drawn> {
        let question = self.question(input, options);
        let mut warnings = Vec::new();
        let asked = |text: &String| question.as_ref().map_or(text, |question| &question.prompt).clone();
        let (bos, end) = self.around(options.bos)?;
        let prompt = match input {
            Input::Tokens(tokens) => {
                let canvas = self.checked(tokens.clone(), 0, None)?;
                return Ok(Drawn { canvas, question, warnings, room: None });
            }
            Input::Template(text) => {
                let tokens = begin(bos, self.fill_in(&asked(text))?);
                let canvas = self.checked(tokens, 0, end)?;
                return Ok(Drawn { canvas, question, warnings, room: None });
            }
            Input::PromptTokens(tokens) => tokens.clone(),
            Input::Nothing if options.chat => return Err(Error::ChatWithoutPrompt),
            Input::Nothing => match &question {
                Some(question) => self.encode(&question.prompt)?,
                None => Vec::new(),
            },
            Input::Prompt(text) if options.chat => {
                self.chat(&[Message::new("user", text.as_str())], question.as_ref(), &mut warnings)?
            }
            Input::Prompt(text) => self.encode(&asked(text))?,
            Input::Messages(messages) => self.chat(messages, question.as_ref(), &mut warnings)?,
        };
        let mask_id = self.mask_id();
        if prompt.contains(&mask_id) {
            return Err(Error::MaskInPrompt { mask_id });
        }
        let usual = || {
            let usual = question.as_ref().map_or_else(|| self.usual_length(), |question| question.task.length());
            match language {
                None => usual,
                Some(language) if language.has_ends() => usual.max(language.shortest()),
                Some(language) => language.shortest(), // without ends, a text fills its window
            }
        };
        let prompt = begin(bos, prompt);
        let room = match options.length {
            Some(Length::Auto) => Some(self.room(prompt.len(), end, options)?),
            _ => None,
        };
        let length = match (options.length, room) {
            (_, Some(room)) => room.block.min(room.most),
            (length, None) => length.and_then(Length::fixed).unwrap_or_else(usual),
        };
        let canvas = self.checked(prompt, length, end)?;
        Ok(Drawn { canvas, question, warnings, room })
    }

    /// A chat as the checkpoint's template puts it, or the user's last message where there is no template.
    fn chat(
        &self,
        messages: &[Message],
        question: Option<&Question>,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<TokenId>> {
        if let Some(text) = self.render_chat(messages, true)? {
            return self.encode(&text);
        }
        let name = self.name();
        let last = last_of_user(messages).ok_or_else(|| Error::NoUserMessage { name: name.into() })?;
        warnings.push(format!("`{name}` has no chat template; the last message of the user is its prompt"));
        self.encode(question.map_or(last, |question| &question.prompt))
    }

    /// The tokens of a text with gaps, the mask in every gap.
    fn fill_in(&self, text: &str) -> Result<Vec<TokenId>> {
        let mut tokens = Vec::new();
        for piece in gaps(text)? {
            match piece {
                Piece::Text(text) => tokens.extend(self.encode(text)?),
                Piece::Masks(n) => tokens.resize(tokens.len() + n, self.mask_id()),
            }
        }
        Ok(tokens)
    }

    /// Adds `masks` and what every text of the model ends with, and refuses what the model cannot hold or does not know.
    fn checked(&self, mut tokens: Vec<TokenId>, masks: usize, end: Option<TokenId>) -> Result<Canvas> {
        // A text that was written with its end gets no second one.
        let end = end.filter(|end| masks > 0 || tokens.last() != Some(end));
        let length = tokens.len().saturating_add(masks).saturating_add(usize::from(end.is_some()));
        self.fit(length)?;
        let (mask_id, last) = (self.mask_id(), self.last_id());
        if let Some(position) = tokens.iter().position(|&token| token > last) {
            return Err(cofill::Error::UnknownToken { token: tokens[position], position, last }.into());
        }
        tokens.resize(tokens.len() + masks, mask_id);
        tokens.extend(end);
        Ok(Canvas::new(tokens, mask_id))
    }
}

/// A piece of a text with gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Kept as it is.
    Text(&'a str),
    /// So many positions to fill.
    Masks(usize),
}

/// A text with `[MASK:n]` gaps, in pieces. Each is encoded by itself, so that what stands between gaps stays as it is.
pub fn gaps(text: &str) -> Result<Vec<Piece<'_>>> {
    let piece = |part| match part {
        Part::Text(text) => Ok(Piece::Text(text)),
        Part::Gap(Gap::Masks(n)) => Ok(Piece::Masks(n)),
        Part::Gap(Gap::Auto) => Err(Error::OpenGap),
    };
    parts(text)?.into_iter().map(piece).collect()
}

/// A piece of a text with gaps, of which some may be of a length that is still to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    Gap(Gap),
}

/// `[MASK:4]` or `[MASK:auto]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    Masks(usize),
    Auto,
}

/// A text with gaps, in parts.
pub(crate) fn parts(text: &str) -> Result<Vec<Part<'_>>> {
    // What is not closed may go on for megabytes.
    let shown = |gap: &str| gap.chars().take_while(|&c| c != '\n').take(24).collect::<String>();
    let wrong = |gap: &str| Error::BadGap { gap: format!("{MASK_GAP}{}", shown(gap)) };
    let mut split = text.split(MASK_GAP);
    let mut parts = vec![Part::Text(split.next().unwrap_or_default())];
    for part in split {
        let (n, rest) = part.split_once(']').ok_or_else(|| wrong(part))?;
        let gap = match n {
            "auto" => Gap::Auto,
            n => Gap::Masks(n.parse::<u16>().ok().filter(|&n| n > 0).ok_or_else(|| wrong(n))?.into()),
        };
        parts.extend([Part::Gap(gap), Part::Text(rest)]);
    }
    if parts.len() == 1 { Err(Error::NoGap) } else { Ok(parts) }
}

fn last_of_user(messages: &[Message]) -> Option<&str> {
    messages.iter().rev().find(|message| message.role == "user").map(|message| message.content.as_str())
}

/// `tokens` after `bos`, which is never there twice.
pub(crate) fn begin(bos: Option<TokenId>, tokens: Vec<TokenId>) -> Vec<TokenId> {
    match bos {
        Some(bos) if tokens.first() != Some(&bos) => [vec![bos], tokens].concat(),
        _ => tokens,
    }
}

/// `1,2,M`: ids, and M for the mask where masks are allowed.
pub fn parse_tokens(text: &str, mask: Option<TokenId>) -> Result<Vec<TokenId>> {
    let expected = match mask {
        Some(_) => "token ids and M, separated by commas",
        None => "token ids, separated by commas",
    };
    let token = |id: &str| match (id, mask) {
        ("M", Some(mask)) => Ok(mask),
        _ => id.parse().map_err(|_| Error::NotATokenId { given: id.into(), expected }),
    };
    text.split(',').map(str::trim).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_gaps_is_cut_at_them() {
        let pieces = gaps("a [MASK:2]b[MASK:1]").unwrap();
        use Piece::{Masks, Text};
        assert_eq!(pieces, [Text("a "), Masks(2), Text("b"), Masks(1), Text("")]);
        for wrong in ["[MASK:]", "[MASK:0]", "[MASK:x]", "[MASK:65536]", "[MASK:4"] {
            let said = gaps(wrong).unwrap_err().to_string();
            assert!(said.starts_with("`[MASK:") && said.contains("is not a gap; write [MASK:4]"), "{said}");
        }
        assert!(gaps("a[MASK:auto]").unwrap_err().to_string().contains("give a number"));
        assert_eq!(parts("a[MASK:auto]").unwrap(), [Part::Text("a"), Part::Gap(Gap::Auto), Part::Text("")]);
        assert!(gaps("no gap").unwrap_err().to_string().contains("has no gap"));
    }

    #[test]
    fn tokens_are_ids_and_masks_where_they_may_be() {
        assert_eq!(parse_tokens("1, M,3", Some(9)).unwrap(), [1, 9, 3]);
        let said = parse_tokens("1,M", None).unwrap_err().to_string();
        assert_eq!(said, "`M` is not a token id; expected token ids, separated by commas");
    }

    #[test]
    fn the_beginning_of_text_is_there_once() {
        assert_eq!(begin(Some(1), vec![2]), [1, 2]);
        assert_eq!(begin(Some(1), vec![1, 2]), [1, 2]);
        assert_eq!(begin(None, vec![2]), [2]);
    }
}
