//! `cofill bench write`: a model with random weights as a GGUF file, as large as a published one.

use super::step::SEED;
use crate::fail::{Done, Fail};
use crate::models::size;
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use crate::show::count;
use cofill_model::{Checkpoint, Config, Dtype, Quantise, Sizes, known_models};
use cofill_report::output::Output;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a model with random weights as a GGUF file, to measure with: `bench forward --file`.
///
/// Tensors are made, converted and written one by one, so that memory is that of the largest. The file has no tokenizer.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write.
    out: PathBuf,
    /// The published model whose sizes it has: `models list` has them.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["hidden", "heads", "mlp", "vocab", "context"])]
    like: Option<String>,
    /// Its blocks (default: 8, or as many as the published model has).
    #[arg(long, value_name = "N")]
    layers: Option<usize>,
    /// Width of the model.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    hidden: usize,
    /// Its heads.
    #[arg(long, value_name = "N", default_value_t = 16)]
    heads: usize,
    /// Width of its MLP.
    #[arg(long, value_name = "N", default_value_t = 3072)]
    mlp: usize,
    /// Its token ids.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    vocab: usize,
    /// The longest canvas that it holds.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    context: usize,
    /// How matrices are kept: f32, f16, q8_0, q6k or q4k.
    #[arg(long, value_name = "TYPE", default_value = "q4k")]
    dtype: Dtype,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn run(args: &Args) -> Done {
    let checkpoint = Checkpoint::random(config(args)?, SEED);
    let mut file = Output::whole(&args.out, args.force.existing()).map_err(refused("OUT"))?;
    let progress = Progress::writing();
    let job = Quantise { checkpoint: &checkpoint, dtype: args.dtype };
    let written = job.run(&mut file, |name, i, n| progress.tensor(name, i, n));
    let written = written.map_err(|error| match error {
        cofill_model::Error::Write(source) => failed("OUT")(file.failed(source)),
        error => error.into(),
    })?;
    file.publish().map_err(failed("OUT"))?;
    drop(progress);
    let (tensors, bytes) = (count(written.tensors, "tensor"), size(written.bytes));
    writeln!(std::io::stdout().lock(), "{}  {bytes}, {tensors}, {}, random weights", args.out.display(), args.dtype)?;
    Ok(ExitCode::SUCCESS)
}

fn config(args: &Args) -> Done<Config> {
    let Some(name) = &args.like else {
        let Args { hidden, heads, mlp, vocab, context, .. } = *args;
        return Ok(Sizes { hidden, layers: args.layers.unwrap_or(8), heads, mlp, vocab, context }.config()?);
    };
    let known = known_models();
    let Some(model) = known.iter().find(|model| model.name == name) else {
        let names = known.iter().map(|model| model.name);
        let guess = cofill::did_you_mean(name, names);
        return Err(Fail::request(format!(
            "--like `{name}` is no model whose sizes are known{guess}; `cofill models list` has them"
        )));
    };
    let layers = args.layers.unwrap_or(model.config.layers);
    if layers == 0 || layers > model.config.layers {
        let most = model.config.layers;
        return Err(Fail::request(format!("--layers is {layers}, but must be from 1 to {most}, which {name} has")));
    }
    Ok(Config { layers, ..model.config.clone() })
}
