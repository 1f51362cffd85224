use super::*;

/// A file with everything that must be there, `check` as its checker and more lines at its beginning.
fn with(lines: &str, check: &str) -> String {
    format!("rows = \"rows.jsonl\"\nprompt = \"{{q}}\"\nlength = 8\n{lines}\n[check]\n{check}\n")
}

fn said(text: &str) -> String {
    FileText::parse(text).unwrap_err().to_string()
}

#[test]
fn defaults_of_a_short_file() {
    let file = FileText::parse(&with("", "kind = \"exact\"")).unwrap();
    assert_eq!((file.length, file.stop.len(), file.about.as_str()), (8, 0, ""));
    assert!(file.fewshot.is_none() && file.validation.is_none());
    let Checker::Exact(exact) = file.checker else { panic!("another checker") };
    assert_eq!((exact.gold.to_string().as_str(), exact.trim, exact.ignore_case), ("answer", true, false));
}

#[test]
fn every_key_is_read() {
    let text = with(
        "about = \"x\"\nvalidation = \"v.jsonl\"\nstop = [\"\\n\"]",
        "kind = \"choice\"\noptions = [\"yes\", \"no\"]\nby = \"letter\"\ngold = \"a.b\"\nconstrain = true\n\
         [fewshot]\nrows = [{ q = \"1\", answer = 2 }]\nshots = 1\nchoose = \"seeded\"\nseed = 7\nanswer = \"{answer}!\"\nseparator = \"--\"",
    );
    let file = FileText::parse(&text).unwrap();
    let fewshot = file.fewshot.unwrap();
    assert_eq!((fewshot.shots, fewshot.seed, fewshot.separator.as_str()), (Some(1), Some(7), "--"));
    assert!(matches!(fewshot.rows, RowsText::Inline(rows) if rows[0]["answer"] == 2));
    let Checker::Choice(choice) = file.checker else { panic!("another checker") };
    assert_eq!((choice.by, choice.constrain), (By::Letter, true));
}

