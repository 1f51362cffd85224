//! Files without a name: deleted, but still open or mapped. They take space and stand in no directory.

use crate::sandbox::tidy::Usage;
use crate::sandbox::{Limits, tidy};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a process holds of files that were in `workdir`. Their size is known as long as they are open; one that is only
/// mapped counts as the largest a file can be.
pub(super) fn held(pid: u32, workdir: &Path, limits: &Limits) -> Usage {
    let mut usage = Usage::default();
    let mut counted = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        // Through the link, which works without a name.
        let Ok(about) = fs::metadata(entry.path()) else { continue };
        if about.is_file() && about.nlink() == 0 && counted.insert(about.ino()) {
            usage.add(tidy::size(&about));
        }
    }
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    for inode in String::from_utf8_lossy(&maps).lines().filter_map(|line| deleted(line, workdir)) {
        if counted.insert(inode) {
            usage.add(limits.file);
        }
    }
    usage
}

/// The inode of a mapped file that was below `workdir` and is there no longer.
fn deleted(line: &str, workdir: &Path) -> Option<u64> {
    // address perms offset dev inode path
    let mut rest = line;
    let mut next = || {
        let (field, after) = rest.trim_start().split_once(' ')?;
        rest = after;
        Some(field)
    };
    let inode = next().and(next()).and(next()).and(next()).and(next())?;
    let path = rest.trim_start().strip_suffix(" (deleted)")?;
    Path::new(path).starts_with(workdir).then(|| inode.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_files_of_the_directory_are_told_from_all_else() {
        let inode = |line: &str| deleted(line, Path::new("/tmp/run 1"));
        let line = |path: &str| format!("7f52 rw-s 00000000 fe:00 1234                       {path}");
        assert_eq!(inode(&line("/tmp/run 1/a b (deleted)")), Some(1234));
        assert_eq!(inode(&line("/tmp/run 1/a")), None);
        assert_eq!(inode(&line("/tmp/run 12/a (deleted)")), None);
        assert_eq!(inode(&line("/dev/zero (deleted)")), None);
        assert_eq!(inode("7f52 rw-p 00000000 00:00 0"), None);
    }
}
