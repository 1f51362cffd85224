"""How probable a text is to a masked diffusion model, by Monte Carlo.

Such a model has no left-to-right product of probabilities. What it has is a bound: mask some of the target's tokens, ask how probable
the right ones are given the rest, weight by how many were masked, and average over masks. LLaDA and Dream draw the masks differently,
and scores of multiple-choice tasks are only comparable when drawn alike, so both are here:

======================  =====================================================================================================
:class:`LladaEstimate`  strata of b canvases: k ~ U{1..l}; canvas j masks x_j = ((round(k + j l/b) - 1) mod l) + 1 of the l target
                        tokens, a uniform subset; log p ~ mean_j (l / x_j) sum of log p over the masked
:class:`DreamEstimate`  t_j = (u + j/b) mod 1; every token is masked with probability p_j = (1 - e) t_j + e, the first and the last of
                        the sequence never; log p ~ mean_j (1 / p_j) sum of log p over the masked
:class:`ChainRule`      left to right, everything to the right masked: one canvas per token, nothing random (Dream's ``ar_ftb``)
======================  =====================================================================================================

Where a model's conditionals are those of one joint distribution, the expectation of LLaDA's estimate *is* log p of the target: every
order of revealing gives the same product. The tests use that.

An estimator only draws a :class:`Plan`: canvases and their weights. Who answers them is the caller's matter (:func:`estimate` takes
any function from queries to log-probabilities), so the Rust engine, torch models and closed-form models in tests share this file. It
needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ChainRule", "DreamEstimate", "Estimator", "LladaEstimate", "Plan", "Query", "estimate", "generator", "strata_of"]

#: The most canvases that share one draw of how much is masked; what both published scripts run with.
USUAL_STRATUM = 32
#: Dream's smallest probability of a mask.
DREAM_EPSILON = 1e-3


@dataclass(frozen=True, eq=False)
class Query:
    """Log-probabilities that are asked of a model: of ``targets[r]`` at position ``rows[r]`` of a canvas."""

    tokens: NDArray[np.int64]  # [length]
    rows: NDArray[np.int64]  # [m], ascending
    targets: NDArray[np.int64]  # [m]
    free: NDArray[np.int64]  # what guidance does not hide


@dataclass(frozen=True, eq=False)
class Plan:
    """An estimate that only lacks the model: sum over canvases of weight * sum of their log-probabilities."""

    queries: list[Query]
    weights: NDArray[np.float64]  # [canvases]

    def value(self, answers: Sequence[ArrayLike]) -> float:
        """The estimate, given log-probabilities for every canvas.

        Examples
        --------
        >>> import numpy as np
        >>> tokens = np.array([7, 9, 9])
        >>> query = Query(tokens, np.array([1, 2]), np.array([4, 5]), np.array([1, 2]))
        >>> Plan([query], np.array([2.0])).value([[-1.0, -0.5]])
        -3.0
        """
        sums = [float(np.sum(np.asarray(answer, np.float64))) for answer in answers]
        return float(np.dot(self.weights, sums)) if sums else 0.0


class Estimator(Protocol):
    """Draws the canvases that estimate log p(target | prefix)."""

    def plan(self, prefix: ArrayLike, target: ArrayLike, mask_id: int, seed: Sequence[int]) -> Plan:
        """Draws from the branch ``seed`` of all randomness."""
        ...


def generator(seed: Sequence[int], sample: int) -> np.random.Generator:
    """The generator of one stratum: of (seed, request, .., sample) and nothing else, so that neither batch nor rank matters.

    Examples
    --------
    >>> a, b = generator([0, 3], 1), generator([0, 3], 1)
    >>> bool((a.random(4) == b.random(4)).all())
    True
    """
    words = [int(word) & 0xFFFF_FFFF_FFFF_FFFF for word in (*seed, sample)]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def strata_of(mc_num: int, stratum: int | None = None) -> tuple[int, int]:
    """How many strata of how many canvases ``mc_num`` canvases are.

    LLaDA and Dream use the batch size for the second number, so their scores change with it. Here it is a setting of its own: the
    largest divisor of ``mc_num`` up to 32, unless given.

    Examples
    --------
    >>> strata_of(128), strata_of(1), strata_of(100), strata_of(128, 16)
    ((4, 32), (1, 1), (4, 25), (8, 16))
    """
    if mc_num < 1:
        raise _wrong(f"mc_num is {mc_num}; give 1 or more")
    if stratum is None:
        stratum = max(size for size in range(1, min(USUAL_STRATUM, mc_num) + 1) if mc_num % size == 0)
    if stratum < 1 or mc_num % stratum:
        raise _wrong(f"mc_stratum is {stratum}; it must divide mc_num, which is {mc_num}")
    return mc_num // stratum, stratum


@dataclass(frozen=True)
class LladaEstimate:
    """LLaDA's estimate (``get_log_likelihood`` of its repository; Appendix B.5 of the paper).

    Parameters
    ----------
    mc_num
        Canvases. 128 in the paper; one token has one mask, so there 1 is as good (and 128 cost one forward: see :class:`Plan`).
    stratum
        Canvases that share a draw of k; see :func:`strata_of`.

    Notes
    -----
    Ties round to even, as ``torch.round`` does. Where j l/b has the fraction one half, x_j is therefore not uniform, and the published
    estimate has a small bias of its own. It is kept.
    """

    mc_num: int = 128
    stratum: int | None = None

    def plan(self, prefix: ArrayLike, target: ArrayLike, mask_id: int, seed: Sequence[int]) -> Plan:
        canvas = _Canvas.of(prefix, target, mask_id)
        length = canvas.target.size
        strata, size = strata_of(self.mc_num, self.stratum)
        masks = _Masks()
        for sample in range(strata if length else 0):
            rng = generator(seed, sample)
            for n_masked in counts(int(rng.integers(1, length + 1)), length, size):
                rows = np.sort(rng.permutation(length)[:n_masked]) + canvas.start
                masks.add(rows, length / n_masked / self.mc_num)
        return canvas.plan(masks)


def counts(k: int, length: int, size: int) -> NDArray[np.int64]:
    """How many tokens each canvas of a stratum masks: x_j = ((round(k + j l/b) - 1) mod l) + 1.

    Examples
    --------
    >>> counts(2, 6, 4).tolist()  # 2, 3.5, 5, 6.5: halves go to the even neighbour
    [2, 4, 5, 6]
    """
    x = np.round(k + np.arange(size) * (length / size)).astype(np.int64)  # [size]
    return (x - 1) % length + 1


@dataclass(frozen=True)
class DreamEstimate:
    """Dream's estimate (``_eval_target_nll_mc`` of its repository).

    Parameters
    ----------
    mc_num, stratum
        As in :class:`LladaEstimate`. Dream's script never runs fewer than one batch; this runs ``mc_num``.
    log_type
        ``ftb``: the target given the prefix. ``btf``: the prefix given the target. ``union``: both, divided by their length.
    """

    mc_num: int = 128
    stratum: int | None = None
    log_type: str = "ftb"
    epsilon: float = DREAM_EPSILON

    def __post_init__(self) -> None:
        if self.log_type not in ("ftb", "btf", "union"):
            raise _wrong(f"log_type is `{self.log_type}`; give one of ftb, btf, union, ar_ftb")

    def plan(self, prefix: ArrayLike, target: ArrayLike, mask_id: int, seed: Sequence[int]) -> Plan:
        canvas = _Canvas.of(prefix, target, mask_id)
        n, start = canvas.tokens.size, canvas.start
        strata, size = strata_of(self.mc_num, self.stratum)
        eligible = np.zeros(n, bool)
        parts = {"ftb": slice(start, n), "btf": slice(0, start), "union": slice(0, n)}
        eligible[parts[self.log_type]] = True
        eligible[:1] = eligible[-1:] = False  # beginning and end of text are always shown
        scale = 1.0 / self.mc_num / (n if self.log_type == "union" else 1)
        masks = _Masks()
        for sample in range(strata if n else 0):
            rng = generator(seed, sample)
            t = (rng.random() + np.arange(size) / size) % 1.0
            p = (1.0 - self.epsilon) * t + self.epsilon  # [size]
            drawn = rng.random((size, n)) < p[:, None]  # [size, n]
            for j in range(size):
                masks.add(np.flatnonzero(drawn[j] & eligible), scale / p[j])
        # What is scored is what guidance must not hide; Dream's script hides the other part.
        return canvas.plan(masks, free=np.flatnonzero(~canvas.is_target) if self.log_type != "ftb" else None)


@dataclass(frozen=True)
class ChainRule:
    """The chain rule from left to right, with everything to the right masked (Dream's ``ar_ftb``): as many forwards as tokens."""

    def plan(self, prefix: ArrayLike, target: ArrayLike, mask_id: int, seed: Sequence[int] = ()) -> Plan:
        canvas = _Canvas.of(prefix, target, mask_id)
        end = canvas.tokens.size
        shown = [canvas.query(np.array([at]), hidden=slice(at, end)) for at in range(canvas.start, end)]
        return Plan(shown, np.ones(len(shown)))


@dataclass(frozen=True, eq=False)
class _Canvas:
    """A prefix and a target, on one canvas."""

    tokens: NDArray[np.int64]  # [length]
    start: int  # of the target
    mask_id: int

    @classmethod
    def of(cls, prefix: ArrayLike, target: ArrayLike, mask_id: int) -> _Canvas:
        prefix, target = (np.asarray(part, np.int64).reshape(-1) for part in (prefix, target))
        return cls(np.concatenate([prefix, target]), prefix.size, mask_id)

    @property
    def target(self) -> NDArray[np.int64]:
        return self.tokens[self.start :]

    @property
    def is_target(self) -> NDArray[np.bool_]:
        return np.arange(self.tokens.size) >= self.start

    def query(
        self, rows: NDArray[np.int64], hidden: slice | NDArray[np.int64] | None = None, free: NDArray[np.int64] | None = None
    ) -> Query:
        tokens = self.tokens.copy()
        tokens[rows if hidden is None else hidden] = self.mask_id
        # Guidance by default hides the prompt and leaves the target as it is, masked or not: LLaDA's `get_logits`.
        return Query(tokens, rows, self.tokens[rows], np.flatnonzero(self.is_target) if free is None else free)

    def plan(self, masks: _Masks, free: NDArray[np.int64] | None = None) -> Plan:
        drawn = [(rows, weight) for rows, weight in masks.drawn() if rows.size]  # nothing masked, nothing to add
        queries = [self.query(rows, free=free) for rows, _ in drawn]
        return Plan(queries, np.array([weight for _, weight in drawn]))


class _Masks:
    """Masks with weights, each once: the same mask drawn twice is asked once and counts twice.

    Of one token there is one mask and of three there are seven, so short answers cost a few forwards, whatever ``mc_num``.
    """

    def __init__(self) -> None:
        self._weights: dict[bytes, float] = {}

    def add(self, rows: NDArray[np.int64], weight: float) -> None:
        key = np.ascontiguousarray(rows, np.int64).tobytes()
        self._weights[key] = self._weights.get(key, 0.0) + weight

    def drawn(self) -> Iterator[tuple[NDArray[np.int64], float]]:
        for key, weight in self._weights.items():
            yield np.frombuffer(key, np.int64), weight


def _wrong(message: str) -> ValueError:
    from cofill import Error  # here, so that this file can be read without the extension

    return Error(message)


def estimate(plans: Iterable[Plan], score: Callable[[list[Query]], Sequence[ArrayLike]], batch: int = 1) -> Iterator[float]:
    """The value of every plan, in order, asking ``score`` about at most ``batch`` canvases at a time, of several plans if need be.

    Plans are drawn as they are needed, so there may be any number.

    Examples
    --------
    >>> halves = lambda queries: [np.full(query.rows.size, np.log2(0.5)) for query in queries]
    >>> plans = [LladaEstimate(mc_num=4).plan([1, 2], [3] * length, mask_id=0, seed=[0, length]) for length in (1, 3)]
    >>> [round(value, 12) for value in estimate(plans, halves, batch=3)]  # whatever is masked, one bit a token
    [-1.0, -3.0]
    """
    if batch < 1:
        raise _wrong(f"batch is {batch}; give 1 or more")
    open_plans: list[tuple[Plan, list[ArrayLike]]] = []  # in order; the first lacks answers, or is about to leave
    waiting: list[tuple[Query, list[ArrayLike]]] = []

    def ask(most: int) -> None:
        asked, waiting[:most] = waiting[:most], []
        answers = score([query for query, _ in asked])
        if len(answers) != len(asked):
            raise _wrong(f"score answered {len(answers)} canvases, and was asked about {len(asked)}")
        for (_, into), answer in zip(asked, answers):
            into.append(answer)

    def finished() -> Iterator[float]:
        while open_plans and len(open_plans[0][1]) == len(open_plans[0][0].queries):
            plan, answers = open_plans.pop(0)
            yield plan.value(answers)

    for plan in plans:
        answers: list[ArrayLike] = []
        open_plans.append((plan, answers))
        waiting.extend((query, answers) for query in plan.queries)
        while len(waiting) >= batch:
            ask(batch)
        yield from finished()
    while waiting:
        ask(batch)
    yield from finished()
