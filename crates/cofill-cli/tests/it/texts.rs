use crate::run::run;

#[test]
fn the_table_of_samplers() {
    insta::assert_snapshot!(run("samplers").is_fine().stdout);
}

#[test]
fn every_sampler_as_json() {
    let ran = run("samplers --json");
    let objects: Vec<serde_json::Value> =
        ran.is_fine().stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), cofill::Registry::stock().entries().len());
    let topk = &objects[0];
    assert_eq!((topk["name"].as_str(), topk["discountable"].as_bool()), (Some("topk"), Some(true)));
    assert!(objects.iter().all(|object| !object["source"].as_str().unwrap().is_empty()));
}

#[test]
fn help_texts() {
    let models = ["pull", "models", "models list", "models rm", "models inspect", "models verify", "models quantise"];
    let harness = ["prompts", "score", "data", "data check", "data fetch"];
    let others = [
        "",
        "generate",
        "chat",
        "infill",
        "compare",
        "serve",
        "eval",
        "select",
        "probe",
        "trace",
        "trace html",
        "samplers",
        "report",
    ];
    let sweep = ["sweep", "sweep run", "sweep plan", "sweep work", "sweep status", "sweep merge", "sweep submit"];
    let diagnose = [
        "diagnose",
        "diagnose intervention",
        "diagnose deferral",
        "diagnose predicates",
        "explain",
        "calibrate",
        "tune",
    ];
    let bench = ["", " constraint", " decode", " errors", " forward", " growth", " overhead", " select", " write"];
    let bench = bench.map(|name| format!("bench{name}"));
    let bench = bench.each_ref().map(String::as_str);
    for command in others.into_iter().chain(models).chain(harness).chain(sweep).chain(diagnose).chain(bench) {
        let ran = run(&format!("{command} --help"));
        insta::assert_snapshot!(format!("help_{}", command.replace(' ', "_")), ran.is_fine().stdout);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_cofill"))
        .args(["samplers"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take()); // as `| head -0` does
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}
