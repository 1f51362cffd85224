//! The root directory of a cage: Python read-only, four devices, a small directory to write to.
//!
//! It is a tmpfs over a directory of ours, in a mount namespace that ends with the program, so nothing of it ever
//! exists outside. Every path is put together beforehand: the child that mounts them may not allocate.

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Everything needed to build it.
#[derive(Debug)]
pub(super) struct Root {
    base: CString,
    folders: Vec<CString>, // parents first
    files: Vec<CString>,
    binds: Vec<(CString, CString)>,
    devices: Vec<(CString, CString)>,
    work: CString,
    /// Where the program's directory is, as seen from inside.
    pub(super) work_inside: CString,
    work_options: CString,
}

impl Root {
    /// A root over `base`, with what is `readable` at the places where it is outside.
    pub(super) fn plan(base: &Path, readable: &[PathBuf], work_options: &str) -> io::Result<Root> {
        // Where programs expect a temporary directory, unless Python itself is installed there.
        let crowded = readable.iter().any(|path| path.starts_with("/tmp"));
        let work = Path::new(if crowded { "/cofill-work" } else { "/tmp" });
        let inside = |path: &Path| base.join(path.strip_prefix("/").unwrap_or(path));
        let (mut folders, mut files) = (BTreeSet::new(), Vec::new());
        let mut place = |path: &Path, is_folder: bool| {
            folders.extend(path.ancestors().skip(1).filter(|above| above.parent().is_some()).map(inside));
            if is_folder {
                folders.insert(inside(path));
            } else {
                files.push(inside(path));
            }
        };
        let (mut binds, mut devices) = (Vec::new(), Vec::new());
        for path in readable {
            place(path, path.is_dir());
            binds.push((text(&path.canonicalize()?)?, text(&inside(path))?));
        }
        for device in super::DEVICES.map(Path::new).into_iter().filter(|device| device.exists()) {
            place(device, false);
            devices.push((text(device)?, text(&inside(device))?));
        }
        place(work, true);
        Ok(Root {
            base: text(base)?,
            folders: folders.iter().map(|path| text(path)).collect::<io::Result<_>>()?,
            files: files.iter().map(|path| text(path)).collect::<io::Result<_>>()?,
            binds,
            devices,
            work: text(&inside(work))?,
            work_inside: text(work)?,
            work_options: CString::new(work_options)?,
        })
    }

    /// Builds the root and makes it this process's. Runs after `clone`: no allocation.
    pub(super) fn enter(&self) -> Result<(), c_int> {
        use rustix::fs::{Mode, OFlags, mkdir, open};
        use rustix::mount::{mount, mount_bind_recursive, mount_change, unmount};
        const TMPFS: &CStr = c"tmpfs";
        let careful = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let errno = |error: rustix::io::Errno| error.raw_os_error();

        // What is mounted from here on stays here.
        mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(errno)?;
        mount(TMPFS, &*self.base, TMPFS, MountFlags::NOSUID | MountFlags::NODEV, c"size=1m,nr_inodes=2k,mode=755")
            .map_err(errno)?;
        for folder in &self.folders {
            mkdir(&**folder, Mode::from_raw_mode(0o755)).map_err(errno)?;
        }
        for file in &self.files {
            open(&**file, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
                .map_err(errno)?;
        }
        for (from, to) in &self.binds {
            mount_bind_recursive(&**from, &**to).map_err(errno)?;
        }
        super::sys::mount_read_only(&self.base)?;
        // Devices and the one writable place come after what makes everything read-only and without devices.
        for (from, to) in &self.devices {
            mount_bind_recursive(&**from, &**to).map_err(errno)?;
        }
        mount(TMPFS, &*self.work, TMPFS, careful, &*self.work_options).map_err(errno)?;
        // The new root over the old one, and the old one, now on top, away: the place needs no second directory.
        rustix::process::chdir(&*self.base).map_err(errno)?;
        rustix::process::pivot_root(c".", c".").map_err(errno)?;
        unmount(c".", UnmountFlags::DETACH).map_err(errno)?;
        rustix::process::chdir(c"/").map_err(errno)
    }
}

fn text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_work_moves_away_from_python() {
        let lib = PathBuf::from("/usr/lib");
        let root = Root::plan(Path::new("/base"), std::slice::from_ref(&lib), "").unwrap();
        assert_eq!(root.work_inside.as_c_str(), c"/tmp");
        let at = |name: &CStr| root.folders.iter().position(|folder| folder.as_c_str() == name).unwrap();
        assert!(at(c"/base/usr") < at(c"/base/usr/lib"));
        assert!(root.folders.iter().all(|folder| folder.as_c_str() != c"/base"), "the mount itself is not made");
        let root = Root::plan(Path::new("/base"), &[lib, std::env::temp_dir()], "").unwrap();
        assert_eq!(root.work_inside.as_c_str(), c"/cofill-work");
    }
}
