//! What one score takes, opened: a task with its data and judges, and every default decided.
//!
//! Opening goes in two steps, because a plan must know what a point *is*, hashes included, without loading a single weight: the task
//! ([`OpenTask`]), then what it becomes with a model ([`ResolvedRun`]).

use crate::idle::{self, Idle};
use crate::infill::InfillTask;
use crate::judges::{self, JudgeSet};
use crate::own::FileTask;
use crate::run::{BenchmarkTask, MiniTask, Question, Reordered, Round, Run, Settings, Task};
use crate::spec::{EvalSpec, TaskOptions};
use cofill::Layers;
use cofill_engine::{About, Engine};
use cofill_model::Model;
use cofill_report::results::{self, Header, Record};
use cofill_tasks::TaskName;
use cofill_tasks::benchmarks::{self, Benchmark, Loaded, Variant};
use cofill_tasks::mini::{Example, Form, Mini, Split};
use cofill_tasks::own::{self, OwnTask, Wanted};
use cofill_tasks::wrapper::Wrapper;
use serde_json::{Map, Value, json};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How many questions of a mini task are asked, unless somebody says.
const MINI_LIMIT: usize = 500;
/// How many can be asked. There are more, but drawing until nothing new comes would take hours.
const MINI_MOST: usize = 100_000;

