use crate::server::{Server, etag};
use crate::support::{Bench, COMMIT, REPO, model, noise, sharded, tree};
use cofill_hub::{Event, Found, ModelName, find};

#[test]
fn what_is_needed_lies_as_other_tools_expect_it() {
    let files = model();
    let bench = Bench::new(&files);
    let pulled = bench.pull().unwrap();
    assert_eq!(pulled.commit, COMMIT);
    assert_eq!(pulled.path, bench.folder().join("snapshots").join(COMMIT));
    let name = |path: &str| etag(path, &files.iter().find(|(name, _)| *name == path).unwrap().1);
    let mut want = vec!["refs/main".to_owned()];
    for path in ["config.json", "tokenizer.json", "model.safetensors"] {
        want.push(format!("blobs/{}", name(path)));
        want.push(format!("snapshots/{COMMIT}/{path} -> ../../blobs/{}", name(path)));
    }
    want.sort();
    assert_eq!(tree(&bench.folder()), want, "the weights and what belongs to them, once");
    assert_eq!(std::fs::read_to_string(bench.folder().join("refs/main")).unwrap(), COMMIT);
    for path in ["config.json", "tokenizer.json", "model.safetensors"] {
        let bytes = &files.iter().find(|(name, _)| *name == path).unwrap().1;
        assert!(std::fs::read(pulled.path.join(path)).unwrap() == *bytes, "{path}");
    }
    assert_eq!(find(&bench.cache(), &ModelName::parse(REPO).unwrap()), Found::Whole(pulled.path));
    let total: usize = files[1..4].iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((pulled.files, pulled.bytes, pulled.fetched), (3, total as u64, total as u64));
}

#[test]
fn shards_are_those_of_the_index() {
    let bench = Bench::new(&sharded());
    let pulled = bench.pull().unwrap();
    let mut names: Vec<String> =
        std::fs::read_dir(&pulled.path).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let want = [
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(names, want);
    assert_eq!(bench.sent(), 500_000);
}

#[test]
fn the_second_time_nothing_is_sent() {
    let bench = Bench::new(&model());
    let first = bench.pull().unwrap();
    let sent = bench.sent();
    let second = bench.pull().unwrap();
    assert_eq!(second.fetched, 0);
    assert_eq!(second.path, first.path);
    assert_eq!(bench.sent(), sent);
    // Unless everything is wanted again.
    let name = ModelName::parse(REPO).unwrap();
    bench.client(&[]).pull(&name, true, &mut |_| {}).unwrap();
    assert_eq!(bench.sent(), 2 * sent);
}

#[test]
fn a_new_commit_brings_only_what_changed() {
    let mut files = model();
    let bench = Bench::new(&files);
    bench.pull().unwrap();
    let sent = bench.sent();
    files[1].1 = b"{\"model_type\": \"llada\", \"new\": 1}".to_vec();
    let newer = "f".repeat(40);
    bench.hub.model(REPO, &newer, &files, &bench.cdn);
    let pulled = bench.pull().unwrap();
    assert_eq!(pulled.commit, newer);
    assert_eq!(pulled.fetched, files[1].1.len() as u64);
    assert_eq!(bench.sent(), sent, "the weights are the same");
    // The old one is still there, and asked for by its commit.
    let old = bench.pull_as(&format!("{REPO}@{COMMIT}"), &[]).unwrap();
    assert_eq!(old.fetched, 0);
    assert_eq!(std::fs::read_to_string(old.path.join("config.json")).unwrap(), r#"{"model_type": "llada"}"#);
}

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let bench = Bench::new(&model());
    // A redirect on the same host keeps it: renamed models are found under their new name.
    let listing = format!("/api/models/{REPO}/revision/main?blobs=true");
    bench.hub.redirect("/api/models/org/old/revision/main?blobs=true", &listing);
    bench.hub.acts("nothing", vec![]);
    for path in ["config.json", "tokenizer.json", "model.safetensors"] {
        let at = format!("/resolve/{COMMIT}/{path}");
        bench.hub.redirect(&format!("/org/old{at}"), &format!("{}/{REPO}{at}", bench.hub.address));
    }
    bench.pull_as("org/old", &[("HF_TOKEN", "hf_secret")]).unwrap();
    let at_the_hub = bench.hub.seen();
    assert!(at_the_hub.len() >= 5);
    assert!(at_the_hub.iter().all(|seen| seen.header("authorization") == Some("Bearer hf_secret")), "{at_the_hub:?}");
    let elsewhere = bench.cdn.seen();
    assert_eq!(elsewhere.len(), 1);
    assert!(elsewhere.iter().all(|seen| seen.header("authorization").is_none()), "{elsewhere:?}");
}

#[test]
fn what_cannot_be_opened_is_not_fetched() {
    let refused = |files: &[(&str, Vec<u8>)], name: &str, words: &[&str]| {
        let bench = Bench::new(files);
        let message = bench.pull_as(name, &[]).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "no `{word}` in: {message}");
        }
        assert!(!bench.folder().exists(), "{message}");
    };
    let config = ("config.json", b"{}".to_vec());
    refused(
        &[config.clone(), ("pytorch_model.bin", vec![1])],
        REPO,
        &["no weights in safetensors", "pytorch_model.bin"],
    );
    refused(&[], REPO, &["it is empty"]);
    refused(&[("model.safetensors", vec![1])], REPO, &["config.json"]);
    let ggufs = [("q4.gguf", vec![1]), ("big/q8.gguf", vec![2])];
    refused(&ggufs, REPO, &["hf:org/tiny/q4.gguf", "hf:org/tiny/big/q8.gguf"]);
    refused(&ggufs, "org/tiny/q5.gguf", &["no file `q5.gguf`", "hf:org/tiny/q4.gguf"]);
    let mut lacking = sharded();
    lacking.remove(3);
    refused(&lacking, REPO, &["model-00002-of-00002.safetensors", "not complete"]);
}

