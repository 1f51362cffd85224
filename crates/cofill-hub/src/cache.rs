//! The layout of the cache that the hub's tools share: `models--org--name/{blobs,refs,snapshots}`.
//!
//! A blob is called by its etag; a snapshot is a commit, with a link to a blob for each file; a ref says which commit a branch or a tag is.

use crate::error::{Error, Result};
use crate::name::{MAIN, ModelName};
use crate::needed::lacking;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the cache holds of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Everything: the folder, or the GGUF file that was named.
    Whole(PathBuf),
    /// Some of it: the folder, and files that are not there.
    Partly(PathBuf, Vec<String>),
    /// Nothing.
    Nothing,
}

/// Looks for a model in the cache; no network is asked. Without a revision, `main` is meant, or else the only revision that is there.
pub fn find(cache: &Path, name: &ModelName) -> Found {
    let Some(snapshot) = snapshot(&repo_folder(cache, &name.repo), name.revision.as_deref()) else {
        return Found::Nothing;
    };
    match &name.file {
        Some(file) if snapshot.join(file).is_file() => Found::Whole(snapshot.join(file)),
        Some(file) => Found::Partly(snapshot, vec![file.clone()]),
        None => match lacking(&snapshot) {
            lacking if lacking.is_empty() => Found::Whole(snapshot),
            lacking => Found::Partly(snapshot, lacking),
        },
    }
}

/// The folder of a model.
pub fn repo_folder(cache: &Path, repo: &str) -> PathBuf {
    cache.join(folder_name(repo))
}

fn folder_name(repo: &str) -> String {
    format!("models--{}", repo.replace('/', "--"))
}

/// The model of a folder.
pub(crate) fn repo_of(folder_name: &str) -> Option<String> {
    Some(folder_name.strip_prefix("models--")?.replace("--", "/"))
}

/// Where the locks of a model are.
pub(crate) fn locks_folder(cache: &Path, repo: &str) -> PathBuf {
    cache.join(".locks").join(folder_name(repo))
}

/// The commit that a ref names.
pub(crate) fn read_ref(folder: &Path, revision: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("refs").join(revision)).ok()?;
    let commit = text.trim();
    is_hex(commit).then(|| commit.to_owned())
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The folder of a revision: a ref, a commit, or the beginning of one.
pub(crate) fn snapshot(folder: &Path, revision: Option<&str>) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    let by_ref = read_ref(folder, revision.unwrap_or(MAIN)).map(|commit| snapshots.join(commit));
    if let Some(found) = by_ref.filter(|found| found.is_dir()) {
        return Some(found);
    }
    let all = std::fs::read_dir(&snapshots).ok()?.flatten().map(|entry| entry.path());
    let matches = |path: &PathBuf| match (revision, path.file_name().and_then(|name| name.to_str())) {
        (None, _) => true,
        (Some(revision), Some(commit)) => revision.len() >= 7 && is_hex(revision) && commit.starts_with(revision),
        _ => false,
    };
    let mut folders = all.filter(|path| path.is_dir() && matches(path));
    folders.next().filter(|_| folders.next().is_none())
}

/// Puts a file of a snapshot in its place: a link to its blob, or where there are no links the blob itself.
pub(crate) fn place(folder: &Path, commit: &str, path: &str, etag: &str, symlinks: bool) -> Result<()> {
    let pointer = folder.join("snapshots").join(commit).join(path);
    let parent = pointer.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    let blob = folder.join("blobs").join(etag);
    // Relative, so that the cache can be moved: up from the file to the model's folder.
    let up = "../".repeat(path.split('/').count() + 1);
    let target = PathBuf::from(format!("{up}blobs/{etag}"));
    if std::fs::read_link(&pointer).is_ok_and(|there| there == target) {
        return Ok(());
    }
    // Beside it and then in its place at once, so that no reader sees half of it.
    let beside = parent.join(format!(".{etag}.{}", own()));
    let _ = std::fs::remove_file(&beside);
    let linked = if symlinks { link(&target, &beside) } else { Err(std::io::ErrorKind::Unsupported.into()) };
    if linked.is_err() {
        // As other tools do it: the file itself, and no blob.
        std::fs::rename(&blob, &beside)
            .or_else(|_| std::fs::copy(&blob, &beside).map(drop))
            .map_err(Error::io(&blob))?;
    }
    std::fs::rename(&beside, &pointer).map_err(Error::io(&pointer))
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(windows)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    // Not everybody may make links there.
    std::os::windows::fs::symlink_file(target, at)
}

