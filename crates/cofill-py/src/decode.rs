//! The decode loop for people who have a model of their own: `query` says what to ask it, `absorb` takes the answer.

use crate::arrays::{self, Array1, Array2};
use crate::errors::{OrRaise, request};
use crate::held::{Held, refuse_if_held};
use crate::needs::Needs;
use crate::sampler::{Deferred, spec_of};
use crate::trace::Trace;
use cofill::trace::{Commit, End, Header, VERSION};
use cofill::{Attention, Canvas, Finish, Prediction, Proposal, RowStats, Schedule, Style, TokenId};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One sequence being decoded. You drive: `query` says what to ask the model, `absorb` takes the answer; every absorb is one NFE.
///
/// Parameters
/// ----------
/// tokens : array of int, shape (length,)
///     The canvas, with ``mask_id`` where it is open.
/// mask_id : int
/// sampler : str, Sampler, object or class
///     As for `cofill.sampler`.
/// block : int, optional
///     Decode blocks of so many positions from left to right.
/// temperature, seed, top_p, top_k, suppress, demote
///     How *you* propose tokens; kept for the trace, for `gumbel`, and for samplers that draw. Filters and lists apply to your logits, before
///     you compute statistics.
/// max_nfe : int, optional
///     Stop after so many forwards, with masks left if need be.
/// model : str
///     What the trace calls the model.
/// pieces : sequence of str, optional
///     The text of each token of the canvas, for the trace.
/// piece : callable, optional
///     The text of a token, called for what is committed.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> d = cofill.Decode([5, 9, 9, 9], mask_id=9, sampler="topk:2")
/// >>> while (q := d.query()) is not None:
/// ...     n = len(q.rows)                              # ask a model here
/// ...     step = d.absorb(token=np.arange(n), confidence=np.linspace(0.9, 0.5, n))
/// >>> d.tokens.tolist(), d.nfe, d.finish
/// ([5, 0, 1, 0], 2, 'complete')
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Decode {
    inner: Mutex<Inner>,
}

struct Inner {
    decode: cofill::Decode,
    needs: Needs,
    steps: Vec<cofill::Step>,
    header: Header,
    memory: Memory,
    /// The text of a token, for the trace.
    piece: Option<Py<PyAny>>,
}

