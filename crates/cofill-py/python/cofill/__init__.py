"""Which masked positions of a diffusion language model may be committed together.

Samplers and the decode loop for models of your own, the whole engine for those inside the package, and both in notebooks and in the
evaluation harness.

>>> import cofill
>>> engine = cofill.Engine("tiny-llada")
>>> answer = engine.generate("Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?", sampler="topk:2+ad")
>>> answer.text[-7:], answer.nfe
('#### 27', 19)

``import cofill`` needs NumPy and nothing else. What works on torch models (`generate`, `fill`, `hf`, `diagnose`) imports torch when it is
first used, ``cofill.lm_eval`` the harness.
"""

from __future__ import annotations

import importlib
import typing

from ._cofill import (
    VERSION as __version__,
    Decode,
    Deferred,
    Diagnosis,
    Engine,
    Evaluation,
    Explanation,
    Generation,
    Job,
    Needs,
    Picks,
    Probe,
    Query,
    Report,
    Reveal,
    Sampler,
    Step,
    Stream,
    Tokenizer,
    Trace,
    TraceDiff,
    View,
    Wait,
    evaluate,
    explain,
    register,
    report,
    sampler,
    samplers,
    sweep,
    trace_diff,
)
from ._errors import Error, RunError

if typing.TYPE_CHECKING:
    from . import adapters, compat, diagnose, lm_eval, torch
    from .huggingface import hf
    from .torch.generate import fill, generate

#: What is imported when it is first used, and from where.
_LAZY = {
    "adapters": ("cofill.adapters", None),
    "generate": ("cofill.torch.generate", "generate"),
    "fill": ("cofill.torch.generate", "fill"),
    "hf": ("cofill.huggingface", "hf"),
    "compat": ("cofill.compat", None),
    "diagnose": ("cofill.diagnose", None),
    "lm_eval": ("cofill.lm_eval", None),
    "torch": ("cofill.torch", None),
}

__all__ = [
    "Decode",
    "Deferred",
    "Diagnosis",
    "Engine",
    "Error",
    "Evaluation",
    "Explanation",
    "Generation",
    "Job",
    "Needs",
    "Picks",
    "Probe",
    "Query",
    "Report",
    "Reveal",
    "RunError",
    "Sampler",
    "Step",
    "Stream",
    "Tokenizer",
    "Trace",
    "TraceDiff",
    "View",
    "Wait",
    "__version__",
    "evaluate",
    "explain",
    "register",
    "report",
    "sampler",
    "samplers",
    "sweep",
    "trace_diff",
    *_LAZY,
]


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'cofill' has no attribute '{name}'")
    module, attribute = _LAZY[name]
    found = importlib.import_module(module)
    value = found if attribute is None else getattr(found, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
