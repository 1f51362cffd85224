//! The models inside the program: `tiny-llada` and `tiny-dream`, and `tiny-causal`, which is a companion of both. Trained by `tools/train`
//! (their cards: `models/*/README.md`).
//!
//! Each is a checkpoint folder like any other, only that its files lie in the program; `files.rs` finds them under paths that
//! begin with `embedded:`. Without the feature `embedded` there are none.

use std::path::{Path, PathBuf};

/// A folder's files, by name. `build.rs` says where they are at compile time.
type Files = &'static [(&'static str, &'static [u8])];

macro_rules! folder {
    ($name:literal $(and $more:literal)?) => {
        (
            $name,
            &[
                folder!($name, "config.json"),
                folder!($name, "generation_config.json"),
                folder!($name, "model.safetensors"),
                folder!($name, "tokenizer.json"),
                folder!($name, "tokenizer_config.json"),
                $(folder!($name, $more),)?
            ],
        )
    };
    ($name:literal, $file:literal) => {
        ($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", env!("COFILL_MODELS"), "/", $name, "/", $file)))
    };
}

#[cfg(feature = "embedded")]
const FOLDERS: &[(&str, Files)] = &[
    folder!("tiny-llada" and "pair_head.safetensors"),
    folder!("tiny-dream" and "pair_head.safetensors"),
    folder!("tiny-causal"),
];
#[cfg(not(feature = "embedded"))]
const FOLDERS: &[(&str, Files)] = &[];

const SCHEME: &str = "embedded:";

/// The names of the embedded models; none in a build without the feature `embedded`.
pub fn names() -> impl Iterator<Item = &'static str> {
    FOLDERS.iter().map(|(name, _)| *name)
}

/// The path under which the files of the model called so are found.
pub(crate) fn folder(name: &Path) -> Option<PathBuf> {
    let name = name.to_str()?;
    names().find(|known| *known == name).map(|known| format!("{SCHEME}{known}").into())
}

/// A file of an embedded folder: its bytes, or `None` if the folder has none of that name. `Err` if `path` leads to the disk.
pub(crate) fn file(path: &Path) -> Result<Option<&'static [u8]>, OnDisk> {
    let folder = path.parent().and_then(Path::to_str).and_then(|folder| folder.strip_prefix(SCHEME)).ok_or(OnDisk)?;
    let (_, files) = FOLDERS.iter().find(|(name, _)| *name == folder).ok_or(OnDisk)?;
    Ok(files.iter().find(|(name, _)| path.file_name().is_some_and(|file| file == *name)).map(|(_, bytes)| *bytes))
}

/// The path does not lead to an embedded model, but to the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnDisk;

#[cfg(all(test, unix, feature = "embedded"))]
mod tests {
    use super::*;

    /// `cargo package` takes only what is below the crate's folder: the models, through the link there.
    #[test]
    fn a_package_has_every_embedded_file() {
        for (name, files) in FOLDERS {
            for (file, bytes) in *files {
                let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(name).join(file);
                assert_eq!(std::fs::read(&packaged).unwrap().len(), bytes.len(), "{}", packaged.display());
            }
        }
    }
}
