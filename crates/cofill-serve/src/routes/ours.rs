//! Our own routes: any canvas with its whole trace, one selection, one forward.

use crate::answer::{self, Choice};
use crate::app::{App, now};
use crate::error::ApiError;
use crate::guard::{Visitor, body, json_response};
use crate::job::{Ask, Job};
use crate::outbox::{Accepted, Listener};
use crate::sse::{self, Events, Gone};
use crate::stream;
use crate::top::Tops;
use crate::valid::{MOST_TOP, messages, parse, sampler, set_length, stops};
use crate::wire::ours::{Decode, Probe, Select};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use cofill::{Attention, Layers, Proposal, Query, Snapshot, TokenId};
use cofill_engine::{Engine, Finish, Input, RunOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// `POST /v1/cofill/decode`
pub(crate) async fn decode(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let given: Decode = parse(&body(&app, request).await?)?;
    let streams = given.stream;
    let job = job(&app, given)?;
    let mut begun = app.begin(std::slice::from_ref(&job), visitor.key).await?;
    let Some((listener, accepted)) = begun.pop() else { return Err(ApiError::decode_failed("nothing was begun")) };
    let reply = Reply { app: app.clone(), model: job.model, id: app.id("decode-"), created: now() };
    if streams {
        let (events, response) = sse::respond(app.config.keep_alive);
        tokio::spawn(async move { drop(reply.stream(&listener, accepted, &events).await) });
        return Ok(response);
    }
    let ended = listener.0.ended().await?;
    let choice = Choice::read(&app.models[job.model].reader, accepted, ended);
    let mut whole = reply.whole(&choice);
    whole["trace"] = answer::trace(&choice);
    Ok(json_response(&whole))
}

fn job(app: &App, given: Decode) -> Result<Job, ApiError> {
    let model = app.rules.model(given.model.as_deref())?;
    let mask_id = app.models[model].mask_id;
    let mut inputs: Vec<Input> = Vec::new();
    inputs.extend(given.prompt.map(Input::Prompt));
    inputs.extend(given.messages.map(|chat| messages("messages", chat)).transpose()?.map(Input::Messages));
    inputs.extend(given.template.map(Input::Template));
    inputs.extend(given.tokens.map(|tokens| Input::Tokens(canvas(&tokens, mask_id))));
    if inputs.len() > 1 {
        let said = "only one of `prompt`, `messages`, `template` and `tokens` can be given";
        return Err(ApiError::field("prompt", said));
    }
    let input = inputs.pop().unwrap_or(Input::Nothing);
    let mut options = RunOptions::default();
    set_length(&mut options, given.length, None, app.rules.length)?;
    options.block = given.block;
    options.temperature = given.temperature.unwrap_or(0.0);
    options.seed = given.seed.unwrap_or(0);
    options.top_p = given.top_p;
    options.top_k = given.top_k;
    options.stop = stops(given.stop)?;
    options.max_nfe = given.max_nfe;
    options.schema = given.schema;
    options.regex = given.regex;
    options.choice = given.choice.unwrap_or_default();
    options.check().map_err(|error| ApiError::invalid("unsupported_value", error.to_string()))?;
    let sampler = match &given.sampler {
        Some(text) => sampler("sampler", text)?,
        None => app.rules.sampler.clone(),
    };
    let top = given.top.unwrap_or(0);
    if top > MOST_TOP {
        return Err(ApiError::field("top", format!("`top` must be 0 to {MOST_TOP}, but is {top}")));
    }
    let tops = (top > 0).then(|| Tops::new(top));
    Ok(Job {
        model,
        ask: Ask::Input(input),
        sampler,
        options,
        stop_ids: Vec::new(),
        show_specials: false,
        timeout: None,
        ends_early: false,
        frames: given.stream,
        tops,
    })
}

/// A canvas in which nothing stands for a mask.
fn canvas(tokens: &[Option<TokenId>], mask_id: TokenId) -> Vec<TokenId> {
    tokens.iter().map(|token| token.unwrap_or(mask_id)).collect()
}

struct Reply {
    app: Arc<App>,
    model: usize,
    id: String,
    created: u64,
}

impl Reply {
    /// The answer without its trace.
    fn whole(&self, choice: &Choice) -> Value {
        let model = &self.app.models[self.model];
        self.app.metrics.used(&model.name, choice.accepted.given(), choice.tokens.len(), choice.finish);
        let generation = &choice.ended.generation;
        let tokens = generation.canvas.tokens();
        json!({
            "id": self.id,
            "object": "cofill.decode",
            "model": model.name,
            "text": generation.text,
            "tokens": tokens,
            "pieces": tokens.iter().map(|&token| model.reader.piece(token)).collect::<Vec<_>>(),
            "finish": generation.finish,
            "ended": generation.ended,
            "nfe": generation.nfe,
            "tokens_per_forward": generation.tokens_per_forward(),
            "seconds": generation.seconds,
            "judged": generation.judged,
            "warnings": choice.accepted.warnings,
        })
    }

    fn chunk(&self, cofill: &Value, finish: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.app.models[self.model].name,
            "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
            "cofill": cofill,
        })
    }

    async fn stream(&self, listener: &Listener, accepted: Arc<Accepted>, events: &Events) -> Result<(), Gone> {
        let first = json!({"header": *accepted.header, "canvas": stream::canvas(&accepted.start, &accepted.header)});
        events.data(&self.chunk(&first, None)).await?;
        loop {
            let news = tokio::select! {
                news = listener.0.news() => news,
                () = events.gone() => return Err(Gone),
            };
            for frame in &news.frames {
                let mut step = json!({"step": frame.step, "nfe": frame.nfe, "masked": frame.masked});
                if accepted.tops.is_some() {
                    step["top"] = stream::tops(frame, &self.app.models[self.model].reader, MOST_TOP);
                }
                events.data(&self.chunk(&step, None)).await?;
            }
            match news.end {
                None => {}
                Some(Err(error)) => {
                    events.data(&error.body()).await?;
                    return events.done().await;
                }
                Some(Ok(ended)) => {
                    let choice = Choice::read(&self.app.models[self.model].reader, accepted, ended);
                    let whole = choice.ended.generation.finish == Finish::Complete && choice.finish_reason == "stop";
                    let finish = if whole { "stop" } else { choice.finish_reason };
                    events.data(&self.chunk(&json!({"done": self.whole(&choice)}), Some(finish))).await?;
                    return events.done().await;
                }
            }
        }
    }
}

