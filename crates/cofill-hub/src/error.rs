//! Every way a download says no: the fact, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be fetched, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a name that the hub could have.
    #[error(
        "`{given}` is no name of a model on the hub: {why}; write `org/name`, `org/name@revision` or `org/name/file.gguf`"
    )]
    BadName {
        /// As it was given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// The user said not to ask any network.
    #[error("{what} is not on this machine, and HF_HUB_OFFLINE is set; unset it, or put the files into `{}` by hand", .place.display())]
    Offline {
        /// What was wanted.
        what: String,
        /// Where it would be.
        place: PathBuf,
    },
    /// Nobody answers.
    #[error(
        "{host} cannot be reached ({why}); without a network, put the files into `{}` by hand; HTTPS_PROXY names a proxy, {mirror} another address, and HF_HUB_OFFLINE=1 keeps from asking", .place.display()
    )]
    Unreachable {
        /// Who was asked.
        host: String,
        /// What the system said.
        why: String,
        /// Where the files would be.
        place: PathBuf,
        /// The variable that names another server.
        mirror: &'static str,
    },
    /// The hub wants to know who asks, or does not give this to whoever asked.
    #[error("{what}: {host} says {status}; {remedy}")]
    Denied {
        /// What was asked for.
        what: String,
        /// Who was asked.
        host: String,
        /// 401 or 403.
        status: u16,
        /// What would help.
        remedy: String,
    },
    /// No such model, revision or file.
    #[error("{host} has no {what}; {remedy}")]
    NotFound {
        /// Who was asked.
        host: String,
        /// What is not there.
        what: String,
        /// What to look at.
        remedy: String,
    },
    /// Tried again and again.
    #[error(
        "{what}: gave up after {times} failures in a row, the last one: {why}; what is there is kept, and the same command continues"
    )]
    GaveUp {
        /// What was being fetched.
        what: String,
        /// How often it was tried without any progress.
        times: u32,
        /// The last failure.
        why: String,
    },
    /// The server wants more patience than anybody has.
    #[error("{what}: {host} asks to wait {} seconds; what is there is kept, and the same command continues later", .wait.as_secs())]
    Busy {
        /// What was being fetched.
        what: String,
        /// Who was asked.
        host: String,
        /// How long.
        wait: Duration,
    },
    /// An answer that nobody can use.
    #[error("{url} answered what cannot be used: {problem}")]
    BadAnswer {
        /// Who was asked what.
        url: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// A path that would lead out of the cache.
    #[error("`{repo}` lists the file `{path}`, which {why}; it is not fetched")]
    BadPath {
        /// The model.
        repo: String,
        /// As the server has it.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing that could be loaded.
    #[error("`{repo}` has no weights in safetensors ({found}); other forms are not read")]
    NoWeights {
        /// The model.
        repo: String,
        /// What it has instead.
        found: String,
    },
    /// Several GGUF files, one of which must be named.
    #[error("`{repo}` holds GGUF files; name one of them: {}", .files.join(", "))]
    WhichGguf {
        /// The model.
        repo: String,
        /// Their names, with which each can be asked for.
        files: Vec<String>,
    },
    /// The disk is too small.
    #[error(
        "{what} needs {} more, and `{}` has room for {}; make room, or name another disk with {variable}",
        size(*.need), .folder.display(), size(*.free)
    )]
    NoRoom {
        /// What is to be fetched.
        what: String,
        /// Bytes that are still to come.
        need: u64,
        /// Bytes that fit.
        free: u64,
        /// Where they would go.
        folder: PathBuf,
        /// What changes where they go.
        variable: &'static str,
    },
    /// Other bytes than promised, twice.
    #[error(
        "{what}: the checksum is {got}, not {want}; the file was fetched twice and removed. Is a proxy or a mirror in between?"
    )]
    Checksum {
        /// The file.
        what: String,
        /// As it was promised.
        want: String,
        /// As it is.
        got: String,
    },
    /// The file system.
    #[error("`{}`: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Whoever asked wants to stop.
    #[error("stopped; what is there is kept, and the same command continues")]
    Stopped,
    /// Nothing of that name in the cache.
    #[error("`{name}` is not in the cache (`{}`); {remedy}", .cache.display())]
    NotCached {
        /// As it was named.
        name: String,
        /// Where it was looked for.
        cache: PathBuf,
        /// What to do.
        remedy: String,
    },
    /// Somebody is downloading what is to be removed.
    #[error("`{name}` is being downloaded by {holder}; wait for it, or end it first")]
    InUse {
        /// As it was named.
        name: String,
        /// Who, as far as known.
        holder: String,
    },
}

impl Error {
    /// What the file system said about a path.
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    }

    /// Whether the request was wrong, and asking again would not help. Otherwise it was the network or the machine.
    pub fn is_request(&self) -> bool {
        !matches!(
            self,
            Error::Unreachable { .. }
                | Error::GaveUp { .. }
                | Error::Busy { .. }
                | Error::BadAnswer { .. }
                | Error::Checksum { .. }
                | Error::Io { .. }
                | Error::Stopped
        )
    }
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(one, _)| bytes as f64 >= *one);
    unit.map_or(format!("{bytes} B"), |(one, unit)| format!("{:.1} {unit}", bytes as f64 / one))
}
