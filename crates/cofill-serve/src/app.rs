//! The server as a function: routes, and what every request passes on its way to one.

use crate::config::Config;
use crate::error::ApiError;
use crate::guard;
use crate::job::Job;
use crate::limits::Limits;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::outbox::{Accepted, Listener, Outbox};
use crate::page;
use crate::routes;
use crate::scheduler::{Policy, Scheduler, Submit};
use crate::valid::Rules;
use axum::Router;
use axum::http::HeaderValue;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use cofill_engine::{Engine, Reader};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

/// What is known of a served model without asking it.
#[derive(Debug)]
pub(crate) struct Model {
    /// By which clients name it.
    pub(crate) name: String,
    /// What reads its tokens.
    pub(crate) reader: Reader,
    /// The most positions it holds.
    pub(crate) context: usize,
    /// How many positions it generates unless somebody says.
    pub(crate) usual_length: usize,
    /// `meta` of llama.cpp.
    pub(crate) meta: Value,
    /// The mask.
    pub(crate) mask_id: u32,
    /// The end of text, if there is one.
    pub(crate) eos: Option<u32>,
    /// The beginning of text, if there is one.
    pub(crate) bos: Option<u32>,
    /// Whether it has a chat template.
    pub(crate) chats: bool,
}

impl Model {
    fn of(name: &str, engine: &Engine) -> Model {
        let config = engine.weights().map(cofill_model::Model::config);
        let meta = json!({
            "n_vocab": u64::from(engine.last_id()) + 1,
            "n_ctx_train": engine.context(),
            "n_embd": config.map(|config| config.hidden),
            "n_params": null,
            "size": null,
        });
        Model {
            name: name.into(),
            reader: engine.reader(),
            context: engine.context(),
            usual_length: engine.usual_length(),
            meta,
            mask_id: engine.mask_id(),
            eos: engine.ends().of_text,
            bos: engine.bos().ok(),
            chats: engine.has_chat_template(),
        }
    }
}

/// Everything a request needs.
pub struct App {
    /// How it is set up.
    pub(crate) config: Config,
    /// What is decided where requests say nothing.
    pub(crate) rules: Rules,
    /// The served models.
    pub(crate) models: Vec<Model>,
    /// The thread that computes.
    pub(crate) scheduler: Scheduler,
    /// How much is accepted.
    pub(crate) limits: Arc<Limits>,
    /// Numbers.
    pub(crate) metrics: Arc<Metrics>,
    /// Lines.
    pub(crate) log: Log,
    /// When it was started, in seconds since 1970: what its models give as their creation.
    pub(crate) started: u64,
    boot: u64,
    next: AtomicU64,
}

impl App {
    /// A server of these models, by name, whose thread runs.
    pub fn new(config: Config, engines: Vec<(String, Engine)>) -> std::io::Result<Arc<App>> {
        let models: Vec<Model> = engines.iter().map(|(name, engine)| Model::of(name, engine)).collect();
        let rules = Rules {
            models: models.iter().map(|model| model.name.clone()).collect(),
            any_model: config.any_model,
            sampler: config.sampler.clone(),
            length: config.length,
            efforts: config.efforts.clone(),
        };
        let limits = Arc::new(Limits::new(config.max_live, config.max_queue, config.keys.len(), config.queue_timeout));
        let metrics = Arc::new(Metrics::new(config.metrics_compat_vllm));
        models.iter().for_each(|model| metrics.under_way(&model.name, 0, 0));
        let policy = Policy {
            live: config.max_live,
            positions: config.max_positions,
            round_positions: config.round_positions,
            fifo: config.fifo,
            queue_timeout: config.queue_timeout,
        };
        let scheduler = Scheduler::start(engines, policy, limits.clone(), metrics.clone())?;
        let log = Log { json: config.json_log, requests: config.json_log };
        let boot = RandomState::new().hash_one(0);
        Ok(Arc::new(App {
            config,
            rules,
            models,
            scheduler,
            limits,
            metrics,
            log,
            started: now(),
            boot,
            next: AtomicU64::new(0),
        }))
    }

