//! `cofill eval`: score a model and a sampler on a mini task.

use crate::fail::{Done, Fail};
use crate::model::{KeepArgs, Model, NAMES};
use crate::progress::Progress;
use anyhow::Context;
use cofill::{SamplerSpec, TokenId};
use cofill_eval::run::{Codec, Run, Score};
use cofill_eval::tasks::mini::{Example, Mini, Split};
use cofill_model::Tokenizer;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Score a model and a sampler on a mini task; it needs no data files.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The task: chain, sums, code, sudoku or predicates.
    #[arg(long)]
    task: Mini,
    /// The model.
    #[arg(short, long, help = format!("The model: {NAMES}"))]
    model: String,
    #[command(flatten)]
    keep: KeepArgs,
    /// Which positions are committed together; `cofill samplers` lists the forms.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:1")]
    sampler: SamplerSpec,
    /// How many prompts.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Prompts decoded together; the result does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// train, validation or test: whose prompts. They share none.
    #[arg(long, default_value = "test")]
    split: Split,
    /// Which prompts of the split.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Write a line per prompt to FILE: prompt, answer, whether it is right or why not, forwards.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

/// The score, and a line of `--out` for whoever wants to know what it was made with.
#[derive(Serialize)]
struct Summary<'a> {
    task: &'a str,
    model: &'a str,
    sampler: &'a SamplerSpec,
    split: &'a str,
    seed: u64,
    n: usize,
    right: usize,
    accuracy: f64,
    standard_error: f64,
    nfe: f64,
    tokens_per_forward: f64,
    version: &'static str,
}

/// A line of `--out`.
#[derive(Serialize)]
struct Record<'a> {
    index: usize,
    prompt: &'a str,
    answer: &'a str,
    right: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    nfe: usize,
    filled: usize,
}

pub(crate) fn run(args: &Args) -> Done {
    let model = Model::load(&args.model, &args.keep)?;
    let examples: Vec<Example> = args.task.distinct(args.split, args.seed).take(args.limit as usize).collect();
    if examples.len() < args.limit as usize {
        let (task, n, split) = (args.task, examples.len(), args.split);
        return Err(Fail::request(format!("{task} has only {n} {split} prompts; lower --limit")));
    }
    let mut out = match &args.out {
        None => None,
        Some(path) => {
            let file = File::create(path).with_context(|| format!("--out: cannot write `{}`", path.display()));
            Some(BufWriter::new(file.map_err(Fail::Request)?))
        }
    };
    let (mut model, tokenizer) = model.into_checkpoint()?;
    let text = Text { tokenizer, end: model.config().eos_id };
    let run = Run { task: args.task, sampler: &args.sampler, codec: &text };
    let progress = Progress::scoring(examples.len());
    let mut score = Score::default();
    for examples in examples.chunks(args.batch as usize) {
        let outcomes = run.batch(&mut model, examples).map_err(|error| match error {
            cofill_eval::run::Error::Decode(error) => Fail::from(error),
            error => Fail::Request(error.into()),
        })?;
        for (example, outcome) in examples.iter().zip(&outcomes) {
            if let Some(out) = &mut out {
                let record = Record {
                    index: score.n,
                    prompt: &example.prompt,
                    answer: &outcome.answer,
                    right: outcome.wrong.is_none(),
                    why: outcome.wrong.as_deref(),
                    nfe: outcome.nfe,
                    filled: outcome.filled,
                };
                writeln!(out, "{}", serde_json::to_string(&record)?)?;
            }
            score.add(outcome);
        }
        progress.score(&score);
    }
    drop(progress);
    report(args, &score, out)
}

fn report(args: &Args, score: &Score, out: Option<BufWriter<File>>) -> Done {
    let summary = Summary {
        task: args.task.name(),
        model: &args.model,
        sampler: &args.sampler,
        split: args.split.name(),
        seed: args.seed,
        n: score.n,
        right: score.right,
        accuracy: score.accuracy(),
        standard_error: score.standard_error(),
        nfe: score.mean_nfe(),
        tokens_per_forward: score.per_forward(),
        version: env!("CARGO_PKG_VERSION"),
    };
    if let Some(mut out) = out {
        writeln!(out, "{}", serde_json::to_string(&summary)?)?;
        out.flush()?;
    }
    let mut stdout = std::io::stdout().lock();
    match args.json {
        true => writeln!(stdout, "{}", serde_json::to_string(&summary)?)?,
        false => writeln!(
            stdout,
            "{}  {}  {:.1} % ± {:.1} of {}  nfe {:.2}, {:.2} tokens per forward",
            args.task,
            args.sampler,
            100.0 * summary.accuracy,
            100.0 * summary.standard_error,
            score.n,
            summary.nfe,
            summary.tokens_per_forward,
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A checkpoint's tokenizer, and where its answers end.
struct Text {
    tokenizer: Tokenizer,
    end: TokenId,
}

impl Codec for Text {
    fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
        self.tokenizer.encode(text).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
        self.tokenizer.decode(tokens, true).map_err(|error| error.to_string())
    }

    fn end(&self) -> Option<TokenId> {
        Some(self.end)
    }
}
