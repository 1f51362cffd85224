//! What is searched, decided before anything is asked.

use super::Error;
use crate::infill::masks_in;
use crate::open::{self, OpenTask, ResolvedRun};
use crate::spec::EvalSpec;
use crate::tune::candidates::{Setting, is_meant};
use crate::tune::{Field, Outcome, Part};
use cofill::SamplerSpec;
use cofill_engine::{About, DEFAULT_SAMPLER, Engine, settle};
use cofill_model::Checkpoint;
use cofill_report::document::count;
use cofill_report::tuned::{self, Budget, LeftOut, Prompts, Protocol, Tuned};
use cofill_tasks::TaskName;
use cofill_tasks::data::sha256;
use cofill_tasks::mini::{Form, Split};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// Fewer prompts than this of either part are no search.
const LEAST_PROMPTS: usize = 4;

/// What somebody wants to know.
#[derive(Debug, Clone)]
pub struct Request {
    /// Model, task and options. The sampler is not looked at, nor are split and limit; `corpus_seed` says which prompts, of a benchmark in which order.
    pub spec: EvalSpec,
    /// What an answer may take.
    pub budget: Budget,
    /// Who is tried.
    pub which: Which,
    /// Who is not, by name, discount or all of it.
    pub exclude: Vec<String>,
    /// Whom the best is compared with; none: the default.
    pub against: Option<SamplerSpec>,
    /// Prompts of the last rung.
    pub limit: NonZeroUsize,
    /// Prompts that confirm.
    pub confirm: NonZeroUsize,
}

/// Who is tried.
#[derive(Debug, Clone, PartialEq)]
pub enum Which {
    /// The stock grid, as far as the model can run it.
    Grid,
    /// These.
    Given(Vec<SamplerSpec>),
}

/// A search that can begin.
#[derive(Debug)]
pub struct Plan {
    /// What an answer may take.
    pub budget: Budget,
    /// Who is in it.
    pub field: Field,
    /// How it goes.
    pub protocol: Protocol,
    /// Which prompts, in words.
    pub prompts: Prompts,
    /// Who is not in it.
    pub left_out: Vec<LeftOut>,
    /// What a reader of the scores must know.
    pub warnings: Vec<String>,
    samplers: Vec<SamplerSpec>,
    pub(super) parts: [PartOfTask; 2],
    pub(super) model_sha256: String,
    companion: Option<String>,
}

/// The questions that choose, or those that confirm.
#[derive(Debug)]
pub(super) struct PartOfTask {
    pub(super) spec: EvalSpec,
    /// Their numbers in the task.
    pub(super) order: Vec<usize>,
    /// Which rows they are, where a task has no splits; for the header.
    pub(super) rows: Option<Value>,
}

impl Plan {
    /// Decides everything. No weight is loaded.
    pub fn new(request: &Request) -> Result<Plan, Error> {
        let mut spec = request.spec.clone();
        let companion = spec.run.companion.take(); // only those who ask it get it
        let checkpoint = Engine::checkpoint_at(&spec.place()).map_err(open::Error::from)?;
        let about = About::checkpoint(&checkpoint).map_err(open::Error::from)?;
        let (parts, prompts, task) = part(&spec, request)?;
        let protocol = Protocol::new(parts[0].order.len(), parts[1].order.len());
        let setting = Setting {
            budget: request.budget,
            masks: masks(&parts[0], &task)?,
            paths_alpha: paths_alpha(&checkpoint),
            has_head: about.pair_head.is_some(),
            has_companion: companion.is_some(),
        };
        let model_sha256 = checkpoint.fingerprint().map_err(cofill_engine::Error::from).map_err(open::Error::from)?;
        let mut plan = Plan {
            budget: request.budget,
            field: Field {
                samplers: Vec::new(),
                candidates: Vec::new(),
                default: 0,
                stand_ins: Vec::new(),
                given: false,
            },
            protocol,
            prompts,
            left_out: Vec::new(),
            warnings: task.warnings(),
            samplers: Vec::new(),
            parts,
            model_sha256,
            companion,
        };
        plan.fill(request, &setting, &checkpoint, |plan, place| {
            ResolvedRun::new(&plan.spec(place, Part::Choose), &task, &about).map(drop)
        })?;
        Ok(plan)
    }

