use std::path::{Path, PathBuf};

/// The golden numbers about models: tiny checkpoints, and what the reference classes computed on them.
pub(crate) fn goldens() -> PathBuf {
    cofill_goldens::folder(env!("CARGO_TARGET_TMPDIR")).join("models")
}

/// The same with published tokenizers and chat templates, which are not in this repository.
pub(crate) fn texts() -> Option<PathBuf> {
    cofill_goldens::texts("goldens/models")
}

/// A JSON file of goldens.
pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Both families.
pub(crate) const FAMILIES: [&str; 2] = ["llada", "dream"];
