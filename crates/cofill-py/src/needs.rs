//! What a sampler must be shown, in both directions: what ours say, and what samplers written in Python ask for.

use crate::errors::{OrRaise, request};
use cofill::Scope;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// What a sampler must be shown.
///
/// Attributes
/// ----------
/// attention : str or None
///     Whose attention, mean over heads: ``'last'``, ``'first'``, ``'middle'``, a layer's number, ``'last 4'``, ``'last 30%'``, ``'learned'``.
/// distributions : bool
///     The probabilities of all tokens, for every row.
/// history : bool
///     Every step of a decode, in order.
/// probes : bool
///     Further forwards on copies of the canvas, with tokens revealed.
/// scope : str
///     Which rows: ``'candidates'``, ``'masked'``, ``'free'`` (masked at the start) or ``'canvas'``.
/// entropy, margin : bool
///     Statistics beyond confidence.
/// companion : bool
///     Forwards of an autoregressive model beside the denoiser.
/// remasks : bool
///     It may take commits back.
#[pyclass(frozen, eq, get_all, module = "cofill", from_py_object)]
#[derive(Clone, PartialEq)]
pub(crate) struct Needs {
    attention: Option<String>,
    distributions: bool,
    history: bool,
    probes: bool,
    scope: String,
    entropy: bool,
    margin: bool,
    companion: bool,
    remasks: bool,
}

impl Needs {
    pub(crate) fn of(policy: &cofill::Policy) -> Needs {
        let needs = policy.needs();
        Needs {
            attention: needs.attention.map(|layers| layers.to_string()),
            distributions: needs.distributions,
            history: needs.history,
            probes: needs.reveals,
            scope: format!("{:?}", needs.scope).to_lowercase(),
            entropy: needs.entropy,
            margin: needs.margin,
            companion: needs.companion,
            remasks: matches!(policy, cofill::Policy::Remasks(_)),
        }
    }

    /// Whether entropy and margin are read.
    pub(crate) fn statistics(&self) -> (bool, bool) {
        (self.entropy, self.margin)
    }

    /// As the core says it; what only a sampler of the core can do is refused.
    pub(crate) fn to_core(&self) -> PyResult<cofill::Needs> {
        let refused = |what: &str| Err(request(format!("{what} is not for samplers written in Python; leave it out")));
        if self.companion {
            return refused("companion");
        }
        if self.remasks {
            return refused("remasks");
        }
        let scope = match self.scope.as_str() {
            "candidates" => Scope::Candidates,
            "masked" => Scope::Masked,
            "free" => Scope::Free,
            "canvas" => Scope::Canvas,
            other => {
                let known = "`candidates`, `masked`, `free` or `canvas`";
                return Err(request(format!("scope is `{other}`, but must be {known}")));
            }
        };
        let mut needs = cofill::Needs::default().scope(scope);
        if let Some(layers) = &self.attention {
            needs = needs.attention(layers.parse().or_raise()?);
        }
        needs.distributions = self.distributions;
        needs.history = self.history;
        needs.reveals = self.probes;
        needs.entropy = self.entropy;
        needs.margin = self.margin;
        Ok(needs)
    }
}

#[pymethods]
impl Needs {
    #[new]
    #[pyo3(signature = (*, attention = None, distributions = false, history = false, probes = false, scope = "candidates", entropy = false, margin = false, companion = false, remasks = false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        attention: Option<String>,
        distributions: bool,
        history: bool,
        probes: bool,
        scope: &str,
        entropy: bool,
        margin: bool,
        companion: bool,
        remasks: bool,
    ) -> Needs {
        let scope = scope.to_owned();
        Needs { attention, distributions, history, probes, scope, entropy, margin, companion, remasks }
    }

    fn __copy__(slf: Bound<'_, Needs>) -> Bound<'_, Needs> {
        slf
    }

    #[pyo3(signature = (_memo: "typing.Any"))]
    fn __deepcopy__<'py>(slf: Bound<'py, Needs>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Needs> {
        slf
    }

    #[pyo3(signature = () -> "tuple[tuple[()], dict[str, typing.Any]]")]
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let fields = PyDict::new(py);
        fields.set_item("attention", &self.attention)?;
        fields.set_item("scope", &self.scope)?;
        let flags = [
            ("distributions", self.distributions),
            ("history", self.history),
            ("probes", self.probes),
            ("entropy", self.entropy),
            ("margin", self.margin),
            ("companion", self.companion),
            ("remasks", self.remasks),
        ];
        flags.iter().try_for_each(|(name, flag)| fields.set_item(name, flag))?;
        Ok((PyTuple::empty(py), fields))
    }

    fn __repr__(&self) -> String {
        let flag = |value: bool| if value { "True" } else { "False" };
        let attention = self.attention.as_ref().map_or("None".into(), |layers| format!("'{layers}'"));
        format!(
            "Needs(attention={attention}, distributions={}, history={}, probes={}, scope='{}', entropy={}, margin={}, companion={}, remasks={})",
            flag(self.distributions),
            flag(self.history),
            flag(self.probes),
            self.scope,
            flag(self.entropy),
            flag(self.margin),
            flag(self.companion),
            flag(self.remasks),
        )
    }
}
