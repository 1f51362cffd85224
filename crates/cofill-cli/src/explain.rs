//! `cofill explain`: what ADAS deferred, because of whom, and what revealing that one did to it.

use crate::canvas::{CanvasArgs, forewarn};
use crate::fail::{Done, Fail};
use crate::output::{ForceArgs, failed, refused};
use crate::quiet::{QuietArgs, note};
use crate::settled;
use anstyle::AnsiColor;
use cofill_engine::{Engine, RunSpec};
use cofill_eval::diagnose::explain::{Palette, Story, Style};
use cofill_report::output::{self, Output};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show, step by step, what ADAS deferred, because of whom, and what revealing that one did to it.
///
/// A position is deferred when the same sampler without +ad would have committed it. Its reason is the chosen position
/// that took most from its score. The effect is measured: that position alone is revealed in a copy of the canvas, and
/// the model is asked again (KL divergence in nats, confidence before and after).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    canvas: CanvasArgs,
    #[command(flatten)]
    pub(crate) run: RunSpec,
    /// Also show deferrals that changed nothing: the token stayed the same to the end, and its distribution as it was (KL below 0.01 nats).
    #[arg(long)]
    all: bool,
    /// Also write a page for a browser; it needs nothing but itself.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: QuietArgs,
}

pub(crate) fn run(args: &mut Args) -> Done {
    args.quiet.apply();
    settled(&mut args.run)?;
    args.canvas.read()?;
    let args = &*args;
    if let Some(path) = &args.html {
        // Before a model is loaded.
        output::check(path, args.force.existing()).map_err(refused("--html"))?;
        if path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            Output::whole(path, args.force.existing()).map_err(refused("--html"))?; // which says that it cannot
        }
    }
    let RunSpec { model, sampler, options, .. } = &args.run;
    if options.max_nfe.is_some() {
        return Err(Fail::request("--max-nfe is not for explain, which follows a decode to its end; leave it out"));
    }
    options.fixed_length()?;
    options.without_cache()?;
    if let Some(name) = options.constraints().first() {
        return Err(Fail::request(format!(
            "--{name} is not for explain, which compares what the model alone would write; leave it out"
        )));
    }
    let mut engine = Engine::open(model, options)?;
    let (input, options) = args.canvas.input(&engine, options)?;
    let prepared = engine.prepare(&input, sampler, &options)?;
    forewarn(&engine, &input, &prepared);
    let mut story = Story::of(&mut engine, prepared, sampler, &options)?;
    story.all = args.all;
    if let Some(path) = &args.html {
        let mut page = Output::whole(path, args.force.existing()).map_err(refused("--html"))?;
        let written = page.write_all(story.html().as_bytes()).map_err(|error| page.failed(error));
        written.and_then(|()| page.publish()).map_err(failed("--html"))?;
    }
    let mut out = anstream::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", story.json()?)?,
        false => write!(out, "{}", story.painted(&palette(), width()))?,
    }
    if let Some(path) = &args.html {
        note(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns of the terminal; elsewhere, what most have.
fn width() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.into())
}

/// For a terminal; elsewhere, `anstream` leaves the codes out.
fn palette() -> Palette {
    let style = |style: anstyle::Style| Style { open: style.to_string(), close: format!("{style:#}") };
    Palette {
        bold: style(anstyle::Style::new().bold()),
        dim: style(AnsiColor::BrightBlack.on_default()),
        new: style(AnsiColor::Green.on_default().bold()),
        late: style(AnsiColor::Yellow.on_default().bold()),
    }
}
