//! A folder for the time of a measurement.

use crate::fail::{Done, Fail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A new folder in the system's place for temporary files. Dropping it removes it with all that is in it.
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> Done<Scratch> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cofill-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // Not `create_dir_all`: a folder that is there is somebody else's.
        std::fs::create_dir(&path).map_err(|error| Fail::from(error).about(&path.display().to_string()))?;
        Ok(Scratch { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path); // nobody is left to tell
    }
}
