//! The cage on Linux: what it is made of, how a process gets into it, and how it ends.

mod child;
mod deleted_files;
mod identity;
mod landlock_rules;
mod root;
mod sys;
mod syscalls;
mod trial;

use super::python::Python;
use super::workdir::{Access, Usage, Workdir};
use super::{Layers, Limits, protocol};
use child::ChildSetup;
use identity::FreshId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Gid, Pid, Resource, Signal, Uid, WaitOptions};
use seccompiler::BpfProgram;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
pub(super) use trial::try_layers;

/// Devices through which a program learns nothing and reaches nobody.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What every process of a sandbox has in common.
#[derive(Debug)]
pub(super) struct Cage {
    python: Python,
    base: Workdir,
    filters: Option<[BpfProgram; 2]>,
    /// Landlock's version, 0 if there is none.
    landlock: i64,
    namespaces: Namespaces,
    identity: Identity,
}

/// By whose right namespaces are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Namespaces {
    /// By root's, directly.
    Root,
    /// By that of any user, who is given it in a user namespace of their own.
    User,
}

/// The user id under which a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// The user's own: only root can choose another.
    Keep,
    /// One that owns nothing, for every run another, so that runs cannot see each other either and tasks are counted
    /// apart.
    Fresh,
}

/// Whom the user is mapped to inside a user namespace. Not root, so that `execve` leaves no capability.
const NOBODY: u32 = 65_534;

impl Cage {
    /// Starts Python on the driver behind these layers. It waits for a request on its stdin.
    pub(super) fn start(&self, layers: Layers, limits: &Limits, wall: Duration) -> io::Result<Running> {
        let user = rustix::process::geteuid().as_raw();
        let is_root = user == 0;
        let in_user_namespace = layers.namespaces && self.namespaces == Namespaces::User;
        let fresh = (layers.privileges && is_root && self.identity == Identity::Fresh && !in_user_namespace)
            .then(FreshId::claim)
            .transpose()?;
        let fresh_id = fresh.as_ref().map(FreshId::id);

        // Its directory: a tmpfs that only the child sees, or one of ours.
        let owner = fresh_id.unwrap_or(if in_user_namespace { NOBODY } else { user });
        let size = format!("size={},nr_inodes={},mode=700,uid={owner},gid={owner}", limits.disk, limits.entries);
        let root =
            layers.namespaces.then(|| root::Root::plan(self.base.path(), &self.python.readable, &size)).transpose()?;
        let workdir = (!layers.namespaces)
            .then(|| {
                let workdir = Workdir::new(self.base.path(), "run", Access::Private)?;
                std::os::unix::fs::chown(workdir.path(), fresh_id, fresh_id)?;
                io::Result::Ok(workdir)
            })
            .transpose()?;
        let inside = match (&root, &workdir) {
            (Some(root), _) => root.work_inside.clone(),
            (None, Some(workdir)) => c_path(workdir.path())?,
            (None, None) => c"/".into(),
        };

        let ruleset = if layers.landlock { self.ruleset(workdir.as_ref().map(Workdir::path))? } else { None };
        let (rlimits, watch_tasks) = self.rlimits(layers, limits, wall, owner, in_user_namespace);
        let group = rustix::process::getegid().as_raw();
        let maps = [format!("{NOBODY} {user} 1"), format!("{NOBODY} {group} 1")].map(CString::new);
        let [Ok(uid_map), Ok(gid_map)] = maps else { return Err(io::ErrorKind::InvalidInput.into()) };
        let maps: [(&CStr, &CStr); 3] =
            [(c"/proc/self/setgroups", c"deny"), (c"/proc/self/uid_map", &uid_map), (c"/proc/self/gid_map", &gid_map)];

        let executable = c_path(&self.python.executable)?;
        let arguments = [executable.clone(), c"-B".into(), c"-s".into(), c"-c".into(), CString::new(protocol::DRIVER)?];
        let environment = environment(&inside)?;
        let pipes = Pipes::new()?;
        let setup = ChildSetup {
            stdin: pipes.request.0.as_fd(),
            stdout: pipes.answer.1.as_fd(),
            errors: pipes.errors.1.as_fd(),
            maps: if in_user_namespace { &maps } else { &[] },
            root: root.as_ref(),
            rlimits: &rlimits,
            identity: fresh_id.map(|id| (Uid::from_raw(id), Gid::from_raw(id))),
            drop_capabilities: layers.privileges,
            ruleset: ruleset.as_ref().map(AsFd::as_fd),
            workdir_rights: landlock_rules::workdir_bits(self.landlock),
            workdir: &inside,
            filters: self.filters.as_ref().filter(|_| layers.seccomp),
            executable: &executable,
            arguments: &pointers(&arguments),
            environment: &pointers(&environment),
        };

        // SAFETY: `become_python` does system calls only, and does not return.
        #[allow(unsafe_code)]
        let pid = match unsafe { sys::clone(self.flags(layers)) } {
            Err(errno) => return Err(because("making its namespaces", errno)),
            Ok(None) => child::become_python(&setup),
            Ok(Some(pid)) => pid,
        };
        alive().push(pid);
        // If another thread is ending everything, it set the flag before it read the list: we may have come too late for it.
        if super::is_ending() {
            kill(pid);
        }
        let Pipes { request, answer, errors } = pipes;
        drop((request.0, answer.1, errors.1));
        let stdin = Some(File::from(request.1));
        let stdout = Some(File::from(answer.0));
        // From here on the process is ended whatever happens.
        let running = Running {
            pid,
            stdin,
            stdout,
            workdir,
            _user: fresh,
            limits: *limits,
            watch_files: layers.rlimits,
            watch_tasks,
        };
        let mut failure = Vec::new();
        File::from(errors.0).read_to_end(&mut failure)?;
        match failure[..] {
            [] => Ok(running),
            [stage, a, b, c, d] => {
                let stage = child::STAGES.get(usize::from(stage)).copied().unwrap_or("starting it");
                Err(because(stage, c_int::from_le_bytes([a, b, c, d])))
            }
            _ => Err(io::Error::other("it died while it was being started")),
        }
    }

