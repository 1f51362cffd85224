//! The engine: models inside the package, folders and GGUF files, without torch.

use crate::arrays::{self, Array1};
use crate::decode::Step;
use crate::errors::{OrRaise, request};
use crate::generation::{Generation, Stream};
use crate::held::{Held, refuse_if_held};
use crate::options::{input_of, run_options};
use crate::probe::Probe;
use crate::sampler::spec_of;
use crate::score::OwnedScored;
use crate::threads::{Threads, stoppable};
use crate::tokenizer::Tokenizer;
use cofill::{Layers, Proposal, Query, TokenId};
use cofill_engine::{
    DEFAULT_MODEL, DEFAULT_SAMPLER, Filling, Input, MOST_THREADS, Prepared, RunOptions, StepEvent, check_rows,
};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A model one can talk to, in Rust: no torch needed.
///
/// Parameters
/// ----------
/// model : str or path
///     ``"tiny-llada"`` or ``"tiny-dream"`` (inside the package), ``"toy"``, a folder in Hugging Face layout, a ``.gguf`` file, or an ``org/name``
///     that is in the Hugging Face cache.
/// dtype : str, optional
///     How weights are kept: ``"f32"``, ``"f16"``, ``"q8_0"``, ``"q6k"``, ``"q4k"``.
/// device : str
///     ``"cpu"``; ``"cuda"`` and ``"metal"`` need a build with that feature.
/// threads : int, optional
///     How many threads compute; all by default. No result depends on it.
/// companion : str, optional
///     An autoregressive model beside it, for samplers that ask one (``"tiny-causal"``).
///
/// Notes
/// -----
/// The interpreter is free while the engine computes. Two threads that use one engine wait for each other.
///
/// Examples
/// --------
/// >>> engine = cofill.Engine("tiny-llada")
/// >>> r = engine.generate("Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?", sampler="topk:2+ad")
/// >>> print(r.text[-7:], r.nfe, r.judged)
/// #### 27 19 chain: right
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What an engine and everything that it hands out have in common.
pub(crate) struct Shared {
    engine: Mutex<cofill_engine::Engine>,
    threads: Threads,
    /// How it was opened: what a run cannot change.
    pub(crate) opened: RunOptions,
    pub(crate) name: String,
}

impl Shared {
    /// The engine, to look something up. Waits without holding the interpreter, for whoever has it may need the interpreter to go on.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, cofill_engine::Engine>> {
        refuse_if_held(self, "engine")?;
        Ok(self.engine.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// Computes with the engine, as options want it, while Python goes on. Somebody else may have used it since, with other options.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        options: &RunOptions,
        job: impl FnOnce(&mut cofill_engine::Engine) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        refuse_if_held(self, "engine")?;
        py.detach(|| self.hold(options, job))
    }

    /// The same for what takes more than a forward; Ctrl-C ends it between two of them.
    pub(crate) fn run_stoppable<T: Send>(
        &self,
        py: Python<'_>,
        options: &RunOptions,
        job: impl FnOnce(&mut cofill_engine::Engine) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        refuse_if_held(self, "engine")?;
        let stopped = |stop: &Arc<AtomicBool>| {
            self.hold(options, |engine| {
                engine.stop_when(Some(Arc::clone(stop)));
                let answer = job(engine);
                engine.stop_when(None);
                answer
            })
        };
        py.detach(|| stoppable(stopped))
    }

    /// Locked *before* it is given to the threads: one that waits inside a job takes the next from the queue, and a job that locked would then
    /// wait for the one below it.
    fn hold<T: Send>(
        &self,
        options: &RunOptions,
        job: impl FnOnce(&mut cofill_engine::Engine) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = &mut *engine;
        self.threads.run(|| {
            let _held = Held::hold(self); // by the thread that computes, which is the one that calls back
            engine.configure(options).or_raise()?;
            job(engine)
        })
    }
}

impl Engine {
    /// Options of one run on this engine.
    fn options(&self, given: Option<&Bound<'_, PyDict>>) -> PyResult<RunOptions> {
        run_options(given, &self.shared.opened)
    }

