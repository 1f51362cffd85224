//! `cofill select`: a sampler as a filter, so that any engine in any language can use it.
//!
//! One JSON object a line in, one a line out, flushed at once: an engine can keep the process open and ask step by step. A bad line
//! gets an answer too (`{"line":..,"error":..}`, and the same on stderr); later lines are still processed.

use crate::fail::{Done, Fail, error_line, warning_line};
use cofill::{Attention, SamplerSpec, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::process::ExitCode;

/// Choose positions from numbers on stdin: the sampler as a filter.
///
/// Each line is one step: {"sampler":"topk:3+ad:40","confidence":[..],"entropy":[..],"attention":[[..]]}
///
/// A row of `attention` is the candidate (query), a column the chosen position (key). `entropy`, `margin` and `attention` are
/// needed only when the sampler needs them (`cofill samplers` says). Optional are `candidates` (the indices of the masked
/// positions, when the arrays cover context too), `masks_at_start`, `seed` and `step` (for random orders), and `id`, which is
/// given back. Samplers that look at more than one step are refused.
///
/// Each answer is {"selected":[..],"forced":false,"utility":[..]}, in pick order; a line that cannot be answered gets
/// {"line":N,"error":".."} and makes the exit code 2. Blank lines are skipped. With --why, an answer also says who was passed over
/// first, if anybody was: {"deferred":{"position":..,"by":..,"through":[..],"instead":..,"discount":..}}.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The sampler of lines that name none.
    #[arg(short, long, value_name = "SPEC")]
    sampler: Option<SamplerSpec>,
    /// Also say who was passed over first, because of whom, through which masks.
    #[arg(long)]
    why: bool,
}

/// One line of input.
#[derive(Deserialize)]
struct Step {
    sampler: Option<String>,
    confidence: Vec<f64>,
    entropy: Option<Vec<f64>>,
    margin: Option<Vec<f64>>,
    attention: Option<Vec<Vec<f64>>>,
    candidates: Option<Vec<usize>>,
    masks_at_start: Option<usize>,
    step: Option<usize>,
    seed: Option<u64>,
    id: Option<Value>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

/// One line of output.
#[derive(Serialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    selected: Vec<usize>,
    forced: bool,
    utility: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred: Option<Value>,
}

/// The answer to a line that cannot be answered.
#[derive(Serialize)]
struct Refusal<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    line: usize,
    error: &'a str,
}

pub(crate) fn run(args: &Args) -> Done {
    let mut out = std::io::stdout().lock();
    let mut warned = BTreeSet::new();
    let mut bad_lines = 0;
    for (number, line) in (1..).zip(std::io::stdin().lock().split(b'\n')) {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = match answer(&line, args, &mut warned) {
            Ok(answer) => answer,
            Err(error) => {
                bad_lines += 1;
                let message = format!("{error:#}");
                error_line(&format!("line {number}: {message}"));
                let id = serde_json::from_slice::<Value>(&line).ok().and_then(|value| value.get("id").cloned());
                serde_json::to_string(&Refusal { id, line: number, error: &message })?
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    match bad_lines {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Fail::request(format!("{} could not be answered", crate::show::count(bad_lines, "line")))),
    }
}

fn answer(line: &[u8], args: &Args, warned: &mut BTreeSet<String>) -> anyhow::Result<String> {
    let step: Step = serde_json::from_slice(line).map_err(|error| not_json(line, &error))?;
    for key in step.unknown.keys().filter(|key| !warned.contains(*key)).cloned().collect::<Vec<_>>() {
        warning_line(&format!("field `{key}` is not known and is ignored"));
        warned.insert(key);
    }
    let named = step.sampler.map(|text| text.parse()).transpose()?;
    let sampler = named.as_ref().or(args.sampler.as_ref());
    let sampler = sampler.ok_or_else(|| anyhow::anyhow!("no `sampler` in the line, and no --sampler was given"))?;

    let mut snapshot = Snapshot::new(&step.confidence).seed(step.seed.unwrap_or(0)).step(step.step.unwrap_or(0));
    if let Some(entropy) = &step.entropy {
        snapshot = snapshot.entropy(entropy);
    }
    if let Some(margin) = &step.margin {
        snapshot = snapshot.margin(margin);
    }
    if let Some(rows) = &step.attention {
        snapshot = snapshot.attention(Attention::from_rows(rows)?);
    }
    if let Some(candidates) = &step.candidates {
        snapshot = snapshot.candidates(candidates);
    }
    if let Some(masks) = step.masks_at_start {
        snapshot = snapshot.masks_at_start(masks);
    }
    let picks = snapshot.select(sampler)?;
    let utility = picks.iter().map(|pick| pick.utility).collect();
    let positions = step.candidates.unwrap_or_else(|| (0..step.confidence.len()).collect());
    let deferred = picks.deferral.filter(|_| args.why).map(|d| {
        let through: Vec<usize> = picks.through.iter().map(|&slot| positions[slot]).collect();
        let (position, by, instead) = (positions[d.deferred.0], positions[d.by.0], d.instead.map(|s| positions[s.0]));
        json!({"position": position, "by": by, "through": through, "instead": instead, "discount": d.discount})
    });
    let answer = Answer { id: step.id, selected: picks.positions(), forced: picks.forced, utility, deferred };
    Ok(serde_json::to_string(&answer)?)
}

/// JSON has no NaN, but Python writes one; say so instead of "expected value".
fn not_json(line: &[u8], error: &serde_json::Error) -> anyhow::Error {
    let at = error.column().saturating_sub(2);
    let here = line.get(at..).unwrap_or_default();
    let literal = ["NaN", "-NaN", "Infinity", "-Infinity"]
        .into_iter()
        .find(|literal| (0..3).any(|skip| here.get(skip..).is_some_and(|rest| rest.starts_with(literal.as_bytes()))));
    match literal {
        Some(literal) => anyhow::anyhow!("{literal} at column {}; every value must be a finite number", error.column()),
        None if error.is_data() => anyhow::anyhow!("{error}"),
        None => anyhow::anyhow!("not JSON: {error}"),
    }
}
