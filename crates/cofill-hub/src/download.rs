//! One file, fetched into a partial file that the next attempt continues, and compared with its checksum.

use crate::checksum::{Checksum, Hasher};
use crate::error::{Error, Result};
use crate::http::{Answer, Failure, Http, Patience, Request, Subject, shown};
use crate::settings::Token;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What happens during a download.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It is known what is to be done.
    Planned {
        /// What is fetched: `org/name`.
        what: String,
        /// The commit, if it is a model.
        commit: Option<String>,
        /// The files that are not there yet, with their sizes.
        files: Vec<(String, u64)>,
        /// Bytes of them that are still to come.
        missing: u64,
        /// Bytes of the files that are there already.
        present: u64,
    },
    /// A file begins, or continues behind what an earlier attempt left.
    Started {
        /// The file.
        file: String,
        /// Its size.
        size: u64,
        /// Bytes that are there already.
        from: u64,
    },
    /// Bytes of a file that are there now. It may go back, when what was there turned out to be wrong.
    Progress {
        /// The file.
        file: String,
        /// Its bytes on disk.
        done: u64,
    },
    /// A file is complete, and it is the right one.
    Finished {
        /// The file.
        file: String,
    },
    /// Something failed and will be tried again.
    Retrying {
        /// What was being fetched.
        what: String,
        /// What went wrong.
        why: String,
        /// How long nobody asks.
        pause: Duration,
    },
    /// Somebody else is fetching the same file.
    Waiting {
        /// The file.
        file: String,
        /// Who, as far as known.
        holder: String,
    },
}

/// A file that is to be fetched.
pub(crate) struct Job<'a> {
    /// Its name, for people.
    pub(crate) file: &'a str,
    pub(crate) url: &'a str,
    pub(crate) token: Option<&'a Token>,
    pub(crate) size: u64,
    pub(crate) checksum: &'a Checksum,
    /// What the server calls this content, if that is known: it sends the rest of a file only if it still is the same.
    pub(crate) etag: Option<&'a str>,
    /// Where it grows.
    pub(crate) partial: &'a Path,
}

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// Fetches a file, behind what its partial file holds already. Afterwards that is complete and has the right checksum.
pub(crate) fn download(
    http: &Http,
    job: &Job<'_>,
    subject: &Subject<'_>,
    report: &mut dyn FnMut(&Event),
) -> Result<()> {
    let mut again = false;
    loop {
        let mut partial = Partial::open(job)?;
        report(&Event::Started { file: job.file.into(), size: job.size, from: partial.length });
        let mut patience = Patience::default();
        while partial.length < job.size {
            let before = partial.length;
            if let Err(failure) = attempt(http, job, subject, &mut partial, report) {
                patience.after(http, failure, partial.length > before, subject, report)?;
            }
        }
        let got = partial.finish()?;
        if got == job.checksum.hex() {
            report(&Event::Finished { file: job.file.into() });
            return Ok(());
        }
        // Perhaps what an earlier attempt left was torn, or of another content. From the beginning, once.
        std::fs::remove_file(job.partial).map_err(Error::io(job.partial))?;
        if again {
            return Err(Error::Checksum { what: job.file.into(), want: job.checksum.hex().into(), got });
        }
        again = true;
        let why = "the checksum differs; from the beginning".into();
        report(&Event::Retrying { what: subject.what.into(), why, pause: Duration::ZERO });
    }
}

/// One request, and as many bytes as it brings.
fn attempt(
    http: &Http,
    job: &Job<'_>,
    subject: &Subject<'_>,
    partial: &mut Partial<'_>,
    report: &mut dyn FnMut(&Event),
) -> Result<(), Failure> {
    let (from, unchanged) = (partial.length, job.etag);
    let request = Request { url: job.url, token: job.token, from, unchanged, ..Request::default() };
    let answer = http.send(&request, subject)?;
    let passing = |why: String| Failure::Passing { why, pause: None, host: String::new() };
    let other = answer.linked_etag.as_deref().and_then(Checksum::from_etag).filter(|etag| etag != job.checksum);
    if let Some(other) = other {
        let problem = format!("`{}` is {} now and was {}; ask again", job.file, other.hex(), job.checksum.hex());
        return Err(Failure::Final(Error::BadAnswer { url: shown(&answer.url).into(), problem }));
    }
    match placed(&answer, partial.length, job.size) {
        // The server sends everything: it knows no ranges, or the content changed.
        Ok(0) => partial.restart()?,
        Ok(_) => {}
        Err(why) => {
            partial.restart()?;
            return Err(passing(why));
        }
    }
    let mut body = answer.body.into_reader();
    let mut chunk = vec![0; CHUNK];
    while partial.length < job.size {
        http.check_stop()?;
        let most = CHUNK.min(usize::try_from(job.size - partial.length).unwrap_or(CHUNK));
        match body.read(&mut chunk[..most]) {
            Ok(0) => {
                return Err(passing(format!("the connection ended after {} of {} bytes", partial.length, job.size)));
            }
            Ok(n) => partial.append(&chunk[..n])?,
            Err(error) => return Err(passing(error.to_string())),
        }
        report(&Event::Progress { file: job.file.into(), done: partial.length });
    }
    Ok(())
}

