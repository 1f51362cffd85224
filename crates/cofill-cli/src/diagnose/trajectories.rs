//! `cofill diagnose intervention` and `deferral`: two readings of the same states.

use super::{OutputArgs, fingerprints, read, short_names};
use crate::fail::{Done, Fail, warning_line};
use crate::model::{DEFAULT, KeepArgs, NAMES, checkpoint};
use crate::progress::Progress;
use crate::setup::{Text, mini_examples};
use cofill::adas::DEFAULT_ALPHA;
use cofill::{Denoiser, Layers, TokenId};
use cofill_eval::diagnose::report::{Folder, Report};
use cofill_eval::diagnose::state::{Heads, Plan, Scope, State, Steps, states};
use cofill_eval::diagnose::{Setting, deferral as deferred, intervention as intervened};
use cofill_eval::run::{self, Question};
use cofill_model::{AttentionRow, Model};
use cofill_tasks::TaskName;
use cofill_tasks::benchmarks::{Loaded, Prompts, Variant};
use cofill_tasks::mini::predicates::GAP;
use cofill_tasks::mini::{Example, Form, Mini, Split};
use cofill_tasks::wrapper::Wrapper;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Correlate attention among masks with what revealing one of them does to the others.
///
/// The paper's section 4 and appendix B. A confidence Top-k decode runs; at five of its steps the surest mask i is
/// revealed in a copy, nothing else, and the model is asked again. For every other position j that Top-k would commit
/// with i: A, its attention to i before; K, the KL divergence between its distributions before and after; u = A (1 - c
/// of i); s = c - alpha u, which is how ADAS ranks it. The answer is Spearman's correlation of A, u, c and s with K,
/// within states and over all.
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
    #[arg(short, long = "model", value_name = "MODEL", default_value = DEFAULT, help = format!("The model; may be given several times: {NAMES}"))]
    models: Vec<String>,
    #[command(flatten)]
    keep: KeepArgs,
    /// Examples of each task; the paper takes 100.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Positions to generate (default: the paper's, and what a mini task needs).
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,
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
    /// Take attention for position i from the row that predicts it (i - 1 in Dream), not from its own.
    #[arg(long)]
    attention_of_source: bool,
    /// Of a mini task: train, validation or test.
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
    /// Begin every prompt with the tokenizer's beginning-of-text token (default: Dream on benchmarks, as its scripts
    /// do).
    #[arg(long, value_name = "BOOL")]
    bos: Option<bool>,
}

pub(crate) fn intervention(args: &InterventionArgs) -> Done {
    let scope = match args.scope {
        ScopeArg::Selected => Scope::CoSelected,
        ScopeArg::All => Scope::All,
    };
    let heads = if args.heads { Heads::Apart } else { Heads::Mean };
    let plan = args.states.plan(scope, heads)?;
    let (settings, folder) = args.states.gather("intervention", &plan, &args.output)?;
    let mut report = intervened::report(&settings, &args.output.bootstrap());
    say_how(&mut report, &plan);
    args.output.finish(&report, folder)
}

pub(crate) fn deferral(args: &DeferralArgs) -> Done {
    let plan = args.states.plan(Scope::CoSelected, Heads::Mean)?;
    let (settings, folder) = args.states.gather("deferral", &plan, &args.output)?;
    let mut report = deferred::report(&settings, &args.output.bootstrap());
    say_how(&mut report, &plan);
    args.output.finish(&report, folder)
}

/// Adds to tables what they do not say by themselves: of two runs, which is which.
fn say_how(report: &mut Report, Plan { k, layers, scope, alpha, .. }: &Plan) {
    let scope = match scope {
        Scope::CoSelected => "the other co-selected positions",
        Scope::All => "all other masks",
    };
    let how =
        format!("Attention: layer {layers}, mean of its heads. Decode: Top-{k}. Compared: {scope}. alpha = {alpha}.");
    report.latex.insert_str(0, &format!("% {how}\n"));
    report.notes.push(how);
}

/// Questions of one kind.
struct Asked {
    name: String,
    length: usize,
    /// With their numbers.
    questions: Vec<(usize, Question)>,
    is_bench: bool,
}

