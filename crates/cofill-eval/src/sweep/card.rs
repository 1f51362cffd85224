//! Is the worker that claimed this still alive?
//!
//! Every worker keeps a card: who it is, and a promise to rewrite the card within its lease. On the same machine the system is asked
//! whether the process exists, so the dead are known at once. From elsewhere only the card tells: one older than its lease belongs to
//! the dead. Ages are differences of two times of the same file system, so the clocks of machines need not agree.

use super::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// How many times within a lease a card is rewritten. More than once, because a busy file server may swallow one.
const BEATS: u32 = 5;

/// What is written on a card.
#[derive(Debug, Serialize, Deserialize)]
struct Text {
    host: String,
    /// One running system and one space of process ids; `None` where the system does not tell.
    machine: Option<String>,
    pid: u32,
    /// When the process began: ids are used again.
    began: Option<u64>,
    lease_seconds: f64,
}

/// A worker's own card. Dropping it says goodbye.
pub(super) struct Card {
    /// The name of its file.
    pub(super) id: String,
    path: PathBuf,
    stop: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Card {
    /// Writes a card and keeps rewriting it.
    pub(super) fn new(folder: &Path, lease: Duration) -> Result<Card, Error> {
        static CARDS: AtomicUsize = AtomicUsize::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (host, pid) = (host(), std::process::id());
        let id = format!("{host}.{pid}.{:x}.{}", since.as_nanos(), CARDS.fetch_add(1, Ordering::Relaxed));
        let text = Text { host, machine: machine(), pid, began: began(pid), lease_seconds: lease.as_secs_f64() };
        let path = folder.join(&id);
        let write = || {
            let bytes = serde_json::to_vec(&text)?;
            let mut file = File::create(&path)?;
            file.write_all(&bytes)?;
            Ok((file, bytes))
        };
        let (mut file, bytes) = write().map_err(Error::io(&path))?;
        let (stop, stopped) = channel::<()>();
        let beat = move || {
            while stopped.recv_timeout(lease / BEATS) == Err(RecvTimeoutError::Timeout) {
                // The same bytes: only their time matters. If this fails, others take our units over; nothing is lost.
                let _ =
                    file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&bytes)).and_then(|()| file.sync_data());
            }
        };
        Ok(Card { id, path, stop: Some((stop, std::thread::spawn(beat))) })
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.stop.take() {
            drop(stop);
            let _ = thread.join();
        }
        // Who has no card is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether a worker may still be at work. Who has no card is gone.
pub(super) fn is_alive(folder: &Path, id: &str) -> Result<bool, Error> {
    let path = folder.join(id);
    let (text, written) = match std::fs::read(&path).and_then(|text| Ok((text, path.metadata()?.modified()?))) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        read => read.map_err(Error::io(&path))?,
    };
    // A card that is just being rewritten may be read half: its owner is alive then.
    let Ok(text) = serde_json::from_slice::<Text>(&text) else { return Ok(true) };
    if text.machine.is_some() && text.machine == machine() {
        return Ok(text.began.is_some() && began(text.pid) == text.began);
    }
    let age = now(folder)?.duration_since(written).unwrap_or_default();
    Ok(age.as_secs_f64() <= text.lease_seconds)
}

/// The time as the file system has it.
fn now(folder: &Path) -> Result<SystemTime, Error> {
    let path = folder.join(format!(".clock.{}.{}", host(), std::process::id()));
    let touch = || {
        let mut file = File::create(&path)?;
        file.write_all(b"now")?;
        file.sync_data()?;
        let now = file.metadata()?.modified()?;
        std::fs::remove_file(&path).ok();
        Ok(now)
    };
    touch().map_err(Error::io(&path))
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.unwrap_or_else(|| "host".into());
    name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Two processes with the same answer can see each other.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), space.display()))
}

/// When a process began, in ticks since the system did; `None` if there is none, or only its remains.
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state is the first field after it, the time the twentieth.
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("cofill-card-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A card of somebody we cannot ask the system about.
    fn stranger(folder: &Path, lease_seconds: f64, machine: Option<String>, pid: u32, began: Option<u64>) {
        let text = Text { host: "far".into(), machine, pid, began, lease_seconds };
        std::fs::write(folder.join("far"), serde_json::to_vec(&text).unwrap()).unwrap();
    }

    #[test]
    fn a_card_lives_as_long_as_its_worker() {
        let folder = folder("lives");
        let card = Card::new(&folder, Duration::from_secs(60)).unwrap();
        let id = card.id.clone();
        assert!(is_alive(&folder, &id).unwrap());
        drop(card);
        assert!(!is_alive(&folder, &id).unwrap() && !is_alive(&folder, "nobody").unwrap());
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    fn from_elsewhere_only_the_age_tells() {
        let folder = folder("age");
        stranger(&folder, 0.2, None, 1, None);
        assert!(is_alive(&folder, "far").unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!is_alive(&folder, "far").unwrap());
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    fn a_card_is_rewritten() {
        let folder = folder("beats");
        let card = Card::new(&folder, Duration::from_millis(100)).unwrap();
        let written = || folder.join(&card.id).metadata().unwrap().modified().unwrap();
        let first = written();
        std::thread::sleep(Duration::from_millis(300));
        assert!(written() > first);
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn on_this_machine_the_dead_are_known_at_once() {
        let folder = folder("dead");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, time) = (child.id(), began(child.id()));
        stranger(&folder, 3600.0, machine(), pid, time);
        assert!(is_alive(&folder, "far").unwrap());
        // Another process with the same number is not the same worker.
        stranger(&folder, 3600.0, machine(), pid, time.map(|time| time + 1));
        assert!(!is_alive(&folder, "far").unwrap());
        stranger(&folder, 3600.0, machine(), pid, time);
        child.kill().unwrap();
        // Dead, and its parent has not looked yet.
        while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!is_alive(&folder, "far").unwrap());
        child.wait().unwrap();
        assert!(!is_alive(&folder, "far").unwrap());
        std::fs::remove_dir_all(folder).ok();
    }
}