    /// Finds out who is in the search; `check` says whether the model can run somebody.
    fn fill(
        &mut self,
        request: &Request,
        setting: &Setting,
        checkpoint: &Checkpoint,
        check: impl Fn(&Plan, usize) -> Result<(), open::Error>,
    ) -> Result<(), Error> {
        let settled = |sampler: &SamplerSpec| settle(sampler, checkpoint).map_err(open::Error::from);
        let (wanted, own) = match &request.which {
            Which::Grid => (setting.grid().map_err(open::Error::from)?, false),
            Which::Given(samplers) => (samplers.clone(), true),
        };
        for pattern in &request.exclude {
            if !wanted.iter().any(|sampler| is_meant(sampler, pattern)) {
                return Err(Error::ExcludesNobody { pattern: pattern.clone() });
            }
        }
        let included = |sampler: &&SamplerSpec| !request.exclude.iter().any(|pattern| is_meant(sampler, pattern));
        for sampler in wanted.iter().filter(included) {
            let place = self.place(settled(sampler)?);
            match check(self, place) {
                Ok(()) if self.field.candidates.contains(&place) => {}
                Ok(()) => self.field.candidates.push(place),
                Err(source) if own => {
                    return Err(Error::Candidate { sampler: sampler.to_string(), source: source.into() });
                }
                Err(error) => {
                    self.samplers.pop();
                    self.field.samplers.pop();
                    self.left_out.push(LeftOut { sampler: sampler.to_string(), why: error.to_string() });
                }
            }
        }
        if self.field.candidates.is_empty() {
            return Err(Error::Nobody { left_out: self.left_out.len() });
        }
        let usual: SamplerSpec = DEFAULT_SAMPLER.parse().map_err(open::Error::from)?;
        let default = settled(request.against.as_ref().unwrap_or(&usual))?;
        self.field.given = request.against.is_some();
        self.field.default = self.place(default.clone());
        check(self, self.field.default)
            .map_err(|source| Error::Candidate { sampler: default.to_string(), source: source.into() })?;
        if !self.field.given {
            let stand_ins = setting.stand_ins().map_err(open::Error::from)?;
            self.field.stand_ins = stand_ins.into_iter().map(|sampler| self.place(sampler)).collect();
        }
        Ok(())
    }

    /// The place of a sampler, which gets one if it has none.
    fn place(&mut self, sampler: SamplerSpec) -> usize {
        let there = self.samplers.iter().position(|other| *other == sampler);
        there.unwrap_or_else(|| {
            self.field.samplers.push(sampler.to_string());
            self.samplers.push(sampler);
            self.samplers.len() - 1
        })
    }

    /// A candidate as one score.
    pub(super) fn spec(&self, candidate: usize, part: Part) -> EvalSpec {
        let sampler = self.samplers[candidate].clone();
        let mut spec = EvalSpec { sampler, ..self.parts[part as usize].spec.clone() };
        let asks = spec.sampler.build().is_ok_and(|policy| policy.needs().companion);
        spec.run.companion = self.companion.clone().filter(|_| asks);
        spec
    }

