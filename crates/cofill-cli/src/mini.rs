//! `cofill mini`: the mini tasks as text, for training and for judging answers from elsewhere.

use crate::fail::{Done, Fail};
use cofill_engine::Judged;
use cofill_tasks::mini::{Error, Example, Mini, Split};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufWriter, Write};
use std::process::ExitCode;

/// Print examples of the mini tasks, or judge answers to them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Corpus(Corpus),
    Check(Check),
}

/// Print examples as JSONL: task, prompt, answer, length.
#[derive(clap::Args)]
struct Corpus {
    /// A task, or `all`, which takes them in turn.
    #[arg(long, default_value = "all")]
    task: String,
    /// How many examples.
    #[arg(short, long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    n: u64,
    /// The root of all randomness.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// train, validation or test. They share no prompt; in the last two, no prompt comes twice.
    #[arg(long, default_value = "train")]
    split: Split,
}

/// Judge answers: JSONL with `prompt` and `answer` on stdin, a verdict per line on stdout.
#[derive(clap::Args)]
struct Check {
    /// The task; `-` takes it from the field `task` of each line.
    #[arg(long, default_value = "-")]
    task: String,
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::Corpus(args) => corpus(args),
        Command::Check(args) => check(args),
    }
}

fn corpus(args: &Corpus) -> Done {
    let tasks = if args.task == "all" { Mini::ALL.to_vec() } else { vec![task(&args.task)?] };
    let mut out = BufWriter::new(std::io::stdout().lock());
    // Each task counts for itself, so `all` holds the same examples as the tasks one by one.
    let mut examples: Vec<_> = tasks.iter().map(|&task| (task, stream(task, args))).collect();
    let turns = examples.len() as u64;
    for i in 0..args.n {
        let (task, examples) = &mut examples[(i % turns) as usize];
        let Some(example) = examples.next() else {
            let (n, split) = (i / turns, args.split);
            return Err(Fail::request(format!("{task} has only about {n} {split} prompts; lower -n")));
        };
        let line = Line { task: task.name(), prompt: &example.prompt, answer: &example.answer, length: task.length() };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// To train, a prompt may come again with another answer; to score, it counts once.
fn stream(task: Mini, args: &Corpus) -> Box<dyn Iterator<Item = Example>> {
    let (split, seed) = (args.split, args.seed);
    match split {
        Split::Train => Box::new((0..).map(move |index| task.example(split, seed, index))),
        Split::Validation | Split::Test => Box::new(task.distinct(split, seed)),
    }
}

fn check(args: &Check) -> Done {
    let fixed = if args.task == "-" { None } else { Some(task(&args.task)?) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut right, mut n) = (0usize, 0usize);
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let at = |problem: String| Fail::request(format!("line {} of stdin: {problem}", i + 1));
        let asked: Asked = serde_json::from_str(&line).map_err(|error| at(error.to_string()))?;
        let task = match (fixed, &asked.task) {
            (Some(task), _) => task,
            (None, Some(name)) => name.parse().map_err(|error: Error| at(error.to_string()))?,
            (None, None) => return Err(at("no field `task`; add it or give --task".into())),
        };
        let verdict = task.check(&asked.prompt, &asked.answer).map_err(|error| at(error.to_string()))?;
        n += 1;
        right += usize::from(verdict.is_ok());
        writeln!(out, "{}", serde_json::to_string(&Judged::new(task, verdict))?)?;
    }
    out.flush()?;
    let _ = writeln!(anstream::stderr(), "{right} of {n} right");
    Ok(ExitCode::SUCCESS)
}

fn task(name: &str) -> Done<Mini> {
    name.parse().map_err(|error: Error| Fail::Request(error.into()))
}

/// A line of `corpus`.
#[derive(Serialize)]
struct Line<'a> {
    task: &'a str,
    prompt: &'a str,
    answer: &'a str,
    length: usize,
}

/// A line that `check` reads; other fields are passed over.
#[derive(Deserialize)]
struct Asked {
    task: Option<String>,
    prompt: String,
    answer: String,
}
