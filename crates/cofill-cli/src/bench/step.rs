//! One decode step and where its time goes; and the random models it is measured on.

use crate::fail::{Done, Fail};
use cofill::{Canvas, Decode, Denoiser, Policy, SamplerSpec, Step, TokenId};
use cofill_model::{Device, Dtype, LoadOptions, Model, Sizes, Timing};
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};

/// Of all random weights here, so that every command measures the same models.
pub(super) const SEED: u64 = 0;

/// A model with random weights, and a canvas for it.
#[derive(clap::Args, Clone)]
pub(super) struct SizeArgs {
    /// Width of the model.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(super) hidden: usize,
    /// Its blocks.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(super) layers: usize,
    /// Its heads.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(super) heads: usize,
    /// Width of its MLP.
    #[arg(long, value_name = "N", default_value_t = 3072)]
    pub(super) mlp: usize,
    /// Its token ids.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub(super) vocab: usize,
    /// Length of the canvas.
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) positions: usize,
    /// Masks on it.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(super) masked: usize,
}

/// How the weights of a model are kept.
#[derive(clap::Args)]
pub(super) struct KeepArgs {
    /// How the weights are kept: f32, f16, bf16, q8_0, q6k or q4k (default: f32; GGUF files as stored).
    #[arg(long, value_name = "TYPE")]
    pub(super) dtype: Option<Dtype>,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[arg(long, value_name = "NAME", default_value_t = Device::Cpu)]
    pub(super) device: Device,
}

impl KeepArgs {
    /// Of a checkpoint: without a type, as the checkpoint means it.
    pub(super) fn of_checkpoint(&self) -> LoadOptions {
        LoadOptions { dtype: self.dtype, device: self.device }
    }

    /// Of a model that nobody stored.
    pub(super) fn of_random(&self) -> LoadOptions {
        LoadOptions { dtype: Some(self.dtype.unwrap_or_default()), device: self.device }
    }
}

impl SizeArgs {
    /// The sizes of the model.
    pub(super) fn sizes(&self) -> Sizes {
        let SizeArgs { hidden, layers, heads, mlp, vocab, positions, .. } = *self;
        Sizes { hidden, layers, heads, mlp, vocab, context: positions }
    }

    /// The model.
    pub(super) fn random(&self, keep: impl Into<LoadOptions>) -> Done<Model> {
        self.check()?;
        Ok(Model::random(self.sizes(), keep, SEED)?)
    }

    /// Refuses masks that the canvas does not have.
    pub(super) fn check(&self) -> Done<()> {
        let SizeArgs { masked, positions, .. } = *self;
        match masked == 0 || masked > positions {
            true => Err(Fail::request(format!(
                "--masked is {masked}, but must be from 1 to --positions, which is {positions}"
            ))),
            false => Ok(()),
        }
    }

    /// Given tokens first, then masks, as a prompt has them.
    pub(super) fn canvas(&self, model: &Model) -> Done<Canvas> {
        self.check()?;
        canvas_of(model, self.positions, self.masked)
    }
}

/// A canvas for a model: given tokens first, then masks.
pub(super) fn canvas_of(model: &Model, positions: usize, masked: usize) -> Done<Canvas> {
    let (mask_id, vocab, most) = (model.mask_id(), model.vocab(), model.config().context);
    if positions > most {
        return Err(Fail::request(format!("--positions is {positions}, but the model holds {most}; lower it")));
    }
    let token = |i: usize| match (i * 7919 % vocab) as TokenId {
        mask if mask == mask_id => u32::from(mask_id == 0),
        token => token,
    };
    let prompt: Vec<TokenId> = (0..positions - masked).map(token).collect();
    Ok(Canvas::prompt(&prompt, masked, mask_id))
}

impl fmt::Display for SizeArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SizeArgs { hidden, layers, heads, mlp, vocab, positions, masked, .. } = self;
        write!(
            f,
            "hidden {hidden}, {layers} layers, {heads} heads, MLP {mlp}, vocabulary {vocab}, {positions} positions, {masked} masked"
        )
    }
}

/// A sampler without its discount and with it: its own, or `+ad` where it has none.
pub(super) fn with_and_without(sampler: &SamplerSpec) -> Done<(SamplerSpec, SamplerSpec)> {
    let discount = sampler.discount().unwrap_or_default();
    let bad = |_| {
        Fail::request(format!("--sampler `{sampler}` cannot be measured with and without +ad; give one like topk:8"))
    };
    Ok((sampler.with_discount(None)?, sampler.with_discount(Some(discount)).map_err(bad)?))
}

/// Milliseconds.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Split {
    pub(super) body_ms: f64,
    pub(super) final_layer_ms: f64,
    pub(super) head_ms: f64,
    pub(super) probe_ms: f64,
    pub(super) select_ms: f64,
    pub(super) total_ms: f64,
}

/// One decode step: what the sampler asks, the model's answer, the choice.
pub(super) fn step(model: &mut Model, canvas: &Canvas, policy: Policy) -> Done<(Split, Option<Step>)> {
    step_of(model, Decode::new(canvas.clone(), policy)?)
}

impl Split {
    /// What a model says of its time, the whole step, and choosing.
    pub(super) fn of(timing: Timing, total: Duration, select: Duration) -> Split {
        Split {
            body_ms: ms(timing.body),
            final_layer_ms: ms(timing.final_block),
            head_ms: ms(timing.head),
            probe_ms: ms(timing.probe),
            select_ms: ms(select),
            total_ms: ms(total),
        }
    }
}

/// The same of a decode that was told more.
pub(super) fn step_of(model: &mut Model, mut decode: Decode) -> Done<(Split, Option<Step>)> {
    let query = decode.query().ok_or_else(|| Fail::request("--masked must be at least 1"))?;
    let begun = Instant::now();
    let predictions = model.denoise(&[query])?;
    let answered = begun.elapsed();
    let step = predictions.first().map(|prediction| decode.absorb(prediction)).transpose()?.flatten();
    let total = begun.elapsed();
    Ok((Split::of(model.take_timing(), total, total - answered), step))
}

pub(super) fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
