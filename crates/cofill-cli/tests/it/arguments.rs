use crate::run::{COFILL, Ran, run, run_with, scratch};
use std::process::Command;

/// With these variables set, and none that would decide about colour otherwise.
fn run_in(line: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(COFILL);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    let output = command.args(line.split_whitespace()).envs(variables.iter().copied()).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_slip_of_a_name_is_guessed() {
    run("generate -m toy -s topkk:2").is_refused(&["unknown sampler `topkk:2` (did you mean `topk:2`?)", "`eb:GAMMA`"]);
    run("generate -m toy -s ebs:10@margin+ad").is_refused(&["(did you mean `eb:10@margin+ad`?)"]);
    run("generate -m tiny-lada").is_refused(&["--model", "unknown model `tiny-lada` (did you mean `tiny-llada`?)"]);
    run("generate -m toyy").is_refused(&["(did you mean `toy`?)"]);
    run("eval --task suduko").is_refused(&["unknown task `suduko` (did you mean `sudoku`?)", "`gsm8k`"]);
    run("score --task humanevla --data . --predictions -").is_refused(&["(did you mean `humaneval`?)"]);
    run("eval --task chain --split tests").is_refused(&["unknown split `tests` (did you mean `test`?)"]);
    run("generat hi").is_refused(&["there is no command `generat` (did you mean `generate`?)"]);
    run("sweep rnu x").is_refused(&["`cofill sweep` has no command `rnu` (did you mean `run`?)", "merge"]);
    // Nothing is near, so nothing is guessed.
    let ran = run("generate -m toy -s nope");
    ran.is_refused(&["unknown sampler `nope`; expected one of"]);
}

#[test]
fn a_number_out_of_range_is_told_its_range() {
    let whole = "expected a whole number, ";
    let cases = [
        ("generate -m toy -n -5", vec!["'-5'", "--length", whole, "0 or more, or `auto`"]),
        ("generate -m toy --seed -1", vec!["'-1'", "--seed", whole, "0 or more"]),
        ("generate -m toy --seed 1.5", vec!["'1.5'", "--seed", whole, "0 or more"]),
        ("generate -m toy --seed 99999999999999999999", vec!["--seed", whole, "0 to 18446744073709551615"]),
        ("generate -m toy --block -2", vec!["'-2'", "--block", whole, "0 or more"]),
        ("generate -m toy --max-nfe=-2", vec!["'-2'", "--max-nfe", whole]),
        ("generate -m toy --temperature -1", vec!["temperature", "0 or more", "-1"]),
        ("generate -m toy --temperature warm", vec!["'warm'", "--temperature", "expected a number"]),
        ("generate -m toy --top-p -0.5", vec!["top_p", "above 0 and at most 1", "-0.5"]),
        ("generate --cfg -1", vec!["guidance", "0 or more", "-1"]),
        ("generate -m toy -s topk:-2", vec!["K must be", "-2", "`topk:K`"]),
        ("generate -m toy -s topk:2+ad:-1", vec!["ALPHA", "-1"]),
        ("eval --task chain --limit -1", vec!["'-1'", "--limit", whole, "1 or more"]),
        ("eval --task chain --limit 0", vec!["'0'", "--limit", whole, "1 or more"]),
        ("eval --task chain --batch -1", vec!["'-1'", "--batch", whole, "1 or more"]),
        ("mini corpus -n -1", vec!["'-1'", "-n", whole, "0 or more"]),
        ("sweep work nowhere --workers -1", vec!["'-1'", "--workers", whole, "1 to 256"]),
        ("sweep work nowhere --lease -1", vec!["'-1'", "--lease", whole, "1 or more"]),
        ("sweep work nowhere --shard -1/4", vec!["'-1/4'", "--shard"]),
        ("report nowhere --resamples -1", vec!["'-1'", "--resamples", whole, "1 to 10000000"]),
        ("serve --max-live -1", vec!["'-1'", "--max-live", whole, "1 or more"]),
        ("serve --listen localhost:8080", vec!["'localhost:8080'", "--listen", "127.0.0.1:8080"]),
        ("serve --queue-timeout -1", vec!["'-1'", "--queue-timeout", whole, "0 or more"]),
        ("generate -m toy --threads 0", vec!["'0'", "--threads", whole, "1 to 1024"]),
        ("--threads -4 generate -m toy", vec!["'-4'", "--threads", whole, "1 to 1024"]),
        ("generate -m toy --threads 100000", vec!["'100000'", "--threads", whole, "1 to 1024"]),
    ];
    for (line, mentions) in cases {
        let ran = run(line);
        ran.is_refused(&mentions);
        assert!(!ran.stderr.contains("unexpected argument"), "{line}: {ran}");
        assert!(!ran.stderr.contains("invalid digit"), "{line}: {ran}");
    }
}

#[test]
fn a_prompt_without_quotes_is_shown_with_them() {
    run("generate hi there").is_refused(&["`there`", "quote it: cofill generate \"hi there\""]);
    run("--threads 1 generate -s topk:2 --show hi there my friend -n 3")
        .is_refused(&["quote it: cofill generate \"hi there my friend\""]);
    run_with(&["generate", "it", "costs", "$5,", "isn't", "it"], "")
        .is_refused(&[r"cofill generate 'it costs $5, isn'\''t it'"]);
    run_with(&["What is 2+2?"], "").is_refused(&["there is no command", "cofill generate \"What is 2+2?\""]);
    // Where no prompt is expected, what is too much is named.
    run("samplers extra").is_refused(&["'extra'", "Usage: cofill samplers"]);
}

#[test]
fn errors_of_a_command_name_its_help() {
    run("eval --task chain --limit -1").is_refused(&["try 'cofill eval --help'"]);
    run("sweep work nowhere --lease -1").is_refused(&["try 'cofill sweep work --help'"]);
}

#[test]
fn the_number_of_threads_is_kept_and_changes_no_result() {
    let answer = |threads: &str| {
        let line = format!("generate --threads {threads} -n 24 --seed 3 --temperature 0.7 --json");
        run(&line).is_fine().timeless()
    };
    assert_eq!(answer("1"), answer("3"));
    let dir = scratch("threads");
    std::fs::remove_dir_all(&dir).ok();
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("scores.jsonl");
    let line = format!("eval --task chain --limit 1 --threads 3 --out {}", file.display());
    run(&line).is_fine();
    let text = std::fs::read_to_string(&file).unwrap();
    let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(header["made_by"]["machine"]["threads"], 3, "{header}");
}

#[test]
fn colour_when_asked_for() {
    const ESCAPE: &str = "\x1b[";
    let cases = [
        // A pipe is no terminal.
        ("", [].as_slice(), false),
        (" --color auto", &[], false),
        (" --color always", &[], true),
        (" --color=always", &[], true),
        (" --color never", &[("CLICOLOR_FORCE", "1")], false),
        ("", &[("CLICOLOR_FORCE", "1")], true),
        ("", &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        // Who asks for it on the line means it.
        (" --color always", &[("NO_COLOR", "1")], true),
    ];
    // An error of ours, one of the parser, a page of help, and a canvas in words and in pieces of words.
    for command in
        ["generate -m toyy", "generate --frobnicate", "eval --help", "generate -m toy --show", "generate -n 8 --show"]
    {
        for (flags, variables, coloured) in cases {
            let ran = run_in(&format!("{command}{flags}"), variables);
            let text = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(text.contains(ESCAPE), coloured, "{command}{flags} {variables:?}: {text}");
        }
    }
    run("generate --color sometimes").is_refused(&["sometimes", "--color", "auto, always, never"]);
}

#[test]
fn the_instructions_of_a_forward_can_be_chosen_and_change_no_result() {
    let answer = |level: &str| run_in("generate -n 24 -s topk:2+ad --json", &[("COFILL_KERNELS", level)]);
    let plain = answer("scalar");
    assert_eq!(plain.is_fine().timeless(), run("generate -n 24 -s topk:2+ad --json").is_fine().timeless());
    answer("sse").is_refused(&["COFILL_KERNELS", "`sse`", "scalar, avx2 or avx512", "leave it unset"]);
}
