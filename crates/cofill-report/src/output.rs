//! Files that commands write where the user pointed, and the one rule for all of them: what exists is not touched unless whoever writes says so ([`Existing`]).
//!
//! A file that is made at once ([`Output::whole`]) is written beside its place and gets its name when it is complete, so a full disk or a
//! crash leaves the old one, or none. A file that grows while a run goes on ([`Output::growing`]) is in its place from the beginning, since
//! half a run is worth keeping; only where it replaces another it waits beside it until [`Output::publish`], which may be as soon as its header is
//! written. While it grows it is locked.
//!
//! Devices, pipes and `/dev/stdout` hold nothing that could be lost. They are written as they are.

use crate::lock::{self, Lock};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to do with a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Say so and leave it.
    Refuse,
    /// Put the new file in its place.
    Replace,
}

/// How a place can be refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something would be lost.
    #[error("`{}` exists; give another name, or replace it on purpose", .path.display())]
    Exists {
        /// Where the file is.
        path: PathBuf,
    },
    /// A file was wanted.
    #[error("`{}` is a folder; give the name of a file", .path.display())]
    Folder {
        /// What is there instead of a file.
        path: PathBuf,
    },
    /// A link whose end is missing: whether anything is meant to be there is not ours to guess.
    #[error("`{}` is a link that leads nowhere; remove it, or give another name", .path.display())]
    Dangling {
        /// Where the link is.
        path: PathBuf,
    },
    /// A device or a pipe has no end at which one could go on.
    #[error("`{}` is no regular file and cannot be continued; give another file", .path.display())]
    Special {
        /// What it is called.
        path: PathBuf,
    },
    /// Somebody else is at it.
    #[error("`{}` is being written by {holder}, which holds its lock; wait for it to end, or give another file", .path.display())]
    Busy {
        /// Where the file is.
        path: PathBuf,
        /// The process that holds its lock.
        holder: String,
    },
    /// The system says no.
    #[error("cannot write `{}`: {source}; give a place that can be written and has room", .path.display())]
    Io {
        /// Where the file is.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A file that is being written.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    /// Where it waits for its name.
    part: Option<Part>,
    /// Why nobody is kept out, where the file system has no locks.
    unlocked: Option<io::Error>,
}

/// A file beside the one it will be; gone if it never is.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    target: PathBuf,
    /// What it will replace, locked, so that nobody who still writes to it loses anything.
    replaces: Option<File>,
}

/// What there is at a path.
enum There {
    Nothing,
    File,
    /// A device, a pipe, or a descriptor of ours under its name in `/dev`.
    Special,
}

/// Refuses what [`Output::whole`] and [`Output::growing`] would refuse, without writing: for knowing it before hours of work.
pub fn check(path: &Path, existing: Existing) -> Result<(), Error> {
    match (look(path)?, existing) {
        (There::File, Existing::Refuse) => Err(Error::Exists { path: path.into() }),
        _ => Ok(()),
    }
}

/// Writes files below a folder, which is made if it is not there: nothing is put in its place before all are written.
pub fn write_all<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    existing: Existing,
) -> Result<Vec<PathBuf>, Error> {
    for (name, _) in files.clone() {
        check(&folder.join(name), existing)?;
    }
    let mut outputs = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|source| Error::Io { path: parent.into(), source })?;
        let mut output = Output::whole(&path, existing)?;
        output.write_all(bytes).map_err(|source| output.failed(source))?;
        outputs.push(output);
    }
    let in_place = |mut output: Output| output.publish().map(|()| output.path.clone());
    outputs.into_iter().map(in_place).collect()
}

impl Output {
    /// A file that is made at once. It gets its name by [`Output::publish`]; dropped before, it leaves nothing.
    pub fn whole(path: &Path, existing: Existing) -> Result<Output, Error> {
        check(path, existing)?;
        match look(path)? {
            There::Special => special(path),
            There::File => Output::instead(path),
            There::Nothing => Output::beside(path, path.into(), None),
        }
    }

    /// A file that grows while a run goes on, locked. One that replaces another does so at [`Output::publish`].
    pub fn growing(path: &Path, existing: Existing) -> Result<Output, Error> {
        check(path, existing)?;
        match look(path)? {
            There::Special => special(path),
            There::File => {
                let output = Output::instead(path)?;
                let place = output.part.as_ref().map_or(path, |part| &part.path).to_owned();
                output.locked(&place)
            }
            There::Nothing => {
                let file = OpenOptions::new().write(true).create_new(true).open(path);
                Output::new(path, file.map_err(|source| refused(path, source))?).locked(path)
            }
        }
    }

