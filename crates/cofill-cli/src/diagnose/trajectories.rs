//! `cofill diagnose intervention` and `deferral`: two readings of the same states.

use super::{OutputArgs, Subject, fingerprints, read, refuse};
use crate::fail::{Done, Fail, warning_line};
use crate::progress::Progress;
use cofill::adas::DEFAULT_ALPHA;
use cofill::{Denoiser, Layers, Proposal, SamplerSpec};
use cofill_engine::{DEFAULT_MODEL, MODEL_NAMES, RunOptions};
use cofill_eval::diagnose::folder::{Diagnosis, Folder};
use cofill_eval::diagnose::state::{Heads, Scope, State, StateOptions, Steps, states};
use cofill_eval::diagnose::{Setting, deferral as deferred, intervention as intervened};
use cofill_eval::idle::idle_for_all;
use cofill_eval::infill::masks_in;
use cofill_eval::open::{self, OpenTask, ResolvedRun};
use cofill_eval::run::{Question, Settings};
use cofill_eval::spec::{EvalSpec, JudgeOptions, TaskOptions};
use cofill_tasks::TaskName;
use cofill_tasks::mini::{Form, Mini, Split};
use cofill_tasks::wrapper::Wrapper;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Correlate attention among masks with what revealing one of them does to the others.
///
/// The paper's section 4 and appendix B. A confidence Top-k decode runs; at five of its steps the surest mask i is
/// revealed in a copy, nothing else, and the model is asked again. For every other position j that Top-k would commit
/// with i: A, its attention to i before; K, the KL divergence between its distributions before and after; u = A (1 - c
/// of i); s = c - alpha u, which is how ADAS ranks it. The answer is Spearman's correlation of A, u, c and s with K,
/// within states and over all; and how well u, and R, which is u along all paths through other masks, foretell that j's
/// likeliest token becomes another (AUC).
#[derive(clap::Args)]
pub(crate) struct InterventionArgs {
    #[command(flatten)]
    states: StateArgs,
    /// Measure the other positions that Top-k would commit with i, or all masks.
    #[arg(long, value_enum, default_value_t = ScopeArg::Selected)]
    scope: ScopeArg,
    /// Also by every head of every layer: which is the best signal? One more forward for each state.
    #[arg(long)]
    heads: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Compare what ADAS defers with what it takes instead.
///
/// The paper's appendix B, "Delayed-token stability". Where confidence Top-k and Top-k+AD have another choice after
/// their common first i, one position is deferred and one replaces it. After i alone is revealed: how much did either
/// change (KL), how did its confidence, and how often did that rise?
#[derive(clap::Args)]
pub(crate) struct DeferralArgs {
    #[command(flatten)]
    states: StateArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ScopeArg {
    /// The other k - 1.
    Selected,
    /// Every other mask.
    All,
}

/// Which decodes, and when they are probed.
#[derive(clap::Args)]
struct StateArgs {
    /// Tasks, as `cofill eval` names them, separated by commas (default: chain, sums, code and sudoku).
    #[arg(long = "task", value_name = "TASKS", value_delimiter = ',')]
    tasks: Vec<TaskName>,
    /// Prompts of your own: a file with a line {"prompt":".."} for each. Needs --length.
    #[arg(long, value_name = "FILE", requires = "length")]
    prompts: Option<PathBuf>,
    /// The model; may be given several times.
    #[arg(short, long = "model", value_name = "MODEL", default_value = DEFAULT_MODEL, help = format!("The model; may be given several times: {MODEL_NAMES}"))]
    models: Vec<String>,
    #[command(flatten)]
    run: RunOptions,
    /// Of each task, --limit examples (default: 100, as in the paper).
    #[command(flatten)]
    questions: TaskOptions,
    /// k of the Top-k decode.
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    k: u32,
    /// Which of its steps are probed, from 0: 0,7,15 (default: the first, and the last of every quarter, as in the
    /// paper).
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    steps: Vec<usize>,
    /// Which layer's attention: first, middle, last or a number.
    #[arg(long, value_name = "LAYER", default_value = "last")]
    layer: Layers,
    /// alpha of the score s.
    #[arg(long, value_name = "ALPHA", default_value_t = DEFAULT_ALPHA, allow_negative_numbers = true)]
    alpha: f64,
    /// Of a benchmark: the folder with its files; `cofill data check` says what belongs there. Of infill: the file with its rows.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Begin every prompt with the tokenizer's beginning-of-text token (default: Dream on benchmarks, as its scripts
    /// do).
    #[arg(long, value_name = "BOOL")]
    bos: Option<bool>,
}

/// Examples of each task, as the paper takes them.
const USUAL_LIMIT: NonZeroUsize = NonZeroUsize::new(100).expect("not 0");

pub(crate) fn intervention(args: &InterventionArgs) -> Done {
    let scope = match args.scope {
        ScopeArg::Selected => Scope::CoSelected,
        ScopeArg::All => Scope::All,
    };
    let heads = if args.heads { Heads::Apart } else { Heads::Mean };
    let options = args.states.options(scope, heads)?;
    let (settings, folder) = args.states.gather("intervention", &options, &args.output)?;
    let mut report = intervened::report(&settings, &args.output.bootstrap(args.states.run.seed));
    say_how(&mut report, &options);
    args.output.finish(&report, folder)
}

pub(crate) fn deferral(args: &DeferralArgs) -> Done {
    let options = args.states.options(Scope::CoSelected, Heads::Mean)?;
    let (settings, folder) = args.states.gather("deferral", &options, &args.output)?;
    let mut report = deferred::report(&settings, &args.output.bootstrap(args.states.run.seed));
    say_how(&mut report, &options);
    args.output.finish(&report, folder)
}

/// Adds to tables what they do not say by themselves: of two runs, which is which.
fn say_how(diagnosis: &mut Diagnosis, StateOptions { k, layers, scope, alpha, .. }: &StateOptions) {
    let scope = match scope {
        Scope::CoSelected => "the other co-selected positions",
        Scope::All => "all other masks",
    };
    let how =
        format!("Attention: layer {layers}, mean of its heads. Decode: Top-{k}. Compared: {scope}. alpha = {alpha}.");
    diagnosis.document.remark(&how);
}

/// Questions of one kind.
struct QuestionSet {
    name: String,
    /// The task they are of; prompts of the user's own are of none.
    task: Option<(EvalSpec, OpenTask)>,
    /// With their numbers.
    questions: Vec<(usize, Question)>,
    length: usize,
}

impl QuestionSet {
    /// Masks on the canvas of the longest question.
    fn masks(&self) -> usize {
        let masks = |(_, question): &(usize, Question)| match question.form {
            Form::Continue => self.length,
            Form::Infill => masks_in(&question.prompt),
        };
        self.questions.iter().map(masks).max().unwrap_or(0)
    }
}

impl StateArgs {
    fn options(&self, scope: Scope, heads: Heads) -> Done<StateOptions> {
        if !(self.alpha.is_finite() && self.alpha >= 0.0) {
            return Err(Fail::request(format!("--alpha is {}, but must be 0 or more", self.alpha)));
        }
        refuse(&self.run)?;
        if self.run.fixed_length()? == Some(0) {
            return Err(Fail::request("--length is 0; give 1 or more"));
        }
        let steps = if self.steps.is_empty() { Steps::Spread } else { Steps::Given(self.steps.clone()) };
        let proposal = Proposal::greedy(); // that of the options needs to know how a model ends
        Ok(StateOptions { k: self.k as usize, steps, layers: self.layer, scope, alpha: self.alpha, heads, proposal })
    }

