use crate::run::{COFILL, Ran, scratch};
use crate::server::{Act, Server, sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with `org/tiny`, which is `tiny-llada`, and a home of the user's own.
struct World {
    hub: Server,
    cdn: Server,
    home: PathBuf,
}

impl World {
    fn new(name: &str) -> World {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-llada");
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
        World::of(name, &files)
    }

    fn of(name: &str, files: &[(&str, Vec<u8>)]) -> World {
        let home = scratch(&format!("hub-{name}"));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).unwrap();
        let (hub, cdn) = (Server::start(), Server::start());
        hub.model("org/tiny", COMMIT, files, &cdn);
        World { hub, cdn, home }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(COFILL);
        command.args(args).env("HF_HOME", &self.home).env("HF_ENDPOINT", &self.hub.address);
        command.env("COFILL_CACHE", self.home.join("cofill")).env("COFILL_GITHUB_RAW", &self.cdn.address);
        for name in
            ["HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PIP_INDEX_URL", "CLICOLOR_FORCE"]
        {
            command.env_remove(name);
        }
        // What is on the loopback is asked directly.
        command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Ran {
        self.run_with(&line.split_whitespace().collect::<Vec<_>>(), &[])
    }

    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let output = self.command(args).envs(variables.iter().copied()).output().unwrap();
        Ran {
            code: output.status.code().expect("ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts a command ten times and kills it (SIGKILL) each time that another number of bytes, drawn by a fixed seed, has come and is in
    /// `folder`. Gives these numbers.
    fn kill_ten_times(&self, command: &[&str], folder: &Path) -> Vec<u64> {
        let (sender, held) = channel();
        self.cdn.tell_held(sender);
        let points = noise(40);
        let points = points.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap()));
        let points: Vec<u64> = points.map(|drawn| 20_000 + u64::from(drawn % 300_000)).collect();
        for &point in &points {
            let before = kept(folder);
            self.cdn.rule(move |_| Some(Act::HoldAfter(point)));
            let mut child = self.command(command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let patience = std::time::Duration::from_secs(120);
            held.recv_timeout(patience).unwrap();
            let since = std::time::Instant::now();
            while kept(folder) < before + point {
                assert!(
                    since.elapsed() < patience,
                    "{} of {point} bytes were kept",
                    kept(folder).saturating_sub(before)
                );
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        points
    }

    fn snapshot(&self) -> PathBuf {
        self.home.join("hub/models--org--tiny/snapshots").join(COMMIT)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Bytes that may be sent although they were there: answers about files, not the files.
const SLACK: u64 = 64 << 10;

/// How much of files there is below a folder, complete or not.
fn kept(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(there) if there.is_dir() => kept(&entry.path()),
        Ok(there) => there.len(),
        Err(_) => 0, // it got its name just now
    };
    entries.map(size).sum()
}

/// Bytes that look like nothing.
fn noise(n: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}

const QUESTION: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

#[test]
fn a_model_of_the_hub_answers_as_the_one_inside_does() {
    let world = World::new("generate");
    let ask = |model: &str, variables: &[(&str, &str)]| {
        world.run_with(&["generate", QUESTION, "-m", model, "-s", "topk:2"], variables)
    };
    let inside = ask("tiny-llada", &[]);
    let fetched = ask("hf:org/tiny", &[]);
    assert_eq!(fetched.is_fine().stdout, inside.is_fine().stdout);
    assert!(fetched.stderr.contains("org/tiny at 0123456: "), "{fetched}");
    // From now on nobody is asked, with or without the prefix.
    let asked = world.hub.seen().len();
    assert_eq!(ask("hf:org/tiny", &[]).is_fine().stdout, inside.stdout);
    let offline = [("HF_HUB_OFFLINE", "1")];
    for name in ["hf:org/tiny", "org/tiny", "hf:org/tiny@main", "org/tiny@0123456"] {
        assert_eq!(ask(name, &offline).is_fine().stdout, inside.stdout, "{name}");
    }
    assert_eq!(world.hub.seen().len(), asked);
    ask("hf:org/other", &offline).is_refused(&["`org/other` is not on this machine", "HF_HUB_OFFLINE"]);
}

#[test]
fn a_plain_name_never_downloads() {
    let world = World::new("plain");
    world.run("generate hi -m org/tiny").is_refused(&["--model", "`cofill pull org/tiny`"]);
    world.run("models inspect org/tiny").is_refused(&["`cofill pull org/tiny`"]);
    assert!(world.hub.seen().is_empty());
    // Some of its files, as another tool may have left them.
    std::fs::create_dir_all(world.snapshot()).unwrap();
    std::fs::write(world.snapshot().join("config.json"), "{}").unwrap();
    world.run("generate hi -m org/tiny").is_refused(&["only partly", "model.safetensors", "`cofill pull org/tiny`"]);
}

#[test]
fn pull_prints_the_folder_and_says_what_is_wrong() {
    let world = World::new("pull");
    let pulled = world.run("pull org/tiny");
    assert_eq!(pulled.is_fine().stdout, format!("{}\n", world.snapshot().display()));
    let again = world.run("pull hf:org/tiny --revision main --json");
    let json = again.is_fine().json();
    assert_eq!(json["fetched_bytes"], 0);
    assert_eq!(json["commit"], COMMIT);
    assert!(world.run("pull org/tiny").stderr.contains("all there already"));
    world.run("models inspect org/tiny").is_fine();
    world.run("pull org/none").is_refused(&["no model `org/none`", "check the name"]);
    world.run("pull org/tiny@nope").is_refused(&["org/tiny@nope"]);
    world.run("pull org/tiny@main --revision main").is_refused(&["--revision", "leave one out"]);
    world.run("pull ../tiny").is_refused(&["no name of a model on the hub"]);
    world.run("pull tiny-llada").is_refused(&["inside this program"]);
    let gone = world.run_with(&["pull", "org/tiny"], &[("HF_ENDPOINT", "http://127.0.0.1:9")]);
    assert_eq!(gone.code, 1, "{gone}");
    assert!(gone.stderr.contains("cannot be reached") && gone.stderr.contains("HF_ENDPOINT"), "{gone}");
}

#[test]
fn a_pull_that_is_killed_ten_times_resumes_to_the_same_bytes() {
    // 4 MB of weights.
    let weights = noise(4_000_000);
    let files = [("config.json", b"{}".to_vec()), ("model.safetensors", weights.clone())];
    let world = World::of("kill", &files);
    let points = world.kill_ten_times(&["pull", "org/tiny"], &world.home.join("hub/models--org--tiny/blobs"));
    assert!(!world.snapshot().exists(), "half a model is none");
    world.cdn.behave();
    world.run("pull org/tiny").is_fine();
    assert!(std::fs::read(world.snapshot().join("model.safetensors")).unwrap() == weights);
    let sent = world.cdn.sent();
    println!("killed after {points:?} more bytes each; {sent} bytes sent for 4000000");
    // What had arrived was kept, so hardly a byte was sent twice. Beginning anew each time would have sent the sum of all points again.
    assert!((4_000_000..4_000_000 + SLACK).contains(&sent), "{sent}");
    assert!(points.iter().sum::<u64>() > 20 * SLACK);
    let continued = world.cdn.seen().iter().filter(|seen| seen.header("range").is_some()).count();
    assert!(continued >= points.len(), "every attempt but the first goes on where the last one was: {continued}");
}

#[test]
fn models_are_listed_and_removed() {
    let world = World::new("list");
    let empty = world.run("models list");
    assert!(empty.is_fine().stdout.contains("nothing; `cofill pull NAME` gets a model"), "{empty}");
    for word in ["tiny-llada", "GSAI-ML/LLaDA-8B-Instruct", "never run by us", "f32 32.1 GB"] {
        assert!(empty.stdout.contains(word), "no `{word}`: {empty}");
    }
    world.run("pull org/tiny").is_fine();
    let list = world.run("models list");
    assert!(list.is_fine().stdout.contains("  org/tiny  ") && list.stdout.contains("0123456 (main)"), "{list}");
    let json = world.run("models list --json").json();
    assert_eq!(json["cached"][0]["name"], "org/tiny");
    assert_eq!(json["cached"][0]["revisions"][0]["refs"][0], "main");
    // The same checkpoint, inside the program and in the cache.
    assert_eq!(json["cached"][0]["revisions"][0]["memory_bytes"], json["embedded"][0]["memory_bytes"]);
    assert!(json["known"].as_array().unwrap().iter().all(|known| known["run_by_us"] == false));
    world.run("models rm tiny-llada").is_refused(&["inside this program"]);
    world.run("models rm org/none").is_refused(&["not in the cache", "`cofill models list`"]);
    world.run("models rm org/tiny --revision v9").is_refused(&["org/tiny@v9", COMMIT]);
    let path = world.snapshot();
    world.run(&format!("models rm {}", path.display())).is_refused(&["is a path"]);
    assert!(path.exists());
    let removed = world.run("models rm org/tiny");
    assert!(removed.is_fine().stdout.starts_with("removed org/tiny: "), "{removed}");
    assert!(!world.home.join("hub/models--org--tiny").exists());
    world.run("generate hi -m org/tiny").is_refused(&["`cofill pull org/tiny`"]);
}

#[test]
fn data_files_that_cannot_be_had_are_said() {
    let world = World::of("data", &[]);
    world.run("data fetch nonsense").is_refused(&["nonsense"]);
    let nothing = world.run("data fetch humaneval");
    nothing.is_refused(&["no `HumanEval.jsonl.gz` any more", "openai/human-eval/"]);
    let offline = world.run_with(&["data", "fetch", "mbpp"], &[("HF_HUB_OFFLINE", "1")]);
    offline.is_refused(&["mbpp.jsonl", "HF_HUB_OFFLINE"]);
    // A wrong content is not kept.
    let path = "/openai/human-eval/6d43fb980f9fee3c892a914eda09951f772ad10d/data/HumanEval.jsonl.gz";
    world.cdn.page(path, &noise(44_877));
    let wrong = world.run("data fetch humaneval");
    assert_eq!(wrong.code, 1, "{wrong}");
    assert!(wrong.stderr.contains("the checksum is"), "{wrong}");
    assert!(!world.home.join("cofill/data/humaneval_test.jsonl").exists());
    // What a user has there under this name stays.
    std::fs::write(world.home.join("cofill/data/humaneval_test.jsonl"), "mine").unwrap();
    let mine = world.run("data fetch humaneval");
    assert!(mine.is_fine().stderr.contains("it stays"), "{mine}");
    assert_eq!(std::fs::read_to_string(world.home.join("cofill/data/humaneval_test.jsonl")).unwrap(), "mine");
    // An index of packages without the wheel.
    let index = world.cdn.address.clone();
    world.cdn.page("/lm-eval/", b"<a href='x-0.4.7.whl'>x</a>");
    world.cdn.page(
        "/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl",
        b"",
    );
    let lacking = world.run_with(&["data", "fetch", "gsm8k_cot"], &[("PIP_INDEX_URL", &index)]);
    assert_ne!(lacking.code, 0, "{lacking}");
    world.run("eval --task mbpp -m tiny-llada").is_refused(&["mbpp"]);
}

/// With the real rows: a fetch that is killed again and again ends with the known files, and `eval` finds them.
#[test]
fn texts_data_fetch_that_is_killed_resumes() {
    let Ok(shared) = std::env::var("COFILL_SHARED") else {
        println!("SKIPPED: COFILL_SHARED does not say where the benchmarks' texts are");
        return;
    };
    let world = World::of("data-kill", &[]);
    let folder = "/openai/grade-school-math/3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data";
    let read = |name: &str| std::fs::read(Path::new(&shared).join("data").join(name)).unwrap();
    let (train, test) = (read("gsm8k_train.jsonl"), read("gsm8k_test.jsonl"));
    world.cdn.page(&format!("{folder}/train.jsonl"), &train);
    world.cdn.page(&format!("{folder}/test.jsonl"), &test);
    let data = world.home.join("cofill/data");
    let points = world.kill_ten_times(&["data", "fetch", "gsm8k"], &data);
    world.cdn.behave();
    let fetched = world.run("data fetch gsm8k");
    assert_eq!(fetched.is_fine().stdout, format!("{}\n", data.display()));
    assert!(std::fs::read(data.join("gsm8k_train.jsonl")).unwrap() == train);
    assert_eq!(sha256(&std::fs::read(data.join("gsm8k_test.jsonl")).unwrap()), sha256(&test));
    let names: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
    let sent = world.cdn.sent();
    let whole = (train.len() + test.len()) as u64;
    println!("killed after {points:?} more bytes each; {sent} bytes sent for {whole}");
    assert!((whole..whole + SLACK).contains(&sent), "{sent}");
    assert!(world.run("data fetch gsm8k").is_fine().stderr.contains("present"));
    world.run("eval --task gsm8k -m tiny-llada --limit 1 -n 8 --shots 1 -s topk:8").is_fine();
}
