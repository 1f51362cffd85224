//! What one score takes, opened: a task with its data and judges, a model with its text, and the header that says which they were.
//!
//! `eval` makes a point from its arguments and `sweep` reads many from a recipe; from here on they are the same. Opening goes in two
//! steps, because a plan must know what a point *is*, hashes included, without loading a single weight.

use crate::fail::{Done, Fail, warning_line};
use crate::judges;
use crate::model;
use crate::provenance::provenance;
use crate::score::how;
use cofill::{Schedule, TokenId};
use cofill_eval::recipe::Point;
use cofill_eval::run::{self, BenchmarkTask, Codec, MiniTask, Run, Settings, Task};
use cofill_model::{Checkpoint, LoadOptions, Tokenizer};
use cofill_report::results::{self, Header, Record};
use cofill_tasks::TaskName;
use cofill_tasks::benchmarks::{Loaded, Variant};
use cofill_tasks::mini::{Example, Mini, Split};
use cofill_tasks::wrapper::{Specials, Wrapper};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// How many questions of a mini task are asked, unless somebody says.
const MINI_LIMIT: usize = 500;
/// How many can be asked. There are more, but drawing until nothing new comes would take hours.
const MINI_MOST: usize = 100_000;

/// The first `limit` prompts of a mini task's split.
pub(crate) fn mini_examples(task: Mini, split: Split, corpus_seed: u64, limit: usize) -> Done<Vec<Example>> {
    if limit > MINI_MOST {
        let problem = format!("{task} has only {MINI_MOST} prompts to ask, and limit is {limit}");
        return Err(Fail::request(format!("{problem}; lower --limit")));
    }
    let examples: Vec<Example> = task.distinct(split, corpus_seed).take(limit).collect();
    match examples.len() < limit {
        true => Err(Fail::request(format!("{task} has only {} {split} prompts; lower --limit", examples.len()))),
        false => Ok(examples),
    }
}

/// A task with everything it asks and judges with.
pub(crate) enum Asked {
    Mini(MiniTask),
    Benchmark { loaded: Box<Loaded>, variant: Variant, made: cofill_eval::judges::JudgeSet },
}

impl Asked {
    /// Generates or reads the questions, and makes the judges.
    pub(crate) fn open(point: &Point) -> Done<Asked> {
        match point.task {
            TaskName::Mini(task) => {
                let limit = point.limit.unwrap_or(MINI_LIMIT);
                let examples = mini_examples(task, point.split, point.corpus_seed, limit)?;
                Ok(Asked::Mini(MiniTask { task, examples }))
            }
            TaskName::Benchmark(task) => {
                let data = point.data.as_ref().ok_or_else(|| {
                    let remedy = "add --data DIR, `cofill data check DIR` says which";
                    Fail::request(format!("{task} needs its data files; {remedy}"))
                })?;
                let loaded = Box::new(task.load(data)?);
                let variant = Variant { shots: point.shots, ranks: point.ranks };
                loaded.prompts(variant)?; // refuses what cannot be asked, before a model is loaded
                let made = judges::start(task, point.math, &point.python, point.unsafe_exec)?;
                Ok(Asked::Benchmark { loaded, variant, made })
            }
        }
    }

    /// Two points with the same key ask the same.
    pub(crate) fn key(point: &Point) -> String {
        let Point { task, limit, split, corpus_seed, shots, ranks, data, math, python, unsafe_exec, .. } = point;
        format!("{:?}", (task, limit, split, corpus_seed, shots, ranks, data, math, python, unsafe_exec))
    }

    /// How many questions a point asks.
    pub(crate) fn docs(&self, point: &Point) -> usize {
        let docs = match self {
            Asked::Mini(task) => task.docs(),
            Asked::Benchmark { loaded, .. } => loaded.docs(),
        };
        point.limit.map_or(docs, |limit| docs.min(limit))
    }

    /// Tells what a reader of the score must know.
    pub(crate) fn warn(&self) {
        if let Asked::Benchmark { loaded, .. } = self {
            loaded.warnings().iter().for_each(|warning| warning_line(warning));
        }
    }

    /// Lends the task to whoever asks it.
    pub(crate) fn lend<T>(&self, wrapper: Wrapper, ask: impl FnOnce(&dyn Task) -> Done<T>) -> Done<T> {
        match self {
            Asked::Mini(task) => ask(task),
            Asked::Benchmark { loaded, variant, made } => {
                let prompts = loaded.prompts(*variant)?;
                ask(&BenchmarkTask { loaded, prompts, wrapper, judges: made.judges() })
            }
        }
    }
}

/// What a point needs to know of its model, short of its weights.
pub(crate) struct About {
    /// The family's name, which is also its wrapper's, if it has one.
    family: String,
    bos: Option<TokenId>,
}

impl About {
    /// Of a checkpoint of which nothing is loaded.
    pub(crate) fn checkpoint(checkpoint: &Checkpoint) -> Done<About> {
        Ok(About { family: checkpoint.config()?.family.to_string(), bos: checkpoint.tokenizer()?.bos() })
    }
}

/// A point whose every default is decided.
pub(crate) struct Settled {
    pub(crate) settings: Settings,
    pub(crate) wrapper: Wrapper,
    /// What decides the records, but for the weights.
    what: Map<String, Value>,
}

