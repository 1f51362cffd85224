//! Mercury's edit forms, experimental: the region is masked and filled again. LLaDA and Dream were not trained to edit.

use crate::answer::{self, Choice};
use crate::app::{App, now};
use crate::error::ApiError;
use crate::guard::{Visitor, body, json_response};
use crate::job::Ask;
use crate::sse;
use crate::valid::{messages, parse};
use crate::wire::mercury::{Edit, read_apply};
use crate::wire::openai::{Chat, Common};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// What every answer of these routes says.
const EXPERIMENTAL: &str =
    "experimental: the region is filled again from its surroundings; this model was not trained to edit";

/// `POST /v1/edit/completions`
pub(crate) async fn edit(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body(&app, request).await?;
    let missing = || ApiError::field("messages", "the message needs <|code_to_edit|>...<|/code_to_edit|>; add them");
    let edit = Edit::read(&content(&body)?).ok_or_else(missing)?;
    fill(app, &visitor, &body, edit).await
}

/// `POST /v1/apply/completions`: the snippet, then the original code filled again behind it.
pub(crate) async fn apply(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let body = body(&app, request).await?;
    let said = "the message needs <|original_code|>...<|/original_code|> and <|update_snippet|>...<|/update_snippet|>; add them";
    let (original, snippet) = read_apply(&content(&body)?).ok_or_else(|| ApiError::field("messages", said))?;
    fill(app, &visitor, &body, Edit { before: format!("{snippet}\n"), region: original, after: String::new() }).await
}

/// The text of the one message.
fn content(body: &[u8]) -> Result<String, ApiError> {
    let chat: Chat = parse(body)?;
    let messages = messages("messages", chat.messages.unwrap_or_default())?;
    let last = messages.into_iter().rev().find(|message| message.role == "user");
    last.map(|message| message.content)
        .ok_or_else(|| ApiError::field("messages", "`messages` needs a message of the user; add one"))
}

async fn fill(app: Arc<App>, visitor: &Visitor, body: &[u8], edit: Edit) -> Result<Response, ApiError> {
    let mut common: Common = parse(body)?;
    if common.max_tokens.is_none() && common.max_completion_tokens.is_none() {
        // As long as the region is now: bytes are at least as many as tokens.
        common.max_tokens = Some(edit.region.len().clamp(8, 256) as i64);
    }
    let ask = Ask::Infill { prefix: edit.before, suffix: edit.after };
    let mut order = app.rules.order(common, vec![ask])?;
    order.warnings.push(EXPERIMENTAL.into());
    order.jobs.truncate(1);
    let mut begun = app.begin(&order.jobs, visitor.key).await?;
    let Some((listener, accepted)) = begun.pop() else { return Err(ApiError::decode_failed("nothing was begun")) };
    let model = &app.models[order.model];
    let (id, created) = (app.id("edit-"), now());
    let head = |object: &str| json!({"id": id, "object": object, "created": created, "model": model.name});
    let choice = Choice::read(&model.reader, accepted, listener.0.ended().await?);
    app.metrics.used(&model.name, choice.accepted.given(), choice.tokens.len(), choice.finish);
    let text = format!("```\n{}\n```", choice.text);
    if order.stream.is_none() {
        let mut it = head("edit.completion");
        let message = json!({"role": "assistant", "content": text});
        it["choices"] = json!([{"index": 0, "message": message, "finish_reason": choice.finish_reason}]);
        it["usage"] = answer::usage(std::slice::from_ref(&choice), 1);
        it["warning"] = order.warnings.join("; ").into();
        return Ok(json_response(&it));
    }
    let (events, response) = sse::respond(app.config.keep_alive);
    let chunk = |delta: Value, finish: Option<&str>| {
        let mut it = head("edit.completion.chunk");
        it["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        it
    };
    let mut first = chunk(json!({"role": "assistant", "content": text}), None);
    first["warning"] = order.warnings.join("; ").into();
    let last = chunk(json!({}), Some(choice.finish_reason));
    tokio::spawn(async move {
        let told = events.data(&first).await.is_ok() && events.data(&last).await.is_ok();
        if told {
            let _ = events.done().await; // a client that left is no error
        }
    });
    Ok(response)
}
