//! Who does a unit.
//!
//! A claim is a file that names its worker: a symbolic link, because making one is a single step that either succeeds, contents
//! included, or finds somebody there, also on network file systems. It is never removed. When its worker dies, taking over means making
//! the *next* claim, `ADDRESS.1` after `ADDRESS.0`, and again only one of many can. So there is no moment in which a claim could be
//! stolen from the living: a worker owns its unit until there is a claim after its own.
//!
//! Claims of finished units stay too. A worker whose view of the folder is old, as happens with network caches, then finds them in
//! its way.

use super::heartbeat::{Heartbeat, Heartbeats, Holder};
use super::{Error, Sweep, Unit};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a worker may be silent before others take its unit over.
pub const LEASE: Duration = Duration::from_secs(60);

/// A worker's right to claim: its heartbeat.
pub struct Claims {
    claims: PathBuf,
    heartbeat: Heartbeat,
    others: Heartbeats,
}

/// What became of the wish to have a unit.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Claim),
    /// Somebody else has it.
    Theirs {
        /// Who, unless it was taken just now.
        holder: Option<Holder>,
        /// For how long.
        since: Duration,
    },
}

/// A unit that is ours, until there is a claim after ours.
#[derive(Debug)]
pub struct Claim {
    next: PathBuf,
    /// How many workers had it before.
    pub generation: usize,
}

impl Claims {
    /// Joins the workers of a sweep.
    pub fn new(sweep: &Sweep, lease: Duration) -> Result<Claims, Error> {
        let workers = sweep.dir().join("workers");
        let heartbeat = Heartbeat::new(&workers, lease)?;
        Ok(Claims { claims: sweep.dir().join("claims"), heartbeat, others: Heartbeats::new(&workers, lease) })
    }

    /// Claims a unit, if nobody who lives has it.
    pub fn take(&self, unit: &Unit) -> Result<Taken, Error> {
        let path = |generation: usize| self.claims.join(format!("{}.{generation}", unit.address));
        let mut generation = 0;
        let mut last = None;
        while let Some(worker) = read(&path(generation))? {
            last = Some(worker);
            generation += 1;
        }
        // Our own: we are here again because it went wrong the first time.
        if let Some(worker) = last
            && worker != self.heartbeat.id
            && let Some(holder) = self.others.holder(&worker)?
        {
            let since = age(&path(generation - 1));
            return Ok(Taken::Theirs { holder: Some(holder), since });
        }
        match create(&path(generation), &self.heartbeat.id) {
            Ok(()) => Ok(Taken::Ours(Claim { next: path(generation + 1), generation })),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Ok(Taken::Theirs { holder: None, since: Duration::ZERO })
            }
            Err(error) => Err(Error::io(&path(generation))(error)),
        }
    }
}

impl Claim {
    /// Whether nobody has taken over.
    pub fn is_ours(&self) -> bool {
        !self.next.is_symlink() && !self.next.exists()
    }
}

/// The worker that has a unit, dead or alive, if somebody has claimed it: the last of its claims.
pub(super) fn holder(sweep: &Sweep, unit: &Unit) -> Result<Option<String>, Error> {
    let path = |generation: usize| sweep.dir().join("claims").join(format!("{}.{generation}", unit.address));
    let mut last = None;
    for generation in 0.. {
        match read(&path(generation))? {
            Some(worker) => last = Some(worker),
            None => break,
        }
    }
    Ok(last)
}

/// How old a claim is, for people: clocks need not agree.
fn age(path: &Path) -> Duration {
    let made = path.symlink_metadata().and_then(|made| made.modified()).ok();
    made.and_then(|made| made.elapsed().ok()).unwrap_or_default()
}

/// Makes a claim, contents and all, or finds one.
#[cfg(unix)]
fn create(path: &Path, worker: &str) -> std::io::Result<()> {
    std::os::unix::fs::symlink(worker, path)
}

#[cfg(not(unix))]
fn create(path: &Path, worker: &str) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(worker.as_bytes())
}

/// The worker that a claim names; `None` if there is no claim.
fn read(path: &Path) -> Result<Option<String>, Error> {
    #[cfg(unix)]
    let named = std::fs::read_link(path).map(|worker| worker.to_string_lossy().into_owned());
    #[cfg(not(unix))]
    let named = std::fs::read_to_string(path);
    match named {
        Ok(worker) => Ok(Some(worker)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path)(error)),
    }
}
