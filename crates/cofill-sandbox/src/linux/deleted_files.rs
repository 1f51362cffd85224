//! Files that were deleted but are still open or mapped: they take space, and no directory lists them.

use crate::workdir::Usage;
use crate::{Limits, workdir};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The space that a process keeps in deleted files of `workdir`. The size of a file that is open is known; one that is only
/// mapped counts as the largest that a file can be. `None` without the right to look into the process: in many containers
/// root has none to look into processes of other users.
pub(super) fn usage(pid: u32, workdir: &Path, limits: &Limits) -> Option<Usage> {
    let may = |error: io::Error| (error.kind() != io::ErrorKind::PermissionDenied).then_some(());
    let mut usage = Usage::default();
    let mut counted = BTreeSet::new();
    let open = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => Some(open),
        Err(error) => may(error).map(|()| None)?,
    };
    for entry in open.into_iter().flatten().flatten() {
        // Through the link, which works without a name.
        let about = match fs::metadata(entry.path()) {
            Ok(about) => about,
            Err(error) => {
                may(error)?;
                continue;
            }
        };
        if about.is_file() && about.nlink() == 0 && counted.insert(about.ino()) {
            usage.add(workdir::size(&about));
        }
    }
    let maps = match fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) => may(error).map(|()| Vec::new())?,
    };
    for inode in String::from_utf8_lossy(&maps).lines().filter_map(|line| deleted(line, workdir)) {
        if counted.insert(inode) {
            usage.add(limits.file);
        }
    }
    Some(usage)
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
