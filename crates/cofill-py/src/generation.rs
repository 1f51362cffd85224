//! What came of a canvas, and the same while it happens.

use crate::arrays::{self, Array1};
use crate::decode::Step;
use crate::engine::Shared;
use crate::errors::{OrRaise, request};
use crate::held::{Held, refuse_if_held};
use crate::trace::Trace;
use cofill::{SamplerSpec, TokenId};
use cofill_engine::{Filling, Finish, RunOptions};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What came of a prompt.
///
/// Attributes
/// ----------
/// text : str
///     What a person reads: prompt and answer, up to the end of text or a stop string.
/// tokens : uint32 (length,)
///     The whole canvas, prompt included; ``tokens[prompt_length:]`` is what was generated behind a prompt.
/// nfe : int
///     Forwards of the model.
/// finish : str
///     ``'complete'``, ``'capped'`` (by ``max_nfe``) or ``'cancelled'``.
/// ended : str
///     ``'eos'`` (an end of text or of a turn), ``'stop'`` (a stop string), ``'full'`` (every position filled, no end: a gap, or an answer that
///     may be cut off), ``'capped'`` or ``'cancelled'``.
/// trace : Trace
/// seconds : dict
///     Where the time went: ``model``, ``sampler``.
/// cache : dict or None
///     What a cache saved and how far its answers were from exact ones (``mean_kl``), as far as that was measured.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Generation {
    generation: cofill_engine::Generation,
    trace: cofill::Trace,
    warnings: Vec<String>,
}

impl Generation {
    pub(crate) fn new(
        generation: cofill_engine::Generation,
        warnings: Vec<String>,
        engine: &cofill_engine::Engine,
        sampler: &SamplerSpec,
        options: &RunOptions,
    ) -> Generation {
        let mut header = engine.trace_header(&generation.start, sampler, options);
        header.probes = generation.probes();
        // Only a decode that was stopped in the middle has no end.
        let end = (generation.finish != Finish::Cancelled).then(|| generation.trace_end());
        let trace = cofill::Trace { header, steps: generation.steps.clone(), end };
        Generation { generation, trace, warnings }
    }
}

#[pymethods]
impl Generation {
    /// What a person reads of the canvas.
    #[getter]
    fn text(&self) -> &str {
        &self.generation.text
    }

    /// The whole canvas, prompt included. uint32 (length,)
    #[getter]
    fn tokens(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.generation.canvas.tokens().to_vec())
    }

    /// The canvas before the first step. uint32 (length,)
    #[getter]
    fn start(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.generation.start.tokens().to_vec())
    }

    /// The first position that was masked.
    #[getter]
    fn prompt_length(&self) -> usize {
        self.generation.start.masked().next().unwrap_or(self.generation.start.tokens().len())
    }

    /// Forwards of the model.
    #[getter]
    fn nfe(&self) -> usize {
        self.generation.nfe
    }

    /// What a cache saved and how far its answers were from exact ones, as far as that was measured; ``None`` without a cache.
    #[getter]
    fn cache(&self) -> Option<BTreeMap<&'static str, Option<f64>>> {
        let meter = self.generation.cache.as_ref()?;
        let count = |n: usize| Some(n as f64);
        Some(BTreeMap::from([
            ("full_forwards", count(meter.full_forwards)),
            ("partial_forwards", count(meter.partial_forwards)),
            ("positions_computed_share", Some(meter.computed_share())),
            ("refreshes", count(meter.refreshes)),
            ("checks", count(meter.checks)),
            ("mean_kl", meter.mean_kl),
            ("max_kl", meter.max_kl),
            ("flips", meter.flips.and_then(count)),
        ]))
    }

    /// `'complete'`, `'capped'` or `'cancelled'`.
    #[getter]
    fn finish(&self) -> &'static str {
        match self.generation.finish {
            Finish::Complete => "complete",
            Finish::Capped => "capped",
            _ => "cancelled",
        }
    }

    /// How the text ended: `'eos'`, `'stop'`, `'full'`, `'capped'` or `'cancelled'`.
    #[getter]
    fn ended(&self) -> &'static str {
        self.generation.ended.name()
    }

    /// How many of the forwards found the length of a gap that was written ``[MASK:auto]``.
    #[getter]
    fn probes(&self) -> usize {
        self.generation.probes()
    }

    /// The decode written down.
    #[getter]
    fn trace(&self) -> Trace {
        Trace::of(self.trace.clone())
    }

    /// Every step.
    #[getter]
    fn steps(&self) -> Vec<Step> {
        self.generation.steps.iter().cloned().map(Step::of).collect()
    }

    /// Where the time went, in seconds: `model` and `sampler`.
    #[getter]
    fn seconds(&self) -> BTreeMap<&'static str, f64> {
        let cofill_engine::Seconds { model, sampler } = self.generation.seconds;
        BTreeMap::from([("model", model), ("sampler", sampler)])
    }

    /// How many of the generated tokens are in the text.
    #[getter]
    fn useful(&self) -> usize {
        self.generation.useful
    }

    /// Positions that a forward filled, on average.
    #[getter]
    fn tokens_per_forward(&self) -> f64 {
        self.generation.tokens_per_forward()
    }

    /// Tokens that somebody reads, by the time they took.
    #[getter]
    fn useful_tokens_per_second(&self) -> f64 {
        self.generation.useful_tokens_per_second()
    }

    /// Whether a question of the mini tasks was answered rightly, in words; None for other prompts.
    #[getter]
    fn judged(&self) -> Option<String> {
        self.generation.judged.as_ref().map(cofill_engine::Judged::line)
    }

    /// What whoever asked should hear.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn __str__(&self) -> &str {
        &self.generation.text
    }

    fn __repr__(&self) -> String {
        let cofill_engine::Generation { text, nfe, .. } = &self.generation;
        format!("Generation({text:?}, nfe={nfe}, finish='{}')", self.finish())
    }
}

