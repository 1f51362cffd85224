use crate::{options, tiny};
use cofill::trace::{End, TraceWriter};
use cofill::{Query, SamplerSpec, Trace};
use cofill_engine::{Ended, Engine, Filling, Finish, Generation, Input, RunOptions};
use serde_json::json;
use std::ops::ControlFlow;

const PROMPT: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?";
/// The whole of it, so that nothing but an end can follow.
const ANSWERED: &str = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\n10*2=20\n20+1=21\n21+5=26\n26+4=30\n30-3=27\n#### 27";

/// Of every kind: rules, budgets, look-ahead, memory, remasking.
const SAMPLERS: [&str; 16] = [
    "topk:2+ad",
    "eb:3+ad",
    "fast:1.5",
    "threshold:0.9",
    "llada:8",
    "dream:8",
    "dream:8@origin",
    "klass",
    "less:0.4,0.1",
    "dapd",
    "punt",
    "dus:8",
    "p2:8",
    "lookum:3",
    "credit:0.6",
    "threshold-dream:0.4,4",
];

fn sampler(text: &str) -> SamplerSpec {
    text.parse().unwrap()
}

fn generate(engine: &mut Engine, prompt: &str, by: &str, options: &RunOptions) -> Generation {
    let ready = engine.prepare(&Input::Prompt(prompt.into()), &sampler(by), options).unwrap();
    engine.generate(ready).unwrap()
}

/// Writes the trace of a generation and reads it, which replays it.
fn replayed(engine: &Engine, generation: &Generation, by: &str, options: &RunOptions) -> Trace {
    let mut header = engine.trace_header(&generation.start, &sampler(by), options);
    header.probes = generation.probes();
    let mut out = Vec::new();
    let mut writer = TraceWriter::new(&mut out, &header).unwrap();
    generation.steps.iter().for_each(|step| writer.step(step).unwrap());
    writer.end(&generation.trace_end()).unwrap();
    Trace::read(out.as_slice()).unwrap()
}

#[test]
fn an_answer_grows_by_blocks_until_it_ends() {
    let mut engine = tiny("tiny-llada");
    let prompt = engine.encode(&format!("{PROMPT}\n")).unwrap().len();
    for by in SAMPLERS {
        for temperature in [0.0, 1.0] {
            let auto = options(json!({"length": "auto", "max_length": 64, "temperature": temperature, "seed": 4}));
            let generation = generate(&mut engine, PROMPT, by, &auto);
            let window = &generation.canvas.tokens()[prompt..];
            assert_eq!((window.len(), generation.start.n_masked()), (32 + generation.appended, 32), "{by}");
            assert_eq!((generation.canvas.n_masked(), generation.filled()), (0, window.len()), "{by}");
            let eos = engine.ends().of_text.unwrap();
            let last = window.chunks(32).next_back().unwrap();
            // It grows exactly while there is no end, so an end is in the last block or nowhere.
            assert!(!window[..window.len() - last.len()].contains(&eos), "{by}");
            assert_eq!(generation.ended, if last.contains(&eos) { Ended::Eos } else { Ended::Full }, "{by}");
            assert!(generation.ended == Ended::Eos || window.len() == 64, "{by}");
            assert_eq!(generation.is_cut_off(), generation.ended == Ended::Full, "{by}");
            assert_eq!(generation.nfe, generation.steps.iter().map(|step| step.forwards).sum::<usize>(), "{by}");
            let trace = replayed(&engine, &generation, by, &auto);
            assert_eq!((trace.nfe(), trace.steps.len()), (generation.nfe, generation.steps.len()), "{by}");
        }
    }
    let grown = generate(&mut engine, PROMPT, "topk:2+ad", &options(json!({"length": "auto"})));
    assert_eq!((grown.text.as_str(), grown.ended, grown.appended), (ANSWERED, Ended::Eos, 32));
    let short = generate(&mut engine, PROMPT, "topk:2+ad", &options(json!({"length": "auto", "block": 5})));
    assert!(short.ended == Ended::Eos && (short.filled() % 5, short.start.n_masked()) == (0, 5), "{}", short.text);
}

#[test]
fn a_growing_answer_is_the_same_in_company() {
    let mut engine = tiny("tiny-llada");
    let all = [
        json!({"length": "auto", "temperature": 0.7, "seed": 1}),
        json!({"length": 70}),
        json!({"length": "auto", "block": 8}),
    ];
    let all = all.map(options);
    let alone = all.each_ref().map(|options| generate(&mut engine, PROMPT, "eb:3+ad", options).canvas);
    let ready =
        all.iter().map(|options| engine.prepare(&Input::Prompt(PROMPT.into()), &sampler("eb:3+ad"), options).unwrap());
    let ready = ready.collect();
    let together = engine.generate_many(ready, &mut |_| ControlFlow::Continue(())).unwrap();
    for (one, other) in alone.iter().zip(together) {
        assert_eq!(one.tokens(), other.unwrap().canvas.tokens());
    }
}

