use crate::{options, tiny};
use cofill_engine::{DEFAULT_SAMPLER, Engine, Input, Prepared, RunOptions};
use cofill_model::Message;
use serde_json::json;

const PROMPT: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";

fn prepare(engine: &mut Engine, input: &Input, options: &RunOptions) -> Prepared {
    engine.prepare(input, &DEFAULT_SAMPLER.parse().unwrap(), options).unwrap()
}

fn refused(engine: &mut Engine, input: &Input, options: &RunOptions) -> String {
    engine.prepare(input, &DEFAULT_SAMPLER.parse().unwrap(), options).unwrap_err().to_string()
}

/// What a folder knows is in its own files, so a copy behaves like the model inside the program.
#[test]
fn a_folder_that_knows_the_mini_tasks_recognises_their_prompts() {
    let mut engine = tiny("tiny-llada");
    assert!(engine.knows_mini_tasks());
    let usual = RunOptions::default();
    let prepared = prepare(&mut engine, &Input::Prompt(PROMPT.into()), &usual);
    let question = prepared.question.unwrap();
    assert_eq!((question.task.name(), prepared.start.n_masked()), ("chain", question.task.length()));
    assert_eq!(prepare(&mut engine, &Input::Nothing, &usual).start, prepared.start, "asked nothing, it is asked this");
    let other = prepare(&mut engine, &Input::Prompt("Who wrote this?".into()), &usual);
    assert!(other.question.is_none() && other.start.n_masked() == 64);
}

#[test]
fn a_chat_without_a_template_is_its_last_message_with_a_warning() {
    let mut engine = tiny("tiny-llada");
    let plain = prepare(&mut engine, &Input::Prompt(PROMPT.into()), &RunOptions::default());
    let messages =
        vec![Message::new("user", "Hello"), Message::new("assistant", "Hello."), Message::new("user", PROMPT)];
    for (input, options) in [
        (Input::Messages(messages), RunOptions::default()),
        (Input::Prompt(PROMPT.into()), options(json!({"chat": true}))),
    ] {
        let chat = prepare(&mut engine, &input, &options);
        assert_eq!(chat.start, plain.start);
        assert!(chat.warnings[0].contains("has no chat template"), "{:?}", chat.warnings);
    }
    let silent = Input::Messages(vec![Message::new("system", "Be kind.")]);
    assert!(refused(&mut engine, &silent, &RunOptions::default()).contains("no message of the user"));
    let nothing = refused(&mut engine, &Input::Nothing, &options(json!({"chat": true})));
    assert!(nothing.contains("a chat needs a prompt"), "{nothing}");
}

#[test]
fn gaps_are_masks_and_everything_else_is_kept() {
    let mut engine = tiny("tiny-dream");
    let canvas = prepare(&mut engine, &Input::Template("3+[MASK:2]=10".into()), &RunOptions::default()).start;
    let pieces: Vec<String> = canvas.tokens().iter().map(|&token| engine.piece(token)).collect();
    assert_eq!(pieces, ["3", "+", "[MASK]", "[MASK]", "=", "10"]);
    assert!(refused(&mut engine, &Input::Template("3+4".into()), &RunOptions::default()).contains("no gap"));
}

#[test]
fn what_a_model_cannot_hold_or_does_not_know_is_refused() {
    let mut engine = tiny("tiny-llada");
    let long = refused(&mut engine, &Input::Prompt("1".into()), &options(json!({"length": 100_000})));
    assert!(long.contains("100001 positions") && long.contains("shorten it"), "{long}");
    let unknown = refused(&mut engine, &Input::PromptTokens(vec![999_999]), &RunOptions::default());
    assert!(unknown.contains("999999"), "{unknown}");
    let mask = engine.mask_id();
    let masked = refused(&mut engine, &Input::PromptTokens(vec![mask]), &RunOptions::default());
    assert!(masked.contains("which is the mask"), "{masked}");
    let nobody = Engine::open("nobody", &RunOptions::default()).unwrap_err().to_string();
    assert!(nobody.starts_with("unknown model `nobody`"), "{nobody}");
    let guided = Engine::open("toy", &options(json!({"cfg": 1.0}))).unwrap_err().to_string();
    assert!(guided.contains("cfg is for checkpoints"), "{guided}");
}
