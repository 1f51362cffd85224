//! `cofill models inspect`: what a checkpoint is, and what it would take to run it.

use super::{open, size};
use crate::fail::Done;
use crate::show::count;
use cofill::SamplerSpec;
use cofill_engine::settle;
use cofill_model::{Checkpoint, Inspection, printable};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a checkpoint is and the memory it takes, without reading its weights. Exit code 1 when it cannot be loaded, or its tokenizer or chat template is broken.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in Hugging Face layout or a .gguf file.
    path: PathBuf,
    /// List every tensor: name, type, shape.
    #[arg(long)]
    tensors: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// Superfluous tensors that people are shown.
const MOST_NAMES: usize = 40;

pub(crate) fn run(args: &Args) -> Done {
    let checkpoint = open(&args.path)?;
    let it = Inspection::of(&checkpoint)?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", object(args, &checkpoint, &it))?,
        false => out.write_all(table(args, &checkpoint, &it).as_bytes())?,
    }
    Ok(if it.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn object(args: &Args, checkpoint: &Checkpoint, it: &Inspection) -> Value {
    let config = &it.config;
    let mut memory: Map<String, Value> =
        it.memory.at.iter().map(|(dtype, bytes)| (dtype.to_string(), json!(bytes))).collect();
    memory.insert("default".into(), json!(it.memory.default));
    let stored: Map<String, Value> = it
        .stored
        .iter()
        .map(|(dtype, (tensors, weights))| (dtype.clone(), json!({"tensors": tensors, "weights": weights})))
        .collect();
    let narrow: Map<String, Value> = it
        .stays_f16
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(dtype, names)| (dtype.to_string(), json!(names)))
        .collect();
    let mut object = json!({
        "path": args.path,
        "kind": checkpoint.kind(),
        "architecture": config.family.to_string(),
        "parameters": it.parameters,
        "layers": config.layers,
        "hidden": config.hidden,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "mlp": config.mlp,
        "vocab": config.vocab,
        "context": config.context,
        "rope_theta": config.rope_theta,
        "rms_eps": config.rms_eps,
        "qkv_bias": config.qkv_bias,
        "o_bias": config.o_bias,
        "qk_norm": config.qk_norm,
        "tied": config.tied,
        "shift": config.shift,
        "causal": config.causal,
        "mask_id": config.mask_id,
        "eos_id": config.eos_id,
        "paths_alpha": strength(checkpoint),
        "tokenizer": it.tokenizer.is_ok(),
        "chat_template": matches!(it.chat, Ok(true)),
        "tensors": it.tensors.len(),
        "stored": stored,
        "file_bytes": it.file_bytes,
        "memory_bytes": memory,
        "stays_f16": narrow,
        "problems": it.problems,
        "superfluous": it.superfluous,
    });
    if let Some(encoder) = &config.encoder {
        object["embedding"] = json!(encoder.embedding);
        object["stored_blocks"] = json!(encoder.stored_blocks);
        object["frame"] = json!(encoder.frame);
        object["never_proposed"] = json!(encoder.never);
    }
    match &it.pair_head {
        Ok(None) => {}
        Ok(Some(head)) => {
            object["pair_head"] = json!({"rank": head.rank, "bytes": head.bytes, "sha256": head.sha256});
        }
        Err(error) => object["pair_head_problem"] = json!(error.to_string()),
    }
    if config.causal {
        object["mask_id"] = Value::Null; // whatever the model's is that it accompanies
    }
    if let Err(error) = &it.tokenizer {
        object["tokenizer_problem"] = json!(error.to_string());
    }
    if let Err(error) = &it.chat {
        object["chat_template_problem"] = json!(error.to_string());
    }
    if args.tensors {
        let tensor = |it: &cofill_model::TensorInfo| json!({"name": it.name, "dtype": it.dtype, "shape": it.shape});
        object["tensor_list"] = it.tensors.iter().map(tensor).collect();
    }
    object
}

/// What `+paths:auto` means for it, if anybody calibrated it. A checkpoint that cannot be read whole says so elsewhere.
fn strength(checkpoint: &Checkpoint) -> Option<f64> {
    let auto: SamplerSpec = "topk:1+paths:auto".parse().ok()?;
    settle(&auto, checkpoint).ok()?.discount().map(|discount| discount.alpha)
}

