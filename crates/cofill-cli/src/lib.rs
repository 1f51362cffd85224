//! The `cofill` command as a function: arguments in, one function per command.
//!
//! stdout is the answer, stderr the rest. Exit codes: 0 it worked, 1 the run failed (or two traces differ, or a model deviates, or data is missing), 2 the request was wrong.
//!
//! A library so that other programs can be the command too: the Python package installs one that calls [`run`].

mod arguments;
mod bench;
mod calibrate;
mod canvas;
mod chat;
mod compare;
mod completions;
mod data;
mod diagnose;
mod download_bars;
mod eval;
mod everywhere;
mod examples;
mod explain;
mod fail;
mod generate;
mod infill;
mod judges;
mod load_args;
mod meter;
mod mini;
mod models;
mod output;
mod piped;
mod probe;
mod progress;
mod prompts;
mod pull;
mod quiet;
mod report;
mod samplers;
mod score;
mod select;
mod serve;
mod show;
mod signals;
mod sweep;
mod trace;
mod tune;
mod typed;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Decide which masked positions may be committed together.
///
/// cofill runs masked diffusion language models and their samplers: ADAS, the samplers it improves, and its rivals.
#[derive(Parser)]
#[command(name = "cofill", version, arg_required_else_help = true, max_term_width = 100, after_help = examples::TRY)]
struct Cli {
    #[command(flatten)]
    everywhere: everywhere::Args,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Generate(Box<generate::Args>),
    Chat(Box<chat::Args>),
    Infill(Box<infill::Args>),
    Compare(Box<compare::Args>),
    Serve(Box<serve::Args>),
    Select(select::Args),
    Probe(probe::Args),
    Models(models::Args),
    Pull(pull::Args),
    Samplers(samplers::Args),
    Trace(trace::Args),
    Explain(Box<explain::Args>),
    Diagnose(Box<diagnose::Args>),
    Calibrate(calibrate::Args),
    Bench(bench::Args),
    Eval(Box<eval::Args>),
    Sweep(sweep::Args),
    Prompts(prompts::Args),
    Score(score::Args),
    Data(data::Args),
    Report(report::Args),
    Tune(Box<tune::Args>),
    Mini(mini::Args),
    Completions(completions::Args),
    Man(completions::ManArgs),
}

/// The commit that this was built from, for results to name; `-dirty` if sources differed.
pub const COMMIT: &str = env!("COFILL_COMMIT");

/// How this program is started again, where jobs of a cluster do so; the running file unless [`run`] was told another.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Runs the command with these arguments, of which the first is what it was called. `program` starts it again.
pub fn run(program: PathBuf, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let _ = PROGRAM.set(program); // whoever was first is right as well
    parsed(&args.into_iter().collect::<Vec<_>>())
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    parsed(&std::env::args_os().collect::<Vec<_>>())
}

/// What starts this program again.
fn program() -> std::io::Result<PathBuf> {
    PROGRAM.get().cloned().map_or_else(std::env::current_exe, Ok)
}

fn parsed(args: &[OsString]) -> ExitCode {
    typed::remember(args);
    let done = match arguments::parse(args) {
        Ok(cli) => cli.everywhere.apply().and_then(|()| command(cli.command)),
        Err(code) => Ok(code),
    };
    match done {
        Ok(code) => code,
        Err(fail) => fail.report(),
    }
}

fn command(command: Command) -> fail::Done {
    download_bars::draw_downloads();
    match command {
        Command::Generate(mut args) => generate::run(&mut args),
        Command::Chat(mut args) => settled(&mut args.run).and_then(|()| chat::run(&args)),
        Command::Infill(mut args) => infill::run(&mut args),
        Command::Compare(mut args) => compare::run(&mut args),
        Command::Serve(args) => serve::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Samplers(args) => samplers::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Explain(mut args) => explain::run(&mut args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Eval(mut args) => settled(&mut args.run).and_then(|()| eval::run(&args)),
        Command::Sweep(args) => sweep::run(&args),
        Command::Prompts(args) => prompts::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Mini(args) => mini::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::man(&args),
    }
}

/// Fills in the strength of `+paths:auto`, so that whatever is printed or kept has the number.
fn settled(run: &mut cofill_engine::RunSpec) -> fail::Done<()> {
    Ok(run.settle()?)
}
