//! For root: a user id that owns nothing, another one for each run.
//!
//! The kernel counts tasks by user id and lets processes of the same id signal each other, so two programs under one id share a limit and can end each
//! other. Ids are claimed for the time of a run among all cofill processes of this machine: the process that binds the
//! abstract socket with an id's name has the id. The kernel gives the name back however the process ends, and no file is
//! left.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Ids that systemd sets aside for services without a user of their own; they exist in containers with the usual
/// 65,536 ids.
const IDS: std::ops::Range<u32> = 61_184..65_520;

/// An id that no other run has, until this is dropped.
#[derive(Debug)]
pub(super) struct FreshId {
    id: u32,
    /// Holds the name while it is open; nothing is ever sent to it.
    _claim: UnixDatagram,
}

impl FreshId {
    /// Claims an id, beginning at a random one, so that processes rarely try the same one first.
    pub(super) fn claim() -> io::Result<FreshId> {
        let count = IDS.end - IDS.start;
        let first = (RandomState::new().hash_one(0) % u64::from(count)) as u32;
        for i in 0..count {
            let id = IDS.start + (first + i) % count;
            let name = SocketAddr::from_abstract_name(format!("cofill-sandbox-user-{id}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(claim) => return Ok(FreshId { id, _claim: claim }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("all {count} user ids for programs are in use")))
    }

    /// The user id, which is also the group id.
    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_have_the_same_id() {
        let claims: Vec<FreshId> = (0..200).map(|_| FreshId::claim().unwrap()).collect();
        let mut ids: Vec<u32> = claims.iter().map(FreshId::id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 200);
        assert!(ids.iter().all(|id| IDS.contains(id)));
    }
}
