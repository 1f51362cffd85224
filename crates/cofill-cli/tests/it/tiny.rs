use crate::run::{Ran, run, run_with, scratch};

const CODE: &str = "Write f so that f(9) is 18: add 4, multiply 2, subtract, subtract.";

fn generate(more: &[&str]) -> Ran {
    run_with(&[&["generate"], more].concat(), "")
}

/// 20 prompts of the test split; the cards say what 500 gave.
#[test]
fn both_models_solve_every_task_one_token_at_a_time() {
    for model in ["tiny-llada", "tiny-dream"] {
        for task in ["chain", "sums", "code", "sudoku", "predicates"] {
            let score = run(&format!("eval --task {task} -m {model} -s topk:1 --limit 20 --json")).is_fine().json();
            assert!(score["score"].as_f64().unwrap() >= 0.7, "{model}: {score}");
        }
    }
}

#[test]
fn a_question_gets_its_length_and_a_verdict() {
    let ran = generate(&[CODE, "-s", "topk:1"]);
    let answer = ran.is_fine().stdout.strip_prefix(&format!("{CODE}\n")).unwrap();
    assert!(answer.starts_with("def f(x):\n x+=") && answer.trim_end().ends_with("return x"), "{ran}");
    assert!(ran.stderr.contains("48 tokens in 48 forwards"), "{ran}");
    assert!(ran.stderr.contains("\ncode: right\n"), "{ran}");
    // With the line break that belongs to it, it is the same question.
    let json = |prompt: &str| generate(&[prompt, "-s", "topk:1", "--json"]).is_fine().timeless();
    let answer = json(CODE);
    assert_eq!(answer, json(&format!("{CODE}\n")));
    assert_eq!((&answer["task"], &answer["right"]), (&"code".into(), &true.into()));
    // Whoever gives a length gets it, and the verdict on what came of it.
    let short = generate(&[CODE, "-s", "topk:1", "-n", "8", "--json"]).is_fine().json();
    assert_eq!((&short["nfe"], &short["right"]), (&8.into(), &false.into()));
    assert!(short["why"].is_string());
}

#[test]
fn gaps_are_questions_too() {
    let text = "Fill the gaps:\nmin(9,7,[MASK:1])=7\n[MASK:1]*3*2=18\n4*[MASK:1]*1=4\n";
    for model in ["tiny-llada", "tiny-dream"] {
        let ran = generate(&["-m", model, "--template", text, "-s", "topk:1"]);
        assert!(ran.is_fine().stdout.contains("3*3*2=18\n4*1*1=4"), "{ran}");
        assert!(ran.stderr.contains("predicates: right"), "{ran}");
    }
}

#[test]
fn asked_nothing_it_takes_a_question() {
    let ran = generate(&[]);
    assert!(ran.is_fine().stdout.starts_with("Gus has 10 books") && ran.stderr.contains("\nchain: "), "{ran}");
}

#[test]
fn other_prompts_are_answered_with_a_warning() {
    for model in ["tiny-llada", "tiny-dream"] {
        let ran = generate(&["-m", model, "What is the capital of France? Où? 東京", "-n", "16"]);
        assert!(ran.is_fine().stdout.starts_with("What is the capital of France? Où? 東京"), "{ran}");
        assert!(ran.stderr.contains(&format!("`{model}` knows only the mini tasks")), "{ran}");
    }
    generate(&["x", "-n", "8192"]).is_refused(&["8193 positions", "`tiny-llada` holds 8192"]);
    let chat = generate(&["x", "-n", "4", "--chat"]);
    assert!(chat.is_fine().stderr.contains("`tiny-llada` has no chat template"), "{chat}");
}

/// What a model knows hangs on the checkpoint and not on its name: newline, length, warnings, verdicts, and the strength of +paths.
#[test]
fn a_folder_and_a_file_of_a_tiny_model_answer_as_its_name_does() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llada");
    let file = scratch("tiny-llada-f32.gguf");
    std::fs::remove_file(&file).ok(); // of an earlier run
    let file = file.display().to_string();
    run(&format!("models quantise {folder} {file} --dtype f32")).is_fine();
    let gaps = "Fill the gaps:\nmin(9,7,[MASK:1])=7\n[MASK:1]*3*2=18";
    let asked: [&[&str]; 6] = [
        &[],
        &[CODE],
        &[CODE, "-n", "auto"],
        &["--template", gaps],
        &["what else", "-n", "8"],
        &[CODE, "-s", "topk:4+paths:auto"],
    ];
    for args in asked {
        let answer = |model: &str| {
            let ran = generate(&[args, &["-m", model, "--json"]].concat());
            let mut answer = ran.is_fine().timeless();
            answer["model"].take();
            // All that is said but for times and the name.
            let said = ran.stderr.replace(model, "MODEL");
            let said = said.lines().map(|line| line.split("per forward").next().unwrap().to_owned());
            (answer, said.collect::<Vec<_>>())
        };
        let named = answer("tiny-llada");
        assert_eq!(named, answer(folder), "{args:?}");
        assert_eq!(named, answer(&file), "{args:?}");
    }
}

#[test]
fn they_are_checkpoints_like_any_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-dream");
    let answer = |model: &str| {
        let mut answer = run(&format!("generate -m {model} --prompt-tokens 20,21 -n 8 --json")).is_fine().timeless();
        answer["model"].take();
        answer
    };
    assert_eq!(answer("tiny-dream"), answer(folder), "what is embedded is what is in the folder");
    // Also in what it can be asked: a prompt of a mini task needs no length, and is judged.
    let asked = |model: &str| generate(&["-m", model]).is_fine().stderr.contains("chain: right");
    assert!(asked("tiny-dream") && asked(folder));
    let inspection = run("models inspect tiny-dream --json").is_fine().json();
    assert_eq!(inspection["path"], "tiny-dream");
    let file = scratch("tiny.gguf");
    std::fs::remove_file(&file).ok(); // of an earlier run
    let file = file.display();
    run(&format!("models quantise tiny-llada {file} --dtype q8_0")).is_fine();
    let score = run(&format!("eval --task sums -m {file} --limit 5 --json")).is_fine().json();
    assert!(score["score"].as_f64().unwrap() >= 0.6, "{score}");
    run("generate -m tiny-lada").is_refused(&["unknown model `tiny-lada`", "`tiny-llada`"]);
}
