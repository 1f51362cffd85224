//! Absences: what keeps this crate small and usable anywhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Every file below `src` with its text.
fn sources() -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

#[test]
fn the_source_is_in_folders_of_at_most_twenty_entries() {
    assert!(sources().iter().any(|(path, _)| path.ends_with("samplers/klass.rs")), "folders are walked");
    for folder in ["src", "src/samplers", "src/decode", "src/forward", "src/greedy", "src/language"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().count();
        assert!(entries <= 20, "{folder} has {entries} entries");
    }
}

#[test]
fn dependencies_are_these_and_no_others() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let names: Vec<&str> =
        section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|n| !n.is_empty()).collect();
    // Noise, the trace format, distances between names, errors. A tensor library, an async runtime or a file format would show here.
    assert_eq!(names, ["rand_chacha", "serde", "serde_json", "strsim", "thiserror"]);
}

#[test]
fn the_core_opens_no_file_reads_no_clock_and_starts_no_thread() {
    for (path, text) in sources() {
        for word in ["std::fs", "std::net", "std::time", "std::thread", "std::env", "async fn", "println!", "eprintln!"]
        {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            assert!(!code.clone().any(|line| line.contains(word)), "{path} contains {word}");
        }
    }
}

#[test]
fn only_the_trace_and_the_sampler_language_are_serialised() {
    for (path, text) in sources() {
        let serialises = text.contains("Serialize");
        let may = path.ends_with("trace.rs") || path.contains("/language/");
        assert!(!serialises || may, "{path} knows a wire format");
    }
}

#[test]
fn files_hold_one_idea_each() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 600, "{path} has {lines} lines");
        assert!(text.starts_with("//!"), "{path} does not say what it is");
    }
}
