//! Running generated Python where it can do no harm, and believing only programs that reached the end of their tests.
//!
//! Every program gets a process of its own in a cage of several layers (`docs/sandbox.md` says which one stops what):
//! namespaces with a file system that holds nothing but Python, Landlock, seccomp, resource limits, and an
//! unprivileged identity. Layers overlap on purpose: where containers forbid namespaces, Landlock and seccomp suffice
//! together. When a machine offers less than seccomp and one of the two others, nothing runs unless
//! [`Options::unsafe_exec`] says so.
//!
//! What a program means is the harness's `code_eval` to the letter (`driver.py`), and so are the words for how it
//! ended. The verdict does not rest on an exit code or on anything printed: see `verdict.rs`.

mod layers;
mod protocol;
mod python;
mod run;
mod workdir;

// One cage per system, with the same three items: `Cage`, `Running`, `offer`.
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other_systems;
#[cfg(target_os = "linux")]
use linux as cage;
#[cfg(not(target_os = "linux"))]
use other_systems as cage;

pub use layers::{Layers, Limits};
use python::Python;
use run::Runner;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a sandbox may use, and how much a program may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Run generated code even when the machine offers too little to hold it.
    pub unsafe_exec: bool,
    /// The layers to use where the machine has them; all by default, fewer in tests that show what each is worth.
    pub layers: Layers,
    /// Memory, time and space.
    pub limits: Limits,
}

/// Why a sandbox cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interpreter cannot be used.
    #[error("cannot run `{}` as Python: {problem}; give a Python of 3.8 or newer with --python", path.display())]
    Python {
        /// What was given.
        path: PathBuf,
        /// What happened.
        problem: String,
    },
    /// The machine has too few of the layers.
    #[error(
        "this machine offers too little to run generated code: {missing}; \
         run it where seccomp and either namespaces or Landlock are allowed, or --unsafe-exec runs it anyway"
    )]
    TooLittle {
        /// What is missing, each with the reason.
        missing: String,
    },
    /// The layers are there, and something got through all the same.
    #[error("the sandbox was tried and does not hold: {leak}; --unsafe-exec runs generated code anyway")]
    Leaks {
        /// What got through.
        leak: String,
    },
    /// The layers are there, and Python does not start in them.
    #[error("Python does not start in the sandbox ({layers}): {problem}; --unsafe-exec runs it with fewer layers")]
    Start {
        /// The layers in use.
        layers: String,
        /// What happened.
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
        /// What happened.
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
    // What `describe` says about layers: those in use, with versions, and those that were wanted and are not there.
    walls: String,
}

impl Sandbox {
    /// A sandbox for this interpreter, or the reason why generated code should not run here.
    ///
    /// Nothing is assumed: each layer is tried with a program that should pass, and the whole with one that reaches
    /// for files and for the network.
    pub fn new(python: &Path, options: Options) -> Result<Sandbox, Error> {
        let python = Python::find(python)?;
        let offer = cage::try_layers(&python, &options)?;
        let missing = offer.missing();
        if let Some(missing) = missing.filter(|_| !options.unsafe_exec) {
            return Err(Error::TooLittle { missing });
        }
        let walls = offer.describe(&options);
        let sandbox = Sandbox { python, layers: offer.layers, limits: options.limits, cage: offer.cage, walls };
        if !options.unsafe_exec {
            sandbox.try_walls()?;
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
            self.walls,
            self.limits
        )
    }

    /// Runs a program that nobody trusts, for at most `timeout`. `Err` means that the sandbox itself could not run it.
    pub fn run(&self, program: &str, timeout: Duration) -> Result<Execution, String> {
        self.runner().run(program, timeout).map_err(|failure| failure.to_string())
    }

    /// Runs a program of the caller's own behind the same walls and returns the text that it leaves in its variable `answer`:
    /// nothing if it raises or takes longer than `timeout`. `Err` means that the sandbox itself could not run it.
    pub fn answer(&self, program: &str, timeout: Duration) -> Result<Option<String>, String> {
        self.runner().answer(program, timeout).map_err(|failure| failure.to_string())
    }

    fn runner(&self) -> Runner<'_> {
        Runner { cage: &self.cage, layers: self.layers, limits: &self.limits }
    }

    /// A program that should be stopped at everything it tries: it fails if it was, and passes with what got through.
    fn try_walls(&self) -> Result<(), Error> {
        let start = |problem| Error::Start { layers: self.walls.clone(), problem };
        let canary = self.cage.canary().map_err(|problem| start(problem.to_string()))?;
        let path = format!("{:?}", canary.path().to_string_lossy());
        let report = self.run(&TRY_WALLS.replace("CANARY", &path), PROBE_TIMEOUT).map_err(start)?;
        match report.result.strip_prefix("failed: tried ") {
            Some("") => Ok(()),
            Some(leak) => Err(Error::Leaks { leak: leak.into() }),
            None => Err(start(format!("a harmless program ended with `{}`", report.result))),
        }
    }
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// For a process that a signal is about to end: ends every program and removes every directory of all its sandboxes.
/// Whoever waits for a verdict, or asks for one from now on, waits for the end: what became of a program that was killed
/// for this must not be taken for its result.
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

/// Long enough for a machine under load; the program itself takes a moment.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// `CANARY` is a file outside, readable to the user who runs this.
const TRY_WALLS: &str = r#"
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
