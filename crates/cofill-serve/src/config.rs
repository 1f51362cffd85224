//! How a server is set up.

use crate::keys::Keys;
use cofill::SamplerSpec;
use cofill_engine::Length;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Everything a server can be told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where to listen; port 0 is any.
    pub listen: SocketAddr,
    /// Who may come in; everybody if there are none.
    pub keys: Keys,
    /// The most decodes that wait.
    pub max_queue: usize,
    /// The most decodes that take part in rounds.
    pub max_live: usize,
    /// The most positions of their canvases together.
    pub max_positions: usize,
    /// The most positions of a round.
    pub round_positions: usize,
    /// First come, first served.
    pub fifo: bool,
    /// How long a request may wait.
    pub queue_timeout: Duration,
    /// How long what is under way may take after the signal to end.
    pub drain: Duration,
    /// The most bytes of a body.
    pub body_limit: usize,
    /// How long headers, and then a body, may take to arrive.
    pub read_timeout: Duration,
    /// How long a client may take nothing of what is written to it.
    pub write_timeout: Duration,
    /// The most connections at once.
    pub max_connections: usize,
    /// Pages of these origins may ask.
    pub cors_origins: Vec<String>,
    /// Unknown model names mean the first model.
    pub any_model: bool,
    /// Whether there is `/metrics`.
    pub metrics: bool,
    /// Whether two gauges also have vLLM's names.
    pub metrics_compat_vllm: bool,
    /// Logs as JSON lines.
    pub json_log: bool,
    /// The sampler of requests that name none.
    pub sampler: SamplerSpec,
    /// The window of requests that name none.
    pub length: Option<Length>,
    /// The samplers that Mercury's words for effort stand for.
    pub efforts: BTreeMap<String, SamplerSpec>,
    /// How long a stream is silent before a comment says that it lives.
    pub keep_alive: Duration,
}

impl Config {
    /// The usual setup, on the loopback.
    pub fn new(listen: SocketAddr, sampler: SamplerSpec) -> Config {
        Config {
            listen,
            keys: Keys::default(),
            max_queue: 256,
            max_live: 64,
            max_positions: 65_536,
            round_positions: 4_096,
            fifo: false,
            queue_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            body_limit: 2 * 1024 * 1024,
            read_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(60),
            max_connections: 1024,
            cors_origins: Vec::new(),
            any_model: false,
            metrics: true,
            metrics_compat_vllm: false,
            json_log: false,
            sampler,
            length: None,
            efforts: BTreeMap::new(),
            keep_alive: Duration::from_secs(15),
        }
    }
}