/// For people: a fact a line, then memory, then what is wrong.
fn table(args: &Args, checkpoint: &Checkpoint, it: &Inspection) -> String {
    let config = &it.config;
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut say = |what, text: String| lines.push((what, text));
    say("checkpoint", format!("{} ({})", args.path.display(), checkpoint.kind()));
    let switches = [
        (config.causal, "causal: a companion for samplers that ask one"),
        (config.shift, "shifted logits"),
        (config.qkv_bias, "qkv biases"),
        (config.o_bias, "output bias"),
        (config.qk_norm, "normalised q and k"),
        (config.tied, "tied head"),
    ];
    let switches = switches.iter().filter(|(on, _)| *on).map(|(_, name)| format!(", {name}")).collect::<String>();
    say("architecture", config.family.to_string() + &switches);
    say("parameters", format!("{} ({})", it.parameters, billions(it.parameters)));
    say("layers", config.layers.to_string());
    say("hidden", config.hidden.to_string());
    say("heads", format!("{} query, {} key, width {}", config.heads, config.kv_heads, config.head_dim));
    say("mlp", config.mlp.to_string());
    say("vocabulary", config.vocab.to_string());
    say("context", config.context.to_string());
    match &config.encoder {
        Some(encoder) => {
            match &encoder.local {
                None => say("positions", format!("a table of {}", encoder.positions)),
                Some(local) => {
                    let n = local.layers.iter().filter(|local| **local).count();
                    say(
                        "rotation",
                        format!(
                            "theta {}; {} in {n} layers that see {} positions to either side",
                            config.rope_theta, local.theta, local.reach
                        ),
                    );
                }
            }
            if encoder.stored_blocks < config.layers {
                say("sharing", format!("{} layers of {}", config.layers, count(encoder.stored_blocks, "stored block")));
            }
            say("never proposed", count(encoder.never.len(), "token"));
        }
        None => say("rotation", format!("theta {}", config.rope_theta)),
    }
    say("norm", format!("eps {:e}", config.rms_eps as f32));
    match config.causal {
        true => say("end of text", config.eos_id.to_string()),
        false => say("mask, end of text", format!("{}, {}", config.mask_id, config.eos_id)),
    }
    say("tokenizer", it.tokenizer.as_ref().map_or_else(|error| format!("none: {error}"), |()| "yes".into()));
    let chat = |there: &bool| if *there { "yes" } else { "none" }.to_owned();
    say("chat template", it.chat.as_ref().map_or_else(|error| format!("unusable: {error}"), chat));
    match &it.pair_head {
        Ok(None) => {}
        Ok(Some(head)) => {
            let about = format!("rank {}, {} bytes, sha256 {}..", head.rank, head.bytes, &head.sha256[..8]);
            say("learned influence", about);
        }
        Err(error) => say("learned influence", format!("unusable: {error}")),
    }
    if let Some(alpha) = strength(checkpoint) {
        say("calibrated", format!("+paths:auto is +paths:{alpha}"));
    }
    let types = it.stored.iter().map(|(dtype, (n, _))| format!("{n} {dtype}")).collect::<Vec<_>>().join(", ");
    say("tensors", format!("{}: {types}", it.tensors.len()));
    say("files", size(it.file_bytes));
    say("memory", format!("{} without --dtype", size(it.memory.default)));
    for ((dtype, bytes), (_, narrow)) in it.memory.at.iter().zip(&it.stays_f16) {
        let note = match narrow.as_slice() {
            [] => String::new(),
            [one] => format!("; {one} stays f16"),
            [first, .., last] => format!("; {} matrices stay f16, {first} to {last}", narrow.len()),
        };
        say("", format!("{:>8} as {dtype}{note}", size(*bytes)));
    }
    for (i, problem) in it.problems.iter().enumerate() {
        say(if i == 0 { "PROBLEMS" } else { "" }, problem.clone());
    }
    for (i, name) in it.superfluous.iter().take(MOST_NAMES).enumerate() {
        say(if i == 0 { "superfluous" } else { "" }, name.clone());
    }
    if it.superfluous.len() > MOST_NAMES {
        say("", format!("and {} more; --json lists them all", it.superfluous.len() - MOST_NAMES));
    }
    if it.problems.is_empty() {
        let rest = match it.superfluous.len() {
            0 => "nothing else".into(),
            n => count(n, "superfluous tensor"),
        };
        say("complete", format!("every tensor is there in its shape, and {rest}"));
    }
    let width = lines.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    let mut text: String = lines.iter().map(|(what, text)| format!("{what:<width$}  {}\n", printable(text))).collect();
    if args.tensors {
        let width = it.tensors.iter().map(|tensor| printable(&tensor.name).len()).max().unwrap_or(0);
        text.push('\n');
        for tensor in &it.tensors {
            let name = printable(&tensor.name);
            text += &format!("{name:<width$}  {:<5}  {:?}\n", tensor.dtype, tensor.shape);
        }
    }
    text
}

fn billions(n: u64) -> String {
    let units = [(1e9, "billion"), (1e6, "million"), (1e3, "thousand")];
    let unit = units.iter().find(|(one, _)| n as f64 >= *one);
    unit.map_or(n.to_string(), |(one, unit)| format!("{:.2} {unit}", n as f64 / one))
}
