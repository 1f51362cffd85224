use crate::server::Act;
use crate::support::{Bench, COMMIT, REPO, model, noise};
use cofill_hub::{Error, Event};
use std::time::Duration;

/// The bytes of the weights that `model` has.
const SIZE: u64 = 700_001;

fn weights(bench: &Bench) -> Vec<u8> {
    std::fs::read(bench.folder().join(format!("snapshots/{COMMIT}/model.safetensors"))).unwrap()
}

fn whole(bench: &Bench) -> bool {
    weights(bench) == model()[3].1
}

/// What a failed pull said; nothing must look like a model afterwards.
#[track_caller]
fn failed(bench: &Bench) -> Error {
    let error = bench.pull().unwrap_err();
    assert!(!bench.folder().join("snapshots").exists(), "half a model is none: {error}");
    error
}

#[test]
fn a_broken_connection_continues_where_it_broke() {
    let bench = Bench::new(&model());
    let cuts = [1, 100_000, 0, 65_536, 300_000, 7];
    bench.cdn.acts("/cdn/", cuts.map(Act::CutAfter).to_vec());
    bench.pull().unwrap();
    assert!(whole(&bench));
    assert_eq!(bench.sent(), SIZE, "no byte twice");
    let ranges: Vec<Option<String>> = bench.cdn.seen().iter().map(|it| it.header("range").map(str::to_owned)).collect();
    let want = [None, Some(1), Some(100_001), Some(100_001), Some(165_537), Some(465_537), Some(465_544)];
    assert_eq!(ranges, want.map(|from| from.map(|from| format!("bytes={from}-"))));
}

#[test]
fn connections_may_break_anywhere() {
    // Before a word, in the listing, in small files, in every part of the large one.
    let bench = Bench::new(&model());
    bench.hub.rule({
        let mut n = 0;
        move |_| {
            n += 1;
            (n % 3 != 0).then_some(if n % 2 == 0 { Act::HangUp } else { Act::CutAfter(11) })
        }
    });
    bench.pull().unwrap();
    assert!(whole(&bench));
}

#[test]
fn a_server_without_ranges_starts_again() {
    let bench = Bench::new(&model());
    bench.cdn.acts("/cdn/", vec![Act::CutAfter(200_000), Act::WholeFile]);
    bench.pull().unwrap();
    assert!(whole(&bench));
    assert_eq!(bench.sent(), 200_000 + SIZE);
}

#[test]
fn nobody_tries_for_ever() {
    let bench = Bench::new(&model());
    bench.cdn.rule(|_| Some(Act::HangUp));
    let error = failed(&bench);
    assert!(matches!(error, Error::GaveUp { times: 6, .. }), "{error}");
    assert!(error.to_string().contains("the same command continues"), "{error}");
    let pauses: Vec<u128> = bench.pauses.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000]);
    // What was fetched before is kept, and used.
    bench.cdn.behave();
    let small = bench.hub.seen().len();
    bench.pull().unwrap();
    assert!(whole(&bench));
    assert_eq!(bench.hub.seen().len() - small, 2, "the listing, and where the weights are");
}

#[test]
fn busy_servers_say_how_long() {
    let bench = Bench::new(&model());
    let later = |seconds: &str| Act::Status(429, vec![("retry-after", seconds.into())]);
    bench.hub.acts("/api/", vec![later("7"), later("0"), Act::Status(503, vec![]), Act::Status(500, vec![])]);
    bench.pull().unwrap();
    let pauses: Vec<u128> = bench.pauses.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(pauses, [7000, 0, 2000, 4000], "as asked, and otherwise twice as long each time");
    let told = bench.events.lock().unwrap().iter().filter(|event| matches!(event, Event::Retrying { .. })).count();
    assert_eq!(told, 4);
    // An hour is too long for anybody.
    let bench = Bench::new(&model());
    bench.hub.acts("/api/", vec![later("3600")]);
    let error = failed(&bench);
    assert!(error.to_string().contains("asks to wait 3600 seconds"), "{error}");
    assert!(bench.pauses.lock().unwrap().is_empty());
}

