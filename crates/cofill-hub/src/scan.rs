//! What the cache holds.

use crate::cache::repo_of;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// `org/name`.
    pub repo: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its revisions, by commit.
    pub revisions: Vec<CachedRevision>,
    /// Bytes that it takes on the disk, each blob once, unfinished downloads included.
    pub bytes: u64,
    /// Bytes of downloads that were not finished.
    pub unfinished: u64,
}

/// A revision in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedRevision {
    /// The commit.
    pub commit: String,
    /// Branches and tags that were this commit when somebody asked.
    pub refs: Vec<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes of its files. Revisions may share them.
    pub bytes: u64,
    /// Its files, as paths in it.
    pub files: Vec<String>,
}

/// Every model in a cache, by name. A cache that does not exist holds none.
pub fn scan(cache: &Path) -> Vec<CachedModel> {
    let mut models: Vec<CachedModel> =
        folders(cache).into_iter().filter_map(|(name, folder)| Some(scan_model(repo_of(&name)?, folder))).collect();
    models.retain(|model| !model.revisions.is_empty() || model.bytes > 0);
    models.sort_by(|a, b| a.repo.cmp(&b.repo));
    models
}

pub(crate) fn scan_model(repo: String, folder: PathBuf) -> CachedModel {
    let mut refs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, path) in files(&folder.join("refs")) {
        if let Ok(commit) = std::fs::read_to_string(path) {
            refs.entry(commit.trim().to_owned()).or_default().push(name);
        }
    }
    let mut revisions: Vec<CachedRevision> = folders(&folder.join("snapshots"))
        .into_iter()
        .map(|(commit, folder)| {
            let files = files(&folder);
            let bytes = files.iter().filter_map(|(_, path)| path.metadata().ok()).map(|found| found.len()).sum();
            let refs = refs.remove(&commit).unwrap_or_default();
            CachedRevision { commit, refs, folder, bytes, files: files.into_iter().map(|(name, _)| name).collect() }
        })
        .collect();
    revisions.sort_by(|a, b| a.commit.cmp(&b.commit));
    let unfinished = files(&folder.join("blobs"))
        .iter()
        .filter(|(name, _)| name.ends_with(".incomplete"))
        .filter_map(|(_, path)| path.symlink_metadata().ok())
        .map(|found| found.len())
        .sum();
    let bytes = disk_bytes(&folder);
    CachedModel { repo, folder, revisions, bytes, unfinished }
}

/// Bytes of the regular files below a folder; links count nothing, and nobody follows them.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    let regular = |(_, path): &(String, PathBuf)| {
        let found = path.symlink_metadata().ok()?;
        found.is_file().then_some(found.len())
    };
    files(folder).iter().filter_map(regular).sum()
}

/// The blobs that a snapshot's links lead to, by their names.
pub(crate) fn blobs_of(snapshot: &Path) -> BTreeSet<String> {
    let target = |(_, path): &(String, PathBuf)| {
        let target = std::fs::read_link(path).ok()?;
        let mut parts = target.components().rev().map(|part| part.as_os_str().to_str());
        let (name, folder) = (parts.next()??, parts.next()??);
        (folder == "blobs").then(|| name.to_owned())
    };
    files(snapshot).iter().filter_map(target).collect()
}

/// The folders in a folder, by name; links are none.
fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// What is below a folder and no folder itself, by its path in it, with `/`. Links are listed and not followed.
pub(crate) fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_owned())];
    while let Some((prefix, folder)) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{prefix}{name}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push((format!("{name}/"), entry.path())),
                _ => found.push((name, entry.path())),
            }
        }
    }
    found.sort();
    found
}