#[test]
fn one_gguf_file_is_fetched_by_its_name() {
    let bytes = noise(10_000, 3);
    let bench = Bench::new(&[("q4.gguf", vec![1]), ("big/q8.gguf", bytes.clone())]);
    let pulled = bench.pull_as("hf:org/tiny/big/q8.gguf", &[]).unwrap();
    assert!(pulled.path.ends_with(format!("snapshots/{COMMIT}/big/q8.gguf")));
    assert!(std::fs::read(&pulled.path).unwrap() == bytes);
    assert_eq!(bench.sent(), 10_000);
    let name = ModelName::parse("org/tiny/big/q8.gguf").unwrap();
    assert_eq!(find(&bench.cache(), &name), Found::Whole(pulled.path));
}

#[test]
fn names_from_a_server_stay_in_the_cache() {
    for evil in [
        "../../../evil.safetensors",
        "/tmp/evil.safetensors",
        "a/../../b.safetensors",
        "a\\b.safetensors",
        "C:b.safetensors",
    ] {
        let index = serde_json::json!({"weight_map": {"a": evil}}).to_string();
        let files = [
            ("config.json", b"{}".to_vec()),
            ("model.safetensors.index.json", index.into_bytes()),
            (evil, vec![1, 2, 3]),
        ];
        let bench = Bench::new(&files);
        let message = bench.pull().unwrap_err().to_string();
        assert!(message.contains("it is not fetched"), "{evil}: {message}");
        assert!(!bench.cache().exists());
    }
    // Commits and etags are names of files, too.
    let bench = Bench::new(&model());
    for (commit, etag) in [("../../../../tmp", ""), ("", "../../../evil")] {
        let commit = if commit.is_empty() { COMMIT } else { commit };
        let etag = if etag.is_empty() { "0".repeat(40) } else { etag.to_owned() };
        let file = |name| serde_json::json!({"rfilename": name, "size": 3, "blobId": etag});
        let listing = serde_json::json!({"sha": commit, "siblings": [file("config.json"), file("model.safetensors")]});
        bench.hub.page(&format!("/api/models/{REPO}/revision/main?blobs=true"), listing.to_string().as_bytes());
        // An etag that is no checksum is not believed, and the file is asked about by itself.
        let _ = bench.pull();
        let outside: Vec<_> = std::fs::read_dir(&bench.scratch.0).unwrap().flatten().map(|it| it.file_name()).collect();
        assert!(outside.iter().all(|name| name == "hub"), "{outside:?}");
        assert!(!std::path::Path::new("/tmp/config.json").exists());
    }
}

