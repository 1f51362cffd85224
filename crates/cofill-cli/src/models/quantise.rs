//! `cofill models quantise`: a checkpoint as one GGUF file.

use super::size;
use crate::fail::{Done, warning_line};
use crate::output::{ForceArgs, failed, refused};
use crate::progress::Progress;
use crate::show::count;
use cofill_model::{Dtype, Quantise, printable};
use cofill_report::output::Output;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a checkpoint as one GGUF file, smaller and quicker to load.
#[derive(clap::Args)]
#[command(visible_alias = "quantize")]
pub(crate) struct Args {
    /// A folder in Hugging Face layout or a .gguf file.
    path: PathBuf,
    /// The file to write.
    out: PathBuf,
    /// How matrices are kept: f32, f16, q8_0, q6k or q4k. Norms and biases stay f32; the embedding is f16 at least.
    #[arg(long, value_name = "TYPE", default_value = "q4k")]
    dtype: Dtype,
    #[command(flatten)]
    force: ForceArgs,
}

pub(crate) fn run(args: &Args) -> Done {
    let checkpoint = super::open(&args.path)?;
    let mut file = Output::whole(&args.out, args.force.existing()).map_err(refused("OUT"))?;
    let job = Quantise { checkpoint: &checkpoint, dtype: args.dtype };
    let progress = Progress::writing();
    let written = job.run(&mut file, |name, i, n| progress.tensor(name, i, n));
    let written = written.map_err(|error| match error {
        cofill_model::Error::Write(source) => failed("OUT")(file.failed(source)),
        error => error.into(),
    })?;
    file.publish().map_err(failed("OUT"))?;
    drop(progress);
    let mut out = std::io::stdout().lock();
    let tensors = count(written.tensors, "tensor");
    writeln!(out, "{}  {}, {tensors}, {}", args.out.display(), size(written.bytes), args.dtype)?;
    if !written.stayed_f16.is_empty() {
        let n = count(written.stayed_f16.len(), "tensor");
        writeln!(out, "{n} stayed f16, because their width does not fit the blocks of {}:", args.dtype)?;
        for name in &written.stayed_f16 {
            writeln!(out, "  {}", printable(name))?;
        }
        if let Some(warning) = checkpoint.dtype_warning(args.dtype)? {
            warning_line(&warning);
        }
    }
    if let Some(why) = &written.without_tokenizer {
        warning_line(&format!("the file has no tokenizer and takes token ids only: {why}"));
    }
    Ok(ExitCode::SUCCESS)
}
