//! `--quiet`: stderr has errors, and nothing else.

use crate::show::lines;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of the process: warnings come from everywhere, and a command is one process.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Shared by commands that say more than their answer.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct QuietArgs {
    /// Say nothing but the answer, and errors: no bar, no numbers, no warnings.
    #[arg(short, long)]
    quiet: bool,
}

impl QuietArgs {
    /// From here on, notes, warnings and bars are left out if that was asked for.
    pub(crate) fn apply(self) {
        QUIET.store(self.quiet, Ordering::Relaxed);
    }
}

/// Whether only errors are to be heard.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A line on stderr that is neither the answer nor a warning: a meter, a verdict, where something was written.
pub(crate) fn note(line: &str) {
    if !is_quiet() {
        let _ = writeln!(anstream::stderr(), "{}", lines(line)); // nobody is left to tell when stderr is gone
    }
}
