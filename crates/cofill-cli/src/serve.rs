//! `cofill serve`: models behind the interfaces people already use.

use crate::arguments::at_least_one;
use crate::fail::{Done, Fail};
use crate::load_args::LoadArgs;
use cofill::SamplerSpec;
use cofill_engine::{DEFAULT_MODEL, DEFAULT_SAMPLER, Engine, Length, RunOptions};
use cofill_serve::{Config, Keys};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Serve models: OpenAI's chat and completions, infill, llama.cpp's dialect, and a page at `/`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 is any free one, and the line on stderr says which.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A model to serve, or NAME=MODEL to give it another name; may be given several times (default: the models inside the program).
    #[arg(short, long, value_name = "[NAME=]MODEL")]
    model: Vec<String>,
    #[command(flatten)]
    load: LoadArgs,
    /// The sampler of requests that name none.
    #[arg(short, long, value_name = "SPEC", default_value = DEFAULT_SAMPLER)]
    sampler: SamplerSpec,
    /// How many positions to generate for requests that do not say, or `auto` (default: what a mini task needs, else the model's).
    #[arg(short = 'n', long, value_name = "N")]
    length: Option<Length>,
    /// Ask for a key: this file has one to a line.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// The most requests that may wait; more are told when to come again.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_queue: usize,
    /// The most requests that share rounds.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one::<usize>)]
    max_live: usize,
    /// The most positions of one round.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    round_positions: usize,
    /// Who moves in a round: `fair` (the shortest first, nobody is forgotten) or `fifo`.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Policy::Fair)]
    policy: Policy,
    /// How long a request may wait, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    queue_timeout: u64,
    /// How long what is under way may take after SIGTERM, in seconds; a second signal ends it now.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain_timeout: u64,
    /// The most bytes of a request's body.
    #[arg(long, value_name = "BYTES", default_value_t = 2 * 1024 * 1024)]
    body_limit: usize,
    /// The most connections at once.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_connections: usize,
    /// Pages of this origin may ask, or `*`; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
    /// Take any model's name; unknown ones mean the first model.
    #[arg(long)]
    any_model: bool,
    /// What a `reasoning_effort` of a request stands for: `low=eb:10+ad`; may be given several times.
    #[arg(long, value_name = "WORD=SPEC")]
    effort: Vec<String>,
    /// Have metrics under names that others read as well.
    #[arg(long, value_name = "NAME", value_enum)]
    metrics_compat: Option<Compat>,
    /// Have no /metrics.
    #[arg(long)]
    no_metrics: bool,
    /// Write logs as JSON lines, one for every request.
    #[arg(long)]
    json_log: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// The shortest first; whoever waits moves up.
    Fair,
    /// In the order they came.
    Fifo,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compat {
    /// vLLM's gauges.
    Vllm,
}

pub(crate) fn run(args: &Args) -> Done {
    let begun = Instant::now();
    let config = config(args)?;
    // Before models are loaded, which takes long; whoever is there answers for itself.
    drop(std::net::TcpListener::bind(config.listen).map_err(|error| taken(config.listen, &error))?);
    let mut engines = Vec::new();
    for (name, place) in models(args)? {
        let mut options = RunOptions::default();
        (options.dtype, options.device) = (args.load.dtype, args.load.device);
        engines.push((name, Engine::open(&place, &options)?));
    }
    let names: Vec<String> = engines.iter().map(|(name, _)| name.clone()).collect();
    let (json, listen) = (config.json_log, config.listen);
    let ready = |address: SocketAddr| {
        let (names, seconds) = (names.join(", "), begun.elapsed().as_secs_f64());
        let mut err = std::io::stderr().lock();
        // Nobody is left to tell when stderr is gone.
        let _ = match json {
            true => writeln!(
                err,
                "{}",
                serde_json::json!({"event": "listening", "address": format!("http://{address}"), "models": names, "seconds": seconds})
            ),
            false => writeln!(err, "listening on http://{address} ({names}; ready in {seconds:.2} s)"),
        };
    };
    match cofill_serve::run(config, engines, ready) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(taken(listen, &error)),
    }
}

/// The models by name.
fn models(args: &Args) -> Done<Vec<(String, String)>> {
    if args.model.is_empty() {
        let inside: &[&str] = if cfg!(feature = "embedded") { &["tiny-llada", "tiny-dream"] } else { &[DEFAULT_MODEL] };
        return Ok(inside.iter().map(|&name| (name.into(), name.into())).collect());
    }
    let mut models: Vec<(String, String)> = Vec::new();
    for given in &args.model {
        let (name, place) = given.split_once('=').unwrap_or((given, given));
        if name.is_empty() || place.is_empty() {
            return Err(Fail::request(format!("--model: `{given}` has no name or no model; write NAME=MODEL")));
        }
        if models.iter().any(|(other, _)| other == name) {
            return Err(Fail::request(format!("--model: `{name}` is given twice; name one of them with NAME=MODEL")));
        }
        models.push((name.into(), place.into()));
    }
    Ok(models)
}

fn config(args: &Args) -> Done<Config> {
    let mut config = Config::new(args.listen, args.sampler.clone());
    if let Some(path) = &args.api_key_file {
        config.keys = Keys::read(path).map_err(|problem| Fail::request(format!("--api-key-file: {problem}")))?;
    }
    for given in &args.effort {
        let wrong = || Fail::request(format!("--effort: `{given}` is not WORD=SPEC; write low=eb:10+ad"));
        let (word, spec) = given.split_once('=').ok_or_else(wrong)?;
        config.efforts.insert(word.into(), spec.parse().map_err(|error| Fail::from(error).about("--effort"))?);
    }
    config.max_queue = args.max_queue;
    config.max_live = args.max_live;
    config.round_positions = args.round_positions;
    config.fifo = args.policy == Policy::Fifo;
    config.queue_timeout = Duration::from_secs(args.queue_timeout);
    config.drain = Duration::from_secs(args.drain_timeout);
    config.body_limit = args.body_limit;
    config.max_connections = args.max_connections;
    config.cors_origins.clone_from(&args.cors_origin);
    config.any_model = args.any_model;
    config.metrics = !args.no_metrics;
    config.metrics_compat_vllm = args.metrics_compat == Some(Compat::Vllm);
    config.json_log = args.json_log;
    config.length = args.length;
    Ok(config)
}

/// An address that cannot be had is a wrong request.
fn taken(listen: SocketAddr, error: &std::io::Error) -> Fail {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => "somebody listens there already; give another port, or 0 for any",
        ErrorKind::PermissionDenied => "ports below 1024 are the administrator's; give another",
        _ => "give an address of this machine",
    };
    Fail::request(format!("--listen: cannot listen on {listen}: {error}; {remedy}"))
}
