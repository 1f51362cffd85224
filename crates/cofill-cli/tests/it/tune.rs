use crate::run::{COFILL, Ran, run, run_with, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is not there yet.
fn fresh(name: &str) -> PathBuf {
    let folder = scratch(&format!("tune-{name}"));
    let _ = std::fs::remove_dir_all(&folder); // of an earlier run
    folder
}

/// Five candidates and few prompts: what `tune` does, in a second.
const SMALL: &str = "tune --task code --budget 12 -s topk:{4,8} -s fast:{1,2} -s topk:1 --limit 8 --confirm 24";

/// The JSON without what differs from run to run.
fn timeless(ran: &Ran) -> Value {
    let mut json = ran.is_fine().json();
    without_times(&mut json);
    json
}

fn without_times(json: &mut Value) {
    match json {
        Value::Object(fields) => {
            fields.remove("seconds");
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

#[test]
fn a_better_sampler_is_found_and_kept() {
    let dir = fresh("found");
    let place = dir.display();
    let ran = run(&format!("{SMALL} --out {place}"));
    let lines: Vec<&str> = ran.is_fine().stdout.lines().collect();
    assert!(lines[0].starts_with("| Sampler"), "{ran}");
    // On code, Fast-dLLM's rule is right nine times of ten, and the default with any k within 12 forwards three times at most.
    let answer = lines[lines.len() - 2];
    assert!(answer.starts_with("best at <= 12 forwards on code: fast:1 "), "{ran}");
    assert!(answer.contains("the default within the budget topk:") && answer.ends_with("(24 prompts)"), "{ran}");
    assert_eq!(lines.last(), Some(&"cofill generate -m tiny-llada -s fast:1"));
    assert!(ran.stdout.contains("over budget"), "topk:1 takes 48 forwards: {ran}");
    assert!(ran.stderr.contains("rung 1 of 4: 5 candidates, 1 prompt\n"), "{ran}");
    for file in [
        "plan.json",
        "tune.md",
        "tune.html",
        "figures/tune.svg",
        "figures/tune.png",
        "choose/fast_1.jsonl",
        "confirm/fast_1.jsonl",
    ] {
        assert!(dir.join(file).is_file(), "{file}");
    }
    // The answers are results as `eval` writes them.
    let kept = std::fs::read_to_string(dir.join("confirm/fast_1.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 25);
    let header: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    assert_eq!((&header["what"]["split"], &header["what"]["corpus_seed"]), (&json!("test"), &json!(17)));
    run(&format!("report {place}/confirm")).is_fine();
    let json: Value = serde_json::from_slice(&std::fs::read(dir.join("tune.json")).unwrap()).unwrap();
    assert_eq!((&json["answer"], &json["verdict"]), (&json!(answer), &json!("better")));
    // Again: everything is there, and another search is refused.
    let again = run(&format!("{SMALL} --out {place}"));
    assert_eq!(again.is_fine().stdout, ran.stdout);
    run(&format!("{SMALL} --budget 8 --out {place}")).is_refused(&["--budget"]);
    run(&format!("tune --task code --budget 8 -s fast:1 --limit 8 --confirm 24 --out {place}")).is_refused(&[
        "holds another search",
        "budget",
        "--force",
    ]);
    let own = dir.join("choose/mine.txt");
    std::fs::write(&own, "mine").unwrap();
    run(&format!("tune --task code --budget 8 -s fast:1 --limit 8 --confirm 8 --out {place} --force")).is_fine();
    assert!(own.is_file() && !dir.join("choose/topk_4.jsonl").exists(), "what is not ours stays");
}

#[test]
fn an_interrupted_search_goes_on_to_the_same_end() {
    let (whole, torn) = (fresh("whole"), fresh("torn"));
    let of = |dir: &Path| run(&format!("{SMALL} --json --out {}", dir.display()));
    let expected = timeless(&of(&whole));
    of(&torn).is_fine();
    // As a kill would leave it: files missing, files short, a line torn.
    let file = torn.join("confirm/fast_1.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    std::fs::remove_file(torn.join("choose/fast_2.jsonl")).unwrap();
    std::fs::remove_file(torn.join("tune.json")).unwrap();
    assert_eq!(timeless(&of(&torn)), expected);
    // Neither jobs nor batches change anything.
    assert_eq!(timeless(&run(&format!("{SMALL} --json --jobs 2 --batch 3"))), {
        let mut expected = expected.clone();
        // A candidate that is over the budget is asked until that shows, by batches.
        let mut other = timeless(&run(&format!("{SMALL} --json --batch 3")));
        for json in [&mut expected, &mut other] {
            json.as_object_mut().unwrap().remove("candidates");
            json.as_object_mut().unwrap().remove("spent");
        }
        assert_eq!(other, expected);
        timeless(&run(&format!("{SMALL} --json --batch 3")))
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_is_answered_with_what_is_kept() {
    use std::io::{BufRead, BufReader, Read};
    let dir = fresh("interrupted");
    let mut child = Command::new(COFILL)
        .args(["tune", "--task", "sums", "--budget", "36", "--limit", "4096", "--confirm", "4096", "--out"])
        .arg(&dir)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(said.starts_with("rung 1 of 4"), "{said}");
    // Not SIGINT, which a shell has ignored for what it starts in the background.
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let ended = std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap());
    assert_eq!(ended, Some(15), "by SIGTERM: {rest}");
    assert!(
        rest.contains("interrupted: ") && rest.contains("; to go on: cofill tune --task sums --budget 36 "),
        "{rest}"
    );
}

#[test]
fn rows_of_ones_own_are_parted_by_a_seed() {
    let dir = fresh("rows");
    std::fs::create_dir_all(&dir).unwrap();
    let rows = dir.join("rows.jsonl");
    let row = |i: usize| json!({"template": format!("{i}+{i}=[MASK:1]"), "answer": (2 * i).to_string()});
    std::fs::write(&rows, (1..=20).map(|i| row(i).to_string() + "\n").collect::<String>()).unwrap();
    let tune = |more: &str| {
        run(&format!("tune --task infill --data {} --budget 4 -s topk:1 -s fast:1 --json {more}", rows.display()))
    };
    let json = timeless(&tune("--limit 8 --confirm 100"));
    // 20 rows for 8 + 100: shared in that proportion, but at least four of each.
    assert_eq!(json["prompts"]["choose"], json!("4 of 20 rows, drawn by seed 17"));
    assert_eq!(json["prompts"]["confirm"], json!("16 others of 20 rows, drawn by seed 17"));
    let out = dir.join("out");
    timeless(&tune(&format!("--limit 8 --confirm 12 --out {}", out.display())));
    let prompts = |part: &str, sampler: &str| -> Vec<String> {
        let text = std::fs::read_to_string(out.join(part).join(format!("{sampler}.jsonl"))).unwrap();
        let hash =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["prompt_sha256"].as_str().unwrap().to_owned();
        text.lines().skip(1).map(hash).collect()
    };
    let chosen = prompts("choose", "fast_1");
    assert_eq!((chosen.len(), &prompts("choose", "topk_1")), (8, &chosen), "all see the same prompts");
    let confirmed = std::fs::read_dir(out.join("confirm")).unwrap().next().unwrap().unwrap().path();
    let confirmed = prompts("confirm", confirmed.file_stem().unwrap().to_str().unwrap());
    assert!(confirmed.len() == 12 && !confirmed.iter().any(|prompt| chosen.contains(prompt)));
    std::fs::write(&rows, row(1).to_string()).unwrap();
    tune("").is_refused(&["infill has 1 prompts", "at least 8"]);
}

#[test]
fn validation_rows_of_a_task_file_choose() {
    let dir = fresh("validation");
    std::fs::create_dir_all(&dir).unwrap();
    let rows = |from: usize, to: usize| -> String {
        (from..to).map(|i| json!({"q": format!("Ana has {i} coins"), "answer": i}).to_string() + "\n").collect()
    };
    let task = dir.join("t.toml");
    let text = "rows = \"rows.jsonl\"\nvalidation = \"v.jsonl\"\nprompt = \"{q}. How many?\\n\"\nlength = 8\n[check]\nkind = \"number\"\n";
    std::fs::write(&task, text).unwrap();
    // Two of the six that choose stand in the other file, too: 10 - 2 = 8 are left to confirm.
    std::fs::write(dir.join("v.jsonl"), rows(0, 6)).unwrap();
    std::fs::write(dir.join("rows.jsonl"), rows(4, 14)).unwrap();
    let tune =
        |more: &str| run(&format!("tune --task {} --budget 8 -s topk:4 -s topk:8 --json {more}", task.display()));
    let out = dir.join("out");
    let json = timeless(&tune(&format!("--out {}", out.display())));
    assert_eq!(json["prompts"]["choose"], json!("6 of 6 validation rows, drawn by seed 17"));
    assert_eq!(json["prompts"]["confirm"], json!("8 of 10 test rows, drawn by seed 17"));
    let file = std::fs::read_to_string(out.join("choose/topk_4.jsonl")).unwrap();
    let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
    assert_eq!((&header["what"]["split"], &header["what"]["rows"]["of"]), (&json!("validation"), &json!(6)));
    std::fs::write(dir.join("rows.jsonl"), rows(3, 9)).unwrap();
    tune("").is_refused(&["t.toml", "3 test rows", "at least 4"]); // 6, 7 and 8: the others choose
}

#[test]
fn seconds_and_time_limits() {
    let ran = run("tune --task predicates --budget 100s -s fast:1 -s topk:1 --limit 8 --confirm 8 --json");
    let json = ran.is_fine().json();
    assert_eq!((&json["budget"], &json["default"]["role"]), (&json!({"seconds": 100.0}), &json!("default")));
    let late =
        timeless(&run("tune --task predicates --budget 12 -s fast:1 --limit 8 --confirm 8 --time 0.000001s --json"));
    assert_eq!((&late["verdict"], &late["cut_short"]), (&json!("unconfirmed"), &json!(true)));
    run("tune --task code --budget 2s --jobs 2 -s fast:1").is_refused(&["one answer at a time", "--jobs"]);
}

#[test]
fn wrong_requests_are_refused() {
    run("tune --task code").is_refused(&["--budget"]);
    run("tune --task code --budget 0").is_refused(&["`0` is no budget", "`2s`"]);
    run("tune --task code --budget 12 --time 10").is_refused(&["`10` is no time", "`10m`"]);
    run("tune --task riddles --budget 12").is_refused(&["riddles"]);
    run("tune --task code --budget 12 -s topk:0").is_refused(&["--sampler", "topk:K"]);
    run("tune --task code --budget 12 -s apd").is_refused(&["candidate `apd", "--companion"]);
    run("tune --task code --budget 12 --exclude nobody").is_refused(&["`nobody` excludes nobody", "`demask`"]);
    run("tune --task code --budget 12 -s fast:1 --exclude fast").is_refused(&["no candidate is left"]);
    run("tune --task code --budget 12 --samplers /nowhere").is_refused(&["--samplers", "/nowhere"]);
    run("tune --task code --budget 12 -m /nowhere").is_refused(&["/nowhere"]);
    run("tune --task gsm8k --budget 12").is_refused(&["gsm8k needs its data files", "--data"]);
    run("tune --task code --budget 12 -m toy").is_refused(&["toy"]);
    let file = fresh("file");
    std::fs::write(&file, "# nobody\n").unwrap();
    run_with(&["tune", "--task", "code", "--budget", "12", "--samplers", file.to_str().unwrap()], "")
        .is_refused(&["names no sampler"]);
}