    /// Everything that decides the answers and what is made of them: two searches with the same are the same.
    pub fn what(&self) -> Result<Map<String, Value>, Error> {
        let mut what = match serde_json::to_value(&self.parts[0].spec)? {
            Value::Object(fields) => fields,
            _ => Map::new(), // a struct is an object
        };
        // Where files are and how many are asked together changes no answer; the sampler is none of this search.
        for field in ["sampler", "batch", "data", "models", "device", "split", "limit"] {
            what.remove(field);
        }
        let named =
            |places: &[usize]| places.iter().map(|&place| self.field.samplers[place].clone()).collect::<Vec<_>>();
        let more = [
            ("budget", json!(self.budget)),
            ("protocol", json!(self.protocol)),
            ("samplers", json!(self.field.samplers)),
            ("candidates", json!(named(&self.field.candidates))),
            ("against", json!(self.field.samplers[self.field.default])),
            ("companion", json!(self.companion)),
            ("model_sha256", json!(self.model_sha256)),
        ];
        what.extend(more.map(|(name, value)| (name.to_owned(), value)));
        Ok(what)
    }

    /// The most answers that a search of so many makes.
    pub fn most_answers(&self) -> usize {
        let of = |mut alive: usize| {
            let (mut before, mut answers) = (0, 0);
            for &prompts in &self.protocol.rungs {
                answers += alive * (prompts - before);
                (alive, before) = (self.protocol.kept(alive), prompts);
            }
            answers
        };
        of(self.field.candidates.len()) + of(1) + of(self.field.stand_ins.len()) + 2 * self.protocol.confirm
    }

    /// The outcome, with everything that belongs to it.
    pub fn tuned(&self, outcome: Outcome, command: String, made_by: Value) -> Tuned {
        let Outcome { candidates, best, default, confirmation, verdict, cut_short, spent } = outcome;
        let candidates =
            candidates.into_iter().filter(|candidate| !candidate.rungs.is_empty() || candidate.out.is_some());
        let EvalSpec { model, task, .. } = &self.parts[0].spec;
        Tuned {
            cofill_tune: tuned::VERSION,
            model: model.clone(),
            task: task.name().to_owned(),
            budget: self.budget,
            protocol: self.protocol.clone(),
            prompts: self.prompts.clone(),
            candidates: candidates.collect(),
            left_out: self.left_out.clone(),
            best,
            default,
            confirmation,
            verdict,
            cut_short,
            spent,
            command,
            made_by,
        }
    }
}

/// The strength of `+paths` that was chosen for a model.
fn paths_alpha(checkpoint: &Checkpoint) -> Option<f64> {
    let sampler: SamplerSpec = "topk:2+paths:auto".parse().ok()?;
    settle(&sampler, checkpoint).ok()?.discount().map(|discount| discount.alpha)
}

/// Masks of a canvas, on average over a few questions.
fn masks(part: &PartOfTask, task: &OpenTask) -> Result<f64, Error> {
    const SOME: usize = 16;
    let length = part.spec.run.fixed_length().map_err(open::Error::from)?.unwrap_or(part.spec.task.length());
    let questions = task.sample(SOME)?;
    let of = |form: Form, prompt: &str| match form {
        Form::Continue => length,
        Form::Infill => masks_in(prompt),
    };
    let sum: usize = questions.iter().map(|(_, question)| of(question.form, &question.prompt)).sum();
    Ok(sum as f64 / questions.len().max(1) as f64)
}