#[cfg(not(any(unix, windows)))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Part of a name that nobody else has, not even another thread that puts the same file in its place.
fn own() -> String {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// Says which commit a revision is. Nothing for a commit by itself.
pub(crate) fn write_ref(folder: &Path, revision: &str, commit: &str) -> Result<()> {
    if revision == commit || read_ref(folder, revision).as_deref() == Some(commit) {
        return Ok(());
    }
    let path = folder.join("refs").join(revision);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.tmp", own()));
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, commit).map_err(Error::io(&beside))?;
    std::fs::rename(&beside, &path).map_err(Error::io(&path))
}

/// Marks the cache as one, for backups to leave out, as other tools do.
pub(crate) fn tag(cache: &Path) {
    let path = cache.join("CACHEDIR.TAG");
    if !path.exists() {
        // The first line is the standard's (https://bford.info/cachedir/). A cache without it works as well.
        let _ = std::fs::write(
            path,
            "Signature: 8a477f597d28d172789f06886806bc55\n# This is a cache of the Hugging Face hub.\n",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cofill-hub-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_model_is_found_as_hugging_face_keeps_it() {
        let cache = scratch("find");
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let model = cache.join("models--org--tiny-1.5");
        for commit in [&a, &b] {
            let snapshot = model.join("snapshots").join(commit);
            fs::create_dir_all(&snapshot).unwrap();
            fs::write(snapshot.join("config.json"), "{}").unwrap();
            fs::write(snapshot.join("model.safetensors"), "").unwrap();
        }
        let find = |text: &str| find(&cache, &ModelName::parse(text).unwrap());
        let whole = |commit: &str| Found::Whole(model.join("snapshots").join(commit));
        assert_eq!(find("org/tiny-1.5"), Found::Nothing, "two revisions, and nothing says which");
        fs::create_dir_all(model.join("refs/refs/pr")).unwrap();
        fs::write(model.join("refs/main"), format!("{b}\n")).unwrap();
        fs::write(model.join("refs/refs/pr/1"), &a).unwrap();
        assert_eq!(find("org/tiny-1.5"), whole(&b));
        assert_eq!(find("org/tiny-1.5@refs/pr/1"), whole(&a));
        assert_eq!(find(&format!("org/tiny-1.5@{a}")), whole(&a));
        assert_eq!(find("org/tiny-1.5@aaaaaaa"), whole(&a), "the beginning of a commit");
        assert_eq!(find("org/tiny-1.5@aaa"), Found::Nothing, "too little of one");
        assert_eq!(find("org/tiny-1.5@v2"), Found::Nothing);
        fs::remove_dir_all(model.join("snapshots").join(&b)).unwrap();
        assert_eq!(find("org/tiny-1.5"), whole(&a), "the only one");
        assert_eq!(find("org/other"), Found::Nothing);
        fs::remove_file(model.join("snapshots").join(&a).join("model.safetensors")).unwrap();
        let partly = Found::Partly(model.join("snapshots").join(&a), vec!["model.safetensors".into()]);
        assert_eq!(find("org/tiny-1.5"), partly, "other tools may have fetched a part");
        fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn a_ref_that_is_no_commit_leads_nowhere() {
        let cache = scratch("ref");
        let model = cache.join("models--org--m");
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::create_dir_all(model.join("snapshots")).unwrap();
        fs::write(model.join("refs/main"), "../../..").unwrap();
        assert_eq!(find(&cache, &ModelName::parse("org/m").unwrap()), Found::Nothing);
        fs::remove_dir_all(&cache).unwrap();
    }
}