#[test]
fn refusals_say_what_would_help() {
    let check = |part: &str, act: Act, token: &str, words: &[&str]| {
        let bench = Bench::new(&model());
        bench.hub.rule({
            let part = part.to_owned();
            move |seen| seen.path.contains(&part).then(|| act.clone())
        });
        let error = bench.pull_as(REPO, &[("HF_TOKEN", token)]).unwrap_err();
        assert!(error.is_request(), "{error:?}");
        for word in words {
            assert!(error.to_string().contains(word), "no `{word}` in: {error}");
        }
        assert!(bench.pauses.lock().unwrap().is_empty(), "asking again would not help: {error}");
    };
    let code = |status, code: &str| Act::Status(status, vec![("x-error-code", code.into())]);
    check("/api/", code(401, "RepoNotFound"), "", &["says 401", "the name is wrong", "HF_TOKEN", "/org/tiny"]);
    check("/api/", code(401, "RepoNotFound"), "hf_x", &["says 401", "token", "not valid"]);
    check("/api/", code(404, "RepoNotFound"), "hf_x", &["no model `org/tiny`", "check the name"]);
    check("/api/", code(404, "RevisionNotFound"), "", &["no revision `main` of `org/tiny`", "/tree/main"]);
    check("/resolve/", code(401, "GatedRepo"), "", &["gated", "accept its terms on", "HF_TOKEN"]);
    check("/resolve/", code(403, "GatedRepo"), "hf_x", &["gated", "the account of the token"]);
    check("/resolve/", code(403, ""), "hf_x", &["says 403", "accept its terms"]);
    check("/resolve/", code(404, "EntryNotFound"), "", &["no file http://127.0.0.1"]);
}

#[test]
fn wrong_lengths_are_not_believed() {
    // One that is persistently too short or too long ends the attempts; one in between does not.
    for length in [SIZE - 1, SIZE + 1, 0] {
        let bench = Bench::new(&model());
        bench.cdn.acts("/cdn/", vec![Act::SaysLength(length)]);
        bench.pull().unwrap();
        assert!(whole(&bench), "{length}");
        let bench = Bench::new(&model());
        bench.cdn.rule(move |_| Some(Act::SaysLength(length)));
        let error = failed(&bench);
        assert!(error.to_string().contains(&format!("it has {length} bytes, not {SIZE}")), "{error}");
    }
    // More than there is, without a length: the file is what its checksum says, and the rest is nobody's.
    let bench = Bench::new(&model());
    bench.cdn.acts("/cdn/", vec![Act::TooMuch(noise(5000, 4))]);
    bench.pull().unwrap();
    assert!(whole(&bench));
    // The right length is announced, and then too little comes.
    let bench = Bench::new(&model());
    bench.cdn.rule(|_| Some(Act::CutAfter(0)));
    let error = failed(&bench);
    assert!(matches!(error, Error::GaveUp { .. }), "{error}");
}

#[test]
fn a_range_that_was_not_asked_for_is_not_used() {
    let bench = Bench::new(&model());
    bench.cdn.acts("/cdn/", vec![Act::CutAfter(1000), Act::OtherRange]);
    bench.pull().unwrap();
    assert!(whole(&bench));
}

#[test]
fn a_wrong_checksum_is_fetched_once_more_and_then_refused() {
    let mut damaged = model()[3].1.clone();
    damaged[350_000] ^= 1;
    let bench = Bench::new(&model());
    bench.cdn.acts("/cdn/", vec![Act::Content(damaged.clone())]);
    bench.pull().unwrap();
    assert!(whole(&bench));
    assert_eq!(bench.sent(), 2 * SIZE);
    // Persistently.
    let bench = Bench::new(&model());
    bench.cdn.rule(move |_| Some(Act::Content(damaged.clone())));
    let error = failed(&bench);
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert_eq!(bench.sent(), 2 * SIZE);
    let blobs = bench.folder().join("blobs");
    let left: Vec<_> = std::fs::read_dir(blobs).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(left.len(), 2, "the two small files, and nothing of the wrong one: {left:?}");
    // Small files have git's checksum.
    let bench = Bench::new(&model());
    bench.hub.rule(|seen| seen.path.ends_with("config.json").then(|| Act::Content(vec![b'x'; 23])));
    let error = failed(&bench);
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
}

