//! A model to look at, for commands that do not run a sampler: which, and how it is loaded.

use crate::fail::Done;
use cofill_engine::{DEFAULT_MODEL, Engine, MODEL_NAMES, RunOptions};
use cofill_model::{Device, Dtype, LoadOptions};

/// How weights are loaded.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    /// How weights are kept: f32, f16, bf16, q8_0, q6k or q4k (default: as stored, which is exact).
    #[arg(long, value_name = "TYPE")]
    pub(crate) dtype: Option<Dtype>,
    /// What computes: cpu, cuda or metal; the latter need a build with the feature of that name.
    #[arg(long, value_name = "NAME", default_value_t = Device::Cpu)]
    pub(crate) device: Device,
}

/// A model by name.
#[derive(clap::Args)]
pub(crate) struct ModelArgs {
    /// The model.
    #[arg(short, long, default_value = DEFAULT_MODEL, help = format!("The model: {MODEL_NAMES}"))]
    model: String,
    #[command(flatten)]
    load: LoadArgs,
}

impl LoadArgs {
    /// As the model crate has them.
    pub(crate) fn options(&self) -> LoadOptions {
        LoadOptions { dtype: self.dtype, device: self.device }
    }
}

impl ModelArgs {
    /// Opens the model.
    pub(crate) fn open(&self) -> Done<Engine> {
        let mut options = RunOptions::default();
        (options.dtype, options.device) = (self.load.dtype, self.load.device);
        Ok(Engine::open(&self.model, &options)?)
    }
}