/// Why a score cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Opening the model or computing with it.
    #[error(transparent)]
    Engine(#[from] cofill_engine::Error),
    /// A mini task has fewer prompts than were asked for.
    #[error("{task} has only {most} {what}, and {limit} were asked for")]
    TooMany {
        /// The task.
        task: Mini,
        /// How many there are.
        most: usize,
        /// Which prompts are counted.
        what: String,
        /// How many were asked for.
        limit: usize,
    },
    /// A benchmark without its files.
    #[error("{task} needs its data files, and no folder was named")]
    NoData {
        /// The benchmark.
        task: Benchmark,
    },
    /// An infill without its rows, or with rows that cannot be asked.
    #[error(transparent)]
    Infill(#[from] crate::infill::Error),
    /// A task file, or one of its rows.
    #[error(transparent)]
    Own(#[from] own::Error),
    /// An option that the task does not have.
    #[error(transparent)]
    Idle(#[from] Idle),
    /// A recipe whose points cannot be opened.
    #[error(transparent)]
    Recipe(#[from] crate::recipe::Error),
    /// Its files, its prompts or its scores.
    #[error(transparent)]
    Benchmark(#[from] benchmarks::Error),
    /// Its judges.
    #[error(transparent)]
    Judges(#[from] judges::Error),
    /// A model that names no beginning of text, and a run that begins with one.
    #[error("`{model}` names no beginning-of-text token, and the run begins with one")]
    NoBos {
        /// The model.
        model: String,
    },
    /// A chat with a model that knows none. A score of the bare prompts would be one of another protocol.
    #[error("`{model}` has no chat template, and the run puts prompts through one")]
    NoChatTemplate {
        /// The model.
        model: String,
    },
    /// Nothing to generate.
    #[error("length is 0; give 1 or more")]
    NoLength,
    /// An option that makes no sense for this task.
    #[error("{option} is for tasks that continue a prompt, and {task} fills gaps")]
    NotForInfill {
        /// The option's name.
        option: &'static str,
        /// The task.
        task: TaskName,
    },
    /// Options that nobody can run with.
    #[error(transparent)]
    Options(#[from] cofill::Error),
    /// What was planned is not what is here.
    #[error(
        "`{name}` was planned with {field} {planned}, and here {field} is {here}; make it the same here, or plan again here"
    )]
    Changed {
        /// The point.
        name: String,
        /// The first field that differs.
        field: String,
        /// When it was planned.
        planned: Value,
        /// Now.
        here: Value,
    },
    /// A run that failed.
    #[error(transparent)]
    Run(#[from] crate::run::Error),
    /// The folder of a sweep.
    #[error(transparent)]
    Sweep(#[from] crate::sweep::Error),
    /// A point of a sweep that failed.
    #[error("point `{name}`: {source}")]
    Point {
        /// The point.
        name: String,
        /// Why.
        source: Box<Error>,
    },
}

/// The first `limit` prompts of a mini task's split.
pub fn mini_examples(task: Mini, options: &TaskOptions, limit: usize) -> Result<Vec<Example>, Error> {
    let split = options.split.unwrap_or(Split::Test);
    if limit > MINI_MOST {
        return Err(Error::TooMany { task, most: MINI_MOST, what: "prompts to ask".into(), limit });
    }
    let examples: Vec<Example> = task.distinct(split, options.corpus_seed).take(limit).collect();
    match examples.len() < limit {
        true => Err(Error::TooMany { task, most: examples.len(), what: format!("{split} prompts"), limit }),
        false => Ok(examples),
    }
}

/// A task with everything it asks and judges with.
pub enum OpenTask {
    /// A mini task and its questions.
    Mini(MiniTask),
    /// A benchmark.
    Benchmark {
        /// Its files.
        loaded: Box<Loaded>,
        /// Which of its prompts.
        variant: Variant,
        /// Who judges the answers.
        judges: JudgeSet,
    },
    /// Texts with gaps, of the user's own.
    Infill(InfillTask),
    /// A task file of the user's own.
    File(Box<FileTask>),
}

impl OpenTask {
    /// Generates or reads the questions, and starts the judges.
    pub fn open(spec: &EvalSpec) -> Result<OpenTask, Error> {
        let mut open = OpenTask::open_unjudged(spec)?;
        open.start_judges(spec)?;
        Ok(open)
    }

    /// Starts the judges of a task that was opened without.
    pub fn start_judges(&mut self, spec: &EvalSpec) -> Result<(), Error> {
        match self {
            OpenTask::Benchmark { loaded, judges, .. } => *judges = JudgeSet::start(loaded.benchmark(), &spec.judges)?,
            OpenTask::File(file) => file.judges = JudgeSet::start_own(&file.task, &spec.judges)?,
            OpenTask::Mini(_) | OpenTask::Infill(_) => {}
        }
        Ok(())
    }

    /// Generates or reads the questions, for whoever wants no scores.
    pub fn open_unjudged(spec: &EvalSpec) -> Result<OpenTask, Error> {
        match &spec.task {
            &TaskName::Mini(task) => {
                let limit = spec.questions.limit.map_or(MINI_LIMIT, Into::into);
                let examples = mini_examples(task, &spec.questions, limit)?;
                Ok(OpenTask::Mini(MiniTask { task, examples, stops: spec.run.stop.clone() }))
            }
            &TaskName::Benchmark(task) => {
                // Where `cofill data fetch` puts files, unless a folder is named.
                let fetched = || cofill_engine::data_folder().filter(|folder| folder.is_dir());
                let data = spec.data.clone().or_else(fetched).ok_or(Error::NoData { task })?;
                let loaded = Box::new(task.load(&data)?);
                let variant = Variant { shots: spec.questions.shots, ranks: spec.questions.ranks };
                loaded.prompts(variant)?; // refuses what cannot be asked, before a model is loaded
                Ok(OpenTask::Benchmark { loaded, variant, judges: JudgeSet::default() })
            }
            TaskName::Infill => Ok(OpenTask::Infill(InfillTask::open(spec.data.as_deref())?)),
            TaskName::File(file) => {
                let wanted = Wanted { split: spec.questions.split, shots: spec.questions.shots };
                let task = OwnTask::open(file.path(), wanted)?;
                Ok(OpenTask::File(Box::new(FileTask::new(task, &spec.run.stop))))
            }
        }
    }

    /// Two points with the same key ask the same.
    pub fn key(spec: &EvalSpec) -> String {
        let questions = TaskOptions { batch: None, wrapper: None, ..spec.questions.clone() };
        format!("{:?}", (&spec.task, questions, &spec.judges, &spec.data, &spec.run.stop))
    }

    /// How many questions a point asks.
    pub fn docs(&self, spec: &EvalSpec) -> usize {
        let docs = match self {
            OpenTask::Mini(task) => task.docs(),
            OpenTask::Benchmark { loaded, .. } => loaded.docs(),
            OpenTask::Infill(task) => task.docs(),
            OpenTask::File(file) => file.docs(),
        };
        spec.questions.limit.map_or(docs, |limit| docs.min(limit.get()))
    }

    /// At most `limit` questions with their numbers: the first of a mini task, some of every subject of a benchmark.
    pub fn sample(&self, limit: usize) -> Result<Vec<(usize, Question)>, Error> {
        match self {
            OpenTask::Mini(task) => first(task, limit),
            OpenTask::Infill(task) => first(task, limit),
            OpenTask::File(file) => first(&**file, limit),
            OpenTask::Benchmark { loaded, variant, .. } => {
                let prompts = loaded.prompts(*variant)?;
                let question = |doc| Ok((doc, Question { prompt: prompts.prompt(doc)?, form: Form::Continue }));
                loaded.balanced(limit).into_iter().map(question).collect()
            }
        }
    }

    /// What a reader of the score must know.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            OpenTask::Mini(_) | OpenTask::Infill(_) | OpenTask::File(_) => Vec::new(),
            OpenTask::Benchmark { loaded, .. } => loaded.warnings(),
        }
    }

    /// How many positions a model generates after a prompt by default; 0 where gaps are filled.
    pub fn length(&self) -> usize {
        match self {
            OpenTask::Mini(task) => task.task.length(),
            OpenTask::Benchmark { loaded, .. } => loaded.benchmark().length(),
            OpenTask::Infill(_) => 0,
            OpenTask::File(file) => file.task.length(),
        }
    }

    /// The task file, if it is one.
    pub fn file(&self) -> Option<&FileTask> {
        match self {
            OpenTask::File(file) => Some(file),
            _ => None,
        }
    }

    /// Refuses options that this task does not have, rather than ignore them.
    pub fn check_options(&self, spec: &EvalSpec) -> Result<(), Error> {
        idle::idle(spec, self.file()).map_or(Ok(()), |idle| Err(idle.into()))
    }

    /// Lends the task to whoever asks it.
    pub fn lend<T>(&self, run: &ResolvedRun, ask: impl FnOnce(&dyn Task) -> Result<T, Error>) -> Result<T, Error> {
        match self {
            OpenTask::Mini(task) => ask(task),
            OpenTask::Infill(task) => ask(task),
            OpenTask::File(file) => ask(&**file),
            OpenTask::Benchmark { loaded, variant, judges } => {
                let prompts = loaded.prompts(*variant)?;
                let stops = &run.settings.options.stop;
                ask(&BenchmarkTask { loaded, prompts, wrapper: run.wrapper, judges: judges.judges(), stops })
            }
        }
    }
}

/// The first questions of a task, with their numbers.
fn first(task: &dyn Task, limit: usize) -> Result<Vec<(usize, Question)>, Error> {
    (0..task.docs().min(limit)).map(|doc| Ok((doc, task.question(doc)?))).collect()
}

/// A point whose every default is decided.
#[derive(Debug, Clone)]
pub struct ResolvedRun {
    /// How canvases are made and filled.
    pub settings: Settings,
    /// Whose post-processing is followed.
    pub wrapper: Wrapper,
    /// What decides the records, but for the weights.
    what: Map<String, Value>,
}

impl ResolvedRun {
    /// Decides every default of a point, for a model of which no weight need be loaded.
    pub fn new(spec: &EvalSpec, task: &OpenTask, about: &About) -> Result<ResolvedRun, Error> {
        let held = held_to_options(spec, task)?;
        let spec = held.as_ref().unwrap_or(spec);
        spec.run.check()?;
        spec.run.check_companion(&spec.sampler)?;
        // A family's name is its wrapper's; the others have none.
        let wrapper = spec.questions.wrapper.unwrap_or_else(|| about.family.parse().unwrap_or_default());
        let (mut what, wants_bos) = match task {
            OpenTask::Mini(task) => {
                let infill = task.task.form() == Form::Infill;
                if infill && spec.run.chat {
                    return Err(Error::NotForInfill { option: "chat", task: spec.task.clone() });
                }
                let options = &spec.questions;
                let corpus = [
                    ("split", json!(options.split.unwrap_or(Split::Test).name())),
                    ("corpus_seed", json!(options.corpus_seed)),
                ];
                (corpus.map(|(name, value)| (name.into(), value)).into_iter().collect(), false)
            }
            OpenTask::Benchmark { loaded, variant, judges } => {
                let mut what = scoring(loaded, wrapper, judges);
                what.insert("shots".into(), json!(loaded.prompts(*variant)?.shots()));
                what.insert("ranks".into(), json!(spec.questions.ranks));
                (what, wrapper.begins_with_bos())
            }
            OpenTask::Infill(task) => {
                if spec.run.chat {
                    return Err(Error::NotForInfill { option: "chat", task: spec.task.clone() });
                }
                (Map::from_iter([("data".into(), task.source())]), false)
            }
            OpenTask::File(file) => (file.what(), false),
        };
        let (bos, end) = match spec.run.bos.unwrap_or(wants_bos || about.frame.is_some()) {
            true => {
                let bos = about.bos.ok_or_else(|| Error::NoBos { model: spec.model.clone() })?;
                (Some(bos), about.frame.map(|(_, end)| end))
            }
            false => (None, None),
        };
        let length = spec.run.fixed_length().map_err(cofill_engine::Error::from)?;
        if length == Some(0) {
            return Err(Error::NoLength);
        }
        if spec.run.chat && !about.chats {
            return Err(Error::NoChatTemplate { model: spec.model.clone() });
        }
        let length = length.unwrap_or(task.length());
        let named = [("task", json!(spec.task.name())), ("model", json!(spec.model)), ("sampler", json!(spec.sampler))];
        what.extend(named.map(|(name, value)| (name.into(), value)));
        what.extend(spec.run.deciding(length, bos));
        // A sampler from elsewhere says itself when it decides differently; ours have the version of this program.
        if let Some(version) = &spec.sampler.entry().version {
            what.insert("sampler_version".into(), json!(version));
        }
        // Neither is among the files that a model's fingerprint covers, and only some samplers ask them.
        if spec.sampler.build()?.needs().attention == Some(Layers::Learned) {
            let missing = || cofill_model::Error::NoPairHead { path: spec.place() };
            let sha256 = about.pair_head.as_ref().ok_or_else(missing).map_err(cofill_engine::Error::from)?;
            what.insert("pair_head_sha256".into(), json!(sha256));
        }
        let options = spec.located_run();
        if let Some(companion) = &options.companion {
            let checkpoint = Engine::checkpoint_at(Path::new(companion))?;
            let sha256 = checkpoint.fingerprint().map_err(cofill_engine::Error::from)?;
            what.insert("companion_sha256".into(), json!(sha256));
        }
        let settings = Settings { sampler: spec.sampler.clone(), options, length, bos, end };
        Ok(ResolvedRun { settings, wrapper, what })
    }

    /// What a file of results begins with; `model_sha256` is the checkpoint's fingerprint, `made_by` who runs this
    /// ([`cofill_engine::provenance`]).
    pub fn header(&self, model_sha256: &str, made_by: &Value) -> Header {
        let mut what = self.what.clone();
        what.insert("model_sha256".into(), json!(model_sha256));
        Header { cofill_eval: results::VERSION, what, made_by: made_by.clone() }
    }
}

/// The same run, its answers held to the options of a task file that says so.
fn held_to_options(spec: &EvalSpec, task: &OpenTask) -> Result<Option<EvalSpec>, Error> {
    let Some(options) = task.file().and_then(|file| file.task.held_to()) else { return Ok(None) };
    if let given @ [_, ..] = spec.run.constraints().as_slice() {
        let limit = "left out, since the task file holds answers to its options (constrain = true)".into();
        return Err(cofill::Error::BadSetting { what: "constraint", limit, given: given.join(" and ") }.into());
    }
    let mut spec = spec.clone();
    spec.run.choice = options.to_vec();
    Ok(Some(spec))
}

/// One score, open: a model, a task, and every default decided.
pub struct Evaluation {
    engine: Engine,
    task: OpenTask,
    run: ResolvedRun,
    docs: usize,
    batch: usize,
}

impl Evaluation {
    /// Opens the task, then the model: what is wrong with a request shows before weights are read.
    pub fn open(spec: &EvalSpec) -> Result<Evaluation, Error> {
        let mut task = OpenTask::open_unjudged(spec)?;
        task.check_options(spec)?;
        task.start_judges(spec)?;
        let checkpoint = Engine::checkpoint_at(&spec.place())?;
        let spec = &EvalSpec { sampler: cofill_engine::settle(&spec.sampler, &checkpoint)?, ..spec.clone() };
        let run = ResolvedRun::new(spec, &task, &About::checkpoint(&checkpoint)?)?;
        let engine = Engine::of_checkpoint(checkpoint, &run.settings.options)?;
        let (docs, batch) = (task.docs(spec), batch(&engine, spec.questions.batch));
        Ok(Evaluation { engine, task, run, docs, batch })
    }

    /// What a file of results begins with, which takes a hash of all weights; `made_by` says who runs this
    /// ([`cofill_engine::provenance`]).
    pub fn header(&self, made_by: &Value) -> Result<Header, Error> {
        Ok(self.run.header(&self.engine.fingerprint()?, made_by))
    }

    /// While the flag is set, every forward fails: how another thread ends the score.
    pub fn stop_when(&mut self, flag: Option<Arc<AtomicBool>>) {
        self.engine.stop_when(flag);
    }

    /// How many questions there are.
    pub fn docs(&self) -> usize {
        self.docs
    }

    /// What a reader of the score must know.
    pub fn warnings(&self) -> Vec<String> {
        let loaded = self.engine.warning().map(str::to_owned);
        self.task.warnings().into_iter().chain(loaded).collect()
    }

    /// Answers the next questions, as many as are best asked together, from `doc` on. Nothing when there are no more.
    pub fn next(&mut self, doc: usize) -> Result<Vec<Record>, Error> {
        self.next_watched(doc, &mut |_| {})
    }

    /// The same, and `watch` hears how far they are after every forward: a single answer may take minutes.
    pub fn next_watched(&mut self, doc: usize, watch: &mut dyn FnMut(Round)) -> Result<Vec<Record>, Error> {
        ask_watched(&mut self.engine, &self.task, &self.run, (doc..self.docs.min(doc + self.batch), None), watch)
    }
}

/// A point's model, and its fingerprint. Its checkpoint is opened once.
pub(crate) fn engine(spec: &EvalSpec) -> Result<(Engine, String), Error> {
    let engine = Engine::of_checkpoint(Engine::checkpoint_at(&spec.place())?, &spec.located_run())?;
    let sha256 = engine.fingerprint()?;
    Ok((engine, sha256))
}

/// Answers some questions of a task.
pub(crate) fn ask(
    engine: &mut Engine,
    task: &OpenTask,
    run: &ResolvedRun,
    docs: Range<usize>,
) -> Result<Vec<Record>, Error> {
    ask_watched(engine, task, run, (docs, None), &mut |_| {})
}

/// The same of a task whose questions stand in an order of their own.
pub(crate) fn ask_in_order(
    engine: &mut Engine,
    task: &OpenTask,
    run: &ResolvedRun,
    order: &[usize],
    docs: Range<usize>,
) -> Result<Vec<Record>, Error> {
    ask_watched(engine, task, run, (docs, Some(order)), &mut |_| {})
}

fn ask_watched(
    engine: &mut Engine,
    task: &OpenTask,
    run: &ResolvedRun,
    (docs, order): (Range<usize>, Option<&[usize]>),
    watch: &mut dyn FnMut(Round),
) -> Result<Vec<Record>, Error> {
    engine.configure(&run.settings.options)?; // points of a sweep share a model, not its guidance
    let mut rows = docs.clone().map(|doc| order.map_or(doc, |order| order[doc]));
    match task {
        OpenTask::Infill(task) => rows.try_for_each(|row| task.check(row, engine, &run.settings))?,
        OpenTask::File(file) => rows.try_for_each(|row| file.check(row, engine, &run.settings))?,
        OpenTask::Mini(_) | OpenTask::Benchmark { .. } => {}
    }
    let ends = engine.ends();
    let language = engine.language(&run.settings.options)?;
    let language = language.as_ref();
    let (model, codec) = engine.parts()?;
    task.lend(run, |task| {
        let reordered = order.map(|order| Reordered { task, order });
        let task = reordered.as_ref().map_or(task, |reordered| reordered as &dyn Task);
        Ok(Run { task, settings: &run.settings, codec, ends, language }.batch_watched(model, docs, watch)?)
    })
}

/// How many questions of a point are best asked together.
pub(crate) fn batch(engine: &Engine, wanted: Option<NonZeroUsize>) -> usize {
    wanted.map_or_else(|| engine.weights().map_or(1, Model::usual_batch), NonZeroUsize::get)
}

/// What decides the scores of a benchmark, beside the answers.
pub fn scoring(task: &Loaded, wrapper: Wrapper, judges: &JudgeSet) -> Map<String, Value> {
    let data = task.sources().iter().map(|source| {
        json!({"file": source.file.name, "rows": source.rows, "sha256": source.sha256, "known": source.is_known()})
    });
    let fields = [
        ("wrapper", json!(wrapper.name())),
        ("until", json!(task.benchmark().until())),
        ("equivalence", json!(judges.equivalence.as_ref().map(|judge| judge.name()))),
        ("execution", json!(judges.execute.as_ref().map(|judge| judge.describe()))),
        ("data", data.collect()),
        ("warnings", json!(task.warnings())),
    ];
    fields.map(|(name, value)| (name.into(), value)).into_iter().collect()
}
