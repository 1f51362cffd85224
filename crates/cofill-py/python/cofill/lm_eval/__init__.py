"""cofill under lm-evaluation-harness: any of its tasks, any of our samplers, the Rust engine or a torch model.

The harness finds models by name in a registry and has no way to discover packages, so this module registers ``cofill`` and hands over
to the harness's own command line::

    python -m cofill.lm_eval --model cofill --model_args pretrained=tiny-llada,sampler=eb:3+ad,length=256 --tasks gsm8k
    cofill-lm-eval ...                                       # the same
    accelerate launch -m cofill.lm_eval ...                  # several processes share the questions

From Python, give the model itself::

    import lm_eval
    from cofill.lm_eval import CofillLM

    results = lm_eval.simple_evaluate(model=CofillLM("tiny-llada", sampler="eb:3+ad", length=256), tasks=["gsm8k"])

With the engine this runs where neither torch nor transformers is installed (lm_eval 0.4.9 or later; 0.4.8 asks for both itself).
:class:`~cofill.lm_eval.options.Options` lists every model argument. Scores equal those of ``cofill eval`` on the same questions
when ``compat`` is the wrapper that it follows: ``llada`` or ``dream``, its default for these families.
"""

from __future__ import annotations

try:
    # Everything in here needs the harness, and says so by its name: this package is `cofill.lm_eval`, that one `lm_eval`.
    import lm_eval as _harness  # noqa: F401
except ModuleNotFoundError as missing:  # pragma: no cover - a message
    if missing.name != "lm_eval":
        raise
    raise ModuleNotFoundError("cofill.lm_eval needs lm-evaluation-harness; pip install 'cofill[eval]'", name="lm_eval") from missing

import sys

from cofill import Error
from cofill.lm_eval.model import CofillLM
from cofill.lm_eval.options import Options

__all__ = ["CofillLM", "Options", "main"]


def main() -> None:
    """The harness's command line, with ``cofill`` among its models. What is wrong with a request is one line, not a traceback."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
