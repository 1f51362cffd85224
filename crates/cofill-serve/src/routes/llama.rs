//! llama.cpp's completions, as its editors' plugins ask for them.

use crate::answer::{self, Choice};
use crate::app::App;
use crate::error::ApiError;
use crate::guard::{Visitor, body, json_response};
use crate::job::{Ask, Job};
use crate::outbox::{Accepted, Listener};
use crate::sse::{self, Events, Gone};
use crate::stream::Append;
use crate::valid::{NO_GRAMMAR, Order, parse};
use crate::wire::llama::{Completion, Extra};
use crate::wire::openai::{Common, OneOrMany, Prompt};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use cofill_engine::{Input, Length};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// `POST /completion`
pub(crate) async fn completion(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let given: Completion = parse(&body(&app, request).await?)?;
    let ask = match given.prompt.clone() {
        None => return Err(ApiError::field("prompt", "`prompt` is missing; give a text or tokens")),
        Some(Prompt::Text(text)) if text.is_empty() => Ask::Input(Input::Nothing),
        Some(Prompt::Text(text)) => Ask::Input(Input::Prompt(text)),
        Some(Prompt::Tokens(tokens)) => Ask::Input(Input::PromptTokens(tokens)),
        Some(_) => return Err(ApiError::field("prompt", "`prompt` must be one text or one list of tokens")),
    };
    answer(app, &visitor, given, ask).await
}

/// `POST /infill`: other files, what is before the cursor, a gap, what is behind it. `prompt` was typed inside the gap already.
pub(crate) async fn infill(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let given: Completion = parse(&body(&app, request).await?)?;
    let typed = match given.prompt.clone() {
        None => String::new(),
        Some(Prompt::Text(text)) => text,
        Some(_) => return Err(ApiError::field("prompt", "`prompt` of an infill must be a text")),
    };
    let extra: String = given.input_extra.iter().flatten().map(file).collect();
    let prefix = extra + given.input_prefix.as_deref().unwrap_or_default() + &typed;
    let suffix = given.input_suffix.clone().unwrap_or_default();
    answer(app, &visitor, given, Ask::Infill { prefix, suffix }).await
}

fn file(extra: &Extra) -> String {
    let text = extra.text.as_deref().unwrap_or_default();
    match &extra.filename {
        Some(name) => format!("{name}\n{text}\n"),
        None => format!("{text}\n"),
    }
}

/// The fields that llama.cpp shares with everybody, under everybody's names.
fn common(given: &Completion) -> Common {
    Common {
        model: given.model.clone(),
        max_tokens: given.n_predict,
        temperature: given.temperature,
        top_p: given.top_p,
        top_k: given.top_k,
        seed: given.seed.filter(|&seed| seed >= 0),
        stop: given.stop.clone().map(|stops| OneOrMany::Many(stops.into_iter().filter(|it| !it.is_empty()).collect())),
        json_schema: given.json_schema.clone(),
        stream: given.stream,
        ignore_eos: given.ignore_eos,
        cofill: given.cofill.clone(),
        ..Common::default()
    }
}

async fn answer(app: Arc<App>, visitor: &Visitor, given: Completion, ask: Ask) -> Result<Response, ApiError> {
    if given.grammar.as_ref().is_some_and(|grammar| !grammar.is_empty()) {
        return Err(ApiError::not_supported("grammar", NO_GRAMMAR));
    }
    let mut order = app.rules.order(common(&given), vec![ask])?.finish()?;
    let name = app.models[order.model].name.clone();
    if given.n_predict == Some(0) {
        // A warm-up: there is no cache to warm.
        let nothing = json!({"content": "", "tokens": [], "stop": true, "stop_type": "limit", "stopping_word": "", "model": name,
            "tokens_evaluated": 0, "tokens_predicted": 0, "truncated": false, "timings": {}, "generation_settings": {}});
        return Ok(json_response(&picked(nothing, given.response_fields.as_deref())));
    }
    let Some(job) = order.jobs.first_mut() else { return Err(ApiError::field("prompt", "there is nothing to do")) };
    if let Some(ms) = given.t_max_predict_ms.filter(|&ms| ms > 0) {
        job.timeout.get_or_insert(Duration::from_millis(ms as u64));
    }
    let job = job.clone();
    let mut begun = app.begin(std::slice::from_ref(&job), visitor.key).await?;
    let Some((listener, accepted)) = begun.pop() else { return Err(ApiError::decode_failed("nothing was begun")) };
    let reply = Reply { app: app.clone(), given, job, order, name };
    if reply.order.stream.is_some() {
        let (events, response) = sse::respond(app.config.keep_alive);
        tokio::spawn(async move { drop(reply.stream(&listener, accepted, &events).await) });
        return Ok(response);
    }
    let ended = listener.0.ended().await?;
    let choice = Choice::read(&app.models[reply.job.model].reader, accepted, ended);
    Ok(json_response(&picked(reply.last(&choice, &choice.text), reply.given.response_fields.as_deref())))
}