#[test]
fn every_way_a_file_can_be_wrong() {
    let exact = "kind = \"exact\"";
    let cases = [
        (with("promt = \"x\"", exact), "line 4, `promt = \"x\"`: unknown key `promt`; did you mean `prompt`?"),
        (
            with("name = \"x\"", exact),
            "line 4, `name = \"x\"`: unknown key `name`; a task is called what its file is called",
        ),
        (with("stop = [\"\"]", exact), "line 4, `stop = [\"\"]`: `stop` has an empty text"),
        (with("stop = \"x\"", exact), "line 4, `stop = \"x\"`: invalid type: string \"x\", expected a sequence"),
        (with("length = 9", exact), "line 4, `length = 9`: duplicate key"),
        (with("", exact).replace("= 8", "= 0"), "line 3, `length = 0`: `length` must be from 1 to 65536"),
        (with("", exact).replace("= 8", "= -3"), "line 3, `length = -3`: `length` must be from 1 to 65536"),
        (with("", exact).replace("{q}", "{q"), "line 2, `prompt = \"{q\"`: `{` opens a field"),
        (with("", exact).replace("{q}", "{_options}"), "`{_options}` are those of [check] with kind = \"choice\""),
        (
            with("", exact).replace("\"rows.jsonl\"", "7"),
            "line 1, `rows = 7`: expected the name of a file of rows, or a list",
        ),
        (
            with("", exact).replace("\"rows.jsonl\"", "rows.jsonl"),
            "line 1, `rows = rows.jsonl`: `rows.jsonl` is a text",
        ),
        (with("", exact).replace("\"rows.jsonl\"", "[]"), "`rows` is empty"),
        (with("", exact).replace("\"rows.jsonl\"", "[{ a = 1979-05-27 }]"), "a date without quotes"),
        (with("", exact).replace("rows = \"rows.jsonl\"", ""), "the file has no `rows`; add rows = \"rows.jsonl\""),
        (with("check = 3", "").replace("[check]", ""), "line 4, `check = 3`: expected a table; write [check]"),
        (with("", "gold = \"x\""), "line 5, `[check]`: [check] has no `kind`; add one of `exact`, `number`"),
        (
            with("", "kind = \"numbr\""),
            "`kind` is `numbr`, but must be one of `exact`, `number`, `regex`, `choice`, `python`, `command`; did you mean `number`?",
        ),
        (with("", "kind = 7"), "line 6, `kind = 7`: `kind` is a text"),
        (
            with("", "kind = \"exact\"\ntake = \"last\""),
            "line 7, `take = \"last\"`: a checker of kind \"exact\": unknown key `take`",
        ),
        (with("", "kind = \"exact\"\ngold = \"{answer}\""), "`gold` is a field, not a template; write \"answer\""),
        (
            with("", "kind = \"number\"\ntake = \"lst\""),
            "`take` is `lst`, but must be one of `first`, `last`; did you mean `last`?",
        ),
        (with("", "kind = \"number\"\ntolerance = -1"), "line 7, `tolerance = -1`: `tolerance` is -1, but must be"),
        (with("", "kind = \"number\"\nrelative = inf"), "`relative` is inf, but must be"),
        (with("", "kind = \"regex\""), "line 5, `[check]`: a checker of kind \"regex\" needs `pattern`"),
        (
            with("", "kind = \"regex\"\npattern = '(a'"),
            "line 7, `pattern = '(a'`: `pattern` is no expression: unclosed group",
        ),
        (with("", "kind = \"regex\"\npattern = 'a{1000}{1000}{1000}'"), "`pattern` is no expression: "),
        (with("", "kind = \"regex\"\npattern = '(a)'\ngroup = 2"), "line 8, `group = 2`: `pattern` has 1 groups"),
        (
            with("", "kind = \"regex\"\npattern = 'a'\ncompare = \"match\"\ngold = \"x\""),
            "`gold` says nothing with compare = \"match\"",
        ),
        (
            with("", "kind = \"regex\"\npattern = 'a'\ntolerance = 1"),
            "`tolerance` says nothing with compare = \"text\"",
        ),
        (with("", "kind = \"choice\""), "needs `options`; add options = [\"yes\", \"no\"]"),
        (
            with("", "kind = \"choice\"\noptions = [\"a\"]"),
            "line 7, `options = [\"a\"]`: the list has 1 options, but there must be 2 to 26",
        ),
        (with("", "kind = \"choice\"\noptions = [\"a\", \" A\"]"), "the list has the option ` A` twice"),
        (with("", "kind = \"python\""), "needs `program`"),
        (with("", "kind = \"python\"\nprogram = \"{test}\""), "`program` has no `{_answer}`"),
        (with("", "kind = \"python\"\nprogram = \"{_answer}\"\ntimeout = 0"), "`timeout` is 0, but must be above 0"),
        (with("", "kind = \"command\""), "needs `argv`; add argv = [\"python3\", \"check.py\"]"),
        (with("", "kind = \"command\"\nargv = []"), "line 7, `argv = []`: `argv` is empty"),
        (with("", "kind = \"command\"\nargv = [\"a\\u0000\"]"), "`argv` has a NUL"),
        (
            with("", "kind = \"command\"\nargv = \"python3 check.py\""),
            "line 7, `argv = \"python3 check.py\"`: invalid type",
        ),
        (with("", "kind = \"exact\"\n[fewshot]\nshots = 2"), "missing key `rows`"),
        (
            with("", "kind = \"exact\"\n[fewshot]\nrows = \"x\"\nchose = \"first\""),
            "unknown key `chose`; did you mean `choose`?",
        ),
        (
            with("", "kind = \"exact\"\n[fewshot]\nrows = \"x\"\nchoose = \"random\""),
            "`choose` is `random`, but must be one of `first`, `seeded`",
        ),
        (with("", "kind = \"exact\"\n[fewshot]\nrows = \"x\"\nseed = 3"), "`seed` is for choose = \"seeded\""),
        ("rows = [".into(), "line 1, `rows = [`: "),
    ];
    for (text, expected) in cases {
        let said = said(&text);
        assert!(said.contains(expected), "{text}\n{said}\ninstead of\n{expected}");
        assert!(!said.contains('\n'), "{said}");
    }
}