    /// A name that nobody else has.
    pub(crate) fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:08x}{:08x}", self.boot >> 32, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether it is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.limits.draining.load(Ordering::Relaxed)
    }

    /// Asks for decodes, and waits until each was read and its canvas drawn.
    pub(crate) async fn begin(
        &self,
        jobs: &[Job],
        key: Option<usize>,
    ) -> Result<Vec<(Listener, Arc<Accepted>)>, ApiError> {
        let received = Instant::now();
        let refused = |error: ApiError| {
            self.metrics.rejected(error.code.unwrap_or("other"));
            error
        };
        // Counted before anything is spent on them.
        let permits = self.limits.enter(jobs.len(), key).map_err(refused)?;
        for job in jobs {
            let model = &self.models[job.model];
            if let Some(said) = job.ask.too_long(model.context, &model.name) {
                return Err(ApiError::invalid("context_length_exceeded", said));
            }
        }
        let mut listeners = Vec::new();
        for (job, permit) in jobs.iter().zip(permits) {
            let outbox = Outbox::new(job.frames);
            listeners.push(Listener(outbox.clone()));
            self.scheduler.submit(Submit { job: job.clone(), outbox, permit, received }).map_err(refused)?;
        }
        let mut begun = Vec::new();
        for listener in listeners {
            let accepted = listener.0.accepted().await?;
            begun.push((listener, accepted));
        }
        Ok(begun)
    }

    /// OpenAI's word for what made an answer.
    pub(crate) fn fingerprint(&self) -> String {
        format!("cofill-{}", env!("CARGO_PKG_VERSION"))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Every route.
pub fn router(app: &Arc<App>) -> Router {
    let routes = Router::new()
        .route("/v1/chat/completions", post(routes::complete::chat))
        .route("/v1/completions", post(routes::complete::text))
        .route("/v1/fim/completions", post(routes::complete::fim))
        .route("/v1/edit/completions", post(routes::edit::edit))
        .route("/v1/apply/completions", post(routes::edit::apply))
        .route("/v1/models", get(routes::info::models))
        .route("/models", get(routes::info::models))
        .route("/v1/models/{*id}", get(routes::info::model))
        .route("/v1/cofill/decode", post(routes::ours::decode))
        .route("/v1/cofill/select", post(routes::ours::select))
        .route("/v1/cofill/probe", post(routes::ours::probe))
        .route("/completion", post(routes::llama::completion))
        .route("/completions", post(routes::llama::completion))
        .route("/infill", post(routes::llama::infill))
        .route("/tokenize", post(routes::text::tokenize))
        .route("/detokenize", post(routes::text::detokenize))
        .route("/apply-template", post(routes::text::apply_template))
        .route("/tokenizer_info", get(routes::text::tokenizer_info))
        .route("/props", get(routes::info::props))
        .route("/slots", get(routes::info::slots))
        .route("/load", get(routes::info::load))
        .route("/version", get(routes::info::version))
        .route("/ping", get(routes::info::ping).post(routes::info::ping))
        .route("/health", get(routes::info::health))
        .route("/v1/health", get(routes::info::health))
        .route("/metrics", get(routes::info::metrics))
        .route("/openapi.json", get(routes::info::openapi))
        .route("/", get(page::index))
        .route("/assets/{*path}", get(page::asset))
        .fallback(routes::info::nothing)
        .method_not_allowed_fallback(routes::info::wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::check))
        .with_state(app.clone());
    let origins: Vec<HeaderValue> = app.config.cors_origins.iter().filter_map(|it| it.parse().ok()).collect();
    if origins.is_empty() {
        return routes;
    }
    let any = app.config.cors_origins.iter().any(|origin| origin == "*");
    let allowed = if any { AllowOrigin::any() } else { AllowOrigin::list(origins) };
    let cors = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(AllowMethods::any())
        .allow_headers(AllowHeaders::mirror_request());
    routes.layer(cors)
}
