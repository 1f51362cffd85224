//! `cofill bench`: how fast, measured side by side in one run.

mod constraint;
mod decode;
mod errors;
mod forward;
mod growth;
mod overhead;
mod peer;
mod scratch;
mod select;
mod step;
mod write;

use crate::fail::Done;

/// Measure speed, as ratios within one run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Constraint(constraint::Args),
    Decode(decode::Args),
    Errors(errors::Args),
    Forward(forward::Args),
    Growth(growth::Args),
    Overhead(overhead::Args),
    Select(select::Args),
    Write(write::Args),
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.what {
        What::Constraint(args) => constraint::run(args),
        What::Decode(args) => decode::run(args),
        What::Errors(args) => errors::run(args),
        What::Forward(args) => forward::run(args),
        What::Growth(args) => growth::run(args),
        What::Overhead(args) => overhead::run(args),
        What::Select(args) => select::run(args),
        What::Write(args) => write::run(args),
    }
}

/// The size of this program, in megabytes; where the system tells.
fn binary_mb() -> Option<f64> {
    let size = std::env::current_exe().and_then(std::fs::metadata).ok()?.len();
    Some(size as f64 / 1e6)
}

/// The memory that this process holds now, in megabytes; where the system tells.
fn rss_mb() -> Option<f64> {
    status_mb("VmRSS:")
}

/// The most memory this process has held since [`forget_peak`], in megabytes; where the system tells.
fn peak_rss_mb() -> Option<f64> {
    status_mb("VmHWM:")
}

fn status_mb(field: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Makes [`peak_rss_mb`] count from now. Where the system cannot, it counts from the start.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
