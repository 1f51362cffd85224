//! What made a result: this program, from which commit, on which machine.

use serde_json::{Value, json};

/// As a JSON object. `commit` is that of the program, which only its own build can know.
pub fn provenance(commit: &str) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": commit,
        "machine": {
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "cpu": cpu(),
            "threads": rayon::current_num_threads(),
        },
    })
}

/// The processor's name, where the system tells.
fn cpu() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
