use crate::{options, tiny};
use cofill_engine::{Engine, Finish, Generation, Input, Prepared, RunOptions, StepEvent};
use serde_json::json;
use std::ops::ControlFlow;

const PROMPTS: [&str; 3] = [
    "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?",
    "Ana has 7 coins, buys 5, loses 3, doubles, finds 8, sells 2. How many coins?",
    "Write f so that f(3) is 12: multiply 2, add 7, subtract, add.",
];

fn prepare(engine: &mut Engine, prompt: &str, options: &RunOptions) -> Prepared {
    engine.prepare(&Input::Prompt(prompt.into()), &"topk:4+ad".parse().unwrap(), options).unwrap()
}

/// Everything of an answer but its times.
fn essence(generation: &Generation) -> (Vec<u32>, String, usize, usize, Finish) {
    let Generation { canvas, text, nfe, useful, finish, .. } = generation;
    (canvas.tokens().to_vec(), text.clone(), *nfe, *useful, *finish)
}

#[test]
fn together_or_alone_the_answers_are_the_same() {
    let mut engine = tiny("tiny-llada");
    let options = options(json!({"temperature": 0.7, "seed": 3}));
    let alone: Vec<_> = PROMPTS
        .map(|prompt| {
            let prepared = prepare(&mut engine, prompt, &options);
            essence(&engine.generate(prepared).unwrap())
        })
        .to_vec();
    let prepared = PROMPTS.iter().map(|prompt| prepare(&mut engine, prompt, &options)).collect();
    let mut seen = [0; 3];
    let mut watch = |event: &StepEvent<'_>| {
        seen[event.index] += event.step.commits.len();
        assert_eq!(event.step.pieces.len(), event.step.commits.len());
        ControlFlow::Continue(())
    };
    let together: Vec<_> = engine.generate_many(prepared, &mut watch).unwrap();
    let together: Vec<Generation> = together.into_iter().map(Result::unwrap).collect();
    assert_eq!(together.iter().map(essence).collect::<Vec<_>>(), alone);
    for (generation, seen) in together.iter().zip(seen) {
        assert_eq!((generation.filled(), generation.finish), (seen, Finish::Complete));
        assert!(generation.seconds.model > 0.0 && generation.judged.is_some());
    }
}

/// Also of the toy, which has another distribution for every length.
#[test]
fn canvases_of_different_lengths_are_filled_together() {
    let mut engine = Engine::open("toy", &RunOptions::default()).unwrap();
    let prepared = [6, 12].map(|length| {
        let options = options(json!({"length": length}));
        engine.prepare(&Input::Nothing, &"topk:2+ad".parse().unwrap(), &options).unwrap()
    });
    let texts: Vec<String> = engine
        .generate_many(prepared.into_iter().collect(), &mut |_| ControlFlow::Continue(()))
        .unwrap()
        .into_iter()
        .map(|generation| generation.unwrap().text)
        .collect();
    assert_eq!(texts[0], "Alan Turing visited San Diego again");
    assert_eq!(texts[1].split(' ').count(), 12);
}

#[test]
fn a_cancelled_canvas_keeps_what_was_committed_and_disturbs_nobody() {
    let mut engine = tiny("tiny-llada");
    let usual = RunOptions::default();
    let prepared = prepare(&mut engine, PROMPTS[1], &usual);
    let alone = essence(&engine.generate(prepared).unwrap());
    let prepared = vec![prepare(&mut engine, PROMPTS[0], &usual), prepare(&mut engine, PROMPTS[1], &usual)];
    let mut watch = |event: &StepEvent<'_>| match (event.index, event.nfe) {
        (0, 2) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut both: Vec<Generation> =
        engine.generate_many(prepared, &mut watch).unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(essence(&both.remove(1)), alone);
    let cancelled = &both[0];
    assert_eq!(
        (cancelled.finish, cancelled.nfe, cancelled.steps.len(), cancelled.filled()),
        (Finish::Cancelled, 2, 2, 8)
    );
    assert!(cancelled.canvas.n_masked() > 0);
}

#[test]
fn a_cap_and_a_stop_string_end_an_answer() {
    let mut engine = tiny("tiny-llada");
    let prepared = prepare(&mut engine, PROMPTS[0], &options(json!({"max_nfe": 3})));
    let capped = engine.generate(prepared).unwrap();
    assert_eq!((capped.finish, capped.nfe), (Finish::Capped, 3));
    let prepared = prepare(&mut engine, PROMPTS[0], &options(json!({"stop": ["\n####"]})));
    let stopped = engine.generate(prepared).unwrap();
    assert!(!stopped.text.contains("####") && stopped.text.contains("10*2"), "{}", stopped.text);
    assert!(stopped.useful < stopped.filled());
}

#[test]
fn end_of_text_can_be_forbidden() {
    let mut engine = tiny("tiny-llada");
    let eos = engine.ends().of_text.unwrap();
    let count = |engine: &mut Engine, options: &RunOptions| {
        let prepared = prepare(engine, PROMPTS[0], options);
        let generation = engine.generate(prepared).unwrap();
        generation.canvas.tokens().iter().filter(|&&token| token == eos).count()
    };
    assert!(count(&mut engine, &options(json!({"length": 64}))) > 0);
    assert_eq!(count(&mut engine, &options(json!({"length": 64, "logits_eos_inf": true}))), 0);
}
