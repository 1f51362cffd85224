//! Samplers written in Python: an object with `select(view)`, as a sampler of the core.
//!
//! Slow, since every step calls back, but otherwise like any other: decoded, traced, evaluated, swept.

use crate::arrays::{self, Array1, Array2};
use crate::errors::request;
use crate::needs::Needs;
use cofill::spec::{Entry, Param, Values};
use cofill::{Job, Picks, Policy, Registry, Result, SamplerSpec, Slot, StepView, TokenId, Verdict};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// A sampler without a name of its own: an object, copied for every decode, or a class, made anew for every decode.
pub(crate) fn spec_of(given: &Bound<'_, PyAny>) -> PyResult<SamplerSpec> {
    let py = given.py();
    let class = if given.is_instance_of::<pyo3::types::PyType>() { given.clone() } else { given.get_type().into_any() };
    if !given.hasattr(intern!(py, "select"))? {
        let kind = class.getattr(intern!(py, "__name__"))?;
        return Err(request(format!(
            "sampler: a {kind} is no sampler; give a text such as \"topk:2+ad\", or an object or a class with `select(view)`"
        )));
    }
    let factory = if given.is_instance_of::<pyo3::types::PyType>() {
        given.clone()
    } else {
        // What an object remembers belongs to one decode.
        let copy = py.import(intern!(py, "copy"))?.getattr(intern!(py, "deepcopy"))?;
        py.import(intern!(py, "functools"))?.getattr(intern!(py, "partial"))?.call1((copy, given))?
    };
    let version = match class.getattr_opt(intern!(py, "version"))? {
        Some(version) => version.str()?.to_string(),
        None => "1".into(),
    };
    let name: String = class.getattr(intern!(py, "__name__"))?.extract()?;
    let entry = entry(&word(&name), "a sampler written in Python", &factory, Vec::new(), &version);
    let name = entry.name.clone();
    // Made once here, so that what is wrong with it is said at once and as Python said it.
    made(&factory, &[])?;
    let registry = Registry::default().with(entry).map_err(request)?;
    registry.parse(&name).map_err(request)
}

/// `MySampler` as a name of the sampler language: `own-mysampler` keeps out of the way of ours.
fn word(class: &str) -> String {
    let letters = class.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase);
    format!("own-{}", letters.collect::<String>())
}

/// What the sampler language knows of a sampler whose objects `factory` makes.
pub(crate) fn entry(name: &str, about: &str, factory: &Bound<'_, PyAny>, params: Vec<Param>, version: &str) -> Entry {
    let (factory, count) = (factory.clone().unbind(), params.len());
    let build = move |values: &Values, _| {
        let numbers: Vec<f64> = (0..count).map(|i| values.param(i)).collect();
        let own = Python::attach(|py| made(factory.bind(py), &numbers)).map_err(raised)?;
        Ok(Policy::Commits(Box::new(own)))
    };
    Entry::new(name, about, build).params(params).version(version).source("Python")
}

fn made(factory: &Bound<'_, PyAny>, numbers: &[f64]) -> PyResult<OwnSampler> {
    let py = factory.py();
    let object = factory.call1(PyTuple::new(py, numbers)?)?;
    let needs = match object.getattr_opt(intern!(py, "needs"))? {
        None => cofill::Needs::default(),
        Some(needs) => match needs.cast::<Needs>() {
            Ok(needs) => needs.get().to_core()?,
            Err(_) => {
                return Err(request(
                    "`needs` of a sampler must be a cofill.Needs, such as cofill.Needs(attention=\"last\")",
                ));
            }
        },
    };
    Ok(OwnSampler { object: object.unbind(), needs })
}

/// What Python raised, on its way through the core.
fn raised(error: PyErr) -> cofill::Error {
    cofill::Error::Sampler(Box::new(error))
}

struct OwnSampler {
    object: Py<PyAny>,
    needs: cofill::Needs,
}

impl cofill::Sampler for OwnSampler {
    fn needs(&self) -> cofill::Needs {
        self.needs
    }

    /// `begin(job)` may return the most forwards; one per mask if it returns nothing.
    fn begin(&mut self, job: &Job) -> Result<usize> {
        let begun = |py: Python<'_>| -> PyResult<Option<usize>> {
            let Some(begin) = self.object.bind(py).getattr_opt(intern!(py, "begin"))? else { return Ok(None) };
            let told = JobView { length: job.length, masks: job.masks, blocks: job.blocks, seed: job.seed };
            let answer = begin.call1((told,))?;
            if answer.is_none() { Ok(None) } else { Ok(Some(arrays::whole("what begin(job) returned", &answer)?)) }
        };
        Ok(Python::attach(begun).map_err(raised)?.unwrap_or(job.masks))
    }

    fn select(&mut self, view: &StepView<'_>, picks: &mut Picks) -> Result<Verdict> {
        let answer = |py: Python<'_>| -> PyResult<Answer> {
            let shown = Bound::new(py, View::of(py, view))?;
            Answer::of(&self.object.bind(py).call_method1(intern!(py, "select"), (shown,))?, view.len())
        };
        match Python::attach(answer).map_err(raised)? {
            Answer::Commit(slots) => {
                slots.into_iter().for_each(|slot| picks.push(view, Slot(slot), view.confidence(Slot(slot))));
                Ok(picks.or_surest(view)) // every step commits something
            }
            Answer::Reveal(tokens) => Ok(Verdict::Reveal(tokens)),
            Answer::Wait => Ok(Verdict::Wait),
        }
    }
}

