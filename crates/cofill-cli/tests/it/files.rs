use crate::run::{Ran, run, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of this test's own, empty.
fn fresh(name: &str) -> PathBuf {
    let folder = scratch(&format!("files-{name}"));
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// An eval of some seconds.
fn eval(out: &Path, more: &str) -> String {
    format!("eval --task sudoku -m tiny-llada -s topk:2 --limit 60 --batch 2 --out {} {more}", out.display())
}

fn spawn(line: &str) -> Child {
    let cofill = env!("CARGO_BIN_EXE_cofill");
    Command::new(cofill).args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A file of results without what differs from run to run; every line must be whole.
fn timeless(path: &Path) -> Vec<Value> {
    let timeless = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        line.as_object_mut().unwrap().remove("seconds");
        line
    };
    std::fs::read_to_string(path).unwrap().lines().map(timeless).collect()
}

/// Every file below a folder, with its bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), std::fs::read(path).unwrap())),
        }
    }
    found.sort();
    found
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_file_that_grows_is_held_by_one_process_which_is_named() {
    let folder = fresh("held");
    let (file, whole) = (folder.join("held.jsonl"), folder.join("whole.jsonl"));
    run(&eval(&whole, "")).is_fine();
    let first = spawn(&eval(&file, "--resume"));
    let patience = Instant::now();
    while std::fs::read(&file).map_or(0, |bytes| bytes.len()) < 2000 {
        assert!(patience.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    // Stopped, so that it certainly is in the middle of things.
    signal(&first, "-STOP");
    let before = std::fs::read(&file).unwrap();
    let process = format!("process {}", first.id());
    let mut held = vec!["held.jsonl", "is being written", "wait for it"];
    if cfg!(target_os = "linux") {
        held.extend([process.as_str(), "eval --task sudoku"]);
    }
    run(&eval(&file, "--resume")).is_refused(&held);
    run(&eval(&file, "--force")).is_refused(&held);
    run(&eval(&file, "")).is_refused(&["held.jsonl", "exists", "--resume", "--force"]);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    signal(&first, "-CONT");
    ended(first).is_fine();
    assert_eq!(timeless(&file), timeless(&whole));
    // Who is gone holds nothing.
    run(&eval(&file, "--resume")).is_fine();
    assert_eq!(timeless(&file), timeless(&whole));
}

#[test]
fn of_two_that_start_together_one_writes() {
    let folder = fresh("together");
    let line = |file: &Path, more: &str| {
        format!("eval --task predicates -m tiny-llada -s topk:4 --limit 24 --batch 2 --out {} {more}", file.display())
    };
    let whole = folder.join("whole.jsonl");
    run(&line(&whole, "")).is_fine();
    for round in 0..10 {
        let file = folder.join(format!("{round}.jsonl"));
        // Every second time the file is there, and is replaced or continued.
        if round % 2 == 1 {
            let text = std::fs::read_to_string(&whole).unwrap();
            std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        }
        let (one, two) = [("--resume", "--resume"), ("--resume", "--force"), ("--force", "--force")][round % 3];
        let first = spawn(&line(&file, one));
        std::thread::sleep(Duration::from_millis(round as u64));
        let ran = [first, spawn(&line(&file, two))].map(ended);
        assert!(ran.iter().any(|ran| ran.code == 0), "{} {}", ran[0], ran[1]);
        for ran in ran.iter().filter(|ran| ran.code != 0) {
            ran.is_refused(&["is being written", "wait for it"]);
        }
        assert_eq!(timeless(&file), timeless(&whole), "round {round}: {} {}", ran[0], ran[1]);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), round + 2, "something is left behind");
    }
}

