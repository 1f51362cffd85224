//! Files that a command writes to a folder again and again, some of them under names that come and go: figures of models that are no longer in the
//! results would stay and look like today's.
//!
//! A list in the folder ([`LIST`]) says what was written there, with checksums. What is on the list, has still the bytes that were written, and
//! is not written again, is removed; everything else in the folder is somebody's and stays. The list knows of a file before the file is there,
//! and old files go last, so whatever ends the program in between, every link of a page that is there leads to a file, and the next run knows
//! what is left over.

use crate::output::{self, Error, Existing, Output};
use cofill_tasks::data::sha256;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// The name of the list.
pub const LIST: &str = ".cofill-files.json";

/// What was written to a folder: names, and the checksums that each may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    cofill_files: u64,
    files: BTreeMap<String, BTreeSet<String>>,
}

/// Writes files below a folder as [`output::write_all`] does, and removes those that an earlier call wrote and this one does not. Where nothing may
/// be replaced, nothing is removed.
pub fn replace_all<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    existing: Existing,
) -> Result<Vec<PathBuf>, Error> {
    for (name, _) in files.clone() {
        output::check(&folder.join(name), existing)?;
    }
    let old = List::read(folder);
    let new = List::of(files.clone());
    std::fs::create_dir_all(folder).map_err(|source| Error::Io { path: folder.into(), source })?;
    let both = old.clone().and(new.clone());
    both.write(folder)?;
    let written = output::write_all(folder, files, existing)?;
    if existing == Existing::Refuse {
        return Ok(written);
    }
    for (name, sums) in old.files.iter().filter(|(name, _)| !new.files.contains_key(*name)) {
        remove(folder, name, sums);
    }
    new.write(folder)?;
    Ok(written)
}

impl List {
    fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> List {
        let file = |(name, bytes): (&str, &[u8])| (name.to_owned(), BTreeSet::from([sha256(bytes)]));
        List { cofill_files: 1, files: files.into_iter().map(file).collect() }
    }

    /// What a folder says; nothing if it has no list, or one that we do not understand.
    fn read(folder: &Path) -> List {
        let list = std::fs::read(folder.join(LIST)).ok().and_then(|bytes| serde_json::from_slice::<List>(&bytes).ok());
        list.filter(|list| list.cofill_files == 1).unwrap_or_default()
    }

    fn and(mut self, other: List) -> List {
        for (name, sums) in other.files {
            self.files.entry(name).or_default().extend(sums);
        }
        List { cofill_files: other.cofill_files, ..self }
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        let mut output = Output::whole(&folder.join(LIST), Existing::Replace)?;
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let text = text.map_err(|error| output.failed(error))?;
        output.write_all(text.as_bytes()).map_err(|error| output.failed(error))?;
        output.publish()
    }
}

/// Removes a file that is as we wrote it. One that cannot be read or removed stays: it is in nobody's way.
fn remove(folder: &Path, name: &str, sums: &BTreeSet<String>) {
    // A list that somebody has written names no file outside of the folder.
    if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
        return;
    }
    let path = folder.join(name);
    let is_file = path.symlink_metadata().is_ok_and(|there| there.is_file());
    if is_file && std::fs::read(&path).is_ok_and(|bytes| sums.contains(&sha256(&bytes))) {
        let _ = std::fs::remove_file(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("cofill-written-{}-{name}", std::process::id()));
            std::fs::remove_dir_all(&path).ok();
            Folder(path)
        }

        fn put(&self, names: &[&str], existing: Existing) -> Result<Vec<PathBuf>, Error> {
            let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, name.as_bytes())).collect();
            replace_all(&self.0, files, existing)
        }

        fn has(&self, name: &str) -> bool {
            self.0.join(name).exists()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn what_is_not_written_again_goes_and_what_is_not_ours_stays() {
        let folder = Folder::new("stale");
        folder.put(&["page", "figures/a.svg", "figures/b.svg", "figures/c.svg"], Existing::Refuse).unwrap();
        std::fs::write(folder.0.join("figures/mine.svg"), "mine").unwrap();
        std::fs::write(folder.0.join("figures/c.svg"), "changed by hand").unwrap();
        folder.put(&["page", "figures/a.svg"], Existing::Replace).unwrap();
        let names = ["page", "figures/a.svg", "figures/b.svg", "figures/c.svg", "figures/mine.svg"];
        assert_eq!(names.map(|name| folder.has(name)), [true, true, false, true, true]);
    }

    #[test]
    fn nothing_goes_where_nothing_may_be_replaced() {
        let folder = Folder::new("refused");
        folder.put(&["page", "old"], Existing::Refuse).unwrap();
        let before = std::fs::read(folder.0.join(LIST)).unwrap();
        assert!(matches!(folder.put(&["page", "new"], Existing::Refuse), Err(Error::Exists { .. })));
        assert_eq!((std::fs::read(folder.0.join(LIST)).unwrap(), folder.has("new")), (before, false));
        // Beside it there is room, and the list keeps both.
        folder.put(&["other"], Existing::Refuse).unwrap();
        folder.put(&["page"], Existing::Replace).unwrap();
        assert_eq!(["page", "old", "other"].map(|name| folder.has(name)), [true, false, false]);
    }

    #[test]
    fn a_run_that_was_killed_leaves_nothing_that_the_next_does_not_know() {
        let folder = Folder::new("killed");
        folder.put(&["page", "figures/old"], Existing::Refuse).unwrap();
        // The list of both, one new figure, and then nothing more: neither the page nor the old figure was touched.
        let new: [(&str, &[u8]); 2] = [("figures/new", b"figures/new"), ("figures/never", b"figures/never")];
        List::read(&folder.0).and(List::of(new)).write(&folder.0).unwrap();
        std::fs::write(folder.0.join("figures/new"), "figures/new").unwrap();
        assert_eq!(["page", "figures/old", "figures/new"].map(|name| folder.has(name)), [true; 3]);
        folder.put(&["page", "figures/newest"], Existing::Replace).unwrap();
        let names = ["page", "figures/newest", "figures/old", "figures/new"];
        assert_eq!(names.map(|name| folder.has(name)), [true, true, false, false]);
    }

    #[test]
    fn a_list_by_somebody_else_reaches_nothing_outside() {
        let folder = Folder::new("outside");
        folder.put(&["inner/page"], Existing::Refuse).unwrap();
        let outside = folder.0.join("treasure");
        std::fs::write(&outside, "gold").unwrap();
        let list = |name: &str| {
            let files = BTreeMap::from([(name.to_owned(), BTreeSet::from([sha256(b"gold")]))]);
            List { cofill_files: 1, files }.write(&folder.0.join("inner")).unwrap();
        };
        for name in ["../treasure", outside.to_str().unwrap(), "./../treasure", ""] {
            list(name);
            replace_all(&folder.0.join("inner"), [("page", &b"x"[..])], Existing::Replace).unwrap();
            assert!(outside.exists(), "{name}");
        }
        std::fs::write(folder.0.join("inner").join(LIST), "no list").unwrap();
        replace_all(&folder.0.join("inner"), [("page", &b"y"[..])], Existing::Replace).unwrap();
        assert!(folder.has("inner/page"));
    }
}
