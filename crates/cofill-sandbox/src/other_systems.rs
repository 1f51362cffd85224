//! Systems that have none of the layers: nothing runs unless [`Options::unsafe_exec`] says so, and then as an ordinary
//! process with a time limit.

use super::layers::Trial;
use super::python::Python;
use super::workdir::{Access, Workdir};
use super::{Error, Layers, Limits, Options};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// No cage at all: what it takes to start Python.
#[derive(Debug)]
pub(super) struct Cage {
    python: PathBuf,
}

/// The guard in the driver is the only layer that does not depend on the system.
pub(super) fn try_layers(python: &Python, options: &Options) -> Result<Trial, Error> {
    let layers = Layers { guard: options.layers.guard, ..Layers::NONE };
    let cage = Cage { python: python.executable.clone() };
    let lacking = vec![format!("{} has none of the layers that hold a program", std::env::consts::OS)];
    Ok(Trial { cage, layers, working: Vec::new(), lacking })
}

/// A running Python. Dropping it ends the process.
pub(super) struct Running {
    child: Child,
    _workdir: Workdir,
}

impl Cage {
    pub(super) fn start(&self, _: Layers, _: &Limits, _: Duration) -> io::Result<Running> {
        let workdir = Workdir::new(&std::env::temp_dir(), "cofill-run", Access::Private)?;
        let mut command = Command::new(&self.python);
        command.args(["-B", "-s", "-c", super::protocol::DRIVER]).current_dir(workdir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Running { child: command.spawn()?, _workdir: workdir })
    }

    /// The path of a file outside that a program may try to reach.
    pub(super) fn canary(&self) -> io::Result<Canary> {
        let folder = Workdir::new(&std::env::temp_dir(), "cofill-canary", Access::Passable)?;
        Ok(Canary { path: folder.path().join("canary"), _folder: folder })
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

impl Running {
    /// The ends of the pipes for the request and the answer; the second call has nothing left to give.
    pub(super) fn pipes(&mut self) -> (Option<std::process::ChildStdin>, Option<std::process::ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    pub(super) fn takes_too_much(&self) -> bool {
        false
    }

    pub(super) fn end(self) {}
}

/// There is no list of processes here: when our process is ended, its programs end by their own time limit.
pub(super) fn kill_all() {}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
