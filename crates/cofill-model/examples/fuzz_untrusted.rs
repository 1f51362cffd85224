//! Mutated templates and tokenizers, as many as one likes, each within 10 seconds and 1 GB. `tools/fuzz` runs it.
//!
//!     fuzz_untrusted template 0 10000      # cases 0 to 9,999; exit code 1 if one fails
//!     fuzz_untrusted template 17           # prints case 17 and runs it in this process
//!
//! Cases go through the library in children of this program, a few hundred to a child, under a limit of memory, and are killed when
//! one takes too long. So an abort, a stack overflow or an endless loop ends a child, is told from the line that it wrote last, and
//! the next child goes on behind it. A case is made from its number alone.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a tool: what it prints is what it is for

#[path = "../tests/it/mutate.rs"]
mod mutate;

use mutate::Kind;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What a case may take.
const SECONDS: u64 = 10;
const KILOBYTES: u64 = 1 << 20;

/// Cases of one child.
const BATCH: u64 = 250;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let kind = match args.first().map(String::as_str) {
        Some("template") => Kind::Template,
        Some("tokenizer") => Kind::Tokenizer,
        _ => return usage(),
    };
    let numbers: Option<Vec<u64>> = args[1..].iter().filter(|it| *it != "--child").map(|it| it.parse().ok()).collect();
    match numbers.as_deref() {
        Some([number]) => {
            let case = mutate::case(kind, *number);
            println!("{case}\n{}", mutate::run(kind, *number, &case, &folder()));
        }
        Some([from, to]) if args.iter().any(|it| it == "--child") => child(kind, *from, *to),
        Some([from, to]) => parent(&args[0], *from, *to),
        _ => usage(),
    }
}

fn usage() {
    println!("usage: fuzz_untrusted template|tokenizer FROM TO, or one number to see that case");
    std::process::exit(2);
}

/// A place for one process's files.
fn folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("cofill-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs cases and says so before and after each.
fn child(kind: Kind, from: u64, to: u64) {
    let folder = folder();
    for number in from..to {
        println!("start {number}");
        let start = Instant::now();
        let outcome = mutate::run(kind, number, &mutate::case(kind, number), &folder);
        let word = match outcome.as_str() {
            "ok" => "ok",
            outcome if outcome.contains(mutate::FAULT) => "panic",
            _ => "refused",
        };
        println!("done {number} {} {word}", start.elapsed().as_millis());
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// What became of every case.
#[derive(Default)]
struct Tally {
    outcomes: BTreeMap<String, u64>,
    slowest: (u64, u64), // milliseconds, case
    failures: Vec<(u64, String)>,
}

fn parent(kind: &str, from: u64, to: u64) {
    let (start, mut tally, mut next) = (Instant::now(), Tally::default(), from);
    while next < to {
        next = batch(kind, next, (next + BATCH).min(to), &mut tally);
    }
    println!("{kind}: cases {from} to {}, at most {SECONDS} s and {KILOBYTES} kB each", to - 1);
    for (outcome, n) in &tally.outcomes {
        println!("  {outcome}: {n}");
    }
    println!("  slowest: case {}, {} ms", tally.slowest.1, tally.slowest.0);
    for (number, problem) in &tally.failures {
        println!("  FAILED: case {number}: {problem}; see it by `fuzz_untrusted {kind} {number}`");
    }
    println!("  {} failures, {} s", tally.failures.len(), start.elapsed().as_secs());
    std::process::exit(i32::from(!tally.failures.is_empty()));
}

/// Runs one child from `from` on and gives the case to go on with.
fn batch(kind: &str, from: u64, to: u64, tally: &mut Tally) -> u64 {
    let mut child = spawn(kind, from, to);
    let (sender, lines) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut running = from;
    loop {
        match lines.recv_timeout(Duration::from_secs(SECONDS)) {
            Ok(line) => {
                let words: Vec<&str> = line.split(' ').collect();
                match words.as_slice() {
                    ["start", number] => running = number.parse().unwrap(),
                    ["done", number, milliseconds, outcome] => {
                        let (number, milliseconds): (u64, u64) =
                            (number.parse().unwrap(), milliseconds.parse().unwrap());
                        *tally.outcomes.entry((*outcome).into()).or_default() += 1;
                        tally.slowest = tally.slowest.max((milliseconds, number));
                        if *outcome == "panic" {
                            tally.failures.push((number, "a panic that was caught".into()));
                        }
                        running = number + 1;
                    }
                    _ => {}
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                child.wait().unwrap();
                tally.failures.push((running, format!("more than {SECONDS} s")));
                *tally.outcomes.entry("too slow".into()).or_default() += 1;
                return running + 1;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait().unwrap();
                if status.success() {
                    return to;
                }
                tally.failures.push((running, format!("the process ended: {status}")));
                *tally.outcomes.entry("crash".into()).or_default() += 1;
                return running + 1;
            }
        }
    }
}

/// A child under a limit of memory, which the shell sets.
fn spawn(kind: &str, from: u64, to: u64) -> Child {
    let me = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {KILOBYTES}; exec \"$0\" \"$@\"")]).arg(me);
    command.args([kind, &from.to_string(), &to.to_string(), "--child"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}
