//! The options that every command has: how many threads compute, and whether there is colour.

use crate::fail::{Done, Fail};
use cofill_engine::MOST_THREADS;
use cofill_model::Kernels;
use std::error::Error;
use std::ffi::OsString;
use std::sync::OnceLock;

/// As typed, before or behind the name of a command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many threads compute (default: all there are). No result depends on it.
    #[arg(long, value_name = "N", global = true, help_heading = HEADING, value_parser = threads)]
    threads: Option<usize>,
    /// Colour and redrawing on terminals: auto, always or never. `auto` heeds NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, value_name = "WHEN", global = true, help_heading = HEADING, value_enum, hide_possible_values = true, hide_default_value = true, default_value_t = clap::ColorChoice::Auto)]
    color: clap::ColorChoice,
}

const HEADING: &str = "Global options";

/// What `--threads` was, for processes that do a part of the work elsewhere.
static THREADS: OnceLock<usize> = OnceLock::new();

/// The number that was given, if one was.
pub(crate) fn given_threads() -> Option<usize> {
    THREADS.get().copied()
}

impl Args {
    /// Makes them hold for this process.
    pub(crate) fn apply(&self) -> Done<()> {
        colour(self.color);
        Kernels::check_level()
            .map_err(|problem| Fail::request(format!("COFILL_KERNELS: {problem}; or leave it unset")))?;
        let Some(n) = self.threads else { return Ok(()) };
        if let Err(error) = rayon::ThreadPoolBuilder::new().num_threads(n).build_global() {
            // With a cause, the system refused to start that many. Without, somebody in this process (Python's) computed before us.
            if error.source().is_some() {
                return Err(Fail::Run(error.into()).about(&format!("--threads {n}")));
            }
            let already = rayon::current_num_threads();
            if already != n {
                return Err(Fail::request(format!(
                    "--threads {n}: this process already computes on {already}; give the number to the first command of a process, or start another"
                )));
            }
        }
        let _ = THREADS.set(n); // whoever was first is right as well: it is the same number
        Ok(())
    }
}

/// Before anything is parsed, so that help and errors of the parser have the colour that is asked for, too.
pub(crate) fn colour_first(args: &[OsString]) {
    let mut words = args.iter().map_while(|arg| arg.to_str().filter(|word| *word != "--"));
    let when = words.clone().find_map(|word| word.strip_prefix("--color="));
    let when = when.or_else(|| words.by_ref().find(|word| *word == "--color").and_then(|_| words.next()));
    if let Some(Ok(choice)) = when.map(|when| <clap::ColorChoice as clap::ValueEnum>::from_str(when, false)) {
        colour(choice);
    }
}

fn colour(choice: clap::ColorChoice) {
    match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

fn threads(given: &str) -> Result<usize, String> {
    let n = given.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n));
    n.ok_or_else(|| format!("expected a whole number, 1 to {MOST_THREADS}"))
}
