//! The `cofill` command: arguments in, one function per command.
//!
//! stdout is the answer, stderr the rest. Exit codes: 0 it worked, 1 the run failed (or two traces differ, or a model deviates), 2 the request was wrong.

mod answer;
mod bench;
mod canvas;
mod eval;
mod fail;
mod generate;
mod mini;
mod model;
mod models;
mod probe;
mod progress;
mod samplers;
mod select;
mod show;
mod trace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Decide which masked positions may be committed together.
///
/// cofill runs masked diffusion language models and their samplers: ADAS, the samplers it improves, and its rivals.
#[derive(Parser)]
#[command(name = "cofill", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Generate(Box<generate::Args>),
    Select(select::Args),
    Probe(probe::Args),
    Models(models::Args),
    Samplers(samplers::Args),
    Trace(trace::Args),
    Bench(bench::Args),
    Eval(eval::Args),
    Mini(mini::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Generate(args) => generate::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Samplers(args) => samplers::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Mini(args) => mini::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(fail) => fail.report(),
    }
}
