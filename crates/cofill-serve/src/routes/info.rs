//! What is served, and how it goes.

use crate::app::{App, Model, now};
use crate::error::ApiError;
use crate::guard::json_response;
use axum::extract::{OriginalUri, Path, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// A round that takes longer is no round any more.
const HUNG_SECONDS: f64 = 120.0;

/// `GET /v1/models`
pub async fn models(State(app): State<Arc<App>>) -> Response {
    let data: Vec<Value> = app.models.iter().map(described).collect();
    json_response(&json!({"object": "list", "data": data}))
}

/// `GET /v1/models/{id}`
pub async fn model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let found = app.models.iter().find(|model| model.name == id);
    let model = found.ok_or_else(|| ApiError::no_model(&id, &app.rules.models))?;
    Ok(json_response(&described(model)))
}

fn described(model: &Model) -> Value {
    json!({
        "id": model.name,
        "object": "model",
        "created": now(),
        "owned_by": "cofill",
        "max_model_len": model.context,
        "meta": model.meta,
        "aliases": [],
    })
}

/// `GET /health`: from a flag alone, so that a busy server is not a dead one. `?strict=1` also asks whether it hangs.
pub async fn health(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
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
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    if !app.config.metrics {
        return ApiError::no_route("/metrics").into_response();
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let mut response = Response::new(app.metrics.text().into());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Everything else.
pub async fn nothing(OriginalUri(uri): OriginalUri) -> ApiError {
    ApiError::no_route(uri.path())
}

/// A method that a path does not have.
pub async fn wrong_method() -> ApiError {
    ApiError::method()
}