impl Settled {
    pub(crate) fn new(point: &Point, asked: &Asked, about: &About) -> Done<Settled> {
        keep(point)?; // what cannot be kept is refused by a plan already
        // A family's name is its wrapper's; the others have none.
        let wrapper = point.wrapper.unwrap_or_else(|| about.family.parse().unwrap_or_default());
        let (mut what, wants_bos) = match asked {
            Asked::Mini(_) => {
                let corpus = [("split", json!(point.split.name())), ("corpus_seed", json!(point.corpus_seed))];
                (corpus.map(|(name, value)| (name.into(), value)).into_iter().collect(), false)
            }
            Asked::Benchmark { loaded, variant, made } => {
                let mut what = how(loaded, wrapper, made);
                what.insert("shots".into(), json!(loaded.prompts(*variant)?.shots()));
                what.insert("ranks".into(), json!(point.ranks));
                (what, wrapper.begins_with_bos())
            }
        };
        let bos = match point.bos.unwrap_or(wants_bos) {
            true => Some(about.bos.ok_or_else(|| {
                Fail::request(format!("`{}` names no beginning-of-text token; give --bos false", point.model))
            })?),
            false => None,
        };
        let settings = Settings {
            sampler: point.sampler.clone(),
            length: point.length.unwrap_or(point.task.length()),
            schedule: point.block.map_or(Schedule::Full, |len| Schedule::Blocks { len }),
            temperature: point.temperature,
            seed: point.seed,
            bos,
        };
        let common = [
            ("task", json!(point.task.name())),
            ("model", json!(point.model)),
            ("dtype", json!(point.dtype)),
            ("sampler", json!(point.sampler)),
            ("length", json!(settings.length)),
            ("block", json!(point.block)),
            ("temperature", json!(point.temperature)),
            ("seed", json!(point.seed)),
            ("bos", json!(settings.bos)),
        ];
        what.extend(common.map(|(name, value)| (name.into(), value)));
        Ok(Settled { settings, wrapper, what })
    }

    /// What a file of results begins with; `model_sha256` is the checkpoint's fingerprint.
    pub(crate) fn header(&self, model_sha256: &str) -> Header {
        let mut what = self.what.clone();
        what.insert("model_sha256".into(), json!(model_sha256));
        Header { cofill_eval: results::VERSION, what, made_by: provenance() }
    }
}

/// A model that can be asked.
pub(crate) struct Ready {
    pub(crate) model: cofill_model::Model,
    text: Text,
}

impl Ready {
    /// Loads a point's model.
    pub(crate) fn load(point: &Point) -> Done<Ready> {
        let (model, text) = Text::load(&model::checkpoint(&point.place())?, keep(point)?)?;
        Ok(Ready { model, text })
    }

    pub(crate) fn about(&self) -> About {
        About { family: self.model.config().family.to_string(), bos: self.text.tokenizer.bos() }
    }

    /// How many questions of a point are asked together.
    pub(crate) fn batch(&self, point: &Point) -> usize {
        point.batch.unwrap_or(self.model.usual_batch())
    }

    /// Answers some questions.
    pub(crate) fn ask(&mut self, task: &dyn Task, settings: &Settings, docs: Range<usize>) -> Done<Vec<Record>> {
        let run = Run { task, settings, codec: &self.text };
        let records = run.batch(&mut self.model, docs).map_err(|error| match error {
            run::Error::Decode(error) => Fail::from(error),
            error => Fail::Request(error.into()),
        })?;
        for record in &records {
            judges::warn(record.doc_id, record.judge_failure());
        }
        Ok(records)
    }
}

/// How a point's weights are kept.
fn keep(point: &Point) -> Done<LoadOptions> {
    let wrong = |key: &str, given: &str, expected: &str| Fail::request(format!("{key} `{given}`: {expected}"));
    let dtype = point.dtype.as_ref().map(|dtype| dtype.parse().map_err(|error: String| wrong("dtype", dtype, &error)));
    let device = point.device.parse().map_err(|error: String| wrong("device", &point.device, &error))?;
    Ok(LoadOptions { dtype: dtype.transpose()?, device })
}

/// A checkpoint's tokenizer.
pub(crate) struct Text {
    pub(crate) tokenizer: Tokenizer,
    eos: String,
}

impl Text {
    /// A checkpoint and its text.
    pub(crate) fn load(checkpoint: &Checkpoint, keep: LoadOptions) -> Done<(cofill_model::Model, Text)> {
        let model = cofill_model::Model::of(checkpoint, keep)?;
        let tokenizer = checkpoint.tokenizer()?;
        tokenizer.check_mask(model.config().mask_id)?;
        let eos = tokenizer.piece(model.config().eos_id);
        Ok((model, Text { tokenizer, eos }))
    }
}

impl Specials for Text {
    fn eos(&self) -> Option<&str> {
        Some(&self.eos)
    }

    fn remove(&self, text: &str) -> Result<String, String> {
        let tokens = self.encode(text)?;
        self.tokenizer.decode(&tokens, true).map_err(|error| error.to_string())
    }
}

impl Codec for Text {
    fn encode(&self, text: &str) -> Result<Vec<TokenId>, String> {
        self.tokenizer.encode(text).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[TokenId]) -> Result<String, String> {
        self.tokenizer.decode(tokens, false).map_err(|error| error.to_string())
    }
}
