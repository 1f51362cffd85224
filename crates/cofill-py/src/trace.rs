//! Decodes written down: read, written, as columns, compared.

use crate::arrays::{self, Array1};
use crate::decode::Step;
use crate::errors::{OrRaise, request};
use cofill::TokenId;
use cofill::trace::{Commit, TraceWriter};
use cofill::trace_diff::{diff, settings};
use cofill_report::output::{Existing, Output};
use cofill_report::trace_page;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// A decode written down: which position was committed when and why.
///
/// `Trace.read` reads what ``cofill generate --trace`` wrote; generations and decodes have theirs in ``.trace``.
///
/// Examples
/// --------
/// >>> r = cofill.Engine("tiny-llada").generate("Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?")
/// >>> r.trace.commits()["step"][:4].tolist()
/// [0, 0, 1, 1]
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Trace {
    pub(crate) trace: cofill::Trace,
}

impl Trace {
    pub(crate) fn of(trace: cofill::Trace) -> Trace {
        Trace { trace }
    }

    fn commits_in_order(&self) -> impl Iterator<Item = (usize, &Commit, Option<&String>)> {
        self.trace.steps.iter().flat_map(|step| {
            let commits = step.commits.iter().enumerate();
            commits.map(|(i, commit)| (step.step, commit, step.pieces.get(i)))
        })
    }
}

#[pymethods]
impl Trace {
    /// Reads a trace file and checks that it can be replayed.
    ///
    /// Parameters
    /// ----------
    /// path : str or path
    #[staticmethod]
    #[pyo3(signature = (path: "str | os.PathLike[str]"))]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Trace> {
        let named = |problem: String| request(format!("`{}`: {problem}", path.display()));
        let file = File::open(&path).map_err(|error| named(error.to_string()))?;
        let trace =
            py.detach(|| cofill::Trace::read(BufReader::new(file))).map_err(|error| named(error.to_string()))?;
        Ok(Trace { trace })
    }

    /// Writes the trace as ``cofill trace`` reads it.
    ///
    /// Parameters
    /// ----------
    /// path : str or path
    /// force : bool
    ///     Replace a file that exists.
    #[pyo3(signature = (path: "str | os.PathLike[str]", *, force = false))]
    fn write(&self, path: PathBuf, force: bool) -> PyResult<()> {
        let cofill::Trace { header, steps, end } = &self.trace;
        let mut file = whole(&path, force)?;
        let written = (|| {
            let mut writer = TraceWriter::new(&mut file, header)?;
            steps.iter().try_for_each(|step| writer.step(step))?;
            end.as_ref().map_or(Ok(()), |end| writer.end(end))
        })();
        written.map_err(|error| request(format!("cannot write `{}`: {error}", path.display())))?;
        file.publish().or_raise()
    }

    /// Everything that was committed, one entry for each commit: columns for pandas, polars or plain NumPy.
    ///
    /// Returns
    /// -------
    /// dict of arrays
    ///     ``step``, ``position``, ``token``, ``confidence``, ``entropy``, ``score``, ``utility``, and ``piece`` (a list of str).
    #[pyo3(signature = () -> "dict[str, typing.Any]")]
    fn commits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let of = |field: fn(&Commit) -> f64| {
            arrays::vector(py, self.commits_in_order().map(|(_, commit, _)| field(commit)).collect())
        };
        columns.set_item("step", arrays::indices(py, self.commits_in_order().map(|(step, ..)| step)))?;
        columns
            .set_item("position", arrays::indices(py, self.commits_in_order().map(|(_, commit, _)| commit.position)))?;
        let tokens: Vec<TokenId> = self.commits_in_order().map(|(_, commit, _)| commit.token).collect();
        columns.set_item("token", arrays::vector(py, tokens))?;
        columns.set_item("confidence", of(|commit| commit.confidence))?;
        columns.set_item("entropy", of(|commit| commit.entropy))?;
        columns.set_item("score", of(|commit| commit.score))?;
        columns.set_item("utility", of(|commit| commit.utility))?;
        let pieces = self.commits_in_order().map(|(_, _, piece)| piece.map_or("", String::as_str));
        columns.set_item("piece", PyList::new(py, pieces.collect::<Vec<_>>())?)?;
        Ok(columns)
    }

    /// The decode as a page that needs nothing else: the canvas with a scrubber, confidence as colour, who waits for whom.
    ///
    /// Parameters
    /// ----------
    /// path : str or path, optional
    ///     Also write it there.
    /// force : bool
    ///     Replace a file that exists.
    ///
    /// Returns
    /// -------
    /// str
    #[pyo3(signature = (path: "str | os.PathLike[str] | None" = None, *, force = false))]
    fn html(&self, path: Option<PathBuf>, force: bool) -> PyResult<String> {
        let page = trace_page::page(&self.trace);
        path.map_or(Ok(()), |path| publish(&path, force, page.as_bytes()))?;
        Ok(page)
    }

    fn _repr_html_(&self) -> String {
        trace_page::fragment(&self.trace)
    }

    /// The sampler's text.
    #[getter]
    fn sampler(&self) -> String {
        self.trace.header.sampler.to_string()
    }

    /// The model, as it was named.
    #[getter]
    fn model(&self) -> &str {
        &self.trace.header.model
    }

    /// The canvas at the start. uint32 (length,)
    #[getter]
    fn tokens(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.trace.header.tokens.to_vec())
    }

    /// The canvas at the end; None when the decode was interrupted.
    #[getter]
    fn end(&self, py: Python<'_>) -> Option<Array1<u32>> {
        self.trace.end.as_ref().map(|end| arrays::vector(py, end.tokens.to_vec()))
    }

    /// Which token marks an open position.
    #[getter]
    fn mask_id(&self) -> TokenId {
        self.trace.header.mask_id
    }

    /// Positions per block, if there were blocks.
    #[getter]
    fn block(&self) -> Option<usize> {
        self.trace.header.block
    }

    #[getter]
    fn temperature(&self) -> f64 {
        self.trace.header.temperature
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.trace.header.seed
    }

    /// The text of each token of the canvas at the start.
    #[getter]
    fn pieces(&self) -> Vec<String> {
        self.trace.header.pieces.clone()
    }

    /// Every step.
    #[getter]
    fn steps(&self) -> Vec<Step> {
        self.trace.steps.iter().cloned().map(Step::of).collect()
    }

    /// Forwards in all.
    #[getter]
    fn nfe(&self) -> usize {
        self.trace.nfe()
    }

    fn __len__(&self) -> usize {
        self.trace.steps.len()
    }

    fn __repr__(&self) -> String {
        let header = &self.trace.header;
        format!(
            "Trace({}, {}, {} steps, nfe {})",
            header.model,
            header.sampler,
            self.trace.steps.len(),
            self.trace.nfe()
        )
    }
}

