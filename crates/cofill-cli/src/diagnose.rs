//! `cofill diagnose`: the premise of ADAS, tested on any model before anybody trusts the sampler.

mod predicates;
mod trajectories;

use crate::fail::{Done, Fail};
use crate::output::ForceArgs;
use anyhow::Context;
use cofill::Cache;
use cofill::Layers;
use cofill_engine::{Engine, RunOptions, provenance};
use cofill_eval::diagnose::folder::{self, Diagnosis, Folder};
use cofill_report::plot::Width;
use cofill_report::statistics::bootstrap::Bootstrap;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Test what ADAS rests on: that attention among masks tells what revealing one does to another.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Intervention(trajectories::InterventionArgs),
    Deferral(trajectories::DeferralArgs),
    Predicates(predicates::Args),
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.what {
        What::Intervention(args) => trajectories::intervention(args),
        What::Deferral(args) => trajectories::deferral(args),
        What::Predicates(args) => predicates::run(args),
    }
}

/// Where answers go, and how sure they are.
#[derive(clap::Args)]
struct OutputArgs {
    /// Resamples of the bootstrap.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    resamples: u32,
    /// Write raw measurements (JSONL), a page (HTML), tables (Markdown, LaTeX) and figures (SVG, PNG, PDF) to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Figures for a paper: one column (3.3 inches) or the whole page (6.9 inches).
    #[arg(long, value_name = "column|page", requires = "out")]
    width: Option<Width>,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    fn bootstrap(&self, seed: u64) -> Bootstrap {
        Bootstrap { resamples: self.resamples as usize, seed }
    }

    /// Begins the raw file, before anything is measured: a folder that cannot be written is not worth an hour.
    fn folder(&self, name: &str, seed: u64, mut what: Map<String, Value>) -> Done<Option<Folder>> {
        let Some(path) = &self.out else { return Ok(None) };
        what.insert("diagnostic".into(), json!(name));
        what.insert("seed".into(), json!(seed));
        what.insert("resamples".into(), json!(self.resamples));
        let folder = Folder::create(path, name, &what, &provenance(crate::COMMIT), self.force.existing());
        folder.map(Some).map_err(refused)
    }

    /// The answer on stdout, the files in their folder.
    fn finish(&self, diagnosis: &Diagnosis, folder: Option<Folder>) -> Done {
        let mut out = std::io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", diagnosis.json)?,
            false => out.write_all(diagnosis.markdown().as_bytes())?,
        }
        if let Some(folder) = folder {
            let files =
                folder.finish(diagnosis, self.width.unwrap_or_default()).map_err(|error| Fail::Run(error.into()))?;
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            let _ = writeln!(anstream::stderr(), "wrote {}", names.join(", "));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn refused(error: folder::Error) -> Fail {
    match error {
        folder::Error::Output(error) => crate::output::refused("--out")(error),
        error => Fail::Run(error.into()),
    }
}

/// Models as tables name them: by the last part of their paths, or by the whole where that names two.
fn short_names(models: &[String]) -> Vec<String> {
    let last = |model: &String| {
        Path::new(model).file_name().map_or_else(|| model.clone(), |name| name.to_string_lossy().into_owned())
    };
    let short: Vec<String> = models.iter().map(last).collect();
    let distinct = |i: usize| short.iter().filter(|name| **name == short[i]).count() == 1;
    (0..models.len()).map(|i| if distinct(i) { short[i].clone() } else { models[i].clone() }).collect()
}

/// A model that is measured, and what its tables call it.
struct Subject {
    name: String,
    engine: Engine,
}

impl Subject {
    /// Opens every model that was named.
    fn open_all(models: &[String], options: &RunOptions, layer: Layers) -> Done<Vec<Subject>> {
        let mut subjects = Vec::with_capacity(models.len());
        for (model, name) in models.iter().zip(short_names(models)) {
            let engine = Engine::of_checkpoint(Engine::checkpoint_at(Path::new(model))?, options)?;
            if let Some(weights) = engine.weights() {
                layer.resolve(weights.config().layers)?;
            }
            subjects.push(Subject { name, engine });
        }
        Ok(subjects)
    }
}

/// Models by name and checksum.
fn fingerprints(models: &[String], subjects: &[Subject]) -> Done<Value> {
    let one = |(model, subject): (&String, &Subject)| -> Done<(String, Value)> {
        Ok((model.clone(), json!(subject.engine.fingerprint()?)))
    };
    Ok(Value::Object(models.iter().zip(subjects).map(one).collect::<Done<_>>()?))
}

/// Refuses options of a run that no diagnostic has: it decodes whole canvases to their end, asks one model, and reads no text.
fn refuse(options: &RunOptions) -> Done<()> {
    let given = [
        ("--block", options.block.is_some()),
        ("--cache", options.cache != Cache::Off),
        ("--max-nfe", options.max_nfe.is_some()),
        ("--stop", !options.stop.is_empty()),
        ("--min-tokens", options.min_tokens.is_some()),
        ("--companion", options.companion.is_some()),
        ("--schema", options.schema.is_some()),
        ("--regex", options.regex.is_some()),
        ("--choice", !options.choice.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Fail::request(format!(
            "{flag} is not for diagnostics, which decode the whole canvas to its end, ask one model and read no text; leave it out"
        ))),
        None => Ok(options.check()?),
    }
}

/// The text of a file that an argument names.
fn read(field: &str, path: &Path) -> Done<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("{field}: cannot read `{}`", path.display()))
        .map_err(Fail::Request)
}

#[cfg(test)]
mod tests {
    use super::short_names;

    #[test]
    fn models_are_told_apart() {
        let names = |models: &[&str]| short_names(&models.iter().map(|&model| model.into()).collect::<Vec<_>>());
        assert_eq!(names(&["a/llada", "b/dream/", "tiny"]), ["llada", "dream", "tiny"]);
        assert_eq!(names(&["a/llada", "b/llada", "dream"]), ["a/llada", "b/llada", "dream"]);
    }
}
