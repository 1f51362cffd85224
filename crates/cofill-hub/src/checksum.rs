//! Checksums as the hub gives them: SHA-256 of large files, git's SHA-1 of small ones.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What a file must hash to. Also its name among the cache's blobs, since the hub's etags are these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksum {
    /// The SHA-256 of the content, in hexadecimal.
    Sha256(String),
    /// The SHA-1 that git gives the content as a blob, in hexadecimal.
    GitBlob(String),
}

impl Checksum {
    /// Reads an etag: 64 hexadecimal digits or 40. Anything else is no checksum, and no name for a file either.
    pub fn from_etag(etag: &str) -> Option<Checksum> {
        let etag = etag.trim().trim_start_matches("W/").trim_matches('"');
        let hex = etag.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match etag.len() {
            64 if hex => Some(Checksum::Sha256(etag.into())),
            40 if hex => Some(Checksum::GitBlob(etag.into())),
            _ => None,
        }
    }

    /// Its digits.
    pub fn hex(&self) -> &str {
        match self {
            Checksum::Sha256(hex) | Checksum::GitBlob(hex) => hex,
        }
    }

    /// What computes it, for a file of `size` bytes.
    pub(crate) fn hasher(&self, size: u64) -> Hasher {
        match self {
            Checksum::Sha256(_) => Hasher::Sha256(Box::default()),
            Checksum::GitBlob(_) => Hasher::Git(Box::new(Sha1::new_with_prefix(format!("blob {size}\0")))),
        }
    }

    /// Whether these bytes are the ones.
    pub(crate) fn of(&self, bytes: &[u8]) -> String {
        let mut hasher = self.hasher(bytes.len() as u64);
        hasher.update(bytes);
        hasher.hex()
    }
}

/// A checksum that grows with a file.
pub(crate) enum Hasher {
    Sha256(Box<Sha256>),
    Git(Box<Sha1>),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hash) => hash.update(bytes),
            Hasher::Git(hash) => hash.update(bytes),
        }
    }

    pub(crate) fn hex(self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Hasher::Sha256(hash) => hex(&hash.finalize()),
            Hasher::Git(hash) => hex(&hash.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_have_gits_checksum() {
        // `printf 'hello\n' | git hash-object --stdin`
        let git = Checksum::from_etag("\"ce013625030ba8dba906f756967f9e9ca394464a\"").unwrap();
        assert_eq!(git.of(b"hello\n"), git.hex());
        let sha = Checksum::from_etag("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        assert_eq!(sha.of(b"abc"), sha.hex());
    }

    #[test]
    fn an_etag_that_is_no_checksum_names_nothing() {
        let long = "A".repeat(64);
        for etag in ["", "../../x", "abc", "W/\"5-123\"", &long, "ce013625030ba8dba906f756967f9e9ca394464/"] {
            assert_eq!(Checksum::from_etag(etag), None, "{etag}");
        }
    }
}