/// Steps of a generation as they happen; ``.result`` afterwards. Stop when you like: what was committed stays.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    inner: Mutex<Inner>,
    spec: SamplerSpec,
    options: RunOptions,
    warnings: Vec<String>,
}

struct Inner {
    filling: Option<Filling>,
    tokens: Vec<TokenId>,
    result: Option<Py<Generation>>,
}

impl Stream {
    pub(crate) fn new(
        shared: Arc<Shared>,
        filling: Filling,
        spec: SamplerSpec,
        options: RunOptions,
        warnings: Vec<String>,
    ) -> Stream {
        let inner = Inner { filling: Some(filling), tokens: Vec::new(), result: None };
        Stream { shared, inner: Mutex::new(inner), spec, options, warnings }
    }

    /// Waits without holding the interpreter, for whoever has it may need the interpreter to go on.
    fn inner(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Inner>> {
        refuse_if_held(self, "stream")?;
        Ok(self.inner.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Step>> {
        py.check_signals()?;
        let mut inner = self.inner(py)?;
        let Inner { filling: Some(filling), tokens, .. } = &mut *inner else { return Ok(None) };
        let mut steps = VecDeque::new();
        // A sampler that looks ahead takes several rounds to a step.
        while steps.is_empty() && !filling.is_done() {
            self.shared.run(py, &self.options, |engine| {
                let _held = Held::hold(self);
                let mut watch = |event: &cofill_engine::StepEvent<'_>| {
                    steps.push_back(event.step.clone());
                    tokens.clear();
                    tokens.extend_from_slice(event.canvas.tokens());
                    ControlFlow::Continue(())
                };
                filling.round(engine, &mut watch).or_raise()
            })?;
            py.check_signals()?;
        }
        let step = steps.pop_front().map(Step::of);
        if step.is_none() {
            drop(inner);
            self.result(py)?; // raises what ended it
        }
        Ok(step)
    }

    /// The canvas after the latest step. uint32 (length,)
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<Array1<u32>> {
        Ok(arrays::vector(py, self.inner(py)?.tokens.clone()))
    }

    /// What came of it; ends a stream that has not ended.
    #[getter]
    fn result(&self, py: Python<'_>) -> PyResult<Py<Generation>> {
        let mut inner = self.inner(py)?;
        if let Some(filling) = inner.filling.take() {
            let generation = self.shared.run(py, &self.options, |engine| {
                let ended = filling.finish(engine).pop().ok_or_else(|| request("nothing was generated"))?;
                let warnings = self.warnings.clone();
                Ok(Generation::new(ended.or_raise()?, warnings, engine, &self.spec, &self.options))
            })?;
            inner.result = Some(Py::new(py, generation)?);
        }
        let missing = || request("the stream ended with an error, and has no result");
        inner.result.as_ref().map(|result| result.clone_ref(py)).ok_or_else(missing)
    }
}
