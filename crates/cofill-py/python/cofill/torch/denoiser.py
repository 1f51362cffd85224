"""A torch model as the Rust side sees models: queries in, statistics out.

Diagnostics, and whatever else is written against a denoiser, then run on a published 8B as they do on the engine's own models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cofill import Error, adapters
from cofill.torch.forward import Forward, Question

__all__ = ["TorchDenoiser"]


class TorchDenoiser:
    """Answers `cofill.Query` objects, and scores given tokens.

    Parameters
    ----------
    model : torch.nn.Module
        The model; see `cofill.adapters` for the classes that are known.
    adapter : object, optional
        For classes that are not.
    mask_id, shift : optional
        In place of what the model's family says.
    cfg_scale, attention_row, padding, batch_size
        As in `cofill.generate`.

    Examples
    --------
    >>> import numpy as np, torch, types, cofill
    >>> from cofill.adapters import Adapter
    >>> class Counts(torch.nn.Module):
    ...     def forward(self, input_ids, attention_mask=None):
    ...         position = torch.arange(input_ids.shape[1]).expand_as(input_ids)
    ...         return types.SimpleNamespace(logits=torch.nn.functional.one_hot(position, 10) * 5.0)
    >>> denoiser = cofill.torch.TorchDenoiser(Counts().eval(), adapter=lambda model, *_: Adapter(model, mask_id=9))
    >>> denoiser.score([0, 9, 9], rows=[1, 2], targets=[1, 1]).round(3)
    array([-0.059, -5.059])
    """

    def __init__(
        self,
        model: torch.nn.Module,
        adapter: Any = None,
        *,
        mask_id: int | None = None,
        shift: bool | None = None,
        cfg_scale: float = 0.0,
        attention_row: str = "position",
        padding: bool = False,
        batch_size: int | None = None,
    ) -> None:
        self.adapter = adapters.adapt(model, adapter, mask_id=mask_id, shift=shift)
        self._forward = Forward(
            self.adapter, cfg_scale=cfg_scale, attention_row=attention_row, padding=padding, batch_size=batch_size
        )

    @property
    def mask_id(self) -> int:
        """The token that marks an open position."""
        return self.adapter.mask_id

    @property
    def vocab(self) -> int:
        """How many token ids there are."""
        return self._forward.vocab()

    def denoise(self, queries: Sequence[Any]) -> list[dict[str, np.ndarray | None]]:
        """One forward for all queries; arrays as `Decode.absorb` takes them, in the order of the queries."""
        if any(query.companion for query in queries):
            raise Error("a query asks for a companion, and a torch model has none")
        if not queries:
            return []
        questions = [Question(q.tokens, q.rows, q.free, q.attention, q.distributions, step=q.step) for q in queries]
        return [answer.arrays() for answer in self._forward.ask(questions)]

    def score(self, tokens: Any, rows: Any, targets: Any, *, free: Any = None) -> np.ndarray:
        """log p of every target at its row, over the full softmax, the mask's column included. f64 `[m]`"""
        return self.score_batch([(tokens, rows, targets)], free=None if free is None else [free])[0]

    def score_batch(
        self, requests: Sequence[tuple[Any, Any, Any]], *, free: Sequence[Any] | None = None
    ) -> list[np.ndarray]:
        """The same for many (tokens, rows, targets) in as few forwards as their lengths and `batch_size` allow.

        `free` has an entry for every request: the positions that guidance does not hide. It is needed with `cfg_scale` alone.
        """
        if not requests:
            return []
        if self._forward.cfg_scale > 0 and free is None:
            raise Error(
                "free must say, for every request, which positions guidance does not hide; cfg_scale is above 0"
            )
        if free is not None and len(free) != len(requests):
            raise Error(f"free has {len(free)} entries for {len(requests)} requests; give one for each")
        free = [None] * len(requests) if free is None else free
        return self._forward.score(
            [Question(tokens, rows, given, targets=targets) for (tokens, rows, targets), given in zip(requests, free)]
        )