    /// A file that goes on where it ends, or begins, locked before anything is read. Gives what it holds.
    pub fn resumed(path: &Path) -> Result<(Output, Vec<u8>), Error> {
        loop {
            match look(path)? {
                There::Special => return Err(Error::Special { path: path.into() }),
                There::Nothing => match Output::growing(path, Existing::Refuse) {
                    Err(Error::Exists { .. }) => {} // it came into being just now
                    begun => return Ok((begun?, Vec::new())),
                },
                There::File => {
                    let opened = OpenOptions::new().read(true).write(true).open(path);
                    let mut output = Output::new(path, opened.map_err(|source| refused(path, source))?);
                    match lock::hold(path, &output.file) {
                        Lock::Moved => continue,
                        Lock::Taken(holder) => return Err(Error::Busy { path: path.into(), holder }),
                        Lock::Missing(why) => output.unlocked = Some(why),
                        Lock::Held => {}
                    }
                    let mut bytes = Vec::new();
                    output.file.read_to_end(&mut bytes).map_err(|source| output.failed(source))?;
                    return Ok((output, bytes));
                }
            }
        }
    }

    /// Why others are not kept out of it, where the file system has no locks.
    pub fn unlocked(&self) -> Option<&io::Error> {
        self.unlocked.as_ref()
    }

    /// Cuts off what comes after `len` bytes, and goes on there.
    pub fn cut(&mut self, len: usize) -> Result<(), Error> {
        let cut = self.file.set_len(len as u64).and_then(|()| self.file.seek(SeekFrom::End(0)));
        cut.map(|_| ()).map_err(|source| self.failed(source))
    }

