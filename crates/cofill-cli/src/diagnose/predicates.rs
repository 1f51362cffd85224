//! `cofill diagnose predicates`: appendix F's synthetic diagnostics.

use super::{OutputArgs, Subject, fingerprints, refuse};
use crate::fail::{Done, Fail};
use crate::progress::Progress;
use cofill::Layers;
use cofill_engine::{DEFAULT_MODEL, MODEL_NAMES, RunOptions};
use cofill_eval::diagnose::construction;
use cofill_eval::diagnose::predicates::{Error, Measured, PredicateOptions, report};
use cofill_eval::diagnose::state::Heads;
use serde_json::{Map, Value, json};

/// Compare masks that depend on each other with masks that do not, on arithmetic predicates.
///
/// The paper's appendix F. First, two integers are masked, in one predicate or in two, and both are filled in one
/// forward: how often does everything hold? Second, a share of all integers is masked: do masks of one predicate attend
/// to each other more than masks of different ones? Works for every model whose tokenizer has single tokens for small
/// integers, which is checked.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model; may be given several times.
    #[arg(short, long = "model", value_name = "MODEL", default_value = DEFAULT_MODEL, help = format!("The model; may be given several times: {MODEL_NAMES}"))]
    models: Vec<String>,
    #[command(flatten)]
    run: RunOptions,
    /// Texts of each kind.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// n: predicates in a text of the second diagnostic; sums, products, minima and maxima.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    predicates: u32,
    /// r: the share of its integers that is masked.
    #[arg(long, value_name = "R", default_value_t = 0.5, allow_negative_numbers = true)]
    ratio: f64,
    /// Which layer's attention: first, middle, last or a number.
    #[arg(long, value_name = "LAYER", default_value = "last")]
    layer: Layers,
    /// Also by every head of every layer: which is the best signal? One more forward for each text.
    #[arg(long)]
    heads: bool,
    /// Begin every text with the tokenizer's beginning-of-text token.
    #[arg(long)]
    bos: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args) -> Done {
    if !(args.ratio > 0.0 && args.ratio <= 1.0) {
        return Err(Fail::request(format!("--ratio is {}, but must be above 0 and at most 1", args.ratio)));
    }
    let seed = args.run.seed;
    refuse(&args.run)?;
    // Texts are complete and filled by the likeliest tokens; of the options of a run, these would say nothing.
    let RunOptions { chat, length, temperature, top_p, top_k, logits_eos_inf, confidence_eos_eot_inf, .. } = &args.run;
    let idle = [
        ("--chat", *chat),
        ("--length", length.is_some()),
        ("--temperature", *temperature != 0.0),
        ("--top-p", top_p.is_some()),
        ("--top-k", top_k.is_some()),
        ("--logits-eos-inf", *logits_eos_inf),
        ("--confidence-eos-eot-inf", *confidence_eos_eot_inf),
    ];
    if let Some((flag, _)) = idle.iter().find(|(_, given)| *given) {
        return Err(Fail::request(format!(
            "{flag} is not for predicates, whose texts have their own gaps; leave it out"
        )));
    }
    let mut options = PredicateOptions {
        examples: args.limit as usize,
        predicates: args.predicates as usize,
        ratio: args.ratio,
        seed,
        layers: args.layer,
        heads: if args.heads { Heads::Apart } else { Heads::Mean },
        bos: None,
    };
    let mut subjects = Subject::open_all(&args.models, &args.run, args.layer)?;
    let mut folder = args.output.folder("predicates", seed, what(args, &subjects)?)?;
    let mut all: Vec<Measured> = Vec::with_capacity(subjects.len());
    for Subject { name, engine } in &mut subjects {
        options.bos = if args.bos { Some(engine.bos()?) } else { None };
        let (weights, text) = engine.parts()?;
        let progress = Progress::measuring(options.examples, format!("predicates {name}"));
        let mut measured = Measured::new(name);
        for index in 0..options.examples {
            let (filled, between) = measured.add(weights, text, index, &options).map_err(|error| match error {
                Error::Construction(construction::Error::TooFew { ratio, predicates, masks }) => Fail::request(format!(
                    "`{name}`: --ratio {ratio} of {predicates} predicates masks {masks} integers; at least 2 are needed, raise --ratio or \
                     --predicates"
                )),
                Error::Construction(error) => Fail::Request(anyhow::Error::from(error).context(format!("`{name}`"))),
                Error::Model(error) => Fail::from(error),
            })?;
            if let Some(folder) = &mut folder {
                let filled = filled.iter().map(|filled| json!({"model": name, "filled": filled}));
                let between = between.iter().map(|between| json!({"model": name, "between": between}));
                for line in filled.chain(between) {
                    folder.line(&line).map_err(|error| Fail::Run(error.into()))?;
                }
            }
            progress.measured();
        }
        all.push(measured);
    }
    args.output.finish(&report(&all, &options, &args.output.bootstrap(seed)), folder)
}

/// Everything that decides the measurements.
fn what(args: &Args, subjects: &[Subject]) -> Done<Map<String, Value>> {
    let what = [
        ("models", fingerprints(&args.models, subjects)?),
        ("dtype", json!(args.run.dtype)),
        ("limit", json!(args.limit)),
        ("predicates", json!(args.predicates)),
        ("ratio", json!(args.ratio)),
        ("layer", json!(args.layer.to_string())),
        ("heads", json!(args.heads)),
        ("attention_of_source", json!(args.run.attention_of_source)),
        ("bos", json!(args.bos)),
        ("cfg", json!(args.run.cfg)),
    ];
    Ok(what.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
