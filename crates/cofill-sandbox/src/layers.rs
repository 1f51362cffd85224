//! The layers of a cage, the limits on a program, and which layers together are enough.

use std::fmt;

/// Which layers are in use. A fresh process, a clean environment and no inherited descriptors come with every one of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// User, mount, PID, network, IPC and UTS namespaces: a root that holds Python and a small tmpfs, no interface,
    /// no other process.
    pub namespaces: bool,
    /// Landlock: files by path, TCP ports, signals and abstract sockets of others.
    pub landlock: bool,
    /// seccomp: system calls by number; no processes, no sockets, no attributes of files, nothing exotic.
    pub seccomp: bool,
    /// Resource limits: address space, CPU time, tasks, file size, descriptors, core files.
    pub rlimits: bool,
    /// For root: an identity without privileges. For everybody: no capabilities and no new ones.
    pub privileges: bool,
    /// The driver's audit hook, which keeps a program away from the bytes that mean a pass.
    pub guard: bool,
}

impl Default for Layers {
    fn default() -> Layers {
        Layers::ALL
    }
}

impl Layers {
    /// Every layer: the default.
    pub const ALL: Layers =
        Layers { namespaces: true, landlock: true, seccomp: true, rlimits: true, privileges: true, guard: true };
    /// No layer at all: to be filled in, and for tests.
    pub const NONE: Layers =
        Layers { namespaces: false, landlock: false, seccomp: false, rlimits: false, privileges: false, guard: false };

    /// What a program could still do with these layers; nothing if they are enough. Files need a root of their own or Landlock. Nothing does without seccomp: Landlock
    /// leaves owners, modes and times of files alone, and namespaces leave families of sockets that know none
    /// (AF_VSOCK) and memory that no limit counts (memfds).
    pub(super) fn remaining_risks(self) -> Vec<&'static str> {
        let mut risks = Vec::new();
        if !(self.namespaces || (self.landlock && self.seccomp)) {
            risks.push("files of the user are within reach");
        }
        if !self.seccomp {
            risks.push("sockets are within reach");
            risks.push("memory can be taken that no limit counts");
        }
        if !(self.namespaces || self.seccomp) {
            risks.push("processes can outlive the run");
        }
        if !self.privileges {
            risks.push("privileges are kept");
        }
        if !self.rlimits {
            risks.push("memory and processes are not limited");
        }
        risks
    }
}

/// What a program may use. The defaults are far above what any reference solution needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    /// Threads and, where they can be made at all, processes.
    pub tasks: u64,
    /// Bytes in one file.
    pub file: u64,
    /// Bytes in all files together.
    pub disk: u64,
    /// How many files and directories there may be at a time.
    pub entries: u64,
    /// How many files may be open at a time.
    pub descriptors: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        const MIB: u64 = 1 << 20;
        Limits { memory: 2048 * MIB, tasks: 64, file: 32 * MIB, disk: 64 * MIB, entries: 4096, descriptors: 64 }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        let Limits { memory, tasks, disk, entries, .. } = *self;
        write!(f, "{} MiB of memory, {tasks} tasks, {} MiB in {entries} files", mib(memory), mib(disk))
    }
}

/// What trying the layers on this machine found: a cage of those that were wanted and work, and why the others do not.
pub(super) struct Trial {
    pub(super) cage: super::cage::Cage,
    pub(super) layers: Layers,
    /// The layers in use, in words with versions.
    pub(super) working: Vec<String>,
    /// Layers that were wanted and do not work, each with the reason.
    pub(super) lacking: Vec<String>,
}

impl Trial {
    /// Why this is not enough, if it is not.
    pub(super) fn missing(&self) -> Option<String> {
        let risks = self.layers.remaining_risks();
        (!risks.is_empty()).then(|| {
            let lacking = if self.lacking.is_empty() { "turned off".into() } else { self.lacking.join("; ") };
            format!("{} ({lacking})", risks.join(", "))
        })
    }

    /// The layers in words, for the header of a file of results.
    pub(super) fn describe(&self, options: &super::Options) -> String {
        let mut text = if self.working.is_empty() { "no walls".into() } else { self.working.join(", ") };
        if !self.lacking.is_empty() {
            text += &format!(" (not here: {})", self.lacking.join("; "));
        }
        if options.unsafe_exec {
            // Not an error but a record: files of results have said it in this way from the beginning.
            text += ", --unsafe-exec";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seccomp_with_namespaces_or_landlock_is_enough() {
        let enough = |layers: Layers| layers.remaining_risks().is_empty();
        let limited = Layers { rlimits: true, privileges: true, ..Layers::NONE };
        assert!(enough(Layers::ALL));
        assert!(enough(Layers { namespaces: true, seccomp: true, ..limited }));
        assert!(enough(Layers { landlock: true, seccomp: true, ..limited }));
        assert!(!enough(Layers { namespaces: true, landlock: true, ..limited }));
        assert!(!enough(Layers { landlock: true, ..limited }));
        assert!(!enough(Layers { seccomp: true, ..limited }));
        assert!(!enough(Layers { rlimits: false, ..Layers::ALL }));
        assert!(!enough(Layers { privileges: false, ..Layers::ALL }));
        assert_eq!(Layers::NONE.remaining_risks().len(), 6);
    }
}
