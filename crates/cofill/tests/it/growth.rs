use crate::support::{EXAMPLES, MASK, Phrases, Setup, spec};
use cofill::toy::Toy;
use cofill::trace::{End, Header, TraceWriter, VERSION};
use cofill::trace_diff::{Difference, Why, diff};
use cofill::{Canvas, Decode, Step, TokenId, Trace, generate};

/// A sentence, and then a second one behind it.
fn grown(sampler: &str, temperature: f64) -> (Decode, Vec<Step>) {
    let mut decode = Setup::masks(6).sampled(temperature, 3).decode(sampler).unwrap();
    let mut steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    let mut decode = decode.grow(6, spec(sampler).build().unwrap()).unwrap();
    assert_eq!((decode.steps(), decode.appended()), (steps.len(), 6));
    steps.extend(generate(&mut Phrases::default(), &mut decode).unwrap());
    (decode, steps)
}

/// Writes a trace and reads it, which replays it.
fn trace(start: Vec<TokenId>, sampler: &str, steps: &[Step], end: Option<&End>) -> cofill::Result<Trace> {
    let header = Header {
        cofill_trace: VERSION,
        sampler: spec(sampler).form(),
        model: "toy".into(),
        tokens: start,
        mask_id: MASK,
        block: None,
        temperature: 0.0,
        seed: 0,
        pieces: Vec::new(),
        probes: 0,
    };
    let mut out = Vec::new();
    let mut writer = TraceWriter::new(&mut out, &header).unwrap();
    steps.iter().for_each(|step| writer.step(step).unwrap());
    if let Some(end) = end {
        writer.end(end).unwrap();
    }
    Trace::read(out.as_slice())
}

fn end(decode: &Decode) -> End {
    End { nfe: decode.nfe(), tokens: decode.canvas().tokens().to_vec(), appended: decode.appended(), cache: None }
}

#[test]
fn every_sampler_goes_on_where_a_canvas_grows() {
    for sampler in EXAMPLES {
        for temperature in [0.0, 1.0] {
            let (decode, steps) = grown(sampler, temperature);
            let canvas = decode.canvas();
            assert_eq!((canvas.n_masked(), canvas.tokens().len()), (0, 12), "{sampler}");
            assert_eq!(decode.nfe(), steps.iter().map(|step| step.forwards).sum::<usize>(), "{sampler}");
            assert!(steps.iter().enumerate().all(|(i, step)| step.step == i), "{sampler}");
            let first = steps.iter().position(|step| step.appended > 0).unwrap();
            assert!(steps[first..].iter().flat_map(Step::filled).all(|(position, _)| position >= 6), "{sampler}");
            let read = trace(vec![MASK; 6], sampler, &steps, Some(&end(&decode))).unwrap();
            assert_eq!((read.nfe(), read.steps), (decode.nfe(), steps), "{sampler}");
        }
    }
}

/// What was decoded before is to the sampler as if it had been given, so the same tokens come of it, whoever wrote them.
#[test]
fn a_block_is_decoded_as_if_those_before_it_had_been_given() {
    for sampler in EXAMPLES {
        let (decode, steps) = grown(sampler, 0.0);
        let first = steps.iter().position(|step| step.appended > 0).unwrap();
        let given = Canvas::prompt(&decode.canvas().tokens()[..6], 6, MASK);
        let other = Setup::canvas(given).must_run(sampler);
        let commits = |steps: &[Step]| steps.iter().map(|step| step.commits.clone()).collect::<Vec<_>>();
        if ["random", "origin", "shuffled", "alg_temp", "lookum"].iter().any(|noisy| sampler.contains(noisy)) {
            continue; // their noise goes on, and is another
        }
        assert_eq!(commits(&steps[first..]), commits(&other.steps), "{sampler}");
    }
}

#[test]
fn the_noise_of_a_block_is_not_that_of_the_one_before() {
    let mut decode = Setup::masks(6).sampled(1.0, 3).decode("topk:2").unwrap();
    generate(&mut Phrases::default(), &mut decode).unwrap();
    let decode = decode.grow(6, spec("topk:2").build().unwrap()).unwrap();
    assert_eq!(decode.query().unwrap().step, 3, "6 masks, 2 a step");
    assert_eq!(decode.query().unwrap().free.len(), 12, "what was generated was never given");
}

#[test]
fn a_cap_holds_for_all_blocks_and_a_canvas_with_masks_does_not_grow() {
    let mut decode = Setup::masks(6).capped(4).decode("topk:2").unwrap();
    generate(&mut Phrases::default(), &mut decode).unwrap();
    let mut decode = decode.grow(6, spec("topk:2").build().unwrap()).unwrap();
    let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    assert_eq!((steps.len(), decode.nfe(), decode.canvas().n_masked()), (1, 4, 4));
    let said = decode.grow(6, spec("topk:2").build().unwrap()).unwrap_err().to_string();
    assert!(said.contains("4 masks left"), "{said}");
}

