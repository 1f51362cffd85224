//! A model from the hub into the cache: list, choose, compare with the room on the disk, fetch, link.

use crate::Checksum;
use crate::cache::{self, locks_folder, repo_folder};
use crate::download::{Event, Job, download, existing, left_over};
use crate::error::{Error, Result};
use crate::http::{Http, Patience, Refusal, Request, Subject};
use crate::listing::{self, Listing, RemoteFile};
use crate::lock;
use crate::name::ModelName;
use crate::needed::{INDEX, MOST_INDEX_BYTES, needed, shards};
use crate::settings::Settings;
use crate::url::escape;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How many bytes fit into a folder.
type Room = Box<dyn Fn(&Path) -> std::io::Result<u64> + Send + Sync>;

/// A client of the hub.
pub struct Hub {
    pub(crate) settings: Settings,
    pub(crate) http: Http,
    room: Room,
}

/// What became of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The folder of the checkpoint, or the GGUF file.
    pub path: PathBuf,
    /// The commit that the revision is.
    pub commit: String,
    /// How many files it has.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were not there before.
    pub fetched: u64,
}

/// A file and where it will be.
struct Planned {
    remote: RemoteFile,
    blob: PathBuf,
    partial: PathBuf,
}

impl Hub {
    /// A client with these settings; nobody is asked yet.
    pub fn new(settings: Settings) -> Hub {
        Hub { settings, http: Http::new(), room: Box::new(|folder| fs4::available_space(folder)) }
    }

    /// The same, which ends what it does while the flag is set.
    #[must_use]
    pub fn stop_when(mut self, flag: Arc<AtomicBool>) -> Hub {
        self.http.stop = flag;
        self
    }

    /// The same with another way to let time pass between attempts.
    #[must_use]
    pub fn pause_by(mut self, pause: impl Fn(Duration) + Send + Sync + 'static) -> Hub {
        self.http.pause = Box::new(pause);
        self
    }

    /// The same with another way to find out how many bytes fit into a folder.
    #[must_use]
    pub fn measure_room_by(mut self, room: impl Fn(&Path) -> std::io::Result<u64> + Send + Sync + 'static) -> Hub {
        self.room = Box::new(room);
        self
    }

    /// What it was told by the environment.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gets the files of a model that are needed and not there yet. With `afresh`, also those that are.
    pub fn pull(&self, name: &ModelName, afresh: bool, report: &mut dyn FnMut(&Event)) -> Result<Pulled> {
        let what = name.to_string();
        let folder = repo_folder(&self.settings.cache, &name.repo);
        if self.settings.offline {
            return Err(Error::Offline { what: format!("`{what}`"), place: folder });
        }
        let refused = |refusal: &Refusal| self.refused(name, refusal);
        let subject = Subject { what: &what, place: &folder, mirror: "HF_ENDPOINT", refused: &refused };
        let listing = self.list(name, &subject, report)?;
        let commit = listing.commit.clone();
        let (files, index) = self.choose(name, &listing, &subject, report)?;
        let planned: Vec<Planned> = files.into_iter().map(|remote| Planned::new(&folder, remote)).collect();
        let is_there = |file: &Planned| !afresh && file.is_there(&folder, &commit);
        let (present, absent): (Vec<&Planned>, Vec<&Planned>) = planned.iter().partition(|file| is_there(file));
        let total = |files: &[&Planned]| files.iter().fold(0u64, |sum, file| sum.saturating_add(file.remote.size));
        let left_over: u64 = match afresh {
            true => 0,
            false => absent.iter().map(|file| left_over(&file.partial, file.remote.size)).sum(),
        };
        let missing = total(&absent) - left_over;
        report(&Event::Planned {
            what: what.clone(),
            commit: Some(commit.clone()),
            files: absent.iter().map(|file| (file.remote.path.clone(), file.remote.size)).collect(),
            missing,
            present: total(&present),
        });
        self.check_room(&what, missing, &self.settings.cache, "HF_HOME")?;
        let blobs = folder.join("blobs");
        std::fs::create_dir_all(&blobs).map_err(Error::io(&blobs))?;
        cache::tag(&self.settings.cache);
        for file in &absent {
            self.fetch_blob(name, &commit, file, index.as_deref(), afresh, &subject, report)?;
        }
        // Links come last, all at once: a snapshot that exists is whole.
        for file in &planned {
            let (path, etag) = (&file.remote.path, file.remote.checksum.hex());
            if file.blob.exists() {
                cache::place(&folder, &commit, path, etag, self.settings.symlinks)?;
            }
        }
        cache::write_ref(&folder, name.wanted_revision(), &commit)?;
        let snapshot = folder.join("snapshots").join(&commit);
        let path = name.file.as_ref().map_or_else(|| snapshot.clone(), |file| snapshot.join(file));
        let bytes = total(&planned.iter().collect::<Vec<_>>());
        Ok(Pulled { path, commit, files: planned.len(), bytes, fetched: missing })
    }