impl Decode {
    /// Waits without holding the interpreter, for whoever has it may need the interpreter to go on.
    /// A sampler that used the decode that asks it would wait for itself.
    fn inner(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Inner>> {
        refuse_if_held(self, "decode")?;
        Ok(self.inner.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Decode {
    #[new]
    #[pyo3(signature = (tokens: "numpy.typing.ArrayLike", mask_id: "int", sampler: "str | Sampler | object", *, block: "int | None" = None, temperature = 0.0, seed: "int | None" = None, max_nfe: "int | None" = None, suppress: "typing.Sequence[int] | None" = None, demote: "typing.Sequence[int] | None" = None, top_p = None, top_k: "int | None" = None, model = "", pieces: "typing.Sequence[str] | None" = None, piece: "typing.Callable[[int], str] | None" = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        tokens: &Bound<'_, PyAny>,
        mask_id: &Bound<'_, PyAny>,
        sampler: &Bound<'_, PyAny>,
        block: Option<&Bound<'_, PyAny>>,
        temperature: f64,
        seed: Option<&Bound<'_, PyAny>>,
        max_nfe: Option<&Bound<'_, PyAny>>,
        suppress: Option<&Bound<'_, PyAny>>,
        demote: Option<&Bound<'_, PyAny>>,
        top_p: Option<f64>,
        top_k: Option<&Bound<'_, PyAny>>,
        model: &str,
        pieces: Option<Vec<String>>,
        piece: Option<Py<PyAny>>,
    ) -> PyResult<Decode> {
        let count =
            |what: &str, given: Option<&Bound<'_, PyAny>>| given.map(|given| arrays::whole(what, given)).transpose();
        let (block, max_nfe, top_k) = (count("block", block)?, count("max_nfe", max_nfe)?, count("top_k", top_k)?);
        let seed = seed.map_or(Ok(0), |seed| arrays::whole("seed", seed))?;
        let mask_id: TokenId = arrays::whole("mask_id", mask_id)?;
        let ids = |what: &str, given: Option<&Bound<'_, PyAny>>| {
            given.map_or_else(|| Ok(Vec::new()), |given| arrays::tokens(what, given, None))
        };
        let (suppress, demote) = (ids("suppress", suppress)?, ids("demote", demote)?);
        let pieces = pieces.unwrap_or_default();
        let tokens = arrays::tokens("tokens", tokens, None)?;
        if !pieces.is_empty() && pieces.len() != tokens.len() {
            return Err(request(format!(
                "pieces has {} texts, but there are {} tokens; give one each",
                pieces.len(),
                tokens.len()
            )));
        }
        let spec = spec_of(sampler)?;
        let mut proposal = Proposal::sampled(temperature, seed).suppress(suppress).demote(demote);
        if top_p.is_some() || top_k.is_some() {
            proposal = proposal.style(Style::Filtered { top_p, top_k });
        }
        let policy = spec.build().or_raise()?;
        let needs = Needs::of(&policy);
        let schedule = block.map_or(Schedule::Full, |len| Schedule::Blocks { len });
        let builder = cofill::Decode::builder(Canvas::new(tokens.clone(), mask_id), policy);
        let decode = builder.schedule(schedule).proposal(proposal).cap(max_nfe).begin().or_raise()?;
        let header = Header {
            cofill_trace: VERSION,
            sampler: spec.form(),
            model: model.into(),
            tokens,
            mask_id,
            block,
            temperature,
            seed,
            pieces,
            probes: 0,
        };
        Ok(Decode {
            inner: Mutex::new(Inner { decode, needs, steps: Vec::new(), header, memory: Memory::default(), piece }),
        })
    }

    /// What to ask the model next, or None when the decode has ended.
    fn query(&self, py: Python<'_>) -> PyResult<Option<Query>> {
        let inner = self.inner(py)?;
        let probing = inner.decode.is_probing();
        Ok(inner.decode.query().map(|query| Query::of(py, &query, probing)))
    }

    /// Takes the model's answer to `query`.
    ///
    /// Parameters
    /// ----------
    /// token : array of int, shape (m,)
    ///     The proposed token of each of the query's rows; never the mask.
    /// confidence : array of float, shape (m,)
    ///     c: its probability, of the full softmax.
    /// uncertainty : array of float, shape (m,), optional
    ///     1 - c, summed over the other tokens; the difference if left out, which is 0 where c rounds to 1.
    /// margin, entropy : array of float, shape (m,)
    ///     p(1) - p(2); H in nats. Needed by samplers that read them.
    /// attention : array of float, shape (m, m)
    ///     If the query asks for it: row = query, column = key.
    /// distributions : array of float32, shape (m, vocabulary)
    ///     If the query asks for them.
    ///
    /// Returns
    /// -------
    /// Step or None
    ///     What was committed; None when the sampler asks for another forward first.
    #[pyo3(signature = (token: "numpy.typing.ArrayLike", confidence: "numpy.typing.ArrayLike", uncertainty: "numpy.typing.ArrayLike | None" = None, margin: "numpy.typing.ArrayLike | None" = None, entropy: "numpy.typing.ArrayLike | None" = None, attention: "numpy.typing.ArrayLike | None" = None, distributions: "numpy.typing.ArrayLike | None" = None) -> "Step | None")]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn absorb(
        &self,
        py: Python<'_>,
        token: &Bound<'_, PyAny>,
        confidence: &Bound<'_, PyAny>,
        uncertainty: Option<&Bound<'_, PyAny>>,
        margin: Option<&Bound<'_, PyAny>>,
        entropy: Option<&Bound<'_, PyAny>>,
        attention: Option<&Bound<'_, PyAny>>,
        distributions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Step>> {
        let mut inner = self.inner(py)?;
        let Inner { decode, needs, steps, memory, piece, .. } = &mut *inner;
        let query = decode.query().ok_or(cofill::Error::NothingAsked).or_raise()?;
        let n = query.rows.len();
        let answer = Answer { token, confidence, uncertainty, margin, entropy, attention, distributions };
        answer.check(query.attention.is_some(), query.distributions, needs)?;
        let prediction = answer.prediction(n, memory)?;
        // A sampler written in Python calls back, from whichever thread.
        let step = py.detach(|| {
            let _held = Held::hold(self);
            decode.absorb(&prediction)
        });
        *memory = Memory::of(prediction);
        let mut step = step.or_raise()?;
        steps.extend(step.clone());
        let piece = piece.as_ref().map(|piece| piece.clone_ref(py));
        drop(inner); // what gives the text of a token may look at the decode
        if let (Some(step), Some(piece)) = (&mut step, piece) {
            let text = |commit: &Commit| piece.bind(py).call1((commit.token,))?.extract::<String>();
            step.pieces = step.commits.iter().map(text).collect::<PyResult<_>>()?;
            if let Some(kept) = self.inner(py)?.steps.get_mut(step.step) {
                kept.pieces.clone_from(&step.pieces);
            }
        }
        Ok(step.map(Step::of))
    }

    /// The Gumbel noise of the Rust engine for this query's rows. Above temperature 0 it proposes the token with the largest
    /// ``logit + temperature * noise`` (with top_p or top_k: of the tempered and filtered logits, plus the noise as it is).
    ///
    /// For exact agreement with the engine on small vocabularies; any noise of your own is as good.
    ///
    /// Parameters
    /// ----------
    /// vocab : int
    ///     How many tokens there are.
    ///
    /// Returns
    /// -------
    /// float64 (m, vocab)
    fn gumbel(&self, py: Python<'_>, vocab: usize) -> PyResult<Array2<f64>> {
        let inner = self.inner(py)?;
        let query = inner.decode.query().ok_or(cofill::Error::NothingAsked).or_raise()?;
        let noise = |&position: &usize| query.proposal.gumbel(query.step, position, vocab);
        let values: Vec<f64> = query.rows.iter().flat_map(noise).collect();
        Ok(arrays::two_dimensions(py, values, (query.rows.len(), vocab)))
    }

    /// The canvas as it stands. uint32 (length,)
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<Array1<u32>> {
        Ok(arrays::vector(py, self.inner(py)?.decode.canvas().tokens().to_vec()))
    }

    /// Which token marks an open position.
    #[getter]
    fn mask_id(&self, py: Python<'_>) -> PyResult<TokenId> {
        Ok(self.inner(py)?.header.mask_id)
    }

    /// Forwards so far.
    #[getter]
    fn nfe(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.inner(py)?.decode.nfe())
    }

    /// How many masks are left.
    #[getter]
    fn n_masked(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.inner(py)?.decode.canvas().n_masked())
    }

