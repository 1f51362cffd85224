//! Sockets: accept, serve, and end in order.

use crate::app::{App, router};
use crate::error::ApiError;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The most bytes and lines of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
const HEAD_LINES: usize = 100;

/// Serves until `stop` says so, once to drain and twice to end now.
pub async fn serve(app: Arc<App>, listener: TcpListener, mut stop: impl AsyncFnMut()) {
    let routes = router(&app);
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(app.config.max_connections));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(app.config.read_timeout);
    http.max_buf_size(HEAD_BYTES).max_headers(HEAD_LINES);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop() => break,
        };
        let Ok((socket, _)) = accepted else {
            // Out of files, mostly. Those who are here go on; whoever knocks waits a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(seat) = room.clone().try_acquire_owned() else {
            app.metrics.rejected("connections");
            continue; // closed at once
        };
        let _ = socket.set_nodelay(true); // events are small and should not wait for company
        let service = TowerToHyperService::new(routes.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(socket), service));
        tokio::spawn(async move {
            let _ = connection.await; // a client that breaks off is no error of ours
            drop(seat);
        });
    }
    drop(listener);
    drain(&app, graceful, stop).await;
}

/// Takes nothing new, lets what is under way end, and ends what does not.
async fn drain(app: &App, graceful: GracefulShutdown, mut stop: impl AsyncFnMut()) {
    app.limits.draining.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    app.log.line("info", "draining", &[("under_way", json!(app.limits.inside()))]);
    let mut closed = std::pin::pin!(graceful.shutdown());
    let in_time = tokio::select! {
        () = &mut closed => true,
        () = tokio::time::sleep(app.config.drain) => false,
        () = stop() => false,
    };
    if !in_time {
        let error = ApiError::unavailable("draining", "the server was shut down before this was done; ask again", 5);
        app.scheduler.abort(error);
        // Long enough for the last words to be sent.
        let _ = tokio::time::timeout(Duration::from_secs(2), closed).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    app.log.line("info", "ended", &[("in_time", json!(in_time)), ("seconds", json!(seconds))]);
}

/// Waits for SIGTERM or SIGINT, as often as it is asked.
#[cfg(unix)]
pub fn signals() -> std::io::Result<impl AsyncFnMut()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move || {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

/// Waits for Ctrl-C, as often as it is asked.
#[cfg(not(unix))]
pub fn signals() -> std::io::Result<impl AsyncFnMut()> {
    Ok(async || drop(tokio::signal::ctrl_c().await))
}