    /// Fills canvases and tells of every step, unless somebody interrupts.
    fn fill_all(
        &self,
        py: Python<'_>,
        inputs: Vec<Input>,
        sampler: &Bound<'_, PyAny>,
        on_step: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Generation>> {
        let spec = spec_of(sampler)?;
        let (seeds, options) = seeds_of(options, inputs.len())?;
        let options = self.options(options.as_ref())?;
        // Those of each canvas: they differ in nothing but the seed.
        let mut each = vec![options.clone(); inputs.len()];
        each.iter_mut().zip(seeds.into_iter().flatten()).for_each(|(options, seed)| options.seed = seed);
        let shared = &self.shared;
        let (spec, prepared) = shared.run(py, &options, |engine| {
            let spec = engine.settle(&spec).or_raise()?;
            let prepare = |(input, options)| engine.prepare_auto(input, &spec, options).or_raise();
            let prepared = inputs.iter().zip(&each).map(prepare).collect::<PyResult<Vec<Prepared>>>()?;
            Ok((spec, prepared))
        })?;
        let warnings: Vec<Vec<String>> = prepared.iter().map(|ready| ready.warnings.clone()).collect();
        let mut filling = Filling::new(prepared);
        // The engine is held for a round at a time, so that a callback may use it, and others may in between.
        while !filling.is_done() {
            let mut steps = Vec::new();
            shared.run(py, &options, |engine| {
                let mut watch = |event: &StepEvent<'_>| {
                    steps.push(event.step.clone());
                    ControlFlow::Continue(())
                };
                filling.round(engine, &mut watch).or_raise()
            })?;
            py.check_signals()?;
            if let Some(callback) = on_step {
                steps.into_iter().try_for_each(|step| callback.call1((Step::of(step),)).map(drop))?;
            }
        }
        shared.run(py, &options, |engine| {
            let all = filling.finish(engine).into_iter().zip(warnings);
            let made = |((generation, warnings), options): ((cofill_engine::Result<_>, _), &RunOptions)| {
                Ok(Generation::new(generation.or_raise()?, warnings, engine, &spec, options))
            };
            all.zip(&each).map(made).collect()
        })
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (model: "str | os.PathLike[str] | None" = None, *, dtype = None, device = "cpu", threads: "int | None" = None, companion = None))]
    fn new(
        py: Python<'_>,
        model: Option<std::path::PathBuf>,
        dtype: Option<&str>,
        device: &str,
        threads: Option<&Bound<'_, PyAny>>,
        companion: Option<String>,
    ) -> PyResult<Engine> {
        let name = model.map_or_else(|| DEFAULT_MODEL.to_owned(), |model| model.display().to_string());
        let mut opened = RunOptions::default();
        opened.dtype = dtype.map(str::parse).transpose().map_err(|error| request(format!("dtype: {error}")))?;
        opened.device = device.parse().map_err(|error| request(format!("device: {error}")))?;
        opened.companion = companion;
        let threads = threads.map(|threads| arrays::whole("threads", threads)).transpose()?;
        if let Some(given) = threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
            return Err(request(format!("threads is {given}, but must be 1 to {MOST_THREADS}, or None for all")));
        }
        let threads = Threads::new(threads)?;
        let engine = py.detach(|| threads.run(|| cofill_engine::Engine::open(&name, &opened).or_raise()))?;
        Ok(Engine { shared: Arc::new(Shared { engine: Mutex::new(engine), threads, opened, name }) })
    }

    /// Fills a prompt's continuation; without ``length`` exactly what ``cofill generate`` does.
    ///
    /// Parameters
    /// ----------
    /// prompt : str, list of messages, or array of int
    ///     Text, a chat (``[{"role": "user", "content": "..."}]``) or token ids.
    /// sampler : str, Sampler, object or class
    /// on_step : callable, optional
    ///     Called with every `Step`; what it raises ends the decode.
    /// **options
    ///     As on the command line: ``length``, ``block``, ``cache``, ``chat``, ``temperature``, ``seed``, ``max_nfe``, ``stop``, ``bos``, ``top_p``, ``top_k``,
    ///     ``cfg``, ``attention_of_source``, ``logits_eos_inf``, ``confidence_eos_eot_inf``, and one of ``schema``, ``regex``, ``choice`` (docs/constraints.md).
    ///
    /// Returns
    /// -------
    /// Generation
    ///     ``.text``, ``.tokens`` (the whole canvas), ``.nfe``, ``.trace``, ``.seconds``.
    #[pyo3(signature = (prompt: "str | typing.Sequence[typing.Any] | numpy.typing.ArrayLike | None" = None, *, sampler: "str | Sampler | object" = None, on_step: "typing.Callable[[Step], object] | None" = None, **options: "typing.Any") -> "Generation")]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: Option<&Bound<'_, PyAny>>,
        sampler: Option<&Bound<'_, PyAny>>,
        on_step: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Generation> {
        let mut all = self.fill_all(py, vec![input_of(prompt)?], &usual(py, sampler), on_step, options)?;
        Ok(all.remove(0))
    }

    /// Fills many prompts together; each gets what it would have got alone.
    ///
    /// Parameters
    /// ----------
    /// prompts : sequence
    ///     Each as for `generate`.
    /// sampler, on_step, **options
    ///     As for `generate`. ``seed`` may be a list, one for each prompt.
    ///
    /// Returns
    /// -------
    /// list of Generation
    #[pyo3(signature = (prompts: "typing.Sequence[typing.Any]", *, sampler: "str | Sampler | object" = None, on_step: "typing.Callable[[Step], object] | None" = None, **options: "typing.Any") -> "list[Generation]")]
    fn generate_batch(
        &self,
        py: Python<'_>,
        prompts: &Bound<'_, PyAny>,
        sampler: Option<&Bound<'_, PyAny>>,
        on_step: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Generation>> {
        if prompts.is_instance_of::<pyo3::types::PyString>() {
            return Err(request("prompts is one text; give a list of them, or call `generate`"));
        }
        let inputs = prompts.try_iter()?.map(|prompt| input_of(Some(&prompt?))).collect::<PyResult<Vec<Input>>>()?;
        self.fill_all(py, inputs, &usual(py, sampler), on_step, options)
    }

    /// Generates step by step: an iterator of `Step`, whose ``.result`` is the `Generation` once it has ended.
    ///
    /// Stopping early loses nothing: ``.result`` is then what there is.
    #[pyo3(signature = (prompt: "str | typing.Sequence[typing.Any] | numpy.typing.ArrayLike | None" = None, *, sampler: "str | Sampler | object" = None, **options: "typing.Any") -> "Stream")]
    fn stream(
        &self,
        py: Python<'_>,
        prompt: Option<&Bound<'_, PyAny>>,
        sampler: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let (input, spec, options) = (input_of(prompt)?, spec_of(&usual(py, sampler))?, self.options(options)?);
        let (spec, prepared) = self.shared.run(py, &options, |engine| {
            let spec = engine.settle(&spec).or_raise()?;
            let prepared = engine.prepare_auto(&input, &spec, &options).or_raise()?;
            Ok((spec, prepared))
        })?;
        let warnings = prepared.warnings.clone();
        Ok(Stream::new(Arc::clone(&self.shared), Filling::new(vec![prepared]), spec, options, warnings))
    }

    /// Fills masks anywhere: a text with gaps (``"The capital of France is [MASK:4]."``, or ``[MASK:auto]``) or token
    /// ids with the mask's.
    ///
    /// Parameters
    /// ----------
    /// template : str or array of int
    /// sampler, on_step, **options
    ///     As for `generate`.
    ///
    /// Returns
    /// -------
    /// Generation
    #[pyo3(signature = (template: "str | numpy.typing.ArrayLike", *, sampler: "str | Sampler | object" = None, on_step: "typing.Callable[[Step], object] | None" = None, **options: "typing.Any") -> "Generation")]
    fn fill(
        &self,
        py: Python<'_>,
        template: &Bound<'_, PyAny>,
        sampler: Option<&Bound<'_, PyAny>>,
        on_step: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Generation> {
        if options.is_some_and(|options| options.contains("length").unwrap_or(false)) {
            return Err(request(
                "length is for prompts; what `fill` is given has its masks in it: \"[MASK:4]\" is four",
            ));
        }
        let input = match template.cast::<pyo3::types::PyString>() {
            Ok(text) => Input::Template(text.to_string()),
            Err(_) => Input::Tokens(arrays::tokens("template", template, None)?),
        };
        let mut all = self.fill_all(py, vec![input], &usual(py, sampler), on_step, options)?;
        Ok(all.remove(0))
    }

    /// One forward pass, looked at: what the model says about some positions, and who attends to whom.
    ///
    /// Parameters
    /// ----------
    /// tokens : array of int, shape (length,)
    /// rows : array of int, optional
    ///     Positions, ascending; the masks if left out.
    /// layer : str
    ///     Whose attention: ``"last"``, ``"first"``, ``"middle"`` or a number.
    /// distributions : bool
    ///     Also whole distributions.
    ///
    /// Returns
    /// -------
    /// Probe
    #[pyo3(signature = (tokens: "numpy.typing.ArrayLike", rows: "numpy.typing.ArrayLike | None" = None, *, layer = "last", distributions = false) -> "Probe")]
    fn probe(
        &self,
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        layer: &str,
        distributions: bool,
    ) -> PyResult<Probe> {
        let tokens = arrays::tokens("tokens", tokens, None)?;
        let rows = rows.map(|rows| arrays::positions("rows", rows)).transpose()?;
        let layers: Layers = layer.parse().or_raise()?;
        let (rows, prediction) = self.shared.run(py, &self.shared.opened, |engine| {
            engine.fit(tokens.len()).or_raise()?;
            let mask_id = engine.mask_id();
            let rows = rows.unwrap_or_else(|| (0..tokens.len()).filter(|&at| tokens[at] == mask_id).collect());
            check_rows(&rows, tokens.len()).or_raise()?;
            let proposal = Proposal::greedy();
            let query = Query::new(&tokens, &rows, &proposal).attention(layers).distributions(distributions);
            let mut answers = engine.denoiser().denoise(&[query]).or_raise()?;
            Ok((rows, answers.remove(0)))
        })?;
        Ok(Probe { rows, prediction })
    }

    /// ln p of given tokens at given positions, of the full softmax.
    ///
    /// Parameters
    /// ----------
    /// tokens : array of int, shape (length,)
    ///     The canvas.
    /// rows : array of int, shape (m,)
    ///     Positions, ascending.
    /// targets : array of int, shape (m,)
    ///     A token for each of them.
    /// free : array of int, optional
    ///     What guidance does not hide; ``rows`` if left out.
    /// cfg : float
    ///     Classifier-free guidance, as for `generate`.
    ///
    /// Returns
    /// -------
    /// float64 (m,)
    #[pyo3(signature = (tokens: "numpy.typing.ArrayLike", rows: "numpy.typing.ArrayLike", targets: "numpy.typing.ArrayLike", *, free: "numpy.typing.ArrayLike | None" = None, cfg = 0.0))]
    fn score(
        &self,
        py: Python<'_>,
        tokens: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        free: Option<&Bound<'_, PyAny>>,
        cfg: f64,
    ) -> PyResult<Array1<f64>> {
        let asked = OwnedScored::of(tokens, rows, targets, free)?;
        let mut all = self.shared.score_all(py, &[asked], cfg)?;
        Ok(arrays::vector(py, all.remove(0)))
    }

    /// `score` for many canvases, one forward for all. Nobody's numbers depend on who else is asked about.
    ///
    /// Parameters
    /// ----------
    /// asked : sequence of (tokens, rows, targets)
    /// free : sequence of arrays, optional
    ///     One for each.
    /// cfg : float
    ///
    /// Returns
    /// -------
    /// list of float64 arrays
    #[pyo3(signature = (asked: "typing.Sequence[tuple[numpy.typing.ArrayLike, numpy.typing.ArrayLike, numpy.typing.ArrayLike]]", *, free: "typing.Sequence[numpy.typing.ArrayLike] | None" = None, cfg = 0.0) -> "list[numpy.typing.NDArray[numpy.float64]]")]
    fn score_batch<'py>(
        &self,
        py: Python<'py>,
        asked: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        free: Option<Vec<Bound<'_, PyAny>>>,
        cfg: f64,
    ) -> PyResult<Bound<'py, PyList>> {
        if let Some(free) = free.as_ref().filter(|free| free.len() != asked.len()) {
            return Err(request(format!(
                "free has {} arrays, but {} canvases are asked about; give one each",
                free.len(),
                asked.len()
            )));
        }
        let mut scored = Vec::with_capacity(asked.len());
        for (i, (tokens, rows, targets)) in asked.iter().enumerate() {
            scored.push(OwnedScored::of(tokens, rows, targets, free.as_ref().map(|free| &free[i]))?);
        }
        PyList::new(py, self.shared.score_all(py, &scored, cfg)?.into_iter().map(|row| arrays::vector(py, row)))
    }

    /// What turns text into tokens and back.
    #[getter]
    fn tokenizer(&self) -> Tokenizer {
        Tokenizer { shared: Arc::clone(&self.shared) }
    }

    /// As it was named.
    #[getter]
    fn name(&self) -> &str {
        &self.shared.name
    }

    /// Which token marks an open position.
    #[getter]
    fn mask_id(&self, py: Python<'_>) -> PyResult<TokenId> {
        Ok(self.shared.lock(py)?.mask_id())
    }

    /// How many token ids there are.
    #[getter]
    fn vocab_size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.shared.lock(py)?.last_id() as usize + 1)
    }

    /// The most positions that it can hold.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.shared.lock(py)?.context())
    }

    /// How many positions it generates unless somebody says.
    #[getter]
    fn usual_length(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.shared.lock(py)?.usual_length())
    }

    /// ``"llada"``, ``"dream"``, ...; ``"toy"`` for the toy.
    #[getter]
    fn family(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.shared.lock(py)?.weights().map_or_else(|| "toy".into(), |model| model.config().family.to_string()))
    }

    /// The tokens that every text begins and ends with, in models that were trained so (BERT's); None for others.
    #[getter]
    fn frame(&self, py: Python<'_>) -> PyResult<Option<(TokenId, TokenId)>> {
        Ok(match self.shared.lock(py)?.around(None).or_raise()? {
            (Some(begin), Some(end)) => Some((begin, end)),
            _ => None,
        })
    }

    /// The SHA-256 of the checkpoint, weights and tokenizer.
    #[getter]
    fn fingerprint(&self, py: Python<'_>) -> PyResult<String> {
        self.shared.run(py, &self.shared.opened, |engine| engine.fingerprint().or_raise())
    }

    fn __copy__(slf: Bound<'_, Engine>) -> Bound<'_, Engine> {
        slf
    }

    /// Weights are shared, never copied: a sampler that holds an engine is copied for every decode.
    #[pyo3(signature = (_memo: "typing.Any"))]
    fn __deepcopy__<'py>(slf: Bound<'py, Engine>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Engine> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("cofill.Engine('{}')", self.shared.name)
    }
}

