//! The paper's premise, measured on any model that Python can ask: an engine, or an object with `denoise(queries)`.

use crate::arrays;
use crate::decode::{Answer, Memory, Query};
use crate::engine::Engine;
use crate::errors::{OrRaise, request};
use cofill::{Canvas, Denoiser, Prediction, TokenId};
use cofill_eval::diagnose::folder::Diagnosis;
use cofill_eval::diagnose::state::{Heads, Scope, State, StateOptions, Steps, states};
use cofill_eval::diagnose::{Setting, deferral, intervention};
use cofill_report::statistics::bootstrap::Bootstrap;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A model on the other side of the border.
struct Foreign<'a> {
    object: &'a Py<PyAny>,
    mask_id: TokenId,
    vocab: usize,
}

impl Denoiser for Foreign<'_> {
    fn mask_id(&self) -> TokenId {
        self.mask_id
    }

    fn vocab(&self) -> usize {
        self.vocab
    }

    fn denoise(&mut self, batch: &[cofill::Query<'_>]) -> cofill::Result<Vec<Prediction>> {
        let asked = |py: Python<'_>| -> PyResult<Vec<Prediction>> {
            py.check_signals()?;
            let queries = batch.iter().map(|query| Query::of(py, query, false));
            let queries = PyList::new(py, queries.collect::<Vec<_>>())?;
            let answers = self.object.bind(py).call_method1(intern!(py, "denoise"), (queries,))?;
            if answers.len()? != batch.len() {
                let given = answers.len()?;
                return Err(request(format!(
                    "denoise answered {given} of {} queries; answer each, in order",
                    batch.len()
                )));
            }
            answers.try_iter()?.zip(batch).map(|(answer, query)| prediction(&answer?, query)).collect()
        };
        Python::attach(asked).map_err(|raised| cofill::Error::Denoiser(Box::new(raised)))
    }
}

/// A dict of arrays, as `Decode.absorb` takes them.
fn prediction(answer: &Bound<'_, PyAny>, query: &cofill::Query<'_>) -> PyResult<Prediction> {
    let field = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let value = answer.call_method1(intern!(answer.py(), "get"), (name,))?;
        Ok((!value.is_none()).then_some(value))
    };
    let needed = |name: &str| field(name)?.ok_or_else(|| request(format!("denoise answered without `{name}`")));
    let (token, confidence) = (needed("token")?, needed("confidence")?);
    let (uncertainty, margin, entropy) = (field("uncertainty")?, field("margin")?, field("entropy")?);
    let (attention, distributions) = (field("attention")?, field("distributions")?);
    let answer = Answer {
        token: &token,
        confidence: &confidence,
        uncertainty: uncertainty.as_ref(),
        margin: margin.as_ref(),
        entropy: entropy.as_ref(),
        attention: attention.as_ref(),
        distributions: distributions.as_ref(),
    };
    answer.prediction(query.rows.len(), &mut Memory::default())
}

/// A measurement of what ADAS rests on: tables and a figure, and every state behind them.
#[pyclass(frozen, module = "cofill", name = "Diagnosis")]
pub(crate) struct PyDiagnosis {
    diagnosis: Diagnosis,
    states: Vec<State>,
}

#[pymethods]
impl PyDiagnosis {
    /// The tables and notes as Markdown.
    #[getter]
    fn markdown(&self) -> String {
        self.diagnosis.markdown()
    }

    /// The numbers, as a JSON text.
    #[getter]
    fn json(&self) -> String {
        self.diagnosis.json.to_string()
    }

    /// A page with tables and figure that needs nothing else.
    #[getter]
    fn html(&self) -> PyResult<String> {
        self.diagnosis.html().map_err(request)
    }

    /// Every pair that was measured: columns for pandas, polars or plain NumPy.
    ///
    /// Returns
    /// -------
    /// dict of arrays
    ///     ``doc``, ``step``, ``revealed``, ``position``, ``attention``, ``confidence``, ``score``, ``kl``, ``delta_confidence``.
    #[pyo3(signature = () -> "dict[str, typing.Any]")]
    fn pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        use cofill_eval::diagnose::state::Effect;
        let columns = PyDict::new(py);
        let all = || self.states.iter().flat_map(|state| state.pairs.iter().map(move |pair| (state, pair)));
        let whole =
            |field: fn(&State, &Effect) -> usize| arrays::indices(py, all().map(|(state, pair)| field(state, pair)));
        let float = |field: fn(&Effect) -> f64| arrays::vector(py, all().map(|(_, pair)| field(pair)).collect());
        columns.set_item("doc", whole(|state, _| state.doc))?;
        columns.set_item("step", whole(|state, _| state.step))?;
        columns.set_item("revealed", whole(|state, _| state.revealed.position))?;
        columns.set_item("position", whole(|_, pair| pair.position))?;
        columns.set_item("attention", float(|pair| pair.attention))?;
        columns.set_item("confidence", float(|pair| pair.confidence))?;
        columns.set_item("score", float(|pair| pair.score))?;
        columns.set_item("kl", float(|pair| pair.kl))?;
        columns.set_item("delta_confidence", float(|pair| pair.delta_confidence))?;
        Ok(columns)
    }

    fn _repr_html_(&self) -> PyResult<String> {
        self.diagnosis.fragment().map_err(request)
    }

    fn __str__(&self) -> String {
        self.markdown()
    }

    fn __repr__(&self) -> String {
        let pairs: usize = self.states.iter().map(|state| state.pairs.len()).sum();
        format!("Diagnosis({} states, {pairs} pairs)", self.states.len())
    }
}

