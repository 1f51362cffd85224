use super::super::file::FileText;
use super::*;
use serde_json::json;

fn checker(lines: &str) -> Checker {
    FileText::parse(&format!("rows = \"r\"\nprompt = \"\"\nlength = 1\n[check]\n{lines}")).unwrap().checker
}

fn row(row: Value) -> Fields {
    let Value::Object(row) = row else { panic!("no row") };
    row
}

/// What is read of an answer, and whether it is right.
fn check(lines: &str, fields: Value, answer: &str) -> (String, bool) {
    let (checker, row) = (checker(lines), row(fields));
    checker.problem(&row).unwrap();
    let found = checker.check(&row, answer).unwrap().unwrap();
    (found.read, found.wrong.is_none())
}

#[test]
fn exact_compares_texts() {
    let is = |lines: &str, gold: Value, answer: &str| {
        check(&format!("kind = \"exact\"\n{lines}"), json!({"answer": gold}), answer).1
    };
    assert!(is("", json!("Paris"), " Paris\n") && !is("", json!("Paris"), "paris"));
    assert!(is("ignore_case = true", json!("ÉTÉ"), "été") && !is("trim = false", json!("a"), "a "));
    // Any of several, and numbers as they are written.
    assert!(is("", json!(["a", "b"]), "b") && !is("", json!(["a", "b"]), "a b"));
    assert!(is("", json!(7), "7") && !is("", json!(7), "7.0") && is("", json!(true), "true"));
    let why = checker("kind = \"exact\"").check(&row(json!({"answer": ["a", "b"]})), "c\n").unwrap().unwrap().wrong;
    assert_eq!(why.as_deref(), Some("it is `c`, not `a` or `b`"));
}

#[test]
fn number_takes_the_last_one() {
    let is = |lines: &str, gold: Value, answer: &str| {
        check(&format!("kind = \"number\"\n{lines}"), json!({"answer": gold}), answer)
    };
    assert_eq!(is("", json!(12), "7+5=12 #### 12."), ("12".into(), true));
    assert_eq!(is("take = \"first\"", json!(12), "7+5=12"), ("7".into(), false));
    assert_eq!(is("", json!("1,250"), "$1250.00"), ("1250.00".into(), true));
    assert_eq!(is("", json!(1), "none"), (String::new(), false));
    assert!(is("tolerance = 0.01", json!(2.66667), "2.67").1 && !is("", json!(2.66667), "2.67").1);
    assert!(is("relative = 0.1", json!(100), "91").1 && !is("relative = 0.1", json!(100), "89").1);
    assert!(is("", json!([1, 2]), "2").1);
}

#[test]
fn regex_finds_and_compares() {
    let is = |lines: &str, gold: Value, answer: &str| {
        check(&format!("kind = \"regex\"\n{lines}"), json!({"answer": gold}), answer)
    };
    assert_eq!(is("pattern = '#### (.*)'", json!("x"), "a\n#### x \n#### y"), ("x".into(), true));
    assert_eq!(is("pattern = '#### (.*)'\ntake = \"last\"", json!("x"), "#### x\n#### y"), ("y".into(), false));
    assert_eq!(is("pattern = '#### (.*)'", json!("x"), "x"), (String::new(), false));
    assert_eq!(is("pattern = '(?<n>\\d+) (\\w+)'\ngroup = \"n\"", json!(7), "7 coins").0, "7");
    assert!(is("pattern = '= ([\\d,.]+)'\ncompare = \"number\"", json!(1000), "= 1,000.0").1);
    // Without a gold at all.
    let matched = "kind = \"regex\"\npattern = '^a+$'\ncompare = \"match\"";
    assert_eq!((check(matched, json!({}), "aaa").1, check(matched, json!({}), "aab").1), (true, false));
    // A group that took no part.
    assert_eq!(is("pattern = 'a|(b)'", json!("b"), "a"), (String::new(), false));
}

