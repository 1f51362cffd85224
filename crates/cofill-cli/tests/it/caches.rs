use crate::run::{run, run_with, scratch};
use serde_json::{Value, json};

#[test]
fn the_meter_says_what_a_cache_saved_and_at_which_drift() {
    let ask =
        |cache: &str| run(&format!("generate -m tiny-llada -s topk:1+ad --block 16 -n 32 --cache {cache} --json"));
    let without = ask("off");
    assert!(without.is_fine().json().get("cache").is_none() && !without.stderr.contains("cache"), "{without}");
    let dual = ask("dual");
    let cache = dual.is_fine().json()["cache"].clone();
    assert_eq!(
        (&cache["cache"], &cache["full_forwards"], &cache["partial_forwards"]),
        (&json!("dual"), &json!(2), &json!(30))
    );
    assert_eq!((cache.get("mean_kl"), dual.json()["nfe"].as_u64()), (None, Some(32)));
    let share = cache["positions_computed_share"].as_f64().unwrap();
    let positions = |field: &str| cache[field].as_f64().unwrap();
    assert_eq!(share, positions("computed") / positions("positions"));
    let said = format!(
        "cache dual: {:.0} % of the positions of full forwards were computed (2 of 32 forwards full); drift not measured",
        100.0 * share
    );
    assert!(dual.stderr.contains(&said), "{dual}");

    let auto = ask("auto:0.05");
    let cache = auto.is_fine().json()["cache"].clone();
    let number = |field: &str| cache[field].as_u64().unwrap();
    assert!(number("checks") > 0 && cache["mean_kl"].as_f64().unwrap() >= 0.0 && cache["flips"].is_u64(), "{auto}");
    // A check is a forward of its own.
    assert_eq!(auto.json()["nfe"].as_u64().unwrap(), 32 + number("checks"));
    assert_eq!(number("full_forwards") + number("partial_forwards"), 32 + number("checks"));
    assert!(auto.stderr.contains("nats on average"), "{auto}");

    // A budget of nothing changes nothing.
    let exact = ask("auto:0").is_fine().json();
    assert_eq!((&exact["tokens"], &exact["nfe"]), (&without.json()["tokens"], &without.json()["nfe"]));
}

#[test]
fn where_a_cache_cannot_be_right_it_is_refused() {
    let refused = |args: &str, words: &[&str]| {
        let ran = run(&format!("generate {args}"));
        ran.is_refused(words);
        assert!(ran.stderr.contains("--cache"), "{ran}");
    };
    refused("--cache dual", &["without blocks", "--block N", "--cache off"]);
    refused("--cache dual --block 8 -s punt", &["looks ahead"]);
    refused("--cache prefix --block 8 -s klass", &["beyond the block"]);
    refused("--cache prefix --block 8 -s p2:8", &["takes commits back"]);
    refused("--cache dual --block 8 -s apd --companion tiny-causal", &["asks a companion"]);
    refused("--cache dual --block 8 --cfg 0.5", &["guidance"]);
    refused("--cache auto:0.1 --block 8 --choice yes", &["held to a language"]);
    refused("--cache duel --block 8", &["did you mean `dual`?", "auto:BUDGET"]);
    refused("--cache auto --block 8", &["auto:0.01"]);
    refused("--cache auto:-1 --block 8", &["0 or more"]);
    refused("-m toy --cache dual --block 4", &["toy", "keys and values"]);
    run("explain -m tiny-llada --cache dual --block 8").is_refused(&["the model's own answers"]);
    run("diagnose intervention --cache dual --task chain --limit 1").is_refused(&["--cache is not for diagnostics"]);
}

#[test]
fn results_say_which_cache_and_what_it_did() {
    let file = scratch("cached.jsonl");
    let path = file.to_str().unwrap();
    let args = [
        "eval", "--task", "chain", "--limit", "4", "--block", "16", "--cache", "auto:0.1", "--json", "--force",
        "--out", path,
    ];
    let answer = run_with(&args, "").is_fine().json();
    assert!(answer["cache"]["positions_computed_share"].as_f64().unwrap() < 1.0, "{answer}");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["what"]["cache"], "auto:0.1");
    let checks = |line: &Value| line["cache"]["checks"].as_u64().unwrap();
    assert_eq!(lines[1..].iter().map(checks).sum::<u64>(), answer["cache"]["checks"].as_u64().unwrap());
}
