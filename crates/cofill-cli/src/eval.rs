//! `cofill eval`: score a model and a sampler on a task.

use crate::fail::{Done, Fail, warning_line};
use crate::judges::{self, JudgeArgs};
use crate::model::{DEFAULT, KeepArgs, NAMES, checkpoint};
use crate::output::ForceArgs;
use crate::progress::Progress;
use crate::setup::{Asked, Ready, Settled};
use cofill::SamplerSpec;
use cofill_eval::recipe::Point;
use cofill_report::output::{self, Existing};
use cofill_report::results::{self, Header, Results, Totals};
use cofill_tasks::TaskName;
use cofill_tasks::mini::Split;
use cofill_tasks::wrapper::Wrapper;
use serde_json::json;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Score a model and a sampler on a task.
///
/// chain, sums, code, sudoku and predicates need no data files. gsm8k, gsm8k_cot, math500, humaneval and mbpp read theirs from
/// --data, and ask and score as lm-evaluation-harness 0.4.8 does. A result depends on neither --batch nor the number of threads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// chain, sums, code, sudoku, predicates, gsm8k, gsm8k_cot, math500, humaneval or mbpp.
    #[arg(long)]
    task: TaskName,
    /// The model.
    #[arg(short, long, default_value = DEFAULT, help = format!("The model: {NAMES}"))]
    model: String,
    #[command(flatten)]
    keep: KeepArgs,
    /// Which positions are committed together; `cofill samplers` lists the forms.
    #[arg(short, long, value_name = "SPEC", default_value = "topk:1")]
    sampler: SamplerSpec,
    /// How many questions (default: 500 of a mini task, all of a benchmark).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Positions to generate (default: the paper's, and what a mini task needs).
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,
    /// Decode blocks of N positions from left to right (default: no blocks).
    #[arg(long, value_name = "N")]
    block: Option<usize>,
    /// 0 proposes the likeliest token, more draws at random.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f64,
    /// The root of all randomness.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Questions decoded together (default: 16 for narrow models, 1 for others).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Of a mini task: train, validation or test. They share no prompt.
    #[arg(long, default_value = "test")]
    split: Split,
    /// Of a mini task: which prompts of the split.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    corpus_seed: u64,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Of a benchmark: few-shot examples (default: the paper's).
    #[arg(long, value_name = "N")]
    shots: Option<usize>,
    /// Of gsm8k: draw few-shot examples as the harness does on N processes.
    #[arg(long, value_name = "N", default_value = "1")]
    ranks: NonZeroUsize,
    /// Of a benchmark: plain, llada or dream, whose treatment of special tokens is followed (default: that of the model's family).
    #[arg(long)]
    wrapper: Option<Wrapper>,
    /// Begin every prompt with the tokenizer's beginning-of-text token (default: only with --wrapper dream, as Dream's scripts do).
    #[arg(long, value_name = "BOOL")]
    bos: Option<bool>,
    #[command(flatten)]
    judges: JudgeArgs,
    /// Write what was run to FILE, then a line per question: tokens, text, scores, forwards, seconds.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Continue FILE where it ends, after whatever stopped it.
    #[arg(long, requires = "out", conflicts_with = "force")]
    resume: bool,
    #[command(flatten)]
    force: ForceArgs,
    /// Answer with one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let point = args.point();
    if let (Some(path), false) = (&args.out, args.resume) {
        // Before a model is loaded and hashed.
        check(path, args.force.existing())?;
    }
    let asked = Asked::open(&point)?;
    let mut ready = Ready::load(&point)?;
    let settled = Settled::new(&point, &asked, &ready.about())?;
    asked.warn();
    let docs = asked.docs(&point);
    let mut totals = Totals::default();
    let mut out = match &args.out {
        None => None,
        Some(path) => {
            let header = settled.header(&checkpoint(&point.place())?.fingerprint()?);
            let (results, done) = open(path, args, &header)?;
            // Of a file that was made with a higher limit, the score of this one.
            done.iter().take(docs).for_each(|record| totals.add(record));
            Some(results)
        }
    };
    let progress = Progress::scoring(docs);
    progress.score(&totals);
    let batch = ready.batch(&point);
    asked.lend(settled.wrapper, |task| {
        while totals.n < docs {
            let records = ready.ask(task, &settled.settings, totals.n..docs.min(totals.n + batch))?;
            for record in &records {
                if let Some(out) = &mut out {
                    out.append(record).map_err(|error| Fail::Run(error.into()))?;
                }
                totals.add(record);
            }
            progress.score(&totals);
        }
        Ok(())
    })?;
    drop(progress);
    report(args, &totals)
}

