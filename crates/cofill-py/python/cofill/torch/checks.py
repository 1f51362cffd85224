"""Values that callers give, read or refused by name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from cofill import Error

__all__ = ["whole_number", "number", "integers", "read_seeds", "known_tokens"]


def whole_number(name: str, value: Any) -> int:
    """A whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise Error(f"{name} must be a whole number, 1 or more, but {value!r} was given")
    return int(value)


def number(name: str, value: Any) -> float:
    """A number; how large it may be is for others to say."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise Error(f"{name} must be a number, 0 or more, but {value!r} was given")
    return float(value)


def integers(name: str, given: Any) -> np.ndarray:
    """One row of integers, int64 `[n]`. A batch of one row is that row, a single number a row of one."""
    if isinstance(given, Iterable) and not isinstance(given, (str, np.ndarray, torch.Tensor)):
        given = list(given)  # sets are good for lists of tokens, and numpy takes one for a single object
    array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)  # an empty list has type float64
    if array.dtype.kind not in "iu":
        raise Error(f"{name} must hold integers, but its type is {array.dtype}")
    if array.ndim and array.size != array.shape[-1]:
        raise Error(f"{name} has shape {array.shape}, but [length] was expected; give one sequence")
    return array.reshape(-1).astype(np.int64, copy=False)


def read_seeds(seed: Any, n: int) -> list[int]:
    """One seed for each of `n` sequences, from one for all or one for each."""
    several = (isinstance(seed, Sequence) and not isinstance(seed, str)) or (isinstance(seed, np.ndarray) and seed.ndim)
    try:
        seeds = [operator.index(s) for s in seed] if several else [operator.index(seed)] * n
    except TypeError:
        raise Error(f"seed must be a whole number, or one for each sequence, but {seed!r} was given") from None
    if len(seeds) != n:
        raise Error(f"seed has {len(seeds)} entries for {n} sequences; give one, or one for each")
    return seeds


def known_tokens(adapter: Any) -> int | None:
    """How many tokens a model takes, if that can be known before a forward: from its head, or else from its embedding."""
    vocab = getattr(adapter, "vocab", None)
    if vocab is None:
        embeddings = getattr(getattr(adapter, "model", None), "get_input_embeddings", lambda: None)()
        vocab = getattr(embeddings, "num_embeddings", None)
    return None if vocab is None else int(vocab)
