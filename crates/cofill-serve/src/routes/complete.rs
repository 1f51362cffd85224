//! Chat, text and infill completions: at once, or in events.

use crate::answer::{self, Choice};
use crate::app::{App, now};
use crate::error::ApiError;
use crate::guard::{Visitor, body, json_response};
use crate::outbox::{Accepted, Listener};
use crate::sse::{self, Events, Gone};
use crate::stream::{self, Append, Mode};
use crate::valid::Order;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `chat.completion`.
    Chat,
    /// `text_completion`.
    Text,
    /// `text_completion` whose choices also have messages and deltas, since clients disagree.
    Fim,
}

/// `POST /v1/chat/completions`
pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let order = app.rules.chat(&body(&app, request).await?)?;
    complete(app, &visitor, order, Shape::Chat).await
}

/// `POST /v1/completions`
pub(crate) async fn text(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let order = app.rules.text(&body(&app, request).await?)?;
    complete(app, &visitor, order, Shape::Text).await
}

/// `POST /v1/fim/completions`
pub(crate) async fn fim(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let order = app.rules.text(&body(&app, request).await?)?;
    complete(app, &visitor, order, Shape::Fim).await
}

/// Everything that the parts of one answer share.
struct Reply {
    app: Arc<App>,
    order: Order,
    shape: Shape,
    id: String,
    created: u64,
}

async fn complete(app: Arc<App>, visitor: &Visitor, mut order: Order, shape: Shape) -> Result<Response, ApiError> {
    let begun = app.begin(&order.jobs, visitor.key).await?;
    if let Some((_, accepted)) = begun.first() {
        order.warnings.extend(accepted.warnings.iter().cloned());
    }
    let id = app.id(if shape == Shape::Chat { "chatcmpl-" } else { "cmpl-" });
    let reply = Arc::new(Reply { app: app.clone(), order, shape, id, created: now() });
    if reply.order.stream.is_some() {
        let (events, response) = sse::respond(app.config.keep_alive);
        tokio::spawn(async move { drop(reply.stream(begun, &events).await) }); // a client that left is no error
        return Ok(response);
    }
    let mut choices = Vec::new();
    for (listener, accepted) in begun {
        let ended = listener.0.ended().await?;
        choices.push(reply.choice(accepted, ended));
    }
    Ok(json_response(&reply.whole(&choices)))
}

impl Reply {
    fn choice(&self, accepted: Arc<Accepted>, ended: Arc<crate::outbox::Ended>) -> Choice {
        let model = &self.app.models[self.order.model];
        let choice = Choice::read(&model.reader, accepted, ended);
        self.app.metrics.used(&model.name, choice.accepted.given(), choice.tokens.len(), choice.finish);
        choice
    }

    /// What every object of the answer begins with.
    fn envelope(&self, object: &str) -> Map<String, Value> {
        let mut it = Map::new();
        it.insert("id".into(), self.id.clone().into());
        it.insert("object".into(), object.into());
        it.insert("created".into(), self.created.into());
        it.insert("model".into(), self.app.models[self.order.model].name.clone().into());
        it.insert("system_fingerprint".into(), self.app.fingerprint().into());
        it
    }

    fn sampler(&self) -> String {
        self.order.jobs.first().map(|job| job.sampler.to_string()).unwrap_or_default()
    }

    /// The answer at once.
    fn whole(&self, choices: &[Choice]) -> Value {
        let object = if self.shape == Shape::Chat { "chat.completion" } else { "text_completion" };
        let mut it = self.envelope(object);
        let repeat = self.order.repeat;
        let listed = choices
            .iter()
            .enumerate()
            .flat_map(|(at, choice)| (0..repeat).map(move |copy| self.listed(at * repeat + copy, choice)));
        it.insert("choices".into(), listed.collect());
        it.insert("usage".into(), answer::usage(choices, repeat));
        answer::warning(&mut it, &self.order.warnings);
        it.insert("timings".into(), answer::timings(choices));
        it.insert("cofill".into(), answer::cofill(choices, &self.sampler(), self.order.seed, self.order.trace));
        it.into()
    }

