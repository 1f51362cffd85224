//! Other engines as subprocesses: a Python script of ours that imports the package, and a protocol of JSON lines.
//!
//! A peer is started once. Its first line says what it is (`{"package": "torch", "version": ..}`) or what it lacks
//! (`{"missing": "torch"}`). Then every line that it reads is an order (`{"do": "time", ..}`) and is answered by one line: an object,
//! or `{"error": ".."}`. It ends when its input ends. Milliseconds are the peer's own: neither the process nor the pipe is in them.

use crate::fail::{Done, Fail};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Names the Python that has the packages, where `--peer-python` does not.
const PYTHON: &str = "COFILL_PEER_PYTHON";

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest line that is read.
const MOST_BYTES: u64 = 64 << 20;
/// How much of what it wrote on stderr is repeated when it dies.
const MOST_SAID: usize = 2000;
/// Before whoever's turn it is: threads of the one before go to sleep.
const SETTLE: Duration = Duration::from_millis(30);

/// Flags of commands that can measure peers.
#[derive(clap::Args)]
pub(super) struct PeerArgs {
    /// Have this package do the same work in turns: torch or llama.cpp. May be repeated.
    #[arg(long = "peer", value_name = "PACKAGE")]
    pub(super) peers: Vec<Package>,
    /// The Python that has these packages (default: COFILL_PEER_PYTHON, else python3).
    #[arg(long, value_name = "PATH", requires = "peers")]
    pub(super) peer_python: Option<OsString>,
}

impl PeerArgs {
    pub(super) fn python(&self) -> OsString {
        let given = self.peer_python.clone().or_else(|| std::env::var_os(PYTHON).filter(|path| !path.is_empty()));
        given.unwrap_or_else(|| "python3".into())
    }

    /// Starts the packages that were named, each once.
    pub(super) fn start(&self) -> Done<Vec<Peer>> {
        let mut packages = self.peers.clone();
        packages.sort_unstable();
        packages.dedup();
        packages.into_iter().map(|package| Peer::start(package, &self.python())).collect()
    }
}

/// Somebody else's engine, as a Python package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Package {
    Torch,
    LlamaCpp,
}

impl Package {
    const ALL: [(&'static str, Package); 2] = [("torch", Package::Torch), ("llama.cpp", Package::LlamaCpp)];

    fn script(self) -> &'static str {
        match self {
            Package::Torch => include_str!("peers/torch.py"),
            Package::LlamaCpp => include_str!("peers/llama_cpp.py"),
        }
    }

    /// What `pip install` calls it.
    fn distribution(self) -> &'static str {
        match self {
            Package::Torch => "torch",
            Package::LlamaCpp => "llama-cpp-python",
        }
    }
}

impl FromStr for Package {
    type Err = String;

    fn from_str(text: &str) -> Result<Package, String> {
        let known = Package::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, package)| *package).ok_or_else(|| "expected torch or llama.cpp".into())
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Package::ALL.iter().find(|(_, known)| known == self).map_or("", |(name, _)| name))
    }
}

/// A running peer. Dropping it ends it.
pub(super) struct Peer {
    pub(super) package: Package,
    pub(super) version: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<std::io::Result<String>>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Peer {
    fn start(package: Package, python: &OsString) -> Done<Peer> {
        let threads = rayon::current_num_threads().to_string();
        // Libraries that read these when they are loaded would otherwise begin with other numbers than ours.
        let numbers = ["OMP_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, &threads));
        let mut command = Command::new(python);
        command.args(["-u", "-c", package.script()]).args([&threads]).envs(numbers);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = python.to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|error| {
            let remedy = "--peer-python names the Python that has the package";
            Fail::request(format!("--peer {package}: `{name}` cannot be started: {error}; {remedy}"))
        })?;
        let (Some(orders), Some(answers), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Fail::request(format!("--peer {package}: `{name}` has no standard input and output")));
        };
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut peer = Peer {
            package,
            version: String::new(),
            child,
            orders: Some(orders),
            answers: lines(answers),
            said: said.clone(),
        };
        thread::spawn(move || keep_the_end(stderr, &said));
        let hello = peer.answer()?;
        if let Some(missing) = hello["missing"].as_str() {
            let install = package.distribution();
            return Err(Fail::request(format!(
                "--peer {package}: `{name}` cannot import {missing}; `{name} -m pip install {install}` installs it, and --peer-python names another Python"
            )));
        }
        peer.version = hello["version"].as_str().unwrap_or("of unknown version").to_owned();
        Ok(peer)
    }

    /// Gives an order and waits for the answer.
    pub(super) fn ask(&mut self, order: &Value) -> Done<Value> {
        if let Some(orders) = &mut self.orders {
            // A peer that has died says why on stderr, which `answer` repeats.
            let _ = writeln!(orders, "{order}").and_then(|()| orders.flush());
        }
        let answer = self.answer()?;
        match answer["error"].as_str() {
            Some(error) => Err(Fail::Run(anyhow::anyhow!("--peer {}: {error}", self.package))),
            None => Ok(answer),
        }
    }

    /// As [`ask`](Peer::ask), once nobody else computes.
    pub(super) fn ask_in_turn(&mut self, order: &Value) -> Done<Value> {
        settle();
        self.ask(order)
    }

    fn answer(&mut self) -> Done<Value> {
        let problem = match self.answers.recv_timeout(PATIENCE) {
            Ok(Ok(line)) => match serde_json::from_str::<Value>(&line) {
                Ok(answer) if answer.is_object() => return Ok(answer),
                _ => format!("it answered `{}`, which is no JSON object", start_of(&line)),
            },
            Ok(Err(error)) => error.to_string(),
            Err(RecvTimeoutError::Timeout) => format!("no answer for {} seconds", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => "it ended without an answer".into(),
        };
        // What it says last may still be on its way.
        self.end();
        thread::sleep(Duration::from_millis(20));
        let said = self.said.lock().map(|said| String::from_utf8_lossy(&said).trim().to_owned()).unwrap_or_default();
        let said = if said.is_empty() { said } else { format!("; it said: {said}") };
        Err(Fail::Run(anyhow::anyhow!("--peer {}: {problem}{said}", self.package)))
    }

    /// Closes its input, waits a moment, and ends it.
    fn end(&mut self) {
        self.orders = None;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if let Ok(Some(_)) | Err(_) = self.child.try_wait() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.version)
    }
}

/// Lets threads of whoever was measured last go to sleep.
pub(super) fn settle() {
    thread::sleep(SETTLE);
}

/// Lines of bounded length, read in a thread so that waiting for one can end.
fn lines(from: ChildStdout) -> Receiver<std::io::Result<String>> {
    let (send, receive) = sync_channel(1);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            let line = match from.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) if line.last() != Some(&b'\n') => Err(std::io::Error::other("it answered without an end")),
                Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                Err(error) => Err(error),
            };
            let ends = line.is_err();
            if send.send(line).is_err() || ends {
                return;
            }
        }
    });
    receive
}

fn keep_the_end(mut from: impl Read, said: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let Ok(mut said) = said.lock() else { return };
        said.extend_from_slice(&buffer[..n]);
        let surplus = said.len().saturating_sub(MOST_SAID);
        said.drain(..surplus);
    }
}

fn start_of(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