    /// Puts it in its place, if it is not there yet. What is written later follows.
    pub fn publish(&mut self) -> Result<(), Error> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let put = self.file.sync_all().and_then(|()| match part.replaces {
            Some(_) => std::fs::rename(&part.path, &part.target),
            None => name(&part.path, &part.target),
        });
        put.map_err(|source| refused(&self.path, source))
    }

    /// That writing to it went wrong.
    pub fn failed(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn new(path: &Path, file: File) -> Output {
        Output { path: path.into(), file, part: None, unlocked: None }
    }

    /// Locks what was just made, under the name it has now.
    fn locked(mut self, place: &Path) -> Result<Output, Error> {
        let busy = |holder: String| Err(Error::Busy { path: self.path.clone(), holder });
        match lock::hold(place, &self.file) {
            Lock::Held => Ok(self),
            Lock::Missing(why) => {
                self.unlocked = Some(why);
                Ok(self)
            }
            // Somebody was quicker than us, on the very file that we made.
            Lock::Taken(holder) => busy(holder),
            Lock::Moved => busy("another process".into()),
        }
    }

    /// A file to replace the one at `path`. A link stays one: what it leads to is replaced.
    fn instead(path: &Path) -> Result<Output, Error> {
        let io = |source| Error::Io { path: path.into(), source };
        let target = path.canonicalize().map_err(io)?;
        let old = loop {
            // For writing where we may: without, network file systems give no lock.
            let old = OpenOptions::new().read(true).write(true).open(&target);
            let old = old.or_else(|_| File::open(&target)).map_err(io)?;
            match lock::hold(&target, &old) {
                Lock::Held | Lock::Missing(_) => break old,
                Lock::Taken(holder) => return Err(Error::Busy { path: path.into(), holder }),
                Lock::Moved => {}
            }
        };
        let mode = old.metadata().map_err(io)?.permissions();
        let output = Output::beside(path, target, Some(old))?;
        output.file.set_permissions(mode).map_err(io)?;
        Ok(output)
    }

    /// A file of another name in the same folder.
    fn beside(path: &Path, target: PathBuf, replaces: Option<File>) -> Result<Output, Error> {
        static PARTS: AtomicUsize = AtomicUsize::new(0);
        let io = |source| Error::Io { path: path.into(), source };
        // A name that is nearly as long as names may be leaves no room for more.
        let name = target.file_name().filter(|name| name.len() < 200).unwrap_or("cofill".as_ref());
        loop {
            let mut own = name.to_owned();
            own.push(format!(".{}-{}.part", std::process::id(), PARTS.fetch_add(1, Ordering::Relaxed)));
            let own = target.with_file_name(own);
            match OpenOptions::new().write(true).create_new(true).open(&own) {
                Ok(file) => {
                    let part = Some(Part { path: own, target, replaces });
                    return Ok(Output { part, ..Output::new(path, file) });
                }
                // Left behind by a process that was killed and had our number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io(error)),
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a success there is nothing of that name any more.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What is at a path, as far as a writer is concerned.
fn look(path: &Path) -> Result<There, Error> {
    if descriptor(path).is_some() {
        return Ok(There::Special);
    }
    match path.metadata() {
        Ok(there) if there.is_dir() => Err(Error::Folder { path: path.into() }),
        Ok(there) if there.is_file() => Ok(There::File),
        Ok(_) => Ok(There::Special),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.is_symlink() {
            true => Err(Error::Dangling { path: path.into() }),
            false => Ok(There::Nothing),
        },
        Err(source) => Err(Error::Io { path: path.into(), source }),
    }
}

/// A file that exists is refused in the same words, whenever it was noticed.
fn refused(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        ErrorKind::AlreadyExists => Error::Exists { path: path.into() },
        _ => Error::Io { path: path.into(), source },
    }
}

/// Gives a complete file its name, unless something has it already.
fn name(part: &Path, target: &Path) -> io::Result<()> {
    match std::fs::hard_link(part, target) {
        // A file system without links: we make the name ours, then put the file under it.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).create_new(true).open(target)?;
            std::fs::rename(part, target)
        }
        linked => linked,
    }
}

/// The number of a descriptor of ours that a path names. Behind it may be a file, which whoever started us has opened for us.
fn descriptor(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        name => name.strip_prefix("/dev/fd/").or(name.strip_prefix("/proc/self/fd/"))?.parse().ok(),
    }
}

/// Opens what has no contents of its own.
fn special(path: &Path) -> Result<Output, Error> {
    let append = || OpenOptions::new().append(true).open(path);
    let file = match descriptor(path) {
        #[cfg(unix)]
        Some(number @ (1 | 2)) => {
            use std::os::fd::AsFd;
            // The same descriptor, not another one of the same file: what both write then follows each other.
            let (out, err) = (io::stdout(), io::stderr());
            let ours = if number == 1 { out.as_fd() } else { err.as_fd() };
            ours.try_clone_to_owned().map(File::from)
        }
        Some(_) => append(),
        None => OpenOptions::new().write(true).open(path),
    };
    file.map(|file| Output::new(path, file)).map_err(|source| Error::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone when the test is.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("cofill-output-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_whole_file_has_no_name_before_it_is_whole() {
        let folder = Folder::new("whole");
        let path = folder.0.join("a");
        let mut output = Output::whole(&path, Existing::Refuse).unwrap();
        output.write_all(b"new").unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(folder.files().is_empty());
        let mut output = Output::whole(&path, Existing::Refuse).unwrap();
        output.write_all(b"new").unwrap();
        // Who comes in between is not replaced.
        std::fs::write(&path, "between").unwrap();
        assert!(matches!(output.publish(), Err(Error::Exists { .. })));
        assert_eq!((std::fs::read(&path).unwrap(), folder.files()), (b"between".to_vec(), vec!["a".into()]));
        let mut output = Output::whole(&path, Existing::Replace).unwrap();
        output.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"between");
        output.publish().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), folder.files()), (b"new".to_vec(), vec!["a".into()]));
    }

    #[test]
    fn a_growing_file_is_locked_from_its_first_byte_to_its_last() {
        let folder = Folder::new("growing");
        let path = folder.0.join("a");
        let mut output = Output::growing(&path, Existing::Refuse).unwrap();
        output.write_all(b"one ").unwrap();
        let busy = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Busy { .. })), "{result:?}");
        busy(Output::resumed(&path).map(drop));
        busy(Output::growing(&path, Existing::Replace).map(drop));
        busy(Output::whole(&path, Existing::Replace).map(drop));
        assert!(matches!(Output::growing(&path, Existing::Refuse), Err(Error::Exists { .. })));
        drop(output);
        // What replaces it is locked before and after it has the name.
        let mut output = Output::growing(&path, Existing::Replace).unwrap();
        busy(Output::resumed(&path).map(drop));
        output.write_all(b"two ").unwrap();
        output.publish().unwrap();
        busy(Output::resumed(&path).map(drop));
        output.write_all(b"three").unwrap();
        drop(output);
        let (mut output, there) = Output::resumed(&path).unwrap();
        assert_eq!(there, b"two three");
        output.cut(4).unwrap();
        output.write_all(b"four").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), folder.files()), (b"two four".to_vec(), vec!["a".into()]));
    }

    #[test]
    fn of_many_files_all_or_none_are_written() {
        let folder = Folder::new("many");
        std::fs::write(folder.0.join("c"), "old").unwrap();
        let files: [(&str, &[u8]); 3] = [("a", b"1"), ("b/b", b"2"), ("c", b"3")];
        assert!(
            matches!(write_all(&folder.0, files, Existing::Refuse), Err(Error::Exists { path }) if path.ends_with("c"))
        );
        assert_eq!(folder.files(), ["c"]);
        // A name that cannot be: nothing of what came before it stays.
        let impossible = "x".repeat(300);
        let wrong: [(&str, &[u8]); 2] = [("c", b"3"), (&impossible, b"4")];
        assert!(matches!(write_all(&folder.0, wrong, Existing::Replace), Err(Error::Io { .. })));
        assert_eq!((std::fs::read(folder.0.join("c")).unwrap(), folder.files()), (b"old".to_vec(), vec!["c".into()]));
        assert_eq!(write_all(&folder.0, files, Existing::Replace).unwrap().len(), 3);
        assert_eq!(
            (std::fs::read(folder.0.join("c")).unwrap(), folder.files()),
            (b"3".to_vec(), ["a", "b", "c"].map(String::from).to_vec())
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_keeps_who_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("mode");
        let path = folder.0.join("a");
        std::fs::write(&path, "secret").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        Output::whole(&path, Existing::Replace).unwrap().publish().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn descriptors_are_known_by_their_names() {
        let number = |name: &str| descriptor(Path::new(name));
        assert_eq!([number("/dev/stdout"), number("/dev/stderr"), number("/dev/fd/63")], [Some(1), Some(2), Some(63)]);
        assert_eq!([number("/proc/self/fd/1"), number("/dev/shm/1"), number("/dev/fd/x")], [Some(1), None, None]);
    }
}
