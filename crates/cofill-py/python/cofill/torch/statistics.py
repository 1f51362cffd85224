"""From rows of logits to a proposed token and the four numbers that samplers rank by, on the logits' own device.

For a row x of logits, with t the proposed token::

    mx = max(x);  e = exp(x - mx);  s = sum(e)           full softmax, the mask's column included
    c = e[t] / s                                          confidence
    u = sum(e without e[t]) / s                           1 - c, summed over the others
    m = (1 - e[second]) / s                               margin: p(1) - p(2)
    H = log(s) - sum(e * (x - mx)) / s                    entropy in nats; logits of -inf count 0

Everything is f32 whatever the type of the logits: a softmax in bf16 makes most confidences of a sharp model exactly 1 and so
switches the attention discount off, and `1 - c` by subtraction loses what is left of it. Rows go through in chunks, so that the
temporaries stay far below the logits themselves. The same definitions in Rust: `crates/cofill/src/forward/propose.rs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from cofill import Error
from cofill.torch.checks import number, whole_number

__all__ = ["Proposal", "RowNumbers", "row_statistics", "softmax_rows", "target_log_probabilities"]

CHUNK = 64
"""The most rows that are worked on at once."""

CHUNK_ELEMENTS = {"cpu": 1 << 20, "other": 1 << 22}
"""The most logits that are worked on at once: 4 MB of f32, which stay in a CPU's cache; 16 MB elsewhere, where starting a kernel costs more."""

LOWEST = -200.0
"""Below this, exp is 0 in f32; the bound keeps -inf out of products, where 0 * -inf would be NaN."""


@dataclass(frozen=True)
class Proposal:
    """How a token is proposed from logits; the same for every row of a sequence.

    Parameters
    ----------
    temperature : float
        0 proposes the likeliest token; above 0, Gumbel noise on the logits samples from softmax(logits / temperature).
    top_p, top_k : float, int, optional
        Dream's filters. With either, the numbers describe the tempered and filtered distribution, also at temperature 0; with
        neither, always the clean softmax.
    suppress : sequence of int
        Ids whose logit is -inf before anything else.
    demote : sequence of int
        Ids that may be proposed but count for nothing afterwards: their confidence is 0.
    """

    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    suppress: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (np.isfinite(number("temperature", self.temperature)) and self.temperature >= 0):
            raise Error(f"temperature must be a finite number, 0 or more, but {self.temperature} was given")
        if self.top_p is not None and not 0 < number("top_p", self.top_p) <= 1:
            raise Error(f"top_p must be above 0 and at most 1, but {self.top_p} was given")
        if self.top_k is not None:
            whole_number("top_k", self.top_k)

    @property
    def filtered(self) -> bool:
        """Whether the numbers describe the filtered distribution."""
        return self.top_p is not None or self.top_k is not None

    @property
    def noise_scale(self) -> float:
        """How strong the Gumbel noise is. Filtered logits are tempered already, so theirs has scale 1."""
        if not self.filtered:
            return self.temperature
        return 1.0 if self.temperature > 0 else 0.0

    def check(self, vocab: int) -> None:
        """Refuses ids that the vocabulary does not have."""
        for name, ids in (("suppress", self.suppress), ("demote", self.demote)):
            for token in ids:
                if not 0 <= token < vocab:
                    raise Error(f"{name} must hold token ids from 0 to {vocab - 1}, but {token} was given")


@dataclass(frozen=True)
class RowNumbers:
    """What a forward pass says about some rows, on the device: everything is ready to be packed and copied once.

    A row that cannot be computed with is NaN in every number and has its reason in the token: -1 for a logit that is NaN or
    +inf, -2 when nothing but the mask has any probability. So nobody has to wait for the device to find out.
    """

    token: torch.Tensor  # int32 [rows]
    numbers: torch.Tensor  # f32 [rows, 4]: confidence, uncertainty, margin, entropy


NOT_FINITE, NOTHING_TO_PROPOSE = -1, -2

