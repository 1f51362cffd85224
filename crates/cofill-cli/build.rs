//! Leaves the commit in the program, so that results can say what made them.

use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // `-dirty` when sources differ from the commit: results of such a build cannot be reproduced from it.
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]);
    println!("cargo:rustc-env=COFILL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo:rerun-if-changed=..");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
}