    /// The files of a revision.
    fn list(&self, name: &ModelName, subject: &Subject<'_>, report: &mut dyn FnMut(&Event)) -> Result<Listing> {
        let revision = escape(name.wanted_revision(), true);
        let url = format!("{}/api/models/{}/revision/{revision}?blobs=true", self.settings.endpoint, name.repo);
        let request = Request { url: &url, token: self.settings.token.as_ref(), ..Request::default() };
        let json = self.http.text(&request, listing::MOST_BYTES, subject, report)?;
        Listing::parse(&json, crate::http::shown(&url))
    }

    /// The files that are needed, and the index if it was read for that.
    fn choose(
        &self,
        name: &ModelName,
        listing: &Listing,
        subject: &Subject<'_>,
        report: &mut dyn FnMut(&Event),
    ) -> Result<(Vec<RemoteFile>, Option<Vec<u8>>)> {
        let needed = needed(listing, name)?;
        let mut paths = needed.paths;
        let mut index = None;
        if needed.sharded {
            let url = self.resolve(name, &listing.commit, INDEX);
            let request = Request { url: &url, token: self.settings.token.as_ref(), ..Request::default() };
            let bytes = self.http.text(&request, MOST_INDEX_BYTES, subject, report)?;
            paths.extend(shards(&bytes, &name.repo)?);
            index = Some(bytes);
        }
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let Some(listed) = listing.find(&path) else {
                return Err(Error::NotFound {
                    host: format!("`{}`", name.repo),
                    what: format!("file `{path}`, which its index names"),
                    remedy: "it is not complete".into(),
                });
            };
            let file = match listed.known() {
                Some(file) => file,
                None => self.ask_for(name, &listing.commit, &path, subject, report)?,
            };
            files.push(file);
        }
        Ok((files, index))
    }

    /// Size and checksum of a file whose listing lacks them.
    fn ask_for(
        &self,
        name: &ModelName,
        commit: &str,
        path: &str,
        subject: &Subject<'_>,
        report: &mut dyn FnMut(&Event),
    ) -> Result<RemoteFile> {
        let url = self.resolve(name, commit, path);
        let request = Request { url: &url, token: self.settings.token.as_ref(), head: true, ..Request::default() };
        let mut patience = Patience::default();
        let answer = loop {
            match self.http.send(&request, subject) {
                Ok(answer) => break answer,
                Err(failure) => patience.after(&self.http, failure, false, subject, report)?,
            }
        };
        let text = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let etag = answer.linked_etag.as_deref().or_else(|| text("etag")).and_then(Checksum::from_etag);
        let size = answer.linked_size.or_else(|| text("content-length").and_then(|length| length.parse().ok()));
        match (etag, size) {
            (Some(checksum), Some(size)) => Ok(RemoteFile { path: path.into(), size, checksum }),
            _ => Err(Error::BadAnswer { url, problem: "neither a checksum nor a size of the file".into() }),
        }
    }

    /// Where a file of a commit is.
    fn resolve(&self, name: &ModelName, commit: &str, path: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.settings.endpoint, name.repo, escape(path, false))
    }

    /// Refuses what does not fit on the disk. Where nobody knows how much does, it is tried.
    pub(crate) fn check_room(&self, what: &str, need: u64, folder: &Path, variable: &'static str) -> Result<()> {
        match (self.room)(&existing(folder)) {
            Ok(free) if free < need => {
                Err(Error::NoRoom { what: format!("`{what}`"), need, free, folder: folder.into(), variable })
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `pull`, which has all of these at hand")]
    fn fetch_blob(
        &self,
        name: &ModelName,
        commit: &str,
        file: &Planned,
        index: Option<&[u8]>,
        afresh: bool,
        subject: &Subject<'_>,
        report: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let RemoteFile { path, size, checksum } = &file.remote;
        let lock = locks_folder(&self.settings.cache, &name.repo).join(format!("{}.lock", checksum.hex()));
        let mut waiting = |holder: String| report(&Event::Waiting { file: path.clone(), holder });
        let _lock = lock::acquire(&lock, &self.http, &mut waiting)?;
        if !afresh && has_size(&file.blob, *size) {
            // Whom we waited for has it.
            report(&Event::Started { file: path.clone(), size: *size, from: *size });
            report(&Event::Finished { file: path.clone() });
            return Ok(());
        }
        if afresh {
            let _ = std::fs::remove_file(&file.partial);
        }
        if let Some(bytes) = index.filter(|bytes| path == INDEX && checksum.of(bytes) == checksum.hex()) {
            std::fs::write(&file.partial, bytes).map_err(Error::io(&file.partial))?;
        }
        let url = self.resolve(name, commit, path);
        let token = self.settings.token.as_ref();
        let etag = Some(checksum.hex());
        let job = Job { file: path, url: &url, token, size: *size, checksum, etag, partial: &file.partial };
        download(&self.http, &job, subject, report)?;
        std::fs::rename(&file.partial, &file.blob).map_err(Error::io(&file.blob))
    }

    /// What a refusal of the hub means, and what to do.
    fn refused(&self, name: &ModelName, refusal: &Refusal) -> Error {
        let Refusal { status, host, url, code } = refusal;
        let page = format!("{}/{}", self.settings.endpoint, name.repo);
        let denied = |remedy: String| Error::Denied {
            what: format!("`{}`", name.repo),
            host: host.clone(),
            status: *status,
            remedy,
        };
        let not_found = |what: String, remedy: String| Error::NotFound { host: host.clone(), what, remedy };
        match (status, code.as_str(), &self.settings.token) {
            (401 | 403, "GatedRepo", None) => denied(format!(
                "it is gated: accept its terms on {page} and give a token (HF_TOKEN, or `hf auth login`)"
            )),
            (401 | 403, "GatedRepo", Some(_)) => {
                denied(format!("it is gated: accept its terms on {page} with the account of the token"))
            }
            (401, _, None) => denied(format!(
                "either the name is wrong ({page} shows whether it exists), or it is private and needs a token (HF_TOKEN, or `hf auth login`)"
            )),
            (401, _, Some(_)) => denied(format!(
                "the token (HF_TOKEN, or the file that `hf auth login` writes) is not valid, or the name is wrong; see {page}"
            )),
            (403, ..) => denied(format!("accept its terms on {page}, and check what the token (HF_TOKEN) may read")),
            (404, "RevisionNotFound", _) => not_found(
                format!("revision `{}` of `{}`", name.wanted_revision(), name.repo),
                format!("{page}/tree/main shows its branches and tags"),
            ),
            (404, "EntryNotFound", _) => {
                not_found(format!("file {url}"), "it was listed a moment ago; ask again".into())
            }
            (404 | 410, ..) => {
                not_found(format!("model `{name}`"), format!("check the name and the revision on {page}"))
            }
            _ => Error::BadAnswer { url: url.clone(), problem: format!("status {status} {code}").trim().into() },
        }
    }
}

impl Planned {
    fn new(folder: &Path, remote: RemoteFile) -> Planned {
        let blob = folder.join("blobs").join(remote.checksum.hex());
        let partial = folder.join("blobs").join(format!("{}.incomplete", remote.checksum.hex()));
        Planned { remote, blob, partial }
    }

    /// Whether it is there: as a blob, or, where there are no links, in the snapshot.
    fn is_there(&self, folder: &Path, commit: &str) -> bool {
        let pointer = folder.join("snapshots").join(commit).join(&self.remote.path);
        has_size(&self.blob, self.remote.size) || has_size(&pointer, self.remote.size)
    }
}

fn has_size(path: &Path, size: u64) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.len() == size)
}