/// Does attention among masks tell what revealing one does to another? The paper's intervention (section 4, appendix B) on canvases of your own.
///
/// `cofill.diagnose.intervention` and `cofill.diagnose.deferral` call this for engines and torch models.
///
/// Parameters
/// ----------
/// denoiser : Engine or object
///     An object has ``mask_id``, ``vocab`` and ``denoise(queries)``, which answers a list of `Query` with a list of dicts of arrays, as
///     `Decode.absorb` takes them.
/// canvases : sequence of array of int
///     Each with masks.
/// reading : str
///     ``"intervention"`` or ``"deferral"``.
/// model, task : str
///     What tables call them.
/// k : int
///     Top-k of the decode that is probed.
/// steps : sequence of int, optional
///     Which of its steps; the paper's five by default.
/// layer : str
///     Whose attention.
/// scope : str
///     ``"selected"``: the others that Top-k would commit, ``"all"``: every other mask.
/// alpha : float
/// resamples, seed : int
///     Of the bootstrap.
///
/// Returns
/// -------
/// Diagnosis
#[pyfunction]
#[pyo3(signature = (denoiser: "Engine | object", canvases: "typing.Sequence[numpy.typing.ArrayLike]", *, reading = "intervention", model = "model", task = "canvases", k = 8, steps: "typing.Sequence[int] | None" = None, layer = "last", scope = "selected", alpha = 40.0, resamples = 10_000, seed = 0) -> "Diagnosis")]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn measure(
    py: Python<'_>,
    denoiser: &Bound<'_, PyAny>,
    canvases: Vec<Bound<'_, PyAny>>,
    reading: &str,
    model: &str,
    task: &str,
    k: usize,
    steps: Option<&Bound<'_, PyAny>>,
    layer: &str,
    scope: &str,
    alpha: f64,
    resamples: usize,
    seed: u64,
) -> PyResult<PyDiagnosis> {
    let choice = |what: &str, given: &str, known: [&str; 2]| match known.contains(&given) {
        true => Ok(()),
        false => Err(request(format!("{what} is `{given}`, but must be `{}` or `{}`", known[0], known[1]))),
    };
    choice("reading", reading, ["intervention", "deferral"])?;
    choice("scope", scope, ["selected", "all"])?;
    if k < 2 {
        return Err(request(format!("k is {k}, but must be 2 or more: one is revealed, the others are looked at")));
    }
    if !(alpha.is_finite() && alpha >= 0.0) {
        return Err(request(format!("alpha is {alpha}, but must be 0 or more")));
    }
    let options = StateOptions {
        k,
        steps: steps.map_or(Ok(Steps::Spread), |steps| arrays::positions("steps", steps).map(Steps::Given))?,
        layers: layer.parse().or_raise()?,
        scope: if scope == "all" { Scope::All } else { Scope::CoSelected },
        alpha,
        heads: Heads::Mean,
        ..StateOptions::default()
    };
    if canvases.is_empty() {
        return Err(request("canvases is empty; give one or more"));
    }
    let canvases =
        canvases.iter().map(|canvas| arrays::tokens("canvases", canvas, None)).collect::<PyResult<Vec<_>>>()?;
    let all = match denoiser.cast::<Engine>() {
        Ok(engine) => {
            let shared = &engine.get().shared;
            shared.run_stoppable(py, &shared.opened, |engine| {
                canvases.iter().try_for_each(|canvas| engine.fit(canvas.len())).or_raise()?;
                measured(engine.denoiser(), &canvases, &options)
            })?
        }
        Err(_) => {
            let mask_id = denoiser.getattr("mask_id")?.extract()?;
            let vocab = denoiser.getattr("vocab")?.extract()?;
            let object = denoiser.clone().unbind();
            py.detach(|| measured(&mut Foreign { object: &object, mask_id, vocab }, &canvases, &options))?
        }
    };
    if all.is_empty() {
        return Err(request(
            "no step was probed: the steps that were given are behind the end of every decode; give smaller ones",
        ));
    }
    let setting = Setting { task: task.into(), model: model.into(), states: all };
    let bootstrap = Bootstrap { resamples, seed };
    let settings = std::slice::from_ref(&setting);
    let diagnosis = match reading {
        "deferral" => deferral::report(settings, &bootstrap),
        _ => intervention::report(settings, &bootstrap),
    };
    Ok(PyDiagnosis { diagnosis, states: setting.states })
}

fn measured(denoiser: &mut dyn Denoiser, canvases: &[Vec<TokenId>], options: &StateOptions) -> PyResult<Vec<State>> {
    let mut all = Vec::new();
    for (doc, tokens) in canvases.iter().enumerate() {
        let canvas = Canvas::new(tokens.clone(), denoiser.mask_id());
        if canvas.n_masked() == 0 {
            return Err(request(format!(
                "canvases[{doc}] has no mask ({}), so there is nothing to reveal",
                denoiser.mask_id()
            )));
        }
        all.extend(states(denoiser, canvas, doc, options).or_raise()?);
    }
    Ok(all)
}