#[test]
fn caps_limits_and_stop_strings_end_an_answer_that_grows() {
    let mut engine = tiny("tiny-llada");
    // 32 masks, 2 a forward: 16 forwards fill the first block, and 18 end in the second, 4 of whose masks are filled.
    let capped = |engine: &mut Engine, cap: usize| {
        let generation = generate(engine, PROMPT, "topk:2", &options(json!({"length": "auto", "max_nfe": cap})));
        (generation.nfe, generation.finish, generation.ended, generation.appended, generation.canvas.n_masked())
    };
    assert_eq!(capped(&mut engine, 16), (16, Finish::Capped, Ended::Capped, 0, 0));
    let (nfe, finish, _, appended, left) = capped(&mut engine, 18);
    assert_eq!((nfe, finish, appended, left), (18, Finish::Capped, 32, 28));
    // A look-ahead that is cut before its first step of a block leaves masks that no step speaks of.
    for cap in [17, 18, 30, 45, 66, 67, 68, 69] {
        let limited = options(json!({"length": "auto", "max_nfe": cap}));
        let generation = generate(&mut engine, PROMPT, "lookum:3", &limited);
        assert!(generation.nfe <= cap);
        replayed(&engine, &generation, "lookum:3", &limited);
    }
    let full = generate(&mut engine, PROMPT, "topk:2", &options(json!({"length": "auto", "max_length": 20})));
    assert_eq!((full.filled(), full.ended, full.is_cut_off()), (20, Ended::Full, true));
    let stopped = generate(&mut engine, PROMPT, "topk:2", &options(json!({"length": "auto", "stop": ["26"]})));
    assert_eq!((stopped.filled(), stopped.ended), (32, Ended::Stop), "the first block has it");
    assert!(stopped.text.ends_with("21+5="), "{}", stopped.text);
}

#[test]
fn what_cannot_grow_is_refused() {
    let refused = |engine: &Engine, input: &Input, json| {
        engine.prepare(input, &sampler("topk:2"), &options(json)).unwrap_err().to_string()
    };
    let prompt = Input::Prompt(PROMPT.into());
    let engine = tiny("tiny-llada");
    let said = refused(&engine, &prompt, json!({"length": "auto", "logits_eos_inf": true}));
    assert!(said.contains("may not end its text") && said.contains("in place of `auto`"), "{said}");
    let said = refused(&engine, &prompt, json!({"length": 9, "max_length": 9}));
    assert!(said.contains("max_length must be left out, unless the length is `auto`"), "{said}");
    let said = refused(&engine, &prompt, json!({"length": "auto", "max_length": 0}));
    assert!(said.contains("max_length must be 1 or more"), "{said}");
    let said = refused(&engine, &prompt, json!({"length": "auto", "max_length": 1_000_000}));
    assert!(said.contains("shorten it"), "{said}");
    let long = Input::PromptTokens(vec![1; engine.context()]);
    assert!(refused(&engine, &long, json!({"length": "auto"})).contains("shorten it"));
    let toy = Engine::open("toy", &RunOptions::default()).unwrap();
    assert!(refused(&toy, &Input::Nothing, json!({"length": "auto"})).contains("has no token that ends a text"));
    // What context is left is what an answer may grow to.
    let tight = Input::PromptTokens(vec![1; engine.context() - 7]);
    let ready = engine.prepare(&tight, &sampler("topk:2"), &options(json!({"length": "auto"}))).unwrap();
    assert_eq!(ready.start.n_masked(), 7);
}