impl Asked {
    /// Masks on the canvas of the longest question.
    fn masks(&self) -> usize {
        let masks = |(_, question): &(usize, Question)| match question.form {
            Form::Continue => self.length,
            Form::Infill => question.prompt.matches(GAP).count(),
        };
        self.questions.iter().map(masks).max().unwrap_or(0)
    }
}

/// Who is measured.
struct Subject {
    name: String,
    model: Model,
    text: Text,
}

impl StateArgs {
    fn plan(&self, scope: Scope, heads: Heads) -> Done<Plan> {
        if !(self.alpha.is_finite() && self.alpha >= 0.0) {
            return Err(Fail::request(format!("--alpha is {}, but must be 0 or more", self.alpha)));
        }
        let steps = if self.steps.is_empty() { Steps::Spread } else { Steps::Given(self.steps.clone()) };
        Ok(Plan { k: self.k as usize, steps, layers: self.layer, scope, alpha: self.alpha, heads })
    }

    /// Measures every task with every model.
    fn gather(&self, name: &str, plan: &Plan, output: &OutputArgs) -> Done<(Vec<Setting>, Option<Folder>)> {
        let asked = self.asked()?;
        // Everything that can be wrong comes first: it must not end a run that has begun.
        let most = asked.iter().map(|asked| asked.masks().div_ceil(plan.k)).max().unwrap_or(0);
        if plan.steps.of(most).is_empty() {
            return Err(Fail::request(format!(
                "--steps {:?} are all behind the end: the longest decode has {most} steps; give smaller ones",
                self.steps
            )));
        }
        let names = short_names(&self.models);
        let mut loaded = Vec::with_capacity(self.models.len());
        for (model, name) in self.models.iter().zip(names) {
            let (mut weights, text) = Text::load(&checkpoint(Path::new(model))?, (&self.keep).into())?;
            self.layer.resolve(weights.config().layers)?;
            if self.attention_of_source {
                weights.set_attention_row(AttentionRow::Source);
            }
            loaded.push(Subject { name, model: weights, text });
        }
        let mut folder = output.folder(name, self.what(plan)?)?;
        let mut settings = Vec::with_capacity(asked.len() * loaded.len());
        for asked in &asked {
            for subject in &mut loaded {
                let measured = self.measure(asked, subject, plan, folder.as_mut())?;
                settings.push(Setting { task: asked.name.clone(), model: subject.name.clone(), states: measured });
            }
        }
        Ok((settings, folder))
    }

    /// Measures one task with one model.
    fn measure(
        &self,
        asked: &Asked,
        subject: &mut Subject,
        plan: &Plan,
        mut folder: Option<&mut Folder>,
    ) -> Done<Vec<State>> {
        let bos = self.bos(asked, subject)?;
        let Subject { name, model, text } = subject;
        let progress = Progress::measuring(asked.questions.len(), format!("{} {name}", asked.name));
        let mut all = Vec::new();
        for &(doc, ref question) in &asked.questions {
            let canvas = question.canvas(asked.length, bos, model.mask_id(), text).map_err(|error| match error {
                run::Error::Decode(error) => Fail::from(error),
                error => Fail::Request(error.into()),
            })?;
            for state in states(model, canvas, doc, plan)? {
                if let Some(folder) = &mut folder {
                    let line = Line { task: &asked.name, model: name, state: &state };
                    folder.line(&line).map_err(|error| Fail::Run(error.into()))?;
                }
                all.push(state);
            }
            progress.measured();
        }
        Ok(all)
    }

    fn bos(&self, asked: &Asked, Subject { name, model, text }: &Subject) -> Done<Option<TokenId>> {
        let wrapper: Wrapper = model.config().family.to_string().parse().unwrap_or_default();
        let usual = asked.is_bench && wrapper.begins_with_bos();
        match self.bos.unwrap_or(usual) {
            false => Ok(None),
            true => {
                text.tokenizer.bos().map(Some).ok_or_else(|| {
                    Fail::request(format!("`{name}` names no beginning-of-text token; give --bos false"))
                })
            }
        }
    }

