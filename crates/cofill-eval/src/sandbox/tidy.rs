//! Directories that are gone when they are dropped, whatever was put into them.

use super::Limits;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// A directory of our own.
#[derive(Debug)]
pub(super) struct Workdir {
    path: PathBuf,
}

/// Who may enter a directory besides its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nobody.
    Private,
    /// Everybody may pass through and read what they can name; an unprivileged identity has to reach its directory.
    Passable,
}

impl Workdir {
    /// A new directory, with our process in its name and the rest of it beyond guessing.
    pub(super) fn new(parent: &Path, prefix: &str, access: Access) -> io::Result<Workdir> {
        let name = format!("{prefix}-{}-{:016x}", std::process::id(), RandomState::new().hash_one(0));
        // Without links on the way: Landlock and mounts want the real place.
        let path = parent.canonicalize()?.join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, if access == Access::Private { 0o700 } else { 0o711 });
        #[cfg(not(unix))]
        let _ = access;
        builder.create(&path)?;
        Ok(Workdir { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether more lies in it than the limits say. Names too long to follow are more than that.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn exceeds(&self, limits: &Limits) -> bool {
        let (mut bytes, mut entries) = (0, 0);
        let mut open = vec![self.path.clone()];
        while let Some(folder) = open.pop() {
            let list = match fs::read_dir(&folder) {
                Ok(list) => list,
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => return true,
                Err(_) => continue,
            };
            for entry in list.flatten() {
                let Ok(about) = entry.metadata() else { continue };
                entries += 1;
                bytes += size(&about);
                if entries > limits.entries || bytes > limits.disk {
                    return true;
                }
                if about.is_dir() {
                    open.push(entry.path());
                }
            }
        }
        false
    }
}

#[cfg(unix)]
fn size(about: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(about) * 512
}

#[cfg(not(unix))]
fn size(about: &fs::Metadata) -> u64 {
    about.len()
}

impl Drop for Workdir {
    fn drop(&mut self) {
        // Nobody to tell. What stays behind is in the system's temporary directory under our name.
        let _ = remove(&self.path);
    }
}

/// Removes a directory of any depth. `fs::remove_dir_all` holds a descriptor per level, and a hostile program makes
/// more levels than there are descriptors or than a path can name. So inner directories are moved to the top until
/// all is flat, and opened to their owner if they were closed.
fn remove(top: &Path) -> io::Result<()> {
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
                    fs::rename(inner.path(), top.join(format!(".cofill-moved-{moved}")))?;
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
        Workdir::new(&std::env::temp_dir(), "cofill-tidy", Access::Private).unwrap()
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
        assert!(top.exceeds(&Limits::default()), "deeper than a path");
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
    fn bytes_and_entries_are_counted() {
        let top = workdir();
        fs::write(top.path().join("a"), vec![1; 100_000]).unwrap();
        let limits = Limits::default();
        assert!(!top.exceeds(&limits));
        assert!(top.exceeds(&Limits { disk: 50_000, ..limits }));
        assert!(top.exceeds(&Limits { entries: 0, ..limits }));
    }
}
