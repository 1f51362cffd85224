//! Is the worker that claimed this still alive?
//!
//! Every worker keeps a heartbeat: who it is, and a promise to rewrite the heartbeat within its lease. On the same machine the system is asked
//! whether the process exists, so the dead are known at once. From elsewhere only the heartbeat tells: one older than its lease belongs to
//! the dead. Ages are differences of two times of the same file system, so the clocks of machines need not agree.
//!
//! Whatever is written on a heartbeat and on its file, nobody waits for ever: a heartbeat that the one who waits sees unchanged for a lease, by its own
//! clock, has expired. This ends the lease of a heartbeat that cannot be read (ours counts then), of one whose time is in the future, and of a worker
//! on this machine that exists but was stopped. Should it wake up, it finds that somebody took over and throws its part away.

use super::Error;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// How many times within a lease a heartbeat is rewritten. More than once, because a busy file server may swallow one.
const BEATS: u32 = 5;

/// Heartbeats have some hundred bytes; what is longer is none.
const LONGEST: u64 = 1 << 16;

/// What is written on a heartbeat.
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

/// A worker's own heartbeat. Dropping it says goodbye.
pub(super) struct Heartbeat {
    /// The name of its file.
    pub(super) id: String,
    path: PathBuf,
    stop: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Heartbeat {
    /// Writes a heartbeat and keeps rewriting it.
    pub(super) fn new(folder: &Path, lease: Duration) -> Result<Heartbeat, Error> {
        static HEARTBEATS: AtomicUsize = AtomicUsize::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (host, pid) = (host(), std::process::id());
        let id = format!("{host}.{pid}.{:x}.{}", since.as_nanos(), HEARTBEATS.fetch_add(1, Ordering::Relaxed));
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
        Ok(Heartbeat { id, path, stop: Some((stop, std::thread::spawn(beat))) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.stop.take() {
            drop(stop);
            let _ = thread.join();
        }
        // A worker without a heartbeat has ended, or never was.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A worker that may still be at work, as whoever waits for it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The name of its heartbeat.
    pub worker: String,
    /// Where it runs and as which process, if its heartbeat says so.
    pub process: Option<(String, u32)>,
    /// What it does.
    pub state: State,
    /// How long we have seen no change of its heartbeat.
    pub silent: Duration,
    /// How long that may last.
    pub lease: Duration,
}

/// What is known of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs on this machine.
    Running,
    /// It is on this machine, and somebody has stopped it.
    Stopped,
    /// It is on another machine.
    Elsewhere,
    /// Its heartbeat cannot be read.
    Unknown,
}

/// The heartbeats of others, watched.
pub(super) struct Heartbeats {
    folder: PathBuf,
    /// Of a heartbeat that does not say.
    lease: Duration,
    seen: Mutex<HashMap<String, Seen>>,
}

/// A heartbeat as it was when it last changed, and when we noticed.
struct Seen {
    heartbeat: Read,
    at: Instant,
}

/// What a look at a heartbeat gives: its bytes, unless it cannot be read, and its time.
type Read = (Option<Vec<u8>>, Option<SystemTime>);

impl Heartbeats {
    pub(super) fn new(folder: &Path, lease: Duration) -> Heartbeats {
        Heartbeats { folder: folder.into(), lease, seen: Mutex::default() }
    }

    /// The worker of a heartbeat, if it may still be at work. A worker without a heartbeat has ended, or never was.
    pub(super) fn holder(&self, id: &str) -> Result<Option<Holder>, Error> {
        let Some(heartbeat) = read(&self.folder.join(id)) else { return Ok(None) };
        let text = heartbeat.0.as_ref().and_then(|bytes| serde_json::from_slice::<Text>(bytes).ok());
        let written = heartbeat.1;
        let silent = self.silent(id, heartbeat);
        let lease = text.as_ref().and_then(|text| Duration::try_from_secs_f64(text.lease_seconds).ok());
        // Nobody asks for more than a day; a heartbeat that says so is damaged.
        let lease = lease.filter(|lease| *lease <= Duration::from_secs(86_400)).unwrap_or(self.lease);
        let state = match &text {
            None => State::Unknown,
            Some(text) if text.machine.is_some() && text.machine == machine() => match process(text.pid) {
                Some(there) if Some(there.began) != text.began => return Ok(None), // ids are used again
                Some(there) if there.is_stopped => State::Stopped,
                Some(_) => State::Running,
                None => return Ok(None),
            },
            Some(_) => {
                let now = now(&self.folder)?;
                if written.is_some_and(|written| now.duration_since(written).unwrap_or_default() > lease) {
                    return Ok(None);
                }
                State::Elsewhere
            }
        };
        let process = text.map(|text| (text.host, text.pid));
        Ok((silent <= lease).then_some(Holder { worker: id.into(), process, state, silent, lease }))
    }

    /// How long a heartbeat has been as it is, by our own clock.
    fn silent(&self, id: &str, heartbeat: Read) -> Duration {
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match seen.get(id) {
            Some(seen) if seen.heartbeat == heartbeat => seen.at.elapsed(),
            _ => {
                seen.insert(id.into(), Seen { heartbeat, at: Instant::now() });
                Duration::ZERO
            }
        }
    }
}

/// Looks at a heartbeat; `None` if there is none. One that cannot be read is there all the same.
fn read(path: &Path) -> Option<Read> {
    let there = match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        there => there.ok(),
    };
    let open = || -> std::io::Result<Read> {
        let file = File::open(path)?;
        // Its time comes after opening: that is when a network file system asks its server.
        let written = file.metadata()?.modified().ok();
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes)?;
        Ok((Some(bytes), written))
    };
    match &there {
        // Opening a pipe would wait for somebody to write.
        Some(there) if there.is_file() => Some(open().unwrap_or((None, there.modified().ok()))),
        there => Some((None, there.as_ref().and_then(|there| there.modified().ok()))),
    }
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

/// What the system says of a process.
struct Process {
    /// When it began, in ticks since the system did.
    began: u64,
    is_stopped: bool,
}

/// A process of this machine; `None` if there is none, or only its remains.
fn process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state is the first field after it, the time the twentieth.
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    let state = fields.next()?;
    let began = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Process { began, is_stopped: matches!(state, "T" | "t") })
}