    fn flags(&self, layers: Layers) -> c_int {
        let own = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        match (layers.namespaces, self.namespaces) {
            (false, _) => 0,
            (true, Namespaces::Root) => own,
            (true, Namespaces::User) => own | libc::CLONE_NEWUSER,
        }
    }

    fn ruleset(&self, workdir: Option<&Path>) -> io::Result<Option<OwnedFd>> {
        // The loader is run by the kernel on behalf of the interpreter, under a name that the interpreter's file holds.
        let loaders = ["/lib64", "/lib"].iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let is_loader = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-"));
        let mut runnable: Vec<PathBuf> = loaders.map(|entry| entry.path()).filter(is_loader).collect();
        let named = self.python.readable.iter().filter(|path| path.is_file());
        runnable.extend(named.filter(|path| !path.to_string_lossy().ends_with(".cache")).cloned());
        landlock_rules::ruleset(&self.python.readable, &runnable, workdir).map_err(io::Error::other)
    }

    /// The kernel's limits, and whether we have to count tasks ourselves.
    fn rlimits(
        &self,
        layers: Layers,
        limits: &Limits,
        wall: Duration,
        owner: u32,
        in_user_namespace: bool,
    ) -> (Vec<(Resource, u64)>, bool) {
        if !layers.rlimits {
            return (Vec::new(), false);
        }
        const STACK: u64 = 8 << 20;
        const BURST: u64 = 16;
        // Of all threads together. The time limit ends the program earlier; this is for when our process has been killed.
        let cpu = 2 * wall.as_secs() + 4;
        // The address space is limited by the driver, when it has loaded what the program imports.
        let mut rlimits = vec![
            (Resource::Cpu, cpu),
            (Resource::Fsize, limits.file),
            (Resource::Nofile, limits.descriptors),
            (Resource::Stack, STACK),
            (Resource::Core, 0),
            (Resource::Memlock, 0),
            (Resource::Msgqueue, 0),
        ];
        // The kernel counts tasks per user, in a user namespace apart, and never limits root.
        let counted_apart = in_user_namespace || (owner != 0 && owner != rustix::process::geteuid().as_raw());
        match (counted_apart, owner) {
            (true, _) => rlimits.push((Resource::Nproc, limits.tasks)),
            (false, 0) => {}
            // The user's other tasks count, and come and go: this is only the most that can be made between two looks.
            (false, user) => {
                let most = rustix::process::getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
                rlimits.push((Resource::Nproc, most.min(tasks_of_user(user) + BURST * limits.tasks)));
            }
        }
        (rlimits, !counted_apart)
    }

    /// A file outside that anybody could read if there were no layers.
    pub(super) fn canary(&self) -> io::Result<Canary> {
        use std::os::unix::fs::PermissionsExt;
        let folder = Workdir::new(&std::env::temp_dir(), "cofill-canary", Access::Passable)?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        let path = folder.path().join("canary");
        fs::write(&path, "canary")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(Canary { path, _folder: folder })
    }
}

/// A file that a program must not be able to reach, for the self-test.
pub(super) struct Canary {
    path: PathBuf,
    _folder: Workdir,
}

impl Canary {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// A process in the cage. Dropping this ends it.
pub(super) struct Running {
    pid: Pid,
    stdin: Option<File>,
    stdout: Option<File>,
    workdir: Option<Workdir>,
    _user: Option<FreshId>,
    limits: Limits,
    /// Files and tasks are to be watched, where the kernel does not limit them.
    watch_files: bool,
    watch_tasks: bool,
}

impl Running {
    /// The ends of the pipes for the request and the answer; the second call has nothing left to give.
    pub(super) fn pipes(&mut self) -> (Option<File>, Option<File>) {
        (self.stdin.take(), self.stdout.take())
    }

