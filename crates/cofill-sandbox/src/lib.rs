//! Running generated Python where it can do no harm, and believing only programs that reached the end of their tests.
//!
//! Every program gets a process of its own in a cage of several layers (`docs/sandbox.md` says which one stops what):
//! namespaces with a file system that holds nothing but Python, Landlock, seccomp, resource limits, and an
//! unprivileged identity. Layers overlap on purpose: where containers forbid namespaces, Landlock and seccomp suffice
//! together. When a machine offers less than seccomp and one of the two others, nothing runs unless
//! [`Options::unsafe_exec`] says so.
//!
//! A program is run exactly as Hugging Face's `code_eval` runs it (`driver.py`), and the words for how it ended are the
//! same. Whether it passed does not depend on an exit code or on anything printed: see `protocol.rs`.
//!
//! ```
//! use cofill_sandbox::{Options, Sandbox};
//! use std::path::Path;
//! use std::time::Duration;
//!
//! # if !cfg!(target_os = "linux") || std::process::Command::new("python3").arg("--version").output().is_err() { return }
//! let sandbox = match Sandbox::new(Path::new("python3"), Options::default()) {
//!     Ok(sandbox) => sandbox,
//!     Err(why) => return eprintln!("generated code is not run here: {why}"),
//! };
//! let run = |program| sandbox.run(program, Duration::from_secs(3)).expect("the sandbox works");
//! assert_eq!(run("assert sum([1, 2]) == 3").result, "passed");
//! assert_eq!(run("print('passed')\nexit(0)").passed, false);
//! assert!(run("open('/etc/passwd')").result.starts_with("failed: "));
//! ```

mod layers;
mod protocol;
mod python;
mod run;
mod workdir;

// One cage per system, with the same items: `Cage`, `Running`, `try_layers`, `kill_all`.
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other_systems;
#[cfg(target_os = "linux")]
use linux as cage;
#[cfg(not(target_os = "linux"))]
use other_systems as cage;

use layers::Trial;
pub use layers::{Layers, Limits};
use python::Python;
use run::Runner;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a sandbox may use, and how much a program may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Run generated code even when the machine has too few layers to hold it, with those that it has. The code can then
    /// do whatever the user can.
    pub unsafe_exec: bool,
    /// The layers to use where the machine has them; all by default, fewer in tests that show what each is worth.
    pub layers: Layers,
    /// How much memory, disk space and how many threads a program may use.
    pub limits: Limits,
}

/// Why a sandbox cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter cannot be used.
    #[error("cannot run `{}` as Python: {problem}; a Python of 3.8 or newer is needed", path.display())]
    Python {
        /// The interpreter, as it was named.
        path: PathBuf,
        /// Why it cannot be used.
        problem: String,
    },
    /// The machine has too few of the layers. [`Options::unsafe_exec`] runs generated code all the same.
    #[error(
        "this machine offers too little to run generated code: {missing}; \
         run it where seccomp and either namespaces or Landlock are allowed"
    )]
    TooFewLayers {
        /// What a program could do here, and why the layers against it are not there.
        missing: String,
    },
    /// The layers are there, and a program that tried them got through all the same. [`Options::unsafe_exec`] does not try.
    #[error("the sandbox was tried and does not hold: {leak}; generated code should not run on this machine")]
    Leaks {
        /// What the program could do and should not have been able to.
        leak: String,
    },
    /// The layers are there, and Python does not start in them. [`Options::unsafe_exec`] with fewer [`Options::layers`] may
    /// show which one is in its way.
    #[error("Python does not start in the sandbox ({layers}): {problem}; another installation of Python may")]
    Start {
        /// The layers in use, in words.
        layers: String,
        /// What the system or Python said.
        problem: String,
    },
    /// No directory to work in.
    #[error(
        "cannot make a directory in {} to run programs in: {problem}; set TMPDIR to one that can be written",
        parent.display()
    )]
    Workdir {
        /// Where it was to be.
        parent: PathBuf,
        /// What the system said.
        problem: std::io::Error,
    },
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Whether it ran to its end.
    pub passed: bool,
    /// `code_eval`'s word for it: `passed`, `timed out` or `failed: ` and the exception's text.
    pub result: String,
}

/// Runs programs, one process each, in a cage that was tried before it is trusted.
#[derive(Debug)]
pub struct Sandbox {
    python: Python,
    layers: Layers,
    limits: Limits,
    cage: cage::Cage,
    /// What `describe` says about layers: those in use, with versions, and those that were wanted and are not there.
    layers_in_words: String,
}

