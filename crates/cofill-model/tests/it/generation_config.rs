use crate::checkpoint::{Checkpoint, Folder};
use crate::gguf::written;
use cofill_model::{Checkpoint as Opened, Dtype, GenerationDefaults, Inspection, embedded};
use std::path::{Path, PathBuf};

/// The repository's folder of a model that is also inside the program.
fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

fn with(text: &str) -> Folder {
    let folder = Checkpoint::llada().write();
    folder.put("generation_config.json", text);
    folder
}

fn defaults(path: &Path) -> cofill_model::Result<GenerationDefaults> {
    Opened::open(path)?.generation_defaults()
}

/// (tasks, length)
fn read(text: &str) -> (Option<String>, Option<usize>) {
    let it = defaults(with(text).path()).unwrap();
    (it.tasks, it.length)
}

#[test]
fn only_our_section_counts() {
    assert_eq!(defaults(Checkpoint::llada().write().path()).unwrap(), GenerationDefaults::default());
    // As published checkpoints have it.
    let foreign = r#""_from_model_config": true, "temperature": 0.7, "max_length": 512, "eos_token_id": 3"#;
    assert_eq!(read(&format!("{{{foreign}}}")), (None, None));
    assert_eq!(read(&format!(r#"{{{foreign}, "cofill": {{}}}}"#)), (None, None));
    let all = r#"{"cofill": {"tasks": "mini", "length": 64}, "max_length": 512}"#;
    assert_eq!(read(all), (Some("mini".into()), Some(64)));
    assert_eq!(read(r#"{"cofill": {"length": 16777216}}"#), (None, Some(1 << 24)));
}

#[test]
fn what_the_section_may_not_hold_is_refused_by_name() {
    let long = format!(r#"{{"cofill": {{"tasks": "{}"}}}}"#, "x".repeat(257));
    for (text, words) in [
        ("{", "not JSON"),
        ("[]", "no JSON object"),
        (r#"{"cofill": "mini"}"#, "`cofill` is no JSON object"),
        (r#"{"cofill": null}"#, "`cofill` is no JSON object"),
        (r#"{"cofill": {"smapler": "topk:2"}}"#, "the key `smapler`, but may have only tasks, length and paths_alpha"),
        (r#"{"cofill": {"length": 0}}"#, "`length` of `cofill` must be a whole number from 1 to 16777216"),
        (r#"{"cofill": {"length": 16777217}}"#, "`length` of `cofill` must be a whole number"),
        (r#"{"cofill": {"length": "64"}}"#, "`length` of `cofill` must be a whole number"),
        (r#"{"cofill": {"paths_alpha": -1}}"#, "`paths_alpha` of `cofill` must be a number from 0 to 1000000000"),
        (r#"{"cofill": {"paths_alpha": "auto"}}"#, "`paths_alpha` of `cofill` must be a number"),
        (r#"{"cofill": {"tasks": ""}}"#, "`tasks` of `cofill` must be a text of 1 to 256 bytes"),
        (r#"{"cofill": {"tasks": null}}"#, "`tasks` of `cofill` must be a text"),
        (&long, "`tasks` of `cofill` must be a text of 1 to 256 bytes"),
        (&"[".repeat(100_000), "not JSON"),
    ] {
        let folder = with(text);
        let error = defaults(folder.path()).unwrap_err().to_string();
        assert!(error.contains("generation_config.json") && error.contains(words), "no `{words}` in: {error}");
        let found = Inspection::of(&Opened::open(folder.path()).unwrap()).unwrap();
        assert!(!found.is_sound() && found.problems.iter().any(|problem| problem.contains(words)), "{words}");
    }
}

#[test]
fn a_gguf_file_keeps_the_section() {
    let (file, _) =
        written(with(r#"{"cofill": {"tasks": "mini", "length": 7}, "max_length": 512}"#).path(), Dtype::F32);
    let kept = defaults(&file.0).unwrap();
    assert_eq!((kept.tasks.as_deref(), kept.length), (Some("mini"), Some(7)));
    let (file, _) = written(Checkpoint::llada().write().path(), Dtype::F32);
    assert_eq!(defaults(&file.0).unwrap(), GenerationDefaults::default());
}

/// Committed results name the models they come from by these; a model whose hash changed would be another one.
const TINY: [(&str, &str); 2] = [
    ("tiny-llada", "5a6657107d0de75e621a7f28f91baf8ee56e32f113946ac5b63205da8db824b3"),
    ("tiny-dream", "7990682a26324d7e25272b4f25944bb3a2c1c7afe415b7d858b7da86189d0916"),
];

#[test]
fn the_tiny_models_are_those_of_the_committed_results() {
    let inside: Vec<&str> = embedded::names().collect();
    for (name, sha256) in TINY {
        let folder = tiny(name);
        // The same folder, copied somewhere else.
        let copy = Folder::new();
        for file in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            copy.put(file.file_name().unwrap().to_str().unwrap(), std::fs::read(&file).unwrap());
        }
        let mut places = vec![folder, copy.path().to_owned()];
        places.extend(inside.contains(&name).then(|| name.into()));
        for place in places {
            let checkpoint = Opened::open(&place).unwrap();
            assert_eq!(checkpoint.fingerprint().unwrap(), sha256, "{}", place.display());
            let said = checkpoint.generation_defaults().unwrap();
            assert_eq!((said.tasks.as_deref(), said.length), (Some("mini"), None));
        }
    }
}