/// Two parts of the prompts that share none, in words too; and the task, opened without judges.
///
/// A mini task has splits: validation chooses and test confirms. So has a task file that names validation rows, and the seed draws from each. Of
/// any other task, rows are drawn by the seed; the first of them choose, the next confirm.
fn part(spec: &EvalSpec, request: &Request) -> Result<([PartOfTask; 2], Prompts, OpenTask), Error> {
    let (limit, confirm, seed) = (request.limit.get(), request.confirm.get(), spec.questions.corpus_seed);
    let few = |most: usize| Error::TooFewPrompts { task: spec.task.to_string(), most, least: 2 * LEAST_PROMPTS };
    if let TaskName::Mini(_) = spec.task {
        let of = |split: Split, limit: usize| -> Result<(PartOfTask, OpenTask), Error> {
            let mut spec = spec.clone();
            spec.questions.split = Some(split);
            spec.questions.limit = NonZeroUsize::new(limit);
            let task = match OpenTask::open_unjudged(&spec) {
                Err(open::Error::TooMany { most, .. }) if most >= LEAST_PROMPTS => {
                    spec.questions.limit = NonZeroUsize::new(most);
                    OpenTask::open_unjudged(&spec)?
                }
                Err(open::Error::TooMany { most, .. }) => return Err(few(most)),
                task => task?,
            };
            let order: Vec<usize> = (0..task.docs(&spec)).collect();
            if order.len() < LEAST_PROMPTS {
                return Err(few(order.len()));
            }
            Ok((PartOfTask { spec, order, rows: None }, task))
        };
        let ((choose, task), (confirm, _)) = (of(Split::Validation, limit)?, of(Split::Test, confirm)?);
        let told = |part: &PartOfTask, split: Split| {
            format!("{} of the {split} split (seed {seed})", count(part.order.len(), "prompt"))
        };
        let prompts = Prompts { choose: told(&choose, Split::Validation), confirm: told(&confirm, Split::Test) };
        return Ok(([choose, confirm], prompts, task));
    }
    let mut spec = spec.clone();
    spec.questions.limit = None;
    let task = OpenTask::open_unjudged(&spec)?;
    let drawn = |docs: usize| {
        let mut drawn: Vec<usize> = (0..docs).collect();
        drawn.sort_by_cached_key(|doc| sha256(format!("{seed}/{doc}").as_bytes()));
        drawn
    };
    if task.file().is_some_and(|file| file.task.has_validation()) {
        let of = |split: Split, limit: usize, seen: &BTreeSet<String>| -> Result<_, Error> {
            let mut spec = spec.clone();
            spec.questions.split = Some(split);
            let task = OpenTask::open_unjudged(&spec)?;
            let docs = task.docs(&spec);
            let prompt = |doc: usize| task.file().map(|file| file.task.prompt(doc)).unwrap_or_default();
            // A row may stand in both files; who chose does not confirm.
            let order = drawn(docs).into_iter().filter(|&doc| !seen.contains(&prompt(doc))).take(limit);
            let order: Vec<usize> = order.collect();
            if order.len() < LEAST_PROMPTS {
                let task = spec.task.to_string();
                return Err(Error::TooFewRows { task, split, most: order.len(), least: LEAST_PROMPTS });
            }
            let prompts: BTreeSet<String> = order.iter().map(|&doc| prompt(doc)).collect();
            let told = format!("{} of {docs} {split} rows, drawn by seed {seed}", order.len());
            let rows = Some(json!({"drawn_by_seed": seed, "of": docs, "split": split.name()}));
            Ok((PartOfTask { spec, order, rows }, told, prompts, task))
        };
        let (choosing, choose, chose, task) = of(Split::Validation, limit, &BTreeSet::new())?;
        let (confirming, confirm, ..) = of(Split::Test, confirm, &chose)?;
        return Ok(([choosing, confirming], Prompts { choose, confirm }, task));
    }
    let docs = task.docs(&spec);
    if docs < 2 * LEAST_PROMPTS {
        return Err(few(docs));
    }
    let limit = match limit + confirm <= docs {
        true => limit,
        // What there is, shared in the same proportion.
        false => (docs * limit / (limit + confirm)).clamp(LEAST_PROMPTS, docs - LEAST_PROMPTS),
    };
    let end = (limit + confirm).min(docs);
    let drawn = drawn(docs);
    let of = |from: usize, to: usize| {
        let rows = json!({"drawn_by_seed": seed, "of": docs, "from": from});
        PartOfTask { spec: spec.clone(), order: drawn[from..to].to_vec(), rows: Some(rows) }
    };
    let told = |n: usize, others: &str| format!("{n}{others} of {docs} rows, drawn by seed {seed}");
    let prompts = Prompts { choose: told(limit, ""), confirm: told(end - limit, " others") };
    Ok(([of(0, limit), of(limit, end)], prompts, task))
}
