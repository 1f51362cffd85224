//! The interpreter that was named, and what it has to be able to read.
//!
//! `python3` may be a shim, a link or a script of a version manager, and an installation may lie anywhere, also in
//! the home directory whose other files must stay out of reach. So Python is asked: which file it is, where its
//! library is, which shared libraries it has loaded.

use super::Error;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest Python with audit hooks.
const OLDEST: (u32, u32) = (3, 8);

/// An interpreter that runs.
#[derive(Debug, Clone)]
pub(super) struct Python {
    /// The file to execute.
    pub(super) executable: PathBuf,
    /// Its version, as in `3.11.7`.
    pub(super) version: String,
    /// Files and directories without which it does not start, or lacks modules it has outside.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) readable: Vec<PathBuf>,
}

impl Python {
    /// Asks the interpreter at `path` (a file, or a name to be found in `PATH`) about itself.
    pub(super) fn find(path: &Path) -> Result<Python, Error> {
        let fail = |problem: String| Error::Python { path: path.into(), problem };
        // Asked twice: first as it was named, in the user's environment, since the name may be a shim; then the file that the
        // shim leads to, as it will be run. A relative path is made absolute, since Python is asked in another directory; a bare
        // name is looked up in `PATH`.
        let named = if path.components().count() > 1 { std::path::absolute(path) } else { Ok(path.into()) };
        let named = named.map_err(|error| fail(error.to_string()))?;
        let shim = ask(Command::new(named), "import sys; print(sys.executable)").map_err(fail)?;
        let executable = PathBuf::from(shim.trim());
        if !executable.is_absolute() {
            return Err(fail(format!("its `sys.executable` is `{}`, not a path", shim.trim())));
        }
        let mut command = Command::new(&executable);
        command.env_clear();
        let answer = ask(command, ABOUT).map_err(fail)?;
        let mut lines = answer.lines();
        let version = lines.next().unwrap_or_default().trim().to_owned();
        let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST {
            return Err(fail(format!("it is Python {version}, and audit hooks came with 3.8")));
        }
        let readable = needs(&executable, lines.filter(|line| !line.is_empty()).map(PathBuf::from));
        Ok(Python { executable, version, readable })
    }
}

fn ask(mut command: Command, script: &str) -> Result<String, String> {
    command.args(["-B", "-s", "-c", script]).stdin(Stdio::null()).current_dir("/");
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.trim().lines().last().unwrap_or("no message");
        return Err(format!("{}: {last}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| "its answer is not UTF-8".into())
}

/// Version, then paths: libraries of the installation, and the shared libraries it loads for the modules people use.
/// Paths from `.pth` files are left out unless they lie in the installation: they lead to people's projects.
const ABOUT: &str = r#"
import os, sys, sysconfig
print("%d.%d.%d" % sys.version_info[:3])
homes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
paths.update(path for path in sys.path if any(path.startswith(home + os.sep) for home in homes))
for home in homes:
    paths.update(os.path.join(home, name) for name in ("lib", "lib64", "pyvenv.cfg"))
for module in ("ssl", "hashlib", "ctypes", "sqlite3", "lzma", "bz2", "zlib", "decimal", "uuid", "readline"):
    try:
        __import__(module)
    except ImportError:
        pass
try:
    with open("/proc/self/maps") as maps:
        paths.update(line.split(None, 5)[5].strip() for line in maps if ".so" in line)
except OSError:
    pass
for path in sorted(filter(None, paths)):
    print(path)
"#;

/// Where shared libraries, the loader and time zones are, on every Linux.
const SYSTEM: [&str; 11] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/ld-musl-x86_64.path",
];

/// What exists of it, each path once, and none inside another.
fn needs(executable: &Path, asked: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from);
    let named =
        asked.chain(system).chain([executable.to_path_buf()]).filter(|path| path.is_absolute() && path.exists());
    let both = named.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten();
    // A prefix of `/` would give everything away; what is needed of it is in the list by name.
    let all: BTreeSet<PathBuf> = both.filter(|path| path.parent().is_some()).collect();
    let within = |path: &Path| path.ancestors().skip(1).any(|above| all.contains(above));
    all.iter().filter(|path| !within(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_is_none_is_named() {
        let error = Python::find(Path::new("/nonexistent/python")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/python") && error.contains("3.8 or newer is needed"), "{error}");
    }

    #[test]
    fn what_lies_inside_another_path_is_not_listed_twice() {
        let asked = ["/usr/lib/python3", "/usr/lib", "/nonexistent", "relative", "/"].map(PathBuf::from);
        let paths = needs(Path::new("/bin/sh"), asked.into_iter());
        assert!(paths.contains(&PathBuf::from("/usr/lib")));
        let lib = Path::new("/usr/lib");
        let bad =
            |path: &PathBuf| path.parent().is_none() || path.is_relative() || (path.starts_with(lib) && path != lib);
        assert!(!paths.iter().any(bad), "{paths:?}");
    }
}
