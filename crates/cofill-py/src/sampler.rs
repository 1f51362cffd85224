//! Samplers by name: parsed, described, and asked about one step of bare numbers.

use crate::arrays::{self, Array1};
use crate::errors::{OrRaise, request};
use crate::needs::Needs;
use crate::own_sampler;
use cofill::spec::Param;
use cofill::{Attention, Registry, SamplerSpec, Snapshot};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::cell::Cell;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The stock samplers, and those that `register` added in this process.
static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| Mutex::new(Registry::default()));

thread_local! {
    /// What the attention of the last `select` lay in: half a megabyte at 256 candidates costs more to get than to fill.
    static MEMORY: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// The samplers that are known now.
pub(crate) fn registry() -> Registry {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Which positions may be committed together: a ranking and a rule, or one of their rivals.
///
/// Made by `cofill.sampler`; immutable. `str(sampler)` is its full text, which `cofill.sampler` reads again.
///
/// Examples
/// --------
/// >>> s = cofill.sampler("topk:2+ad")
/// >>> str(s), s.needs.attention
/// ('topk:2+ad:40', 'last')
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Sampler {
    pub(crate) spec: SamplerSpec,
}

/// A sampler from its text, from an object with `select(view)`, or from a class of such objects.
///
/// Parameters
/// ----------
/// spec : str, Sampler, object or class
///     ``"eb:3+ad"`` as on the command line (`cofill.samplers` lists the forms), a sampler that was made already, or one of your own:
///     an object (copied for every decode) or a class (made anew for every decode) with ``select(view)``. An engine asks it from a thread of
///     its own, where what the caller's thread has set (``torch.no_grad()``, context variables) does not hold; it may ask other engines, but not that one.
///
/// Returns
/// -------
/// Sampler
///
/// Raises
/// ------
/// cofill.Error
///     With the words of the command line.
///
/// Examples
/// --------
/// >>> str(cofill.sampler("eb:3+ad"))
/// 'eb:3+ad:40'
#[pyfunction]
#[pyo3(signature = (spec: "str | Sampler | object"))]
pub(crate) fn sampler(spec: &Bound<'_, PyAny>) -> PyResult<Sampler> {
    Ok(Sampler { spec: spec_of(spec)? })
}

/// What an argument `sampler=` stands for.
pub(crate) fn spec_of(given: &Bound<'_, PyAny>) -> PyResult<SamplerSpec> {
    if let Ok(text) = given.cast::<PyString>() {
        return registry().parse(&text.to_string()).or_raise();
    }
    if let Ok(sampler) = given.cast::<Sampler>() {
        return Ok(sampler.get().spec.clone());
    }
    own_sampler::spec_of(given)
}

#[pymethods]
impl Sampler {
    /// What it must be shown.
    #[getter]
    fn needs(&self) -> PyResult<Needs> {
        Ok(Needs::of(&self.spec.build().or_raise()?))
    }

    /// Chooses among the candidates of one step, from bare numbers.
    ///
    /// For loops of your own that have no place for a whole decode. Samplers that remember earlier steps or look ahead need
    /// `cofill.Decode`, and say so.
    ///
    /// Parameters
    /// ----------
    /// confidence : array of float, shape (n,)
    ///     c: the model's probability of its best token, for every candidate.
    /// entropy, margin, uncertainty : array of float, shape (n,), optional
    ///     H in nats; p(1) - p(2); 1 - c where you know it better than the difference does.
    /// attention : array of float, shape (n, n), optional
    ///     Row = query, column = key, mean over heads, softmax over all keys. float64 is not rounded.
    /// token : array of int, shape (n,), optional
    ///     The proposed tokens, which come back with the picks.
    /// candidates : array of int, optional
    ///     The indices of the masked positions, when the arrays cover context, too.
    /// masks_at_start : int, optional
    ///     How many masks the decode began with (DAPD).
    /// distributions : array of float32, shape (n, vocabulary), optional
    /// step, seed : int, optional
    ///     The key of random orders; 0.
    ///
    /// Returns
    /// -------
    /// Picks
    ///     ``positions`` in pick order.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> A = np.zeros((3, 3)); A[1, 0] = 0.5      # 1 attends to 0, which is unsure
    /// >>> cofill.sampler("topk:2+ad").select([0.78, 0.73, 0.70], attention=A).positions.tolist()
    /// [0, 2]
    #[pyo3(signature = (confidence: "numpy.typing.ArrayLike", *, entropy: "numpy.typing.ArrayLike | None" = None, margin: "numpy.typing.ArrayLike | None" = None, uncertainty: "numpy.typing.ArrayLike | None" = None, attention: "numpy.typing.ArrayLike | None" = None, token: "numpy.typing.ArrayLike | None" = None, candidates: "numpy.typing.ArrayLike | None" = None, masks_at_start: "int | None" = None, distributions: "numpy.typing.ArrayLike | None" = None, step: "int | None" = None, seed: "int | None" = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn select(
        &self,
        py: Python<'_>,
        confidence: &Bound<'_, PyAny>,
        entropy: Option<&Bound<'_, PyAny>>,
        margin: Option<&Bound<'_, PyAny>>,
        uncertainty: Option<&Bound<'_, PyAny>>,
        attention: Option<&Bound<'_, PyAny>>,
        token: Option<&Bound<'_, PyAny>>,
        candidates: Option<&Bound<'_, PyAny>>,
        masks_at_start: Option<&Bound<'_, PyAny>>,
        distributions: Option<&Bound<'_, PyAny>>,
        step: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Picks> {
        let confidence = arrays::floats("confidence", confidence, None)?;
        let n = confidence.len();
        let each = Some((n, "one per confidence"));
        let step = step.map_or(Ok(0), |step| arrays::whole("step", step))?;
        let seed = seed.map_or(Ok(0), |seed| arrays::whole("seed", seed))?;
        let mut snapshot = Snapshot::new(&confidence).step(step).seed(seed);
        if let Some(given) = entropy {
            snapshot = snapshot.entropy(&arrays::floats("entropy", given, each)?);
        }
        if let Some(given) = margin {
            snapshot = snapshot.margin(&arrays::floats("margin", given, each)?);
        }
        if let Some(given) = uncertainty {
            snapshot = snapshot.uncertainty(&arrays::floats("uncertainty", given, each)?);
        }
        if let Some(given) = attention {
            snapshot = snapshot
                .attention(Attention::from_keys(n, arrays::by_key("attention", given, n, MEMORY.take())?).or_raise()?);
        }
        if let Some(given) = token {
            snapshot = snapshot.tokens(&arrays::tokens("token", given, each)?);
        }
        let mut positions: Vec<usize> = (0..n).collect();
        if let Some(given) = candidates {
            positions = arrays::positions("candidates", given)?;
            snapshot = snapshot.candidates(&positions);
        }
        if let Some(masks) = masks_at_start {
            snapshot = snapshot.masks_at_start(arrays::whole("masks_at_start", masks)?);
        }
        if let Some(given) = distributions {
            snapshot = snapshot.distributions(arrays::distributions(given, positions.len())?);
        }
        let picks = py.detach(|| snapshot.select(&self.spec));
        MEMORY.set(snapshot.take_attention().map_or_else(Vec::new, Attention::into_keys));
        let picks = picks.or_raise()?;
        let deferred = picks.deferral.map(|deferral| Deferred {
            position: positions[deferral.deferred.0],
            confidence: confidence[positions[deferral.deferred.0]],
            by: positions[deferral.by.0],
            through: picks.through.iter().map(|&slot| positions[slot]).collect(),
            instead: deferral.instead.map(|slot| positions[slot.0]),
            discount: deferral.discount,
            waits: !picks.contains(deferral.deferred),
        });
        Ok(Picks { picks, deferred })
    }

    fn __copy__(slf: Bound<'_, Sampler>) -> Bound<'_, Sampler> {
        slf
    }

    #[pyo3(signature = (_memo: "typing.Any"))]
    fn __deepcopy__<'py>(slf: Bound<'py, Sampler>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Sampler> {
        slf
    }

    /// By its text, which another process must know, too.
    #[pyo3(signature = () -> "tuple[typing.Any, tuple[str]]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let text = self.spec.to_string();
        if registry().parse(&text).is_err() {
            return Err(request(format!(
                "`{text}` has no name that another process would know; cofill.register gives it one"
            )));
        }
        Ok((py.import("cofill")?.getattr("sampler")?, (text,)))
    }

    fn __str__(&self) -> String {
        self.spec.to_string()
    }

    fn __repr__(&self) -> String {
        format!("cofill.sampler('{}')", self.spec)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Sampler>().is_ok_and(|other| other.get().spec.to_string() == self.spec.to_string())
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.spec.to_string().hash(&mut hasher);
        hasher.finish()
    }
}

/// What a sampler chose in one step. All arrays are in pick order.
#[pyclass(frozen, module = "cofill")]
pub(crate) struct Picks {
    picks: cofill::Picks,
    deferred: Option<Deferred>,
}

#[pymethods]
impl Picks {
    /// The chosen positions.
    #[getter]
    fn positions(&self, py: Python<'_>) -> Array1<i64> {
        arrays::indices(py, self.picks.iter().map(|pick| pick.position))
    }

    /// Their tokens, 0 unless tokens were given.
    #[getter]
    fn token(&self, py: Python<'_>) -> Array1<u32> {
        arrays::vector(py, self.picks.iter().map(|pick| pick.token).collect())
    }

    /// u(i | S): their scores when they were picked.
    #[getter]
    fn utility(&self, py: Python<'_>) -> Array1<f64> {
        arrays::vector(py, self.picks.iter().map(|pick| pick.utility).collect())
    }

    /// Their scores before anything was chosen.
    #[getter]
    fn score(&self, py: Python<'_>) -> Array1<f64> {
        arrays::vector(py, self.picks.iter().map(|pick| pick.score).collect())
    }

    /// c of each.
    #[getter]
    fn confidence(&self, py: Python<'_>) -> Array1<f64> {
        arrays::vector(py, self.picks.iter().map(|pick| pick.confidence).collect())
    }

    /// No candidate was admissible, and the best was taken anyway, so that decoding goes on.
    #[getter]
    fn forced(&self) -> bool {
        self.picks.forced
    }

    /// The first candidate that a discount passed over, if it did.
    #[getter]
    fn deferred(&self) -> Option<Deferred> {
        self.deferred.clone()
    }

    fn __len__(&self) -> usize {
        self.picks.len()
    }

    fn __repr__(&self) -> String {
        let forced = if self.picks.forced { ", forced" } else { "" };
        format!("Picks(positions={:?}{forced})", self.picks.positions())
    }
}

/// A position that was passed over, because of whom, and how much it lost.
#[pyclass(frozen, get_all, eq, module = "cofill")]
#[derive(Clone, PartialEq)]
pub(crate) struct Deferred {
    /// The position that was passed over.
    position: usize,
    /// Its confidence then.
    confidence: f64,
    /// The chosen position that took most from its score.
    by: usize,
    /// The masks through which it depends on `by`; none if it attends to it directly.
    through: Vec<usize>,
    /// The position that was tried in its place.
    instead: Option<usize>,
    /// How much of its score `by` took.
    discount: f64,
    /// It was not picked later in the step either.
    waits: bool,
}

impl Deferred {
    pub(crate) fn of(deferred: &cofill::trace::Deferred) -> Deferred {
        let cofill::trace::Deferred { position, confidence, instead, by, through, discount, waits } = deferred.clone();
        Deferred { position, confidence, by, through, instead, discount, waits }
    }
}

#[pymethods]
impl Deferred {
    fn __repr__(&self) -> String {
        let Deferred { position, by, discount, .. } = self;
        format!("Deferred(position={position}, by={by}, discount={discount:.4}, through={:?})", self.through)
    }
}

/// Every sampler there is, with its form, what it needs, and where it comes from; pandas makes a table of it.
///
/// Returns
/// -------
/// list of dict
///
/// Examples
/// --------
/// >>> [s["form"] for s in cofill.samplers() if s["name"] == "topk"]
/// ['topk:K']
#[pyfunction]
#[pyo3(signature = () -> "list[dict[str, typing.Any]]")]
pub(crate) fn samplers(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = PyList::empty(py);
    for entry in registry().entries() {
        let row = PyDict::new(py);
        row.set_item("name", &entry.name)?;
        row.set_item("form", entry.form())?;
        row.set_item("about", &entry.about)?;
        row.set_item("options", entry.option_forms())?;
        row.set_item("discountable", entry.discountable)?;
        row.set_item("source", &entry.source)?;
        row.set_item("needs", Bound::new(py, Needs::of(&entry.example().build().or_raise()?))?)?;
        all.append(row)?;
    }
    Ok(all)
}

/// Gives a sampler of your own a name, so that every door knows it: `sampler`, `Engine`, `generate`, `evaluate`, `sweep`.
///
/// Parameters
/// ----------
/// name : str
///     Small letters, digits, ``-`` and ``_`` after a letter.
/// factory : callable
///     Called with the numbers behind the name, for every decode; returns an object with ``select(view)``. A class will do.
/// params : sequence of (name, least, most, default), optional
///     The numbers after the colon: ``("FLOOR", 0.0, 1.0, 0.3)``. Without a default, end the tuple earlier.
/// version : int or str
///     Change it whenever the sampler would decide differently, so that nobody mixes new results with old ones.
/// about : str
///     A few words on what it does.
///
/// Examples
/// --------
/// >>> class Leftmost:
/// ...     def __init__(self, n): self.n = int(n)
/// ...     def select(self, view): return range(self.n)
/// >>> cofill.register("leftmost", Leftmost, params=[("N", 1, 64, 1)], version=1)
/// >>> str(cofill.sampler("leftmost:3"))
/// 'leftmost:3'
#[pyfunction]
#[pyo3(signature = (name, factory: "typing.Callable[..., object]", *, params: "typing.Sequence[tuple[typing.Any, ...]] | None" = None, version: "int | str | None" = None, about = "a sampler written in Python"))]
pub(crate) fn register(
    name: &str,
    factory: &Bound<'_, PyAny>,
    params: Option<Vec<Bound<'_, PyAny>>>,
    version: Option<&Bound<'_, PyAny>>,
    about: &str,
) -> PyResult<()> {
    if !factory.is_callable() {
        return Err(request("factory must be callable, a class for example; it is called for every decode"));
    }
    let params = params.unwrap_or_default().iter().map(param).collect::<PyResult<Vec<Param>>>()?;
    let version = version.map_or_else(|| Ok("1".to_owned()), |version| version.str().map(|text| text.to_string()))?;
    let entry = own_sampler::entry(name, about, factory, params, &version);
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    // Who registers a name again, as one does in a notebook, means the new one; a stock name stays taken.
    let next = registry.clone().without(name).with(entry).or_raise()?;
    // What is wrong with the factory is said at once, and not to whoever lists the samplers later.
    next.get(name).map_or(Ok(()), |entry| entry.example().build().map(drop)).or_raise()?;
    *registry = next;
    Ok(())
}

/// `("FLOOR", 0.0, 1.0, 0.3)`
fn param(given: &Bound<'_, PyAny>) -> PyResult<Param> {
    let wrong = || request("a parameter is a tuple (name, least, most) or (name, least, most, default)");
    let length = given.len().map_err(|_| wrong())?;
    if !(3..=4).contains(&length) {
        return Err(wrong());
    }
    let name: String = given.get_item(0)?.extract().map_err(|_| wrong())?;
    let number = |i: usize| given.get_item(i)?.extract::<f64>().map_err(|_| wrong());
    let (least, most) = (number(1)?, number(2)?);
    if least.is_nan() || most.is_nan() || least > most {
        return Err(request(format!(
            "the parameter {name} is from {least} to {most}; the second number must not be below the first"
        )));
    }
    let param = Param::number(name, least, most);
    if length == 4 { Ok(param.default(number(3)?)) } else { Ok(param) }
}
