//! Which layers work on this machine, found out by trying: each is put around a program that should pass.
//!
//! Versions and settings do not tell: containers forbid system calls that the kernel has, and answer them with different
//! errors.

use super::{Cage, Identity, Namespaces, sys, syscalls};
use crate::layers::Trial;
use crate::python::Python;
use crate::run::Runner;
use crate::workdir::{self, Access, Workdir};
use crate::{Error, Layers, Options, TRIAL_TIMEOUT};
use std::io;

/// A cage of the layers that are wanted and work.
pub(crate) fn try_layers(python: &Python, options: &Options) -> Result<Trial, Error> {
    let parent = std::env::temp_dir();
    for prefix in ["cofill-sandbox-", "cofill-canary-"] {
        workdir::remove_stale(&parent, prefix);
    }
    let base = Workdir::new(&parent, "cofill-sandbox", Access::Passable)
        .map_err(|problem| Error::Workdir { parent, problem })?;
    let is_root = rustix::process::geteuid().is_root();
    let mut cage = Cage {
        python: python.clone(),
        base,
        filters: None,
        landlock: 0,
        namespaces: if is_root { Namespaces::Root } else { Namespaces::User },
        identity: Identity::Fresh,
    };
    let mut found =
        Findings { layers: Layers { guard: options.layers.guard, ..Layers::NONE }, working: vec![], lacking: vec![] };
    let wanted = options.layers;

    if wanted.namespaces {
        found.namespaces(&mut cage, options);
    }
    if wanted.landlock {
        found.landlock(&mut cage, options);
    }
    if wanted.seccomp {
        found.seccomp(&mut cage, options);
    }
    if wanted.rlimits {
        found.layers.rlimits = true;
        found.working.push("resource limits".into());
    }
    if wanted.privileges {
        found.privileges(&mut cage, options, is_root);
    }
    Ok(Trial { cage, layers: found.layers, working: found.working, lacking: found.lacking })
}

/// What has been found out so far.
struct Findings {
    layers: Layers,
    working: Vec<String>,
    lacking: Vec<String>,
}

impl Findings {
    fn namespaces(&mut self, cage: &mut Cage, options: &Options) {
        // Privileges go with it: in a user namespace they are what keeps the capabilities that come with it from the
        // program.
        let only = Layers { namespaces: true, privileges: true, ..Layers::NONE };
        let mut reason = attempt(cage, options, only);
        if reason.is_some() && cage.namespaces == Namespaces::Root {
            // Root of a container may lack the right and still have that of any user.
            cage.namespaces = Namespaces::User;
            reason = attempt(cage, options, only);
        }
        match reason {
            None => {
                let user = if cage.namespaces == Namespaces::User { "user, " } else { "" };
                self.layers.namespaces = true;
                self.working.push(format!("namespaces ({user}mount, pid, network, ipc, uts)"));
            }
            Some(reason) => self.lacking.push(format!("namespaces: {reason}")),
        }
    }

    fn landlock(&mut self, cage: &mut Cage, options: &Options) {
        cage.landlock = match sys::landlock_version() {
            Ok(version) => version,
            Err(errno) => return self.lacking.push(format!("Landlock: {}", io::Error::from_raw_os_error(errno))),
        };
        match attempt(cage, options, Layers { landlock: true, ..Layers::NONE }) {
            None => {
                self.layers.landlock = true;
                self.working.push(format!("Landlock {}", cage.landlock));
            }
            Some(reason) => self.lacking.push(format!("Landlock: {reason}")),
        }
    }

    fn seccomp(&mut self, cage: &mut Cage, options: &Options) {
        let reason = match syscalls::filters() {
            Ok(filters) => {
                cage.filters = Some(filters);
                attempt(cage, options, Layers { seccomp: true, ..Layers::NONE })
            }
            Err(error) => Some(error.to_string()),
        };
        match reason {
            None => {
                self.layers.seccomp = true;
                self.working.push("seccomp".into());
            }
            Some(reason) => self.lacking.push(format!("seccomp: {reason}")),
        }
    }

    /// Root gives its identity up, unless Python lies where nobody else can read it and there is no root directory to
    /// put it into.
    fn privileges(&mut self, cage: &mut Cage, options: &Options, is_root: bool) {
        self.layers.privileges = true;
        let only = Layers { privileges: true, ..Layers::NONE };
        // Nor where we could not look into a process of another user, as in many containers: its files could not be counted.
        let watched = || {
            let started = cage.start(only, &options.limits, TRIAL_TIMEOUT);
            started.is_ok_and(|running| running.can_be_watched())
        };
        if is_root && !self.layers.namespaces && (attempt(cage, options, only).is_some() || !watched()) {
            cage.identity = Identity::Keep;
        }
        let keeps_root = is_root && cage.identity == Identity::Keep;
        self.working.push(if keeps_root { "no capabilities (as root)" } else { "no privileges" }.into());
    }
}

/// Why a program that should pass does not.
fn attempt(cage: &Cage, options: &Options, layers: Layers) -> Option<String> {
    let runner = Runner { cage, layers, limits: &options.limits };
    match runner.run("assert 1 + 1 == 2", TRIAL_TIMEOUT) {
        Ok(execution) if execution.passed => None,
        Ok(execution) => Some(format!("a harmless program ended with `{}`", execution.result)),
        Err(failure) => Some(failure.to_string()),
    }
}
