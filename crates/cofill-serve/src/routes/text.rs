//! Text to tokens and back, and what clients want to know of a tokenizer.

use crate::app::App;
use crate::error::ApiError;
use crate::guard::{body, json_response};
use crate::job::Ask;
use crate::valid::{messages, parse};
use crate::wire::llama::{ApplyTemplate, Detokenize, Tokenize};
use axum::extract::{Request, State};
use axum::response::Response;
use cofill_engine::{Engine, Error, Input, Specials};
use cofill_model::Message;
use serde_json::{Value, json};
use std::sync::Arc;

/// `POST /tokenize`: llama.cpp's `content` or vLLM's `prompt`.
pub(crate) async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let given: Tokenize = parse(&body(&app, request).await?)?;
    let model = app.rules.model(given.model.as_deref())?;
    let chat = given.messages.map(|chat| messages("messages", chat)).transpose()?;
    let text = given.content.clone().or(given.prompt);
    let ask = match (&chat, &text) {
        (Some(chat), _) => Ask::Input(Input::Messages(chat.clone())),
        (None, Some(text)) => Ask::Input(Input::Prompt(text.clone())),
        (None, None) => return Err(ApiError::field("content", "`content` is missing; give a text")),
    };
    short_enough(&app, model, &ask)?;
    // llama.cpp adds nothing unless it is told to, vLLM always; a model that names no beginning of text has none to add.
    let special = given.add_special.or(given.add_special_tokens).unwrap_or(given.content.is_none());
    let found = app.scheduler.call(model, move |engine| tokens(engine, chat, text, special)).await??;
    let reader = &app.models[model].reader;
    if given.with_pieces == Some(true) {
        let piece = |&id: &u32| json!({"id": id, "piece": reader.piece(id)});
        return Ok(json_response(&json!({"tokens": found.iter().map(piece).collect::<Vec<Value>>()})));
    }
    let context = app.models[model].context;
    Ok(json_response(&json!({"tokens": found, "count": found.len(), "max_model_len": context})))
}

fn tokens(engine: &Engine, chat: Option<Vec<Message>>, text: Option<String>, special: bool) -> Result<Vec<u32>, Error> {
    let text = match chat {
        Some(chat) => rendered(engine, &chat)?,
        None => text.unwrap_or_default(),
    };
    let tokens = engine.encode(&text)?;
    let bos = engine.bos().ok().filter(|bos| special && tokens.first() != Some(bos));
    Ok(bos.into_iter().chain(tokens).collect())
}

/// A chat as the template puts it; without one, the user's last message.
fn rendered(engine: &Engine, chat: &[Message]) -> Result<String, Error> {
    if let Some(text) = engine.render_chat(chat, true)? {
        return Ok(text);
    }
    let last = chat.iter().rev().find(|message| message.role == "user");
    last.map(|message| message.content.clone()).ok_or_else(|| Error::NoUserMessage { name: engine.name().into() })
}

/// `POST /detokenize`
pub(crate) async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let given: Detokenize = parse(&body(&app, request).await?)?;
    let model = app.rules.model(given.model.as_deref())?;
    let tokens = given.tokens.ok_or_else(|| ApiError::field("tokens", "`tokens` is missing; give a list"))?;
    let text = app.models[model].reader.text(&tokens, Specials::Shown).map_err(ApiError::from)?;
    Ok(json_response(&json!({"content": text, "prompt": text})))
}

/// `POST /apply-template`
pub(crate) async fn apply_template(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let given: ApplyTemplate = parse(&body(&app, request).await?)?;
    let model = app.rules.model(given.model.as_deref())?;
    let chat = given.messages.ok_or_else(|| ApiError::field("messages", "`messages` is missing; give a list"))?;
    let chat = messages("messages", chat)?;
    short_enough(&app, model, &Ask::Input(Input::Messages(chat.clone())))?;
    let prompt = app.scheduler.call(model, move |engine| rendered(engine, &chat)).await??;
    Ok(json_response(&json!({"prompt": prompt})))
}

/// `GET /tokenizer_info`
pub(crate) async fn tokenizer_info(State(app): State<Arc<App>>) -> Response {
    let model = &app.models[0];
    let piece = |id: Option<u32>| id.map(|id| model.reader.piece(id));
    json_response(&json!({
        "tokenizer_class": "cofill",
        "model": model.name,
        "eos_token": piece(model.eos),
        "bos_token": piece(model.bos),
        "pad_token": piece(model.eos),
        "model_max_length": model.context,
        "chat_template": null,
        "has_chat_template": model.chats,
    }))
}

fn short_enough(app: &App, model: usize, ask: &Ask) -> Result<(), ApiError> {
    let model = &app.models[model];
    match ask.too_long(model.context, &model.name) {
        Some(said) => Err(ApiError::invalid("context_length_exceeded", said)),
        None => Ok(()),
    }
}