struct Reply {
    app: Arc<App>,
    given: Completion,
    job: Job,
    order: Order,
    name: String,
}

impl Reply {
    /// The answer, or the last event of one, whose text is what is left of it.
    fn last(&self, choice: &Choice, text: &str) -> Value {
        self.app.metrics.used(&self.name, choice.accepted.given(), choice.tokens.len(), choice.finish);
        let one = std::slice::from_ref(choice);
        let stop_type = match choice.finish {
            "eos" => "eos",
            "stop" => "word",
            _ => "limit",
        };
        let prompt = match &self.job.ask {
            Ask::Input(Input::Prompt(text)) => text.as_str(),
            Ask::Infill { prefix, .. } => prefix.as_str(),
            _ => "",
        };
        let options = &self.job.options;
        let tokens: &[u32] = if self.given.return_tokens == Some(true) { &choice.tokens } else { &[] };
        json!({
            "index": 0,
            "content": text,
            "tokens": tokens,
            "id_slot": 0,
            "stop": true,
            "stop_type": stop_type,
            "stopping_word": choice.stop.as_deref().unwrap_or_default(),
            "model": self.name,
            "prompt": prompt,
            "tokens_predicted": choice.tokens.len(),
            "tokens_evaluated": choice.accepted.given(),
            "tokens_cached": 0,
            "truncated": false,
            "timings": answer::timings(one),
            "generation_settings": {
                "n_predict": options.length.and_then(Length::fixed).unwrap_or(choice.accepted.start.free().len()),
                "temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p,
                "seed": self.order.seed, "stop": options.stop, "stream": self.order.stream.is_some(),
            },
            "cofill": answer::cofill(one, &self.job.sampler.to_string(), self.order.seed, self.order.trace),
        })
    }

    async fn stream(&self, listener: &Listener, accepted: Arc<Accepted>, events: &Events) -> Result<(), Gone> {
        let reader = &self.app.models[self.job.model].reader;
        let mut append = Append::default();
        loop {
            let news = tokio::select! {
                news = listener.0.news() => news,
                () = events.gone() => return Err(Gone),
            };
            match news.end {
                Some(Err(error)) => {
                    return events.data(&error.body()).await;
                }
                Some(Ok(ended)) => {
                    let choice = Choice::read(reader, accepted, ended);
                    if let Some(rest) = append.finish(&choice.text) {
                        events.data(&part(&rest)).await?;
                    }
                    return events.data(&self.last(&choice, "")).await;
                }
                None => {
                    let Some(canvas) = news.canvas else { continue };
                    let settled = accepted.window.settled(reader, &canvas);
                    if let Some(text) = append.settle(&settled, &accepted.window.stops) {
                        events.data(&part(&text)).await?;
                    }
                }
            }
        }
    }
}

/// Text that is new.
fn part(text: &str) -> Value {
    json!({"index": 0, "content": text, "tokens": [], "stop": false})
}

/// Only the fields that are wanted; `a/b` is the field `b` of `a`, under its own name.
fn picked(answer: Value, fields: Option<&[String]>) -> Value {
    let Some(fields) = fields.filter(|fields| !fields.is_empty()) else { return answer };
    let mut picked = serde_json::Map::new();
    for field in fields {
        let found = field.split('/').try_fold(&answer, |at, name| at.get(name));
        if let Some(found) = found {
            picked.insert(field.rsplit('/').next().unwrap_or(field).into(), found.clone());
        }
    }
    picked.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_fields_are_picked_and_unnested() {
        let answer = json!({"content": "x", "timings": {"predicted_n": 3}, "stop": true});
        let wanted = ["content".to_owned(), "timings/predicted_n".into(), "no/such".into()];
        assert_eq!(picked(answer.clone(), Some(&wanted)), json!({"content": "x", "predicted_n": 3}));
        assert_eq!(picked(answer.clone(), None), answer);
    }
}
