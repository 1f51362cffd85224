//! What came of decodes, as one answer: choices, usage, timings, warnings.

use crate::outbox::{Accepted, Ended};
use crate::stream::Cut;
use cofill::TokenId;
use cofill_engine::{Finish, Reader};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// One answer, read.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// What it says.
    pub text: String,
    /// Where its tokens are on the canvas.
    pub positions: Vec<usize>,
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// `stop` or `length`.
    pub finish_reason: &'static str,
    /// `eos`, `stop`, `full` or `capped`.
    pub finish: &'static str,
    /// The stop string that ended it.
    pub stop: Option<String>,
    /// What was asked for.
    pub accepted: Arc<Accepted>,
    /// What came of it.
    pub ended: Arc<Ended>,
}

impl Choice {
    /// Reads a canvas.
    pub(crate) fn read(reader: &Reader, accepted: Arc<Accepted>, ended: Arc<Ended>) -> Choice {
        let canvas = ended.generation.canvas.tokens();
        let taken = accepted.window.read(reader, canvas);
        let capped = ended.timed_out || ended.generation.finish == Finish::Capped;
        let (finish_reason, finish) = match &taken.cut {
            _ if accepted.window.is_open(canvas, &taken) => ("length", "capped"),
            Cut::End => ("stop", "eos"),
            Cut::Stop(_) => ("stop", "stop"),
            Cut::None if capped => ("length", "capped"),
            Cut::None if accepted.window.is_held => ("stop", "full"),
            Cut::None => ("length", "full"),
        };
        let stop = if let Cut::Stop(stop) = taken.cut { Some(stop) } else { None };
        let tokens = taken.positions.iter().filter_map(|&at| canvas.get(at).copied()).collect();
        Choice { text: taken.text, positions: taken.positions, tokens, finish_reason, finish, stop, accepted, ended }
    }

    /// ln of the probability that each token had when it was committed: no factor of a chain, since tokens are committed in any order.
    pub(crate) fn log_probabilities(&self) -> Vec<f64> {
        let commits = || self.ended.generation.steps.iter().flat_map(|step| &step.commits);
        let of = |&at: &usize| {
            let commit = commits().rfind(|commit| commit.position == at);
            commit.map_or(0.0, |commit| commit.clean_confidence.unwrap_or(commit.confidence).ln().max(-9999.0))
        };
        self.positions.iter().map(of).collect()
    }

    /// The likeliest tokens of each position when it was committed, as texts, with ln p.
    fn alternatives(&self, reader: &Reader, most: u32) -> Vec<Vec<(String, f64)>> {
        let named = |(token, p): (TokenId, f32)| (reader.piece(token), f64::from(p).ln().max(-9999.0));
        let of = |&at: &usize| {
            let likely = self.accepted.tops.as_ref().map(|tops| tops.of(at)).unwrap_or_default();
            likely.into_iter().take(most as usize).map(named).collect()
        };
        self.positions.iter().map(of).collect()
    }

    /// `logprobs` of a chat.
    pub(crate) fn chat_logprobs(&self, reader: &Reader, most: u32) -> Value {
        let entry = |piece: &str, logprob: f64| json!({"token": piece, "logprob": logprob, "bytes": piece.as_bytes()});
        let mut content: Vec<Value> = Vec::new();
        let others = self.alternatives(reader, most);
        for ((&token, logprob), others) in self.tokens.iter().zip(self.log_probabilities()).zip(others) {
            let mut it = entry(&reader.piece(token), logprob);
            it["top_logprobs"] = others.iter().map(|(piece, logprob)| entry(piece, *logprob)).collect();
            content.push(it);
        }
        json!({"content": content, "refusal": null})
    }

    /// `logprobs` of a text completion: parallel lists.
    pub(crate) fn text_logprobs(&self, reader: &Reader, most: u32) -> Value {
        let pieces: Vec<String> = self.tokens.iter().map(|&token| reader.piece(token)).collect();
        let logprobs = self.log_probabilities();
        let listed =
            |others: Vec<(String, f64)>| Value::Object(others.into_iter().map(|(p, l)| (p, l.into())).collect());
        let top: Vec<Value> = self.alternatives(reader, most).into_iter().map(listed).collect();
        let offsets = pieces.iter().scan(0, |at, piece| {
            let here = *at;
            *at += piece.chars().count();
            Some(here)
        });
        let offsets: Vec<usize> = offsets.collect();
        json!({"tokens": pieces, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets})
    }
}

/// Tokens given and answered. Prompts count once, however many answers they get.
pub(crate) fn usage(choices: &[Choice], repeat: usize) -> Value {
    let mut counted: Vec<&Arc<Accepted>> = Vec::new();
    for choice in choices {
        // Choices of one prompt have the same canvas at the start.
        let same = |other: &&Arc<Accepted>| other.start.tokens() == choice.accepted.start.tokens();
        if !counted.iter().any(same) {
            counted.push(&choice.accepted);
        }
    }
    let prompt: usize = counted.iter().map(|accepted| accepted.given()).sum();
    let completion: usize = choices.iter().map(|choice| choice.tokens.len()).sum::<usize>() * repeat;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    })
}

/// llama.cpp's timings, with the names that diffusion servers give theirs. Of several choices, the sum.
pub(crate) fn timings(choices: &[Choice]) -> Value {
    let sum = |f: &dyn Fn(&Choice) -> f64| choices.iter().map(f).sum::<f64>();
    let seconds = sum(&|it| it.ended.generation.seconds.model + it.ended.generation.seconds.sampler);
    let predicted = sum(&|it| it.tokens.len() as f64);
    json!({
        "prompt_n": choices.first().map_or(0, |it| it.accepted.given()),
        "prompt_ms": 0.0,
        "queue_ms": choices.iter().map(|it| it.ended.queued).fold(0.0, f64::max) * 1e3,
        "predicted_n": predicted as u64,
        "predicted_ms": seconds * 1e3,
        "predicted_per_second": predicted / seconds.max(1e-9),
        "diffusion": true,
        "diffusion_steps": sum(&|it| it.ended.generation.steps.len() as f64) as u64,
        "diffusion_canvas": choices.first().map_or(0, |it| it.accepted.start.free().len()),
    })
}

/// Our own object; of several choices, the first's.
pub(crate) fn cofill(choices: &[Choice], sampler: &str, seed: i64, trace: bool) -> Value {
    let Some(first) = choices.first() else { return Value::Null };
    let generation = &first.ended.generation;
    let mut it = json!({
        "sampler": sampler,
        "seed": seed,
        "nfe": generation.nfe,
        "steps": generation.steps.len(),
        "canvas": first.accepted.start.free().len() + generation.appended,
        "finish": first.finish,
        "tokens_per_forward": generation.tokens_per_forward(),
    });
    if generation.probes() > 0 {
        it["probes"] = json!(generation.probes());
    }
    if let Some(judged) = &generation.judged {
        it["judged"] = json!(judged);
    }
    if trace {
        it["trace"] = self::trace(first);
    }
    it
}

/// The lines of a choice's trace.
pub(crate) fn trace(choice: &Choice) -> Value {
    let header = std::iter::once(json!(*choice.accepted.header));
    header.chain(choice.ended.generation.steps.iter().map(|step| json!(step))).collect()
}

/// Warnings as Mercury gives them: one text.
pub(crate) fn warning(into: &mut Map<String, Value>, warnings: &[String]) {
    if !warnings.is_empty() {
        into.insert("warning".into(), warnings.join("; ").into());
    }
}