#[test]
fn choice_by_letter_and_by_text() {
    let by = |by: &str, gold: Value, answer: &str| {
        let lines = format!("kind = \"choice\"\noptions = [\"red\", \"green\", \"blue\"]\nby = \"{by}\"");
        check(&lines, json!({"answer": gold}), answer)
    };
    for answer in ["B", "b", " (B)", "B.", "B) green", "**B**", "\"B\"", "B: it is"] {
        assert_eq!(by("letter", json!("green"), answer), ("B".into(), true), "{answer}");
    }
    for answer in ["Blue", "The answer is B", "", "C", "1", "É", "Z"] {
        assert!(!by("letter", json!("B"), answer).1, "{answer}");
    }
    // The right one by text, letter or number from 0.
    for gold in [json!("green"), json!("GREEN"), json!("B"), json!("b"), json!(1)] {
        assert!(by("text", gold.clone(), " Green.\n").1, "{gold}");
        assert!(!by("text", gold, "red").1);
    }
    assert!(!by("text", json!("green"), "greenish").1);
    let choice = checker("kind = \"choice\"\noptions = \"of\"");
    let problem = |fields: Value| choice.problem(&row(fields)).unwrap_err();
    assert!(problem(json!({"of": ["a", "b"], "answer": "c"})).contains("which is none of its options"));
    assert!(problem(json!({"of": ["a", "b"], "answer": 2})).contains("which is none of its options"));
    assert!(problem(json!({"of": "ab", "answer": "a"})).contains("has a text for `of`, but options are a list"));
    assert!(problem(json!({"of": ["a"], "answer": "a"})).contains("has 1 options"));
    assert!(problem(json!({"of": ["a", ["b"]], "answer": "a"})).contains("a list for `of`"));
    assert!(problem(json!({"answer": "a"})).contains("no field `of`"));
}

#[test]
fn options_whose_texts_are_letters_or_numbers_mean_themselves() {
    let lines = "kind = \"choice\"\noptions = [\"3\", \"0\"]";
    // 0 is the second option, not the number of the first.
    assert!(check(lines, json!({"answer": 0}), "0").1 && !check(lines, json!({"answer": 0}), "3").1);
    let lines = "kind = \"choice\"\noptions = [\"B\", \"A\"]";
    assert!(check(lines, json!({"answer": "A"}), "A").1);
}

#[test]
fn a_program_holds_the_answer_as_it_is() {
    let Checker::Python(python) =
        checker("kind = \"python\"\nprogram = \"{_answer}\\nassert f({x}) == {{}}.get('a', {answer})\"\ntimeout = 1.5")
    else {
        panic!("another checker")
    };
    assert_eq!(python.timeout, Duration::from_millis(1500));
    let program = python.program(&row(json!({"x": 3, "answer": 4})), "", "def f(x): return {x}").unwrap();
    assert_eq!(program, "def f(x): return {x}\nassert f(3) == {}.get('a', 4)");
}

#[test]
fn rows_that_could_never_be_judged() {
    let problem = |lines: &str, fields: Value| checker(lines).problem(&row(fields)).unwrap_err();
    assert!(
        problem("kind = \"exact\"", json!({"anwser": "x"}))
            .contains("no field `answer` (did you mean `anwser`?); there is `anwser`")
    );
    assert!(problem("kind = \"exact\"", json!({"answer": []})).contains("an empty list for `answer`"));
    assert!(problem("kind = \"exact\"", json!({"answer": null})).contains("null for `answer`"));
    assert!(problem("kind = \"exact\"", json!({"answer": {"a": 1}})).contains("an object for `answer`"));
    assert!(
        problem("kind = \"number\"", json!({"answer": "twelve"})).contains("`twelve` for `answer`, which is no number")
    );
    assert!(
        problem("kind = \"python\"\nprogram = \"{_answer}{test}\"", json!({}))
            .contains("no field `test`; there are none")
    );
}
