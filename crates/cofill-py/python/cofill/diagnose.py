"""The paper's premise, measured: does attention among masks tell what revealing one of them does to the others?

Works on an `Engine` and on torch models, so that it can be tested on a published 8B in one cell::

    cofill.diagnose.intervention(model, ["What is 17 + 25?"], tokenizer=tokenizer, length=64)
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ._cofill import Diagnosis, Engine, measure
from ._errors import Error

__all__ = ["deferral", "intervention"]


def intervention(
    model: Any,
    inputs: Sequence[Any],
    *,
    tokenizer: Any = None,
    length: int | None = None,
    k: int = 8,
    steps: Sequence[int] | None = None,
    layer: str = "last",
    scope: str = "selected",
    alpha: float = 40.0,
    resamples: int = 10_000,
    seed: int = 0,
    name: str | None = None,
    task: str = "inputs",
    adapter: Any = None,
    mask_id: int | None = None,
    shift: bool | None = None,
    attention_row: str | None = None,
) -> Diagnosis:
    """Correlate attention with what a reveal does (section 4 and appendix B of the paper).

    A confidence Top-k decode runs. At some of its steps the surest mask i is revealed in a copy, nothing else, and the model is asked again.
    For every other position j: A, its attention to i before; K, the KL divergence between its distributions before and after;
    s = c - alpha A (1 - c_i), which is how ADAS ranks it.

    Parameters
    ----------
    model : Engine or torch.nn.Module
        A torch model is one that `cofill.generate` knows, or comes with an ``adapter``.
    inputs : sequence of str or of arrays of int
        Prompts, which get ``length`` masks behind them; or whole canvases as token ids, masks included.
    tokenizer : object, optional
        Of a torch model whose inputs are texts: something with ``encode(text)``.
    length : int, optional
        Masks behind a prompt; an engine knows its usual length.
    k : int
        Top-k of the decode that is probed; the paper takes 8.
    steps : sequence of int, optional
        The probed steps; five spread over the decode if left out.
    layer : str
        Whose attention: ``"last"``, ``"first"``, ``"middle"`` or a number.
    scope : str
        ``"selected"``: the other k - 1 that Top-k would commit with i. ``"all"``: every other mask.
    alpha : float
    resamples, seed : int
        Of the bootstrap intervals.
    name, task : str
        What the tables call the model and the inputs.
    adapter, mask_id, shift, attention_row : optional
        Of a torch model, as for `cofill.generate`.

    Returns
    -------
    Diagnosis
        Tables and a figure in a notebook; ``.pairs()`` are the columns behind them, ``.json`` the numbers.

    Examples
    --------
    >>> engine = cofill.Engine("tiny-llada")
    >>> prompt = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?\\n"
    >>> cofill.diagnose.intervention(engine, [prompt], length=38)
    Diagnosis(5 states, 33 pairs)
    """
    asked = _Subject(model, tokenizer, length, adapter=adapter, mask_id=mask_id, shift=shift, attention_row=attention_row)
    return asked.measure(
        "intervention",
        inputs,
        model=name or asked.name,
        task=task,
        k=k,
        steps=steps,
        layer=layer,
        scope=scope,
        alpha=alpha,
        resamples=resamples,
        seed=seed,
    )


def deferral(
    model: Any,
    inputs: Sequence[Any],
    *,
    tokenizer: Any = None,
    length: int | None = None,
    name: str | None = None,
    adapter: Any = None,
    mask_id: int | None = None,
    shift: bool | None = None,
    attention_row: str | None = None,
    **options: Any,
) -> Diagnosis:
    """Compare what ADAS defers with what it takes instead (appendix B, "Delayed-token stability").

    Parameters
    ----------
    model, inputs, tokenizer, length, name, adapter, mask_id, shift, attention_row
        As of `intervention`.
    **options
        ``task``, ``k``, ``steps``, ``layer``, ``alpha``, ``resamples``, ``seed``, as of `intervention`.

    Returns
    -------
    Diagnosis
    """
    asked = _Subject(model, tokenizer, length, adapter=adapter, mask_id=mask_id, shift=shift, attention_row=attention_row)
    return asked.measure("deferral", inputs, model=name or asked.name, **{"task": "inputs", **options})


class _Subject:
    """A model as diagnostics see it: something that answers queries, and its text, if it has any."""

    def __init__(self, model: Any, tokenizer: Any, length: int | None, **of_torch: Any) -> None:
        if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
            raise Error(f"length must be a whole number, 1 or more, but {length!r} was given")
        of_torch = {name: value for name, value in of_torch.items() if value is not None}
        self.length = length
        if isinstance(model, Engine):
            if of_torch:
                raise Error(f"{', '.join(sorted(of_torch))}: for torch models; an Engine knows these itself")
            self.denoiser: Any = model
            self.tokenizer = tokenizer or model.tokenizer
            self.length = length or model.usual_length
            self.mask_id = model.mask_id
            self.name = model.name
        else:
            from .torch.denoiser import TorchDenoiser

            self.denoiser = TorchDenoiser(model, **of_torch)
            self.tokenizer = tokenizer
            self.mask_id = self.denoiser.mask_id
            self.name = type(model).__name__

    def measure(self, reading: str, inputs: Sequence[Any], **options: Any) -> Diagnosis:
        """Measures on the canvases that the inputs are."""
        if isinstance(inputs, str):
            raise Error("inputs is one text; give a list of them")
        return measure(self.denoiser, [self.canvas(given) for given in inputs], reading=reading, **options)

    def canvas(self, given: Any) -> Any:
        """Token ids with masks."""
        if not isinstance(given, str):
            return given
        if self.tokenizer is None:
            raise Error("inputs are texts, and there is no tokenizer; give tokenizer=, or token ids with masks")
        if not self.length:
            raise Error("inputs are texts, and length is not given; give length=, the masks behind each of them")
        tokens = np.asarray(self.tokenizer.encode(given), dtype=np.int64)
        return np.concatenate([tokens, np.full(self.length, self.mask_id, dtype=np.int64)])
