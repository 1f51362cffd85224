//! `cofill models list`: what can be named with `-m`.

use super::size;
use crate::fail::Done;
use cofill_engine::Engine;
use cofill_hub::{CachedModel, Settings, scan};
use cofill_model::{Checkpoint, Dtype, Inspection, KnownModel, known_models, printable};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// List the models inside this program, those in the Hugging Face cache, and published
/// ones that should work, each with the memory that its weights take at every --dtype.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

type Memory = Vec<(Dtype, u64)>;

/// What is known of a checkpoint from its headers, or why nothing is.
struct Looked {
    architecture: String,
    parameters: u64,
    memory: Memory,
}

fn look(checkpoint: &Checkpoint) -> Result<Looked, cofill_model::Error> {
    let it = Inspection::of(checkpoint)?;
    Ok(Looked { architecture: it.config.family.to_string(), parameters: it.parameters, memory: it.memory.at })
}

pub(crate) fn run(args: &Args) -> Done {
    let cache = Settings::from_env().cache;
    let mut embedded = Vec::new();
    for name in cofill_model::embedded::names() {
        embedded.push((name, look(&Engine::checkpoint_at(Path::new(name))?)?));
    }
    let cached = scan(&cache);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", object(&cache, &embedded, &cached))?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "inside this program")?;
    for (name, it) in &embedded {
        writeln!(out, "  {name:<12} {:>7} weights  {}", count(it.parameters), memory(&it.memory))?;
    }
    writeln!(out, "\nin the cache ({})", printable(&cache.display().to_string()))?;
    for model in &cached {
        describe(&mut out, model)?;
    }
    if cached.is_empty() {
        writeln!(out, "  nothing; `cofill pull NAME` gets a model")?;
    }
    writeln!(out, "\npublished ones that should work (`cofill pull NAME`)")?;
    for known in known_models() {
        let (n, bytes) = (count(known.parameters()), size(known.file_bytes()));
        writeln!(out, "  {}\n    {n} weights, {bytes} to fetch; {}", known.name, known.note)?;
        writeln!(out, "    {}", memory(&known.memory()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A cached model and its revisions.
fn describe(out: &mut impl Write, model: &CachedModel) -> std::io::Result<()> {
    let unfinished = match model.unfinished {
        0 => String::new(),
        bytes => format!(", {} of it unfinished (`cofill pull {}` continues)", size(bytes), model.repo),
    };
    writeln!(out, "  {}  {} on disk{unfinished}", printable(&model.repo), size(model.bytes))?;
    for revision in &model.revisions {
        let refs = if revision.refs.is_empty() { String::new() } else { format!(" ({})", revision.refs.join(", ")) };
        write!(out, "    {:.7}{}  {}", printable(&revision.commit), printable(&refs), size(revision.bytes))?;
        match Checkpoint::open(&revision.folder).and_then(|checkpoint| look(&checkpoint)) {
            Ok(it) => {
                writeln!(out, ", {}, {} weights", it.architecture, count(it.parameters))?;
                writeln!(out, "    {}", memory(&it.memory))?;
            }
            Err(_) => match ggufs(&revision.files) {
                files if files.is_empty() => writeln!(out, ", nothing that cofill runs")?,
                files => writeln!(out, ", {}", printable(&files.join(", ")))?,
            },
        }
    }
    Ok(())
}

fn ggufs(files: &[String]) -> Vec<String> {
    files.iter().filter(|file| file.ends_with(".gguf")).cloned().collect()
}

/// `32.1 GB f32, 16.0 GB f16, ...`
fn memory(memory: &Memory) -> String {
    let each: Vec<String> = memory.iter().map(|(dtype, bytes)| format!("{dtype} {}", size(*bytes))).collect();
    format!("memory: {}", each.join(", "))
}

fn count(n: u64) -> String {
    let units = [(1e9, "B"), (1e6, "M"), (1e3, "k")];
    let unit = units.iter().find(|(one, _)| n as f64 >= *one);
    unit.map_or(n.to_string(), |(one, unit)| format!("{:.2}{unit}", n as f64 / one))
}

fn object(cache: &Path, embedded: &[(&str, Looked)], cached: &[CachedModel]) -> Value {
    let memory = |memory: &Memory| -> Map<String, Value> {
        memory.iter().map(|(dtype, bytes)| (dtype.to_string(), json!(bytes))).collect()
    };
    let looked = |it: &Looked| json!({"architecture": it.architecture, "parameters": it.parameters, "memory_bytes": memory(&it.memory)});
    let with = |mut object: Value, more: Value| {
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        object
    };
    let inside: Vec<Value> = embedded.iter().map(|(name, it)| with(json!({"name": name}), looked(it))).collect();
    let revisions = |model: &CachedModel| -> Vec<Value> {
        let revision = |it: &cofill_hub::CachedRevision| {
            let object = json!({
                "commit": it.commit, "refs": it.refs, "path": it.folder, "bytes": it.bytes, "files": it.files,
            });
            match Checkpoint::open(&it.folder).and_then(|checkpoint| look(&checkpoint)) {
                Ok(it) => with(object, looked(&it)),
                Err(error) => with(object, json!({"problem": error.to_string()})),
            }
        };
        model.revisions.iter().map(revision).collect()
    };
    let there = |it: &CachedModel| json!({"name": it.repo, "bytes": it.bytes, "unfinished_bytes": it.unfinished, "revisions": revisions(it)});
    let known = |it: &KnownModel| {
        json!({
            "name": it.name,
            "architecture": it.config.family.to_string(),
            "parameters": it.parameters(),
            "file_bytes": it.file_bytes(),
            "memory_bytes": memory(&it.memory()),
            "run_by_us": false,
            "note": it.note,
        })
    };
    json!({
        "embedded": inside,
        "cache": cache,
        "cached": cached.iter().map(there).collect::<Vec<_>>(),
        "known": known_models().iter().map(known).collect::<Vec<_>>(),
    })
}