#[test]
fn a_file_that_changes_between_attempts_is_noticed() {
    // A small file, whose host honours `If-Range`: the second half would be of another content, so all of it is sent.
    let bench = Bench::new(&model());
    bench.hub.acts("tokenizer.json", vec![Act::CutAfter(2000), Act::Content(noise(5000, 99))]);
    bench.pull().unwrap();
    let asked: Vec<_> = bench.hub.seen().into_iter().filter(|seen| seen.path.ends_with("tokenizer.json")).collect();
    assert_eq!(asked[1].header("range"), Some("bytes=2000-"));
    assert!(asked[1].header("if-range").is_some());
    // The hub itself says that the file is another one now.
    let bench = Bench::new(&model());
    let other = format!("\"{}\"", "a".repeat(64));
    bench.cdn.acts("/cdn/", vec![Act::CutAfter(1000)]);
    let mut n = 0;
    let to = bench.cdn.address.clone();
    bench.hub.rule(move |seen| {
        n += u32::from(seen.path.ends_with("model.safetensors"));
        let headers = vec![("location", format!("{to}/x")), ("x-linked-etag", other.clone())];
        (n == 2 && seen.path.ends_with("model.safetensors")).then_some(Act::Status(302, headers))
    });
    bench.cdn.page("/x", b"another");
    let error = failed(&bench);
    assert!(error.to_string().contains("ask again"), "{error}");
    // Half of a file from long ago, which was another one.
    let bench = Bench::new(&model());
    let etag = crate::server::sha256(&model()[3].1);
    std::fs::create_dir_all(bench.folder().join("blobs")).unwrap();
    std::fs::write(bench.folder().join(format!("blobs/{etag}.incomplete")), noise(400_000, 77)).unwrap();
    bench.pull().unwrap();
    assert!(whole(&bench));
    assert_eq!(bench.sent(), 300_001 + SIZE, "the rest, and then all of it");
}

#[test]
fn partial_files_of_any_length_are_continued() {
    let bytes = model()[3].1.clone();
    let etag = crate::server::sha256(&bytes);
    for (length, sent) in [(0, SIZE), (1, SIZE - 1), (SIZE - 1, 1), (SIZE, 0), (SIZE + 1, SIZE)] {
        let bench = Bench::new(&model());
        std::fs::create_dir_all(bench.folder().join("blobs")).unwrap();
        let mut there = bytes.clone();
        there.resize(usize::try_from(length).unwrap(), 0);
        std::fs::write(bench.folder().join(format!("blobs/{etag}.incomplete")), there).unwrap();
        bench.pull().unwrap();
        assert!(whole(&bench), "{length}");
        assert_eq!(bench.sent(), sent, "{length}");
    }
}

#[test]
fn redirects_end() {
    let bench = Bench::new(&model());
    bench.hub.redirect(&format!("/api/models/{REPO}/revision/main?blobs=true"), "/round");
    bench.hub.redirect("/round", "/round");
    assert!(failed(&bench).to_string().contains("more than 10 redirects"));
    for elsewhere in ["file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:alert(1)"] {
        bench.hub.redirect("/round", elsewhere);
        let error = failed(&bench).to_string();
        assert!(error.contains("no address of http") || error.contains("no model"), "{elsewhere}: {error}");
    }
}

#[test]
fn answers_that_are_no_listing_are_refused() {
    let bench = Bench::new(&model());
    let path = format!("/api/models/{REPO}/revision/main?blobs=true");
    let deep = "[".repeat(100_000);
    for body in ["", "<html>please log in to the hotel's network</html>", "[]", "{}", r#"{"sha": 5}"#, &deep, "\u{0}"] {
        bench.hub.page(&path, body.as_bytes());
        let error = failed(&bench);
        assert!(matches!(error, Error::BadAnswer { .. }), "{body:.50}: {error}");
    }
    bench.hub.page(&path, &vec![b' '; (64 << 20) + 1]);
    let error = failed(&bench).to_string();
    assert!(error.contains("more than 67108864 bytes"), "{error}");
}

#[test]
fn whoever_wants_to_stop_is_heard() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let bench = Bench::new(&model());
    let stop = Arc::new(AtomicBool::new(false));
    let name = cofill_hub::ModelName::parse(REPO).unwrap();
    let mut report = |event: &Event| {
        if matches!(event, Event::Progress { file, .. } if file == "model.safetensors") {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let error = bench.client(&[]).stop_when(stop.clone()).pull(&name, false, &mut report).unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
    let partial = format!("blobs/{}.incomplete", crate::server::sha256(&model()[3].1));
    assert!(bench.folder().join(partial).metadata().unwrap().len() > 0);
    bench.pull().unwrap();
    assert!(whole(&bench));
}