fn began(pid: u32) -> Option<u64> {
    process(pid).map(|process| process.began)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn is_alive(folder: &Path, id: &str) -> Result<bool, Error> {
        Ok(Heartbeats::new(folder, HOUR).holder(id)?.is_some())
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("cofill-heartbeat-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A heartbeat of somebody we cannot ask the system about.
    fn stranger(folder: &Path, lease_seconds: f64, machine: Option<String>, pid: u32, began: Option<u64>) {
        let text = Text { host: "far".into(), machine, pid, began, lease_seconds };
        std::fs::write(folder.join("far"), serde_json::to_vec(&text).unwrap()).unwrap();
    }

    #[test]
    fn a_heartbeat_lives_as_long_as_its_worker() {
        let folder = folder("lives");
        let heartbeat = Heartbeat::new(&folder, Duration::from_secs(60)).unwrap();
        let id = heartbeat.id.clone();
        assert!(is_alive(&folder, &id).unwrap());
        drop(heartbeat);
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

    /// It promises nothing that can be read, and it does not change.
    #[test]
    fn a_heartbeat_that_cannot_be_read_expires_with_our_lease() {
        let folder = folder("unreadable");
        for bytes in [&b""[..], b"{\"host\":", b"\xff\xfe", b"{\"lease_seconds\":-1}"] {
            std::fs::write(folder.join("far"), bytes).unwrap();
            let heartbeats = Heartbeats::new(&folder, Duration::from_millis(200));
            let holder = heartbeats.holder("far").unwrap().unwrap();
            assert_eq!((holder.state, holder.process, holder.silent), (State::Unknown, None, Duration::ZERO));
            std::thread::sleep(Duration::from_millis(250));
            assert_eq!(heartbeats.holder("far").unwrap(), None);
            // It changes: somebody is there.
            std::fs::write(folder.join("far"), [bytes, b" "].concat()).unwrap();
            assert!(heartbeats.holder("far").unwrap().is_some());
        }
        std::fs::remove_file(folder.join("far")).unwrap();
        std::fs::create_dir(folder.join("far")).unwrap();
        let heartbeats = Heartbeats::new(&folder, Duration::from_millis(200));
        assert_eq!(heartbeats.holder("far").unwrap().unwrap().state, State::Unknown);
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(heartbeats.holder("far").unwrap(), None);
        std::fs::remove_dir_all(folder).ok();
    }

    /// The clock of the file server jumped back: no age says that it is dead.
    #[test]
    fn a_heartbeat_from_the_future_expires_all_the_same() {
        let folder = folder("future");
        stranger(&folder, 0.2, None, 1, None);
        File::options().write(true).open(folder.join("far")).unwrap().set_modified(SystemTime::now() + HOUR).unwrap();
        let heartbeats = Heartbeats::new(&folder, HOUR);
        assert_eq!(heartbeats.holder("far").unwrap().unwrap().state, State::Elsewhere);
        std::thread::sleep(Duration::from_millis(250));
        assert_eq!(heartbeats.holder("far").unwrap(), None);
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_stopped_worker_is_seen_and_keeps_its_units_for_a_lease() {
        let folder = folder("stopped");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        stranger(&folder, 0.3, machine(), child.id(), began(child.id()));
        let heartbeats = Heartbeats::new(&folder, HOUR);
        assert_eq!(heartbeats.holder("far").unwrap().unwrap().state, State::Running);
        let stop = std::process::Command::new("kill").args(["-STOP", &child.id().to_string()]).status();
        assert!(stop.unwrap().success());
        while !process(child.id()).unwrap().is_stopped {
            std::thread::sleep(Duration::from_millis(1));
        }
        stranger(&folder, 0.3, machine(), child.id(), began(child.id())); // its last sign
        let holder = heartbeats.holder("far").unwrap().unwrap();
        assert_eq!((holder.state, holder.process), (State::Stopped, Some(("far".into(), child.id()))));
        std::thread::sleep(Duration::from_millis(350));
        assert_eq!(heartbeats.holder("far").unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(folder).ok();
    }

    #[test]
    fn a_heartbeat_is_rewritten() {
        let folder = folder("beats");
        let heartbeat = Heartbeat::new(&folder, Duration::from_millis(100)).unwrap();
        let written = || folder.join(&heartbeat.id).metadata().unwrap().modified().unwrap();
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
