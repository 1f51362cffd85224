//! A model's text: tokens and back, and chats as the checkpoint was trained on them.

use crate::arrays;
use crate::engine::Shared;
use crate::errors::{OrRaise, request};
use crate::options::message;
use cofill::TokenId;
use cofill_engine::Specials;
use pyo3::prelude::*;
use std::sync::Arc;

/// What turns text into tokens and back; `Engine.tokenizer`.
///
/// Examples
/// --------
/// >>> t = cofill.Engine("tiny-llada").tokenizer
/// >>> t.decode(t.encode("Gus has 10 books"))
/// 'Gus has 10 books'
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Tokenizer {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Tokenizer {
    fn __copy__(slf: Bound<'_, Tokenizer>) -> Bound<'_, Tokenizer> {
        slf
    }

    #[pyo3(signature = (_memo: "typing.Any"))]
    fn __deepcopy__<'py>(slf: Bound<'py, Tokenizer>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Tokenizer> {
        slf
    }

    /// The tokens of a text, nothing added.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        self.shared.lock(py)?.encode(text).or_raise()
    }

    /// The text of tokens.
    ///
    /// Parameters
    /// ----------
    /// tokens : array of int
    /// skip_special : bool
    ///     Leave out tokens that stand for no text.
    #[pyo3(signature = (tokens: "numpy.typing.ArrayLike", *, skip_special = false))]
    fn decode(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, skip_special: bool) -> PyResult<String> {
        let tokens = arrays::tokens("tokens", tokens, None)?;
        let engine = self.shared.lock(py)?;
        if let Some(at) = tokens.iter().position(|&token| token > engine.last_id()) {
            return Err(request(format!("tokens[{at}] is {}, but the largest id is {}", tokens[at], engine.last_id())));
        }
        let specials = if skip_special { Specials::Hidden } else { Specials::Shown };
        engine.text(&tokens, specials).or_raise()
    }

    /// The text of one token.
    #[pyo3(signature = (token: "int"))]
    fn piece(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> PyResult<String> {
        let token = arrays::whole("token", token)?;
        Ok(self.shared.lock(py)?.piece(token))
    }

    /// A chat as the checkpoint's template puts it.
    ///
    /// Parameters
    /// ----------
    /// messages : sequence of {"role": ..., "content": ...}
    /// add_generation_prompt : bool
    ///     With the beginning of an answer.
    #[pyo3(signature = (messages: "typing.Sequence[typing.Mapping[str, str]]", *, add_generation_prompt = true))]
    fn chat(&self, py: Python<'_>, messages: Vec<Bound<'_, PyAny>>, add_generation_prompt: bool) -> PyResult<String> {
        let messages = messages.iter().map(message).collect::<PyResult<Vec<_>>>()?;
        let rendered = self.shared.lock(py)?.render_chat(&messages, add_generation_prompt).or_raise()?;
        rendered.ok_or_else(|| request(format!("`{}` has no chat template; give plain prompts", self.shared.name)))
    }

    /// Whether chats can be rendered.
    #[getter]
    fn has_chat_template(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.shared.lock(py)?.has_chat_template())
    }

    /// Beginning of text, if the tokenizer names one.
    #[getter]
    fn bos_id(&self, py: Python<'_>) -> PyResult<Option<TokenId>> {
        Ok(self.shared.lock(py)?.bos().ok())
    }

    /// End of text.
    #[getter]
    fn eos_id(&self, py: Python<'_>) -> PyResult<Option<TokenId>> {
        Ok(self.shared.lock(py)?.ends().of_text)
    }

    /// End of a turn in a chat, if there is such a token.
    #[getter]
    fn eot_id(&self, py: Python<'_>) -> PyResult<Option<TokenId>> {
        Ok(self.shared.lock(py)?.ends().of_turn)
    }

    /// The mask.
    #[getter]
    fn mask_id(&self, py: Python<'_>) -> PyResult<TokenId> {
        Ok(self.shared.lock(py)?.mask_id())
    }

    /// How many token ids there are.
    #[getter]
    fn vocab_size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.shared.lock(py)?.last_id() as usize + 1)
    }
}