/// The first byte of an answer's body, if it is one of a file of this size; otherwise what is wrong with it.
fn placed(answer: &Answer, asked: u64, size: u64) -> Result<u64, String> {
    let text = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let length = text("content-length").and_then(|length| length.parse::<u64>().ok());
    match answer.status {
        206 => {
            let range = text("content-range").unwrap_or_default();
            let (first, total) = content_range(range).ok_or(format!("the range `{range}` makes no sense"))?;
            if first != asked {
                return Err(format!("asked for bytes from {asked} on, it sends those from {first} on"));
            }
            match total {
                Some(total) if total != size => Err(format!("it has {total} bytes, not {size}")),
                _ => Ok(first),
            }
        }
        200 => match length {
            Some(length) if length != size => Err(format!("it has {length} bytes, not {size}")),
            _ => Ok(0),
        },
        status => Err(format!("it has no bytes from {asked} on ({status})")),
    }
}

/// `bytes 5-9/10`: the first byte, and how many there are if that is known.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    (first <= last && total.is_none_or(|total: u64| last < total)).then_some((first, total))
}

/// A file that grows, and its checksum so far.
struct Partial<'a> {
    path: &'a Path,
    file: File,
    length: u64,
    hasher: Hasher,
    fresh: Box<dyn Fn() -> Hasher + 'a>,
}

impl<'a> Partial<'a> {
    /// Opens what an earlier attempt left and hashes it, or begins.
    fn open(job: &Job<'a>) -> Result<Partial<'a>> {
        let path = job.partial;
        let (checksum, size) = (job.checksum, job.size);
        let fresh: Box<dyn Fn() -> Hasher + 'a> = Box::new(move || checksum.hasher(size));
        // A link in this place would have us write elsewhere.
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            let source = std::io::Error::other("is no regular file");
            return Err(Error::Io { path: path.into(), source });
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(Error::io(path))?;
        let mut partial = Partial { path, file, length: 0, hasher: fresh(), fresh };
        let mut chunk = vec![0; CHUNK];
        loop {
            match partial.file.read(&mut chunk).map_err(Error::io(path))? {
                0 => return Ok(partial),
                n => {
                    partial.length += n as u64;
                    partial.hasher.update(&chunk[..n]);
                }
            }
            if partial.length > size {
                partial.restart()?;
                return Ok(partial);
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        if self.length > 0 {
            self.file.set_len(0).map_err(Error::io(self.path))?;
            self.file.seek(SeekFrom::Start(0)).map_err(Error::io(self.path))?;
            (self.length, self.hasher) = (0, (self.fresh)());
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io(self.path))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The checksum of all of it, once the disk has it.
    fn finish(self) -> Result<String> {
        self.file.sync_all().map_err(Error::io(self.path))?;
        Ok(self.hasher.hex())
    }
}

/// The bytes that a partial file holds already.
pub(crate) fn left_over(partial: &Path, size: u64) -> u64 {
    partial.metadata().map_or(0, |found| found.len()).min(size)
}

/// The nearest folder above a path that exists: what it will be on.
pub(crate) fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|folder| folder.is_dir());
    found.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 0-0/*"), Some((0, None)));
        for odd in ["", "bytes */10", "bytes 9-5/10", "bytes 5-10/10", "items 0-1/2", "bytes -1-2/3", "bytes 1-2"] {
            assert_eq!(content_range(odd), None, "{odd}");
        }
    }
}