/// Writes a file whole, or not at all.
pub(crate) fn publish(path: &Path, force: bool, bytes: &[u8]) -> PyResult<()> {
    let mut file = whole(path, force)?;
    file.write_all(bytes).map_err(|error| request(format!("cannot write `{}`: {error}", path.display())))?;
    file.publish().or_raise()
}

/// A file that is complete or not there at all.
fn whole(path: &Path, force: bool) -> PyResult<Output> {
    let existing = if force { Existing::Replace } else { Existing::Refuse };
    Output::whole(path, existing).map_err(|error| match path.is_file() && !force {
        true => request(format!("{error}; give another path, or force=True to replace it")),
        false => request(error),
    })
}

/// Where two decodes part, and why. False when they do not.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct TraceDiff {
    settings: Vec<String>,
    difference: Option<String>,
}

#[pymethods]
impl TraceDiff {
    /// They are the same after every step.
    #[getter]
    fn equal(&self) -> bool {
        self.difference.is_none()
    }

    /// Settings that differ.
    #[getter]
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

    fn __bool__(&self) -> bool {
        self.difference.is_some()
    }

    fn __str__(&self) -> String {
        let differs = self.settings.iter().map(|setting| format!("differs: {setting}\n"));
        let end = self.difference.as_deref().unwrap_or("the same after every step");
        differs.collect::<String>() + end
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }
}

/// Compares two traces: the first step whose commits differ, and why.
///
/// Parameters
/// ----------
/// a, b : Trace
///
/// Returns
/// -------
/// TraceDiff
///     ``str()`` says it in words; ``.equal`` whether there is none.
#[pyfunction]
pub(crate) fn trace_diff(a: &Bound<'_, Trace>, b: &Bound<'_, Trace>) -> TraceDiff {
    let (a, b) = (&a.get().trace, &b.get().trace);
    let settings = settings(a, b).into_iter().map(|setting| setting.to_string()).collect();
    TraceDiff { settings, difference: diff(a, b).map(|difference| difference.to_string()) }
}
