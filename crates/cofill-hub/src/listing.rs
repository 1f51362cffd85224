//! What the hub says a repository holds.

use crate::checksum::Checksum;
use crate::error::{Error, Result};
use serde::Deserialize;

/// The answer to `api/models/{repo}/revision/{revision}?blobs=true`, as much of it as matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Listing {
    /// The commit.
    #[serde(rename = "sha")]
    pub(crate) commit: String,
    #[serde(default, rename = "siblings")]
    pub(crate) files: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "rfilename")]
    pub(crate) path: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

/// A file with what must be known before it is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) checksum: Checksum,
}

/// The most that a listing may have: the largest repositories have some hundred thousand files.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

impl Listing {
    pub(crate) fn parse(json: &[u8], url: &str) -> Result<Listing> {
        let bad = |problem: String| Error::BadAnswer { url: url.into(), problem };
        let listing: Listing =
            serde_json::from_slice(json).map_err(|error| bad(format!("no list of files: {error}")))?;
        let commit = &listing.commit;
        if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
            return Err(bad(format!("`{commit:.60}` is no commit")));
        }
        Ok(listing)
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Listed> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl Listed {
    /// The file with its size and checksum, if the listing has both. Some mirrors leave them out.
    pub(crate) fn known(&self) -> Option<RemoteFile> {
        let (size, etag) = match &self.lfs {
            Some(lfs) => (lfs.size.or(self.size)?, lfs.sha256.as_ref()?),
            None => (self.size?, self.blob_id.as_ref()?),
        };
        Some(RemoteFile { path: self.path.clone(), size, checksum: Checksum::from_etag(etag)? })
    }
}