/// Whatever is no file of this run's results keeps every byte.
#[test]
fn what_is_not_ours_is_not_continued() {
    let folder = fresh("foreign");
    let file = folder.join("notes.txt");
    let line = |more: &str| {
        format!("eval --task predicates -m tiny-llada -s topk:4 --limit 3 --out {} {more}", file.display())
    };
    run(&line("")).is_fine();
    let ours = std::fs::read(&file).unwrap();
    let with = |tail: &[u8]| [&ours, tail].concat();
    let header_end = ours.iter().position(|byte| *byte == b'\n').unwrap();
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (b"milk, eggs".to_vec(), &["line 1", "not a header of results"]),
        (b"milk\neggs".to_vec(), &["line 1", "not a header of results"]),
        (b"milk\neggs\n".to_vec(), &["line 1", "not a header of results"]),
        (b"\n\n".to_vec(), &["there is no header"]),
        (b"{\"cofill_trace\":1".to_vec(), &["line 1", "not a header of results"]),
        (b"\x00\xff\xfe binary".to_vec(), &["line 1", "not a header of results"]),
        // Ours, and then something that is not.
        (with(b"and a note of mine"), &["line 5", "not a record"]),
        (with(b"and a note of mine\n"), &["line 5", "not a record"]),
        (with(b"{\"doc_id\":7"), &["line 5", "not a record"]),
        // Another run, with and without a torn tail.
        (
            String::from_utf8(ours.clone()).unwrap().replace("topk:4", "topk:5").into_bytes(),
            &["holds another run", "sampler"],
        ),
        (
            String::from_utf8(with(b"{\"doc_id\":3,\"pro")).unwrap().replace("topk:4", "topk:5").into_bytes(),
            &["holds another run", "sampler"],
        ),
        (
            String::from_utf8(ours[..header_end - 4].to_vec()).unwrap().replace("topk:4", "topk:5").into_bytes(),
            &["line 1"],
        ),
    ];
    for (bytes, said) in cases {
        std::fs::write(&file, &bytes).unwrap();
        let ran = run(&line("--resume"));
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "{shown}: {ran}");
        ran.is_refused(&[said, &["notes.txt", "--out", "give another file"]].concat());
    }
    // What we could have left behind ourselves is continued.
    for cut in [0, 1, 20, header_end - 4, header_end, header_end + 1, header_end + 9, ours.len() - 1] {
        std::fs::write(&file, &ours[..cut]).unwrap();
        run(&line("--resume")).is_fine();
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 4, "cut at {cut}");
    }
}

/// Commands that write, with FILE or FOLDER where they do.
const WRITERS: [&str; 9] = [
    "eval --task predicates -m tiny-llada --limit 1 --out FILE",
    "generate -m toy -n 6 --trace FILE",
    "trace html TRACE --out FILE",
    "explain -m toy -n 6 --html FILE",
    "models quantise tiny-llada FILE --dtype q8_0",
    "report --points POINTS --resamples 10 --out FOLDER",
    "diagnose intervention --task chain -m tiny-llada --limit 1 --resamples 10 --out FOLDER",
    "diagnose deferral --task chain -m tiny-llada --limit 1 --resamples 10 --out FOLDER",
    "diagnose predicates -m tiny-llada --limit 1 --resamples 10 --out FOLDER",
];

/// [`WRITERS`] with the trace that one of them reads.
fn writers(name: &str) -> Vec<String> {
    let trace = scratch(&format!("files-{name}.jsonl")).display().to_string();
    run(&format!("generate -m toy -n 6 --trace {trace} --force")).is_fine();
    WRITERS.iter().map(|line| line.replace("TRACE", &trace)).collect()
}

#[test]
fn what_exists_is_replaced_only_by_force() {
    let folder = fresh("exists");
    let points = folder.join("points.csv");
    std::fs::write(&points, "model,rule,param,task,variant,score,nfe,length\nm,topk,4,riddles,base,50,4,16\n").unwrap();
    for (i, line) in writers("exists").iter().enumerate() {
        let target = folder.join(format!("target-{i}"));
        let line = line.replace("POINTS", &points.display().to_string());
        let line = line.replace("FILE", &target.display().to_string()).replace("FOLDER", &target.display().to_string());
        run(&line).is_fine();
        let files: Vec<PathBuf> = match target.is_dir() {
            true => contents(&target).into_iter().map(|(path, _)| path).collect(),
            false => vec![target.clone()],
        };
        assert!(files.len() > 3 || !target.is_dir(), "{line}: {files:?}");
        // Any one of them is in the way, and nothing is written.
        for file in &files {
            if target.is_dir() {
                std::fs::remove_dir_all(&target).unwrap();
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            }
            std::fs::write(file, "precious").unwrap();
            let ran = run(&line);
            ran.is_refused(&["exists", "--force", &file.display().to_string()]);
            assert_eq!(std::fs::read(file).unwrap(), b"precious", "{ran}");
            match target.is_dir() {
                true => assert_eq!(contents(&target).len(), 1, "{ran}"),
                false => assert_eq!(contents(&folder).iter().filter(|(path, _)| path.starts_with(&target)).count(), 1),
            }
        }
        let forced = run(&format!("{line} --force"));
        assert_ne!(std::fs::read(files.last().unwrap()).unwrap(), b"precious", "{}", forced.is_fine());
        assert!(files.iter().all(|file| file.is_file()), "{forced}");
    }
    assert!(contents(&folder).iter().all(|(path, _)| !path.to_string_lossy().contains(".part")));
}

