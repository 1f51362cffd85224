//! Directories to run programs in, which are removed when they are dropped, whatever was put into them.

use super::Limits;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A directory made for one sandbox or one run.
#[derive(Debug)]
pub(super) struct Workdir {
    path: PathBuf,
    /// Locked as long as this process lives, so that others can tell the directory from what a killed process left.
    _alive: Option<fs::File>,
}

/// Directories that exist now, for [`remove_all`].
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who may enter a directory besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nobody but its owner.
    Private,
    /// Everybody may pass through and read what they can name; an unprivileged identity has to reach its directory.
    Passable,
}

impl Workdir {
    /// A new directory; its name holds our process id and a random number.
    pub(super) fn new(parent: &Path, prefix: &str, access: Access) -> io::Result<Workdir> {
        let name = format!("{prefix}-{}-{:016x}", std::process::id(), RandomState::new().hash_one(0));
        // Without links on the way: Landlock and mounts want the real place.
        let path = parent.canonicalize()?.join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, if access == Access::Private { 0o700 } else { 0o711 });
        #[cfg(not(unix))]
        let _ = access;
        live().push(path.clone());
        builder.create(&path)?;
        if super::is_ending() {
            // The thread that removes all directories may have passed this one before it was created.
            let _ = fs::remove_dir(&path);
            super::wait_if_ending();
        }
        let alive = fs::File::open(&path).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(Workdir { path, _alive: alive })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its files, and those in `held` (deleted but still open), take more than the limits allow. What cannot be
    /// counted is too much: paths too long to follow, directories closed to their owner, and files that are moved all the time.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn exceeds(&self, limits: &Limits, held: Usage) -> bool {
        // Ordinary programs delete files as well, but hardly during each of so many counts.
        const LOOKS: usize = 16;
        (0..LOOKS).find_map(|_| self.look(limits, held)).unwrap_or(true)
    }

    /// One count. `None` if something was deleted before it was counted.
    fn look(&self, limits: &Limits, held: Usage) -> Option<bool> {
        let mut usage = held;
        let mut open = vec![self.path.clone()];
        let mut missed = false;
        while let Some(folder) = open.pop() {
            let list = match fs::read_dir(&folder) {
                Ok(list) => list,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missed = true;
                    continue;
                }
                Err(_) => return Some(true),
            };
            for entry in list.flatten() {
                let Ok(about) = entry.metadata() else {
                    missed = true;
                    continue;
                };
                usage.add(size(&about));
                if about.is_dir() {
                    open.push(entry.path());
                }
            }
            if usage.exceeds(limits) {
                return Some(true);
            }
        }
        (!missed).then(|| usage.exceeds(limits))
    }
}

/// Space that files take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    bytes: u64,
    entries: u64,
}

impl Usage {
    /// Counts one more file of this size.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries += 1;
    }

    fn exceeds(self, limits: &Limits) -> bool {
        self.bytes > limits.disk || self.entries > limits.entries
    }
}

/// The bytes that a file takes on the disk.
#[cfg(unix)]
pub(super) fn size(about: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(about) * 512
}

#[cfg(not(unix))]
pub(super) fn size(about: &fs::Metadata) -> u64 {
    about.len()
}

impl Drop for Workdir {
    fn drop(&mut self) {
        // A destructor has nobody to report a failure to. What is left lies in the system's temporary directory under our name,
        // and the next sandbox removes it.
        let _ = remove(&self.path);
        live().retain(|path| *path != self.path);
    }
}

/// Removes every directory of this process, which is about to be ended.
pub(super) fn remove_all() {
    // Programs that were just killed may still be closing their files.
    const TRIES: usize = 50;
    for _ in 0..TRIES {
        // Those inside others first.
        let left: Vec<PathBuf> = live().iter().rev().filter(|path| path.exists()).cloned().collect();
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|path| drop(remove(path)));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Removes directories of this user's processes that were killed before they could remove them. A process that lives holds
/// a lock on its directories; one that has just made a directory may not have locked it yet.
pub(super) fn remove_stale(parent: &Path, prefix: &str) {
    const YOUNG: Duration = Duration::from_secs(60);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        let Ok(about) = entry.metadata() else { continue };
        let is_young = about.modified().ok().and_then(|at| at.elapsed().ok()).is_none_or(|age| age < YOUNG);
        if !is_named || !about.is_dir() || !is_ours(&about) || is_young {
            continue;
        }
        if fs::File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
            let _ = remove(&entry.path());
        }
    }
}

