//! The strength of `+paths:auto`: what was chosen for a model, where it is kept, and a sampler with it filled in.
//!
//! A strength is kept in one of two places, and looked for in this order: in the checkpoint itself, as `paths_alpha` in our section of its
//! `generation_config.json` (or the key of a GGUF file); or in the user's cache, in a file named after the checkpoint's fingerprint, so that it
//! can never be another model's. Whoever decodes with `auto` gets the number, and so do records and traces: nothing that was made
//! with it depends on the cache afterwards.

use crate::{Engine, Error, Result};
use cofill::SamplerSpec;
use cofill_model::Checkpoint;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A strength that was chosen, with what it was chosen from. A file of the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Calibrated {
    /// The version of the format.
    pub cofill_calibration: u32,
    /// The model, as it was named.
    pub model: String,
    /// Its fingerprint.
    pub model_sha256: String,
    /// α.
    pub paths_alpha: f64,
    /// The share of pairs it holds back that really flip; none when it holds nobody back.
    pub precision: Option<f64>,
    /// Pairs that were looked at.
    pub pairs: usize,
    /// Forwards that it took.
    pub forwards: usize,
    /// The tasks whose prompts were used.
    pub tasks: Vec<String>,
}

/// The version that this code reads and writes.
const VERSION: u32 = 1;

/// Bytes of a file of the cache: it has a few hundred.
const MOST_BYTES: u64 = 65_536;

impl Calibrated {
    /// A strength for a model; the caller fills in what it was chosen from.
    pub fn new(model: &str, model_sha256: String, paths_alpha: f64) -> Calibrated {
        Calibrated {
            cofill_calibration: VERSION,
            model: model.into(),
            model_sha256,
            paths_alpha,
            precision: None,
            pairs: 0,
            forwards: 0,
            tasks: Vec::new(),
        }
    }

    /// What the cache has of a checkpoint; nothing if it was never calibrated here.
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Calibrated>> {
        let sha256 = checkpoint.fingerprint()?;
        let Some(path) = cache_file(&sha256) else { return Ok(None) };
        let bad = |problem: String| Error::BadCalibration { path: path.clone(), problem };
        let size = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(bad(format!("cannot be read: {error}"))),
            Ok(about) if !about.is_file() => return Err(bad("is no regular file".into())),
            Ok(about) => about.len(),
        };
        if size > MOST_BYTES {
            return Err(bad(format!("has {size} bytes, and {MOST_BYTES} at most are read")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| bad(format!("cannot be read: {error}")))?;
        let it: Calibrated = serde_json::from_str(&text).map_err(|error| bad(format!("cannot be used: {error}")))?;
        if it.cofill_calibration != VERSION || it.model_sha256 != sha256 {
            return Err(bad("is of another version or another model".into()));
        }
        if !(it.paths_alpha.is_finite() && it.paths_alpha >= 0.0) {
            return Err(bad(format!("has the strength {}, which is not 0 or more", it.paths_alpha)));
        }
        Ok(Some(it))
    }
}

/// Where the cache keeps what was chosen for a checkpoint of this fingerprint; `None` where no home folder is known.
pub fn cache_file(sha256: &str) -> Option<PathBuf> {
    Some(cache_folder()?.join("calibration").join(format!("{sha256}.json")))
}

/// Where benchmark files are kept that somebody fetched without saying where to; `None` where no home folder is known.
pub fn data_folder() -> Option<PathBuf> {
    Some(cache_folder()?.join("data"))
}

/// `COFILL_CACHE`, or `cofill` in the system's folder for caches.
fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("COFILL_CACHE").or_else(|| {
        let home = || folder("HOME");
        let caches = match std::env::consts::OS {
            "windows" => folder("LOCALAPPDATA"),
            "macos" => home().map(|home| home.join("Library/Caches")),
            _ => folder("XDG_CACHE_HOME").or_else(|| home().map(|home| home.join(".cache"))),
        };
        caches.map(|caches| caches.join("cofill"))
    })
}

/// Whether its strength is still to be chosen.
pub(crate) fn is_open(sampler: &SamplerSpec) -> bool {
    sampler.discount().is_some_and(|discount| discount.auto)
}

/// The sampler with its strength, where that was left to the model. Nothing is looked up for a sampler that has one.
pub fn settle(sampler: &SamplerSpec, checkpoint: &Checkpoint) -> Result<SamplerSpec> {
    let Some(discount) = sampler.discount().filter(|discount| discount.auto) else { return Ok(sampler.clone()) };
    let own = checkpoint.generation_defaults()?.paths_alpha;
    let alpha = match own {
        Some(alpha) => Some(alpha),
        None => Calibrated::of(checkpoint)?.map(|calibrated| calibrated.paths_alpha),
    };
    let name = || checkpoint.path().display().to_string();
    let alpha = alpha.ok_or_else(|| Error::NotCalibrated { name: name() })?;
    Ok(sampler.with_discount(Some(discount.with_alpha(alpha)))?)
}

/// The same for a model by its name; the toy and whatever else has no weights cannot be calibrated.
pub(crate) fn settle_by_name(sampler: &SamplerSpec, place: &Path) -> Result<SamplerSpec> {
    match Engine::checkpoint_at(place) {
        Err(Error::NotACheckpoint { name }) => Err(Error::NotCalibrated { name }),
        checkpoint => settle(sampler, &checkpoint?),
    }
}