/// A disk that is full in the middle: here a limit on how large files may become.
#[cfg(unix)]
#[test]
fn a_write_that_fails_midway_leaves_the_old_file() {
    let folder = fresh("full");
    let points = folder.join("points.csv");
    std::fs::write(&points, "model,rule,param,task,variant,score,nfe,length\nm,topk,4,riddles,base,50,4,16\n").unwrap();
    let target = folder.join("target");
    for line in writers("full").iter().filter(|line| line.contains("FILE") || line.starts_with("report")) {
        if target.is_dir() {
            std::fs::remove_dir_all(&target).unwrap();
        }
        let old = if line.contains("FOLDER") { target.join("report.md") } else { target.clone() };
        std::fs::create_dir_all(old.parent().unwrap()).unwrap();
        std::fs::write(&old, "precious").unwrap();
        let line = line.replace("POINTS", &points.display().to_string());
        let line = line.replace("FILE", &target.display().to_string()).replace("FOLDER", &target.display().to_string());
        // Results take the place of the old ones as soon as their header, which is short, is written: they can be continued.
        let blocks = if line.starts_with("eval") { 0 } else { 1 };
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {} {line} --force", env!("CARGO_BIN_EXE_cofill"));
        let ran = ended(
            Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
        );
        assert_eq!(ran.code, 1, "{line}: {ran}");
        assert!(ran.stderr.contains("target") && ran.stderr.contains("File too large"), "{line}: {ran}");
        assert_eq!(std::fs::read(&old).unwrap(), b"precious", "{line}: {ran}");
        assert_eq!(contents(&folder).len(), 2, "{line} leaves something behind: {:?}", std::fs::read_dir(&folder));
        if !target.is_dir() {
            std::fs::remove_file(&target).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn devices_pipes_and_links_are_written_as_what_they_are() {
    let folder = fresh("special");
    for line in writers("special").iter().filter(|line| line.contains("FILE")) {
        run(&line.replace("FILE", "/dev/null")).is_fine();
        run(&line.replace("FILE", &folder.display().to_string())).is_refused(&["is a folder"]);
        run(&format!("{} --force", line.replace("FILE", &folder.display().to_string()))).is_refused(&["is a folder"]);
    }
    // Two may write to a device at once; none can be continued.
    run("eval --task predicates -m tiny-llada --limit 1 --out /dev/null --resume")
        .is_refused(&["/dev/null", "no regular file"]);
    let generate = |path: &str, more: &str| format!("generate -m toy -n 6 -s topk:2 --trace {path} {more}");
    let ran = run(&generate("/dev/stdout", ""));
    assert_eq!(ran.is_fine().stdout.lines().filter(|line| line.starts_with('{')).count(), 5, "{ran}");
    // Into a file, too: trace and answer follow each other.
    let file = folder.join("both");
    let script = format!("{} {} > {}", env!("CARGO_BIN_EXE_cofill"), generate("/dev/stdout", ""), file.display());
    assert!(Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ran.stdout);
    // A pipe with a name.
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
    run(&generate(&pipe.display().to_string(), "")).is_fine();
    assert_eq!(ended(reader).stdout.lines().count(), 5);
    // A link stays one, and what it leads to is what counts.
    let (there, link) = (folder.join("there"), folder.join("link"));
    std::fs::write(&there, "precious").unwrap();
    std::os::unix::fs::symlink(&there, &link).unwrap();
    let name = link.display().to_string();
    run(&generate(&name, "")).is_refused(&["link", "exists", "--force"]);
    assert_eq!(std::fs::read(&there).unwrap(), b"precious");
    run(&generate(&name, "--force")).is_fine();
    assert!(link.is_symlink() && std::fs::read_to_string(&there).unwrap().lines().count() == 5);
    std::fs::remove_file(&there).unwrap();
    run(&generate(&name, "")).is_refused(&["link", "leads nowhere"]);
    run(&generate(&name, "--force")).is_refused(&["link", "leads nowhere"]);
}
