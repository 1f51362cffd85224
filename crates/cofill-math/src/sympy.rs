//! The harness's own comparison of formulas, by sympy in a Python process: slower than ours, and the reference for it.
//!
//! One process serves all pairs. It stops itself after the harness's five seconds; one that does not, because it is deep inside
//! an operation on huge numbers, is killed from here and started again for the next pair. Both count as "not equal".

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SCRIPT: &str = include_str!("sympy.py");

/// The versions the goldens were made with.
const PACKAGES: &str = "sympy==1.14.0 antlr4-python3-runtime==4.11.0";

/// How long Python may take to import sympy.
const START: Duration = Duration::from_secs(120);

/// How long a pair may take before its process is killed; it should have given up by itself after five seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why sympy cannot judge.
#[derive(Debug, thiserror::Error)]
pub enum SympyError {
    /// No such program, or it may not be run.
    #[error("cannot run `{}` to judge with sympy: {why}; it must be a Python 3", python.display())]
    Spawn {
        /// The program, as it was named.
        python: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// Python runs, but sympy or the parser runtime is missing or of the wrong version.
    #[error(
        "`{}` cannot judge with sympy ({why}); install it with `{} -m pip install {PACKAGES}`",
        python.display(),
        python.display()
    )]
    Missing {
        /// The program, as it was named.
        python: PathBuf,
        /// What Python said when it imported them.
        why: String,
    },
    /// The process answered something else, or nothing.
    #[error("the sympy process of `{}` is out of order: {why}", python.display())]
    Broken {
        /// The program, as it was named.
        python: PathBuf,
        /// What it answered, or that it did not.
        why: String,
    },
}

/// Judges by sympy in a Python process.
pub struct Sympy {
    python: PathBuf,
    versions: String,
    process: Mutex<Option<Process>>,
}

impl Sympy {
    /// Starts a process of `python` and makes sure that it can judge.
    pub fn start(python: &Path) -> Result<Self, SympyError> {
        let (process, versions) = Process::start(python)?;
        Ok(Sympy { python: python.to_owned(), versions, process: Mutex::new(Some(process)) })
    }

    /// The versions of sympy and its parser, for the header of a file of results.
    pub fn versions(&self) -> &str {
        &self.versions
    }

    /// Whether `given` equals `gold`; both are normalised answers.
    pub fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, SympyError> {
        let mut slot = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut process = match slot.take() {
            Some(process) => process,
            None => Process::start(&self.python)?.0,
        };
        let broken = |why: String| SympyError::Broken { python: self.python.clone(), why };
        process.send(&json!({ "given": given, "gold": gold })).map_err(|e| broken(e.to_string()))?;
        match process.answers.recv_timeout(PATIENCE) {
            Ok(answer) => {
                let equal = answer.get("equiv").and_then(Value::as_bool);
                *slot = Some(process);
                equal.ok_or_else(|| broken(format!("it answered `{answer}`")))
            }
            // Dropping the process kills it. A pair of which it died counts as not equal, like one that takes too long.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }
}

/// A running Python; dropping it ends it.
struct Process {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<Value>,
}

impl Process {
    /// Starts one, and gives its versions.
    fn start(python: &Path) -> Result<(Self, String), SympyError> {
        let spawn = |why| SympyError::Spawn { python: python.to_owned(), why };
        let broken = |why: &str| SympyError::Broken { python: python.to_owned(), why: why.to_owned() };
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            // sympy walks sets; a fixed seed makes it walk them the same way every time.
            .env("PYTHONHASHSEED", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(spawn)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(broken("it has no pipes"));
        };
        let (send, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(answer) = line.map_err(|_| ()).and_then(|line| serde_json::from_str(&line).map_err(|_| ()))
                else {
                    return;
                };
                if send.send(answer).is_err() {
                    return;
                }
            }
        });
        let process = Process { child, stdin, answers };
        let hello = match process.answers.recv_timeout(START) {
            Ok(hello) => hello,
            Err(RecvTimeoutError::Timeout) => return Err(broken("it did not start within two minutes")),
            Err(RecvTimeoutError::Disconnected) => return Err(broken("it ended before it began; is this a Python 3?")),
        };
        if let Some(why) = hello.get("error").and_then(Value::as_str) {
            return Err(SympyError::Missing { python: python.to_owned(), why: why.to_owned() });
        }
        let version = |of: &str| hello.get(of).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let versions =
            format!("sympy {}, antlr4 {}, Python {}", version("sympy"), version("antlr4"), version("python"));
        Ok((process, versions))
    }

    fn send(&mut self, pair: &Value) -> std::io::Result<()> {
        writeln!(self.stdin, "{pair}")?;
        self.stdin.flush()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_python_is_named() {
        let error = Sympy::start(Path::new("/nowhere/python")).err().unwrap().to_string();
        assert!(error.contains("/nowhere/python") && error.contains("it must be a Python 3"), "{error}");
    }

    #[test]
    fn a_program_that_is_no_python_is_named() {
        let error = Sympy::start(Path::new("/bin/true")).err().unwrap().to_string();
        assert!(error.contains("/bin/true") && error.contains("out of order"), "{error}");
    }

    #[test]
    fn the_script_says_what_to_install() {
        let why = "ModuleNotFoundError: No module named 'sympy'".to_owned();
        let error = SympyError::Missing { python: "python3".into(), why }.to_string();
        assert!(error.contains("python3 -m pip install sympy==1.14.0 antlr4-python3-runtime==4.11.0"), "{error}");
    }
}
