//! The `cofill` command that the package installs: the same program, in Python's process.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command with these arguments, the first of which is what it was called, and returns its exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let program = args.first().map(PathBuf::from).unwrap_or_default();
    let program = std::fs::canonicalize(&program).unwrap_or(program);
    let code = py.detach(|| cofill_cli::run(program, args));
    // An exit code does not tell its number.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
