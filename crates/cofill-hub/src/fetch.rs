//! One file from anywhere whose content is known by its checksum, into a folder of the user's.

use crate::checksum::Checksum;
use crate::download::{Event, Job, download, left_over};
use crate::error::{Error, Result};
use crate::http::{Refusal, Request, Subject};
use crate::lock;
use crate::pull::Hub;
use std::path::Path;

/// A file of which everything is known but its bytes.
#[derive(Debug, Clone)]
pub struct FetchFile<'a> {
    /// For people.
    pub name: &'a str,
    /// Where it is.
    pub url: &'a str,
    /// Its size.
    pub size: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: &'a str,
    /// The variable that names another server.
    pub mirror: &'static str,
}

/// The most that a page of a package index may have.
const MOST_PAGE: u64 = 32 << 20;

impl Hub {
    /// Gets a file into `to`, which must not exist. It grows beside it, and an interrupted download continues. The token of the hub is
    /// sent along where the file is on the hub, and nowhere else.
    pub fn fetch(&self, file: &FetchFile<'_>, to: &Path, report: &mut dyn FnMut(&Event)) -> Result<()> {
        let folder = to.parent().unwrap_or(Path::new("."));
        let FetchFile { name, url, size, sha256, mirror } = *file;
        if self.settings.offline {
            return Err(Error::Offline { what: format!("`{name}`"), place: folder.into() });
        }
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let beside = |ending: &str| {
            let mut path = to.as_os_str().to_owned();
            path.push(ending);
            std::path::PathBuf::from(path)
        };
        let (partial, lock) = (beside(".incomplete"), beside(".lock"));
        let refused = |refusal: &Refusal| plainly_refused(name, refusal);
        let subject = Subject { what: name, place: folder, mirror, refused: &refused };
        let mut waiting = |holder: String| report(&Event::Waiting { file: name.into(), holder });
        let held = lock::acquire(&lock, &self.http, &mut waiting)?;
        if !to.exists() {
            self.check_room(name, size - left_over(&partial, size), folder, "--to")?;
            let on_the_hub = url.starts_with(&format!("{}/", self.settings.endpoint));
            let token = self.settings.token.as_ref().filter(|_| on_the_hub);
            let checksum = Checksum::Sha256(sha256.into());
            // Other servers' etags are no checksums; ours is compared in the end.
            let job = Job { file: name, url, token, size, checksum: &checksum, etag: None, partial: &partial };
            download(&self.http, &job, &subject, report)?;
            std::fs::rename(&partial, to).map_err(Error::io(to))?;
        }
        drop(held);
        let _ = std::fs::remove_file(&lock);
        Ok(())
    }

    /// A page of a package index, in either of its forms.
    pub fn index_page(&self, url: &str, place: &Path, report: &mut dyn FnMut(&Event)) -> Result<String> {
        if self.settings.offline {
            return Err(Error::Offline { what: format!("`{url}`"), place: place.into() });
        }
        let refused = |refusal: &Refusal| plainly_refused(url, refusal);
        let subject = Subject { what: url, place, mirror: "PIP_INDEX_URL", refused: &refused };
        let accept = Some("application/vnd.pypi.simple.v1+json, text/html;q=0.5");
        let request = Request { url, accept, ..Request::default() };
        let bytes = self.http.text(&request, MOST_PAGE, &subject, report)?;
        String::from_utf8(bytes).map_err(|_| Error::BadAnswer { url: url.into(), problem: "no text".into() })
    }
}

fn plainly_refused(name: &str, refusal: &Refusal) -> Error {
    let Refusal { status, host, url, .. } = refusal;
    match status {
        401 | 403 => Error::Denied {
            what: format!("`{name}`"),
            host: host.clone(),
            status: *status,
            remedy: format!("is there a proxy in between? {url} needs no token"),
        },
        404 | 410 => Error::NotFound {
            host: host.clone(),
            what: format!("`{name}` any more"),
            remedy: format!("it was at {url}"),
        },
        _ => Error::BadAnswer { url: url.clone(), problem: format!("status {status}") },
    }
}
