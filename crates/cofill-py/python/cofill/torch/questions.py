"""What is asked of a model and what it answers, and the check of the first.

Everything that becomes an index on a device is checked here, on the host: on a GPU an index out of bounds is an assertion that ends the
process's CUDA context, long after the line that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cofill import Error
from cofill.torch.checks import integers

__all__ = ["Question", "Answer", "checked", "check_targets", "source_rows"]


@dataclass
class Question:
    """What one sequence asks of the model.

    Parameters
    ----------
    tokens : numpy.ndarray
        The canvas, masks included. `[length]`
    rows : numpy.ndarray
        The positions to predict, ascending. `[m]`
    free : numpy.ndarray, optional
        The positions that were masked at the start; guidance hides all others.
    attention : str, optional
        Whose attention to return: `last`, `first`, a number, ...
    distributions : bool
        Whether to return whole distributions.
    seed, step : int
        With a position, the key of the noise at temperatures above 0.
    gumbel : numpy.ndarray, optional
        The noise itself, f64 `[m, vocab]`, in place of what (seed, step, position) would draw.
    targets : numpy.ndarray, optional
        Tokens whose log-probability is asked, one for each row, in place of statistics. `[m]`
    """

    tokens: np.ndarray
    rows: np.ndarray
    free: np.ndarray | None = None
    attention: str | None = None
    distributions: bool = False
    seed: int = 0
    step: int = 0
    gumbel: np.ndarray | None = None
    targets: np.ndarray | None = None


@dataclass
class Answer:
    """What the model says, one entry for each asked row."""

    token: np.ndarray  # int64 [m]
    confidence: np.ndarray  # f64 [m]
    uncertainty: np.ndarray  # f64 [m]
    margin: np.ndarray  # f64 [m]
    entropy: np.ndarray  # f64 [m]
    attention: np.ndarray | None = None  # f32 [m, m], row = query
    distributions: np.ndarray | None = None  # f32 [m, vocab]

    def arrays(self) -> dict[str, np.ndarray | None]:
        """As keywords of `Decode.absorb`."""
        return dict(vars(self))


def checked(questions: Sequence[Question], vocab: int | None, what: str) -> list[Question]:
    """The same questions with int64 arrays, all of whose entries are tokens and positions that there are.

    Parameters
    ----------
    questions : sequence of Question
        What is asked.
    vocab : int, optional
        How many tokens the model knows, if that is known.
    what : str
        What messages call a question.
    """
    return list(_checked(questions, vocab, what))


def _checked(questions: Sequence[Question], vocab: int | None, what: str) -> Iterator[Question]:
    for i, question in enumerate(questions):
        tokens, rows = (integers(f"{name} of {what} {i}", getattr(question, name)) for name in ("tokens", "rows"))
        if not len(tokens):
            raise Error(f"tokens of {what} {i} has nothing in it; give at least one token")
        _refuse_unknown(tokens, vocab, f"tokens of {what} {i}")
        _refuse_outside(rows, len(tokens), f"rows of {what} {i}")
        free = targets = None
        if question.free is not None:
            free = integers(f"free of {what} {i}", question.free)
            _refuse_outside(free, len(tokens), f"free of {what} {i}")
        if question.targets is not None:
            targets = integers(f"targets of {what} {i}", question.targets)
            if len(targets) != len(rows):
                raise Error(f"{what} {i} has {len(rows)} rows and {len(targets)} targets; give one target for each row")
            _refuse_unknown(targets, vocab, f"targets of {what} {i}")
        yield replace(question, tokens=tokens, rows=rows, free=free, targets=targets)


def check_targets(questions: Sequence[Question], numbers: Sequence[int], vocab: int) -> None:
    """Refuses targets beyond the logits, for models whose vocabulary is known only when they have answered."""
    for number, question in zip(numbers, questions):
        if question.targets is None:
            raise Error(f"request {number} has no targets; give one for each row")
        _refuse_unknown(question.targets, vocab, f"targets of request {number}")


def source_rows(adapter: Any, questions: Sequence[Question]) -> np.ndarray:
    """The rows that predict the asked ones, by the adapter's own `source_row`, counted within each canvas. int64 `[rows]`"""
    rows = np.concatenate([q.rows for q in questions])
    found = adapter.source_row(torch.from_numpy(rows))
    sources = found.detach().cpu().numpy() if isinstance(found, torch.Tensor) else np.asarray(found)
    if sources.dtype.kind not in "iu":
        raise Error(f"source_row must answer integers, but its type is {sources.dtype}; see `source_row` of the adapter")
    if sources.shape != rows.shape:
        raise Error(f"source_row answered shape {sources.shape} for positions of shape {rows.shape}; give one row for each")
    lengths = np.concatenate([np.full(len(q.rows), len(q.tokens)) for q in questions])
    bad = np.flatnonzero((sources < 0) | (sources >= lengths))
    if len(bad):
        raise Error(
            f"source_row answered {sources[bad[0]]} for position {rows[bad[0]]}, but the canvas has {lengths[bad[0]]} positions; see `source_row` "
            "of the adapter"
        )
    return sources.astype(np.int64, copy=False)


def _refuse_unknown(tokens: np.ndarray, vocab: int | None, name: str) -> None:
    bad = np.flatnonzero((tokens < 0) | (tokens >= (vocab if vocab is not None else np.iinfo(np.int32).max)))
    if len(bad):
        known = "the vocabulary" if vocab is None else f"0 to {vocab - 1}"
        raise Error(f"{name} holds {tokens[bad[0]]} at {bad[0]}, but the model knows {known}; was it made by another tokenizer?")


def _refuse_outside(positions: np.ndarray, length: int, name: str) -> None:
    bad = np.flatnonzero((positions < 0) | (positions >= length))
    if len(bad):
        raise Error(f"{name} holds {positions[bad[0]]} at {bad[0]}, but its canvas has {length} positions; give 0 to {length - 1}")
