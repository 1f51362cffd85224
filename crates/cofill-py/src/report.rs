//! Results compared at equal cost, and one decode explained: what `cofill report` and `cofill explain` say, for notebooks.

use crate::engine::Engine;
use crate::errors::{OrRaise, request};
use crate::evaluate::warn;
use crate::options::{input_of, run_options};
use crate::sampler::spec_of;
use crate::trace::publish;
use cofill_engine::DEFAULT_SAMPLER;
use cofill_eval::diagnose::explain::Story;
use cofill_report::points::table::from_rows;
use cofill_report::points::{OperatingPoint, Points, files, table};
use cofill_report::statistics::bootstrap::Bootstrap;
use cofill_report::statistics::versus::Pairing;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::path::PathBuf;

/// Samplers compared: gains at matched NFE, tests, fronts, figures. A page in a notebook.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Report {
    report: cofill_report::report::Report,
}

#[pymethods]
impl Report {
    /// Its tables as Markdown.
    #[getter]
    fn markdown(&self) -> String {
        self.report.markdown()
    }

    /// Everything, as a JSON text.
    #[getter]
    fn json(&self) -> PyResult<String> {
        self.report.json().or_raise()
    }

    /// A page that needs nothing else, figures included.
    #[getter]
    fn html(&self) -> PyResult<String> {
        self.report.html().map_err(request)
    }

    /// Its points as a table that `report` and ``cofill report --points`` read.
    #[getter]
    fn csv(&self) -> PyResult<String> {
        table::write(&self.report.points).map_err(request)
    }

    /// What a reader must know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.report.warnings.clone()
    }

    fn _repr_html_(&self) -> PyResult<String> {
        self.report.fragment().map_err(request)
    }

    fn __str__(&self) -> String {
        self.report.markdown()
    }

    fn __repr__(&self) -> String {
        format!("Report({} points)", self.report.points.all().len())
    }
}

/// Compares samplers at equal cost, as ``cofill report`` does.
///
/// Parameters
/// ----------
/// points : path, paths, DataFrame, dict of columns, or sequence of dicts
///     Files and folders that `evaluate`, `sweep` or the command wrote; or rows with ``model``, ``rule``, ``param``, ``task``, ``variant``,
///     ``score`` (percent) and ``nfe``; ``length`` (generated positions) unless the task is one of the paper's; and, where known, ``n``, ``standard_error``.
/// versus : sequence of str
///     Variants to compare over questions: ``"paths:100/adas"``.
/// resamples, seed : int
///     Of the bootstrap intervals.
///
/// Returns
/// -------
/// Report
///
/// Examples
/// --------
/// >>> rows = [
/// ...     {"model": "m", "rule": "topk", "param": 4, "task": "chain", "variant": v, "score": s, "nfe": 9.5, "length": 38}
/// ...     for v, s in [("base", 70.0), ("adas", 81.5)]
/// ... ]
/// >>> cofill.report(rows)
/// Report(2 points)
#[pyfunction]
#[pyo3(signature = (points: "typing.Any", *, versus: "typing.Sequence[str]" = Vec::new(), resamples = 10_000, seed = 0))]
pub(crate) fn report(
    py: Python<'_>,
    points: &Bound<'_, PyAny>,
    versus: Vec<String>,
    resamples: usize,
    seed: u64,
) -> PyResult<Report> {
    // A generator can be looked at once.
    let points = match points.hasattr("__next__")? {
        true => &PyList::new(py, points.try_iter()?.collect::<PyResult<Vec<_>>>()?)?.into_any(),
        false => points,
    };
    let found = match paths(points)? {
        Some(paths) => py.detach(|| files::read(&paths)).or_raise()?,
        None => rows(points)?,
    };
    let pairings: Vec<Pairing> = versus.iter().map(|text| pairing(text)).collect::<PyResult<_>>()?;
    let points = Points::new(found).or_raise()?;
    if points.all().is_empty() {
        return Err(request("there is no operating point; give rows, or files of results"));
    }
    let bootstrap = Bootstrap { resamples, seed };
    let report = py.detach(|| cofill_report::report::Report::new(points, bootstrap).against(&pairings));
    report.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    Ok(Report { report })
}

fn pairing(text: &str) -> PyResult<Pairing> {
    text.parse().map_err(|problem| request(format!("versus: {problem}")))
}

/// A path, or a list of them.
fn paths(points: &Bound<'_, PyAny>) -> PyResult<Option<Vec<PathBuf>>> {
    let is_path = |given: &Bound<'_, PyAny>| -> PyResult<bool> {
        Ok(given.is_instance_of::<PyString>() || given.hasattr("__fspath__")?)
    };
    if is_path(points)? {
        return Ok(Some(vec![points.extract()?]));
    }
    if points.is_instance_of::<PyDict>() || points.hasattr("columns")? {
        return Ok(None);
    }
    let items = points.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    match items.first() {
        Some(first) if is_path(first)? => items.iter().map(PyAnyMethods::extract).collect::<PyResult<_>>().map(Some),
        _ => Ok(None),
    }
}