#[test]
fn forwards_that_were_spent_before_count() {
    let builder = Decode::builder(Canvas::prompt(&[], 6, MASK), spec("topk:2").build().unwrap());
    let mut decode = builder.spent(5).cap(7).begin().unwrap();
    let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    assert_eq!((steps.len(), decode.nfe(), decode.canvas().n_masked()), (2, 7, 2));
}

/// A capped look-ahead leaves a canvas that grew, and no step that says so; the closing line does.
#[test]
fn a_trace_may_end_before_the_first_step_of_a_block() {
    let mut decode = Setup::masks(6).decode("topk:2").unwrap();
    let steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    let decode = decode.grow(6, spec("topk:2").build().unwrap()).unwrap();
    assert!(trace(vec![MASK; 6], "topk:2", &steps, Some(&end(&decode))).is_ok());
    let silent = End { appended: 0, ..end(&decode) };
    assert!(trace(vec![MASK; 6], "topk:2", &steps, Some(&silent)).is_err());
}

#[test]
fn a_trace_that_grows_wrongly_is_refused_by_its_line() {
    let (_, mut steps) = grown("topk:2", 0.0);
    steps[1].appended = 6;
    let said = trace(vec![MASK; 6], "topk:2", &steps, None).unwrap_err().to_string();
    assert!(said.contains("line 3") && said.contains("grows while it has 4 masks left"), "{said}");
    steps[1].appended = 0;
    steps[3].appended = usize::MAX;
    let said = trace(vec![MASK; 6], "topk:2", &steps, None).unwrap_err().to_string();
    assert!(said.contains("line 5") && said.contains("at most"), "{said}");
}

#[test]
fn traces_that_grow_differently_part_there() {
    let (decode, steps) = grown("topk:2", 0.0);
    let whole = trace(vec![MASK; 6], "topk:2", &steps, Some(&end(&decode))).unwrap();
    assert_eq!(diff(&whole, &whole), None);
    let mut decode = Setup::masks(6).decode("topk:2").unwrap();
    let mut steps = generate(&mut Phrases::default(), &mut decode).unwrap();
    let mut decode = decode.grow(12, spec("topk:2").build().unwrap()).unwrap();
    steps.extend(generate(&mut Phrases::default(), &mut decode).unwrap());
    let other = trace(vec![MASK; 6], "topk:2", &steps, None).unwrap();
    let Some(Difference::Step { step: 3, why, .. }) = diff(&whole, &other) else { panic!("they part at step 3") };
    assert_eq!(why, Why::Appended { masks: (6, 12) });
}

/// `topk:2` writes position 2 (`visited`) and another first: if that word ends a text, nothing behind it is decoded.
#[test]
fn behind_an_end_there_is_nothing_but_ends() {
    let plain = Setup::masks(6).must_run("topk:2");
    let (by, token) = plain.steps[0].filled().min().unwrap();
    assert_eq!(Toy::piece(token), "visited");
    let collapse = |canvas: Canvas, sampler: &str| {
        let builder = Decode::builder(canvas, spec(sampler).build().unwrap()).collapse(vec![token]);
        let mut decode = builder.begin().unwrap();
        let step = decode.absorb(&cofill::ask(&mut Phrases::default(), &[decode.query().unwrap()]).unwrap()[0]);
        (step.unwrap().unwrap(), decode)
    };
    let (step, decode) = collapse(Canvas::prompt(&[], 6, MASK), "topk:2");
    let committed: Vec<usize> = step.commits.iter().map(|commit| commit.position).collect();
    let rest: Vec<usize> = (by + 1..6).filter(|position| !committed.contains(position)).collect();
    let collapsed = step.collapsed.clone().unwrap();
    assert_eq!((collapsed.by, collapsed.token, &collapsed.positions), (by, token, &rest));
    let left: Vec<usize> = (0..by).filter(|position| !committed.contains(position)).collect();
    assert_eq!(decode.canvas().masked().collect::<Vec<_>>(), left, "what stands before the end is still to be filled");
    let read = trace(vec![MASK; 6], "topk:2", std::slice::from_ref(&step), None).unwrap();
    let mut canvas = read.canvas();
    step.apply(&mut canvas).unwrap();
    assert_eq!(canvas.tokens(), decode.canvas().tokens());
    let without = trace(vec![MASK; 6], "topk:2", &plain.steps, None).unwrap();
    let Some(Difference::Step { step: 0, why, .. }) = diff(&read, &without) else { panic!("they part at once") };
    assert_eq!(why, Why::Collapsed { trace: 'A', by });
    // Nothing ends where something is given behind it, and whoever takes commits back is left alone.
    let again = plain.tokens[5];
    let mut infill = vec![MASK; 6];
    infill[5] = again;
    assert_eq!(collapse(Canvas::new(infill, MASK), "topk:2").0.collapsed, None);
    let (step, _) = collapse(Canvas::prompt(&[], 6, MASK), "p2:2");
    assert!(step.filled().any(|(_, written)| written == token) && step.collapsed.is_none());
}
