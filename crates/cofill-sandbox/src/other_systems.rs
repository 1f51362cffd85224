//! Systems without these walls: nothing runs unless `--unsafe-exec` says so, and then as an ordinary process with a
//! time limit.

use super::layers::Offer;
use super::python::Python;
use super::workdir::{Access, Workdir};
use super::{Error, Layers, Limits, Options};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What it takes to start a process.
#[derive(Debug)]
pub(super) struct Cage {
    python: PathBuf,
}

/// The driver's guard is all there is.
pub(super) fn try_layers(python: &Python, options: &Options) -> Result<Offer, Error> {
    let layers = Layers { guard: options.layers.guard, ..Layers::NONE };
    let cage = Cage { python: python.executable.clone() };
    let lacking = vec![format!("{} has none of the layers that hold a program", std::env::consts::OS)];
    Ok(Offer { cage, layers, working: Vec::new(), lacking })
}

/// A process.
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

    /// A file outside, to be reached for.
    pub(super) fn canary(&self) -> io::Result<Canary> {
        let folder = Workdir::new(&std::env::temp_dir(), "cofill-canary", Access::Passable)?;
        Ok(Canary { path: folder.path().join("canary"), _folder: folder })
    }
}

/// A file that must not be reached.
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
    /// What is written and read, once.
    pub(super) fn pipes(&mut self) -> (Option<std::process::ChildStdin>, Option<std::process::ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    pub(super) fn takes_too_much(&self) -> bool {
        false
    }

    pub(super) fn end(self) {}
}

/// There is no list of processes here: whoever ends such a process leaves its programs to their own time limit.
pub(super) fn kill_all() {}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
