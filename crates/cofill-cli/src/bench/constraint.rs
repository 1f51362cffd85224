//! `cofill bench constraint`: what holding a text to a language adds to a step.
//!
//! As in `bench overhead`, both contenders make a step from the same canvas right after each other, in alternating order.

use super::overhead::median;
use super::step::{KeepArgs, SizeArgs, Split, step_of};
use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill::{Canvas, Constraint, Decode, SamplerSpec, TokenId};
use cofill_engine::Schema;
use cofill_grammar::{Grammar, Language, TokenAutomaton, Vocabulary};
use cofill_model::Model;
use cofill_report::statistics::bootstrap::{Bootstrap, LEVEL};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Measure what a constraint adds to a step: the ratio of a step that keeps a text in a language to one that does not.
///
/// `reduction` is what the head takes longer to sum up logits by classes of tokens, `filling` what finding the best valid filling takes,
/// both as shares of a plain step. The model has random weights, and its vocabulary made-up words.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// The language: a file with a JSON Schema, or `object` (default: a record of strings, numbers, dates and a list).
    #[arg(long, value_name = "FILE", value_parser = Schema::of_argument)]
    schema: Option<Schema>,
    /// The sampler.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:8")]
    sampler: SamplerSpec,
    /// Pairs of steps.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pairs: u32,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"born":{"type":"string","format":"date-time"},"kind":{"enum":["a","b","c"]},"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":4},"score":{"type":["number","null"]},"parts":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"ok":{"type":"boolean"}},"required":["id","ok"]},"maxItems":3}},"required":["name","born","kind","tags","score","parts"]}"#;

/// `--json`.
#[derive(Serialize)]
struct Answer {
    /// Step with the constraint over step without.
    ratio: f64,
    interval: [f64; 2],
    /// Summing logits up by classes, as a share of a plain step.
    reduction: f64,
    /// Finding the filling, likewise.
    filling: f64,
    pairs: usize,
    /// Medians.
    with_ms: f64,
    without_ms: f64,
    reduction_ms: f64,
    filling_ms: f64,
    states: usize,
    classes: usize,
    build_ms: f64,
    vocab: usize,
    threads: usize,
}

pub(crate) fn run(args: &Args) -> Done {
    let size = &args.size;
    let mut model = size.random(args.keep.of_random())?;
    let canvas = size.canvas(&model)?;
    let begun = Instant::now();
    let automaton = Arc::new(automaton(args, &model)?);
    let build_ms = begun.elapsed().as_secs_f64() * 1e3;
    let progress = Progress::measuring(args.pairs as usize, "steps".to_owned());
    let mut pairs: Vec<(Split, Split)> = Vec::new();
    let mut once = |with: bool| -> Done<Split> {
        let constraint = if with { Some(constraint(&automaton, &canvas)?) } else { None };
        let decode = Decode::builder(canvas.clone(), args.sampler.build()?).constraint(constraint).begin()?;
        Ok(step_of(&mut model, decode)?.0)
    };
    // Warm.
    once(false)?;
    once(true)?;
    for i in 0..args.pairs {
        let first = once(i % 2 == 0)?;
        let second = once(i % 2 != 0)?;
        pairs.push(if i % 2 == 0 { (first, second) } else { (second, first) });
        progress.measured();
    }
    drop(progress);
    let of = |number: fn(&(Split, Split)) -> f64| median(pairs.iter().map(number));
    let ratios: Vec<f64> = pairs.iter().map(|(with, without)| with.total_ms / without.total_ms).collect();
    let interval = Bootstrap::default()
        .replicates(ratios.len(), |drawn| median(drawn.iter().map(|&i| ratios[i])))
        .interval(LEVEL)
        .ok_or_else(|| Fail::request("--pairs must be at least 2"))?;
    let answer = Answer {
        ratio: of(|(with, without)| with.total_ms / without.total_ms),
        interval: [interval.low, interval.high],
        reduction: of(|(with, without)| (with.head_ms - without.head_ms) / without.total_ms),
        filling: of(|(with, without)| (with.select_ms - without.select_ms) / without.total_ms),
        pairs: pairs.len(),
        with_ms: of(|(with, _)| with.total_ms),
        without_ms: of(|(_, without)| without.total_ms),
        reduction_ms: of(|(with, without)| with.head_ms - without.head_ms),
        filling_ms: of(|(with, without)| with.select_ms - without.select_ms),
        states: automaton.states(),
        classes: automaton.classes().len(),
        build_ms,
        vocab: size.vocab,
        threads: rayon::current_num_threads(),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Answer { ratio, interval: [low, high], reduction, filling, states, classes, .. } = answer;
    writeln!(out, "{size}")?;
    writeln!(out, "{states} states, {classes} classes of tokens, compiled in {build_ms:.0} ms")?;
    writeln!(out, "with / without: {ratio:.3} [{low:.3}, {high:.3}], {} pairs", answer.pairs)?;
    writeln!(
        out,
        "of a plain step of {:.1} ms: reduction {:.2} %, filling {:.2} %",
        answer.without_ms,
        100.0 * reduction,
        100.0 * filling
    )?;
    Ok(ExitCode::SUCCESS)
}

fn constraint(automaton: &Arc<TokenAutomaton>, canvas: &Canvas) -> Done<Box<dyn Constraint>> {
    let grammar = Grammar::new(automaton.clone(), vec![canvas.window()], canvas.tokens(), canvas.mask_id());
    Ok(Box::new(grammar.map_err(cofill_engine::Error::from)?))
}

fn automaton(args: &Args, model: &Model) -> Done<TokenAutomaton> {
    let language = match &args.schema {
        Some(schema) if schema.is_any_object() => Language::any_json(),
        Some(schema) => Language::schema_text(schema.text()),
        None => Language::schema_text(SCHEMA),
    };
    let vocab = model.config().vocab;
    let mut bytes = made_up(vocab);
    let (mask, end) = (model.config().mask_id as usize, model.config().eos_id);
    bytes.get_mut(mask).into_iter().for_each(|bytes| *bytes = None);
    let vocabulary = Vocabulary { bytes, ends: if end as usize == mask { Vec::new() } else { vec![end] } };
    let made = language.and_then(|language| TokenAutomaton::new(&language, &vocabulary));
    Ok(made.map_err(cofill_engine::Error::from)?)
}

/// Every byte, then words as byte-level BPE has them: letters with and without a space before them, numbers, and marks.
fn made_up(vocab: usize) -> Vec<Option<Vec<u8>>> {
    let word = |token: usize| -> Vec<u8> {
        if let Ok(byte) = u8::try_from(token) {
            return vec![byte];
        }
        let mut random = (token as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % n
        };
        let (kind, letters) = (draw(20), 2 + draw(7));
        let from: &[u8] = match kind {
            0 => b"0123456789",
            1 => b"{}[]\":, \n.-_()<>=/",
            _ => b"etaoinshrdlucmfwypvbgkjqxz",
        };
        let space = (kind > 9).then_some(b' ');
        space.into_iter().chain((0..letters).map(|_| from[draw(from.len() as u64) as usize])).collect()
    };
    (0..vocab as TokenId).map(|token| Some(word(token as usize))).collect()
}
