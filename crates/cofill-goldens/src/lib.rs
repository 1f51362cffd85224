//! Golden numbers for the conformance tests.
//!
//! Numbers that other programs computed are in `fixtures/goldens` of this repository, packed: [`folder`] unpacks them, and whoever has a
//! clone can run every test named `conformance*`. What may not be shipped (the benchmarks' files, replies that quote them, published tokenizers
//! and chat templates) is in the folder that the variable `COFILL_SHARED` names, if somebody has it: [`texts`] finds a part of it for the tests named
//! `texts_*`. Both compare every file with a committed checksum first. `tools/goldens` makes the one folder from the other.
#![allow(clippy::print_stdout)] // a test that is skipped says so where tests print

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The checksums of the unpacked fixtures, and of the texts that are not here: lines of `<sha256>  <path>`.
const FIXTURES: &str = include_str!("../../../fixtures/goldens/SHA256SUMS");
const TEXTS: &str = include_str!("../../../fixtures/goldens/TEXTS");

/// The unpacked fixtures: `models/`, `lmeval/` and `paper/`, as `SHA256SUMS` lists them.
///
/// They are unpacked under `scratch` once for all tests, in a folder named after the checksums, so that other fixtures get another
/// folder. Tests give `env!("CARGO_TARGET_TMPDIR")`.
///
/// # Panics
/// When a fixture is missing or damaged, or `scratch` cannot be written to.
pub fn folder(scratch: impl AsRef<Path>) -> PathBuf {
    static UNPACKING: Mutex<()> = Mutex::new(()); // one thread of this process at a time
    let _guard = UNPACKING.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = scratch.as_ref();
    let folder = scratch.join(format!("goldens-{}", &sha256(FIXTURES.as_bytes())[..16]));
    if folder.is_dir() {
        return folder;
    }
    // Other processes may be here at the same time: each unpacks into a folder of its own, and the first to finish gives it the name.
    let mine = scratch.join(format!("goldens-of-{}", std::process::id()));
    unpack(&mine);
    if fs::rename(&mine, &folder).is_err() {
        assert!(folder.is_dir(), "cannot rename {} to {}", mine.display(), folder.display());
        let _ = fs::remove_dir_all(&mine); // somebody else was first; a leftover does no harm
    }
    folder
}

fn unpack(folder: &Path) {
    for (sum, name) in lines(FIXTURES) {
        let packed = packed(name);
        let file = fs::File::open(&packed).unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
        let mut content = Vec::new();
        let read = GzDecoder::new(file).read_to_end(&mut content);
        read.unwrap_or_else(|error| panic!("{}: {error}", packed.display()));
        assert_eq!(sha256(&content), sum, "{} is not the file that SHA256SUMS lists", packed.display());
        let path = folder.join(name);
        let parent = path.parent().expect("a name below the folder");
        fs::create_dir_all(parent).unwrap_or_else(|error| panic!("{}: {error}", parent.display()));
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fn packed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/goldens").join(format!("{name}.gz"))
}

/// A part of the folder `COFILL_SHARED`, such as `data` or `goldens/models/dream_tokenizer`: a file or a folder that may not be shipped, when
/// every file that `TEXTS` lists there has its checksum. `None` without the variable or without one of the files, and a line that
/// begins with SKIPPED says which.
///
/// # Panics
/// When a file is another than the one the golden numbers were made with, or the part is not in `TEXTS`.
pub fn texts(part: &str) -> Option<PathBuf> {
    let Some(shared) = std::env::var_os("COFILL_SHARED").map(PathBuf::from) else {
        println!(
            "SKIPPED: {part} is needed, and COFILL_SHARED is not set; fixtures/goldens/README.md says how to get it"
        );
        return None;
    };
    match check(&shared, part) {
        Ok(()) => Some(shared.join(part)),
        Err(missing) => {
            println!("SKIPPED: there is no {}; fixtures/goldens/README.md says how to get it", missing.display());
            None
        }
    }
}

/// Compares the files of a part with their checksums; the error is the file that is missing.
fn check(shared: &Path, part: &str) -> Result<(), PathBuf> {
    let of_part = |name: &str| name.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut files = lines(TEXTS).filter(|(_, name)| of_part(name)).peekable();
    assert!(files.peek().is_some(), "fixtures/goldens/TEXTS lists no {part}");
    for (sum, name) in files {
        let path = shared.join(name);
        let content = fs::read(&path).map_err(|_| path.clone())?;
        assert_eq!(sha256(&content), sum, "{} is not the file that the goldens were made with", path.display());
    }
    Ok(())
}

fn lines(sums: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    sums.lines().map(|line| line.split_once("  ").expect("a checksum, two spaces, a name"))
}

/// The SHA-256 of some bytes in hexadecimal, as the golden files write it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cofill-goldens-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn every_fixture_unpacks_to_its_checksum_and_none_is_unlisted() {
        let scratch = scratch("unpack");
        let (first, second) = (folder(&scratch), folder(&scratch));
        assert_eq!(first, second);
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1, "unpacked once, and nothing is left over");
        let mut files = Vec::new();
        let mut folders = vec![packed("x").parent().unwrap().to_path_buf()];
        let root = folders[0].clone();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
            }
        }
        let packed = files.iter().filter(|file| file.extension().is_some_and(|end| end == "gz"));
        assert_eq!(packed.count(), lines(FIXTURES).count(), "a file that SHA256SUMS does not list");
        let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes < 15_000_000, "{} holds {bytes} bytes", root.display());
        // Nobody's chat template is among them.
        for (_, name) in lines(FIXTURES).filter(|(_, name)| name.ends_with("tokenizer_config.json")) {
            assert!(!fs::read_to_string(first.join(name)).unwrap().contains("chat_template"), "{name}");
        }
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn a_text_is_refused_unless_it_is_the_one_of_the_goldens() {
        let shared = scratch("texts");
        let name = "goldens/models/chat_templates.json";
        assert_eq!(check(&shared, name), Err(shared.join(name)));
        fs::create_dir_all(shared.join("goldens/models")).unwrap();
        fs::write(shared.join(name), "{}").unwrap();
        let refused = std::panic::catch_unwind(|| check(&shared, name)).unwrap_err();
        let words = refused.downcast_ref::<String>().unwrap();
        assert!(words.contains("is not the file that the goldens were made with"), "{words}");
        fs::remove_dir_all(shared).unwrap();
    }

    #[test]
    fn a_part_is_a_file_or_a_folder_and_no_beginning_of_a_name() {
        let nowhere = Path::new("/nowhere");
        let missing = check(nowhere, "goldens/models/dream_tokenizer").unwrap_err();
        assert_eq!(missing, nowhere.join("goldens/models/dream_tokenizer/added_tokens.json"));
        assert!(std::panic::catch_unwind(|| check(nowhere, "goldens/models/dream_tok")).is_err());
    }
}
