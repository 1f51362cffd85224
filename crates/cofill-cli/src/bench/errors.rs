//! `cofill bench errors`: how exact a product with quantised weights is, ours and llama.cpp's, against the dequantised weights in f64.
//!
//! A model of one block whose head is the matrix in question gives activations as they occur behind a norm. Everybody multiplies
//! the same f32 activations with the same bytes of one GGUF file.

use super::peer::{Package, Peer, PeerArgs};
use super::scratch::Scratch;
use super::step::SEED;
use crate::fail::{Done, Fail};
use cofill::TokenId;
use cofill_model::{Checkpoint, Dtype, ForwardRequest, Model, Quantise, Sizes};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Measure how exact a product with quantised weights is: ours and llama.cpp's, against the dequantised weights in f64.
///
/// Both multiply the same activations with the same bytes of one GGUF file; the exact product is NumPy's, of the weights as ggml
/// dequantises them. Errors are root mean squares relative to that of the exact product.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Weights that an output sums over: the width of the matrix, a multiple of 64.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1024, 3072], value_parser = clap::value_parser!(u32).range(64..=65_536))]
    inputs: Vec<u32>,
    /// Rows of the matrix.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(3..=65_536))]
    outputs: u32,
    /// Rows of activations.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: u32,
    /// How the matrix is kept: f32, f16, q8_0, q6k or q4k; several with commas.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', default_values_t = [Dtype::Q4K])]
    dtype: Vec<Dtype>,
    #[command(flatten)]
    peer: PeerArgs,
    /// Answer with one JSON object a line, one for each product.
    #[arg(long)]
    json: bool,
}

/// `--json`.
#[derive(Serialize)]
struct Answer {
    dtype: String,
    inputs: u32,
    outputs: u32,
    rows: u32,
    peer: String,
    /// Root mean square of the error over that of the exact product.
    our_error: f64,
    peer_error: f64,
    /// The largest error over the root mean square of the exact product.
    our_largest: f64,
    peer_largest: f64,
}

pub(crate) fn run(args: &Args) -> Done {
    if args.peer.peers != [Package::LlamaCpp] {
        return Err(Fail::request(
            "errors are compared with llama.cpp's, which also knows its types exactly; give --peer llama.cpp",
        ));
    }
    if let Some(inputs) = args.inputs.iter().find(|inputs| !inputs.is_multiple_of(64)) {
        return Err(Fail::request(format!("--inputs is {inputs}, but must be a multiple of 64")));
    }
    let mut peers = args.peer.start()?;
    let peer = peers.first_mut().ok_or_else(|| Fail::request("--peer llama.cpp is missing"))?;
    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(out, "{} rows, {} outputs; errors relative to the exact product", args.rows, args.outputs)?;
        writeln!(out, "{peer}")?;
        writeln!(out, "{:<8}{:>8}{:>14}{:>14}{:>9}", "type", "inputs", "ours", "peer", "ratio")?;
    }
    for &dtype in &args.dtype {
        for &inputs in &args.inputs {
            let answer = product(args, peer, dtype, inputs)?;
            if args.json {
                writeln!(out, "{}", serde_json::to_string(&answer)?)?;
                continue;
            }
            let Answer { our_error, peer_error, .. } = answer;
            let dtype = dtype.to_string();
            writeln!(out, "{dtype:<8}{inputs:>8}{our_error:>14.3e}{peer_error:>14.3e}{:>9.3}", our_error / peer_error)?;
        }
    }
    if !args.json {
        writeln!(out, "ratio: our error over the peer's; goal: at most 1 for q4k")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn product(args: &Args, peer: &mut Peer, dtype: Dtype, inputs: u32) -> Done<Answer> {
    let (hidden, rows) = (inputs as usize, args.rows as usize);
    let sizes = Sizes { hidden, layers: 1, heads: hidden / 64, mlp: 256, vocab: args.outputs as usize, context: rows };
    let scratch = Scratch::new()?;
    let path = |name: &str| scratch.path().join(name);
    let (file, given, ours) = (path("model.gguf"), path("activations"), path("ours"));
    let checkpoint = Checkpoint::random(sizes.config()?, SEED);
    let mut written = BufWriter::new(File::create(&file)?);
    Quantise { checkpoint: &checkpoint, dtype }.run(&mut written, |_, _, _| {})?;
    written.flush()?;
    let model = Model::load(&file)?;
    let tokens: Vec<TokenId> = (0..rows).map(|i| (i * 7919 % (sizes.vocab - 2)) as TokenId).collect();
    let every: Vec<usize> = (0..rows).collect();
    let pass = model.transformer().forward(&tokens, &ForwardRequest { rows: &every, attention: None })?;
    put(&given, &pass.hidden.to_rows()?)?;
    // The same forward again, which gives the same bits, and its head behind it.
    put(&ours, &model.logits(&tokens, &every)?)?;
    let order = json!({
        "do": "errors", "file": file, "tensor": "output.weight", "type": dtype.to_string(),
        "inputs": inputs, "outputs": args.outputs, "rows": rows, "activations": given, "ours": ours,
    });
    let answer = peer.ask(&order)?;
    let number = |name: &str| -> Done<f64> {
        let wrong = || Fail::Run(anyhow::anyhow!("--peer {peer}: it answered `{answer}`, without `{name}`"));
        answer.get(name).and_then(Value::as_f64).ok_or_else(wrong)
    };
    Ok(Answer {
        dtype: dtype.to_string(),
        inputs,
        outputs: args.outputs,
        rows: args.rows,
        our_error: number("ours")?,
        peer_error: number("theirs")?,
        our_largest: number("ours_largest")?,
        peer_largest: number("theirs_largest")?,
        peer: peer.to_string(),
    })
}

/// Rows as f32 in the byte order of files, one after the other.
fn put(path: &Path, rows: &[Vec<f32>]) -> Done<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for value in rows.iter().flatten() {
        file.write_all(&value.to_le_bytes())?;
    }
    file.flush()?;
    Ok(())
}
