//! Landlock: which files may be opened, and how.
//!
//! A rule is about a directory itself, not about its name, so the same rules hold inside a root of bind mounts and outside
//! of it.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Everything that this version of Landlock can refuse is refused unless allowed here; older kernels can refuse less.
const NEWEST: ABI = ABI::V7;

/// What may be done in the program's own directory: anything but running programs and making devices or sockets.
fn workdir_rights() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev)
}

/// The rights in the program's own directory that a kernel of this version knows: it refuses rules about others.
pub(super) fn workdir_bits(version: i64) -> u64 {
    let known = match version {
        1 => AccessFs::from_all(ABI::V1),
        2 => AccessFs::from_all(ABI::V2),
        3 | 4 => AccessFs::from_all(ABI::V3),
        _ => AccessFs::from_all(ABI::V5),
    };
    (workdir_rights() & known).bits()
}

/// A ruleset: Python may be read, the interpreter and its loader executed, `workdir` used, and harmless devices opened.
pub(super) fn ruleset(
    readable: &[PathBuf],
    runnable: &[PathBuf],
    workdir: Option<&Path>,
) -> Result<Option<OwnedFd>, landlock::RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let mut allow = |path: &Path, access: BitFlags<AccessFs>| {
        // What does not exist needs no rule.
        let Ok(fd) = PathFd::new(path) else { return Ok(()) };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        (&mut rules).add_rule(PathBeneath::new(fd, access)).map(drop)
    };
    for path in readable {
        allow(path, read)?;
    }
    for path in runnable {
        allow(path, AccessFs::Execute | AccessFs::ReadFile)?;
    }
    for device in super::DEVICES {
        allow(Path::new(device), AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    if let Some(workdir) = workdir {
        allow(workdir, workdir_rights())?;
    }
    Ok(rules.into())
}
