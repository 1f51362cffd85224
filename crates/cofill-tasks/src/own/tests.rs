use super::*;
use crate::judge::{Execute, Execution, External, Score};
use std::time::Duration;

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("cofill-own-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(path.join(name), text).unwrap());
        Folder(path)
    }

    fn open(&self, wanted: Wanted) -> Result<OwnTask, String> {
        OwnTask::open(&self.0.join("adds.toml"), wanted).map_err(|error| error.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

const TASK: &str = "rows = \"rows.jsonl\"\nprompt = \"{a}+{b}=\"\nlength = 4\n[check]\nkind = \"number\"\n";

/// Rows 0+0 to (n-1)+1.
fn rows(n: usize) -> String {
    (0..n).map(|i| format!("{}\n", json!({"a": i, "b": i % 2, "answer": i + i % 2}))).collect()
}

fn adds(name: &str, more: &str, n: usize) -> Folder {
    Folder::new(name, &[("adds.toml", &format!("{TASK}{more}")), ("rows.jsonl", &rows(n))])
}

#[test]
fn a_file_asks_and_judges() {
    let folder = adds("asks", "", 3);
    let task = folder.open(Wanted::default()).unwrap();
    assert_eq!((task.name(), task.docs(), task.length(), task.shots(), task.split()), ("adds", 3, 4, 0, "all"));
    assert_eq!(task.prompt(1), "1+1=");
    let scored = task.score(&[(1, "2"), (1, "3"), (2, "it is 2")], &Judges::default()).unwrap();
    assert_eq!(scored.iter().map(Scored::first).collect::<Vec<_>>(), [1.0, 0.0, 1.0]);
    assert_eq!(scored[1].notes, [("why", "it is `3`, not `2`".into())]);
    assert_eq!(task.place(2), "line 3 of `rows.jsonl`");
    // Neither the place nor the name of the files is part of what they are.
    assert_eq!(task.source(), json!([{"role": "rows", "rows": 3, "sha256": data::sha256(rows(3).as_bytes())}]));
    assert_eq!(task.sha256(), data::sha256(TASK.as_bytes()));
}

#[test]
fn splits_share_no_row_and_are_all_of_them() {
    let folder = adds("splits", "", 200);
    let prompts = |split| {
        let task = folder.open(Wanted { split, shots: None }).unwrap();
        (0..task.docs()).map(|doc| task.prompt(doc)).collect::<Vec<_>>()
    };
    let (all, test, validation) = (prompts(None), prompts(Some(Split::Test)), prompts(Some(Split::Validation)));
    assert_eq!(all.len(), 200);
    assert!(test.iter().all(|prompt| !validation.contains(prompt)));
    let mut both = [test.as_slice(), validation.as_slice()].concat();
    both.sort();
    assert_eq!(both, {
        let mut all = all;
        all.sort();
        all
    });
    // One in five, within what chance does: 40 ± 4 √(200 · 0.16) is 17 to 63.
    assert!((17..=63).contains(&validation.len()), "{}", validation.len());
    // Rows that are added or reordered move no other row.
    let more = adds("splits-more", "", 300);
    let later = more.open(Wanted { split: Some(Split::Validation), shots: None }).unwrap();
    let later: Vec<String> = (0..later.docs()).map(|doc| later.prompt(doc)).collect();
    assert_eq!(later[..validation.len()], validation);
    let train = folder.open(Wanted { split: Some(Split::Train), shots: None }).unwrap_err();
    assert!(train.contains("`adds` has no train rows"), "{train}");
    let few = adds("splits-few", "", 1);
    let lacking = [Split::Test, Split::Validation].map(|split| few.open(Wanted { split: Some(split), shots: None }));
    assert_eq!(lacking.iter().filter(|task| task.is_err()).count(), 1, "one row is in one split");
    assert!(lacking.into_iter().find_map(Result::err).unwrap().contains("name a file of them with `validation`"));
}

#[test]
fn a_validation_file_is_the_split() {
    let task = TASK.replace("length", "validation = \"v.jsonl\"\nlength");
    let folder = Folder::new("named", &[("adds.toml", &task), ("rows.jsonl", &rows(5)), ("v.jsonl", &rows(2))]);
    let docs = |split| folder.open(Wanted { split, shots: None }).unwrap().docs();
    assert_eq!((docs(None), docs(Some(Split::Test)), docs(Some(Split::Validation))), (5, 5, 2));
    let source = folder.open(Wanted { split: Some(Split::Validation), shots: None }).unwrap().source();
    assert_eq!((&source[1]["role"], &source[1]["rows"]), (&json!("validation"), &json!(2)));
}

#[test]
fn examples_come_first_and_no_question_is_its_own() {
    let folder =
        adds("shots", "[fewshot]\nrows = \"rows.jsonl\"\nshots = 2\nanswer = \"{answer}.\"\nseparator = \" | \"", 4);
    let task = folder.open(Wanted::default()).unwrap();
    assert_eq!(task.prompt(3), "0+0=0. | 1+1=2. | 3+1=");
    assert_eq!(task.prompt(1), "0+0=0. | 2+0=2. | 1+1=");
    let with = |shots| folder.open(Wanted { split: None, shots: Some(shots) });
    assert_eq!(with(0).unwrap().prompt(3), "3+1=");
    assert_eq!(with(3).unwrap().shots(), 3);
    assert!(with(5).unwrap_err().contains("`adds` has 4 few-shot rows, and 5 were asked for"));
    let none = adds("no-shots", "", 2);
    assert!(none.open(Wanted { split: None, shots: Some(1) }).unwrap_err().contains("add [fewshot]"));
    assert_eq!(none.open(Wanted { split: None, shots: Some(0) }).unwrap().shots(), 0);
}

#[test]
fn drawn_examples_are_a_questions_own() {
    let drawn = |seed: u64| {
        let more = format!("[fewshot]\nrows = \"rows.jsonl\"\nshots = 2\nchoose = \"seeded\"\nseed = {seed}");
        let folder = adds(&format!("drawn-{seed}"), &more, 40);
        let task = folder.open(Wanted::default()).unwrap();
        (0..40).map(|doc| task.prompt(doc)).collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let examples = |prompt: &String| prompt.rsplit_once("\n\n").unwrap().0.to_owned();
    let first = examples(&drawn(1)[0]);
    assert!(drawn(1).iter().any(|prompt| examples(prompt) != first), "all questions have the same examples");
}

#[test]
fn rows_are_checked_before_anything_is_asked() {
    let said = |task: &str, rows: &str| {
        Folder::new("checked", &[("adds.toml", task), ("rows.jsonl", rows)]).open(Wanted::default()).unwrap_err()
    };
    let missing = said(TASK, "{\"a\":1,\"b\":1,\"answer\":2}\n\n{\"a\":1,\"answer\":2}");
    assert!(missing.contains("line 3 of `rows.jsonl`: it has no field `b`; there are `a`, `answer`"), "{missing}");
    let gold = said(TASK, "{\"a\":1,\"b\":1,\"answer\":\"two\"}");
    assert!(gold.contains("line 1 of `rows.jsonl`: it has `two` for `answer`, which is no number"), "{gold}");
    let inline = TASK.replace("\"rows.jsonl\"", "[{ a = 1, b = 1, answer = 2 }, { a = 1 }]");
    let inline = said(&inline, "");
    assert!(
        inline.starts_with("row 2 in `") && inline.contains("no number") || inline.contains("no field"),
        "{inline}"
    );
    let shots = said(&format!("{TASK}[fewshot]\nrows = [{{ a = 1, b = 2 }}]"), &rows(2));
    assert!(shots.contains("row 1 in `") && shots.contains("no field `answer`"), "{shots}");
    let long = format!("{}\n", json!({"a": "x".repeat(900_000), "b": 1, "answer": 1}));
    let long = said(&TASK.replace("{a}+", "{a}{a}"), &long);
    assert!(long.contains("more than 1048576 bytes"), "{long}");
    let folder = Folder::new("files", &[("adds.toml", TASK)]);
    assert!(folder.open(Wanted::default()).unwrap_err().contains("rows.jsonl` cannot be read"));
    std::fs::write(folder.0.join("adds.toml"), b"rows = \"\xff\"").unwrap();
    assert!(folder.open(Wanted::default()).unwrap_err().contains("is not UTF-8 at byte 9"));
    std::fs::write(folder.0.join("adds.toml"), " ".repeat(2 << 20)).unwrap();
    assert!(folder.open(Wanted::default()).unwrap_err().contains("more than 1048576 bytes"));
}

#[test]
fn options_are_shown_and_held_to() {
    let task = "rows = \"rows.jsonl\"\nprompt = \"{q}\\n{_options}\\nAnswer: \"\nlength = 2\n[check]\nkind = \"choice\"\noptions = \"of\"\nby = \"letter\"\nconstrain = true\n";
    let row = |of: Value| json!({"q": "Which?", "of": of, "answer": 0}).to_string();
    let same = format!("{}\n{}\n", row(json!(["x", "y"])), row(json!(["y", "z"])));
    let folder = Folder::new("options", &[("adds.toml", task), ("rows.jsonl", &same)]);
    let open = folder.open(Wanted::default()).unwrap();
    assert_eq!(open.prompt(1), "Which?\nA. y\nB. z\nAnswer: ");
    assert_eq!(open.held_to(), Some(["A".to_owned(), "B".to_owned()].as_slice()));
    // As many letters for every row, or they cannot be one list.
    let other = format!("{}\n{}\n", row(json!(["x", "y"])), row(json!(["x", "y", "z"])));
    std::fs::write(folder.0.join("rows.jsonl"), other).unwrap();
    let said = folder.open(Wanted::default()).unwrap_err();
    assert!(said.contains("the options of line 2 of `rows.jsonl` are others"), "{said}");
}

/// Passes what contains `right`, and cannot run what contains `broken`.
struct Judge;

impl Execute for Judge {
    fn describe(&self) -> String {
        "a test".into()
    }
    fn run(&self, program: &str, _: Duration) -> Result<Execution, String> {
        let passed = program.contains("right");
        if program.contains("broken") {
            Err("no Python".into())
        } else {
            Ok(Execution { passed, result: "ran".into() })
        }
    }
    fn answer(&self, _: &str, _: Duration) -> Result<Option<String>, String> {
        Ok(None)
    }
}

impl External for Judge {
    fn scores(&self, answers: &[Value]) -> Vec<Result<Score, String>> {
        let one = |answer: &Value| match answer["answer"].as_str() {
            Some("broken") => Err("it died".into()),
            _ => Ok(Score { score: 0.25, why: Some(format!("{} {}", answer["prompt"], answer["row"]["a"])) }),
        };
        answers.iter().map(one).collect()
    }
}

#[test]
fn programs_and_commands_are_asked_and_may_break_down() {
    let judges = Judges { execute: Some(&Judge), external: Some(&Judge), ..Judges::default() };
    let task = TASK.replace("kind = \"number\"", "kind = \"python\"\nprogram = \"{_answer} {answer}\"");
    let folder = Folder::new("python", &[("adds.toml", &task), ("rows.jsonl", &rows(2))]);
    let open = folder.open(Wanted::default()).unwrap();
    let scored = open.score(&[(0, "right"), (1, "wrong"), (1, "broken")], &judges).unwrap();
    assert_eq!(scored.iter().map(Scored::first).collect::<Vec<_>>(), [1.0, 0.0, 0.0]);
    assert_eq!((scored[1].judge_failure(), scored[2].judge_failure()), (None, Some("no Python")));
    assert!(open.score(&[(0, "")], &Judges::default()).unwrap_err().to_string().contains("running programs"));
    let task = TASK.replace("kind = \"number\"", "kind = \"command\"\nargv = [\"judge\"]");
    std::fs::write(folder.0.join("adds.toml"), task).unwrap();
    let open = folder.open(Wanted::default()).unwrap();
    let scored = open.score(&[(1, "x"), (1, "broken")], &judges).unwrap();
    assert_eq!((scored[0].first(), &scored[0].notes[0].1), (0.25, &"\"1+1=\" 1".to_owned()));
    assert_eq!(scored[1].judge_failure(), Some("it died"));
    assert!(open.score(&[(0, "")], &Judges::default()).unwrap_err().to_string().contains("a command"));
}
