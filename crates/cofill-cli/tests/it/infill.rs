use crate::run::{COFILL, Ran, run_with, scratch};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn infill(args: &[&str], stdin: &str) -> Ran {
    run_with(&[&["infill"], args].concat(), stdin)
}

fn file(name: &str, text: impl AsRef<[u8]>) -> (PathBuf, String) {
    let path = scratch(name);
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    (path, name)
}

/// Files beside `path` that an interrupted run would have left.
fn parts(path: &Path) -> usize {
    let stem = path.file_name().unwrap().to_str().unwrap();
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&format!("{stem}.")))
        .count()
}

const PREDICATES: &str = "Fill the gaps:\n[MASK:1]*4*[MASK:1]=24\n[MASK:1]+6+[MASK:1]=13\n4*2*[MASK:1]=8\n";

#[test]
fn a_file_is_filled_as_a_template_is() {
    let (_, name) = file("predicates.txt", PREDICATES);
    let template = run_with(&["generate", "--template", PREDICATES, "-s", "topk:1", "--json"], "").is_fine().json();
    let ran = infill(&[&name, "-s", "topk:1", "--json"], "");
    let filled = ran.is_fine().json();
    assert_eq!(
        (&filled["text"], &filled["answers"], &filled["nfe"]),
        (&template["text"], &template["answers"], &template["nfe"])
    );
    assert_eq!(
        (&filled["task"], &filled["right"], &filled["windows"]),
        (&json!("predicates"), &json!(true), &json!(1))
    );
    let lines: Vec<u64> = filled["gaps"].as_array().unwrap().iter().map(|gap| gap["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [2, 2, 3, 3, 4]);
    // stdin, and without the line break at the end: the same question, and the text as it was.
    let bare = PREDICATES.trim_end();
    let ran = infill(&["-", "-s", "topk:1"], bare);
    assert_eq!(ran.is_fine().stdout, filled["text"].as_str().unwrap().trim_end());
    assert!(ran.stderr.ends_with("predicates: right\n"), "{ran}");
    assert!(!infill(&["-", "-q"], PREDICATES).is_fine().stdout.is_empty());
    assert_eq!(infill(&["-", "-q"], PREDICATES).stderr, "");
}

#[test]
fn the_answers_alone() {
    let one = "Fill the gaps:\n4*2*[MASK:1]=8\n";
    assert_eq!(infill(&["-", "--answer-only", "-q"], one).is_fine().stdout, "1\n");
    let several = infill(&["-", "--answer-only", "-s", "topk:1"], PREDICATES).is_fine().stdout.clone();
    let several: Vec<String> = several.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(several.len(), 5);
    infill(&["-", "--answer-only", "--json"], one).is_refused(&["cannot be used with"]);
}

#[test]
fn in_place_replaces_the_file_and_keeps_who_may_read_it() {
    let (path, name) = file("place.txt", "\u{feff}Ada [MASK:1]\r\nlikes [MASK:2] today");
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let ran = infill(&[&name, "-m", "toy", "--in-place", "-s", "topk:1"], "");
    assert_eq!(ran.is_fine().stdout, "");
    assert!(ran.stderr.contains("filled 2 gaps in"), "{ran}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "\u{feff}Ada Lovelace\r\nlikes San Diego today");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o777, 0o640);
    assert_eq!(parts(&path), 0);
    // Nothing left to fill: refused, and the file is as it was.
    let before = std::fs::read(&path).unwrap();
    infill(&[&name, "-m", "toy", "--in-place"], "").is_refused(&["has no gap", "--marker"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn a_link_stays_one_and_what_may_not_be_written_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let (path, name) = file("linked.txt", "Ada [MASK:1]");
    let link = scratch("link.txt");
    std::fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    infill(&[link.to_str().unwrap(), "-m", "toy", "-i"], "").is_fine();
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "Ada Lovelace");
    std::fs::write(&path, "Ada [MASK:1]").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    infill(&[&name, "-m", "toy", "-i"], "").is_refused(&["--in-place", "may not be written"]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    infill(&["-", "-m", "toy", "-i"], "Ada [MASK:1]").is_refused(&["--in-place needs a file"]);
}

#[cfg(unix)]
#[test]
fn a_run_that_is_ended_leaves_the_file_as_it_was() {
    let text = format!("{}\n", "x [MASK:40]".repeat(30));
    let (path, name) = file("ended.txt", &text);
    // A pause after every step: it would take half an hour.
    let mut child = std::process::Command::new(COFILL)
        .args(["infill", &name, "-i", "--show", "--delay", "2s", "-s", "topk:1"])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap());
    while !first.starts_with("step") {
        first.clear();
        std::io::BufRead::read_line(&mut lines, &mut first).unwrap();
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!((std::fs::read_to_string(&path).unwrap(), parts(&path)), (text, 0));
}

#[test]
fn windows_see_as_much_as_they_are_told_and_no_more() {
    let text =
        "Ada [MASK:1] likes San Diego today Alan [MASK:1] visited New York often Grace [MASK:1] likes [MASK:2] again";
    let gaps = |context: &str| {
        infill(&["-", "-m", "toy", "-s", "topk:1", "--context", context, "--json"], text).is_fine().json()
    };
    let sides = |json: &Value| -> Vec<(u64, u64)> {
        let gaps = json["gaps"].as_array().unwrap();
        gaps.iter().map(|gap| (gap["left"].as_u64().unwrap(), gap["right"].as_u64().unwrap())).collect()
    };
    // "Ada" and "likes San Diego today Alan": 1 and 5 tokens; then 2 of 7 before and 2 of 5 behind; the last two see each other.
    let near = gaps("2");
    assert_eq!(sides(&near), [(1, 2), (2, 2), (2, 1), (2, 1)]);
    assert_eq!(near["windows"], 3);
    assert!(near["text"].as_str().unwrap().starts_with("Ada Lovelace likes"), "{near}");
    let all = infill(&["-", "-m", "toy", "-s", "topk:1", "--json"], text).is_fine().json();
    assert_eq!((&all["windows"], sides(&all)[0]), (&json!(1), (1, 1)));
    let none = gaps("0");
    assert_eq!(sides(&none), [(0, 0); 4]);
    assert_eq!(none["windows"], 4);
}

#[test]
fn a_file_that_the_model_cannot_hold_is_filled_in_windows_with_a_word_of_warning() {
    let line = "Alan Turing visited San Diego again\n";
    let text = format!("{}Ada [MASK:1]\n{}", line.repeat(1500), line.repeat(1500));
    let ran = infill(&["-", "-m", "toy", "--json"], &text);
    let filled = ran.is_fine().json();
    // 8192 positions less a mask, shared evenly: 9001 tokens are on the left, 9000 on the right.
    let gap = &filled["gaps"][0];
    assert_eq!((&gap["left"], &gap["right"]), (&json!(4095), &json!(4096)));
    assert!(ran.stderr.contains("has 18001 tokens and `toy` holds 8192: 1 gap saw only a part"), "{}", ran.stderr);
    let answer = filled["answers"][0].as_str().unwrap();
    assert!(filled["text"] == text.replace("[MASK:1]", answer), "everything else is as it was");
    let asked = infill(&["-", "-m", "toy", "--context", "8"], &text);
    assert!(!asked.is_fine().stderr.contains("saw only a part"), "who asks for less is not warned: {}", asked.stderr);
    infill(&["-", "-m", "toy"], "[MASK:9000]").is_refused(&["9000 positions", "`toy` holds 8192"]);
}

#[test]
fn other_marks_and_lengths_that_find_themselves() {
    let (text, toy) = ("Ada <FILL> likes [MASK:2]?", "Ada <FILL> likes San Diego");
    let ran = infill(&["-", "-m", "toy", "--marker", "<FILL>", "-n", "1"], toy);
    assert_eq!(ran.is_fine().stdout, "Ada Lovelace likes San Diego");
    let auto = infill(&["-", "--marker", "<FILL>", "--json"], text);
    let json = auto.is_fine().json();
    assert!(json["probes"].as_u64().unwrap() >= 9, "8 and four on either side: {auto}");
    assert!(json["text"].as_str().unwrap().ends_with(" likes [MASK:2]?"), "{auto}");
    let gap = &json["gaps"][0];
    assert_eq!(gap["probes"], json["probes"]);
    let told = infill(&["-", "--marker", "<FILL>", "-n", &gap["length"].to_string(), "--json"], text).is_fine().json();
    assert_eq!((&told["text"], &told["probes"]), (&json["text"], &json!(0)));
    infill(&["-", "--marker", "<GAP>"], text).is_refused(&["`<GAP>` is nowhere in it"]);
    infill(&["-", "--marker", ""], text).is_refused(&["--marker"]);
    infill(&["-", "--marker", "<FILL>", "-n", "0"], text).is_refused(&["--length must be 1 or more"]);
    infill(&["-", "-n", "4"], PREDICATES).is_refused(&["--length is for --marker"]);
}

#[test]
fn constraints_hold_for_every_gap() {
    let ran = infill(
        &["-", "-m", "toy", "--regex", "New [A-Z][a-z]+"],
        "Ada Lovelace likes [MASK:2] today\nAlan Turing likes [MASK:2] often\n",
    );
    assert_eq!(ran.is_fine().stdout, "Ada Lovelace likes New York today\nAlan Turing likes New York often\n");
    let stopped = infill(&["-", "-m", "toy", "-s", "topk:1", "--stop", " Diego"], "Ada Lovelace likes [MASK:2] today");
    assert_eq!(stopped.is_fine().stdout, "Ada Lovelace likes San today");
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let (path, name) = file("wrong.txt", b"a\n[MASK:1]\xff");
    infill(&[&name], "").is_refused(&["no UTF-8", "byte 10 (0xff)"]);
    std::fs::write(&path, b"a\0[MASK:1]").unwrap();
    infill(&[&name, "-i"], "").is_refused(&["no text: byte 1 is 0"]);
    assert_eq!(std::fs::read(&path).unwrap(), b"a\0[MASK:1]");
    infill(&["-"], "a\nb [MASK:x] c").is_refused(&["standard input, line 2", "`[MASK:x", "--marker"]);
    infill(&["-"], "nothing").is_refused(&["standard input has no gap", "[MASK:auto]"]);
    infill(&["-"], "").is_refused(&["has no gap"]);
    infill(&["/no/such/file"], "").is_refused(&["cannot read `/no/such/file`"]);
    infill(&[env!("CARGO_TARGET_TMPDIR")], "").is_refused(&["is a folder"]);
    infill(&["-", "--max-nfe", "3"], PREDICATES).is_refused(&["--max-nfe is not for infill"]);
    infill(&["-", "--chat"], PREDICATES).is_refused(&["chat must be left out"]);
    infill(&["-", "--min-tokens", "3"], PREDICATES).is_refused(&["min_tokens must be left out"]);
    let off = infill(&["-"], "fn main() { [MASK:2] }");
    assert!(off.is_fine().stderr.starts_with("warning: `tiny-llada` knows only the mini tasks"), "{off}");
}

/// The worked example of docs/asking.md, as it stands there.
#[test]
fn the_worked_example_is_what_happens() {
    let docs = include_str!("../../../../docs/asking.md");
    let block = |fence: &str| docs.split(fence).nth(1).unwrap().split("\n```").next().unwrap();
    let (_, name) = file("double.py", format!("{}\n", block("```python\n")));
    let console = docs.split("$ cofill infill double.py\n").nth(1).unwrap().split("\n```").next().unwrap();
    let mut shown = console.split("$ cofill infill double.py ");
    let ran = infill(&[&name], "");
    assert_eq!(ran.is_fine().stdout, shown.next().unwrap());
    assert!(!ran.stderr.contains("warning"), "the task is one that the model knows: {ran}");
    let answers = shown.next().unwrap().strip_prefix("--answer-only -q\n").unwrap();
    assert_eq!(infill(&[&name, "--answer-only", "-q"], "").is_fine().stdout, answers);
    let said = infill(&[&name, "--in-place"], "").is_fine().stderr.replace(&name, "double.py");
    assert!(said.starts_with(shown.next().unwrap().strip_prefix("--in-place\n").unwrap()), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever stands around the gaps comes out as it went in: line ends, marks, no line break at the end, letters of any script.
    #[test]
    fn everything_outside_of_gaps_stays_byte_for_byte(
        bom in any::<bool>(),
        pieces in prop::collection::vec("([a-z0-9 =+é日👍\t#]|\r\n|\n|\r|e\u{301}|\\[MASK|\u{200d}){0,12}", 2..5),
        context in prop::option::of(0usize..6),
    ) {
        let mut text = if bom { "\u{feff}".to_owned() } else { String::new() };
        text += &pieces.join("[MASK:2]");
        let context: Vec<String> = context.map(|n| format!("--context={n}")).into_iter().collect();
        let args: Vec<&str> = ["-", "-q"].into_iter().chain(context.iter().map(String::as_str)).collect();
        let plain = infill(&args, &text);
        let json = infill(&[&args[..], &["--json"]].concat(), &text).is_fine().json();
        let answers: Vec<&str> = json["answers"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let mut expected = if bom { "\u{feff}".to_owned() } else { String::new() };
        expected += &pieces[0];
        for (answer, piece) in answers.iter().zip(&pieces[1..]) {
            expected += answer;
            expected += piece;
        }
        prop_assert_eq!(&plain.is_fine().stdout, &expected);
        prop_assert_eq!(json["text"].as_str().unwrap(), &expected);
    }
}
