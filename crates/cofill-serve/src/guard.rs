//! What every request passes: a name, the door, a line in the log.

use crate::app::App;
use crate::error::ApiError;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// What is known of a request before its body is read.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    /// Which key it came with.
    pub key: Option<usize>,
}

/// Paths that need no key.
const OPEN: [&str; 7] = ["/", "/assets/{*path}", "/health", "/v1/health", "/metrics", "/openapi.json", "/ping"];

/// Names a request, checks where it comes from and with which key, and tells of it.
pub(crate) async fn check(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("other", |path| path.as_str()).to_owned();
    let method = request.method().clone();
    let id = given_id(request.headers()).unwrap_or_else(|| app.id("req-"));
    let mut response = match admit(&app, &request, &route) {
        Err(error) => error.into_response(),
        Ok(key) => {
            request.extensions_mut().insert(Visitor { key });
            next.run(request).await
        }
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let status = response.status().as_u16();
    app.metrics.answered(&route, status);
    if app.log.requests || status >= 500 {
        let code = response.extensions().get::<ApiError>().and_then(|error| error.code);
        let fields = [
            ("id", json!(id)),
            ("method", json!(method.as_str())),
            ("route", json!(route)),
            ("status", json!(status)),
            ("code", json!(code)),
            ("ms", json!((begun.elapsed().as_secs_f64() * 1e4).round() / 10.0)),
        ];
        app.log.line(if status >= 500 { "error" } else { "info" }, "request", &fields);
    }
    response
}

/// An id that the client chose, if it is harmless.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("x-request-id")?.to_str().ok()?;
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (!id.is_empty() && id.len() <= 128 && id.chars().all(fine)).then(|| id.to_owned())
}

/// The key of a request that may come in.
fn admit(app: &App, request: &Request, route: &str) -> Result<Option<usize>, ApiError> {
    check_host(app, request)?;
    check_origin(app, request)?;
    if app.config.keys.is_empty() || OPEN.contains(&route) || request.method() == Method::OPTIONS {
        return Ok(None);
    }
    let headers = request.headers();
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let value = value.as_bytes();
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
    });
    let plain = headers.get("x-api-key").map(HeaderValue::as_bytes);
    let found = [bearer, plain].into_iter().flatten().find_map(|key| app.config.keys.find(key.trim_ascii()));
    found.map(Some).ok_or_else(ApiError::key)
}

/// On the loopback, only names of the loopback: a page elsewhere may have its own name point here.
fn check_host(app: &App, request: &Request) -> Result<(), ApiError> {
    if !app.config.listen.ip().is_loopback() {
        return Ok(());
    }
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(ApiError::invalid("unsupported_value", "`host` is given more than once; send it once"));
    }
    // Where the request line names a host (the absolute form), that counts and not the header (RFC 9112, 3.2.2).
    let named = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let host = named.or_else(|| request.headers().get(header::HOST).and_then(|host| host.to_str().ok()));
    match host {
        Some(host) if is_loopback(host) => Ok(()),
        Some(host) => {
            let host: String = host.chars().take(80).collect();
            Err(ApiError::origin(format!(
                "`host` is `{host}`, but this server is for this machine only; ask 127.0.0.1"
            )))
        }
        None => Err(ApiError::origin("`host` is missing; send it")),
    }
}

/// Pages of other origins may not ask, unless they were allowed.
fn check_origin(app: &App, request: &Request) -> Result<(), ApiError> {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("?");
    let allowed = app.config.cors_origins.iter().any(|allowed| allowed == "*" || allowed == origin);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let of = origin.split_once("://").map(|(_, rest)| rest);
    let own = of.is_some() && of == host;
    if allowed || own {
        return Ok(());
    }
    let origin: String = origin.chars().take(80).collect();
    Err(ApiError::origin(format!("pages of `{origin}` may not ask this server; start it with --cors-origin {origin}")))
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => return false,
        },
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The body of a request: JSON, within its limit, in time.
pub(crate) async fn body(app: &App, request: Request) -> Result<Bytes, ApiError> {
    let limit = app.config.body_limit;
    let headers = request.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::not_json(&kind.chars().take(80).collect::<String>()));
    }
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    let whole = Limited::new(request.into_body(), limit).collect();
    match tokio::time::timeout(app.config.read_timeout, whole).await {
        Err(_) => Err(ApiError::too_slow()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::too_large(limit)),
        Ok(Err(_)) => Err(ApiError::invalid("unsupported_value", "the body cannot be read; send it again")),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
    }
}

/// JSON as a response.
pub(crate) fn json_response(value: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
