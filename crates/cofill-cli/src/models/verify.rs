//! `cofill models verify`: a checkpoint against numbers from a reference implementation.

use crate::fail::{Done, Fail};
use crate::load_args::LoadArgs;
use crate::show::count;
use cofill_model::{Comparison, Deviation, Golden, Model, Tolerances};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare a checkpoint's logits, statistics and attention with a golden file. Exit code 1 when they deviate.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder in Hugging Face layout or a .gguf file.
    path: PathBuf,
    /// What a reference computed: safetensors with input_ids, logits, confidence, entropy, argmax and attn_mean per case.
    #[arg(long, value_name = "FILE")]
    golden: PathBuf,
    #[command(flatten)]
    load: LoadArgs,
    /// How far logits may be off.
    #[arg(long, value_name = "X", default_value_t = Tolerances::default().logits)]
    logits: f64,
    /// How far confidence may be off.
    #[arg(long, value_name = "X", default_value_t = Tolerances::default().confidence)]
    confidence: f64,
    /// How far entropy may be off, in nats.
    #[arg(long, value_name = "X", default_value_t = Tolerances::default().entropy)]
    entropy: f64,
    /// How far attention may be off.
    #[arg(long, value_name = "X", default_value_t = Tolerances::default().attention)]
    attention: f64,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let tolerances = args.tolerances()?;
    let golden = Golden::open(&args.golden)?;
    let cases = golden.cases()?;
    let mut model = Model::load_as(&args.path, args.load.options())?;
    let verdicts = cases.iter().map(|case| case.verify(&mut model, &tolerances)).collect::<cofill::Result<Vec<_>>>()?;
    let passes = verdicts.iter().all(Comparison::passes);
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", json!({"pass": passes, "cases": verdicts.iter().map(object).collect::<Vec<_>>()}))?,
        false => table(&mut out, &verdicts)?,
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Args {
    fn tolerances(&self) -> Done<Tolerances> {
        let Args { logits, confidence, entropy, attention, .. } = *self;
        for (name, given) in
            [("--logits", logits), ("--confidence", confidence), ("--entropy", entropy), ("--attention", attention)]
        {
            if given.is_nan() || given < 0.0 {
                return Err(Fail::request(format!("{name} must be 0 or more, but {given} was given")));
            }
        }
        Ok(Tolerances { logits, confidence, entropy, attention })
    }
}

fn object(verdict: &Comparison) -> Value {
    let deviation = |it: &Deviation| {
        // JSON has no infinity.
        let worst = it.worst.is_finite().then_some(it.worst);
        (it.quantity.to_owned(), json!({"worst": worst, "tolerance": it.tolerance, "pass": it.passes()}))
    };
    let deviations: Map<String, Value> = verdict.deviations.iter().map(deviation).collect();
    json!({
        "case": verdict.case,
        "pass": verdict.passes(),
        "deviations": deviations,
        "other_tokens": verdict.other_tokens,
        "skipped": verdict.skipped,
    })
}

fn table(out: &mut impl Write, verdicts: &[Comparison]) -> Done<()> {
    let width = verdicts.iter().map(|verdict| verdict.case.len()).max().unwrap_or(0).max("case".len());
    writeln!(out, "{:<width$}  {:<10}  {:>9}  {:>9}  verdict", "case", "quantity", "worst", "tolerance")?;
    for verdict in verdicts {
        for it in &verdict.deviations {
            let word = if it.passes() { "pass" } else { "FAIL" };
            let Deviation { quantity, worst, tolerance } = it;
            writeln!(out, "{:<width$}  {quantity:<10}  {worst:>9.1e}  {tolerance:>9.1e}  {word}", verdict.case)?;
        }
        if !verdict.other_tokens.is_empty() {
            let at = &verdict.other_tokens;
            writeln!(out, "{:<width$}  {:<10}  other tokens at positions {at:?}  FAIL", verdict.case, "tokens")?;
        }
        if let Some(why) = &verdict.skipped {
            writeln!(out, "{:<width$}  the rest is skipped: {why}", verdict.case)?;
        }
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.passes()).count();
    let all = count(verdicts.len(), "sequence");
    match failed {
        0 => writeln!(out, "{all}, all pass")?,
        failed => writeln!(out, "{all}, {failed} FAIL")?,
    }
    Ok(())
}
