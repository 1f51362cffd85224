//! Who fetches a file, as the hub's other tools say it: a lock on a file of its own. Best effort, as with them: some file systems have none.

use crate::error::{Error, Result};
use crate::http::Http;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

/// How long to wait before looking again.
const AGAIN: Duration = Duration::from_secs(1);

/// Ours until dropped, or until the process ends.
pub(crate) struct Lock {
    _file: Option<File>,
}

/// Waits until nobody else has it. `waiting` is told once by whom it is held.
pub(crate) fn acquire(path: &Path, http: &Http, waiting: &mut dyn FnMut(String)) -> Result<Lock> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    let mut told = false;
    loop {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(Error::io(path))?;
        match file.try_lock() {
            Ok(()) if is_at(path, &file) => {
                // For whoever waits. Other tools write nothing and do not mind.
                let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                return Ok(Lock { _file: Some(file) });
            }
            Ok(()) => {} // somebody removed it in between
            Err(TryLockError::WouldBlock) => {
                if !told {
                    waiting(holder(&mut file));
                    told = true;
                }
                http.check_stop()?;
                (http.pause)(AGAIN);
            }
            Err(TryLockError::Error(_)) => return Ok(Lock { _file: None }),
        }
    }
}

/// Who holds a lock, if anybody does.
pub(crate) fn taken(path: &Path) -> Option<String> {
    let mut file = File::options().read(true).write(true).open(path).ok()?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        _ => None,
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(20).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("process {pid}"),
        _ => "another process".into(),
    }
}

#[cfg(unix)]
fn is_at(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: std::io::Result<std::fs::Metadata>| found.map(|found| (found.dev(), found.ino())).ok();
    id(path.metadata()) == id(file.metadata())
}

#[cfg(not(unix))]
fn is_at(_: &Path, _: &File) -> bool {
    true // an open file is not removed there
}
