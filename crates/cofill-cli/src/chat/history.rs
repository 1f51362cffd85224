//! Where lines that were typed are kept from one chat to the next: a file that only its owner can read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The most lines that are kept.
pub(crate) const MOST_LINES: usize = 1000;

/// Longer texts, in bytes, are pasted rather than typed, and not kept.
pub(crate) const LONGEST: usize = 16 << 10;

/// `cofill/chat_history` in the system's folder for such things; `None` where no home folder is known.
pub(crate) fn place() -> Option<PathBuf> {
    place_by(std::env::consts::OS, |name| std::env::var_os(name))
}

fn place_by(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The standard wants relative paths ignored; an empty one is the most common of these.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || match system {
        "windows" => folder("LOCALAPPDATA"),
        "macos" => Some(folder("HOME")?.join("Library/Application Support")),
        _ => Some(folder("HOME")?.join(".local/state")),
    };
    Some(folder("XDG_STATE_HOME").or_else(usual)?.join("cofill").join("chat_history"))
}

/// Makes the folder of the file, for its owner alone if it was not there.
pub(crate) fn make_folder(file: &Path) -> std::io::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn with(system: &str, variables: &[(&str, &str)]) -> Option<PathBuf> {
        place_by(system, |name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_folder_is_where_the_system_keeps_such_things() {
        let home = ("HOME", "/home/u");
        assert_eq!(with("linux", &[home]), Some("/home/u/.local/state/cofill/chat_history".into()));
        assert_eq!(with("linux", &[home, ("XDG_STATE_HOME", "/s")]), Some("/s/cofill/chat_history".into()));
        for ignored in ["", "state"] {
            let place = with("linux", &[home, ("XDG_STATE_HOME", ignored)]);
            assert_eq!(place, Some("/home/u/.local/state/cofill/chat_history".into()));
        }
        assert_eq!(with("macos", &[home]), Some("/home/u/Library/Application Support/cofill/chat_history".into()));
        assert_eq!(with("linux", &[]), None);
    }
}
