use crate::server::{Act, sha256};
use crate::support::{Bench, noise};
use cofill_hub::{Error, FetchFile};

#[test]
fn a_file_by_its_checksum() {
    let bytes = noise(300_000, 1);
    let bench = Bench::new(&[]);
    bench.cdn.page("/raw/a.jsonl", &bytes);
    let (url, sha256) = (format!("{}/raw/a.jsonl", bench.cdn.address), sha256(&bytes));
    let file = FetchFile { name: "a.jsonl", url: &url, size: 300_000, sha256: &sha256, mirror: "MIRROR" };
    let to = bench.scratch.0.join("data/a.jsonl");
    bench.cdn.acts("/raw/", vec![Act::CutAfter(1000), Act::HangUp, Act::CutAfter(200_000)]);
    bench.client(&[("HF_TOKEN", "hf_secret")]).fetch(&file, &to, &mut |_| {}).unwrap();
    assert!(std::fs::read(&to).unwrap() == bytes);
    assert_eq!(bench.cdn.sent(), 300_000, "no byte twice");
    assert!(bench.cdn.seen().iter().all(|seen| seen.header("authorization").is_none()), "that is not the hub");
    let left: Vec<_> = std::fs::read_dir(to.parent().unwrap()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(left, ["a.jsonl"], "no partial file, no lock");
    // Other bytes at the same address.
    bench.cdn.page("/raw/a.jsonl", &noise(300_000, 2));
    std::fs::remove_file(&to).unwrap();
    let error = bench.client(&[]).fetch(&file, &to, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert!(!to.exists());
    // Nothing there any more.
    bench.cdn.rule(|_| Some(Act::Status(404, vec![])));
    let error = bench.client(&[]).fetch(&file, &to, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("no `a.jsonl` any more") && error.contains("/raw/a.jsonl"), "{error}");
}