    /// `'complete'`, `'capped'`, or None while it goes on.
    #[getter]
    fn finish(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(self.inner(py)?.decode.finish().map(|finish| match finish {
            Finish::Complete => "complete",
            Finish::Capped => "capped",
        }))
    }

    /// What the sampler must be shown.
    #[getter]
    fn needs(&self, py: Python<'_>) -> PyResult<Needs> {
        Ok(self.inner(py)?.needs.clone())
    }

    /// The sampler's text.
    #[getter]
    fn sampler(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.inner(py)?.header.sampler.to_string())
    }

    /// Every step so far.
    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<Vec<Step>> {
        Ok(self.inner(py)?.steps.iter().cloned().map(Step::of).collect())
    }

    /// The decode written down; without an end while it goes on.
    #[getter]
    fn trace(&self, py: Python<'_>) -> PyResult<Trace> {
        let inner = self.inner(py)?;
        let (nfe, tokens) = (inner.decode.nfe(), inner.decode.canvas().tokens().to_vec());
        let end =
            inner.decode.finish().map(|_| End { nfe, tokens, appended: 0, cache: inner.decode.cache_meter().cloned() });
        Ok(Trace::of(cofill::Trace { header: inner.header.clone(), steps: inner.steps.clone(), end }))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let inner = self.inner(py)?;
        let canvas = inner.decode.canvas();
        let (length, masks, nfe) = (canvas.tokens().len(), canvas.n_masked(), inner.decode.nfe());
        Ok(format!("Decode('{}', {masks} of {length} positions masked, nfe {nfe})", inner.header.sampler))
    }
}

