//! Sockets: accept, serve, and end in order.

use crate::app::{App, router};
use crate::error::ApiError;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;

/// The most bytes and lines of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
const HEAD_LINES: usize = 100;

/// The most connections at once that are told that the server shuts down.
const LATECOMERS: usize = 64;

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
        let service = TowerToHyperService::new(routes.clone());
        let connection = graceful.watch(http.serve_connection(patient(socket, &app), service));
        tokio::spawn(async move {
            let _ = connection.await; // a client that breaks off is no error of ours
            drop(seat);
        });
    }
    drain(&app, graceful, &listener, stop).await;
}

/// A socket on which a write that makes no progress for some time is an error: whoever asks and never reads holds nothing for ever.
fn patient(socket: TcpStream, app: &App) -> TokioIo<Pin<Box<TimeoutStream<TcpStream>>>> {
    let _ = socket.set_nodelay(true); // events are small and should not wait for company
    let mut socket = TimeoutStream::new(socket);
    socket.set_write_timeout(Some(app.config.write_timeout));
    TokioIo::new(Box::pin(socket))
}

/// Takes nothing new, lets what is under way end, and ends what does not. Whoever comes meanwhile is told so, once a connection.
async fn drain(app: &Arc<App>, graceful: GracefulShutdown, listener: &TcpListener, mut stop: impl AsyncFnMut()) {
    app.limits.draining.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    app.log.line("info", "draining", &[("under_way", json!(app.limits.inside()))]);
    let mut closed = std::pin::pin!(graceful.shutdown());
    let mut end = std::pin::pin!(tokio::time::sleep(app.config.drain));
    let mut latecomers = JoinSet::new();
    let in_time = loop {
        tokio::select! {
            () = &mut closed => break true,
            () = &mut end => break false,
            () = stop() => break false,
            Ok((socket, _)) = listener.accept(), if latecomers.len() < LATECOMERS => {
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(app.config.read_timeout).keep_alive(false);
                http.max_buf_size(HEAD_BYTES).max_headers(HEAD_LINES);
                let connection = http.serve_connection(patient(socket, app), TowerToHyperService::new(router(app)));
                latecomers.spawn(async move { drop(connection.await) });
            }
            Some(_) = latecomers.join_next() => {}
        }
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
