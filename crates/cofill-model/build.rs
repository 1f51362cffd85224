//! Finds the models that the feature `embedded` puts into the program.
//!
//! They lie in `models/` at the root of the repository, and a package from a registry has its own copy: the link `models` beside this
//! file leads to them, and `cargo package` follows it. Git on Windows makes a text file of a link unless told otherwise, so there the
//! way of the link is gone by hand.
#![allow(clippy::print_stdout)] // how a build script speaks to cargo

use std::path::Path;

fn main() {
    let linked = Path::new("models");
    let models = if linked.is_dir() { "models" } else { "../../models" };
    println!("cargo::rustc-env=COFILL_MODELS={models}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=models");
}
