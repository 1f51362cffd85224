use crate::support::{Bench, COMMIT, REPO, Scratch, model, tree};
use cofill_hub::{Error, ModelName, remove, scan};

fn name(text: &str) -> ModelName {
    ModelName::parse(text).unwrap()
}

/// A cache with two revisions that share their weights.
fn two() -> (Bench, String) {
    let mut files = model();
    let bench = Bench::new(&files);
    bench.pull().unwrap();
    files[1].1 = vec![b' '; 100];
    let newer = "f".repeat(40);
    bench.hub.model(REPO, &newer, &files, &bench.cdn);
    bench.pull().unwrap();
    (bench, newer)
}

#[test]
fn a_scan_counts_every_blob_once() {
    let (bench, newer) = two();
    std::fs::write(bench.folder().join("blobs/abc.incomplete"), [0; 50]).unwrap();
    let models = scan(&bench.cache());
    assert_eq!(models.len(), 1);
    let it = &models[0];
    assert_eq!(it.repo, REPO);
    assert_eq!(it.revisions.iter().map(|it| it.commit.as_str()).collect::<Vec<_>>(), [COMMIT, newer.as_str()]);
    assert_eq!(it.revisions[0].refs, Vec::<String>::new());
    assert_eq!(it.revisions[1].refs, ["main"]);
    // 23 and 100 bytes of config.json, 5,000 of the tokenizer, 700,001 of weights; a ref has 40.
    assert_eq!(it.revisions.iter().map(|it| it.bytes).collect::<Vec<_>>(), [705_024, 705_101]);
    assert_eq!((it.bytes, it.unfinished), (23 + 100 + 5000 + 700_001 + 40 + 50, 50));
    assert_eq!(scan(std::path::Path::new("/nowhere")), []);
}

#[test]
fn removing_a_revision_keeps_what_others_need() {
    let (bench, newer) = two();
    let gone = remove(&bench.cache(), &name(&format!("{REPO}@{COMMIT}"))).unwrap();
    assert_eq!((gone.commits, gone.freed), (vec![COMMIT.to_owned()], 23));
    let rest = scan(&bench.cache());
    assert_eq!(rest[0].revisions.len(), 1);
    let folder = bench.folder().join("snapshots").join(&newer);
    assert!(std::fs::read(folder.join("model.safetensors")).unwrap() == model()[3].1);
    // The last one takes the whole folder with it, by its ref.
    let gone = remove(&bench.cache(), &name("org/tiny@main")).unwrap();
    assert_eq!(gone.freed, 100 + 5000 + 700_001 + 40);
    assert!(!bench.folder().exists());
    assert!(!bench.cache().join(".locks/models--org--tiny").exists());
}

#[test]
fn what_is_not_there_is_not_removed() {
    let (bench, _) = two();
    let before = tree(&bench.cache());
    for text in ["org/other", "org/tiny@v7", "org/tiny@0000000", "org/tiny/a.gguf"] {
        let error = remove(&bench.cache(), &name(text)).unwrap_err();
        assert!(matches!(error, Error::NotCached { .. }), "{text}: {error}");
    }
    assert_eq!(tree(&bench.cache()), before);
}

#[cfg(unix)]
#[test]
fn no_link_is_followed_out_of_the_cache() {
    use std::os::unix::fs::symlink;
    let outside = Scratch::new();
    std::fs::write(outside.0.join("precious"), "mine").unwrap();
    let (bench, _) = two();
    // A folder of the model that is a link, a link in it, and a ref that is one.
    symlink(&outside.0, bench.folder().join("snapshots").join(COMMIT).join("more")).unwrap();
    symlink(&outside.0, bench.folder().join("elsewhere")).unwrap();
    symlink(outside.0.join("precious"), bench.folder().join("refs/odd")).unwrap();
    symlink(&outside.0, bench.cache().join("models--org--link")).unwrap();
    assert!(matches!(remove(&bench.cache(), &name("org/link")), Err(Error::NotCached { .. })));
    assert!(scan(&bench.cache()).iter().all(|it| it.repo != "org/link"));
    remove(&bench.cache(), &name(&format!("{REPO}@{COMMIT}"))).unwrap();
    remove(&bench.cache(), &name(REPO)).unwrap();
    assert!(!bench.folder().exists());
    assert_eq!(std::fs::read_to_string(outside.0.join("precious")).unwrap(), "mine");
}

#[test]
fn what_is_being_downloaded_is_not_removed() {
    let (bench, _) = two();
    let lock = bench.cache().join(".locks/models--org--tiny/x.lock");
    let file = std::fs::File::create(&lock).unwrap();
    file.lock().unwrap();
    let error = remove(&bench.cache(), &name(REPO)).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    drop(file);
    remove(&bench.cache(), &name(REPO)).unwrap();
}
