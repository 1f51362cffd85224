//! The page at `/` and its files, inside the program. Nothing is fetched from elsewhere.

use crate::error::ApiError;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Only what this server serves, and no markup that carries its own style or script. Nobody may put the page in a frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// Files by name; those of the page of a trace are the same as there.
const FILES: [(&str, &str, &str); 9] = [
    ("page.css", CSS, include_str!("../page/page.css")),
    ("page.js", JS, include_str!("../page/page.js")),
    ("pane.js", JS, include_str!("../page/pane.js")),
    ("ask.js", JS, include_str!("../page/ask.js")),
    ("net.js", JS, include_str!("../page/net.js")),
    ("traces.js", JS, include_str!("../page/traces.js")),
    ("icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("state.js", JS, cofill_report::trace_page::STATE_JS),
    ("draw.js", JS, cofill_report::trace_page::DRAW_JS),
];
const TRACE_CSS: (&str, &str, &str) = ("trace.css", CSS, cofill_report::trace_page::PAGE_CSS);
const INDEX: (&str, &str, &str) = ("index.html", "text/html; charset=utf-8", include_str!("../page/index.html"));

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    respond(INDEX, &headers)
}

/// `GET /assets/*`
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let found = FILES.into_iter().chain([TRACE_CSS]).find(|(file, ..)| *file == name);
    found.map(|file| respond(file, &headers)).ok_or_else(|| ApiError::no_route(&format!("/assets/{name}")))
}

fn respond((_, kind, text): (&'static str, &'static str, &'static str), given: &HeaderMap) -> Response {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = given.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if known { Body::empty() } else { Body::from(text) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
