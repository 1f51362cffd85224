//! Files that are no files: pipes that nobody writes to, devices that never end, and files larger than any of their kind. Each is
//! refused by name, without waiting and without reading.
#![cfg(unix)]

use crate::checkpoint::{Checkpoint, Folder};
use crate::faults::{INDEX, WEIGHTS};
use cofill_model::{ChatTemplate, Checkpoint as Opened, Config, Model, Tokenizer, Weights};
use std::path::Path;

/// Reads a folder and gives the error.
type Read = fn(&Path) -> Option<String>;

/// Everything that is read of a folder, and what reads it.
fn readers() -> Vec<(&'static str, Read)> {
    fn error<T>(result: cofill_model::Result<T>) -> Option<String> {
        result.err().map(|error| error.to_string())
    }
    vec![
        ("config.json", |dir| error(Config::load(dir))),
        (WEIGHTS, |dir| error(Weights::open(dir))),
        (INDEX, |dir| error(Weights::open(dir))),
        ("tokenizer.json", |dir| error(Tokenizer::load(dir))),
        ("tokenizer_config.json", |dir| error(Tokenizer::load(dir))),
        ("tokenizer_config.json", |dir| error(ChatTemplate::load(dir))),
        ("vocab.json", |dir| error(Tokenizer::load(dir))),
        ("merges.txt", |dir| error(Tokenizer::load(dir))),
        ("chat_template.jinja", |dir| error(ChatTemplate::load(dir))),
        ("tokenizer.json", |dir| error(Opened::open(dir).and_then(|it| it.fingerprint()))),
        ("config.json", |dir| error(Model::load(dir))),
        ("generation_config.json", |dir| error(Opened::open(dir).and_then(|it| it.generation_defaults()))),
        ("x.gguf", |dir| error(Opened::open(&dir.join("x.gguf")).map(drop))),
        ("x.gguf", |dir| error(Weights::open(&dir.join("x.gguf")))),
    ]
}

/// A sound folder, in which `file` is what `make` makes of it.
fn folder(file: &str, make: impl Fn(&Path)) -> Folder {
    let folder = Checkpoint::llada().write();
    if file == "merges.txt" {
        folder.put("vocab.json", "{}");
    }
    if folder.join(file).exists() {
        std::fs::remove_file(folder.join(file)).unwrap();
    }
    make(&folder.join(file));
    folder
}

#[track_caller]
fn refused(file: &str, read: Read, folder: &Folder, want: &str) {
    let error = read(folder.path()).unwrap_or_else(|| panic!("{file} must be refused"));
    assert!(error.contains(file) && error.contains(want), "no `{file}` and `{want}` in: {error}");
}

#[test]
fn a_pipe_is_no_file() {
    for (file, read) in readers() {
        let folder = folder(file, |path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        });
        refused(file, read, &folder, if file == "x.gguf" { "" } else { "no regular file" });
    }
}

#[test]
fn a_device_is_no_file() {
    for (file, read) in readers() {
        let folder = folder(file, |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap());
        refused(file, read, &folder, if file == "x.gguf" { "" } else { "no regular file" });
    }
}

#[test]
fn a_file_has_a_largest_size() {
    for (file, read) in readers().into_iter().filter(|(file, _)| ![WEIGHTS, "x.gguf"].contains(file)) {
        // Full of nothing: it takes no room on the disk.
        let folder = folder(file, |path| std::fs::File::create(path).unwrap().set_len(100 << 30).unwrap());
        refused(file, read, &folder, "has 107374182400 bytes, but a file of this name may have at most");
    }
}

#[test]
fn a_link_to_a_file_is_a_file() {
    // Downloaded checkpoints are folders of links.
    let whole = Checkpoint::llada().write();
    let linked = folder(WEIGHTS, |path| std::os::unix::fs::symlink(whole.join(WEIGHTS), path).unwrap());
    assert!(Model::load(linked.path()).is_ok());
}
