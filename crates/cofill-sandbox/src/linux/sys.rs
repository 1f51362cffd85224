//! The few system calls that no crate in use wraps, or wraps for use after a bare `clone`.
//!
//! Everything here is safe to call between `clone` and `execve` in the child of a process with threads: no
//! allocation, no lock, no destructor.
#![allow(unsafe_code)]

use rustix::fd::{AsRawFd, BorrowedFd, RawFd};
use rustix::process::Pid;
use std::ffi::{CStr, c_char, c_int, c_long};
use std::io;

/// The errno of a call that returned -1.
fn check(result: c_long) -> Result<c_long, c_int> {
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Like `fork`, into new namespaces: `None` in the child.
///
/// The bare system call, because `fork` runs handlers of libraries that may wait for locks of threads which the child
/// does not have, and because a PID namespace is entered by being born in it.
///
/// # Safety
/// The child may do only what is safe in a signal handler, and must end with `exec` or `exit_now`.
pub(super) unsafe fn clone(namespaces: c_int) -> Result<Option<Pid>, c_int> {
    let flags = c_long::from(namespaces | libc::SIGCHLD);
    let zero: c_long = 0;
    // SAFETY: without CLONE_VM the child has its own copy of memory and continues on its copy of this stack.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, zero, zero, zero, zero) })?;
    Ok(Pid::from_raw(pid as i32))
}

/// Ends the process at once.
pub(super) fn exit_now(code: c_int) -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(code) }
}

/// Every signal at its default and none blocked: ignored signals and masks would survive `execve`.
pub(super) fn default_signals() {
    // SAFETY: a zeroed sigaction is the default action with an empty mask; failures (SIGKILL, SIGSTOP) change nothing.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Makes `fd` known as number `as_number`, open across `execve`.
pub(super) fn duplicate(fd: BorrowedFd<'_>, as_number: RawFd) -> Result<(), c_int> {
    // SAFETY: no memory is involved.
    check(c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), as_number) })).map(drop)
}

/// Descriptors from 3 on do not survive `execve`, whoever opened them and however.
pub(super) fn close_others_on_exec() -> Result<(), c_int> {
    const CLOSE_RANGE_CLOEXEC: c_long = 4;
    let (first, last) = (3 as c_long, c_long::from(u32::MAX));
    // SAFETY: no memory is involved.
    if check(unsafe { libc::syscall(libc::SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC) }).is_ok() {
        return Ok(());
    }
    // Before Linux 5.11.
    for fd in 3..65_536 {
        // SAFETY: no memory is involved; numbers that are not open fail without effect.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Makes a mount and those below it read-only, without set-uid files and devices. Adds to flags that cannot be taken
/// away.
pub(super) fn mount_read_only(path: &CStr) -> Result<(), c_int> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    const READ_ONLY_NO_SUID_NO_DEVICES: u64 = 1 | 2 | 4;
    let attributes = MountAttr { set: READ_ONLY_NO_SUID_NO_DEVICES, clear: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: path and attributes outlive the call, which reads `size_of` bytes of the latter.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            c_long::from(libc::AT_FDCWD),
            path.as_ptr(),
            c_long::from(libc::AT_RECURSIVE),
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Landlock's version, or why there is none.
pub(super) fn landlock_version() -> Result<i64, c_int> {
    const VERSION: c_long = 1;
    let zero: c_long = 0;
    // SAFETY: with this flag no attributes are read.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), zero, VERSION) })
}

/// Allows `access` below a directory that did not exist when the ruleset was made.
pub(super) fn landlock_allow(ruleset: BorrowedFd<'_>, beneath: BorrowedFd<'_>, access: u64) -> Result<(), c_int> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed: u64,
        parent: i32,
    }
    const PATH_BENEATH: c_long = 1;
    let rule = PathBeneath { allowed: access, parent: beneath.as_raw_fd() };
    let (fd, zero): (c_long, c_long) = (ruleset.as_raw_fd().into(), 0);
    // SAFETY: the rule outlives the call.
    check(unsafe { libc::syscall(libc::SYS_landlock_add_rule, fd, PATH_BENEATH, &raw const rule, zero) }).map(drop)
}

/// From here on, this process and its children are bound by the ruleset.
pub(super) fn landlock_restrict(ruleset: BorrowedFd<'_>) -> Result<(), c_int> {
    let (fd, zero): (c_long, c_long) = (ruleset.as_raw_fd().into(), 0);
    // SAFETY: no memory is involved.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd, zero) }).map(drop)
}

/// Becomes another program; returns only to say why not.
///
/// # Safety
/// `arguments` and `environment` must be arrays of pointers to C strings that end with a null pointer.
pub(super) unsafe fn exec(path: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> c_int {
    // SAFETY: as the caller promises.
    let result = unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    check(result.into()).err().unwrap_or(0)
}
