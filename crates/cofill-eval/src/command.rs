//! Answers scored by a command of the user's own.
//!
//! For each batch the command is started once, in the folder of the task file and without a shell. It reads a line for each answer,
//! `{"doc_id": 0, "prompt": "..", "answer": "..", "row": {..}}`, until its input ends, and writes a line for each, in the same order:
//! `{"score": 1}`, from 0 to 1 or a truth value, with `"why"` if it likes. Everything at once rather than in turn, because a program whose
//! output goes into a pipe keeps it back until it ends, and nobody should have to know that.
//!
//! A command that fails, hangs, floods or writes something else has judged nothing: its answers are unjudged, never wrong. When a batch fails,
//! its answers are asked one by one, so that one of them costs only itself.

use cofill_tasks::judge::{External, Score};
use cofill_tasks::own::CommandCheck;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a command may write, at least and more for each answer. A score takes some twenty bytes; the rest is for reasons.
const OUTPUT: usize = 64 << 10;
/// How much of what it says about itself is kept.
const ERRORS: usize = 4 << 10;
/// How often we look whether it has ended.
const TICK: Duration = Duration::from_millis(10);
/// How long its output may stay open when it has ended: a child of its own may hold it.
const GRACE: Duration = Duration::from_secs(1);

/// A command, ready to be started.
#[derive(Debug)]
pub struct CommandJudge {
    argv: Vec<String>,
    folder: PathBuf,
    timeout: Duration,
}

impl CommandJudge {
    /// The command of a task file in this folder. Nothing is started yet.
    pub fn new(check: &CommandCheck, folder: &Path) -> CommandJudge {
        // So that a program of that folder is found whatever the system makes of relative names.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        CommandJudge { argv: check.argv.clone(), folder, timeout: check.timeout }
    }

    /// Scores a batch, or says why nothing of it was.
    fn ask(&self, answers: &[Value]) -> Result<Vec<Result<Score, String>>, String> {
        wait_if_ending();
        let asked: String = answers.iter().map(|answer| format!("{answer}\n")).collect();
        let mut running = self.start()?;
        let talked = running.talk(asked, OUTPUT * (answers.len() + 1), self.timeout);
        let status = running.end();
        wait_if_ending(); // that it was killed because we end is not its failure
        let (output, errors) = (take(&running.output), take(&running.errors));
        let said = String::from_utf8_lossy(&errors);
        let said = said.trim().lines().last().unwrap_or_default();
        let with = |problem: String| if said.is_empty() { problem } else { format!("{problem}; it said: {said}") };
        talked.map_err(with)?;
        if let Some(status) = status.filter(|status| !status.success()) {
            return Err(with(format!("the command ended with {status}")));
        }
        verdicts(&output, answers).map_err(with)
    }

    fn start(&self) -> Result<Running, String> {
        let Some((program, arguments)) = self.argv.split_first() else { return Err("there is no command".into()) };
        let inside = self.folder.join(program);
        let has_folder = Path::new(program).components().count() > 1;
        let mut command = if has_folder { Command::new(inside) } else { Command::new(program) };
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In a group of its own, so that whatever it starts ends with it.
        #[cfg(target_os = "linux")]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut running = alive();
        let child = command.spawn().map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        running.push(child.id());
        drop(running);
        wait_if_ending();
        Ok(Running { child, output: Arc::default(), errors: Arc::default() })
    }
}

impl External for CommandJudge {
    fn scores(&self, answers: &[Value]) -> Vec<Result<Score, String>> {
        match self.ask(answers) {
            Ok(scores) => scores,
            Err(problem) if answers.len() <= 1 => answers.iter().map(|_| Err(problem.clone())).collect(),
            Err(_) => answers.iter().flat_map(|answer| self.scores(std::slice::from_ref(answer))).collect(),
        }
    }
}

/// Bytes that a thread collects.
type Collected = Arc<Mutex<Vec<u8>>>;

