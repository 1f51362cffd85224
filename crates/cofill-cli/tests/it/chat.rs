use crate::run::{Ran, run_with, scratch};
use std::path::PathBuf;

const CHAIN: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

fn chat(args: &[&str], stdin: &str) -> Ran {
    run_with(&[&["chat"], args].concat(), stdin)
}

/// `tiny-llada` with a chat template, and room for so many positions.
fn chatting_model(name: &str, context: usize) -> PathBuf {
    let from = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llada"));
    let to = scratch(name);
    std::fs::remove_dir_all(&to).ok();
    std::fs::create_dir_all(&to).unwrap();
    for file in ["model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let config = std::fs::read_to_string(from.join("config.json")).unwrap();
    let config = config.replace("\"max_sequence_length\": 8192", &format!("\"max_sequence_length\": {context}"));
    std::fs::write(to.join("config.json"), config).unwrap();
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    std::fs::write(to.join("chat_template.jinja"), template).unwrap();
    to
}

#[test]
fn a_script_gets_an_answer_a_line_and_nothing_else_on_stdout() {
    let ran = chat(&["-s", "topk:1"], &format!("{CHAIN}\n\n{CHAIN}\n"));
    let answer = "10*2=20\n20+1=21\n21+5=26\n26+4=30\n30-3=27\n#### 27\n";
    assert_eq!(ran.is_fine().stdout, answer.repeat(2));
    assert_eq!(ran.stderr.matches("topk:1  38 tokens in 38 forwards, 1.00 per forward; ").count(), 2, "{ran}");
    assert_eq!(ran.stderr.matches("chain: right\n").count(), 2, "{ran}");
    assert_eq!(ran.stderr.matches("has no chat template").count(), 1, "{ran}");
    assert!(!ran.stderr.contains('\x1b'), "{ran}");
}

#[test]
fn settings_change_between_answers() {
    let ran = chat(
        &["-m", "toy", "-n", "6", "-s", "topk:2"],
        "Grace\n/sampler topk:2+ad\nGrace\n/length 3\nGrace\n/length\n",
    );
    let answers: Vec<&str> = ran.is_fine().stdout.lines().collect();
    assert_eq!(answers.len(), 3, "{ran}");
    assert_eq!(answers[2].split(' ').count(), 3, "{ran}");
    for line in ["\ntopk:2  6 tokens in 3 forwards", "sampler topk:2+ad:40\ntopk:2+ad:40  6 tokens", "length 3\n"] {
        assert!(ran.stderr.contains(line), "{ran}");
    }
    // The same as with flags.
    let flags = chat(&["-m", "toy", "-n", "6", "-s", "topk:2+ad"], "Grace\n");
    assert_eq!(flags.is_fine().stdout.trim_end(), answers[1]);
}

#[test]
fn what_is_wrong_is_said_and_the_rest_goes_on() {
    let lines = "/sampler topkk:2\n/length -1\n/smapler x\n/show maybe\n/undo\n/trace\n/system be kind\n/try arithmetic\nGrace\nNobody\n";
    let ran = chat(&["-m", "toy", "-n", "3"], lines);
    assert_eq!((ran.code, ran.stdout.lines().count()), (2, 1), "{ran}");
    let wanted = [
        "for '--sampler <SPEC>': unknown sampler `topkk:2`",
        "invalid value '-1' for '--length <N>': expected a whole number, 0 or more, or `auto`",
        "unknown command `/smapler` (did you mean `/sampler`?)",
        "/show is `on` or `off`, and `maybe` was given",
        "/undo: there is no turn to take back",
        "/trace needs a file",
        "/system: `toy` has no chat template",
        "/try is for models that were trained on the mini tasks",
        "the toy does not know the word `Nobody`",
    ];
    for words in wanted {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    assert_eq!(ran.stderr.matches("error: ").count(), wanted.len(), "{ran}");
}

#[test]
fn wrong_arguments_are_refused() {
    chat(&["--chat"], "").is_refused(&["--chat", "leave it out"]);
    chat(&["--system", "be kind"], "").is_refused(&["--system", "no chat template"]);
    chat(&["-m", "gpt5"], "").is_refused(&["unknown model `gpt5`"]);
    chat(&["--temperature", "-1"], "").is_refused(&["temperature"]);
    chat(&["-s", "apd:0.7"], "").is_refused(&["--companion"]);
}

#[test]
fn a_backslash_goes_on_and_two_slashes_begin_a_message() {
    let sudoku = "Sudoku:\\\n0 0 0 0\\\n2 0 1 0\\\n3 2 0 0\\\n1 0 0 0\n";
    let ran = chat(&["-s", "topk:1"], sudoku);
    assert_eq!(ran.is_fine().stdout.lines().count(), 4, "{ran}");
    assert!(ran.stderr.contains("sudoku: "), "{ran}");
    let ran = chat(&["-m", "toy"], "//Grace\n");
    assert!(ran.stderr.contains("does not know the word `/Grace`"), "{ran}");
}

#[test]
fn tiny_models_ask_themselves_what_they_know() {
    let ran = chat(&["-s", "topk:1"], "/try\n/try sums\n/try predicates\n");
    let judged: Vec<&str> = ran.is_fine().stderr.lines().filter(|line| line.ends_with(": right")).collect();
    assert_eq!(judged, ["chain: right", "sums: right", "predicates: right"], "{ran}");
    // Another seed, other questions; the same seed, the same ones.
    let asked = |seed: &str| chat(&["--seed", seed], "/try\n").is_fine().stdout.clone();
    assert_eq!(asked("3"), asked("3"));
    assert_ne!(asked("3"), asked("4"));
}

#[test]
fn an_answer_without_an_end_says_so() {
    let ran = chat(&["-n", "4"], "hello\n");
    assert!(ran.is_fine().stderr.contains("fills its 4 positions without an end"), "{ran}");
    assert!(ran.stderr.contains("raise /length or use /length auto"), "{ran}");
    let before = ran.stderr.find("knows only the mini tasks").unwrap();
    assert!(before < ran.stderr.find("4 tokens in").unwrap(), "the warning comes first: {ran}");
}

#[test]
fn traces_are_of_the_last_answer_or_of_the_first() {
    let (next, last) = (scratch("chat-next.jsonl"), scratch("chat-last.jsonl"));
    [&next, &last].iter().for_each(|path| drop(std::fs::remove_file(path)));
    let (next, last) = (next.display().to_string(), last.display().to_string());
    let lines = format!("/trace {next}\nGrace\nAlan\n/trace {last}\n/trace {last}\n");
    let ran = chat(&["-m", "toy", "-n", "5", "-s", "topk:1"], &lines);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("chat-last.jsonl` exists; give another name"), "{ran}");
    for (path, word) in [(next, "Grace"), (last, "Alan")] {
        let replayed = run_with(&["trace", "replay", &path], "");
        assert!(replayed.is_fine().stdout.starts_with(word), "{replayed}");
    }
}

/// The template writes `user: ...` and `assistant: ...`, so a trace shows what the model was shown.
#[test]
fn a_model_with_a_template_sees_what_was_said_before() {
    let model = chatting_model("chat-turns", 8192);
    let trace = scratch("chat-turns.jsonl");
    std::fs::remove_file(&trace).ok();
    let lines = format!("one\ntwo\n/undo\nthree\n/again\n/system\n/trace {}\n", trace.display());
    let ran = chat(&["-m", model.to_str().unwrap(), "-n", "2", "-s", "topk:2", "--system", "be kind"], &lines);
    let answers: Vec<&str> = ran.is_fine().stdout.lines().collect();
    assert!(ran.stderr.contains("be kind\n") && !ran.stderr.contains("has no chat template"), "{ran}");
    let header = std::fs::read_to_string(&trace).unwrap();
    let header: serde_json::Value = serde_json::from_str(header.lines().next().unwrap()).unwrap();
    let shown: Vec<&str> = header["pieces"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect();
    let expected = format!("system: be kind\nuser: one\nassistant: {}\nuser: three\n[MASK][MASK]", answers[0]);
    assert_eq!(shown.concat(), expected, "{ran}");
    assert_eq!(answers[2], answers[3], "asked again with the same seed: {ran}");
}

#[test]
fn a_conversation_that_does_not_fit_loses_its_oldest_turns_and_says_which() {
    let model = chatting_model("chat-full", 96);
    let model = model.to_str().unwrap();
    let lines = "first question\nsecond question\nthird question\nfourth question\n/reset\nfifth question\n";
    let ran = chat(&["-m", model, "-n", "8", "-s", "topk:8"], lines);
    assert!(ran.is_fine().stdout.lines().count() >= 5, "{ran}");
    assert!(ran.stderr.contains("the conversation no longer fits the 96 positions"), "{ran}");
    assert!(ran.stderr.contains("its oldest turn any more: `first question`; /reset begins anew"), "{ran}");
    // A message that does not fit alone is refused, and the next one is answered.
    let ran = chat(&["-m", model, "-n", "8", "-s", "topk:8"], &format!("{}\nshort\n", "long ".repeat(60)));
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("holds 96; shorten it, or lower /length"), "{ran}");
    assert!(ran.stderr.contains("8 tokens in 1 forward"), "{ran}");
}

#[cfg(target_os = "linux")]
mod at_a_terminal {
    use crate::pty::Terminal;
    use crate::run::scratch;
    use std::os::unix::fs::PermissionsExt;

    const CTRL_C: &str = "\x03";
    const CTRL_D: &str = "\x04";
    const UP: &str = "\x1b[A";

    #[test]
    fn ctrl_c_stops_one_answer_and_the_chat_goes_on() {
        let state = scratch("chat-state");
        std::fs::remove_dir_all(&state).ok();
        let state = state.display().to_string();
        // A thousand steps, each of which is drawn and looked at: nobody misses the first one.
        let args = ["chat", "-s", "topk:1", "-n", "1000", "--show"];
        let mut terminal = Terminal::start(&args, &[("XDG_STATE_HOME", &state)], 80);
        terminal.wait_for("Questions that it can answer; type a number:");
        terminal.type_at_prompt("1\r");
        terminal.wait_for("step   0");
        terminal.press(CTRL_C);
        terminal.wait_for("stopped: ");
        terminal.wait_for("of 1000 positions filled");
        // The next answer is whole and judged.
        terminal.type_at_prompt("/show off\r");
        terminal.type_at_prompt("/length off\r");
        terminal.type_at_prompt("2\r");
        terminal.wait_for("sums: ");
        terminal.type_at_prompt("/sampler topk:4\r");
        terminal.wait_for("sampler topk:4");
        // What was typed before comes back.
        terminal.type_at_prompt(UP);
        terminal.wait_for("/sampler topk:4");
        terminal.press("\r");
        terminal.wait_for("sampler topk:4");
        terminal.type_at_prompt(CTRL_C);
        terminal.wait_for("/quit or Ctrl-D ends the chat");
        terminal.type_at_prompt(CTRL_D);
        let (told, code) = terminal.end();
        assert_eq!(code, Some(0), "{told}");
        let history = std::path::Path::new(&state).join("cofill/chat_history");
        assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let kept = std::fs::read_to_string(history).unwrap();
        let kept: Vec<&str> = kept.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(kept, ["1", "/show off", "/length off", "2", "/sampler topk:4"]);
    }

    #[test]
    fn pasted_lines_are_one_message_and_nothing_is_kept_unless_wanted() {
        let state = scratch("chat-no-state");
        std::fs::remove_dir_all(&state).ok();
        let variables = [("XDG_STATE_HOME", state.to_str().unwrap())];
        let mut terminal = Terminal::start(&["chat", "-s", "topk:1", "--no-history"], &variables, 80);
        terminal.type_at_prompt("\x1b[200~Sudoku:\n0 0 0 0\n2 0 1 0\n3 2 0 0\n1 0 0 0\x1b[201~\r");
        terminal.wait_for("sudoku: ");
        // A line that ends in a backslash goes on.
        terminal.type_at_prompt("Sudoku:\\\r0 0 0 0\\\r2 0 1 0\\\r3 2 0 0\\\r1 0 0 0\r");
        terminal.wait_for("sudoku: ");
        terminal.type_at_prompt("/quit\r");
        let (told, code) = terminal.end();
        assert_eq!(code, Some(0), "{told}");
        assert!(!state.exists());
    }
}
