//! Which files of a repository are needed: what our models read, and nothing else.

use crate::error::{Error, Result};
use crate::listing::Listing;
use crate::name::{ModelName, check_path};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files beside the weights. Repositories have some of them.
const BESIDE: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "pair_head.safetensors",
];

const SINGLE: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// The most that an index may have, as when it is opened.
pub(crate) const MOST_INDEX_BYTES: u64 = 16 << 20;

/// The names of GGUF files that a message lists.
const MOST_NAMES: usize = 30;

/// The paths that are needed, but for the shards, which only the index knows.
pub(crate) struct Needed {
    pub(crate) paths: Vec<String>,
    /// Whether the index has to be asked for the shards.
    pub(crate) sharded: bool,
}

/// What is needed of a repository.
pub(crate) fn needed(listing: &Listing, name: &ModelName) -> Result<Needed> {
    let has = |path: &str| listing.find(path).is_some();
    let repo = || name.repo.clone();
    let ggufs = || -> Vec<String> {
        let named = listing.files.iter().filter(|file| file.path.ends_with(".gguf") && check_path(&file.path).is_ok());
        let mut named: Vec<String> = named.map(|file| format!("hf:{}/{}", name.repo, file.path)).collect();
        named.truncate(MOST_NAMES);
        named
    };
    if let Some(file) = &name.file {
        return match has(file) {
            true => Ok(Needed { paths: vec![file.clone()], sharded: false }),
            false => Err(Error::NotFound {
                host: format!("`{}`", name.repo),
                what: format!("file `{file}` in its revision {}", name.wanted_revision()),
                remedy: match ggufs() {
                    files if files.is_empty() => "it has no GGUF file at all".into(),
                    files => format!("it has {}", files.join(", ")),
                },
            }),
        };
    }
    let sharded = has(INDEX);
    if !sharded && !has(SINGLE) {
        let files = ggufs();
        if !files.is_empty() {
            return Err(Error::WhichGguf { repo: repo(), files });
        }
        let mut found: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        found.retain(|path| check_path(path).is_ok());
        found.truncate(MOST_NAMES);
        let found = if found.is_empty() { "it is empty".into() } else { format!("it has {}", found.join(", ")) };
        return Err(Error::NoWeights { repo: repo(), found });
    }
    if !has("config.json") {
        return Err(Error::NotFound {
            host: format!("`{}`", name.repo),
            what: "file `config.json`".into(),
            remedy: "it is no checkpoint that can be opened".into(),
        });
    }
    let mut paths: Vec<String> = BESIDE.into_iter().filter(|path| has(path)).map(str::to_owned).collect();
    paths.push(if sharded { INDEX.into() } else { SINGLE.into() });
    Ok(Needed { paths, sharded })
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The shards that an index names, each once.
pub(crate) fn shards(index: &[u8], repo: &str) -> Result<Vec<String>> {
    let index: Index = serde_json::from_slice(index).map_err(|error| Error::BadAnswer {
        url: format!("`{INDEX}` of `{repo}`"),
        problem: format!("no index of tensors: {error}"),
    })?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    for path in &shards {
        let wrong = match check_path(path) {
            Err(why) => Some(why),
            Ok(()) if !path.ends_with(".safetensors") => Some("is no .safetensors file"),
            Ok(()) => None,
        };
        if let Some(why) = wrong {
            return Err(Error::BadPath { repo: repo.into(), path: path.clone(), why });
        }
    }
    Ok(shards.into_iter().collect())
}

/// What a folder lacks to be a whole checkpoint; empty if it is one.
pub(crate) fn lacking(folder: &Path) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut want = |path: &str| {
        if !folder.join(path).is_file() {
            lacking.push(path.to_owned());
        }
    };
    want("config.json");
    let index = folder.join(INDEX);
    match std::fs::metadata(&index) {
        Ok(about) if about.is_file() && about.len() <= MOST_INDEX_BYTES => {
            // An index that cannot be read is for whoever opens the model to explain.
            let shards = std::fs::read(&index).ok().and_then(|bytes| shards(&bytes, "").ok()).unwrap_or_default();
            shards.iter().for_each(|shard| want(shard));
        }
        _ => want(SINGLE),
    }
    lacking
}