impl Args {
    /// What was typed, as an operating point.
    fn point(&self) -> Point {
        let judges = &self.judges;
        Point {
            task: self.task,
            model: self.model.clone(),
            sampler: self.sampler.clone(),
            length: self.length.map(|length| length as usize),
            limit: self.limit.map(|limit| limit as usize),
            block: self.block,
            temperature: self.temperature,
            seed: self.seed,
            split: self.split,
            corpus_seed: self.corpus_seed,
            shots: self.shots,
            ranks: self.ranks,
            wrapper: self.wrapper,
            bos: self.bos,
            math: judges.math(),
            python: judges.python.clone(),
            unsafe_exec: judges.unsafe_exec,
            dtype: self.keep.dtype(),
            device: self.keep.device(),
            batch: self.batch.map(|batch| batch as usize),
            models: None,
            data: self.data.clone(),
        }
    }
}

fn open(path: &Path, args: &Args, header: &Header) -> Done<(Results, Vec<results::Record>)> {
    let opened = match args.resume {
        true => Results::resume(path, header),
        false => Results::create(path, header, args.force.existing()).map(|results| (results, Vec::new())),
    };
    let (results, done) = opened.map_err(refused)?;
    if let Some(why) = results.unlocked() {
        let path = path.display();
        warning_line(&format!("`{path}` cannot be locked here ({why}); start no second run that writes to it"));
    }
    Ok((results, done))
}

fn check(path: &Path, existing: Existing) -> Done<()> {
    output::check(path, existing).map_err(|error| refused(error.into()))
}

/// Nothing was touched; that is part of the message.
fn refused(error: results::Error) -> Fail {
    let remedy = "it stays as it is; give another file, or --force instead of --resume to replace it";
    match error {
        results::Error::Output(error) => crate::output::refused("--out")(error),
        results::Error::Damaged { .. } => Fail::request(format!("--out: {error}; {remedy}")),
        error => Fail::request(format!("--out: {error}")),
    }
}

fn report(args: &Args, totals: &Totals) -> Done {
    let mut stdout = std::io::stdout().lock();
    let (score, error) = totals.score();
    if args.json {
        let answer = json!({
            "task": args.task.name(),
            "model": args.model,
            "sampler": args.sampler,
            "n": totals.n,
            "score": score,
            "standard_error": error,
            "filters": totals.means(),
            "nfe": totals.mean_nfe(),
            "tokens_per_forward": totals.per_forward(),
            "seconds": totals.seconds,
            "unjudged": totals.unjudged,
            "version": env!("CARGO_PKG_VERSION"),
        });
        writeln!(stdout, "{answer}")?;
        return judges::outcome(totals.unjudged, totals.n);
    }
    let percent = |mean: f64, error: Option<f64>| {
        let error = error.map(|error| format!(" ± {:.1}", 100.0 * error)).unwrap_or_default();
        format!("{:.1} %{error}", 100.0 * mean)
    };
    writeln!(
        stdout,
        "{}  {}  {} of {}  nfe {:.2}, {:.2} tokens per forward",
        args.task.name(),
        args.sampler,
        percent(score, error),
        totals.n,
        totals.mean_nfe(),
        totals.per_forward(),
    )?;
    let means = totals.tally.means();
    if means.len() > 1 {
        for mean in means {
            writeln!(stdout, "  {:<18} {:<12} {}", mean.filter, mean.metric, percent(mean.mean, mean.standard_error))?;
        }
    }
    judges::outcome(totals.unjudged, totals.n)
}