    /// The tasks that were named, or those of the models inside the program.
    fn tasks(&self) -> Vec<TaskName> {
        match (self.tasks.is_empty(), &self.prompts) {
            (true, None) => [Mini::Chain, Mini::Sums, Mini::Code, Mini::Sudoku].map(TaskName::Mini).to_vec(),
            _ => self.tasks.clone(),
        }
    }

    fn asked(&self) -> Done<Vec<Asked>> {
        let mut all = Vec::new();
        for task in self.tasks() {
            let length = self.length.map_or(task.length(), |length| length as usize);
            let (questions, is_bench) = match task {
                TaskName::Mini(mini) => (self.mini(mini)?, false),
                TaskName::Benchmark(bench) => {
                    let data = self.data.as_ref().ok_or_else(|| {
                        Fail::request(format!(
                            "{bench} needs its data files; add --data DIR, `cofill data check DIR` says which"
                        ))
                    })?;
                    let loaded = bench.load(data)?;
                    loaded.warnings().iter().for_each(|warning| warning_line(warning));
                    let prompts = loaded.prompts(Variant { shots: self.shots, ranks: NonZeroUsize::MIN })?;
                    (self.bench(&loaded, &prompts)?, true)
                }
            };
            all.push(Asked { name: task.name().into(), length, questions, is_bench });
        }
        if let Some(path) = &self.prompts {
            let name = path.file_stem().map_or_else(|| "prompts".into(), |stem| stem.to_string_lossy().into_owned());
            let length = self.length.unwrap_or_default() as usize;
            all.push(Asked { name, length, questions: self.own(&read("--prompts", path)?)?, is_bench: false });
        }
        Ok(all)
    }

    fn mini(&self, task: Mini) -> Done<Vec<(usize, Question)>> {
        let examples = mini_examples(task, self.split, self.corpus_seed, self.limit as usize)?;
        let question = |example: Example| Question { prompt: example.prompt, form: task.form() };
        Ok(examples.into_iter().map(question).enumerate().collect())
    }

    fn bench(&self, loaded: &Loaded, prompts: &Prompts<'_>) -> Done<Vec<(usize, Question)>> {
        let question = |doc| Ok((doc, Question { prompt: prompts.prompt(doc)?, form: Form::Continue }));
        loaded.balanced(self.limit as usize).into_iter().map(question).collect()
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
        let questions: Vec<(usize, Question)> = lines.take(self.limit as usize).map(question).collect::<Done<_>>()?;
        match questions.is_empty() {
            true => Err(Fail::request("--prompts has no lines; write a {\"prompt\":\"..\"} on each")),
            false => Ok(questions),
        }
    }

    /// Everything that decides the measurements.
    fn what(&self, plan: &Plan) -> Done<Map<String, Value>> {
        let steps = match &plan.steps {
            Steps::Spread => json!("spread"),
            Steps::Given(steps) => json!(steps),
        };
        let what = [
            ("tasks", json!(self.tasks().iter().map(|task| task.name()).collect::<Vec<_>>())),
            ("prompts", json!(self.prompts)),
            ("models", fingerprints(&self.models)?),
            ("dtype", json!(self.keep.dtype())),
            ("limit", json!(self.limit)),
            ("length", json!(self.length)),
            ("k", json!(plan.k)),
            ("steps", steps),
            ("layer", json!(plan.layers.to_string())),
            ("scope", json!(if plan.scope == Scope::All { "all" } else { "selected" })),
            ("alpha", json!(plan.alpha)),
            ("heads", json!(plan.heads == Heads::Apart)),
            ("attention_of_source", json!(self.attention_of_source)),
            ("split", json!(self.split.name())),
            ("corpus_seed", json!(self.corpus_seed)),
            ("shots", json!(self.shots)),
            ("bos", json!(self.bos)),
        ];
        Ok(what.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// A raw line.
#[derive(serde::Serialize)]
struct Line<'a> {
    task: &'a str,
    model: &'a str,
    #[serde(flatten)]
    state: &'a State,
}
