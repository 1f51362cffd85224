//! Masked diffusion language models behind the interfaces people already use: OpenAI's chat and completions, llama.cpp's and Mercury's dialects.
//!
//! One thread computes (`scheduler.rs`); everything else is async and never touches a model. A request is read and checked (`valid.rs`),
//! becomes jobs (`job.rs`), and what comes of them is read from outboxes (`outbox.rs`) and told (`stream.rs`, `answer.rs`, `routes/`).

mod answer;
mod app;
mod config;
mod error;
mod guard;
mod job;
mod keys;
mod limits;
mod listen;
mod log;
mod metrics;
mod openapi;
mod outbox;
mod page;
mod routes;
mod scheduler;
mod sse;
mod stream;
mod top;
mod valid;
mod wire;

pub use app::{App, router};
pub use config::Config;
pub use keys::Keys;
pub use listen::{serve, signals};

use cofill_engine::Engine;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Serves models until a signal ends it. `ready` is told the address once connections are taken.
pub fn run(config: Config, engines: Vec<(String, Engine)>, ready: impl FnOnce(SocketAddr)) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let listener = TcpListener::bind(config.listen).await?;
        let stop = signals()?;
        let app = App::new(config, engines)?;
        ready(listener.local_addr()?);
        serve(app, listener, stop).await;
        Ok(())
    });
    runtime.shutdown_background(); // a client that does not read its last words does not keep us
    done
}
