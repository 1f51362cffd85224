//! What happens between `clone` and `execve`: the child walls itself in.
//!
//! The parent may have threads (it usually does: rayon's), and of those only one exists in the child, perhaps with
//! locks held for ever. So nothing here allocates, locks, panics or formats: everything is prepared in a `Plan`, and
//! what remains are system calls. A launcher binary would do as well, but a library has none to start, and tests
//! neither.

use super::root::Root;
use super::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;
use std::ffi::{CStr, c_char, c_int};

/// Everything a child needs to know.
pub(super) struct Plan<'a> {
    pub(super) stdin: BorrowedFd<'a>,
    pub(super) stdout: BorrowedFd<'a>,
    /// Where failures are told. Closes when `execve` succeeds.
    pub(super) errors: BorrowedFd<'a>,
    /// Files in `/proc/self` and what to write there: how ids map into the user namespace.
    pub(super) maps: &'a [(&'a CStr, &'a CStr)],
    pub(super) root: Option<&'a Root>,
    pub(super) rlimits: &'a [(Resource, u64)],
    pub(super) identity: Option<(Uid, Gid)>,
    /// Give up all capabilities.
    pub(super) powerless: bool,
    pub(super) ruleset: Option<BorrowedFd<'a>>,
    /// The rights in a directory that only exists in the new root.
    pub(super) own: u64,
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

/// Never returns: becomes Python, or tells the parent why not.
pub(super) fn become_python(plan: &Plan<'_>) -> ! {
    let mut stage = 0_u8;
    let errno = match wall_in(plan, &mut stage) {
        Err(errno) => errno,
        // SAFETY: the plan's arrays are null-terminated arrays of C strings.
        #[allow(unsafe_code)]
        Ok(()) => unsafe { sys::exec(plan.executable, plan.arguments, plan.environment) },
    };
    let [a, b, c, d] = errno.to_le_bytes();
    let _ = rustix::io::write(plan.errors, &[stage, a, b, c, d]);
    sys::exit_now(127)
}

fn wall_in(plan: &Plan<'_>, stage: &mut u8) -> Result<(), c_int> {
    let errno = |error: rustix::io::Errno| error.raw_os_error();
    let mut next = || *stage += 1;

    // No terminal, no signal handling and no descriptor of ours.
    sys::default_signals();
    let _ = rustix::process::setsid();
    let umask = |mode| {
        let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(mode));
    };
    sys::duplicate(plan.stdin, 0)?;
    sys::duplicate(plan.stdout, 1)?;
    // The driver sends stderr nowhere as soon as it runs; until then this is how Python says why it does not start.
    sys::duplicate(plan.stdout, 2)?;
    sys::close_others_on_exec()?;
    next();

    for (file, text) in plan.maps {
        write_file(file, text)?;
    }
    next();
    // Without /proc there is nothing to say, and nothing depends on it.
    let _ = write_file(c"/proc/self/oom_score_adj", c"1000");
    next();
    umask(0o022);
    if let Some(root) = plan.root {
        root.enter()?;
    }
    umask(0o077);
    next();
    rustix::process::chdir(plan.workdir).map_err(errno)?;
    next();
    for &(resource, limit) in plan.rlimits {
        let limit = Some(limit);
        rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit }).map_err(errno)?;
    }
    next();
    if let Some((uid, gid)) = plan.identity {
        rustix::thread::set_thread_groups(&[]).map_err(errno)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(errno)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(errno)?;
    }
    next();
    rustix::thread::set_no_new_privs(true).map_err(errno)?;
    if plan.powerless {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).map_err(errno)?;
    }
    next();
    if let Some(ruleset) = plan.ruleset {
        if plan.root.is_some() {
            use rustix::fs::{Mode, OFlags};
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let own = rustix::fs::open(plan.workdir, flags, Mode::empty()).map_err(errno)?;
            sys::landlock_allow(ruleset, own.as_fd(), plan.own)?;
        }
        sys::landlock_restrict(ruleset)?;
    }
    next();
    // After the change of identity, which would undo it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(errno)?;
    next();
    for filter in plan.filters.into_iter().flatten() {
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
