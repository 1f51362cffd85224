use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command.
pub(crate) const COFILL: &str = env!("CARGO_BIN_EXE_cofill");

/// What a run of the command printed.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `cofill` with the words of `line` (no quoting: words with spaces go through [`run_with`]).
pub(crate) fn run(line: &str) -> Ran {
    run_with(&line.split_whitespace().collect::<Vec<_>>(), "")
}

/// Runs `cofill` with arguments and standard input.
pub(crate) fn run_with(args: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(COFILL)
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_owned();
    // From a thread: a command that answers line by line would otherwise fill its pipe while we fill ours.
    let feeder = std::thread::spawn(move || input.write_all(stdin.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = feeder.join().unwrap(); // a command that does not read its input closes it
    Ran {
        code: output.status.code().expect("ended by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// The request was wrong: exit code 2, nothing on stdout, and stderr names what matters.
    #[track_caller]
    pub(crate) fn is_refused(&self, mentions: &[&str]) {
        assert_eq!(self.code, 2, "{self}");
        assert_eq!(self.stdout, "", "{self}");
        assert!(self.stderr.starts_with("error:"), "{self}");
        for word in mentions {
            assert!(self.stderr.contains(word), "`{word}` is not mentioned: {self}");
        }
    }

    #[track_caller]
    pub(crate) fn is_fine(&self) -> &Ran {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    /// The JSON without what differs from run to run: times, and the rate they make.
    #[track_caller]
    pub(crate) fn timeless(&self) -> serde_json::Value {
        let mut json = self.json();
        let fields = json.as_object_mut().unwrap();
        for field in ["seconds", "useful_tokens_per_second"] {
            assert!(fields.remove(field).is_some(), "{field}");
        }
        json
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// The folder of golden numbers: `models`, `lmeval`, `paper`.
pub(crate) fn goldens() -> PathBuf {
    cofill_goldens::folder(env!("CARGO_TARGET_TMPDIR"))
}

/// A file name of this test's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
