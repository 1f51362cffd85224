//! System calls: a list of what Python needs, and nothing else.
//!
//! What is not on the list does not exist (ENOSYS), so that libraries fall back to older calls; what a hostile
//! program might try by name is refused (EPERM), so that its error says so. There are two filters, since a filter has a
//! single answer to whatever it does not list. Arguments are checked where a number decides: threads but no processes, limits
//! of oneself but not of others, streams between two ends but no sockets that can be addressed.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<Rule>>;
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Both filters, in the order in which they are installed.
pub(super) fn filters() -> Result<[BpfProgram; 2]> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let list = SeccompFilter::new(allowed()?, errno(libc::ENOSYS), SeccompAction::Allow, arch)?;
    // The answer of the filter that was installed last counts when both refuse.
    let refusal = SeccompFilter::new(refused()?, SeccompAction::Allow, errno(libc::EPERM), arch)?;
    Ok([list.try_into()?, refusal.try_into()?])
}

fn allowed() -> Result<Rules> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|&call| (call, Vec::new())).collect();
    let int = |value: i32| u64::from(value.unsigned_abs());
    let when = |argument: u8, op: Op, value: u64| Condition::new(argument, Len::Dword, op, value);

    // Threads, not processes.
    rules.insert(libc::SYS_clone, vec![Rule::new(vec![has(0, libc::CLONE_THREAD)?])?]);
    // Limits of oneself: a limit set on the parent would kill it.
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![when(0, Op::Eq, 0)?])?]);
    // Names of threads; and what installs the second filter, which then refuses to install more.
    let mut prctl = Vec::new();
    for name in [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_NO_NEW_PRIVS] {
        prctl.push(Rule::new(vec![when(0, Op::Eq, int(name))?])?);
    }
    rules.insert(libc::SYS_prctl, prctl);
    rules.insert(libc::SYS_seccomp, Vec::new());
    // What `isatty`, `set_inheritable` and `set_blocking` ask.
    let requests = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO, libc::FIONREAD];
    let mut ioctl = Vec::new();
    for request in requests {
        ioctl.push(Rule::new(vec![when(1, Op::Eq, request)?])?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);
    // Signals on input would go to any process named.
    let commands = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_GETPIPE_SZ,
    ];
    let mut fcntl = Vec::new();
    for command in commands {
        fcntl.push(Rule::new(vec![when(1, Op::Eq, int(command))?])?);
    }
    rules.insert(libc::SYS_fcntl, fcntl);
    // Two ends of a stream. A datagram socket could be addressed to anybody's.
    let family = || when(0, Op::Eq, int(libc::AF_UNIX));
    rules.insert(
        libc::SYS_socketpair,
        vec![Rule::new(vec![family()?, when(1, Op::MaskedEq(0xf), int(libc::SOCK_STREAM))?])?],
    );
    Ok(rules)
}

fn refused() -> Result<Rules> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|&call| (call, Vec::new())).collect();
    let dword = |argument, mask: i32, value: i32| {
        Condition::new(
            argument,
            Len::Dword,
            Op::MaskedEq(u64::from(mask.unsigned_abs())),
            u64::from(value.unsigned_abs()),
        )
    };
    rules.insert(libc::SYS_clone, vec![Rule::new(vec![dword(0, libc::CLONE_THREAD, 0)?])?]);
    // Opening for reading and truncating all the same: Landlock sees it from its third version on.
    let sly = |argument| dword(argument, libc::O_TRUNC | libc::O_ACCMODE, libc::O_TRUNC | libc::O_RDONLY);
    rules.insert(libc::SYS_openat, vec![Rule::new(vec![sly(2)?])?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![Rule::new(vec![sly(1)?])?]);
    Ok(rules)
}

/// The condition that an argument has this bit.
fn has(argument: u8, bit: i32) -> std::result::Result<Condition, seccompiler::BackendError> {
    let bit = u64::from(bit.unsigned_abs());
    Condition::new(argument, Len::Dword, Op::MaskedEq(bit), bit)
}