/// Rows of a DataFrame (pandas, polars), of a dict of columns, or of dicts.
fn rows(points: &Bound<'_, PyAny>) -> PyResult<Vec<OperatingPoint>> {
    let (columns, rows): (Vec<String>, Vec<Vec<String>>) = if points.is_instance_of::<PyDict>()
        || points.hasattr("columns")?
    {
        let names =
            if points.hasattr("columns")? { points.getattr("columns")? } else { points.call_method0("keys")? };
        let columns: Vec<String> = names.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?;
        let cells = |name: &String| points.get_item(name)?.try_iter()?.map(|value| cell(&value?)).collect();
        let by_column = columns.iter().map(cells).collect::<PyResult<Vec<Vec<String>>>>()?;
        let n = by_column.iter().map(Vec::len).max().unwrap_or(0);
        if let Some((name, column)) = columns.iter().zip(&by_column).find(|(_, column)| column.len() != n) {
            let length = column.len();
            return Err(request(format!(
                "the column `{name}` has {length} values, but another has {n}; give one for each point"
            )));
        }
        let row = |i: usize| by_column.iter().map(|column| column.get(i).cloned().unwrap_or_default()).collect();
        (columns, (0..n).map(row).collect())
    } else {
        let given = points.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let mut columns: Vec<String> = Vec::new();
        for row in &given {
            let row = row
                .cast::<PyDict>()
                .map_err(|_| request("points are neither paths nor rows; give dicts or a DataFrame"))?;
            for name in row.keys() {
                let name: String = name.extract()?;
                if !columns.contains(&name) {
                    columns.push(name);
                }
            }
        }
        let value =
            |row: &Bound<'_, PyAny>, name: &String| row.get_item(name).map_or(Ok(String::new()), |value| cell(&value));
        let row = |row: &Bound<'_, PyAny>| columns.iter().map(|name| value(row, name)).collect::<PyResult<Vec<_>>>();
        let rows = given.iter().map(row).collect::<PyResult<Vec<_>>>()?;
        (columns, rows)
    };
    from_rows(&columns, rows).or_raise()
}

/// A value as a table writes it; nothing for None and NaN, which is how DataFrames say nothing.
fn cell(value: &Bound<'_, PyAny>) -> PyResult<String> {
    match value.extract::<f64>() {
        Ok(number) if number.is_nan() => Ok(String::new()),
        _ if value.is_none() => Ok(String::new()),
        _ => Ok(value
            .str()
            .map(|text| text.to_string())
            .map(|text| if text == "<NA>" { String::new() } else { text })?),
    }
}

/// One decode with reasons: what ADAS deferred, because of whom, and what revealing that one did to it. A page in a notebook.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Explanation {
    story: Story,
}

#[pymethods]
impl Explanation {
    /// The whole story in words.
    #[getter]
    fn text(&self) -> String {
        self.story.text()
    }

    /// The numbers, as a JSON text.
    #[getter]
    fn json(&self) -> PyResult<String> {
        self.story.json().or_raise()
    }

    /// A page that needs nothing else.
    #[getter]
    fn html(&self) -> String {
        self.story.html()
    }

    /// What the decode came to, and what it came to without the discount.
    #[getter]
    fn endings(&self) -> (String, String) {
        (self.story.with.text.clone(), self.story.without.text.clone())
    }

    /// Writes the page.
    #[pyo3(signature = (path: "str | os.PathLike[str]", *, force = false))]
    fn write(&self, path: PathBuf, force: bool) -> PyResult<()> {
        publish(&path, force, self.story.html().as_bytes())
    }

    fn _repr_html_(&self) -> String {
        self.story.fragment()
    }

    fn __str__(&self) -> String {
        self.story.text()
    }

    fn __repr__(&self) -> String {
        format!("Explanation({})", self.story.summary())
    }
}

/// Follows one decode and says, step by step, what ADAS deferred, because of whom, and what revealing that one did to it.
///
/// Parameters
/// ----------
/// engine : Engine
/// prompt : str, list of messages, or array of int
/// sampler : str or Sampler
///     With a discount: ``"topk:4+ad"``.
/// **options
///     As for `Engine.generate`.
///
/// Returns
/// -------
/// Explanation
///
/// Examples
/// --------
/// >>> story = cofill.explain(cofill.Engine("toy"), None, sampler="topk:2+ad", length=6)
/// >>> story.endings
/// ('Alan Turing visited San Diego again', 'Alan Kelly visited San City again')
#[pyfunction]
#[pyo3(signature = (engine, prompt: "str | typing.Sequence[typing.Any] | numpy.typing.ArrayLike | None" = None, *, sampler: "str | Sampler | None" = None, **options: "typing.Any"))]
pub(crate) fn explain(
    py: Python<'_>,
    engine: &Bound<'_, Engine>,
    prompt: Option<&Bound<'_, PyAny>>,
    sampler: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Explanation> {
    let spec = match sampler {
        Some(sampler) => spec_of(sampler)?,
        None => DEFAULT_SAMPLER.parse().or_raise()?,
    };
    let shared = &engine.get().shared;
    let (input, options) = (input_of(prompt)?, run_options(options, &shared.opened)?);
    if options.max_nfe.is_some() {
        return Err(request("max_nfe is not for explain, which follows a decode to its end; leave it out"));
    }
    let story = shared.run_stoppable(py, &options, |engine| {
        let spec = engine.settle(&spec).or_raise()?;
        Story::tell(engine, &input, &spec, &options).or_raise()
    })?;
    story.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    Ok(Explanation { story })
}