    /// What no kernel limit covers: files of a directory on a real disk, and threads of a user who has no limit. Where
    /// counting takes long, the program stands still meanwhile, so it gains nothing by making that slow.
    pub(super) fn takes_too_much(&self) -> bool {
        const SLOW: Duration = Duration::from_millis(10);
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        let tasks = || task_count(pid) > self.limits.tasks;
        // What cannot be counted is too much, unless there is nothing left: a process that is ending belongs to root already.
        let held = |workdir: &Workdir| {
            let look = || deleted_files::usage(pid, workdir.path(), &self.limits);
            let again = || {
                std::thread::sleep(Duration::from_millis(5));
                if is_dead(pid) { Some(Usage::default()) } else { look() }
            };
            look().or_else(again).or_else(again)
        };
        let exceeds = |workdir: &Workdir| held(workdir).is_none_or(|held| workdir.exceeds(&self.limits, held));
        let files = || {
            let Some(workdir) = &self.workdir else { return false };
            let begun = Instant::now();
            let found = exceeds(workdir);
            if found || begun.elapsed() < SLOW {
                return found;
            }
            let _ = rustix::process::kill_process(self.pid, Signal::STOP);
            let exceeds = exceeds(workdir);
            let _ = rustix::process::kill_process(self.pid, Signal::CONT);
            exceeds
        };
        (self.watch_files && files()) || (self.watch_tasks && tasks())
    }

    /// Whether we may see what it holds.
    fn can_be_watched(&self) -> bool {
        let pid = self.pid.as_raw_nonzero().get().unsigned_abs();
        deleted_files::usage(pid, Path::new("/"), &self.limits).is_some()
    }

    pub(super) fn end(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        // The first process of a PID namespace takes all others with it. Elsewhere there is a single process, since
        // seccomp lets it start none; the group is for [`super::Options::unsafe_exec`]. Nothing is reaped before, so both numbers are
        // still ours.
        kill(self.pid);
        alive().retain(|pid| *pid != self.pid);
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {}
    }
}

/// Processes that run now, for [`kill_all`]. None of them was reaped, so the numbers are still theirs.
static ALIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn alive() -> MutexGuard<'static, Vec<Pid>> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every program of this process, for one that is about to be ended itself.
pub(super) fn kill_all() {
    alive().iter().for_each(|pid| kill(*pid));
}

fn kill(pid: Pid) {
    // Either fails only when there is no such process any more.
    let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

/// Request, answer, errors; each as (reading end, writing end), none inherited.
struct Pipes {
    request: (OwnedFd, OwnedFd),
    answer: (OwnedFd, OwnedFd),
    errors: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn new() -> io::Result<Pipes> {
        // Numbers below 3 are free when our own stdin was closed, and would be overwritten in the child.
        let high = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&fd, 3);
        let pipe = || {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            io::Result::Ok((high(read)?, high(write)?))
        };
        Ok(Pipes { request: pipe()?, answer: pipe()?, errors: pipe()? })
    }
}

/// The environment of a program: nothing of the user's. The hash seed is fixed, so that a program which depends on the order of a set ends the same
/// way every time.
fn environment(inside: &CStr) -> io::Result<Vec<CString>> {
    let named = |name: &str| CString::new([name.as_bytes(), b"=", inside.to_bytes()].concat()).map_err(io::Error::from);
    let fixed = [
        c"PATH=/usr/bin:/bin",
        c"LC_ALL=C.UTF-8",
        c"PYTHONUTF8=1",
        c"PYTHONHASHSEED=0",
        c"OMP_NUM_THREADS=1",
        c"OPENSSL_CONF=/dev/null",
    ];
    let mut all: Vec<CString> = fixed.into_iter().map(Into::into).collect();
    all.extend([named("HOME")?, named("TMPDIR")?]);
    Ok(all)
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn because(what: &str, errno: c_int) -> io::Error {
    io::Error::other(format!("{what} failed: {}", io::Error::from_raw_os_error(errno)))
}

/// Threads of a process.
fn task_count(pid: u32) -> u64 {
    field(pid, "Threads:").unwrap_or(0)
}

/// Whether a process has ended and only waits for us to notice.
fn is_dead(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // `PID (NAME) STATE ..`, and names may contain anything.
    stat.rsplit(')').next().is_none_or(|rest| matches!(rest.trim_start().as_bytes(), [] | [b'Z' | b'X', ..]))
}

/// Tasks the kernel counts for a user.
fn tasks_of_user(user: u32) -> u64 {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| field(pid, "Uid:") == Some(user.into())).map(task_count).sum()
}

/// The first number of a line in a process's status.
fn field(pid: u32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}
