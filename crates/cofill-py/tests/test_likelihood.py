"""Likelihood estimates against models whose numbers can be written down. NumPy alone."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from cofill.likelihood import ChainRule, DreamEstimate, LladaEstimate, Plan, Query, counts, estimate, generator, strata_of

VOCAB, MASK = 3, 3
PREFIX, TARGET = [1], [2, 0, 1, 2]


class Joint:
    """A model whose every conditional is that of one joint distribution over texts of five tokens."""

    def __init__(self, length: int = 5) -> None:
        weights = np.random.default_rng(5).random((VOCAB,) * length) ** 3
        self.p = weights / weights.sum()  # [VOCAB] * length
        self.asked: list[int] = []

    def log_p(self, prefix: list[int], target: list[int]) -> float:
        given = self.p[tuple(prefix)]
        return float(np.log(given[tuple(target)] / given.sum()))

    def row(self, tokens: np.ndarray, position: int, token: int) -> float:
        """log p(token at position | tokens that are shown)."""
        shown = tuple(slice(None) if t == MASK else slice(t, t + 1) for t in tokens)
        others = tuple(axis for axis in range(tokens.size) if axis != position)
        marginal = self.p[shown].sum(axis=others)  # [VOCAB]
        return float(np.log(marginal[token] / marginal.sum()))

    def score(self, queries: list[Query]) -> list[np.ndarray]:
        self.asked.append(len(queries))
        return [np.array([self.row(q.tokens, p, t) for p, t in zip(q.rows, q.targets)]) for q in queries]


class Independent(Joint):
    """A model that is no joint distribution: how sure it is depends on how many tokens it is shown."""

    def row(self, tokens: np.ndarray, position: int, token: int) -> float:
        n_masked = int((tokens == MASK).sum())
        return -float(1 + token + 0.37 * n_masked**2 + 0.1 * position)


def masked(model: Joint, prefix: list[int], target: list[int], rows: tuple[int, ...]) -> float:
    """The sum of log p over masked rows, by the plainest way there is."""
    tokens = np.array(prefix + target)
    hidden = tokens.copy()
    hidden[list(rows)] = MASK
    return sum(model.row(hidden, row, int(tokens[row])) for row in rows)


def llada_expectation(model: Joint, prefix: list[int], target: list[int], size: int) -> float:
    """The formula of LLaDA's estimate, over every k and every subset."""
    length, start = len(target), len(prefix)
    total = 0.0
    for k in range(1, length + 1):
        for x in counts(k, length, size):
            subsets = list(combinations(range(start, start + length), int(x)))
            total += np.mean([masked(model, prefix, target, rows) for rows in subsets]) * length / x
    return total / (length * size)