Noise = Callable[[int, int], "torch.Tensor | None"]
"""Gumbel noise of rows first..last, `[last - first, vocab]`."""


@torch.no_grad()
def row_statistics(
    logits: torch.Tensor,
    mask_id: int,
    proposal: Proposal = Proposal(),
    noise: Noise | None = None,
    unguided: torch.Tensor | None = None,
    guidance: float = 0.0,
) -> RowNumbers:
    """Proposes a token for every row and describes its distribution.

    Parameters
    ----------
    logits : torch.Tensor
        `[rows, vocab]`, any floating type, any device.
    mask_id : int
        The id that is never proposed. Its probability still counts.
    proposal : Proposal
        Temperature, filters, suppressed and demoted ids.
    noise : callable, optional
        Standard Gumbel noise of rows first..last; needed when ``proposal.noise_scale`` is above 0.
    unguided : torch.Tensor, optional
        Logits `[rows, vocab]` of the pass in which everything given is masked, for classifier-free guidance.
    guidance : float
        The scale of guidance: logits become u + (scale + 1)(l - u).

    Examples
    --------
    >>> import torch
    >>> from cofill.torch.statistics import row_statistics
    >>> rows = row_statistics(torch.tensor([[0.25, 0.5, 0.125, 0.125]]).log(), mask_id=3)
    >>> rows.token.tolist(), [round(x, 4) for x in rows.numbers[0].tolist()]
    ([1], [0.5, 0.5, 0.25, 1.213])
    """
    if logits.dim() != 2:
        raise Error(f"logits has shape {tuple(logits.shape)}, but [rows, vocab] was expected; index the rows that are asked")
    rows, vocab = logits.shape
    if not 0 <= mask_id < vocab:
        raise Error(f"mask_id must be a token id from 0 to {vocab - 1}, but {mask_id} was given")
    token = torch.empty(rows, dtype=torch.int32, device=logits.device)
    numbers = torch.empty(rows, 4, dtype=torch.float32, device=logits.device)
    plain = proposal == Proposal() and unguided is None
    for first, last in chunks(logits):
        if plain:
            token[first:last], numbers[first:last] = _describe_plain(logits[first:last], mask_id)
            continue
        x = guided(logits[first:last], None if unguided is None else unguided[first:last], guidance)
        drawn = noise(first, last) if noise is not None and proposal.noise_scale > 0 else None
        token[first:last], numbers[first:last] = _describe(x, mask_id, proposal, drawn)
    return RowNumbers(token, numbers)