#[test]
fn a_gap_is_as_long_as_the_model_is_surest_of() {
    let mut engine = tiny("tiny-dream");
    let template = Input::Template("10*2=[MASK:auto]\n20+1=[MASK:2]\n21+[MASK:auto]=26".into());
    let usual = RunOptions::default();
    let (settled, gaps) = engine.settle_gaps(&template, &usual).unwrap();
    let lengths: Vec<usize> = gaps.iter().map(|gap| gap.length).collect();
    let Input::Template(text) = &settled else { panic!("a template stays one") };
    assert_eq!(text, &format!("10*2=[MASK:{}]\n20+1=[MASK:2]\n21+[MASK:{}]=26", lengths[0], lengths[1]));
    // Each score again, from its definition: one forward, the mean confidence of the gap's masks, by the bias.
    for (i, gap) in gaps.iter().enumerate() {
        let best = gap.tried.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        for &(length, score) in &gap.tried {
            let others = if i == 0 { [length, 8] } else { [lengths[0], length] };
            let text = format!("10*2=[MASK:{}]\n20+1=[MASK:2]\n21+[MASK:{}]=26", others[0], others[1]);
            let start = engine.prepare(&Input::Template(text), &sampler("topk:2"), &usual).unwrap().start;
            let skip = if i == 0 { 0 } else { lengths[0] + 2 };
            let rows = &start.free()[skip..skip + length];
            let proposal = cofill::Proposal::greedy();
            let query = Query::new(start.tokens(), rows, &proposal).free(start.free());
            let answer = engine.denoiser().denoise(&[query]).unwrap().remove(0);
            let mean = answer.rows.iter().map(|row| row.confidence).sum::<f64>() / length as f64;
            let l = length as f64;
            let expected = mean / ((-1.77 * l).exp() + 0.56 * (-0.06 * l).exp() + 0.24);
            assert!((score - expected).abs() < 1e-12, "{length}: {score} is not {expected}");
            assert_eq!(score == best, length == gap.length);
        }
    }
    // Probes are forwards: they are counted, capped, and told in the trace.
    let probes: usize = gaps.iter().map(|gap| gap.tried.len()).sum();
    let ready = engine.prepare_auto(&template, &sampler("topk:2"), &usual).unwrap();
    assert_eq!((&ready.gaps, ready.probes()), (&gaps, probes));
    let generation = engine.generate(ready).unwrap();
    let forwards: usize = generation.steps.iter().map(|step| step.forwards).sum();
    assert_eq!((generation.nfe, generation.probes(), generation.ended), (probes + forwards, probes, Ended::Full));
    assert!(!generation.is_cut_off());
    assert_eq!(replayed(&engine, &generation, "topk:2", &usual).nfe(), generation.nfe);
    let capped = options(json!({"max_nfe": probes + 1}));
    let ready = engine.prepare_auto(&template, &sampler("topk:2"), &capped).unwrap();
    let generation = engine.generate(ready).unwrap();
    assert_eq!((generation.nfe, generation.steps.len(), generation.finish), (probes + 1, 1, Finish::Capped));
    let none = engine.prepare_auto(&template, &sampler("topk:2"), &options(json!({"max_nfe": 1}))).unwrap();
    let none = engine.generate(none).unwrap();
    assert_eq!((none.nfe, none.filled(), none.ended), (probes, 0, Ended::Capped));
    // Where no forward may be spent, a number must be given.
    let said = engine.prepare(&template, &sampler("topk:2"), &usual).unwrap_err().to_string();
    assert!(said.contains("give a number"), "{said}");
}

#[test]
fn ends_come_last_at_the_beginning_of_an_answer() {
    let mut engine = tiny("tiny-llada");
    let tail = engine.encode(ANSWERED).unwrap().len();
    let ends = engine.ends().tokens();
    let step_of = |generation: &Generation, position: usize| {
        generation.steps.iter().position(|step| step.commits.iter().any(|commit| commit.position == position)).unwrap()
    };
    let plain = generate(&mut engine, ANSWERED, "topk:1", &options(json!({"length": 6})));
    let early = plain.steps[0].commits[0];
    assert!(ends.contains(&early.token) && early.confidence > 0.5, "an end is the first that is written: {early:?}");
    for n in [1, 3, 6, 100] {
        let guarded = generate(&mut engine, ANSWERED, "topk:1", &options(json!({"length": 6, "min_tokens": n})));
        let held: Vec<usize> =
            (tail..tail + n.min(6)).filter(|&at| ends.contains(&guarded.canvas.tokens()[at])).collect();
        for &position in &held {
            let commit = guarded.steps[step_of(&guarded, position)].commits[0];
            assert_eq!(commit.confidence, 0.0, "an end counts for nothing there");
        }
        let others = (tail..tail + 6).filter(|at| !held.contains(at));
        let (first, last) =
            (held.iter().map(|&at| step_of(&guarded, at)).min(), others.map(|at| step_of(&guarded, at)).max());
        assert!(first.is_none() || last < first, "{n}: {first:?} {last:?}");
    }
    let off = generate(&mut engine, ANSWERED, "topk:1", &options(json!({"length": 6, "min_tokens": 0})));
    assert_eq!(off.steps, plain.steps);
}