    /// Measures every task with every model.
    fn gather(&self, name: &str, options: &StateOptions, output: &OutputArgs) -> Done<(Vec<Setting>, Option<Folder>)> {
        let sets = self.question_sets()?;
        // Everything that can be wrong comes first: it must not end a run that has begun.
        let most = sets.iter().map(|set| set.masks().div_ceil(options.k)).max().unwrap_or(0);
        if options.steps.of(most).is_empty() {
            return Err(Fail::request(format!(
                "--steps {:?} are all behind the end: the longest decode has {most} steps; give smaller ones",
                self.steps
            )));
        }
        let mut subjects = Subject::open_all(&self.models, &self.run, self.layer)?;
        let mut what = self.what(options, &subjects)?;
        let files = sets.iter().filter_map(|set| Some((set.name.clone(), set.task.as_ref()?.1.file()?.what().into())));
        let files: Map<String, Value> = files.collect();
        if !files.is_empty() {
            what.insert("task_files".into(), files.into());
        }
        let mut folder = output.folder(name, self.run.seed, what)?;
        let mut settings = Vec::with_capacity(sets.len() * subjects.len());
        for set in &sets {
            for subject in &mut subjects {
                let measured = self.measure(set, subject, options, folder.as_mut())?;
                settings.push(Setting { task: set.name.clone(), model: subject.name.clone(), states: measured });
            }
        }
        Ok((settings, folder))
    }

    /// Measures one task with one model.
    fn measure(
        &self,
        set: &QuestionSet,
        Subject { name, engine }: &mut Subject,
        options: &StateOptions,
        mut folder: Option<&mut Folder>,
    ) -> Done<Vec<State>> {
        let settings = match &set.task {
            Some((spec, task)) => ResolvedRun::new(spec, task, &engine.about()?)?.settings,
            None => {
                let (bos, end) = engine.around(self.bos)?;
                Settings { sampler: sampler(self.k)?, options: self.run.clone(), length: set.length, bos, end }
            }
        };
        let options = &StateOptions { proposal: self.run.proposal(engine.ends()), ..options.clone() };
        let (model, codec) = engine.parts()?;
        let progress = Progress::measuring(set.questions.len(), format!("{} {name}", set.name));
        let mut all = Vec::new();
        for &(doc, ref question) in &set.questions {
            let canvas = question.canvas(&settings, model.mask_id(), codec).map_err(open::Error::from)?;
            for state in states(model, canvas, doc, options)? {
                if let Some(folder) = &mut folder {
                    let line = Line { task: &set.name, model: name, state: &state };
                    folder.line(&line).map_err(|error| Fail::Run(error.into()))?;
                }
                all.push(state);
            }
            progress.measured();
        }
        Ok(all)
    }

