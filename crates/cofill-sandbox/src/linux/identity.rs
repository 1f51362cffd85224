//! A user id that owns nothing, for each run of root's another.
//!
//! The kernel counts tasks and signals rights by user id, so two programs under one id share a limit and can see each
//! other. Ids are claimed for the time of a run among all cofills of this machine: whoever binds the abstract socket
//! with an id's name has it. Such a name is given back by the kernel however its owner ends, and leaves no file.

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
    /// Nobody ever writes to it.
    _claim: UnixDatagram,
}

impl FreshId {
    /// Claims an id, beginning anywhere, so that cofills rarely ask for the same one.
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

    /// The number.
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
