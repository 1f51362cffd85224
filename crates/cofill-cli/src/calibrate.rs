//! `cofill calibrate`: how strong `+paths` should be for a model.

use crate::fail::{Done, Fail};
use crate::output::{failed, refused};
use crate::progress::Progress;
use cofill_engine::{Calibrated, DEFAULT_MODEL, Engine, MODEL_NAMES, RunOptions, cache_file};
use cofill_eval::diagnose::calibrate::{Calibration, K, PRECISION, Strength, of_task};
use cofill_eval::spec::{EvalSpec, TaskOptions};
use cofill_report::output::{Existing, Output};
use cofill_tasks::TaskName;
use cofill_tasks::mini::{Mini, Split};
use serde_json::json;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Choose the strength of `+paths:auto` for a model, by a few hundred forwards.
///
/// `+paths` keeps a position out of a step when the chosen ones have taken more than its confidence. That was right if the position
/// changes its mind once they are written. Along plain Top-8 decodes, what Top-8 would commit is revealed one at a time in copies, and
/// the others are looked at: for every strength, the share of pairs it would keep apart that really flip is its precision. The
/// strongest whose precision is at least one half, as surely as so few pairs can tell, is taken.
///
/// The strength is kept in the user's cache (COFILL_CACHE, or cofill in the system's folder for caches), in a file named after the
/// checkpoint's fingerprint; with --beside in the checkpoint's generation_config.json instead. Only `+paths:auto` uses it: `+paths` is
/// always 100.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model.
    #[arg(short, long, default_value = DEFAULT_MODEL, help = format!("The model: {MODEL_NAMES}"))]
    model: String,
    /// Tasks whose prompts are used, separated by commas (default: all mini tasks, for a model that knows them).
    #[arg(long = "task", value_name = "TASKS", value_delimiter = ',')]
    tasks: Vec<TaskName>,
    /// Prompts of each task.
    #[arg(long, value_name = "N", default_value = "8")]
    limit: NonZeroUsize,
    /// Which prompts of the mini tasks, of their validation split.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    corpus_seed: u64,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Keep the strength in the checkpoint's own folder, in our section of its generation_config.json.
    #[arg(long)]
    beside: bool,
    /// Keep nothing; only say what would be chosen.
    #[arg(long, conflicts_with = "beside")]
    dry_run: bool,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let checkpoint = Engine::checkpoint_at(Path::new(&args.model))?;
    if args.beside && !Path::new(&args.model).is_dir() {
        return Err(Fail::request(format!(
            "--beside: `{}` is no folder of a checkpoint; leave it out, and the strength goes to the cache",
            args.model
        )));
    }
    let mut engine = Engine::of_checkpoint(checkpoint, &RunOptions::default())?;
    let tasks = match args.tasks.as_slice() {
        [] if engine.knows_mini_tasks() => Mini::ALL.map(TaskName::Mini).to_vec(),
        [] => return Err(Fail::request("--task is missing: name tasks that the model knows, such as --task gsm8k")),
        tasks => tasks.to_vec(),
    };
    let progress = Progress::measuring(tasks.len() * args.limit.get(), format!("prompts {}", args.model));
    let (mut pairs, mut forwards) = (Vec::new(), 0);
    for task in &tasks {
        let mut spec = EvalSpec::new(task.clone(), &args.model, format!("topk:{K}").parse()?);
        // Other prompts than those that are scored.
        spec.questions = TaskOptions {
            split: Some(Split::Validation),
            limit: Some(args.limit),
            corpus_seed: args.corpus_seed,
            ..TaskOptions::default()
        };
        spec.data = args.data.clone();
        let (some, took) = of_task(&mut engine, &spec, args.limit.get(), &mut || progress.measured())?;
        pairs.extend(some);
        forwards += took;
    }
    drop(progress);
    let chosen = Calibration::of(&pairs);
    let strength = chosen.strengths.iter().find(|strength| strength.alpha == chosen.alpha);
    let mut kept = Calibrated::new(&args.model, engine.fingerprint()?, chosen.alpha);
    kept.precision = strength.and_then(Strength::precision);
    (kept.pairs, kept.forwards) = (chosen.pairs, forwards);
    kept.tasks = tasks.iter().map(|task| task.name().to_owned()).collect();
    let place = if args.dry_run { None } else { Some(keep(args, &kept)?) };
    let mut out = std::io::stdout().lock();
    if args.json {
        let strengths: Vec<_> = chosen.strengths.iter().map(row).collect();
        let answer = json!({
            "model": kept.model, "model_sha256": kept.model_sha256, "paths_alpha": kept.paths_alpha, "precision": kept.precision,
            "pairs": chosen.pairs, "flips": chosen.flips, "forwards": forwards, "tasks": kept.tasks, "strengths": strengths,
            "kept": place,
        });
        writeln!(out, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "alpha {}: `+paths:auto` is `+paths:{}` for {}", chosen.alpha, chosen.alpha, args.model)?;
    writeln!(out, "{} pairs, {} flip; {forwards} forwards", chosen.pairs, chosen.flips)?;
    writeln!(out, "{:>8} {:>8} {:>8} {:>10} {:>10}", "alpha", "held", "flip", "precision", "recall")?;
    let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{share:.2}"));
    for s in &chosen.strengths {
        let mark = if s.alpha == chosen.alpha { "  <- chosen" } else { "" };
        let (precision, recall) = (share(s.precision()), share(s.recall()));
        writeln!(out, "{:>8} {:>8} {:>8} {precision:>10} {recall:>10}{mark}", s.alpha, s.held, s.right)?;
    }
    writeln!(
        out,
        "(chosen: the strongest whose precision is {PRECISION} or more at the lower end of its 95 % interval)"
    )?;
    if let Some(place) = place {
        let _ = writeln!(anstream::stderr(), "kept in {}", place.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn row(strength: &Strength) -> serde_json::Value {
    let Strength { alpha, held, right, missed, .. } = strength;
    json!({"alpha": alpha, "held": held, "right": right, "missed": missed, "precision": strength.precision(), "recall": strength.recall()})
}

/// Keeps a strength where it will be found, and says where that is. An older one is replaced: it is of the same model.
fn keep(args: &Args, kept: &Calibrated) -> Done<PathBuf> {
    let (path, text) = match args.beside {
        true => beside(Path::new(&args.model), kept.paths_alpha)?,
        false => {
            let nowhere = || Fail::request("no folder for caches is known here; set COFILL_CACHE, or give --beside");
            (cache_file(&kept.model_sha256).ok_or_else(nowhere)?, serde_json::to_string_pretty(kept)?)
        }
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Fail::request(format!("cannot make `{}`: {error}; set COFILL_CACHE", folder.display())))?;
    }
    let mut file = Output::whole(&path, Existing::Replace).map_err(refused("the calibration"))?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.publish().map_err(failed("the calibration"))?;
    Ok(path)
}

/// The checkpoint's `generation_config.json` with the strength in our section, all else as it was.
fn beside(folder: &Path, alpha: f64) -> Done<(PathBuf, String)> {
    let path = folder.join("generation_config.json");
    let bad = |problem: String| Fail::request(format!("`{}` {problem}", path.display()));
    let mut config: serde_json::Map<String, serde_json::Value> = match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| bad(format!("is no JSON object: {error}")))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => serde_json::Map::new(),
        Err(error) => return Err(bad(format!("cannot be read: {error}"))),
    };
    let section = config.entry("cofill").or_insert_with(|| json!({}));
    let section = section.as_object_mut().ok_or_else(|| bad("has a `cofill` that is no object".into()))?;
    section.insert("paths_alpha".into(), json!(alpha));
    Ok((path, serde_json::to_string_pretty(&config)?))
}
