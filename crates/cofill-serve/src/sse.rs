//! Events on their way to a client: chunks of JSON as `data:` lines, comments while nothing happens.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Where chunks are put.
#[derive(Debug, Clone)]
pub(crate) struct Events(Sender<Bytes>);

/// The client is gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl Events {
    /// One chunk. Waits while the client does not read.
    pub(crate) async fn data(&self, chunk: &Value) -> Result<(), Gone> {
        self.send(format!("data: {chunk}\n\n")).await
    }

    /// The end.
    pub(crate) async fn done(&self) -> Result<(), Gone> {
        self.send("data: [DONE]\n\n".into()).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.0.send(text.into()).await.map_err(|_| Gone)
    }

    /// Waits until the client is gone.
    pub(crate) async fn gone(&self) {
        self.0.closed().await;
    }
}

/// A response and where its events are put. After `silence` without one, a comment says that the stream lives.
pub(crate) fn respond(silence: Duration) -> (Events, Response) {
    let (events, received) = channel(8);
    let next = move |mut received: Receiver<Bytes>| async move {
        let next = match tokio::time::timeout(silence, received.recv()).await {
            Ok(next) => next?,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok::<Bytes, Infallible>(next), received))
    };
    let mut response = Response::new(Body::from_stream(unfold(received, next)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (Events(events), response)
}