#[test]
fn behind_a_committed_end_nothing_is_computed() {
    let mut engine = tiny("tiny-llada");
    let ends = engine.ends().tokens();
    let mut saved = 0;
    for by in SAMPLERS {
        let (plain, collapse) = (options(json!({"length": 64})), options(json!({"length": 64, "collapse": true})));
        let (plain, generation) =
            (generate(&mut engine, PROMPT, by, &plain), generate(&mut engine, PROMPT, by, &collapse));
        let whole = generation.steps.iter().filter_map(|step| step.collapsed.as_ref());
        for collapsed in whole.clone() {
            assert!(ends.contains(&collapsed.token) && collapsed.positions.iter().all(|&at| at > collapsed.by), "{by}");
            assert!(collapsed.positions.iter().all(|&at| generation.canvas.tokens()[at] == collapsed.token), "{by}");
        }
        assert_eq!(generation.finish, Finish::Complete, "{by}");
        replayed(&engine, &generation, by, &collapse);
        saved += plain.nfe.saturating_sub(generation.nfe);
        if by == "p2:8" {
            assert!(whole.count() == 0, "who takes commits back is left alone");
        }
    }
    assert!(saved > 0, "somebody saved a forward");
    // A gap ends nothing: something is given behind it.
    let template = Input::Template(format!("{ANSWERED}[MASK:8]\n"));
    let ready = engine.prepare(&template, &sampler("topk:1"), &options(json!({"collapse": true}))).unwrap();
    assert!(engine.generate(ready).unwrap().steps.iter().all(|step| step.collapsed.is_none()));
}

#[test]
fn whoever_reads_no_further_may_stop_at_the_end() {
    let mut engine = tiny("tiny-llada");
    for (json, expected) in [
        (json!({"length": 64}), Ended::Eos),
        (json!({"length": 64, "stop": ["26+"]}), Ended::Stop),
        (json!({"length": "auto", "block": 16, "stop": ["26+", "#"]}), Ended::Stop),
    ] {
        let ready = engine.prepare(&Input::Prompt(PROMPT.into()), &sampler("llada:64"), &options(json)).unwrap();
        let mut filling = Filling::new(vec![ready]);
        while filling.settled_end(&engine, 0).unwrap().is_none() && !filling.is_done() {
            filling.round(&mut engine, &mut |_| ControlFlow::Continue(())).unwrap();
        }
        assert_eq!(filling.settled_end(&engine, 0).unwrap(), Some(expected));
        assert_eq!(filling.settled_end(&engine, 1).unwrap(), None, "there is no such canvas");
        let generation = filling.finish(&engine).remove(0).unwrap();
        assert_eq!(generation.ended, expected, "its text has ended, however its canvas did");
        assert!(!generation.text.contains("26+") || expected == Ended::Eos, "{}", generation.text);
    }
}

/// An end is missed only where one was to be expected.
#[test]
fn an_answer_that_may_be_cut_off_is_told_from_one_that_fills_its_canvas() {
    let mut engine = tiny("tiny-llada");
    let cut = |engine: &mut Engine, input: Input, json| {
        let ready = engine.prepare(&input, &sampler("topk:8"), &options(json)).unwrap();
        let generation = engine.generate(ready).unwrap();
        (generation.ended, generation.is_cut_off())
    };
    let prompt = || Input::Prompt(PROMPT.into());
    assert!(!cut(&mut engine, prompt(), json!({})).1, "a question gets the positions that its answer needs");
    assert_eq!(cut(&mut engine, prompt(), json!({"length": 20})), (Ended::Full, true));
    assert_eq!(cut(&mut engine, prompt(), json!({"length": 64})).0, Ended::Eos);
    let other = Input::Prompt("Who are you?".into());
    assert_eq!(cut(&mut engine, other.clone(), json!({"length": 9, "logits_eos_inf": true})), (Ended::Full, false));
    assert_eq!(cut(&mut engine, other.clone(), json!({"length": 9})), (Ended::Full, true));
    let held = json!({"length": 3, "regex": "[0-9]{3}"});
    assert_eq!(cut(&mut engine, other, held), (Ended::Full, false), "what is in its language is complete");
    assert!(!cut(&mut engine, Input::Template("3+[MASK:1]=4".into()), json!({})).1);
    let mut toy = Engine::open("toy", &RunOptions::default()).unwrap();
    assert_eq!(cut(&mut toy, Input::Prompt("Alan".into()), json!({})), (Ended::Full, false), "it never ends");
    let end = End { nfe: 0, tokens: Vec::new(), appended: 0, cache: None };
    assert_eq!(serde_json::to_value(end).unwrap(), json!({"nfe": 0, "tokens": []}), "as an older version writes it");
}
