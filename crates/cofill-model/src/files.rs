//! A checkpoint's files, wherever they are: on disk, or inside the program. Every file is read through here.
//!
//! A file that is read whole has a largest size, by its name. Only regular files are read: a pipe would wait for somebody to write,
//! and a device may never end. That is asked of the opened file, so nobody can put another in its place in between.

use crate::embedded::{self, OnDisk};
use crate::error::{Error, Result};
use memmap2::Mmap;
#[cfg(unix)]
use memmap2::UncheckedAdvice;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

/// A file as memory.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<Mmap>),
    Embedded(&'static [u8]),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Embedded(bytes) => bytes,
        }
    }
}

/// A part of a file, which stays as long as this does.
#[derive(Clone)]
pub(crate) struct Part {
    file: Bytes,
    range: Range<usize>,
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

impl Part {
    /// A part of this part.
    pub(crate) fn slice(&self, range: Range<usize>) -> Part {
        Part { file: self.file.clone(), range: self.range.start + range.start..self.range.start + range.end }
    }
}

impl Bytes {
    /// The same bytes for longer than the borrow, if they lie in this file.
    pub(crate) fn part(&self, bytes: &[u8]) -> Option<Part> {
        let start = (bytes.as_ptr() as usize).checked_sub(self.as_ptr() as usize)?;
        let range = start..start.checked_add(bytes.len())?;
        (range.end <= self.len()).then(|| Part { file: self.clone(), range })
    }

    /// Lets go of the memory that holds these bytes, if they are a part of a file on disk: they will be read again if somebody asks.
    pub(crate) fn forget(&self, bytes: &[u8]) {
        #[cfg(unix)]
        if let (Bytes::Mapped(map), Some(Part { range, .. })) = (self, self.part(bytes)) {
            // SAFETY: the map is of a file and only read, so nothing can be lost.
            #[allow(unsafe_code)]
            let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }
}

/// Bytes that a file of this name may have: far more than any published checkpoint's, and far less than memory.
fn largest(path: &Path) -> u64 {
    match path.file_name().and_then(std::ffi::OsStr::to_str) {
        Some("tokenizer.json" | "vocab.json" | "merges.txt") => 32 << 20,
        Some("model.safetensors.index.json") => 16 << 20,
        Some("tokenizer_config.json") => 4 << 20,
        _ => 1 << 20,
    }
}

/// Whether there is anything of this name, if only to be refused.
pub(crate) fn exists(path: &Path) -> bool {
    match embedded::file(path) {
        Ok(found) => found.is_some(),
        Err(OnDisk) => path.exists(),
    }
}

/// The text of a file, or `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
    let unreadable = |error: std::io::Error| malformed(format!("cannot be read: {error}"));
    let bytes = match embedded::file(path) {
        Ok(found) => found.map(<[u8]>::to_vec),
        Err(OnDisk) => match open(path) {
            Ok(file) => {
                let most = largest(path);
                let given = file.metadata().map_err(unreadable)?.len();
                let mut bytes = Vec::new();
                if given <= most {
                    // It may grow while it is read.
                    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
                }
                let given = given.max(bytes.len() as u64);
                if given > most {
                    return Err(Error::FileTooLarge { path: path.into(), given, most });
                }
                Some(bytes)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(error)),
        },
    };
    bytes.map(String::from_utf8).transpose().map_err(|error| malformed(format!("not UTF-8: {error}")))
}

/// Opens a regular file.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Opening a pipe would wait for its other end; regular files do not care.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    match file.metadata()? {
        it if it.is_file() => Ok(file),
        it if it.is_dir() => Err(std::io::Error::other("it is a directory and no regular file")),
        _ => Err(std::io::Error::other("it is a pipe or a device and no regular file")),
    }
}

/// The text of a file that must be there.
pub(crate) fn read_required(path: &Path) -> Result<String> {
    read(path)?.ok_or_else(|| missing(path))
}

/// A file as memory.
pub(crate) fn map(path: &Path) -> Result<Bytes> {
    if let Ok(found) = embedded::file(path) {
        return found.map(Bytes::Embedded).ok_or_else(|| missing(path));
    }
    let malformed = |error: std::io::Error| Error::Malformed { path: path.into(), problem: error.to_string() };
    let file = open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(path),
        _ => malformed(error),
    })?;
    // SAFETY: the map is only read, and a checkpoint that another process truncates while it is used is beyond what a
    // program can guard against; everybody who maps checkpoints relies on the same.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(&file) }.map_err(malformed)?;
    Ok(Bytes::Mapped(Arc::new(map)))
}

fn missing(path: &Path) -> Error {
    Error::Missing { path: path.into(), what: "the file".into() }
}
