//! A model, or one revision of it, out of the cache. Only below the model's own folder, and no link is followed.

use crate::cache::{locks_folder, repo_folder, snapshot};
use crate::error::{Error, Result};
use crate::lock;
use crate::name::ModelName;
use crate::scan::{blobs_of, disk_bytes, files, scan_model};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The model's folder.
    pub folder: PathBuf,
    /// The commits that are gone.
    pub commits: Vec<String>,
    /// Bytes that the disk has again.
    pub freed: u64,
    /// Bytes that stay, since other revisions need them.
    pub kept: u64,
}

/// Removes a model from the cache, or only the revision that its name says. Files that another revision shares stay.
pub fn remove(cache: &Path, name: &ModelName) -> Result<Removed> {
    let not_cached = |name: String, remedy: String| Error::NotCached { name, cache: cache.into(), remedy };
    if name.file.is_some() {
        return Err(not_cached(name.to_string(), "name the whole model, without a file".into()));
    }
    let folder = repo_folder(cache, &name.repo);
    // A link in its place may lead anywhere.
    if !folder.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Err(not_cached(name.repo.clone(), "`cofill models list` says what is".into()));
    }
    let locks = locks_folder(cache, &name.repo);
    if let Some(holder) = files(&locks).iter().find_map(|(_, path)| lock::taken(path)) {
        return Err(Error::InUse { name: name.repo.clone(), holder });
    }
    let model = scan_model(name.repo.clone(), folder.clone());
    let all: Vec<String> = model.revisions.iter().map(|revision| revision.commit.clone()).collect();
    let Some(revision) = &name.revision else {
        return remove_all(folder, &locks, all);
    };
    let found = snapshot(&folder, Some(revision)).and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let Some(commit) = found else {
        let has = match all.as_slice() {
            [] => "it has none".to_owned(),
            all => format!("it has {}", all.join(", ")),
        };
        return Err(not_cached(name.to_string(), format!("of its revisions, {has}")));
    };
    if all.iter().all(|other| *other == commit) {
        return remove_all(folder, &locks, all);
    }
    let before = disk_bytes(&folder);
    let (gone, rest): (Vec<_>, Vec<_>) = model.revisions.iter().partition(|revision| revision.commit == commit);
    let needed: BTreeSet<String> = rest.iter().flat_map(|revision| blobs_of(&revision.folder)).collect();
    for revision in gone {
        let blobs = blobs_of(&revision.folder);
        for name in &revision.refs {
            let path = folder.join("refs").join(name);
            std::fs::remove_file(&path).map_err(Error::io(&path))?;
        }
        std::fs::remove_dir_all(&revision.folder).map_err(Error::io(&revision.folder))?;
        for blob in blobs.difference(&needed) {
            let path = folder.join("blobs").join(blob);
            if path.symlink_metadata().is_ok() {
                std::fs::remove_file(&path).map_err(Error::io(&path))?;
            }
        }
    }
    let kept = disk_bytes(&folder);
    Ok(Removed { folder, commits: vec![commit], freed: before.saturating_sub(kept), kept })
}

fn remove_all(folder: PathBuf, locks: &Path, commits: Vec<String>) -> Result<Removed> {
    let freed = disk_bytes(&folder);
    std::fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
    // Empty files; who waits for one notices that it is gone.
    let _ = std::fs::remove_dir_all(locks);
    Ok(Removed { folder, commits, freed, kept: 0 })
}
