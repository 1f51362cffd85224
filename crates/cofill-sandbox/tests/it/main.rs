//! The sandbox from outside. One test at a time, since what a program leaves behind is looked for on the whole machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

// What the harness's semantics promise to ordinary programs.
mod harmless;
// Programs that try to get out, and the table in docs/sandbox.md.
mod hostile;
// Reference solutions and scoring cases of the shared goldens.
mod reference;

use cofill_sandbox::{Layers, Limits, Options, Sandbox};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs, thread};

/// Whoever holds it is alone, and answers for what is left at the end.
pub(crate) struct Alone {
    _gate: MutexGuard<'static, ()>,
}

pub(crate) fn alone() -> Alone {
    static GATE: Mutex<()> = Mutex::new(());
    Alone { _gate: GATE.lock().unwrap_or_else(PoisonError::into_inner) }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(leftovers(), Vec::<String>::new(), "processes or files are left");
        }
    }
}

/// Processes that run the driver as our children or as orphans, and directories of this process.
pub(crate) fn leftovers() -> Vec<String> {
    let ours = format!("-{}-", std::process::id());
    let named = fs::read_dir(env::temp_dir()).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    // Only what the sandbox makes: a file that a test of another crate left may have the number of a process that is gone.
    let made = |name: &String| ["cofill-sandbox-", "cofill-canary-"].iter().any(|prefix| name.starts_with(prefix));
    let mut found: Vec<String> = named.filter(|name| made(name) && name.contains(&ours)).collect();
    found.extend(drivers());
    found
}

/// Processes whose command line is the driver's and whose parent is this process, or nobody.
pub(crate) fn drivers() -> Vec<String> {
    let pids =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        String::from_utf8_lossy(&command).contains("Runs one generated program as HF evaluate")
            && (parent == Some(std::process::id()) || parent == Some(1))
    };
    pids.filter(is_ours).map(|pid| format!("process {pid}")).collect()
}

/// The interpreter for these tests. Without one they cannot say anything, so they fail.
pub(crate) fn python() -> PathBuf {
    let named = env::var_os("COFILL_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let found =
        std::process::Command::new(&named).arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(found, "{} is not there: the sandbox's tests need Python; set COFILL_PYTHON", named.display());
    named
}

/// Small, so that the small bombs of the tests are big enough.
pub(crate) const SMALL: Limits =
    Limits { memory: 512 << 20, tasks: 64, file: 4 << 20, disk: 8 << 20, entries: 512, descriptors: 64 };

pub(crate) fn sandbox(layers: Layers) -> Sandbox {
    Sandbox::new(&python(), Options { layers, limits: SMALL, unsafe_exec: false }).unwrap()
}

/// A sandbox of layers that need not be enough.
pub(crate) fn unsafe_sandbox(layers: Layers) -> Sandbox {
    Sandbox::new(&python(), Options { layers, limits: SMALL, unsafe_exec: true }).unwrap()
}

/// Layers that are enough where namespaces are forbidden.
pub(crate) const FALLBACK: Layers = Layers { namespaces: false, ..Layers::ALL };

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Does `work` for every index below `n`, two at a time: the machine has other things to do.
pub(crate) fn by_two(n: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    work(i);
                }
            });
        }
    });
}