#[test]
fn a_listing_without_sizes_is_completed_by_asking() {
    let files = model();
    let bench = Bench::new(&files);
    let siblings: Vec<_> = files.iter().map(|(path, _)| serde_json::json!({"rfilename": path})).collect();
    let listing = serde_json::json!({"sha": COMMIT, "siblings": siblings});
    bench.hub.page(&format!("/api/models/{REPO}/revision/main?blobs=true"), listing.to_string().as_bytes());
    let pulled = bench.pull().unwrap();
    assert!(std::fs::read(pulled.path.join("model.safetensors")).unwrap() == files[3].1);
    assert!(bench.hub.seen().iter().any(|seen| seen.method == "HEAD"));
}

#[test]
fn room_is_looked_at_before_the_first_byte() {
    let bench = Bench::new(&sharded());
    let name = ModelName::parse(REPO).unwrap();
    let files = sharded();
    let need: u64 = files[..4].iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let pull = |free: u64| bench.client(&[]).measure_room_by(move |_| Ok(free)).pull(&name, false, &mut |_| {});
    let message = pull(need - 1).unwrap_err().to_string();
    assert!(message.contains("needs 500.2 kB more") && message.contains("room for 500.2 kB"), "{message}");
    assert!(!bench.cache().exists(), "nothing was written");
    assert_eq!(bench.sent(), 0, "and nothing large was asked for");
    pull(need).unwrap();
    // Nothing more is needed now.
    pull(0).unwrap();
}

#[test]
fn without_links_files_are_kept_themselves() {
    let files = model();
    let bench = Bench::new(&files);
    let pulled = bench.pull_as(REPO, &[("HF_HUB_DISABLE_SYMLINKS", "1")]).unwrap();
    let weights = pulled.path.join("model.safetensors");
    assert!(weights.symlink_metadata().unwrap().is_file());
    assert!(std::fs::read(&weights).unwrap() == files[3].1);
    let sent = bench.sent();
    assert_eq!(bench.pull_as(REPO, &[("HF_HUB_DISABLE_SYMLINKS", "1")]).unwrap().fetched, 0);
    assert_eq!(bench.sent(), sent);
}

#[test]
fn events_tell_what_a_bar_needs() {
    let bench = Bench::new(&model());
    let pulled = bench.pull().unwrap();
    let events = bench.events.lock().unwrap();
    let Event::Planned { what, files, missing, present, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((what.as_str(), files.len(), *missing, *present), (REPO, 3, pulled.bytes, 0));
    for (file, size) in files {
        let of_it = |event: &&Event| match event {
            Event::Started { file: it, .. } | Event::Progress { file: it, .. } | Event::Finished { file: it } => {
                it == file
            }
            _ => false,
        };
        let mine: Vec<&Event> = events.iter().filter(of_it).collect();
        assert!(matches!(mine[0], Event::Started { from: 0, .. }), "{mine:?}");
        assert_eq!(mine[mine.len() - 2], &Event::Progress { file: file.clone(), done: *size });
        assert_eq!(mine[mine.len() - 1], &Event::Finished { file: file.clone() });
    }
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let bench = Bench::new(&model());
    let client = || cofill_hub::Hub::new(bench.settings(&[])).pause_by(|_| std::thread::yield_now());
    let name = ModelName::parse(REPO).unwrap();
    let pulled: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| client().pull(&name, false, &mut |_| {}))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap().path).collect()
    });
    assert!(pulled.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(bench.sent(), 700_001);
}

#[test]
fn off_line_is_said_with_what_to_do() {
    let bench = Bench::new(&model());
    let check = |message: String, words: &[&str]| {
        for word in words {
            assert!(message.contains(word), "no `{word}` in: {message}");
        }
    };
    let offline = bench.pull_as(REPO, &[("HF_HUB_OFFLINE", "1")]).unwrap_err();
    check(offline.to_string(), &["`org/tiny` is not on this machine", "HF_HUB_OFFLINE", "models--org--tiny"]);
    assert!(bench.hub.seen().is_empty(), "nobody was asked");
    // A port that nobody listens on.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = bench.pull_as(REPO, &[("HF_ENDPOINT", &format!("http://{gone}"))]).unwrap_err();
    check(
        nobody.to_string(),
        &["http://127.0.0.1 cannot be reached", "HF_ENDPOINT", "HTTPS_PROXY", "models--org--tiny"],
    );
    assert!(!nobody.is_request() && offline.is_request());
    assert!(bench.pauses.lock().unwrap().is_empty(), "nobody waits for a network that is not there");
    drop(Server::start());
}
