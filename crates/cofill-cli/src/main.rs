//! The `cofill` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    cofill_cli::main()
}