def chunks(logits: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are worked on at once."""
    rows, vocab = logits.shape
    most = CHUNK_ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
    size = min(CHUNK, max(1, most // vocab))
    for first in range(0, rows, size):
        yield first, min(first + size, rows)


def guided(logits: torch.Tensor, unguided: torch.Tensor | None, scale: float) -> torch.Tensor:
    """A copy of some logits in f32, guided if there is something to be guided away from."""
    x = logits.to(torch.float32, copy=True)
    if unguided is not None:
        u = unguided.to(torch.float32)
        x.sub_(u).mul_(scale + 1).add_(u)
    return x


def _describe_plain(logits: torch.Tensor, mask_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token and numbers of some rows, when nothing but the mask is special: the same as `_describe` in half as many passes over the logits.

    With t the best of all but the mask, the largest logit is t's or the mask's, and the second largest is t's or the best of all but t.
    """
    at_mask = logits[:, mask_id].float()
    t, at_t = _best_beside(logits, mask_id)
    largest = torch.maximum(at_mask, at_t)  # NaN if any logit is: the best of a row with NaN is NaN
    not_finite, nothing = ~(largest < torch.inf), at_t == -torch.inf
    mx = largest.masked_fill(largest == -torch.inf, 0.0)

    z = logits.float().sub_(mx[:, None]) if logits.dtype != torch.float32 else logits - mx[:, None]
    z.scatter_(1, t[:, None], -torch.inf)  # 1 - c is summed over the others
    others = z.amax(dim=1)
    z.clamp_(min=LOWEST)
    e = z.exp()
    rest = e.sum(dim=1)
    weighted = e.mul_(z).sum(dim=1)
    second = torch.where(at_mask > at_t, at_t - mx, others)
    token, numbers = _numbers(t, at_t - mx, second, rest, weighted)
    token = token.masked_fill(nothing, NOTHING_TO_PROPOSE).masked_fill(not_finite, NOT_FINITE)
    return token, numbers.masked_fill((nothing | not_finite)[:, None], torch.nan)


def _best_beside(logits: torch.Tensor, mask_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The lowest id with the largest logit, the mask excepted, and that logit in f32. `[rows]` each"""
    vocab = logits.shape[1]
    sides = [(0, mask_id), (mask_id + 1, vocab)]
    best: tuple[torch.Tensor, torch.Tensor] | None = None
    for start, end in sides:
        if start >= end:
            continue
        here = logits[:, start:end].argmax(dim=1) + start
        value = logits.gather(1, here[:, None])[:, 0].float()
        if best is None:
            best = here, value
        else:
            # A NaN wins on either side, so that it is seen.
            right = (value > best[1]) | value.isnan()
            best = torch.where(right, here, best[0]), torch.where(right, value, best[1])
    if best is None:
        raise Error(f"logits have {vocab} column(s), and the mask is {mask_id}: there is nothing to propose")
    return best


def _numbers(
    t: torch.Tensor, z_t: torch.Tensor, second: torch.Tensor, rest: torch.Tensor, weighted: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """c, u, m and H from sums over all but the chosen token, relative to the largest logit. `[rows]` each"""
    wide = (
        torch.float32 if rest.device.type == "mps" else torch.float64
    )  # of [rows] only, where the last digits are free
    z_t, second, rest, weighted = (v.to(wide) for v in (z_t, second, rest, weighted))
    e_t = z_t.exp()
    s = rest + e_t
    s = s.masked_fill(s == 0.0, 1.0)
    weighted = weighted + torch.where(e_t > 0, e_t * z_t, 0.0)
    margin = (1.0 - second.exp()) / s
    # s = 1 + what the likeliest token does not have. If that is the chosen one, the rest is known by itself, and log1p keeps all of it.
    excess = torch.where(z_t == 0.0, rest, (s - 1.0).clamp(min=0.0))
    entropy = (excess.log1p() - weighted / s).clamp(min=0.0)
    return t.to(torch.int32), torch.stack([e_t / s, rest / s, margin, entropy], dim=1).to(torch.float32)


def _describe(
    x: torch.Tensor, mask_id: int, proposal: Proposal, noise: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token and numbers of some rows. `x: f32 [rows, vocab]` is used up."""
    none = -torch.inf
    proposal.check(x.shape[1])
    largest = x.amax(dim=1)  # NaN if any logit is; +inf if any is
    not_finite = ~(largest < torch.inf)

    if proposal.suppress:
        x[:, list(proposal.suppress)] = none
    best, nothing = None, None
    if proposal.filtered:
        best = _argmax_without(x, mask_id)
        nothing = x.gather(1, best[:, None])[:, 0] == none
        if proposal.temperature > 0:
            x.div_(proposal.temperature)
        if proposal.top_p is not None and proposal.top_p < 1:  # 1 drops nothing, whatever a sum rounds to
            _keep_top_p(x, proposal.top_p)
        if proposal.top_k is not None:
            _keep_top_k(x, proposal.top_k)

    if noise is None:
        t = _argmax_without(x, mask_id)
    else:
        # In the noise's own type: exact noise is f64, and so is the sum whose largest entry Rust takes.
        t = _argmax_without(noise.to(x.device).mul_(proposal.noise_scale).add_(x), mask_id)
    proposable = x.gather(1, t[:, None])[:, 0] > none
    if best is not None:
        # A filter may leave nothing but the mask; then the best of the rest is proposed, with the confidence it has left: none.
        t = torch.where(proposable, t, best)

    if proposal.demote:
        x[:, list(proposal.demote)] = none
    mx, top = x.max(dim=1)  # [rows] each
    second = x.scatter(1, top[:, None], none).amax(dim=1) if x.shape[1] > 1 else torch.full_like(mx, none)
    # Every token is demoted: nothing is left to be confident of. Any finite number keeps NaN out of what follows.
    empty = mx == none
    mx = mx.masked_fill(empty, 0.0)

    x.sub_(mx[:, None])
    z_t = x.gather(1, t[:, None])[:, 0]
    x.scatter_(1, t[:, None], -torch.inf).clamp_(min=LOWEST)
    e = x.exp()
    rest = e.sum(dim=1)
    weighted = e.mul_(x).sum(dim=1)
    token, numbers = _numbers(t, z_t, second - mx, rest, weighted)
    if proposal.filtered:
        empty = empty | ~proposable
    numbers.masked_fill_(empty[:, None], 0.0)
    numbers[:, 1].masked_fill_(empty, 1.0)

    nothing = ~proposable if nothing is None else nothing
    token = token.masked_fill(nothing, NOTHING_TO_PROPOSE).masked_fill(not_finite, NOT_FINITE)
    return token, numbers.masked_fill((nothing | not_finite)[:, None], torch.nan)


def _argmax_without(x: torch.Tensor, mask_id: int) -> torch.Tensor:
    """The lowest id with the largest value, the mask excepted."""
    kept = x[:, mask_id].clone()
    x[:, mask_id] = -torch.inf
    best = x.argmax(dim=1)
    x[:, mask_id] = kept
    return best


def _keep_top_p(x: torch.Tensor, p: float) -> None:
    """Drops a token when the probability *before* it, largest first, is already above `p`; the first always stays."""
    ordered, order = x.sort(dim=1, descending=True, stable=True)
    mass = torch.softmax(ordered, dim=1)
    # 126,464 summands in f32 are off by 6e-5, which moves the boundary; Apple's devices know no f64.
    exact = torch.float32 if x.device.type == "mps" else torch.float64
    before = mass.cumsum(dim=1, dtype=exact).sub_(mass)
    drop = torch.zeros_like(x, dtype=torch.bool).scatter_(1, order, before > p)
    drop.scatter_(1, order[:, :1], False)
    x.masked_fill_(drop, -torch.inf)


def _keep_top_k(x: torch.Tensor, k: int) -> None:
    """Drops logits strictly below the k-th largest; ties at the boundary stay."""
    if k < x.shape[1]:
        x.masked_fill_(x < x.topk(k, dim=1).values[:, -1:], -torch.inf)


def softmax_rows(logits: torch.Tensor, unguided: torch.Tensor | None = None, guidance: float = 0.0) -> torch.Tensor:
    """Clean softmax probabilities, f32 `[rows, vocab]`, for samplers that need whole distributions."""
    out = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    for first, last in chunks(logits):
        x = guided(logits[first:last], None if unguided is None else unguided[first:last], guidance)
        out[first:last] = torch.softmax(x, dim=1)
    return out


def target_log_probabilities(
    logits: torch.Tensor, targets: torch.Tensor, unguided: torch.Tensor | None = None, guidance: float = 0.0
) -> torch.Tensor:
    """log p of a given token in every row, over the full softmax, the mask's column included. f32 `[rows]`"""
    out = torch.empty(len(targets), dtype=torch.float32, device=logits.device)
    for first, last in chunks(logits):
        x = guided(logits[first:last], None if unguided is None else unguided[first:last], guidance)
        mx, top = x.max(dim=1)
        given = x.gather(1, targets[first:last, None])[:, 0] - mx
        # log s = log(1 + what the others add): near certainty that is all there is, and f32 would lose it beside the 1.
        others = x.sub_(mx[:, None]).exp_().scatter_(1, top[:, None], 0.0).sum(dim=1)
        out[first:last] = given - others.log1p()
    return out
