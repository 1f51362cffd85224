use crate::run::{run, run_with};
use serde_json::{Value, json};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_corpus_is_seeded_and_its_answers_are_right() {
    let corpus = run("mini corpus --task all -n 20 --seed 3 --split validation");
    let examples = lines(&corpus.is_fine().stdout);
    assert_eq!(examples.len(), 20);
    assert_eq!(run("mini corpus --task all -n 20 --seed 3 --split validation").stdout, corpus.stdout);
    // In turn, so the first five are one of each.
    let tasks: Vec<&str> = examples[..5].iter().map(|example| example["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["chain", "sums", "code", "sudoku", "predicates"]);

    let judged = run_with(&["mini", "check"], &corpus.stdout);
    assert!(lines(&judged.is_fine().stdout).iter().all(|line| line["right"] == true), "{judged}");
    assert!(judged.stderr.contains("20 of 20 right"), "{judged}");
}

#[test]
fn all_holds_the_same_examples_as_each_task_alone() {
    let all = lines(&run("mini corpus -n 15").stdout);
    let sums = lines(&run("mini corpus --task sums -n 3").stdout);
    // sums is the second of five.
    assert_eq!([&all[1], &all[6], &all[11]], [&sums[0], &sums[1], &sums[2]]);
}

#[test]
fn a_wrong_answer_is_told_why() {
    let asked = json!({"prompt": "Ana has 7 coins, buys 5. How many coins?", "answer": "#### 13"});
    let judged = run_with(&["mini", "check", "--task", "chain"], &asked.to_string());
    let line = json!({"task": "chain", "right": false, "why": "the result is 12, not 13"});
    assert_eq!(lines(&judged.is_fine().stdout), [line]);
    assert!(judged.stderr.contains("0 of 1 right"), "{judged}");
}

#[test]
fn what_cannot_be_judged_is_refused_with_its_line() {
    run("mini corpus --task gsm8k").is_refused(&["gsm8k", "`chain`", "`predicates`"]);
    let check = |stdin: &str| run_with(&["mini", "check"], stdin);
    check("{\"prompt\": \"x\", \"answer\": \"y\"}").is_refused(&["line 1", "--task"]);
    check("\n{\"prompt\": \"x\"}").is_refused(&["line 2", "answer"]);
    let foreign = json!({"task": "chain", "prompt": "What is 7+5?", "answer": "#### 12"});
    check(&foreign.to_string()).is_refused(&["line 1", "What is 7+5?", "no prompt of the task `chain`"]);
}