/// `POST /v1/cofill/select`: one step from bare numbers; no model is asked.
pub(crate) async fn select(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let given: Select = parse(&body(&app, request).await?)?;
    let spec = match &given.sampler {
        Some(text) => sampler("sampler", text)?,
        None => app.rules.sampler.clone(),
    };
    let bad = |error: cofill::Error| ApiError::invalid("unsupported_value", error.to_string());
    let mut snapshot = Snapshot::new(&given.confidence).seed(given.seed.unwrap_or(0)).step(given.step.unwrap_or(0));
    if let Some(entropy) = &given.entropy {
        snapshot = snapshot.entropy(entropy);
    }
    if let Some(margin) = &given.margin {
        snapshot = snapshot.margin(margin);
    }
    if let Some(rows) = &given.attention {
        snapshot = snapshot.attention(Attention::from_rows(rows).map_err(bad)?);
    }
    if let Some(candidates) = &given.candidates {
        snapshot = snapshot.candidates(candidates);
    }
    if let Some(masks) = given.masks_at_start {
        snapshot = snapshot.masks_at_start(masks);
    }
    let picks = snapshot.select(&spec).map_err(bad)?;
    let positions = given.candidates.unwrap_or_else(|| (0..given.confidence.len()).collect());
    let mut answer = json!({
        "selected": picks.positions(),
        "forced": picks.forced,
        "utility": picks.iter().map(|pick| pick.utility).collect::<Vec<f64>>(),
    });
    if let Some(id) = given.id {
        answer["id"] = id;
    }
    if let Some(d) = picks.deferral.filter(|_| given.why) {
        let through: Vec<usize> = picks.through.iter().map(|&slot| positions[slot]).collect();
        let (position, by, instead) = (positions[d.deferred.0], positions[d.by.0], d.instead.map(|s| positions[s.0]));
        answer["deferred"] =
            json!({"position": position, "by": by, "through": through, "instead": instead, "discount": d.discount});
    }
    Ok(json_response(&answer))
}

/// `POST /v1/cofill/probe`: one forward, between two rounds.
pub(crate) async fn probe(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Result<Response, ApiError> {
    let given: Probe = parse(&body(&app, request).await?)?;
    let model = app.rules.model(given.model.as_deref())?;
    let all = match given.rows.as_deref() {
        None | Some("masked") => false,
        Some("all") => true,
        Some(_) => return Err(ApiError::field("rows", "`rows` must be masked or all")),
    };
    let layer = given.layer.as_deref().unwrap_or("last");
    let layer: Layers =
        layer.parse().map_err(|error: cofill::Error| ApiError::field("layer", format!("`layer`: {error}")))?;
    let tokens = canvas(&given.tokens, app.models[model].mask_id);
    let _room = app.limits.enter(1, visitor.key)?;
    let answer = app.scheduler.call(model, move |engine| forward(engine, &tokens, all, layer)).await??;
    Ok(json_response(&answer))
}

fn forward(engine: &mut Engine, tokens: &[TokenId], all: bool, layers: Layers) -> Result<Value, ApiError> {
    engine.fit(tokens.len())?;
    let mask_id = engine.mask_id();
    let rows: Vec<usize> = (0..tokens.len()).filter(|&at| all || tokens[at] == mask_id).collect();
    if rows.is_empty() {
        return Err(ApiError::field(
            "tokens",
            "`tokens` has no mask to predict; write null for one, or set `rows` to all",
        ));
    }
    let bad = |error: cofill::Error| ApiError::invalid("unsupported_value", error.to_string());
    let n_layers = engine.weights().map_or(1, |weights| weights.config().layers);
    let layer = layers.resolve(n_layers).map_err(bad)?.start;
    let proposal = Proposal::greedy();
    let query = Query::new(tokens, &rows, &proposal).attention(layers);
    let predictions = engine.denoiser().denoise(&[query]).map_err(bad)?;
    let prediction = predictions.first().ok_or_else(|| ApiError::decode_failed("the model answered nothing"))?;
    let row = |(&position, row): (&usize, &cofill::RowStats)| json!({"position": position, "token": row.token, "confidence": row.confidence, "entropy": row.entropy});
    let listed: Vec<Value> = rows.iter().zip(&prediction.rows).map(row).collect();
    let attention = prediction.attention.as_ref().map(|attention| {
        let row = |q: usize| (0..rows.len()).map(|k| attention.get(q, k)).collect::<Vec<f64>>();
        (0..rows.len()).map(row).collect::<Vec<_>>()
    });
    Ok(json!({"rows": listed, "attention": attention, "layer": layer}))
}
