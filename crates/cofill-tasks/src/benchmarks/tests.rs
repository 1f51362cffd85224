//! Every benchmark on rows of our own.

use super::*;
use crate::judge::{Equivalence, Execute, Execution};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A folder with some rows for every task, gone when dropped.
struct Folder(PathBuf);

impl std::ops::Deref for Folder {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder() -> Folder {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("cofill-bench-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let write = |file: &File, rows: &[Value]| {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        std::fs::write(path.join(file.name), text).unwrap();
    };
    let number = |n: usize| json!({"question": format!("What is {n}?"), "answer": format!("It is {n}.\n#### {n}")});
    write(&data::GSM8K_TRAIN, &(100..130).map(number).collect::<Vec<_>>());
    write(&data::GSM8K_TEST, &(1..6).map(number).chain([number(107)]).collect::<Vec<_>>());
    write(
        &data::GSM8K_COT_SHOTS,
        &[json!({"question": "1?", "target": "The answer is 1."}), json!({"question": "2?", "target": "2"})],
    );
    let problem =
        |problem: &str, solution: &str| json!({"problem": problem, "solution": solution, "answer": "ignored"});
    write(&data::MATH500_TEST, &[problem("Add.", r"So $\boxed{1{,}000}$.")]);
    write(&data::MINERVA_SHOTS, &[problem("Shot.", "Done.")]);
    write(
        &data::HUMANEVAL_TEST,
        &[json!({"prompt": "def f():\n", "test": "\ndef check(f):\n    f()", "entry_point": "f"})],
    );
    let tests = ["assert a", "assert b", "assert c", "assert d"];
    write(&data::MBPP_TEST, &[json!({"text": "Do it.", "test_list": tests})]);
    write(&data::MBPP_SHOTS, &[json!({"text": "Shot.", "test_list": tests, "code": "a = 1\r\n"})]);
    Folder(path)
}

fn prompts(task: Benchmark, shots: Option<usize>, ranks: usize) -> Vec<String> {
    let path = folder();
    let loaded = task.load(&path).unwrap();
    let prompts = loaded.prompts(Variant { shots, ranks: NonZeroUsize::new(ranks).unwrap() }).unwrap();
    (0..loaded.docs()).map(|doc| prompts.prompt(doc).unwrap()).collect()
}

#[test]
fn prompts_of_fixed_examples() {
    let check = |task, shots, prompt: &str| assert_eq!(prompts(task, Some(shots), 1)[0], prompt);
    check(Benchmark::Gsm8kCot, 2, "Q: 1?\nA: The answer is 1.\n\nQ: 2?\nA: 2\n\nQ: What is 1?\nA:");
    check(Benchmark::Gsm8kCot, 0, "Q: What is 1?\nA:");
    check(Benchmark::Math500, 1, "Problem:\nShot.\n\nSolution: Done.\n\nProblem:\nAdd.\n\nSolution:");
    check(Benchmark::Humaneval, 0, "def f():\n");
    // The harness ignores shots for a task that has none.
    check(Benchmark::Humaneval, 7, "def f():\n");
    let task = "You are an expert Python programmer, and here is your task:";
    let tests = "Your code should pass these tests:\n\nassert a\nassert b\nassert c\n[BEGIN]\n";
    check(Benchmark::Mbpp, 1, &format!("{task} Shot. {tests}a = 1\r\n\n[DONE]\n\n{task} Do it. {tests}"));
}

#[test]
fn every_question_gets_its_own_draw_and_ranks_share_them() {
    let one = prompts(Benchmark::Gsm8k, Some(3), 1);
    // `random.Random(1234).sample(range(30), 3)`, twice, in CPython.
    let shot = |n: usize| format!("Question: What is {n}?\nAnswer: It is {n}.\n#### {n}\n\n");
    let expected =
        |draw: [usize; 3], n: usize| draw.map(|i| shot(100 + i)).concat() + &format!("Question: What is {n}?\nAnswer:");
    assert_eq!(one[0], expected([24, 14, 3], 1));
    assert_eq!(one[1], expected([0, 2, 29], 2));
    let two = prompts(Benchmark::Gsm8k, Some(3), 2);
    assert_eq!([&two[0], &two[1], &two[2]], [&one[0], &expected([24, 14, 3], 2), &expected([0, 2, 29], 3)]);
    // All thirty are drawn, and the last question is one of them: it is left out.
    let all = prompts(Benchmark::Gsm8k, Some(30), 1);
    assert_eq!(all[0].matches("####").count(), 30);
    assert_eq!((all[5].matches("####").count(), all[5].matches("What is 107?").count()), (29, 1));
}

#[test]
fn what_is_not_there_is_refused() {
    let path = folder();
    let cot = Benchmark::Gsm8kCot.load(&path).unwrap();
    let too_many = cot.prompts(Variant::default()).err().unwrap().to_string();
    assert!(too_many.contains("gsm8k_cot has 2 few-shot examples, and 8 were asked for"), "{too_many}");
    let prompts = cot.prompts(Variant { shots: Some(1), ..Variant::default() }).unwrap();
    assert_eq!(prompts.prompt(6).unwrap_err().to_string(), "gsm8k_cot has no doc_id 6; they go from 0 to 5");
    assert!(cot.score_raw(6, "", &Judges::default()).is_err());
    for task in [Benchmark::Math500, Benchmark::Humaneval, Benchmark::Mbpp] {
        let loaded = task.load(&path).unwrap();
        assert!(matches!(loaded.score_raw(0, "", &Judges::default()), Err(Error::NoJudge { .. })), "{task}");
        // These are not the files that everybody uses.
        assert_eq!(loaded.warnings().len(), task.files().len());
    }
    assert!("gsm".parse::<Benchmark>().unwrap_err().to_string().contains("`gsm8k_cot`, `math500`"));
    assert_eq!("minerva_math500".parse::<Benchmark>().unwrap(), Benchmark::Math500);
    let bad = |file: &File, row: &str| std::fs::write(path.join(file.name), row).unwrap();
    let refusal = |task: Benchmark| task.load(&path).err().unwrap().to_string();
    bad(&data::MATH500_TEST, "\n{\"problem\": \"a\", \"solution\": \"\\\\fbox{1}\"}");
    assert!(refusal(Benchmark::Math500).starts_with("line 2 of `math500_test.jsonl`: no gold answer"));
    bad(&data::MBPP_SHOTS, "{\"text\": \"a\", \"code\": \"\", \"test_list\": [\"assert 1\"]}");
    assert_eq!(
        refusal(Benchmark::Mbpp),
        "line 1 of `mbpp_fewshot3.jsonl`: `test_list` has 1 tests; the prompt shows 3"
    );
}

/// Text is a formula, and says what it was asked.
struct SameText;

impl Equivalence for SameText {
    fn name(&self) -> String {
        "same text".into()
    }
    fn is_equiv(&self, given: &str, gold: &str) -> Result<bool, String> {
        if given == "?" { Err("no idea".into()) } else { Ok(given == gold) }
    }
}

/// Remembers programs. All that mention `right` pass; sanitising gives the code `kept`.
#[derive(Default)]
struct Notebook(RefCell<Vec<String>>);

impl Execute for Notebook {
    fn describe(&self) -> String {
        "a notebook".into()
    }
    fn run(&self, program: &str, _: Duration) -> Result<Execution, String> {
        self.0.borrow_mut().push(program.into());
        let result = match program {
            program if program.contains("unwell") => return Err("not today".into()),
            program if program.contains("right") => "passed",
            _ => "failed: no",
        };
        Ok(Execution { passed: result == "passed", result: result.into() })
    }
    fn answer(&self, program: &str, _: Duration) -> Result<Option<String>, String> {
        self.0.borrow_mut().push(program.into());
        Ok(Some("kept\n".into()))
    }
}

#[test]
fn numbers_are_read_in_two_ways() {
    let path = folder();
    let scored = |task: Benchmark, raw| task.load(&path).unwrap().score_raw(0, raw, &Judges::default()).unwrap();
    let metrics = |scored: &Scored| {
        ["strict-match", "flexible-extract"].map(|filter| scored.metric(filter, "exact_match").unwrap())
    };
    assert_eq!(metrics(&scored(Benchmark::Gsm8k, "#### 1")), [1.0, 1.0]);
    assert_eq!(metrics(&scored(Benchmark::Gsm8k, "so 1\n\nQuestion: #### 2")), [0.0, 1.0]);
    assert_eq!(metrics(&scored(Benchmark::Gsm8kCot, "The answer is 1. So 2")), [1.0, 0.0]);
    let empty = scored(Benchmark::Gsm8kCot, "");
    assert_eq!(empty.filters[0].filtered, Filtered::One("[invalid]".into()));
}

#[test]
fn formulas_go_to_their_judge_normalised() {
    let path = folder();
    let judges = Judges { equivalence: Some(&SameText), ..Judges::default() };
    let math = Benchmark::Math500.load(&path).unwrap();
    assert_eq!(math.target(0).unwrap(), "1000");
    let score = |answer: &str| {
        let raw = format!("Final Answer: The final answer is {answer}. I hope it is correct.\n\nProblem:\nmore");
        math.score_raw(0, &raw, &judges)
    };
    let right = score("$1,000$").unwrap();
    assert_eq!(right.metric("none", "exact_match"), Some(1.0));
    let notes = [("extracted", "$1,000$"), ("pred_normalized", "1000"), ("gold_normalized", "1000")];
    assert_eq!(right.notes, notes.map(|(name, note)| (name, note.to_owned())));
    let Filtered::One(response) = &right.filters[0].filtered else { panic!("{right:?}") };
    assert!(response.ends_with("correct.\n\n"), "the whole response, up to the stop string: {response}");
    assert_eq!(score("$1001$").unwrap().metric("none", "exact_match"), Some(0.0));
    let unjudged = score("?").unwrap();
    assert_eq!((unjudged.metric("none", "exact_match"), unjudged.judge_failure()), (Some(0.0), Some("no idea")));
    assert_eq!(right.judge_failure(), None);
}

#[test]
fn programs_are_code_and_tests() {
    let (path, notebook) = (folder(), Notebook::default());
    let judges = Judges { execute: Some(&notebook), ..Judges::default() };
    let run = |task: Benchmark, raw| {
        notebook.0.borrow_mut().clear();
        let scored = task.load(&path).unwrap().score_raw(0, raw, &judges).unwrap();
        (scored, notebook.0.borrow().clone())
    };
    let (scored, programs) = run(Benchmark::Mbpp, "right\r\n[DONE] more");
    assert_eq!(programs, ["right\r\n\nassert a\nassert b\nassert c"]);
    assert_eq!(scored.metric("none", "pass_at_1"), Some(1.0));
    assert_eq!(scored.notes, [("exec_result", "passed".to_owned())]);

    let (scored, programs) = run(Benchmark::Humaneval, "    right\n# cut\n```python\ndef f(): pass\n```\n```python\n");
    let tests = "\ndef check(f):\n    f()\ncheck(f)";
    assert_eq!([&programs[0], &programs[2]], [&format!("def f():\n    right\n{tests}"), &format!("kept\n\n{tests}")]);
    let call = "\nanswer = sanitised(\"def f():\\n\\ndef f(): pass\\n\", \"f\")\n";
    assert!(programs[1].ends_with(call), "{}", programs[1]);
    assert_eq!(scored.filters[0].filtered, Filtered::Each(vec!["def f():\n    right".into()]));
    assert_eq!(scored.filters[1].filtered, Filtered::One("kept\n".into()));
    let metric = |filter| scored.metric(filter, "pass@1");
    assert_eq!((metric("create_test"), metric("dream_sanitized")), (Some(1.0), Some(0.0)));

    // A judge that breaks down on one program still scores the others, and this one counts as wrong.
    let (scored, programs) = run(Benchmark::Humaneval, "    unwell");
    assert_eq!((programs.len(), scored.judge_failure()), (3, Some("not today")));
    assert_eq!(scored.metric("create_test", "pass@1"), Some(0.0));
    assert_eq!(scored.notes[0], ("exec_result", "failed to judge: not today".to_owned()));
}