#[cfg(unix)]
fn is_ours(about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == about.uid())
}

#[cfg(not(unix))]
fn is_ours(_: &fs::Metadata) -> bool {
    false
}

/// Removes a directory of any depth. `fs::remove_dir_all` holds a descriptor per level, and a hostile program makes
/// more levels than there are descriptors or than a path can name. So inner directories are moved to the top until
/// all is flat, and opened to their owner if they were closed.
fn remove(top: &Path) -> io::Result<()> {
    // A program cannot guess these names, so none of them exists yet.
    let secret = RandomState::new().hash_one(0);
    let mut moved = 0_u64;
    loop {
        let mut empty = true;
        for entry in fs::read_dir(top)? {
            empty = false;
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            open_to_owner(&entry.path());
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.file_type()?.is_dir() {
                    // A directory can only be moved by those who may write to it: its `..` changes.
                    open_to_owner(&inner.path());
                    moved += 1;
                    fs::rename(inner.path(), top.join(format!(".cofill-moved-{secret:016x}-{moved}")))?;
                } else {
                    fs::remove_file(inner.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if empty {
            return fs::remove_dir(top);
        }
    }
}

fn open_to_owner(folder: &Path) {
    #[cfg(unix)]
    let _ = fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    #[cfg(not(unix))]
    let _ = folder;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workdir() -> Workdir {
        Workdir::new(&std::env::temp_dir(), "cofill-workdir", Access::Private).unwrap()
    }

    #[test]
    fn a_tree_too_deep_to_name_is_removed() {
        let top = workdir();
        // Built from the inside out, since no path reaches the bottom: 40 levels of 200 bytes are 8 kB, twice what a
        // path holds.
        let name = "x".repeat(200);
        let inner = top.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        for level in 0..40 {
            let outer = top.path().join(format!("outer{level}"));
            fs::create_dir(&outer).unwrap();
            fs::rename(&inner, outer.join(&name)).unwrap();
            fs::rename(&outer, &inner).unwrap();
        }
        assert!(top.exceeds(&Limits::default(), Usage::default()), "deeper than a path");
        // Names that were ours once are in nobody's way.
        fs::create_dir_all(top.path().join(".cofill-moved-1/.cofill-moved-1/x")).unwrap();
        let path = top.path().to_path_buf();
        drop(top);
        assert!(!path.exists());
    }

    #[test]
    fn closed_directories_and_links_are_removed_and_links_are_not_followed() {
        let outside = workdir();
        fs::write(outside.path().join("keep"), "x").unwrap();
        let top = workdir();
        let closed = top.path().join("closed");
        fs::create_dir_all(closed.join("closed")).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::os::unix::fs::symlink(outside.path(), top.path().join("link")).unwrap();
            std::os::unix::fs::symlink(outside.path(), closed.join("link")).unwrap();
            fs::set_permissions(closed.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        }
        let path = top.path().to_path_buf();
        drop(top);
        assert!(!path.exists() && outside.path().join("keep").exists());
    }

    #[test]
    fn what_the_dead_left_is_removed_and_what_the_living_use_is_not() {
        let parent = workdir();
        let make = |name: &str, seconds: u64| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("inside")).unwrap();
            let folder = fs::File::open(&path).unwrap();
            folder.set_modified(std::time::SystemTime::now() - Duration::from_secs(seconds)).unwrap();
            (path, folder)
        };
        let (dead, _) = make("cofill-sandbox-1", 3600);
        let (young, _) = make("cofill-sandbox-2", 1);
        let (living, lock) = make("cofill-sandbox-3", 3600);
        let (other, _) = make("sandbox-4", 3600);
        lock.lock().unwrap();
        remove_stale(parent.path(), "cofill-sandbox-");
        assert_eq!([&dead, &young, &living, &other].map(|path| path.exists()), [false, true, true, true]);
    }

    #[test]
    fn bytes_and_entries_are_counted() {
        let top = workdir();
        fs::write(top.path().join("a"), vec![1; 100_000]).unwrap();
        let limits = Limits::default();
        let exceeds = |limits: Limits, held: u64| {
            let mut usage = Usage::default();
            usage.add(held);
            top.exceeds(&limits, usage)
        };
        assert!(!exceeds(limits, 0));
        assert!(exceeds(Limits { disk: 50_000, ..limits }, 0));
        assert!(exceeds(Limits { entries: 1, ..limits }, 0));
        // What is held counts with what lies there.
        assert!(!exceeds(limits, limits.disk / 2) && exceeds(limits, limits.disk));
    }
}