/// What `select` returned.
enum Answer {
    Commit(Vec<usize>),
    Reveal(Vec<(Slot, TokenId)>),
    Wait,
}

impl Answer {
    fn of(given: &Bound<'_, PyAny>, candidates: usize) -> PyResult<Answer> {
        let known = |slot: usize| match slot < candidates {
            true => Ok(slot),
            false => Err(request(format!(
                "select(view) returned {slot}, but the view has {candidates} candidates; return indices into its arrays, 0 to {}",
                candidates - 1
            ))),
        };
        if let Ok(reveal) = given.cast::<Reveal>() {
            let slot = |(slot, token): &(usize, TokenId)| Ok((Slot(known(*slot)?), *token));
            return reveal.get().tokens.iter().map(slot).collect::<PyResult<_>>().map(Answer::Reveal);
        }
        if given.is_instance_of::<Wait>() {
            return Ok(Answer::Wait);
        }
        let slots = match given.try_iter() {
            Ok(items) => {
                let items = items.collect::<PyResult<Vec<_>>>()?;
                let items = PyList::new(given.py(), items)?;
                arrays::positions("what select(view) returned", &items)?
            }
            Err(_) => {
                let kind = given.get_type().name()?;
                return Err(request(format!(
                    "select(view) returned a {kind}; return the indices of the candidates to commit, cofill.Reveal or cofill.Wait"
                )));
            }
        };
        let mut seen = vec![false; candidates];
        for &slot in &slots {
            if std::mem::replace(&mut seen[known(slot)?], true) {
                return Err(request(format!("select(view) returned {slot} twice; return every candidate once")));
            }
        }
        Ok(Answer::Commit(slots))
    }
}

/// What `select` may return instead of indices: run the model on a copy of the canvas with these candidates filled, and ask again. One NFE.
///
/// Parameters
/// ----------
/// tokens : sequence of (index, token)
///     Candidates by their index in the view, and what to fill in.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Reveal {
    #[pyo3(get)]
    tokens: Vec<(usize, TokenId)>,
}

#[pymethods]
impl Reveal {
    #[new]
    fn new(tokens: Vec<(usize, TokenId)>) -> Reveal {
        Reveal { tokens }
    }
}

/// What `select` may return instead of indices: commit nothing in this step. `begin` must have promised enough forwards.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Wait;

#[pymethods]
impl Wait {
    #[new]
    fn new() -> Wait {
        Wait
    }
}

/// What a sampler is told before the first step, by `begin(job)`.
#[pyclass(frozen, get_all, module = "cofill", name = "Job")]
pub(crate) struct JobView {
    /// Positions of the canvas.
    length: usize,
    /// Masks at the start.
    masks: usize,
    /// Blocks of the schedule; 1 without blocks.
    blocks: usize,
    /// The root of all randomness.
    seed: u64,
}

/// What a sampler sees of one forward pass: arrays with an entry for each candidate, in the order of positions.
///
/// Attributes
/// ----------
/// positions : int64 (m,)
///     Where each candidate stands in the canvas.
/// token : uint32 (m,)
///     The proposed tokens.
/// confidence, uncertainty, margin, entropy : float64 (m,)
///     c; 1 - c summed over the others; p(1) - p(2); H in nats.
/// attention : float64 (m, m) or None
///     Row = query, column = key, if ``needs`` asked for it.
/// distributions : float32 (m, vocabulary) or None
///     If ``needs`` asked for them.
/// tokens : uint32 (length,)
///     The canvas that this pass saw.
/// mask_id : int
/// step : int
///     Steps made before this one.
/// masks_at_start : int
/// candidates : int
///     m, which is also ``len(view)``.
/// revealed : list of (index, token)
///     What the sampler had asked to be revealed for this pass.
#[pyclass(frozen, get_all, module = "cofill")]
pub(crate) struct View {
    positions: Array1<i64>,
    token: Array1<u32>,
    confidence: Array1<f64>,
    uncertainty: Array1<f64>,
    margin: Array1<f64>,
    entropy: Array1<f64>,
    attention: Option<Array2<f64>>,
    distributions: Option<Array2<f32>>,
    tokens: Array1<u32>,
    mask_id: TokenId,
    step: usize,
    masks_at_start: usize,
    revealed: Vec<(usize, TokenId)>,
    candidates: usize,
}

impl View {
    fn of(py: Python<'_>, view: &StepView<'_>) -> View {
        let stats = |field: fn(&cofill::RowStats) -> f64| {
            arrays::vector(py, view.slots().map(|slot| field(view.stats(slot))).collect())
        };
        let distributions = view.distributions.map(|all| {
            let rows: Vec<f32> = view.slots().flat_map(|slot| view.distribution(slot).iter().copied()).collect();
            arrays::two_dimensions(py, rows, (view.len(), all.vocab()))
        });
        View {
            positions: arrays::indices(py, view.slots().map(|slot| view.position(slot))),
            token: arrays::vector(py, view.slots().map(|slot| view.stats(slot).token).collect()),
            confidence: stats(|row| row.confidence),
            uncertainty: stats(|row| row.uncertainty),
            margin: stats(|row| row.margin),
            entropy: stats(|row| row.entropy),
            attention: view.candidates.attention.map(|attention| arrays::matrix(py, attention)),
            distributions,
            tokens: arrays::vector(py, view.tokens.to_vec()),
            mask_id: view.mask_id,
            step: view.step,
            masks_at_start: view.job.masks,
            revealed: view.revealed.iter().map(|&(slot, token)| (slot.0, token)).collect(),
            candidates: view.len(),
        }
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.candidates
    }
}
