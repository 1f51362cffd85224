//! One program, from its text to how it ended.
//!
//! The time limit is kept here. The driver sets an alarm as the harness does, but a program can catch the exception it
//! raises; a second later the process is killed. The clock starts when the driver says that the program does, so that
//! a slow start of Python on a loaded machine is not counted.

use super::cage::{Cage, Running};
use super::protocol::{self, Nonce, Purpose};
use super::{Execution, Layers, Limits};
use std::io::{Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Python has this long to start, packages included that the program imports.
const STARTUP: Duration = Duration::from_secs(60);
/// The harness joins for a second longer than its alarm.
const GRACE: Duration = Duration::from_secs(1);
/// How often we look at what the kernel does not limit.
const TICK: Duration = Duration::from_millis(20);

/// Why it cannot be said how a program ends: not the program failed, but running it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("cannot start Python: {0}")]
    Start(String),
    #[error("Python ended before the program began: {0}")]
    Early(String),
    #[error("the answer of a program of ours cannot be used: {0}")]
    Answer(String),
}

/// Runs programs, each in a process of its own, and removes everything they leave.
pub(super) struct Runner<'a> {
    pub(super) cage: &'a Cage,
    pub(super) layers: Layers,
    pub(super) limits: &'a Limits,
}

impl Runner<'_> {
    /// How a program ends.
    pub(super) fn run(&self, program: &str, timeout: Duration) -> Result<Execution, Failure> {
        let (answer, nonce) = self.ask_driver(program, timeout, Purpose::Judge)?;
        Ok(protocol::decode(&answer, &nonce))
    }

    /// What a program of our own leaves in its variable `answer`; `None` if it raises or takes too long.
    pub(super) fn answer(&self, program: &str, timeout: Duration) -> Result<Option<String>, Failure> {
        let (answer, _) = self.ask_driver(program, timeout, Purpose::Answer)?;
        protocol::text(&answer).map_err(Failure::Answer)
    }

    /// Everything the driver says after the program began.
    fn ask_driver(&self, program: &str, timeout: Duration, purpose: Purpose) -> Result<(Vec<u8>, Nonce), Failure> {
        super::wait_if_ending();
        let start = self.cage.start(self.layers, self.limits, timeout + GRACE);
        super::wait_if_ending();
        let mut running = start.map_err(|error| Failure::Start(error.to_string()))?;
        let nonce = Nonce::new();
        let memory = if self.layers.rlimits { self.limits.memory } else { 0 };
        let request = protocol::request(program, timeout, memory, self.layers, purpose);
        let answers = exchange(&mut running, request, nonce, purpose);
        let answer = listen(&answers, &running, timeout, &nonce, purpose);
        running.end();
        super::wait_if_ending();
        Ok((answer?, nonce))
    }
}

/// Two threads that write the request and read the answer. They end when the process does.
fn exchange(running: &mut Running, request: Vec<u8>, nonce: Nonce, purpose: Purpose) -> Receiver<Vec<u8>> {
    let (stdin, stdout) = running.pipes();
    thread::spawn(move || {
        let Some(mut stdin) = stdin else { return };
        // Writing fails when the process has ended; the reader will notice that.
        let _ = stdin.write_all(&request).and_then(|()| stdin.write_all(nonce.bytes()));
    });
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut stdout) = stdout else { return };
        let mut buffer = [0; 4096];
        let mut total = 0;
        while let Ok(n @ 1..) = stdout.read(&mut buffer) {
            total += n;
            if send.send(buffer[..n].to_vec()).is_err() || total > purpose.longest() {
                return;
            }
        }
    });
    receive
}

/// Waits for an answer: until it is complete, the pipe is closed, time is up or the program takes more than it may.
fn listen(
    answers: &Receiver<Vec<u8>>,
    running: &Running,
    timeout: Duration,
    nonce: &Nonce,
    purpose: Purpose,
) -> Result<Vec<u8>, Failure> {
    let mut answer = Vec::new();
    let starts = Instant::now() + STARTUP;
    while answer.is_empty() {
        match answers.recv_timeout(starts.saturating_duration_since(Instant::now())) {
            Ok(bytes) => answer.extend(bytes),
            Err(RecvTimeoutError::Timeout) => return Err(Failure::Early(format!("it took more than {STARTUP:?}"))),
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Early("it said nothing".into())),
        }
    }
    if answer[0] != b'R' {
        // Until the driver is there, stderr is the same pipe: this is what Python said about itself.
        while let Ok(bytes) = answers.recv_timeout(TICK) {
            answer.extend(bytes);
        }
        let text = String::from_utf8_lossy(&answer);
        return Err(Failure::Early(text.trim().lines().last().unwrap_or_default().into()));
    }
    answer.remove(0);
    let ends = Instant::now() + timeout + GRACE;
    let mut looked = Instant::now();
    while !protocol::complete(&answer, nonce, purpose) {
        // Also while bytes keep coming: a program must not be able to put this off by writing.
        if looked.elapsed() >= TICK {
            if running.takes_too_much() {
                break;
            }
            looked = Instant::now();
        }
        let left = ends.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left.min(TICK)) {
            Ok(bytes) => answer.extend(bytes),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if left.is_zero() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(answer)
}
