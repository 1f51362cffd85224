//! Golden decodes: `tests/decode/*.txt` hold a decode's flags in their first line and what it does in the others.
//!
//! `COFILL_BLESS=1 cargo test -p cofill --test it golden` rewrites what follows the first line, so a new case is a file
//! with a first line. Reading the diff of these files is how a change of behaviour is reviewed.

use crate::support::{Outcome, Setup, spec};
use cofill::toy::Toy;
use cofill::{Registry, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decode");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

/// `#! sampler = "topk:2+ad:40"   toy = "phrases"   length = 12`, and optionally `block`, `temperature`, `seed`.
struct Flags {
    sampler: String,
    setup: Setup,
}

fn flags(header: &str) -> Flags {
    let flags = header.strip_prefix("#! ").unwrap_or_else(|| panic!("`{header}` does not start with `#! `"));
    let flags = flags.split("   ").map(str::trim).filter(|flag| !flag.is_empty());
    let mut values: BTreeMap<&str, &str> =
        flags.map(|flag| flag.split_once(" = ").unwrap_or_else(|| panic!("`{flag}` is not `key = value`"))).collect();
    let mut number = |key: &str| values.remove(key).map(|value| value.parse::<f64>().expect(key));
    let (length, block) = (number("length").expect("length"), number("block"));
    let (temperature, seed) = (number("temperature").unwrap_or(0.0), number("seed").unwrap_or(0.0));
    let mut text = |key: &str| values.remove(key).expect(key).trim_matches('"').to_string();
    let (sampler, toy) = (text("sampler"), text("toy"));
    assert_eq!(toy, "phrases", "the only toy");
    assert!(values.is_empty(), "unknown flags {values:?}");
    let setup = Setup::masks(length as usize).sampled(temperature, seed as u64);
    let setup = block.map_or(setup.clone(), |len| setup.blocks(len as usize));
    assert_eq!(spec(&sampler).to_string(), sampler, "samplers are written in full");
    Flags { sampler, setup }
}

fn step_line(step: &Step) -> String {
    let mut line = format!("step {}  masked {}", step.step, step.n_masked);
    if step.candidates < step.n_masked {
        write!(line, "  candidates {}", step.candidates).unwrap();
    }
    if step.forwards > 1 {
        write!(line, "  forwards {}", step.forwards).unwrap();
    }
    line += if step.commits.is_empty() { "  wait" } else { "  commit" };
    for commit in &step.commits {
        write!(line, " {}:{}", commit.position, commit.token).unwrap();
    }
    if !step.remasked.is_empty() {
        line += "  remask";
        step.remasked.iter().for_each(|position| write!(line, " {position}").unwrap());
    }
    if step.forced {
        line += "  forced";
    }
    if let Some(d) = &step.deferred {
        let until = if d.waits { "waits" } else { "later in the step" };
        let through: String = d.through.iter().map(|j| format!(" through {j}")).collect();
        let instead = d.instead.map_or("nobody".into(), |instead| instead.to_string());
        write!(line, "  deferred {} by {}{through}, {instead} instead, {until}", d.position, d.by).unwrap();
    }
    line
}

fn print(header: &str, outcome: &Outcome) -> String {
    let words: Vec<&str> = outcome.tokens.iter().map(|&token| Toy::piece(token)).collect();
    let steps: String = outcome.steps.iter().map(|step| step_line(step) + "\n").collect();
    format!("{header}\n{steps}nfe {}  {}\n", outcome.nfe, words.join(" "))
}

#[test]
fn decodes_are_as_they_were() {
    let bless = std::env::var_os("COFILL_BLESS").is_some();
    let mut failures = String::new();
    for path in files() {
        let expected = std::fs::read_to_string(&path).unwrap();
        let header = expected.lines().next().unwrap_or_else(|| panic!("{} is empty", path.display()));
        let Flags { sampler, setup } = flags(header);
        let got = print(header, &setup.must_run(&sampler));
        if bless {
            std::fs::write(&path, got).unwrap();
        } else if got != expected {
            write!(failures, "\n{}\n--- expected\n{expected}--- got\n{got}", path.display()).unwrap();
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\nIf the new decodes are right: COFILL_BLESS=1 cargo test -p cofill --test it golden"
    );
}

#[test]
fn every_sampler_has_a_golden_decode() {
    let name = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        spec(&flags(text.lines().next().unwrap()).sampler).entry().name.clone()
    };
    let golden: BTreeSet<String> = files().iter().map(name).collect();
    for entry in Registry::stock().entries() {
        assert!(golden.contains(&entry.name), "add a file to tests/decode for `{}`, then bless", entry.name);
    }
}
