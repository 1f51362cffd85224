//! The benchmarks' files from where their authors keep them, known by their checksums.

use cofill_hub::{Event, FetchFile, Hub, wheel_links};
use cofill_tasks::benchmarks::Benchmark;
use cofill_tasks::data::{self, File};
use cofill_tasks::sources::{FileSource, Package, Place, SOURCES, UnpackError};
use std::path::{Path, PathBuf};

/// The servers that are asked; the hub is the client's own.
#[derive(Debug, Clone)]
pub struct Servers {
    /// Files of public repositories: `COFILL_GITHUB_RAW`, or <https://raw.githubusercontent.com>.
    pub github_raw: String,
    /// The index of Python packages: `PIP_INDEX_URL`, or <https://pypi.org/simple>.
    pub python_index: String,
}

impl Servers {
    /// As the environment says.
    pub fn from_env() -> Servers {
        let or = |name: &str, usual: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.unwrap_or_else(|| usual.into()).trim_end_matches('/').to_owned()
        };
        Servers {
            github_raw: or("COFILL_GITHUB_RAW", "https://raw.githubusercontent.com"),
            python_index: or("PIP_INDEX_URL", "https://pypi.org/simple"),
        }
    }
}

/// What became of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is there now.
    Fetched,
    /// It was there already.
    Present,
    /// Another file of this name is there, and stays.
    Unknown,
}

/// Why data files could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The download.
    #[error(transparent)]
    Hub(#[from] cofill_hub::Error),
    /// What came is not what it should be.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The index of packages does not have it.
    #[error("{index} has no `{name}` with the sha256 {sha256}; PIP_INDEX_URL names another index")]
    NotInIndex {
        /// The page of the index.
        index: String,
        /// The file.
        name: &'static str,
        /// What it must be.
        sha256: &'static str,
    },
    /// The file system.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Gets the files of some benchmarks into a folder. What is there stays. An interrupted download continues.
pub fn fetch(
    hub: &Hub,
    servers: &Servers,
    tasks: &[Benchmark],
    folder: &Path,
    report: &mut dyn FnMut(&Event),
) -> Result<Vec<(&'static File, Outcome)>, Error> {
    std::fs::create_dir_all(folder).map_err(io(folder))?;
    let packages = folder.join(".packages");
    let mut outcomes = Vec::new();
    for source in SOURCES.iter().filter(|source| tasks.iter().any(|task| task.files().contains(&source.file))) {
        let file = source.file;
        let path = folder.join(file.name);
        let outcome = match std::fs::read(&path) {
            Ok(bytes) if data::sha256(&bytes) == file.sha256 => Outcome::Present,
            Ok(_) => Outcome::Unknown,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let packed = package(hub, servers, source, &packages, report)?;
                let made = source.unpack(&packed)?;
                let beside = packages.join(format!("{}.{}", file.name, std::process::id()));
                std::fs::write(&beside, made).map_err(io(&beside))?;
                std::fs::rename(&beside, &path).map_err(io(&path))?;
                Outcome::Fetched
            }
            Err(source) => return Err(Error::Io { path, source }),
        };
        outcomes.push((file, outcome));
    }
    // What they were made of is not needed any more. Only what we put there goes; if another run is at it, the folder stays.
    for source in SOURCES.iter().filter(|source| outcomes.iter().any(|(file, _)| *file == source.file)) {
        for ending in ["", ".incomplete", ".lock"] {
            let _ = std::fs::remove_file(packages.join(format!("{}{ending}", source.package.name)));
        }
    }
    let _ = std::fs::remove_dir(&packages);
    Ok(outcomes)
}

/// What the file system said about a path.
fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// The bytes of what a file is made of.
fn package(
    hub: &Hub,
    servers: &Servers,
    source: &FileSource,
    folder: &Path,
    report: &mut dyn FnMut(&Event),
) -> Result<Vec<u8>, Error> {
    let Package { place, path, name, size, sha256, .. } = *source.package;
    let to = folder.join(name);
    if to.exists() {
        let bytes = std::fs::read(&to).map_err(io(&to))?;
        if data::sha256(&bytes) == sha256 {
            return Ok(bytes); // for a file before this one, or by a run that was interrupted
        }
        std::fs::remove_file(&to).map_err(io(&to))?;
    }
    let (url, mirror) = match place {
        Place::GitHub => (format!("{}/{path}", servers.github_raw), "COFILL_GITHUB_RAW"),
        Place::Hub => (format!("{}/{path}", hub.settings().endpoint), "HF_ENDPOINT"),
        Place::PythonRegistry => {
            let index = format!("{}/{path}/", servers.python_index);
            let page = hub.index_page(&index, folder, report)?;
            match wheel_links(&page, &index, name) {
                Some((url, listed)) if listed.as_deref().is_none_or(|listed| listed == sha256) => {
                    (url, "PIP_INDEX_URL")
                }
                _ => return Err(Error::NotInIndex { index, name, sha256 }),
            }
        }
    };
    hub.fetch(&FetchFile { name, url: &url, size, sha256, mirror }, &to, report)?;
    std::fs::read(&to).map_err(io(&to))
}
