use crate::run::{COFILL, Ran, run, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the command with a cache of its own.
fn cached(cache: &Path, args: &[&str]) -> Ran {
    let output = Command::new(COFILL).args(args).env("COFILL_CACHE", cache).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A copy of tiny-llada that nobody calibrated, which still says that it knows the mini tasks.
fn uncalibrated(place: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(place); // of an earlier run
    let folder = place.join("model");
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny-llada");
    for file in std::fs::read_dir(source).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    std::fs::write(folder.join("generation_config.json"), r#"{"other": 1, "cofill": {"tasks": "mini"}}"#).unwrap();
    folder
}

#[test]
fn a_calibration_is_kept_in_the_cache_and_used_by_auto_alone() {
    let place = scratch("calibrate-cache");
    let (folder, cache) = (uncalibrated(&place), place.join("cache"));
    let model = folder.to_str().unwrap();
    let eval = |sampler: &str| {
        let args = ["eval", "--task", "predicates", "-m", model, "-s", sampler, "--limit", "2", "--json"];
        cached(&cache, &args)
    };
    eval("topk:4+paths:auto").is_refused(&["`+paths:auto`", "cofill calibrate", "+paths:100"]);
    let ran = cached(&cache, &["calibrate", "-m", model, "--task", "predicates", "--limit", "3", "--json"]);
    let answer = ran.is_fine().json();
    let alpha = answer["paths_alpha"].as_f64().unwrap();
    assert!(answer["pairs"].as_u64().unwrap() > 20 && answer["forwards"].as_u64().unwrap() > 10, "{ran}");
    assert_eq!((&answer["tasks"], answer["strengths"].as_array().unwrap().len()), (&json!(["predicates"]), 10));
    let kept = PathBuf::from(answer["kept"].as_str().unwrap());
    assert!(kept.starts_with(&cache) && kept.file_stem().unwrap().to_str() == answer["model_sha256"].as_str());
    // Records and answers have the number.
    let text = format!("topk:4+paths:{alpha}");
    let auto = eval("topk:4+paths:auto").is_fine().json();
    assert_eq!(auto["sampler"], json!(text));
    assert_eq!((&auto["score"], &auto["nfe"]), (&eval(&text).json()["score"], &eval(&text).json()["nfe"]));
    assert_eq!(eval("topk:4+paths").is_fine().json()["sampler"], json!("topk:4+paths:100"), "always 100");
    let inspected = cached(&cache, &["models", "inspect", model, "--json"]).is_fine().json();
    assert_eq!(inspected["paths_alpha"].as_f64(), Some(alpha));
    // What is in the cache is checked before it is believed.
    for (bad, says) in [("{", "cannot be used"), (r#"{"cofill_calibration":9}"#, "missing field")] {
        std::fs::write(&kept, bad).unwrap();
        eval("topk:4+paths:auto").is_refused(&[says, "calibrate again"]);
    }
    let mut other: Value = answer.clone();
    other["cofill_calibration"] = json!(1);
    other["model_sha256"] = json!("0".repeat(64));
    std::fs::write(&kept, other.to_string()).unwrap();
    eval("topk:4+paths:auto").is_refused(&["another model"]);
}

#[test]
fn a_calibration_beside_the_model_leaves_the_rest_as_it_was() {
    let place = scratch("calibrate-beside");
    let (folder, cache) = (uncalibrated(&place), place.join("cache"));
    let model = folder.to_str().unwrap();
    cached(&cache, &["calibrate", "-m", model, "--task", "predicates", "--limit", "2", "--beside"]).is_fine();
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("generation_config.json")).unwrap()).unwrap();
    assert_eq!((&config["other"], &config["cofill"]["tasks"]), (&json!(1), &json!("mini")));
    let alpha = config["cofill"]["paths_alpha"].as_f64().unwrap();
    assert!(!cache.exists());
    let shown = cached(&cache, &["models", "inspect", model]);
    assert!(shown.is_fine().stdout.contains(&format!("+paths:auto is +paths:{alpha}")), "{shown}");
}

#[test]
fn the_models_inside_are_calibrated() {
    for (model, alpha) in [("tiny-llada", 200), ("tiny-dream", 5)] {
        let ran = run(&format!("eval --task chain -m {model} -s fast:2+paths:auto --limit 1 --json"));
        assert_eq!(ran.is_fine().json()["sampler"], json!(format!("fast:2+paths:{alpha}")));
    }
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    run("calibrate -m toy").is_refused(&["`toy`"]);
    run("calibrate -m tiny-llada --beside").is_refused(&["--beside", "no folder"]);
    run("generate -m toy -n 6 -s topk:2+paths:auto").is_refused(&["`+paths:auto`", "`toy`"]);
    run("calibrate -m tiny-llada --limit 0").is_refused(&["--limit"]);
    run("eval --task chain -s topk:2+ad:auto").is_refused(&["only +paths can be `auto`"]);
}