/// Keyword arguments, if there were any.
type Keywords<'py> = Option<Bound<'py, PyDict>>;

/// A list of seeds, one for each prompt, taken out of the options.
fn seeds_of<'py>(options: Option<&Bound<'py, PyDict>>, prompts: usize) -> PyResult<(Option<Vec<u64>>, Keywords<'py>)> {
    let Some(options) = options else { return Ok((None, None)) };
    match options.get_item("seed")? {
        Some(seed) if !seed.is_none() && seed.try_iter().is_ok() => {
            // Not through an array: NumPy makes floats of a list with numbers on both sides of 2^63.
            let numbers = seed.try_iter()?.map(|seed| seed?.extract::<u64>()).collect::<PyResult<Vec<u64>>>();
            let seeds = numbers.map_err(|_| request("seed must be whole numbers, 0 or more and below 2^64"))?;
            if seeds.len() != prompts {
                let given = seeds.len();
                return Err(request(format!("seed has shape ({given},); give shape ({prompts},), one per prompt")));
            }
            let others = options.copy()?;
            others.del_item("seed")?;
            Ok((Some(seeds), Some(others)))
        }
        _ => Ok((None, Some(options.clone()))),
    }
}

/// The default sampler, unless one is given.
fn usual<'py>(py: Python<'py>, sampler: Option<&Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    sampler.cloned().unwrap_or_else(|| pyo3::types::PyString::new(py, DEFAULT_SAMPLER).into_any())
}