/// What an answer was kept in, for the next one: half a megabyte at 256 candidates, which costs more to get than to fill.
#[derive(Default)]
pub(crate) struct Memory {
    rows: Vec<RowStats>,
    attention: Vec<f64>, // [key x query]
}

impl Memory {
    fn of(prediction: Prediction) -> Memory {
        let attention = prediction.attention.map_or_else(Vec::new, Attention::into_keys);
        Memory { rows: prediction.rows, attention }
    }
}

/// A model's answer as Python gives it.
pub(crate) struct Answer<'a, 'py> {
    pub(crate) token: &'a Bound<'py, PyAny>,
    pub(crate) confidence: &'a Bound<'py, PyAny>,
    pub(crate) uncertainty: Option<&'a Bound<'py, PyAny>>,
    pub(crate) margin: Option<&'a Bound<'py, PyAny>>,
    pub(crate) entropy: Option<&'a Bound<'py, PyAny>>,
    pub(crate) attention: Option<&'a Bound<'py, PyAny>>,
    pub(crate) distributions: Option<&'a Bound<'py, PyAny>>,
}

impl Answer<'_, '_> {
    /// Refuses an answer that lacks what was asked for.
    fn check(&self, attention: bool, distributions: bool, needs: &Needs) -> PyResult<()> {
        let (entropy, margin) = needs.statistics();
        let parts = [
            ("attention", attention, self.attention.is_some()),
            ("distributions", distributions, self.distributions.is_some()),
            ("entropy", entropy, self.entropy.is_some()),
            ("margin", margin, self.margin.is_some()),
        ];
        match parts.iter().find(|(_, asked, given)| *asked && !given) {
            Some((what, ..)) => Err(request(format!("the sampler reads {what}, and none was given; pass {what}=..."))),
            None => Ok(()),
        }
    }

    /// For `n` asked rows, in the memory of an earlier one.
    pub(crate) fn prediction(&self, n: usize, memory: &mut Memory) -> PyResult<Prediction> {
        let each = Some((n, "one per asked row"));
        let token = arrays::tokens("token", self.token, each)?;
        let confidence = arrays::floats("confidence", self.confidence, each)?;
        let optional = |what: &str, given: Option<&Bound<'_, PyAny>>| {
            given.map(|given| arrays::floats(what, given, each)).transpose()
        };
        let uncertainty = optional("uncertainty", self.uncertainty)?;
        let margin = optional("margin", self.margin)?;
        let entropy = optional("entropy", self.entropy)?;
        let mut rows = std::mem::take(&mut memory.rows);
        rows.clear();
        rows.extend((0..n).map(|i| {
            let mut row = RowStats::new(token[i], confidence[i]);
            row.uncertainty = uncertainty.as_ref().map_or(row.uncertainty, |u| u[i]);
            row.margin = margin.as_ref().map_or(0.0, |m| m[i]);
            row.entropy = entropy.as_ref().map_or(0.0, |h| h[i]);
            row
        }));
        let mut prediction = Prediction::new(rows);
        if let Some(given) = self.attention {
            let by_key = arrays::by_key("attention", given, n, std::mem::take(&mut memory.attention))?;
            prediction = prediction.attention(Attention::from_keys(n, by_key).or_raise()?);
        }
        if let Some(given) = self.distributions {
            prediction = prediction.distributions(arrays::distributions(given, n)?);
        }
        Ok(prediction)
    }
}