/// Files, memory, threads, time, and questions about oneself.
#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    // Descriptors and what is in them.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_close,
    libc::SYS_close_range, libc::SYS_lseek, libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2, libc::SYS_ftruncate,
    libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_flock, libc::SYS_sendfile,
    libc::SYS_copy_file_range, libc::SYS_fadvise64, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_signalfd4, libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime, libc::SYS_sendto, libc::SYS_recvfrom,
    libc::SYS_recvmsg, libc::SYS_shutdown, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_getsockname,
    libc::SYS_getpeername,
    // Names of files.
    libc::SYS_openat, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_readlinkat,
    libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_renameat,
    libc::SYS_renameat2, libc::SYS_symlinkat, libc::SYS_linkat, libc::SYS_umask,
    // Memory.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise,
    libc::SYS_msync, libc::SYS_mincore, libc::SYS_membarrier, libc::SYS_get_mempolicy,
    // Threads, and the one program that is started.
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_set_tid_address,
    libc::SYS_execve, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_getcpu, libc::SYS_wait4, libc::SYS_waitid,
    // Signals to oneself.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    libc::SYS_getitimer, libc::SYS_setitimer,
    // Time and randomness.
    libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime, libc::SYS_clock_getres,
    libc::SYS_gettimeofday, libc::SYS_times, libc::SYS_getrandom,
    // Questions about the process, the user and the machine.
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_getpgid,
    libc::SYS_getsid, libc::SYS_getpriority, libc::SYS_getrusage, libc::SYS_sysinfo, libc::SYS_uname,
    libc::SYS_setsid, libc::SYS_capget,
];

/// The same under its older names.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_HERE: &[i64] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_symlink, libc::SYS_link,
    libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create, libc::SYS_epoll_wait,
    libc::SYS_eventfd, libc::SYS_signalfd, libc::SYS_getdents, libc::SYS_time, libc::SYS_alarm, libc::SYS_pause,
    libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// System calls that a hostile program might try.
#[rustfmt::skip]
const REFUSED: &[i64] = &[
    // Space on a disk at once: files are counted every 20 ms where no namespace limits them, and written ones take longer.
    libc::SYS_fallocate,
    // Descriptors put away in a socket, where nobody counts the files they hold.
    libc::SYS_sendmsg, libc::SYS_sendmmsg,
    // Sockets that reach others.
    libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    // Other processes.
    libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd, libc::SYS_pidfd_send_signal, libc::SYS_kcmp, libc::SYS_setpriority,
    libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr,
    libc::SYS_setpgid, libc::SYS_migrate_pages, libc::SYS_move_pages,
    // Namespaces, mounts, roots.
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
    libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsmount, libc::SYS_fsconfig,
    libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_quotactl,
    libc::SYS_acct, libc::SYS_reboot,
    // Attributes of files, which Landlock leaves to their owner, and truncation by name.
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_truncate,
    libc::SYS_utimensat, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr,
    libc::SYS_lremovexattr, libc::SYS_fremovexattr, libc::SYS_mknodat, libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Identity.
    libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid, libc::SYS_setresuid,
    libc::SYS_setresgid, libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_setgroups, libc::SYS_capset,
    libc::SYS_personality,
    // Memory that no limit on address space counts, and large parts of the kernel that no program needs.
    libc::SYS_memfd_create, libc::SYS_shmget, libc::SYS_shmat, libc::SYS_msgget, libc::SYS_semget, libc::SYS_mq_open,
    libc::SYS_io_uring_setup, libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_keyctl,
    libc::SYS_add_key, libc::SYS_request_key, libc::SYS_inotify_init1, libc::SYS_fanotify_init, libc::SYS_init_module,
    libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_kexec_load, libc::SYS_syslog, libc::SYS_settimeofday,
    libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_vhangup,
    libc::SYS_execveat, libc::SYS_seccomp,
];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_mknod,
    libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt,
    libc::SYS_inotify_init,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_refused_whatever_its_arguments() {
        let refused: Vec<i64> = REFUSED.iter().chain(REFUSED_HERE).copied().collect();
        assert!(ALLOWED.iter().chain(ALLOWED_HERE).all(|call| !refused.contains(call)));
        let both = refused.iter().filter(|call| allowed().unwrap().contains_key(call));
        assert_eq!(both.collect::<Vec<_>>(), [&libc::SYS_seccomp]);
    }

    #[test]
    fn both_filters_fit_into_the_kernel() {
        let [list, refusal] = filters().unwrap();
        assert!(list.len() < 4096 && refusal.len() < 4096, "{} and {} instructions", list.len(), refusal.len());
    }
}
