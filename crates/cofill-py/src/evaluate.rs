//! Scores and sweeps with samplers of either language: what `cofill eval` and `cofill sweep run` do.

use crate::arrays;
use crate::errors::{OrRaise, request};
use crate::options::{keywords, read};
use crate::sampler::{registry, spec_of};
use crate::threads::{Threads, stoppable};
use cofill::SamplerSpec;
use cofill_engine::{DEFAULT_MODEL, DEFAULT_SAMPLER, provenance};
use cofill_eval::recipe::Recipe;
use cofill_eval::spec::EvalSpec;
use cofill_eval::sweep::{Notice, OpenPoints, Places, Share, Sweep, Worker, claim, plan};
use cofill_report::output::Existing;
use cofill_report::results::{Record, Results, Totals};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What came of a task: the score, what it cost, and every answer.
///
/// Attributes
/// ----------
/// score, standard_error : float
///     Of the task's first metric, as a share of 1.
/// nfe : float
///     Forwards for each question, on average.
/// n : int
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Evaluation {
    spec: EvalSpec,
    totals: Totals,
    records: Vec<Record>,
    warnings: Vec<String>,
}

#[pymethods]
impl Evaluation {
    /// The mean of the task's first metric, 0 to 1.
    #[getter]
    fn score(&self) -> f64 {
        self.totals.score().0
    }

    /// Its standard error, where there is one.
    #[getter]
    fn standard_error(&self) -> Option<f64> {
        self.totals.score().1
    }

    /// Forwards for each question, on average.
    #[getter]
    fn nfe(&self) -> f64 {
        self.totals.mean_nfe()
    }

    /// Positions that a forward filled, on average.
    #[getter]
    fn tokens_per_forward(&self) -> f64 {
        self.totals.per_forward()
    }

    /// How many questions were asked.
    #[getter]
    fn n(&self) -> usize {
        self.totals.n
    }

    /// The task's name.
    #[getter]
    fn task(&self) -> String {
        self.spec.task.name().into()
    }

    /// The model, as it was named.
    #[getter]
    fn model(&self) -> &str {
        &self.spec.model
    }

    /// The sampler's text.
    #[getter]
    fn sampler(&self) -> String {
        self.spec.sampler.to_string()
    }

    /// What a reader of the score must know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Every answer, one entry for each question: columns for pandas, polars or plain NumPy.
    ///
    /// Returns
    /// -------
    /// dict of arrays
    ///     ``doc_id``, ``score``, ``nfe``, ``filled``, ``seconds``, and ``text`` (a list of str).
    #[pyo3(signature = () -> "dict[str, typing.Any]")]
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let whole = |field: fn(&Record) -> usize| arrays::indices(py, self.records.iter().map(field));
        let float = |field: fn(&Record) -> f64| arrays::vector(py, self.records.iter().map(field).collect());
        columns.set_item("doc_id", whole(|record| record.doc_id))?;
        columns.set_item("score", float(|record| record.score))?;
        columns.set_item("nfe", whole(|record| record.nfe))?;
        columns.set_item("filled", whole(|record| record.filled))?;
        columns.set_item("seconds", float(|record| record.seconds))?;
        columns.set_item("text", PyList::new(py, self.records.iter().map(|record| &record.text))?)?;
        Ok(columns)
    }

    fn __repr__(&self) -> String {
        let (score, n, nfe) = (100.0 * self.score(), self.n(), self.nfe());
        format!("Evaluation({}, {}, {score:.1} % of {n}, nfe {nfe:.2})", self.task(), self.sampler())
    }
}

/// Scores a model and a sampler on a task, as ``cofill eval`` does.
///
/// Parameters
/// ----------
/// task : str
///     ``chain``, ``sums``, ``code``, ``sudoku``, ``predicates``; ``gsm8k``, ``gsm8k_cot``, ``math500``, ``humaneval``, ``mbpp`` with ``data=FOLDER``;
///     ``infill`` with ``data=FILE``; or a task file, ``my.toml`` (``docs/tasks.md``; one that judges by a command wants ``allow_command=True``).
/// model : str
///     As for `Engine`.
/// sampler : str, Sampler, object or class
/// out : str or path, optional
///     Also write what was run, and a line per question, as ``cofill eval --out`` does; `report` reads it.
/// force : bool
///     Replace ``out`` if it exists.
/// on_record : callable, optional
///     Called after every batch with the questions done and all of them, from a thread of the engine.
/// **options
///     As on the command line: ``limit``, ``batch``, ``split``, ``shots``, ``wrapper``, ``data``, ``math``, ``python``, ``length``, ``block``, ``seed``, ...
///
/// Returns
/// -------
/// Evaluation
///
/// Examples
/// --------
/// >>> cofill.evaluate("chain", sampler="topk:2+ad", limit=4).n
/// 4
#[pyfunction]
#[pyo3(signature = (task, model = DEFAULT_MODEL, sampler: "str | Sampler | object" = None, *, out: "str | os.PathLike[str] | None" = None, force = false, on_record: "typing.Callable[[int, int], object] | None" = None, **options: "typing.Any") -> "Evaluation")]
#[allow(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn evaluate(
    py: Python<'_>,
    task: &str,
    model: &str,
    sampler: Option<&Bound<'_, PyAny>>,
    out: Option<PathBuf>,
    force: bool,
    on_record: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Evaluation> {
    let sampler = match sampler {
        Some(sampler) => spec_of(sampler)?,
        None => DEFAULT_SAMPLER.parse().or_raise()?,
    };
    let spec = spec(task, model, sampler, options)?;
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    let on_record = on_record.map(|callback| callback.clone().unbind());
    computing(py, |stop| {
        let mut open = cofill_eval::open::Evaluation::open(&spec).or_raise()?;
        open.stop_when(Some(Arc::clone(stop)));
        let mut file = match &out {
            None => None,
            Some(path) => {
                let header = open.header(&made_by()).or_raise()?;
                Some(Results::create(path, &header, existing).or_raise()?)
            }
        };
        let (mut totals, mut records, docs) = (Totals::default(), Vec::new(), open.docs());
        while totals.n < docs {
            for record in open.next(totals.n).or_raise()? {
                if let Some(file) = &mut file {
                    file.append(&record).or_raise()?;
                }
                totals.add(&record);
                records.push(record);
            }
            if let Some(callback) = &on_record {
                Python::attach(|py| callback.bind(py).call1((totals.n, docs)).map(drop))?;
            }
        }
        Ok(Evaluation { warnings: open.warnings(), spec: spec.clone(), totals, records })
    })
}

