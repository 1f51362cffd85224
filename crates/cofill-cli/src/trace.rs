//! `cofill trace`: look at what a decode did, without the model.

use crate::fail::{Done, Fail};
use crate::output::{ForceArgs, failed, refused};
use crate::show::{Show, count};
use anyhow::Context;
use cofill::Trace;
use cofill::trace_diff::{diff, settings};
use cofill_engine::Spelling;
use cofill_report::output::{self, Output};
use cofill_report::trace_page;
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Replay a trace, make a page of it, or find where two part.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show a decode again, step by step.
    Replay {
        /// Written by `cofill generate --trace`.
        file: PathBuf,
        /// Print the replayed canvas and its steps as one JSON object instead.
        #[arg(long)]
        json: bool,
    },
    /// Make a page for a browser: the canvas, step by step, and who waits for whom. It needs nothing but itself.
    Html {
        /// Written by `cofill generate --trace`.
        file: PathBuf,
        /// Write the page to FILE instead of stdout.
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        force: ForceArgs,
    },
    /// Find the first divergence of two decodes, and why. Exit code 1 when they differ.
    Diff {
        /// The first trace, A.
        a: PathBuf,
        /// The second trace, B.
        b: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::Replay { file, json } => replay(&read(file)?, *json),
        Command::Html { file, out, force } => html(file, out.as_deref(), force),
        Command::Diff { a, b } => compare((a, &read(a)?), (b, &read(b)?)),
    }
}

fn read(path: &Path) -> Done<Trace> {
    let name = || format!("`{}`", path.display());
    let file = File::open(path).with_context(name).map_err(Fail::Request)?;
    Trace::read(BufReader::new(file)).with_context(name).map_err(Fail::Request)
}

fn replay(trace: &Trace, as_json: bool) -> Done {
    let mut canvas = trace.canvas();
    let named = trace.header.pieces.len() == trace.header.tokens.len();
    let mut pieces: Vec<String> = match named {
        true => trace.header.pieces.clone(),
        false => trace.header.tokens.iter().map(ToString::to_string).collect(),
    };
    let spelling = if named { Spelling::of(&trace.header.model) } else { Spelling::Words };
    let mut show = Show::new(&canvas, &pieces, spelling, trace.header.probes);
    for step in &trace.steps {
        let texts: Vec<String> = match step.pieces.len() == step.commits.len() {
            true => step.pieces.clone(),
            false => step.commits.iter().map(|commit| commit.token.to_string()).collect(),
        };
        if !as_json {
            show.step(step, &texts)?;
        }
        step.apply(&mut canvas)?;
        pieces.resize(canvas.tokens().len(), "[MASK]".into());
        for (commit, text) in step.commits.iter().zip(texts) {
            pieces[commit.position] = text;
        }
        for &position in &step.remasked {
            pieces[position] = "[MASK]".into();
        }
        if let Some(collapse) = &step.collapsed {
            let end = pieces[collapse.by].clone();
            collapse.positions.iter().for_each(|&position| pieces[position] = end.clone());
        }
    }
    if let Some(end) = &trace.end {
        canvas.append(end.appended);
        pieces.resize(canvas.tokens().len(), "[MASK]".into());
    }
    let mut out = std::io::stdout().lock();
    let text = pieces.join(" ");
    if as_json {
        let (tokens, nfe) = (canvas.tokens(), trace.nfe());
        writeln!(out, "{}", json!({"tokens": tokens, "text": text, "nfe": nfe, "steps": trace.steps}))?;
    } else {
        writeln!(out, "{text}")?;
        let state = if trace.end.is_some() { "" } else { "  (interrupted)" };
        let header = &trace.header;
        let forwards = count(trace.nfe(), "forward");
        writeln!(anstream::stderr(), "{}  {}  {forwards}{state}", header.model, header.sampler)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn html(file: &Path, out: Option<&Path>, force: &ForceArgs) -> Done {
    let Some(path) = out else {
        write!(std::io::stdout().lock(), "{}", trace_page::page(&read(file)?))?;
        return Ok(ExitCode::SUCCESS);
    };
    output::check(path, force.existing()).map_err(refused("--out"))?;
    if path.canonicalize().is_ok_and(|out| file.canonicalize().is_ok_and(|file| file == out)) {
        return Err(Fail::request(format!("--out: `{}` is the trace itself; give another name", path.display())));
    }
    let page = trace_page::page(&read(file)?);
    let mut out = Output::whole(path, force.existing()).map_err(refused("--out"))?;
    let written = out.write_all(page.as_bytes()).map_err(|error| out.failed(error));
    written.and_then(|()| out.publish()).map_err(failed("--out"))?;
    let _ = writeln!(anstream::stderr(), "wrote {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn compare((a_path, a): (&Path, &Trace), (b_path, b): (&Path, &Trace)) -> Done {
    let mut out = std::io::stdout().lock();
    for (name, path, trace) in [("A", a_path, a), ("B", b_path, b)] {
        let (steps, forwards) = (count(trace.steps.len(), "step"), count(trace.nfe(), "forward"));
        writeln!(out, "{name}  {}  {}  {steps}, {forwards}", path.display(), trace.header.sampler)?;
    }
    for setting in settings(a, b) {
        writeln!(out, "differs: {setting}")?;
    }
    match diff(a, b) {
        None => {
            writeln!(out, "the same after every step")?;
            Ok(ExitCode::SUCCESS)
        }
        Some(difference) => {
            writeln!(out, "{difference}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