    fn listed(&self, index: usize, choice: &Choice) -> Value {
        let reader = &self.app.models[self.order.model].reader;
        let echo = self.echo(index);
        let text = format!("{echo}{}", choice.text);
        let finish = choice.finish_reason;
        let (wanted, most) = (self.order.logprobs.is_some(), self.order.logprobs.unwrap_or(0));
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        let mut it = match self.shape {
            Shape::Chat => {
                let logprobs = wanted.then(|| choice.chat_logprobs(reader, most));
                json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish})
            }
            Shape::Text | Shape::Fim => {
                let logprobs = wanted.then(|| choice.text_logprobs(reader, most));
                json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish})
            }
        };
        if self.shape == Shape::Fim {
            it["message"] = message;
        }
        if self.order.token_ids {
            it["token_ids"] = json!(choice.tokens);
        }
        it
    }

    /// The prompt that an answer begins with, if it is to.
    fn echo(&self, index: usize) -> &str {
        let per_prompt = self.order.repeat * self.order.jobs.len() / self.order.echo.len().max(1);
        self.order.echo.get(index / per_prompt.max(1)).map_or("", String::as_str)
    }

    /// A chunk with one choice.
    fn chunk(&self, choice: &Value) -> Value {
        let object = if self.shape == Shape::Chat { "chat.completion.chunk" } else { "text_completion" };
        let mut it = self.envelope(object);
        it.insert("choices".into(), json!([choice]));
        if self.order.include_usage {
            it.insert("usage".into(), Value::Null);
        }
        it.into()
    }

    /// The choice of a chunk: text, if it has any to tell, and how it ended, if it did. A draft's last text may be the empty one.
    fn part(&self, index: usize, text: Option<&str>, finish: Option<&str>) -> Value {
        let delta = text.map_or_else(|| json!({}), |text| json!({"content": text}));
        let text = text.unwrap_or_default();
        match self.shape {
            Shape::Chat => json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}),
            Shape::Text => json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish}),
            Shape::Fim => {
                json!({"index": index, "text": text, "delta": delta, "logprobs": null, "finish_reason": finish})
            }
        }
    }

    /// The answer in events: every choice by itself, side by side, and what belongs to all at the end.
    async fn stream(self: Arc<Reply>, begun: Vec<(Listener, Arc<Accepted>)>, events: &Events) -> Result<(), Gone> {
        let mut tasks = Vec::new();
        for (at, (listener, accepted)) in begun.into_iter().enumerate() {
            let (reply, events) = (self.clone(), events.clone());
            tasks.push(tokio::spawn(async move { reply.stream_one(at, listener, accepted, &events).await }));
        }
        let mut choices = Vec::new();
        for task in tasks {
            match task.await {
                Ok(Ok(choice)) => choices.push(choice),
                Ok(Err(Some(error))) => {
                    events.data(&error.body()).await?;
                    return events.done().await;
                }
                Ok(Err(None)) | Err(_) => return Err(Gone),
            }
        }
        if self.order.include_usage {
            let object = if self.shape == Shape::Chat { "chat.completion.chunk" } else { "text_completion" };
            let mut it = self.envelope(object);
            it.insert("choices".into(), json!([]));
            it.insert("usage".into(), answer::usage(&choices, self.order.repeat));
            it.insert("timings".into(), answer::timings(&choices));
            events.data(&it.into()).await?;
        }
        events.done().await
    }

    /// One decode in events. `None` if the client left.
    async fn stream_one(
        &self,
        at: usize,
        listener: Listener,
        accepted: Arc<Accepted>,
        events: &Events,
    ) -> Result<Choice, Option<ApiError>> {
        let gone = |_: Gone| None;
        let model = &self.app.models[self.order.model];
        let mode = self.order.stream.unwrap_or_default();
        let indices = at * self.order.repeat..(at + 1) * self.order.repeat;
        for index in indices.clone() {
            let mut first = match self.shape {
                Shape::Chat => {
                    let delta = json!({"role": "assistant", "content": ""});
                    json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null})
                }
                Shape::Text | Shape::Fim => self.part(index, Some(self.echo(index)), None),
            };
            if self.shape == Shape::Fim {
                first["delta"] = json!({"role": "assistant", "content": self.echo(index)});
            }
            let mut chunk = self.chunk(&first);
            if mode == Mode::Delta {
                chunk["cofill"] = json!({"canvas": stream::canvas(&accepted.start, &accepted.header)});
            }
            if index == 0 && !self.order.warnings.is_empty() {
                chunk["warning"] = self.order.warnings.join("; ").into();
            }
            events.data(&chunk).await.map_err(gone)?;
        }
        let mut append = Append::default();
        let ended = loop {
            let news = tokio::select! {
                news = listener.0.news() => news,
                () = events.gone() => return Err(None),
            };
            for frame in &news.frames {
                for index in indices.clone() {
                    let mut chunk = self.chunk(&self.part(index, None, None));
                    chunk["cofill"] = stream::frame(frame, &model.reader, self.order.top);
                    events.data(&chunk).await.map_err(gone)?;
                }
            }
            match news.end {
                Some(end) => break end.map_err(Some)?,
                None => {
                    let Some(canvas) = &news.canvas else { continue };
                    let text = match mode {
                        Mode::Draft => Some(accepted.window.draft(&model.reader, canvas)),
                        _ => append.settle(&accepted.window.settled(&model.reader, canvas), &accepted.window.stops),
                    };
                    let Some(text) = text else { continue };
                    for index in indices.clone() {
                        let echo = if mode == Mode::Draft { self.echo(index) } else { "" };
                        let part = self.part(index, Some(&format!("{echo}{text}")), None);
                        events.data(&self.chunk(&part)).await.map_err(gone)?;
                    }
                }
            }
        };
        let choice = self.choice(accepted, ended);
        let rest = if mode == Mode::Draft { Some(choice.text.clone()) } else { append.finish(&choice.text) };
        for index in indices {
            if let Some(rest) = &rest {
                let echo = if mode == Mode::Draft { self.echo(index) } else { "" };
                let part = self.part(index, Some(&format!("{echo}{rest}")), None);
                events.data(&self.chunk(&part)).await.map_err(gone)?;
            }
            let mut last = self.part(index, None, Some(choice.finish_reason));
            if let Some(most) = self.order.logprobs {
                last["logprobs"] = match self.shape {
                    Shape::Chat => choice.chat_logprobs(&model.reader, most),
                    Shape::Text | Shape::Fim => choice.text_logprobs(&model.reader, most),
                };
            }
            if self.order.token_ids {
                last["token_ids"] = json!(choice.tokens);
            }
            let mut chunk = self.chunk(&last);
            let one = std::slice::from_ref(&choice);
            chunk["cofill"] = answer::cofill(one, &self.sampler(), self.order.seed, self.order.trace);
            events.data(&chunk).await.map_err(gone)?;
        }
        Ok(choice)
    }
}