fn take(collected: &Collected) -> Vec<u8> {
    std::mem::take(&mut collected.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A command at work.
struct Running {
    child: Child,
    output: Collected,
    errors: Collected,
}

impl Running {
    /// Writes to it and reads from it until it has ended, or says why it did not as it should.
    fn talk(&mut self, asked: String, most: usize, timeout: Duration) -> Result<(), String> {
        let (stdin, stdout, stderr) = (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        // Threads that end when the pipes do. Whoever reads nothing blocks the first of them, not us.
        std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(asked.as_bytes())));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (output, closed) = (self.output.clone(), is_closed.clone());
        std::thread::spawn(move || {
            stdout.into_iter().for_each(|stdout| collect(stdout, &output, most, Keep::Beginning));
            closed.store(true, Ordering::SeqCst);
        });
        let errors = self.errors.clone();
        std::thread::spawn(move || stderr.into_iter().for_each(|stderr| collect(stderr, &errors, ERRORS, Keep::End)));
        let ends = Instant::now() + timeout;
        let mut grace: Option<Instant> = None;
        loop {
            if self.output.lock().unwrap_or_else(PoisonError::into_inner).len() > most {
                return Err(format!("the command wrote more than {most} bytes"));
            }
            if self.has_ended() {
                let waits = *grace.get_or_insert_with(|| Instant::now() + GRACE);
                if is_closed.load(Ordering::SeqCst) || Instant::now() >= waits {
                    return Ok(());
                }
            } else if Instant::now() >= ends {
                return Err(format!("the command took more than {} seconds", timeout.as_secs_f64()));
            }
            std::thread::sleep(TICK);
        }
    }

    /// Whether it has ended. It is not reaped yet, so that its number stays its own until its group was ended.
    #[cfg(target_os = "linux")]
    fn has_ended(&mut self) -> bool {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error is that there is no such child: somebody else has reaped it.
        waitid(WaitId::Pid(Pid::from_child(&self.child)), options).map_or(true, |status| status.is_some())
    }

    #[cfg(not(target_os = "linux"))]
    fn has_ended(&mut self) -> bool {
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// Ends it and whatever it has started.
    fn end(&mut self) -> Option<ExitStatus> {
        kill(self.child.id());
        let _ = self.child.kill(); // fails only when it has ended already
        let status = self.child.wait().ok();
        alive().retain(|id| *id != self.child.id());
        status
    }
}

/// Which part of too much is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Beginning,
    End,
}

/// Reads to the end, and keeps so much of it; of a beginning, enough more to see that there was more.
fn collect(mut from: impl Read, into: &Collected, most: usize, keep: Keep) {
    let mut buffer = [0; 8192];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..n]);
        let beyond = kept.len().saturating_sub(most);
        match keep {
            Keep::Beginning if beyond > 0 => return,
            Keep::Beginning => {}
            Keep::End => drop(kept.drain(..beyond)),
        }
    }
}

/// The verdicts that a command wrote. What cannot be told apart from a command that is out of step judges nothing.
fn verdicts(output: &[u8], answers: &[Value]) -> Result<Vec<Result<Score, String>>, String> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut all = Vec::new();
    for (n, line) in (1..).zip(lines) {
        let line: Value = serde_json::from_slice(line).map_err(|_| {
            let shown: String = String::from_utf8_lossy(line).chars().take(60).collect();
            format!("line {n} of the command is not JSON: `{}`", shown.escape_debug())
        })?;
        let asked = answers.get(n - 1).map(|answer| &answer["doc_id"]);
        if let (Some(said), Some(asked)) = (line.get("doc_id"), asked)
            && said != asked
        {
            return Err(format!("line {n} of the command is about doc_id {said}, where {asked} belongs"));
        }
        all.push(verdict(&line).map_err(|problem| format!("line {n} of the command {problem}")));
    }
    match all.len() == answers.len() {
        true => Ok(all),
        false => Err(format!("the command wrote {} lines for {} answers", all.len(), answers.len())),
    }
}

fn verdict(line: &Value) -> Result<Score, String> {
    let score = match &line["score"] {
        Value::Bool(right) => f64::from(u8::from(*right)),
        Value::Number(score) => score.as_f64().unwrap_or(f64::NAN),
        Value::Null => return Err("has no `score`; write {\"score\": 1}".into()),
        other => return Err(format!("has the score {other}, which is no number")),
    };
    if !(0.0..=1.0).contains(&score) {
        return Err(format!("has the score {}, but it must be from 0 to 1", line["score"]));
    }
    // Reasons are for people, who read a line.
    let why = line["why"].as_str().map(|why| why.chars().take(1000).collect());
    Ok(Score { score, why })
}

/// Commands that run now. None of them was reaped, so the numbers are still theirs.
static ALIVE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static ENDING: AtomicBool = AtomicBool::new(false);

fn alive() -> MutexGuard<'static, Vec<u32>> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For a process that a signal is about to end: ends every command. Threads that wait for one, or start one from now on, are stopped for
/// good: that a command was killed because the process ends must not be recorded as its failure.
pub fn end_everything() {
    ENDING.store(true, Ordering::SeqCst);
    alive().iter().for_each(|id| kill(*id));
}

fn wait_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends a command's group. Elsewhere than on Linux it has none of its own, and Ctrl-C reaches it as it reaches us.
#[cfg(target_os = "linux")]
fn kill(id: u32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL); // fails only when nobody is left in it
    }
}

#[cfg(not(target_os = "linux"))]
fn kill(_: u32) {}

#[cfg(test)]
mod tests;