    /// The tasks that were named, or those of the models inside the program.
    fn tasks(&self) -> Vec<TaskName> {
        match (self.tasks.is_empty(), &self.prompts) {
            (true, None) => [Mini::Chain, Mini::Sums, Mini::Code, Mini::Sudoku].map(TaskName::Mini).to_vec(),
            _ => self.tasks.clone(),
        }
    }

    fn limit(&self) -> usize {
        self.questions.limit.unwrap_or(USUAL_LIMIT).get()
    }

    fn question_sets(&self) -> Done<Vec<QuestionSet>> {
        let mut all = Vec::new();
        let tasks = self.tasks();
        if let Some(idle) = idle_for_all(&tasks, &self.questions, &JudgeOptions::default()) {
            return Err(Fail::from(open::Error::from(idle)));
        }
        for task in tasks {
            let mut spec = EvalSpec::new(task.clone(), "", sampler(self.k)?);
            spec.run = self.run.clone();
            spec.run.bos = self.bos;
            spec.questions = self.questions.clone();
            spec.questions.limit = Some(self.questions.limit.unwrap_or(USUAL_LIMIT));
            spec.data = self.data.clone();
            let open = OpenTask::open_unjudged(&spec)?;
            open.warnings().iter().for_each(|warning| warning_line(warning));
            let questions = open.sample(self.limit())?;
            let length = self.run.fixed_length()?.unwrap_or(open.length());
            all.push(QuestionSet { name: task.name().into(), task: Some((spec, open)), questions, length });
        }
        if let Some(path) = &self.prompts {
            let name = path.file_stem().map_or_else(|| "prompts".into(), |stem| stem.to_string_lossy().into_owned());
            let length = self.run.fixed_length()?.unwrap_or_default();
            all.push(QuestionSet { name, task: None, questions: self.own(&read("--prompts", path)?)?, length });
        }
        Ok(all)
    }

    /// Lines of `--prompts`.
    fn own(&self, text: &str) -> Done<Vec<(usize, Question)>> {
        #[derive(Deserialize)]
        struct Given {
            prompt: String,
        }
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let question = |(n, line): (usize, &str)| -> Done<(usize, Question)> {
            let given: Given = serde_json::from_str(line).map_err(|error| {
                Fail::request(format!("--prompts, line {}: {error}; expected {{\"prompt\":\"..\"}}", n + 1))
            })?;
            Ok((n, Question { prompt: given.prompt, form: Form::Continue }))
        };
        let questions: Vec<(usize, Question)> = lines.take(self.limit()).map(question).collect::<Done<_>>()?;
        match questions.is_empty() {
            true => Err(Fail::request("--prompts has no lines; write a {\"prompt\":\"..\"} on each")),
            false => Ok(questions),
        }
    }

    /// Everything that decides the measurements.
    fn what(&self, options: &StateOptions, subjects: &[Subject]) -> Done<Map<String, Value>> {
        let steps = match &options.steps {
            Steps::Spread => json!("spread"),
            Steps::Given(steps) => json!(steps),
        };
        let what = [
            ("tasks", json!(self.tasks().iter().map(TaskName::name).collect::<Vec<_>>())),
            ("prompts", json!(self.prompts)),
            ("models", fingerprints(&self.models, subjects)?),
            ("dtype", json!(self.run.dtype)),
            ("limit", json!(self.limit())),
            ("length", json!(self.run.length)),
            ("k", json!(options.k)),
            ("steps", steps),
            ("layer", json!(options.layers.to_string())),
            ("scope", json!(if options.scope == Scope::All { "all" } else { "selected" })),
            ("alpha", json!(options.alpha)),
            ("heads", json!(options.heads == Heads::Apart)),
            ("attention_of_source", json!(self.run.attention_of_source)),
            ("split", json!(self.questions.split.map(Split::name).unwrap_or("test"))),
            ("corpus_seed", json!(self.questions.corpus_seed)),
            ("shots", json!(self.questions.shots)),
            ("ranks", json!(self.questions.ranks)),
            ("wrapper", json!(self.questions.wrapper.map(Wrapper::name))),
            ("bos", json!(self.bos)),
        ];
        let mut what: Map<String, Value> = what.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, value) in self.run.deciding(0, None) {
            what.entry(name).or_insert(value);
        }
        Ok(what)
    }
}

/// The decode that is probed.
fn sampler(k: u32) -> Done<SamplerSpec> {
    Ok(format!("topk:{k}").parse()?)
}

/// A raw line.
#[derive(serde::Serialize)]
struct Line<'a> {
    task: &'a str,
    model: &'a str,
    #[serde(flatten)]
    state: &'a State,
}