/// What to ask a model: which canvas it must see, and which rows it must answer for.
///
/// Attributes
/// ----------
/// tokens : uint32 (length,)
///     The canvas; while a sampler looks ahead, with tokens revealed.
/// rows : int64 (m,)
///     The positions to predict, ascending.
/// free : int64
///     The positions that were masked at the start; guidance hides everything else.
/// attention : str or None
///     Whose attention among the rows to answer with.
/// distributions : bool
///     Whether to answer with whole distributions.
/// probing : bool
///     The canvas is a copy with tokens revealed.
/// companion : bool
///     An autoregressive model is asked instead.
/// step : int
#[pyclass(frozen, get_all, module = "cofill")]
pub(crate) struct Query {
    tokens: Array1<u32>,
    rows: Array1<i64>,
    free: Array1<i64>,
    attention: Option<String>,
    distributions: bool,
    probing: bool,
    companion: bool,
    step: usize,
}

impl Query {
    pub(crate) fn of(py: Python<'_>, query: &cofill::Query<'_>, probing: bool) -> Query {
        Query {
            tokens: arrays::vector(py, query.tokens.to_vec()),
            rows: arrays::indices(py, query.rows.iter().copied()),
            free: arrays::indices(py, query.free.iter().copied()),
            attention: query.attention.map(|layers| layers.to_string()),
            distributions: query.distributions,
            probing,
            companion: query.companion,
            step: query.step,
        }
    }
}

/// One step of a decode. Arrays are in pick order.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Step {
    step: cofill::Step,
}

impl Step {
    pub(crate) fn of(step: cofill::Step) -> Step {
        Step { step }
    }

    fn column(&self, py: Python<'_>, field: fn(&Commit) -> f64) -> Array1<f64> {
        arrays::vector(py, self.step.commits.iter().map(field).collect())
    }
}

#[pymethods]
impl Step {
    /// Its number, from 0.
    #[getter]
    fn step(&self) -> usize {
        self.step.step
    }

    /// Forwards spent on it: 1, and one for every look ahead.
    #[getter]
    fn forwards(&self) -> usize {
        self.step.forwards
    }

    /// Masks that were added at the end of the canvas before it (``length="auto"``).
    #[getter]
    fn appended(&self) -> usize {
        self.step.appended
    }

    /// Masks before it.
    #[getter]
    fn n_masked(&self) -> usize {
        self.step.n_masked
    }

    /// How many of them could be chosen.
    #[getter]
    fn candidates(&self) -> usize {
        self.step.candidates
    }

    /// What was committed. int64 (k,)
    #[getter]
    fn positions(&self, py: Python<'_>) -> Array1<i64> {
        arrays::indices(py, self.step.commits.iter().map(|commit| commit.position))
    }

    /// The tokens written there. uint32 (k,)
    #[getter]
    fn token(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.step.commits.iter().map(|commit| commit.token).collect())
    }

    /// c. float64 (k,)
    #[getter]
    fn confidence(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |commit| commit.confidence)
    }

    /// H in nats. float64 (k,)
    #[getter]
    fn entropy(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |commit| commit.entropy)
    }

    /// Scores before any discount. float64 (k,)
    #[getter]
    fn score(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |commit| commit.score)
    }

    /// u(i | S), scores when they were picked. float64 (k,)
    #[getter]
    fn utility(&self, py: Python<'_>) -> Array1<f64> {
        self.column(py, |commit| commit.utility)
    }

    /// The text of each commit, where the vocabulary is known.
    #[getter]
    fn pieces(&self) -> Vec<String> {
        self.step.pieces.clone()
    }

    /// What was masked again. int64
    #[getter]
    fn remasked(&self, py: Python<'_>) -> Array1<i64> {
        arrays::indices(py, self.step.remasked.iter().copied())
    }

    /// No candidate was admissible, and the best was committed anyway.
    #[getter]
    fn forced(&self) -> bool {
        self.step.forced
    }

    /// The first candidate that a discount passed over.
    #[getter]
    fn deferred(&self) -> Option<Deferred> {
        self.step.deferred.as_ref().map(Deferred::of)
    }

    fn __repr__(&self) -> String {
        let positions: Vec<usize> = self.step.commits.iter().map(|commit| commit.position).collect();
        format!("Step({}, positions={positions:?}, n_masked={})", self.step.step, self.step.n_masked)
    }
}
