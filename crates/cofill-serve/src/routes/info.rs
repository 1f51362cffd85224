//! What is served, and how it goes.

use crate::app::{App, Model};
use crate::error::ApiError;
use crate::guard::json_response;
use axum::extract::rejection::PathRejection;
use axum::extract::{OriginalUri, Path, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// A round that takes longer is no round any more.
const HUNG_SECONDS: f64 = 120.0;

/// `GET /v1/models`
pub(crate) async fn models(State(app): State<Arc<App>>) -> Response {
    let data: Vec<Value> = app.models.iter().map(|model| described(&app, model)).collect();
    json_response(&json!({"object": "list", "data": data}))
}

/// `GET /v1/models/{id}`
pub(crate) async fn model(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    // Bytes that are no text name no model.
    let id = id.map_or_else(|_| String::from("?"), |Path(id)| id);
    let found = app.models.iter().find(|model| model.name == id);
    let model = found.ok_or_else(|| ApiError::no_model(&id, &app.rules.models))?;
    Ok(json_response(&described(&app, model)))
}

fn described(app: &App, model: &Model) -> Value {
    json!({
        "id": model.name,
        "object": "model",
        "created": app.started,
        "owned_by": "cofill",
        "max_model_len": model.context,
        "meta": model.meta,
        "aliases": [],
    })
}

/// `GET /health`: from a flag alone, so that a busy server is not a dead one. `?strict=1` also asks whether it hangs.
pub(crate) async fn health(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let unwell = |message: &str| {
        let error = json!({"error": {"code": 503, "message": message, "type": "unavailable_error"}});
        let mut response = json_response(&error);
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        response
    };
    let strict = query.is_some_and(|query| query.split('&').any(|it| it == "strict=1"));
    if app.is_draining() {
        return unwell("Draining");
    }
    if strict && app.metrics.round_age() > HUNG_SECONDS {
        return unwell("The current round has run for more than 120 s");
    }
    json_response(&json!({"status": "ok"}))
}

/// `GET /metrics`
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    if !app.config.metrics {
        return ApiError::no_route("/metrics").into_response();
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let mut response = Response::new(app.metrics.text().into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// `GET /props`: what llama.cpp's page and plugins ask first.
pub(crate) async fn props(State(app): State<Arc<App>>) -> Response {
    let model = &app.models[0];
    let piece = |id: Option<u32>| id.map(|id| model.reader.piece(id)).unwrap_or_default();
    json_response(&json!({
        "default_generation_settings": {
            "n_ctx": model.context, "n_predict": model.usual_length, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": -1,
        },
        "total_slots": app.config.max_live,
        "model_alias": model.name,
        "model_path": model.name,
        "chat_template": "",
        "bos_token": piece(model.bos),
        "eos_token": piece(model.eos),
        "modalities": {"vision": false, "audio": false},
        "build_info": app.fingerprint(),
        "is_sleeping": false,
    }))
}

/// `GET /slots`: there are none, so their number is that of decodes under way.
pub(crate) async fn slots(State(app): State<Arc<App>>) -> Response {
    let inside = app.limits.inside().min(app.config.max_live);
    let context = app.models[0].context;
    let slot = |id: usize| json!({"id": id, "n_ctx": context, "is_processing": true});
    json_response(&(0..inside).map(slot).collect::<Value>())
}

/// `GET /load`
pub(crate) async fn load(State(app): State<Arc<App>>) -> Response {
    json_response(&json!({"server_load": app.limits.inside()}))
}

/// `GET /version`
pub(crate) async fn version() -> Response {
    json_response(&json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /ping`
pub(crate) async fn ping() -> Response {
    json_response(&json!({"status": "ok"}))
}

/// `GET /openapi.json`
pub(crate) async fn openapi() -> Response {
    json_response(&crate::openapi::document())
}

/// Everything else.
pub(crate) async fn nothing(OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::no_route(uri.path())
}

/// A method that a path does not have.
pub(crate) async fn wrong_method() -> ApiError {
    ApiError::method()
}
