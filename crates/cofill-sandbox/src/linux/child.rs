//! What happens between `clone` and `execve`: the child puts the layers around itself.
//!
//! The parent may have threads (it usually does: rayon's), and of those only one exists in the child, perhaps with
//! locks held for ever. So nothing here allocates, locks, panics or formats: everything is prepared in a `ChildSetup`,
//! and what remains are system calls. A separate launcher program would be simpler, but a library has none to start.

use super::root::Root;
use super::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;
use std::ffi::{CStr, c_char, c_int};

/// Everything that the parent has prepared for the child.
pub(super) struct ChildSetup<'a> {
    pub(super) stdin: BorrowedFd<'a>,
    pub(super) stdout: BorrowedFd<'a>,
    /// Where the child writes why it failed. `execve` closes it, so a parent that reads nothing knows of success.
    pub(super) errors: BorrowedFd<'a>,
    /// Files in `/proc/self` and what to write there: how ids map into the user namespace.
    pub(super) maps: &'a [(&'a CStr, &'a CStr)],
    pub(super) root: Option<&'a Root>,
    pub(super) rlimits: &'a [(Resource, u64)],
    pub(super) identity: Option<(Uid, Gid)>,
    /// Give up all capabilities.
    pub(super) drop_capabilities: bool,
    pub(super) ruleset: Option<BorrowedFd<'a>>,
    /// Landlock's rights in the program's own directory, for one that exists only in the new root.
    pub(super) workdir_rights: u64,
    pub(super) workdir: &'a CStr,
    pub(super) filters: Option<&'a [BpfProgram; 2]>,
    pub(super) executable: &'a CStr,
    /// Pointers to C strings, null-terminated, both.
    pub(super) arguments: &'a [*const c_char],
    pub(super) environment: &'a [*const c_char],
}

/// Where a child was when it failed, by its place in this list.
pub(super) const STAGES: [&str; 12] = [
    "giving it its descriptors",
    "mapping ids into its user namespace",
    "making it the first to be killed when memory is short",
    "building its root directory",
    "entering its directory",
    "limiting its resources",
    "changing its identity",
    "dropping its capabilities",
    "restricting it with Landlock",
    "tying its life to ours",
    "filtering its system calls",
    "executing it",
];

/// Becomes Python, or tells the parent why it cannot. Never returns.
pub(super) fn become_python(setup: &ChildSetup<'_>) -> ! {
    let mut stage = 0_u8;
    let errno = match confine(setup, &mut stage) {
        Err(errno) => errno,
        // SAFETY: its arrays are null-terminated arrays of C strings.
        #[allow(unsafe_code)]
        Ok(()) => unsafe { sys::exec(setup.executable, setup.arguments, setup.environment) },
    };
    let [a, b, c, d] = errno.to_le_bytes();
    let _ = rustix::io::write(setup.errors, &[stage, a, b, c, d]);
    sys::exit_now(127)
}

fn confine(setup: &ChildSetup<'_>, stage: &mut u8) -> Result<(), c_int> {
    let errno = |error: rustix::io::Errno| error.raw_os_error();
    let mut next = || *stage += 1;

    // No terminal, no signal handling and no descriptor of ours.
    sys::default_signals();
    let _ = rustix::process::setsid();
    let umask = |mode| {
        let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(mode));
    };
    sys::duplicate(setup.stdin, 0)?;
    sys::duplicate(setup.stdout, 1)?;
    // The driver sends stderr nowhere as soon as it runs; until then this is how Python says why it does not start.
    sys::duplicate(setup.stdout, 2)?;
    sys::close_others_on_exec()?;
    next();

    for (file, text) in setup.maps {
        write_file(file, text)?;
    }
    next();
    // Fails without /proc, and nothing depends on it.
    let _ = write_file(c"/proc/self/oom_score_adj", c"1000");
    next();
    umask(0o022);
    if let Some(root) = setup.root {
        root.enter()?;
    }
    umask(0o077);
    next();
    rustix::process::chdir(setup.workdir).map_err(errno)?;
    next();
    for &(resource, limit) in setup.rlimits {
        let limit = Some(limit);
        rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit }).map_err(errno)?;
    }
    next();
    if let Some((uid, gid)) = setup.identity {
        rustix::thread::set_thread_groups(&[]).map_err(errno)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(errno)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(errno)?;
    }
    next();
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    if setup.drop_capabilities {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).map_err(errno)?;
    }
    next();
    if let Some(ruleset) = setup.ruleset {
        if setup.root.is_some() {
            use rustix::fs::{Mode, OFlags};
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let workdir = rustix::fs::open(setup.workdir, flags, Mode::empty()).map_err(errno)?;
            sys::landlock_allow(ruleset, workdir.as_fd(), setup.workdir_rights)?;
        }
        sys::landlock_restrict(ruleset)?;
    }
    next();
    // After the change of identity, which would undo it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(errno)?;
    next();
    for filter in setup.filters.into_iter().flatten() {
        seccompiler::apply_filter(filter).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error.raw_os_error().unwrap_or(0),
            _ => libc::EINVAL,
        })?;
    }
    next();
    Ok(())
}

fn write_file(path: &CStr, text: &CStr) -> Result<(), c_int> {
    use rustix::fs::{Mode, OFlags};
    let errno = |error: rustix::io::Errno| error.raw_os_error();
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(errno)?;
    rustix::io::write(&file, text.to_bytes()).map_err(errno).map(drop)
}