impl Sandbox {
    /// A sandbox for this interpreter, or the reason why generated code should not run here.
    ///
    /// Nothing is assumed: each layer is tried with a program that should pass, and the whole with one that reaches
    /// for files and for the network.
    pub fn new(python: &Path, options: Options) -> Result<Sandbox, Error> {
        let python = Python::find(python)?;
        let trial = cage::try_layers(&python, &options)?;
        let missing = trial.missing();
        if let Some(missing) = missing.filter(|_| !options.unsafe_exec) {
            return Err(Error::TooFewLayers { missing });
        }
        let layers_in_words = trial.describe(&options);
        let Trial { cage, layers, .. } = trial;
        let sandbox = Sandbox { python, layers, limits: options.limits, cage, layers_in_words };
        if !options.unsafe_exec {
            sandbox.self_test()?;
        }
        Ok(sandbox)
    }

    /// The interpreter's version, as in `3.11.7`.
    pub fn python_version(&self) -> &str {
        &self.python.version
    }

    /// The layers in use.
    pub fn layers(&self) -> Layers {
        self.layers
    }

    /// The interpreter and what confines it, for the header of a file of results.
    pub fn describe(&self) -> String {
        format!(
            "Python {} at {}; {}; {}",
            self.python.version,
            self.python.executable.display(),
            self.layers_in_words,
            self.limits
        )
    }

    /// Runs a program that nobody trusts, for at most `timeout`. `Err` means that the sandbox itself could not run it.
    pub fn run(&self, program: &str, timeout: Duration) -> Result<Execution, String> {
        self.runner().run(program, timeout).map_err(|failure| failure.to_string())
    }

    /// Runs a program of the caller's own in the same cage and returns the text that it leaves in its variable `answer`:
    /// nothing if it raises or takes longer than `timeout`. `Err` means that the sandbox itself could not run it.
    pub fn answer(&self, program: &str, timeout: Duration) -> Result<Option<String>, String> {
        self.runner().answer(program, timeout).map_err(|failure| failure.to_string())
    }

    fn runner(&self) -> Runner<'_> {
        Runner { cage: &self.cage, layers: self.layers, limits: &self.limits }
    }

    /// Runs a program that tries to read and write outside and to reach the network. It ends with the list of what worked,
    /// which must be empty.
    fn self_test(&self) -> Result<(), Error> {
        let start = |problem| Error::Start { layers: self.layers_in_words.clone(), problem };
        let canary = self.cage.canary().map_err(|problem| start(problem.to_string()))?;
        let path = format!("{:?}", canary.path().to_string_lossy());
        let report = self.run(&SELF_TEST.replace("CANARY", &path), TRIAL_TIMEOUT).map_err(start)?;
        match report.result.strip_prefix("failed: tried ") {
            Some("") => Ok(()),
            Some(leak) => Err(Error::Leaks { leak: leak.into() }),
            None => Err(start(format!("a harmless program ended with `{}`", report.result))),
        }
    }
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// For a process that a signal is about to end: ends every program and removes every directory of all its sandboxes.
/// Threads that wait for a program, or start one from now on, are then stopped for good: that a program was killed because
/// the process ends must not be recorded as its result.
pub fn end_everything() {
    ENDING.store(true, Ordering::SeqCst);
    cage::kill_all();
    workdir::remove_all();
}

fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

fn wait_if_ending() {
    while is_ending() {
        std::thread::park();
    }
}

/// How long a program that tries the layers may take. It needs a moment; a loaded machine may need longer to start it.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// `CANARY` is a file outside, readable to the user who runs this.
const SELF_TEST: &str = r#"
import os, socket
leaks = []
def attempt(name, act):
    try:
        act()
    except OSError:
        return
    leaks.append(name)
attempt("reading a file outside", lambda: open(CANARY).read())
attempt("writing a file outside", lambda: open(CANARY, "a").write("x"))
attempt("making a file outside", lambda: open(CANARY + ".new", "w").close())
attempt("listing a directory outside", lambda: os.listdir(os.path.dirname(CANARY)))
# Connecting a datagram socket asks nobody, so it fails only where there is no network.
attempt("the network", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("127.0.0.1", 9)))
open("inside", "w").write("x")
assert open("inside").read() == "x", "files inside cannot be used"
raise SystemExit("tried " + ", ".join(leaks))
"#;
