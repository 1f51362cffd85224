use crate::run::{run, run_with, scratch};
use serde_json::json;

#[test]
fn top_k_breaks_couples_and_adas_does_not() {
    let answer = |sampler: &str| run(&format!("generate --model toy -n 6 -s {sampler}")).is_fine().stdout.clone();
    assert_eq!(answer("topk:2"), "Alan Kelly visited San City again\n");
    assert_eq!(answer("topk:2+ad"), "Alan Turing visited San Diego again\n");
}

#[test]
fn the_answer_as_json() {
    let ran = run("generate --model toy -n 6 -s topk:4+ad --json");
    let answer = ran.is_fine().json();
    assert_eq!(answer["text"], "Alan Turing visited San Diego again");
    assert_eq!((&answer["nfe"], &answer["finish"]), (&json!(2), &json!("complete")));
    assert_eq!(answer["tokens"], json!([0, 4, 16, 8, 12, 21]));
    let step = &answer["steps"][1];
    assert_eq!(
        (&step["positions"], &step["tokens"], &step["forced"]),
        (&json!([1, 4]), &json!([4, 12]), &json!(false))
    );
    assert_eq!(step["confidence"].as_array().unwrap().len(), 2);
}

#[test]
fn the_picture_is_plain_when_piped_and_leaves_stdout_alone() {
    let ran = run("generate -m toy -n 6 -s topk:2+ad --show");
    assert_eq!(ran.is_fine().stdout, "Alan Turing visited San Diego again\n");
    assert!(!ran.stderr.contains('\x1b'), "no colour when piped: {ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines[0], "step   0  nfe   1  masked   6 -> 4    _ _ [visited] _ _ [again]");
    assert_eq!(lines[1], "step   1  nfe   2  masked   4 -> 2    [Alan] _ visited [San] _ again");
    assert_eq!(lines[2], "step   2  nfe   3  masked   2 -> 0    Alan [Turing] visited San [Diego] again");
    assert!(lines[3].starts_with("topk:2+ad:40  6 tokens in 3 forwards, 2.00 per forward"), "{ran}");
}

#[test]
fn the_answer_says_where_the_time_went() {
    let ran = run("generate -m toy -n 6 -s topk:2+ad --json");
    let answer = ran.is_fine().json();
    // 6 tokens in 3 forwards; the toy never ends a text, so all are of use.
    assert_eq!((&answer["tokens_per_forward"], &answer["useful_tokens"]), (&json!(2.0), &json!(6)));
    let seconds = |part: &str| answer["seconds"][part].as_f64().unwrap();
    assert!(["load", "model", "sampler"].iter().all(|part| seconds(part) >= 0.0), "{ran}");
    let rate = 6.0 / (seconds("model") + seconds("sampler"));
    assert!((answer["useful_tokens_per_second"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{ran}");
    // People get the same in one line; a bar is for terminals.
    let line = ran.stderr.strip_prefix("topk:2+ad:40  6 tokens in 3 forwards, 2.00 per forward; ").expect("one line");
    let parts: Vec<&str> = line.trim_end().split([';', ',']).map(str::trim).collect();
    assert!(parts[0].ends_with(" useful tokens/s"), "{ran}");
    for (part, name) in parts[1..].iter().zip(["load ", "model ", "sampler "]) {
        assert!(part.starts_with(name) && (part.ends_with(" ms") || part.ends_with(" s")), "{ran}");
    }
    assert_eq!((parts.len(), ran.stderr.lines().count(), ran.stderr.contains('\x1b')), (4, 1, false), "{ran}");
}

#[test]
fn prompts_as_text_and_as_ids() {
    let text = run_with(&["generate", "-m", "toy", "Grace Kelly likes", "-n", "3", "--json"], "");
    let ids = run("generate -m toy --prompt-tokens 1,6,18 -n 3 --json");
    assert_eq!(text.is_fine().timeless(), ids.is_fine().timeless());
    assert!(text.json()["text"].as_str().unwrap().starts_with("Grace Kelly likes San"));
}

#[test]
fn infill_keeps_what_is_given() {
    let answer = run("generate -m toy --tokens M,4,M,11,M,20 --json -s eb:1").is_fine().json();
    let tokens: Vec<u64> = serde_json::from_value(answer["tokens"].clone()).unwrap();
    assert_eq!((tokens[1], tokens[3], tokens[5]), (4, 11, 20));
    // Turing's first name is Alan, and what begins with New ends with York.
    assert_eq!(answer["text"], "Alan Turing visited New York today");
}

#[test]
fn seeds_decide_what_is_drawn() {
    let draw =
        |seed: u64| run(&format!("generate -m toy -n 24 --temperature 1 --seed {seed}")).is_fine().stdout.clone();
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn a_cap_on_forwards_leaves_masks_and_says_so() {
    let ran = run("generate -n 6 -s topk:1 --max-nfe 2 --json");
    let answer = ran.is_fine().json();
    assert_eq!((&answer["nfe"], &answer["finish"]), (&json!(2), &json!("capped")));
    assert!(ran.stderr.contains("4 masks left after --max-nfe 2"), "{ran}");
}

#[test]
fn nothing_to_do_takes_no_forward() {
    assert_eq!(run("generate -m toy -n 0 --json").is_fine().json()["nfe"], 0);
    assert_eq!(run("generate -m toy --tokens 0,4 --json").is_fine().json()["nfe"], 0);
}

#[test]
fn a_block_larger_than_the_canvas_is_the_canvas() {
    let whole = run("generate -m toy -n 6 --json").is_fine().timeless();
    for block in ["6", "1000", "18446744073709551615"] {
        assert_eq!(run(&format!("generate -m toy -n 6 --json --block {block}")).is_fine().timeless(), whole, "{block}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    run("generate -m gpt5").is_refused(&["unknown model `gpt5`", "--model", "`toy`"]);
    run("generate -m toy -s topk:0").is_refused(&["K must be a whole number from 1", "0 was given", "topk:K"]);
    run("generate -m toy -s topk:2+adx").is_refused(&["unknown suffix `+adx`"]);
    run("generate -m toy -s klass+ad").is_refused(&["`klass` has no ranking", "`topk`"]);
    run("generate -m toy -s topk:1+ad@layer=3").is_refused(&["layer 3 was asked for", "layers 0 to 0"]);
    run("generate -m toy --block 0").is_refused(&["block length must be at least 1"]);
    run("generate -m toy --temperature -1").is_refused(&["temperature must be a finite number, 0 or more", "-1"]);
    run("generate -m toy --temperature nan").is_refused(&["temperature", "NaN"]);
    run("generate -m toy --tokens 1,x,M").is_refused(&["`x` in --tokens", "token ids and M"]);
    run("generate -m toy --tokens 1,99").is_refused(&["token 99 at position 1", "0 to 24"]);
    run("generate -m toy --prompt-tokens 1,M").is_refused(&["`M` in --prompt-tokens"]);
    run("generate -m toy --tokens 1 -n 3").is_refused(&["cannot be used with"]);
    run("generate -m toy -n 18446744073709551615").is_refused(&["18446744073709551615 positions"]);
    run("generate -m toy -n 9999999999999").is_refused(&["9999999999999 positions", "shorten it"]);
    run("generate -m toy --prompt-tokens 1,24").is_refused(&["the prompt contains 24, which is the mask", "--tokens"]);
    run("generate -m toy -s dapd:0.5,0.1").is_refused(&["TAU_MIN must be at most TAU_MAX", "0.5"]);
    run("generate -m toy -s hierarchy:0.4,0.9").is_refused(&["LOW must be at most TAU, which is 0.4", "0.9"]);
    run("generate -m toy -n -1").is_refused(&["-1"]);
    run("generate -m toy -s dream:4@origin@alg_temp=0.5").is_refused(&["dream@origin", "alg_temp"]);
    for sampler in ["p2:4", "threshold-dream:0.9,4"] {
        run(&format!("generate -m toy -n 12 --block 4 -s {sampler}")).is_refused(&["blocks"]);
    }
    run("generate -m toy -n 100000").is_refused(&["100000 positions", "shorten it"]);
    run("generate -m toy -n 12 --block 6 -s llada:5").is_refused(&["5 steps cannot be split over 2 blocks"]);
    run("generate -m toy --trace /no/such/folder/t.jsonl").is_refused(&["--trace", "/no/such/folder/t.jsonl"]);
    run_with(&["generate", "-m", "toy", "Hello world"], "").is_refused(&["`Hello`", "Lovelace"]);
    run("generate -m toy --dtype q3k").is_refused(&["q3k", "f32, f16, bf16, q4k, q6k or q8_0"]);
    run("generate -m toy --cfg 0.5").is_refused(&["--cfg", "checkpoints"]);
    run("generate -m toy --top-p 1.5").is_refused(&["top_p must be above 0 and at most 1", "1.5"]);
    run("generate -m toy --top-k 0").is_refused(&["top_k must be 1 or more"]);
    run("generate -m toy --frobnicate").is_refused(&["--frobnicate"]);
    run("frobnicate").is_refused(&["frobnicate"]);
}

#[test]
fn a_template_keeps_its_text() {
    let ran = run_with(&["generate", "-m", "toy", "--template", "Ada [MASK:1] likes [MASK:2] today"], "");
    assert_eq!(ran.is_fine().stdout, "Ada Lovelace likes San Diego today\n");
    run_with(&["generate", "-m", "toy", "--template", "Ada [MASK:x]"], "").is_refused(&["[MASK:x", "[MASK:4]"]);
    run_with(&["generate", "-m", "toy", "--template", "Ada Lovelace"], "").is_refused(&["no gap"]);
}

#[test]
fn a_stop_string_cuts_the_text_and_not_the_tokens() {
    let ran = run_with(&["generate", "-m", "toy", "-n", "6", "--stop", " San", "--json"], "");
    let answer = ran.is_fine().json();
    assert_eq!((&answer["text"], answer["tokens"].as_array().unwrap().len()), (&json!("Alan Turing visited"), 6));
}

#[test]
fn one_forward_of_the_toy() {
    let answer = run("probe -m toy --tokens M,4,M --json").is_fine().json();
    // Who is called Turing is called Alan.
    assert_eq!(answer["rows"][0], json!({"position": 0, "token": 0, "confidence": 1.0, "entropy": 0.0}));
    assert_eq!((&answer["layer"], answer["attention"][0].as_array().unwrap().len()), (&json!(0), 2));
    run("probe -m toy --tokens 1,4").is_refused(&["no mask", "--rows all"]);
    run("probe -m toy --tokens M --layer 3").is_refused(&["layer 3", "0 to 0"]);
    run("probe -m toy --tokens M --layer top").is_refused(&["first, middle, last"]);
    run("probe -m toy --tokens M --logits --json").is_refused(&["--logits needs a checkpoint"]);
    run("probe -m toy --tokens M --logits").is_refused(&["--json"]);
    run("generate -m toy --chat").is_refused(&["a chat needs a prompt", "--chat"]);
    // Without a template the prompt is the prompt, with a warning.
    let chat = run_with(&["generate", "-m", "toy", "Ada", "--chat", "--json"], "");
    let plain = run_with(&["generate", "-m", "toy", "Ada", "--json"], "");
    assert_eq!(chat.is_fine().timeless(), plain.is_fine().timeless());
    assert!(chat.stderr.contains("`toy` has no chat template"), "{chat}");
}

const QUESTION: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

#[test]
fn an_answer_grows_until_it_ends_and_its_trace_grows_with_it() {
    let file = scratch("grown.jsonl").display().to_string();
    let ran = run_with(&["generate", QUESTION, "-n", "auto", "--show", "--trace", &file, "--force", "--json"], "");
    let answer = ran.is_fine().json();
    assert_eq!((&answer["ended"], &answer["right"]), (&json!("eos"), &json!(true)), "{ran}");
    let appended: Vec<u64> =
        answer["steps"].as_array().unwrap().iter().filter_map(|s| s["appended"].as_u64()).collect();
    assert_eq!(appended, [32], "{ran}");
    assert!(ran.stderr.contains("masked   2 -> 0 ") && ran.stderr.contains("masked  32 -> 30"), "{ran}");
    assert!(!ran.stderr.contains("cut off"), "{ran}");
    let replayed = run(&format!("trace replay {file} --json")).is_fine().json();
    assert_eq!((&replayed["tokens"], &replayed["nfe"]), (&answer["tokens"], &answer["nfe"]));
    assert!(run(&format!("trace diff {file} {file}")).is_fine().stdout.contains("the same after every step"));
    assert!(run(&format!("trace html {file}")).is_fine().stdout.contains("64 in 32 steps"));
    let shorter = scratch("grown-less.jsonl").display().to_string();
    run_with(&["generate", QUESTION, "-n", "auto", "--max-length", "40", "--trace", &shorter, "--force"], "").is_fine();
    let parted = run(&format!("trace diff {file} {shorter}"));
    assert!(parted.code == 1 && parted.stdout.contains("first divergence at step 16"), "{parted}");
    assert!(parted.stdout.contains("the canvas grew by 32 masks before the step in A, by 8 in B"), "{parted}");
}

#[test]
fn a_gap_of_no_length_finds_one_and_says_what_it_took() {
    let file = scratch("gap.jsonl").display().to_string();
    let template = "10*2=[MASK:auto]\n20+1=21";
    let ran = run_with(&["generate", "--template", template, "--trace", &file, "--force", "--json", "--show"], "");
    let answer = ran.is_fine().json();
    let (length, probes) = (&answer["gaps"][0]["length"], answer["probes"].as_u64().unwrap());
    assert_eq!(answer["gaps"], json!([{"length": length, "probes": probes}]));
    assert!(probes >= 9, "8 and four on either side: {ran}");
    assert!(ran.stderr.contains(&format!("forwards ({probes} to find 1 gap of {length})")), "{ran}");
    assert!(
        ran.stderr.contains(&format!("step   0  nfe {:>3}", probes + 1)),
        "probes count from the first step on: {ran}"
    );
    let replayed = run(&format!("trace replay {file} --json")).is_fine().json();
    assert_eq!((&replayed["tokens"], &replayed["nfe"]), (&answer["tokens"], &answer["nfe"]));
    let told = run_with(&["generate", "--template", &template.replace("auto", &length.to_string()), "--json"], "");
    let told = told.is_fine().json();
    assert_eq!(told["text"], answer["text"]);
    assert_eq!(told["nfe"].as_u64().unwrap() + probes, answer["nfe"].as_u64().unwrap());
    assert!(told.get("probes").is_none() && told.get("gaps").is_none());
}

#[test]
fn an_answer_that_may_be_cut_off_says_so_and_others_do_not() {
    let said = |args: &[&str]| run_with(&[&["generate", "-s", "topk:8"], args].concat(), "").is_fine().stderr.clone();
    let cut = said(&[QUESTION, "-n", "16"]);
    assert!(
        cut.contains(
            "the answer fills its 16 positions without an end; it may be cut off: raise --length or use --length auto"
        ),
        "{cut}"
    );
    let cut = said(&[QUESTION, "-n", "auto", "--max-length", "16"]);
    assert!(cut.contains("it may be cut off: raise --max-length"), "{cut}");
    let capped = said(&[QUESTION, "-n", "auto", "--max-nfe", "4"]);
    assert!(
        capped.contains("the answer has no end after --max-nfe 4; raise it") && !capped.contains("cut off"),
        "{capped}"
    );
    let whole: [&[&str]; 4] = [&[QUESTION], &[], &["-m", "toy"], &["--template", "3+[MASK:1]=4"]];
    for args in whole {
        assert!(!said(args).contains("cut off"), "{args:?}: {}", said(args));
    }
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    run("generate -n many").is_refused(&["--length", "a whole number, 0 or more, or `auto`"]);
    run("generate -n -1").is_refused(&["--length", "a whole number, 0 or more, or `auto`"]);
    run("generate -m toy -n auto").is_refused(&["`toy`", "no token that ends a text"]);
    run("generate --max-length 9").is_refused(&["max_length must be left out, unless the length is `auto`"]);
    run("generate -n auto --max-length 0").is_refused(&["max_length must be 1 or more"]);
    run("generate -n auto --max-length 99999").is_refused(&["shorten it"]);
    run("generate --template a[MASK:some]").is_refused(&["[MASK:some", "or [MASK:auto]"]);
    run("explain -n auto").is_refused(&["length must be a number"]);
    run("explain --template a[MASK:auto]").is_refused(&["give a number, such as [MASK:4]"]);
    run("eval --task chain -n auto").is_refused(&["length must be a number", "`auto` was given"]);
    run("diagnose intervention -n auto").is_refused(&["length must be a number"]);
    run("diagnose intervention --min-tokens 1").is_refused(&["--min-tokens is not for diagnostics"]);
}
