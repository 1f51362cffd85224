//! Whom a worker waits for, told to whoever looks on: soon when somebody is stopped, seldom when all is well.

use crate::show::{count, live};
use cofill_eval::sweep::{Holder, State, Waiting};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The end of a sweep is a moment of waiting for the others; nobody needs to hear of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Told at twice the time, and twice that; but not more seldom than this.
const SELDOM: Duration = Duration::from_secs(600);

/// What all workers of this process say about waiting, each thing once.
pub(super) struct Waits {
    told: Mutex<HashMap<String, Told>>,
    note: Mutex<String>,
}

/// What was said of a worker.
struct Told {
    first: Instant,
    state: State,
    /// When to speak of it next, after `first`.
    next: Duration,
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits { told: Mutex::default(), note: Mutex::default() }
    }

    /// Hears for whom a worker of ours waits, and says so when it is time: on a terminal at the foot of the table, elsewhere in a line.
    pub(super) fn hear(&self, waiting: &[Waiting]) {
        // Workers of this process wait for each other, too; that is no news.
        let own = |holder: &Holder| {
            let pid = holder.process.as_ref().map(|(_, pid)| *pid);
            matches!(holder.state, State::Running | State::Stopped) && pid == Some(std::process::id())
        };
        let lines: Vec<String> = waiting
            .iter()
            .filter(|waiting| !own(&waiting.holder) && self.is_time(&waiting.holder, Instant::now()))
            .map(line)
            .collect();
        if waiting.is_empty() {
            lock(&self.note).clear();
        }
        for line in lines {
            match live() {
                true => *lock(&self.note) = format!("\n{line}"),
                false => drop(writeln!(anstream::stderr(), "{line}")), // nobody is left to tell when stderr is gone
            }
        }
    }

    /// What stands at the foot of the table.
    pub(super) fn note(&self) -> String {
        lock(&self.note).clone()
    }

    /// Whether to speak of somebody now. What is not well is told at once.
    fn is_time(&self, holder: &Holder, now: Instant) -> bool {
        let mut told = lock(&self.told);
        let new = || Told { first: now, state: State::Running, next: PATIENCE };
        let told = told.entry(holder.worker.clone()).or_insert_with(new);
        let is_worse = told.state != holder.state && matches!(holder.state, State::Stopped | State::Unknown);
        told.state = holder.state;
        let waited = now.duration_since(told.first);
        if waited < told.next && !is_worse {
            return false;
        }
        told.next = waited.max(PATIENCE) + waited.clamp(PATIENCE, SELDOM);
        true
    }
}

/// Who, since when, what is the matter, and what can be done.
fn line(waiting: &Waiting) -> String {
    let Waiting { holder, units, since } = waiting;
    let process = holder.process.as_ref().map(|(host, pid)| format!("process {pid} on {host}"));
    let process = process.unwrap_or_else(|| "its card cannot be read".into());
    let (state, remedy) = match (holder.state, &holder.process) {
        (State::Stopped, Some((_, pid))) => (", stopped", format!("; `kill -CONT {pid}` lets it go on")),
        _ => ("", String::new()),
    };
    let (units, since) = (count(*units, "unit"), clock(*since));
    let expires = match holder.silent {
        // It has just been heard of.
        silent if silent < holder.lease / 2 && holder.state != State::Stopped && holder.state != State::Unknown => {
            String::new()
        }
        silent => format!("; silent for {}, taken over after {}", clock(silent), clock(holder.lease)),
    };
    format!("waiting for worker {} ({process}{state}), which has {units} since {since}{expires}{remedy}", holder.worker)
}

/// `1:05`, `2:00:00`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(state: State) -> Holder {
        let process = (state != State::Unknown).then(|| ("far".to_owned(), 12));
        let (silent, lease) = (Duration::from_secs(3), Duration::from_secs(60));
        Holder { worker: "far.12".into(), process, state, silent, lease }
    }

    #[test]
    fn waiting_is_told_seldom_and_trouble_at_once() {
        let (waits, begin) = (Waits::new(), Instant::now());
        let told = |state: State, seconds: &[u64]| -> Vec<u64> {
            let at = |second: &u64| begin + Duration::from_secs(*second);
            seconds.iter().copied().filter(|second| waits.is_time(&holder(state), at(second))).collect()
        };
        // At 5 seconds, then when the wait has doubled.
        let all: Vec<u64> = (0..=50).collect();
        assert_eq!(told(State::Running, &all), [5, 10, 20, 40]);
        // Stopped: now, and then as before.
        assert_eq!(told(State::Stopped, &[51, 52, 101, 102]), [51, 102]);
        assert_eq!(told(State::Running, &[103]), [0; 0]);
        assert_eq!(told(State::Unknown, &[104, 105]), [104]);
        // However long it takes, every ten minutes.
        let late: Vec<u64> = (4000..6000).collect();
        assert_eq!(told(State::Unknown, &late), [4000, 4600, 5200, 5800]);
    }

    #[test]
    fn a_line_says_who_since_when_and_what_to_do() {
        let line = |state| line(&Waiting { holder: holder(state), units: 2, since: Duration::from_secs(75) });
        assert_eq!(line(State::Running), "waiting for worker far.12 (process 12 on far), which has 2 units since 1:15");
        let stopped = "waiting for worker far.12 (process 12 on far, stopped), which has 2 units since 1:15; silent for 0:03, taken over after 1:00; `kill -CONT 12` lets it go on";
        assert_eq!(line(State::Stopped), stopped);
        let unknown = "waiting for worker far.12 (its card cannot be read), which has 2 units since 1:15; silent for 0:03, taken over after 1:00";
        assert_eq!(line(State::Unknown), unknown);
    }
}
