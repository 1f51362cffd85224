//! A lock on a file for as long as it grows, and who has it.
//!
//! Two processes that append to one file mix their lines, and both believe that all is well. So whoever lets a file grow holds the
//! system's advisory lock on it, which the system takes back when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::path::Path;

/// What became of the wish to hold a file.
pub(crate) enum Lock {
    /// It is ours until it is closed.
    Held,
    /// Somebody else has it: who, in words.
    Taken(String),
    /// We hold a file that is not at this path any more: somebody put another in its place.
    Moved,
    /// This file system has no locks, and says so.
    Missing(std::io::Error),
}

/// Locks an open file, if nobody else has. It must be the one at `path`: a lock on a file that was replaced protects nothing.
pub(crate) fn hold(path: &Path, file: &File) -> Lock {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Lock::Taken(holder(file)),
        Err(TryLockError::Error(error)) => Lock::Missing(error),
        Ok(()) if is_at(path, file) => Lock::Held,
        Ok(()) => Lock::Moved,
    }
}

/// `process 4242 (cofill eval --out F)`, as far as the system tells.
fn holder(file: &File) -> String {
    let Some(pid) = system::holder(file) else { return "another process".into() };
    match system::command(pid) {
        Some(command) => format!("process {pid} (`{command}`)"),
        None => format!("process {pid}"),
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
    true // an open file is not replaced there
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::{File, read_dir, read_to_string};
    use std::os::unix::fs::MetadataExt;

    /// The process with a lock on this file.
    pub(super) fn holder(file: &File) -> Option<u32> {
        let there = file.metadata().ok()?;
        // The list of all locks names others' processes too, but some file systems (overlays, Btrfs) number files otherwise there.
        listed(&read_to_string("/proc/locks").ok()?, there.dev(), there.ino())
            .or_else(|| opened(there.dev(), there.ino()))
    }

    /// `1: FLOCK  ADVISORY  WRITE 4242 08:01:131090 0 EOF`: who has locked an inode.
    pub(super) fn listed(locks: &str, device: u64, inode: u64) -> Option<u32> {
        let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
        let of = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pid = words.iter().position(|word| *word == place)?.checked_sub(1)?;
            words.contains(&"FLOCK").then(|| words[pid].parse().ok())?
        };
        // 0 is a process that we cannot see from here.
        locks.lines().filter(|line| !line.contains("->")).find_map(of).filter(|pid| *pid != 0)
    }

    /// Whoever has the file open with a lock on it, among the processes that may be looked into.
    fn opened(device: u64, inode: u64) -> Option<u32> {
        let pids = read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.into_iter().find(|pid: &u32| {
            let open = read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            open.into_iter().any(|entry| {
                let same = entry.path().metadata().is_ok_and(|file| (file.dev(), file.ino()) == (device, inode));
                let info = || format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
                same && read_to_string(info()).is_ok_and(|info| info.contains("FLOCK"))
            })
        })
    }

    /// What a process was started with, fit for a terminal.
    pub(super) fn command(pid: u32) -> Option<String> {
        const SHOWN: usize = 200;
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let text = String::from_utf8_lossy(words.strip_suffix(b"\0")?).replace('\0', " ");
        let mut shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect();
        if shown.len() < text.len() {
            shown.push_str(" ..");
        }
        Some(shown)
    }

    // How Linux packs a device into a number.
    fn major(device: u64) -> u64 {
        (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
    }

    fn minor(device: u64) -> u64 {
        (device & 0xff) | (device >> 12 & !0xff)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn holder(_: &std::fs::File) -> Option<u32> {
        None
    }

    pub(super) fn command(_: u32) -> Option<String> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_locks_names_the_process() {
        // Device 08:01 is 0x801. The first is another file's, the second only waits, the third is of another kind.
        let locks = "1: FLOCK  ADVISORY  WRITE 7 08:01:99 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 8 08:01:131090 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 9 08:01:131090 0 EOF\n4: FLOCK  ADVISORY  WRITE 4242 08:01:131090 0 EOF\n";
        assert_eq!(system::listed(locks, 0x801, 131_090), Some(4242));
        assert_eq!(system::listed(locks, 0x802, 131_090), None);
        assert_eq!(system::listed("1: FLOCK  ADVISORY  WRITE 0 08:01:5 0 EOF\n", 0x801, 5), None);
    }

    #[test]
    fn a_file_is_held_once_and_the_holder_is_named() {
        let path = std::env::temp_dir().join(format!("cofill-lock-{}", std::process::id()));
        let (first, second) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        assert!(matches!(hold(&path, &first), Lock::Held));
        let Lock::Taken(who) = hold(&path, &second) else { panic!("held twice") };
        assert!(who.starts_with(&format!("process {} (`", std::process::id())), "{who}");
        drop(first);
        // Another file in its place: what we hold is not what others find.
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap();
        assert!(matches!(hold(&path, &second), Lock::Moved));
        std::fs::remove_file(path).ok();
    }
}
