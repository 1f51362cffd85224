//! `tools/install.sh` against made-up releases on this machine, and that everybody calls archives by the same names.

use crate::run::scratch;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap()
}

/// A folder with a release of a program that only knows its version, a folder to install to, and commands that say what machine this is.
struct Machine {
    dir: PathBuf,
    address: String,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let dir = scratch(&format!("install-{name}"));
        std::fs::remove_dir_all(&dir).ok();
        for folder in ["release", "bin", "commands"] {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
        }
        let address = format!("file://{}", dir.join("release").display());
        let machine = Machine { dir, address };
        machine.is("Linux", "x86_64", "glibc 2.17");
        machine.releases("x86_64-unknown-linux-gnu", &format!("#!/bin/sh\necho cofill {VERSION}\n"));
        machine
    }

    /// What `uname` and `getconf` answer; an empty C library is one that getconf does not know.
    fn is(&self, system: &str, machine: &str, libc: &str) {
        let uname = format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {machine} ;; esac\n");
        let getconf = if libc.is_empty() { "#!/bin/sh\nexit 1\n".into() } else { format!("#!/bin/sh\necho {libc}\n") };
        for (name, text) in [("uname", uname), ("getconf", getconf)] {
            let path = self.dir.join("commands").join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }

    /// Packs a program as tools/dist does.
    fn releases(&self, target: &str, program: &str) {
        let (release, name) = (self.dir.join("release"), format!("cofill-{VERSION}-{target}"));
        std::fs::create_dir_all(release.join(&name)).unwrap();
        std::fs::write(release.join(&name).join("cofill"), program).unwrap();
        let pack = format!(
            "tar -czf {name}.tar.gz {name} && rm -r {name} && \
             (sha256sum {name}.tar.gz || shasum -a 256 {name}.tar.gz) > {name}.tar.gz.sha256 2> /dev/null"
        );
        assert!(Command::new("sh").args(["-c", &pack]).current_dir(&release).status().unwrap().success());
    }

    fn archive(&self) -> PathBuf {
        self.dir.join(format!("release/cofill-{VERSION}-x86_64-unknown-linux-gnu.tar.gz"))
    }

    fn run(&self, args: &[&str]) -> Output {
        let path = format!("{}:{}", self.dir.join("commands").display(), std::env::var("PATH").unwrap());
        Command::new("sh")
            .arg(Path::new(REPOSITORY).join("tools/install.sh"))
            .args(args)
            .envs([("COFILL_DOWNLOAD", self.address.as_str()), ("PATH", &path)])
            .envs([("no_proxy", "127.0.0.1"), ("NO_PROXY", "127.0.0.1")]) // a proxy has no business here
            .env("HOME", &self.dir)
            .output()
            .unwrap()
    }

    fn installs(&self) -> String {
        let output = self.run(&["--to", self.dir.join("bin").to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{said}");
        self.is_clean();
        said
    }

    /// It fails with this code, says these words, and leaves nothing behind.
    #[track_caller]
    fn refuses(&self, code: i32, mentions: &[&str]) {
        let before = self.installed();
        let output = self.run(&["--to", self.dir.join("bin").to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{said}");
        for word in mentions {
            assert!(said.contains(word), "`{word}` is not mentioned: {said}");
        }
        assert_eq!(self.installed(), before, "what was there is there");
        self.is_clean();
    }

    fn installed(&self) -> Option<String> {
        std::fs::read_to_string(self.dir.join("bin/cofill")).ok()
    }

    #[track_caller]
    fn is_clean(&self) {
        let names = std::fs::read_dir(self.dir.join("bin")).unwrap().map(|entry| entry.unwrap().file_name());
        let others: Vec<_> = names.filter(|name| name != "cofill").collect();
        assert!(others.is_empty(), "left behind: {others:?}");
    }
}

#[test]
fn a_release_is_installed_and_replaced() {
    let machine = Machine::new("right");
    let said = machine.installs();
    assert!(said.contains(&format!("cofill {VERSION}")) && said.contains("export PATH="), "{said}");
    let mode = std::fs::metadata(machine.dir.join("bin/cofill")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    // An older program gives way, and is named.
    std::fs::write(machine.dir.join("bin/cofill"), "#!/bin/sh\necho cofill 0.0.1\n").unwrap();
    std::fs::set_permissions(machine.dir.join("bin/cofill"), PermissionsExt::from_mode(0o755)).unwrap();
    assert!(machine.installs().contains("(before: cofill 0.0.1)"));
    assert!(machine.installed().unwrap().contains(VERSION));
    // Without --to, below the home.
    let output = machine.run(&[]);
    assert!(output.status.success() && machine.dir.join(".local/bin/cofill").is_file(), "{output:?}");
}

#[test]
fn what_is_not_as_released_is_not_installed() {
    let machine = Machine::new("wrong");
    machine.installs();
    std::fs::write(machine.dir.join("bin/cofill"), "mine").unwrap();
    // One byte more.
    let bytes = std::fs::read(machine.archive()).unwrap();
    std::fs::write(machine.archive(), [bytes.as_slice(), b"x"].concat()).unwrap();
    machine.refuses(1, &["damaged", "SHA-256", "nothing was installed"]);
    // A checksum that is a page saying that there is none.
    let sum = machine.archive().with_extension("gz.sha256");
    std::fs::write(&sum, "<html>not found</html>\n").unwrap();
    machine.refuses(1, &["no checksum"]);
    std::fs::remove_file(&sum).unwrap();
    machine.refuses(1, &["cannot download", ".sha256"]);
    // A program that does not run here.
    machine.releases("x86_64-unknown-linux-gnu", "#!/bin/sh\nexit 1\n");
    machine.refuses(1, &["does not run on this machine", "cargo install cofill-cli"]);
    // No archive at all.
    std::fs::remove_file(machine.archive()).unwrap();
    machine.refuses(1, &["cannot download", "cargo install cofill-cli"]);
    assert_eq!(machine.installed().unwrap(), "mine");
}

#[test]
fn machines_without_a_build_are_told_what_to_do() {
    let machine = Machine::new("platforms");
    for (system, processor, libc, word) in [
        ("Linux", "riscv64", "glibc 2.36", "`riscv64`"),
        ("Linux", "x86_64", "", "musl"),
        ("Linux", "x86_64", "glibc 2.12", "2.17 or newer"),
        ("FreeBSD", "amd64", "", "`FreeBSD`"),
    ] {
        machine.is(system, processor, libc);
        machine.refuses(2, &[word, "cargo install cofill-cli --locked"]);
    }
    machine.is("MINGW64_NT-10.0", "x86_64", "");
    machine.refuses(2, &["Windows", "-x86_64-pc-windows-msvc.zip"]);
    // Others ask for the archive of their own target.
    for (system, processor, target) in [
        ("Linux", "aarch64", "aarch64-unknown-linux-gnu"),
        ("Darwin", "arm64", "aarch64-apple-darwin"),
        ("Darwin", "x86_64", "x86_64-apple-darwin"),
    ] {
        machine.is(system, processor, "glibc 2.36");
        machine.refuses(1, &[&format!("cofill-{VERSION}-{target}.tar.gz")]);
        machine.releases(target, "#!/bin/sh\necho cofill for another\n");
        assert!(machine.installs().contains("cofill for another"));
    }
}

#[test]
fn wrong_arguments_and_places_are_refused() {
    let machine = Machine::new("arguments");
    let refused = |args: &[&str], word: &str| {
        let output = machine.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(word), "{args:?}: {said}");
    };
    refused(&["--into", "x"], "unknown argument `--into`");
    refused(&["--to"], "--to needs a value");
    refused(&["--version", "../../x"], "must be like 0.1.0");
    std::fs::create_dir_all(machine.dir.join("bin/cofill")).unwrap();
    refused(&["--to", machine.dir.join("bin").to_str().unwrap()], "is a folder");
    refused(&["--to", "/dev/null/bin"], "choose another place");
    let help = machine.run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--to DIR"));
}

/// Half of the script does nothing: everything happens on its last line.
#[test]
fn a_script_that_arrived_in_part_does_nothing() {
    let machine = Machine::new("part");
    let script = read("tools/install.sh");
    let half = machine.dir.join("half.sh");
    std::fs::write(&half, &script[..script.rfind("main \"$@\"").unwrap()]).unwrap();
    let output = Command::new("sh").arg(&half).env("HOME", &machine.dir).output().unwrap();
    assert!(output.status.success() && !machine.dir.join(".local").exists(), "{output:?}");
}

#[test]
fn over_http() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: no curl here");
        return;
    }
    let mut machine = Machine::new("http");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    machine.address = format!("http://{}", listener.local_addr().unwrap());
    let folder = machine.dir.join("release");
    // Two files right, then none: three connections, and the server ends.
    let server = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let name = request.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
            let (status, body) = match std::fs::read(folder.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", b"no such file".to_vec()),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    assert!(machine.installs().contains(&format!("cofill {VERSION}")));
    std::fs::remove_file(machine.archive().with_extension("gz.sha256")).unwrap();
    machine.refuses(1, &["cannot download http://127.0.0.1"]);
    server.join().unwrap();
}

/// tools/dist, the workflow, the installer and binstall mean the same files.
#[test]
fn everybody_calls_archives_by_the_same_names() {
    let (dist, workflow, installer) =
        (read("tools/dist"), read(".github/workflows/release.yml"), read("tools/install.sh"));
    let manifest = read("crates/cofill-cli/Cargo.toml");
    let targets = dist.lines().find_map(|line| line.strip_prefix("targets='")).unwrap().trim_end_matches('\'');
    let targets: Vec<&str> = targets.split(' ').collect();
    let mut built: Vec<&str> = workflow
        .lines()
        .filter_map(|line| line.trim().strip_prefix("targets: "))
        .flat_map(|line| line.split(' '))
        .collect();
    built.sort_unstable();
    let mut sorted = targets.clone();
    sorted.sort_unstable();
    assert_eq!(built, sorted, "the workflow builds what tools/dist can");
    assert!(workflow.contains(&format!("-eq {}", targets.len())), "and releases all of them");

    // cofill-VERSION-TARGET, a folder of that name inside, .zip for Windows and .tar.gz for the others.
    assert!(dist.contains("name=cofill-$version-$target\n"));
    let archive = read("tools/dist.d/archive.py");
    assert!(archive.contains("{folder}.zip") && archive.contains("{folder}.tar.gz") && archive.contains(".sha256"));
    assert!(installer.contains("name=cofill-$version-$target\n") && installer.contains("archive=$name.tar.gz\n"));
    assert!(installer.contains("new=$work/$name/cofill\n"));
    let url = |ending: &str| {
        format!(r#"pkg-url = "{{ repo }}/releases/download/v{{ version }}/cofill-{{ version }}-{{ target }}{ending}""#)
    };
    assert!(manifest.contains(&format!("[package.metadata.binstall]\n{}\n", url(".tar.gz"))));
    assert!(manifest.contains(r#"bin-dir = "cofill-{ version }-{ target }/{ bin }{ binary-ext }""#));
    let windows = format!("[package.metadata.binstall.overrides.x86_64-pc-windows-msvc]\n{}\n", url(".zip"));
    assert!(manifest.contains(&windows));

    // Unix targets are what the installer can ask for; the release it asks for is this one, in this repository.
    for target in targets.iter().filter(|target| !target.contains("windows")) {
        let (machine, system) = target.split_once('-').unwrap();
        assert!(installer.contains(&format!("machine={machine} ;;")), "{target}");
        assert!(installer.contains(&format!("target=$machine-{system} ;;")), "{target}");
    }
    assert!(installer.contains(&format!("\nversion={VERSION}\n")), "tools/install.sh has the version of Cargo.toml");
    let repository = env!("CARGO_PKG_REPOSITORY");
    assert!(installer.contains(&format!("\nreleases={repository}/releases/download\n")));
    assert!(read("README.md").contains(&format!("{repository}/releases/latest/download/install.sh")));
}

/// Every action is pinned by commit, and only the job that makes the release may write.
#[test]
fn the_release_workflow_is_pinned_and_may_do_little() {
    let workflow = read(".github/workflows/release.yml");
    for line in workflow.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: ")) {
        let (commit, version) =
            line.split_once('@').unwrap().1.split_once(" # ").expect("a comment says which version");
        assert!(
            commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()) && version.starts_with('v'),
            "{line}"
        );
    }
    assert_eq!(workflow.matches(": write").count(), 1);
    let (before, after) = workflow.split_once("  release:\n").unwrap();
    assert!(!before.contains(": write") && after.contains("contents: write"));
}
