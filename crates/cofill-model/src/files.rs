//! A checkpoint's files, wherever they are: on disk, or inside the program. Every file is read through here.

use crate::embedded::{self, OnDisk};
use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::Path;

/// A file as memory.
pub(crate) enum Bytes {
    Mapped(Mmap),
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

pub(crate) fn is_file(path: &Path) -> bool {
    match embedded::file(path) {
        Ok(found) => found.is_some(),
        Err(OnDisk) => path.is_file(),
    }
}

/// The text of a file, or `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let malformed = |problem: String| Error::Malformed { path: path.into(), problem };
    let bytes = match embedded::file(path) {
        Ok(found) => found.map(<[u8]>::to_vec),
        Err(OnDisk) => match std::fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(malformed(format!("cannot be read: {error}"))),
        },
    };
    bytes.map(String::from_utf8).transpose().map_err(|error| malformed(format!("not UTF-8: {error}")))
}

/// The text of a file that must be there.
pub(crate) fn need(path: &Path) -> Result<String> {
    read(path)?.ok_or_else(|| missing(path))
}

/// A file as memory.
pub(crate) fn map(path: &Path) -> Result<Bytes> {
    if let Ok(found) = embedded::file(path) {
        return found.map(Bytes::Embedded).ok_or_else(|| missing(path));
    }
    let malformed = |error: std::io::Error| Error::Malformed { path: path.into(), problem: error.to_string() };
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(path),
        _ => malformed(error),
    })?;
    // SAFETY: the map is only read, and a checkpoint that another process truncates while we load it is beyond what a
    // program can guard against; everybody who maps checkpoints relies on the same.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(&file) }.map_err(malformed)?;
    Ok(Bytes::Mapped(map))
}

fn missing(path: &Path) -> Error {
    Error::Missing { path: path.into(), what: "the file".into() }
}
