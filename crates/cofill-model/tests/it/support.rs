use std::path::{Path, PathBuf};

/// Where the shared goldens are; says so when they are not.
pub(crate) fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("COFILL_SHARED").map(PathBuf::from);
    if shared.is_none() {
        println!("SKIPPED: COFILL_SHARED is not set");
    }
    shared
}

/// A JSON file of goldens.
pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Both families.
pub(crate) const FAMILIES: [&str; 2] = ["llada", "dream"];
