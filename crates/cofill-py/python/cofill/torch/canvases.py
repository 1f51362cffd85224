"""What people pass as input, checked and cut into one canvas for each sequence; and back into one tensor.

A decode knows no padding: it is cut off here and put back at the end, so that a sequence is the same alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cofill import Error

__all__ = ["Canvases", "read_canvases"]


@dataclass
class Canvases:
    """Sequences without padding, and how the input was laid out."""

    tokens: list[np.ndarray]  # int64 [length] each
    padding: list[np.ndarray]  # what stood before each, int64

    def sequences(self, decoded: Sequence[np.ndarray], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
        """One matrix of all sequences, padded on the left as the input was, and its mask. int64 `[batch, length]` each"""
        length = max((len(p) + len(d) for p, d in zip(self.padding, decoded)), default=0)
        out = np.full((len(decoded), length), pad_id, dtype=np.int64)
        mask = np.zeros_like(out)
        for row, (before, tokens) in enumerate(zip(self.padding, decoded)):
            out[row, length - len(tokens) :] = tokens
            mask[row, length - len(tokens) :] = 1
            out[row, length - len(tokens) - len(before) : length - len(tokens)] = before
        return out, mask


def read_canvases(
    given: Any, attention_mask: Any, *, name: str, device: torch.device, vocab: int | None, append: Sequence[int] = ()
) -> Canvases:
    """One canvas for each sequence of the input, with `append` at its end.

    Parameters
    ----------
    given : torch.Tensor, numpy.ndarray or list
        `[length]`, `[batch, length]`, or a list of sequences of any lengths.
    attention_mask : torch.Tensor or numpy.ndarray, optional
        Of the same shape, 0 where a position is padding, which must stand on the left.
    name : str
        What messages call the input.
    device : torch.device
        The model's; a tensor must be on it.
    vocab : int, optional
        How many tokens the model knows.
    """
    rows = _rows(given, name, device)
    pads = [0] * len(rows)
    if attention_mask is not None:
        masks = _rows(attention_mask, "attention_mask", device, numbers=False)
        shapes = [len(r) for r in rows], [len(m) for m in masks]
        if shapes[0] != shapes[1]:
            raise Error(
                f"attention_mask has shape {_shape(attention_mask, masks)}, but {name} has {_shape(given, rows)}; they must be the same"
            )
        pads = [_left_padding(mask, i) for i, mask in enumerate(masks)]
    tail = np.asarray(append, dtype=np.int64)
    canvases = Canvases([], [])
    for i, (row, pad) in enumerate(zip(rows, pads)):
        bad = np.flatnonzero((row < 0) | (row >= (vocab if vocab is not None else np.iinfo(np.int32).max)))
        if len(bad):
            last = "the vocabulary" if vocab is None else f"0 to {vocab - 1}"
            raise Error(
                f"{name} holds token {row[bad[0]]} at [{i}, {bad[0]}], but the model knows {last}; was it made by another tokenizer?"
            )
        canvas = np.concatenate([row[pad:], tail])
        if not len(canvas):
            raise Error(f"{name} has nothing in row {i}; give at least one token")
        canvases.tokens.append(canvas)
        canvases.padding.append(row[:pad])
    return canvases


def _rows(given: Any, name: str, device: torch.device, numbers: bool = True) -> list[np.ndarray]:
    """The rows of a tensor, an array or a list of such, as int64."""
    if isinstance(given, torch.Tensor):
        if given.device.type != device.type or (given.device.index or 0) != (device.index or 0):
            raise Error(f"{name} is on {given.device}, but the model is on {device}; use {name}.to('{device}')")
        given = given.detach().cpu().numpy()
    if isinstance(given, np.ndarray):
        if given.ndim not in (1, 2):
            raise Error(f"{name} has shape {given.shape}, but [length] or [batch, length] was expected")
        if given.dtype.kind not in ("iu" if numbers else "iubf"):
            raise Error(f"{name} must hold integers, but its type is {given.dtype}; token ids are int64")
        if not numbers and not np.isin(given, (0, 1)).all():
            wrong = given[~np.isin(given, (0, 1))][0]
            raise Error(f"{name} holds {wrong}, but must hold 1, and 0 where a position is padding; additive masks are not for `generate`")
        return list(np.atleast_2d(given).astype(np.int64))
    if isinstance(given, (list, tuple)) and len(given):
        if all(isinstance(token, (int, np.integer)) and not isinstance(token, bool) for token in given):
            return [np.asarray(given, dtype=np.int64)]
        rows = [
            _rows(
                row if not isinstance(row, (list, tuple)) else np.asarray(row, dtype=None if row else np.int64),
                f"{name}[{i}]",
                device,
                numbers,
            )
            for i, row in enumerate(given)
        ]
        for i, row in enumerate(rows):
            if len(row) != 1:
                raise Error(
                    f"{name}[{i}] has shape ({len(row)}, {len(row[0])}), but one sequence was expected; a list holds sequences [length]"
                )
        return [row[0] for row in rows]
    raise Error(
        f"{name} must be a tensor, an array or a list of sequences with at least one in it, but {type(given).__name__} was given"
    )


def _shape(given: Any, rows: list[np.ndarray]) -> tuple[int, ...] | list[int]:
    return tuple(given.shape) if hasattr(given, "shape") else [len(row) for row in rows]


def _left_padding(mask: np.ndarray, row: int) -> int:
    """How much padding stands on the left, if none stands elsewhere."""
    real = np.flatnonzero(mask != 0)
    first = int(real[0]) if len(real) else len(mask)
    if (mask[first:] == 0).any():
        raise Error(
            f"attention_mask hides position {first + int(np.flatnonzero(mask[first:] == 0)[0])} of row {row}, which has real tokens before it; pad on the left "
            "(tokenizer.padding_side = 'left'), or pass a list of sequences without padding"
        )
    return first
