//! Slurm's own commands: submit an array, ask what became of it. Nothing is linked against Slurm, so any release will do.

use crate::fail::{Done, Fail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A job that was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// As Slurm counts them.
    pub(crate) id: String,
}

/// What the queue says of a job's array tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Queue {
    /// How many are in which state, by name.
    Waiting(BTreeMap<String, usize>),
    /// It is no longer in the queue.
    Gone,
    /// The controller did not answer, and this is what was said instead.
    Silent(String),
}

/// Submits `script` as an array with one task for each of `shards`; `options` are the user's own.
pub(crate) fn submit(script: &Path, logs: &Path, shards: &[usize], options: &[String]) -> Done<Job> {
    let array: Vec<String> = shards.iter().map(ToString::to_string).collect();
    let mut command = Command::new("sbatch");
    command.arg("--parsable").arg("--job-name=cofill-sweep").arg(format!("--array={}", array.join(",")));
    command.arg(format!("--output={}", logs.join("%A_%a.log").display()));
    // The user's options come last: of two that say the same thing, Slurm takes the later one.
    let output = start(command.args(options).arg(script))?;
    let said = String::from_utf8_lossy(&output.stdout);
    // `123`, or `123;cluster` where there are several.
    let id = said.trim().split(';').next().unwrap_or_default();
    match output.status.success() && id.bytes().all(|byte| byte.is_ascii_digit()) && !id.is_empty() {
        true => Ok(Job { id: id.into() }),
        false => {
            let problem = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Err(Fail::request(format!("sbatch refused: {problem}{}", said.trim())))
        }
    }
}

impl Job {
    /// Where its tasks are.
    pub(crate) fn queue(&self) -> Done<Queue> {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", "--format=%T", "--jobs"]).arg(&self.id);
        let output = start(&mut command)?;
        Ok(queue(output.status.success(), &output.stdout, &output.stderr))
    }

    /// How its tasks ended, by array index: `FAILED, exit code 1:0`. Empty where accounting is off.
    pub(crate) fn ends(&self) -> BTreeMap<usize, String> {
        let mut command = Command::new("sacct");
        command.args(["--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode", "--jobs"]);
        match start(command.arg(&self.id)) {
            Ok(output) if output.status.success() => ends(&String::from_utf8_lossy(&output.stdout)),
            _ => BTreeMap::new(),
        }
    }

    /// Takes tasks out of the queue that have not begun: there is nothing left for them.
    pub(crate) fn cancel_pending(&self) {
        let _ = start(Command::new("scancel").args(["--state=PENDING", &self.id]));
    }
}

fn start(command: &mut Command) -> Done<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|error| {
        let remedy = "run this where Slurm's commands are, usually the login node";
        Fail::request(format!("`{program}` cannot be started: {error}; {remedy}"))
    })
}

/// What squeue's answer means. A job that ended some minutes ago is no longer known, which is an error to squeue.
fn queue(success: bool, stdout: &[u8], stderr: &[u8]) -> Queue {
    let problem = String::from_utf8_lossy(stderr);
    if !success {
        return match problem.contains("Invalid job id") {
            true => Queue::Gone,
            false => Queue::Silent(problem.trim().replace('\n', "; ")),
        };
    }
    let mut states = BTreeMap::new();
    for state in String::from_utf8_lossy(stdout).split_whitespace() {
        *states.entry(state.to_lowercase()).or_insert(0) += 1;
    }
    if states.is_empty() { Queue::Gone } else { Queue::Waiting(states) }
}

/// Lines of sacct: `12_3|FAILED|1:0`, and `12_[4-7]|PENDING|0:0` for those that never began.
fn ends(text: &str) -> BTreeMap<usize, String> {
    let end = |line: &str| {
        let mut fields = line.split('|');
        let (job, state, code) = (fields.next()?, fields.next()?, fields.next()?);
        let index = job.split_once('_')?.1.parse().ok()?;
        (state != "COMPLETED").then(|| (index, format!("{state}, exit code {code}")))
    };
    text.lines().filter_map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_in_every_mood() {
        let states = BTreeMap::from([("pending".into(), 1), ("running".into(), 2)]);
        assert_eq!(queue(true, b"RUNNING\nPENDING\nRUNNING\n", b""), Queue::Waiting(states));
        assert_eq!(queue(true, b"", b""), Queue::Gone);
        assert_eq!(queue(false, b"", b"slurm_load_jobs error: Invalid job id specified\n"), Queue::Gone);
        let silent = queue(false, b"", b"slurm_load_jobs error: Unable to contact slurm controller\n");
        assert!(matches!(silent, Queue::Silent(problem) if problem.contains("Unable to contact")));
    }

    #[test]
    fn ends_are_those_of_tasks_that_failed() {
        let text = "12_0|COMPLETED|0:0\n12_1|FAILED|1:0\n12_2|NODE_FAIL|0:0\n12_[3-5]|PENDING|0:0\n";
        let expected = [(1, "FAILED, exit code 1:0".to_string()), (2, "NODE_FAIL, exit code 0:0".into())];
        assert_eq!(ends(text), BTreeMap::from(expected));
    }
}