def dream_expectation(model: Joint, prefix: list[int], target: list[int], maskable: list[int]) -> float:
    """The formula of Dream's, over every subset; p is uniform on [0.001, 1], by Gauss's quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    p = 0.001 + (nodes + 1) / 2 * 0.999
    total = 0.0
    for mask in product([False, True], repeat=len(maskable)):
        rows = tuple(row for row, hidden in zip(maskable, mask) if hidden)
        probability = p ** len(rows) * (1 - p) ** (len(maskable) - len(rows))
        total += masked(model, prefix, target, rows) * float(np.sum(weights / 2 * probability / p))
    return total


def values(estimator, model: Joint, n: int, prefix=PREFIX, target=TARGET) -> np.ndarray:
    plans = (estimator.plan(prefix, target, MASK, [7, request]) for request in range(n))
    return np.array(list(estimate(plans, model.score, batch=64)))


def assert_unbiased(found: np.ndarray, expected: float) -> None:
    error = found.std(ddof=1) / np.sqrt(found.size)
    assert 0 < error < 0.1 * abs(expected), "an estimate that never varies, or says nothing, tests nothing"
    assert abs(found.mean() - expected) < 4 * error, (found.mean(), expected, error)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("model", [Joint(), Independent()])
def test_lladas_estimate_has_the_expectation_of_its_formula(model: Joint, size: int) -> None:
    found = values(LladaEstimate(mc_num=size, stratum=size), model, 3000)
    assert_unbiased(found, llada_expectation(model, PREFIX, TARGET, size))


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_of_a_joint_distribution_lladas_expectation_is_the_likelihood(size: int) -> None:
    # Every order of revealing multiplies to the same probability, so the mean over orders is it, too. j 4/5 has no halves.
    model = Joint()
    assert llada_expectation(model, PREFIX, TARGET, size) == pytest.approx(model.log_p(PREFIX, TARGET), abs=1e-12)


def test_rounding_halves_to_even_is_a_bias_that_is_kept() -> None:
    # l = 4, b = 8: j l/b is 0, .5, 1, .. and k + .5 goes to the even neighbour, so half of the canvases never mask 1 or 3.
    model = Joint()
    assert sorted(set(counts(k, 4, 8)[1] for k in range(1, 5))) == [2, 4]
    assert abs(llada_expectation(model, PREFIX, TARGET, 8) - model.log_p(PREFIX, TARGET)) > 1e-3


@pytest.mark.parametrize("length,size", [(4, 4), (7, 4), (10, 32), (3, 1), (1, 8), (6, 4)])
def test_every_canvas_masks_as_many_as_the_formula_says(length: int, size: int) -> None:
    prefix, target = [1, 1], [2] * length
    plan = LladaEstimate(mc_num=size).plan(prefix, target, MASK, [3])
    k = int(generator([3], 0).integers(1, length + 1))
    x = [(round(k + j * length / size) - 1) % length + 1 for j in range(size)]  # Python rounds halves to even, too
    # The same mask drawn twice is one canvas of twice the weight, so weights are what can be counted.
    for n_masked in range(1, length + 1):
        weight = sum(w for q, w in zip(plan.queries, plan.weights) if q.rows.size == n_masked)
        assert weight == pytest.approx(x.count(n_masked) * length / n_masked / size)
    for query in plan.queries:
        assert (query.tokens == MASK).sum() == query.rows.size
        assert (query.tokens[query.rows] == MASK).all() and (query.rows >= 2).all() and (np.diff(query.rows) > 0).all()
        assert (query.targets == 2).all() and query.free.tolist() == list(range(2, 2 + length))


def test_subsets_are_uniform() -> None:
    seen = {rows: 0 for rows in combinations(range(1, 5), 2)}
    for request in range(2000):
        for query in LladaEstimate(mc_num=1).plan(PREFIX, TARGET, MASK, [1, request]).queries:
            if query.rows.size == 2:
                seen[tuple(query.rows.tolist())] += 1
    # A quarter of 2000 canvases mask two, so each of the six subsets is due 83 times; the deviation of such a count is about 9.
    assert all(40 < n < 130 for n in seen.values()), seen


@pytest.mark.parametrize(
    "log_type,maskable,divisor",
    [("ftb", [2, 3, 4], 1), ("btf", [1], 1), ("union", [1, 2, 3, 4], 6)],
)
def test_dreams_estimate_has_the_expectation_of_its_formula(log_type: str, maskable: list[int], divisor: int) -> None:
    # Six tokens, the prefix is the first two; neither the first nor the last is ever masked.
    model, prefix, target = Joint(6), [1, 0], [2, 0, 1, 2]
    found = values(DreamEstimate(mc_num=4, log_type=log_type), model, 4000, prefix, target)
    assert_unbiased(found, dream_expectation(model, prefix, target, maskable) / divisor)


def test_dreams_masks_are_drawn_with_their_probability_and_weighted_by_its_inverse() -> None:
    size, n = 4, 50
    plan = DreamEstimate(mc_num=size).plan([1] * 3, [2] * n, MASK, [9])
    rng = generator([9], 0)
    p = 0.999 * ((rng.random() + np.arange(size) / size) % 1) + 0.001
    drawn = rng.random((size, n + 3)) < p[:, None]
    assert [q.rows.tolist() for q in plan.queries] == [np.flatnonzero(row[:-1])[np.flatnonzero(row[:-1]) >= 3].tolist() for row in drawn]
    assert plan.weights == pytest.approx(1 / p / size)


def test_dream_guides_by_hiding_the_part_that_is_not_scored() -> None:
    free = lambda log_type: DreamEstimate(32, log_type=log_type).plan([1, 1, 1], [2, 2], MASK, [0]).queries
    assert {tuple(q.free.tolist()) for q in free("ftb")} == {(3, 4)}
    assert {tuple(q.free.tolist()) for q in free("union")} == {(0, 1, 2)}


def test_the_chain_rule_of_a_joint_distribution_is_its_likelihood() -> None:
    model = Joint()
    plan = ChainRule().plan(PREFIX, TARGET, MASK)
    assert [q.rows.tolist() for q in plan.queries] == [[1], [2], [3], [4]]
    assert [(q.tokens == MASK).sum() for q in plan.queries] == [4, 3, 2, 1]
    assert next(estimate([plan], model.score)) == pytest.approx(model.log_p(PREFIX, TARGET), abs=1e-12)


@pytest.mark.parametrize("estimator", [LladaEstimate(64), DreamEstimate(64, log_type="union"), ChainRule()])
def test_the_batch_changes_nothing(estimator) -> None:
    lengths = [4, 1, 0, 3, 4]
    plans = lambda: [estimator.plan([1] * (5 - n), [2] * n, MASK, [4, i]) for i, n in enumerate(lengths)]
    model = Joint()
    alone = list(estimate(plans(), model.score, batch=1))
    assert set(model.asked) == {1}
    for batch in [2, 7, 1000]:
        model.asked.clear()
        assert list(estimate(plans(), model.score, batch=batch)) == alone  # to the bit
        assert max(model.asked) <= batch and all(n == batch for n in model.asked[:-1]), "full batches across requests"


def test_one_mask_is_asked_once() -> None:
    model = Joint()
    plan = LladaEstimate(128).plan([1, 0, 2, 1], [2], MASK, [0])
    assert len(plan.queries) == 1 and plan.weights == pytest.approx([1.0])
    assert next(estimate([plan], model.score)) == pytest.approx(model.log_p([1, 0, 2, 1], [2]))
    assert len(LladaEstimate(128).plan([1, 0], [2, 0, 1], MASK, [0]).queries) <= 7


def test_more_canvases_begin_with_the_same() -> None:
    few, many = (LladaEstimate(n, 4).plan(PREFIX, [2] * 40, MASK, [0, 1]) for n in (8, 16))
    assert [q.rows.tolist() for q in few.queries] == [q.rows.tolist() for q in many.queries[: len(few.queries)]]
    assert len({tuple(q.rows) for q in many.queries}) >= 15, "strata have draws of their own; only a mask of all 40 could come twice"


def test_requests_have_draws_of_their_own() -> None:
    rows = lambda seed: [q.rows.tolist() for q in LladaEstimate(8).plan(PREFIX, [2] * 40, MASK, seed).queries]
    assert rows([0, 1]) == rows([0, 1])
    assert rows([0, 1]) != rows([0, 2]) != rows([1, 2])
    assert rows([-1, 1]) != rows([0, 1]), "any whole number is a seed"


def test_an_empty_target_is_certain() -> None:
    for estimator in [LladaEstimate(), ChainRule(), DreamEstimate()]:
        assert list(estimate([estimator.plan([1, 2], [], MASK, [0])], Joint().score)) == [0.0]
    assert list(estimate([], Joint().score)) == []
    assert list(estimate([Plan([], np.array([]))] * 2, Joint().score)) == [0.0, 0.0]


def test_what_cannot_be_drawn_is_refused_by_name() -> None:
    for wrong, said in [
        (lambda: strata_of(0), "mc_num is 0"),
        (lambda: strata_of(128, 48), "mc_stratum is 48; it must divide mc_num, which is 128"),
        (lambda: DreamEstimate(log_type="bft"), "log_type is `bft`; give one of ftb, btf, union"),
        (lambda: list(estimate([], lambda _: [], batch=0)), "batch is 0"),
        (lambda: list(estimate([ChainRule().plan([], [1], MASK)], lambda _: [])), "answered 0 canvases"),
    ]:
        with pytest.raises(ValueError, match=said):
            wrong()