/// One score, by the names that recipes have.
fn spec(task: &str, model: &str, sampler: SamplerSpec, options: Option<&Bound<'_, PyDict>>) -> PyResult<EvalSpec> {
    let base = [("task", task), ("model", model), ("sampler", DEFAULT_SAMPLER)];
    let base = base.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
    let mut options = keywords(options)?;
    // No file can allow a command; a program that calls us can.
    let allowed = match options.remove("allow_command") {
        None | Some(serde_json::Value::Bool(false)) => false,
        Some(serde_json::Value::Bool(true)) => true,
        Some(other) => return Err(request(format!("allow_command is {other}; give True or False"))),
    };
    let spec: EvalSpec<String> = read(&options, &base)?;
    let mut spec = EvalSpec { sampler, ..spec.resolve(&registry()).or_raise()? };
    spec.judges.allow_command = allowed;
    Ok(spec)
}

/// Who makes results.
fn made_by() -> serde_json::Value {
    let mut made_by = provenance(cofill_cli::COMMIT);
    made_by["door"] = "python".into();
    made_by
}

/// Runs a recipe of sweeps to its end, as ``cofill sweep run`` does, also with samplers that `register` has named.
///
/// Interrupted, it leaves a folder that the same call continues.
///
/// Parameters
/// ----------
/// recipe : str or path
///     A TOML file, or the text of one.
/// dir : str or path
///     The folder of the sweep; `report` reads it.
/// models, data : str or path, optional
///     The folders with checkpoints and with the files of benchmarks.
/// limit : int, optional
///     At most so many questions of each task.
/// unit : int
///     Questions in a unit of work.
///
/// Returns
/// -------
/// dict
///     ``points``, and the ``units`` and ``examples`` that this call did.
#[pyfunction]
#[pyo3(signature = (recipe: "str | os.PathLike[str]", dir: "str | os.PathLike[str]", *, models: "str | os.PathLike[str]" = PathBuf::from("."), data: "str | os.PathLike[str] | None" = None, limit = None, unit = 32) -> "dict[str, int]")]
pub(crate) fn sweep(
    py: Python<'_>,
    recipe: &Bound<'_, PyAny>,
    dir: PathBuf,
    models: PathBuf,
    data: Option<PathBuf>,
    limit: Option<usize>,
    unit: usize,
) -> PyResult<BTreeMap<&'static str, usize>> {
    let registry = registry();
    let recipe = match recipe.cast::<PyString>().map(ToString::to_string) {
        Ok(text) if text.contains('\n') => Recipe::parse("recipe".as_ref(), &text, &registry),
        _ => Recipe::read_with(&recipe.extract::<PathBuf>()?, &registry),
    };
    let recipe = recipe.or_raise()?;
    if limit == Some(0) || unit == 0 {
        return Err(request("limit and unit must be 1 or more"));
    }
    let places = Places { models, data, limit: limit.and_then(NonZeroUsize::new), unit, allow_command: false };
    computing(py, |stop| {
        let (made_by, mut warnings) = (made_by(), Vec::new());
        plan(&recipe, &dir, &places, (&registry, &made_by), &mut |warning| warnings.push(warning.to_owned()))
            .or_raise()?;
        Python::attach(|py| warnings.iter().try_for_each(|warning| warn(py, warning)))?;
        let sweep = Sweep::open(&dir).or_raise()?.with_registry(registry);
        let mut tell = |_: Notice<'_>| {};
        let mut runner = OpenPoints::new(made_by, &mut tell).stop_when(Arc::clone(stop));
        let worker = Worker::new(&sweep, Share::All, claim::LEASE).or_raise()?;
        let done = worker.work(&mut runner).or_raise()?;
        let points = sweep.points().or_raise()?.len();
        sweep.merge().or_raise()?;
        Ok(BTreeMap::from([("points", points), ("units", done.units), ("examples", done.examples)]))
    })
}

/// `warnings.warn`
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    py.import("warnings")?.call_method1("warn", (message,)).map(drop)
}

/// Computes on threads of its own while Python goes on, and listens for Ctrl-C.
fn computing<T: Send>(py: Python<'_>, work: impl FnOnce(&Arc<AtomicBool>) -> PyResult<T> + Send) -> PyResult<T> {
    py.detach(|| stoppable(|stop| Threads::new(None)?.run(|| work(stop))))
}
