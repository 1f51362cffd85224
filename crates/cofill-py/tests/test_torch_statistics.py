"""Logits to statistics: against f64, on the rows where shortcuts go wrong, and against the definitions of the Rust core."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cofill import Error  # noqa: E402
from cofill.torch import statistics  # noqa: E402
from cofill.torch.noise import gumbel_row, gumbel_rows  # noqa: E402
from cofill.torch.statistics import (  # noqa: E402
    NOT_FINITE,
    NOTHING_TO_PROPOSE,
    Proposal,
    row_statistics,
    softmax_rows,
    target_log_probabilities,
)

NO_MASK = 3  # a column that the small rows below give to the mask


def describe(logits, mask_id, proposal=Proposal(), noise=None):
    """Token and (c, u, m, H) of rows, as Python numbers."""
    rows = row_statistics(torch.as_tensor(logits, dtype=torch.float32), mask_id, proposal, noise)
    return rows.token.tolist(), rows.numbers.double().numpy()


def reference(logits: np.ndarray, token: np.ndarray) -> np.ndarray:
    """c, u, m, H in f64."""
    x = logits.astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    s, each = e.sum(1), np.arange(len(x))
    c = e[each, token] / s
    top = np.sort(e, 1)[:, -2:]
    p = e / s[:, None]
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum(1)
    e[each, token] = 0
    return np.stack([c, e.sum(1) / s, (top[:, 1] - top[:, 0]) / s, entropy], 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("peak", [0.0, 18.0, 25.0])
def test_a_large_vocabulary_against_f64(dtype, peak):
    torch.manual_seed(int(peak))
    rows, vocab, mask_id = 64, 126_464, 126_336
    x = torch.randn(rows, vocab)
    x[torch.arange(rows), torch.randint(0, vocab, (rows,))] += peak
    x = x.to(dtype)
    got = row_statistics(x, mask_id)
    logits = x.double().numpy()
    without = logits.copy()
    without[:, mask_id] = -np.inf
    token = without.argmax(1)
    assert (got.token.numpy() == token).all()
    c, u, m, h = reference(logits, token).T
    numbers = got.numbers.double().numpy()
    # What is sent is u; c is 1 - u where u is the smaller (see `Forward._unpack`).
    confidence = np.where(numbers[:, 1] < 0.5, 1 - numbers[:, 1], numbers[:, 0])
    assert np.abs(confidence - c).max() < 1e-6 and np.abs(numbers[:, 0] - c).max() < 1e-6
    assert (np.abs(numbers[:, 1] - u) / u).max() < 1e-5
    assert np.abs(numbers[:, 2] - m).max() < 1e-6
    assert np.abs(numbers[:, 3] - h).max() < 2e-6 and (np.abs(numbers[:, 3] - h) / h).max() < 1e-5
    # Rounding makes no ties: values that differ in f64 differ here, and none is exactly 1.
    assert len(set(confidence)) == len(set(c)) and (confidence < 1).all()
    if peak == 25.0:
        soft = torch.softmax(x.bfloat16(), dim=1).amax(dim=1)
        assert (soft == 1).float().mean() > 0.5, "the shortcut that this replaces"


def test_a_known_distribution():
    token, numbers = describe(np.log([[0.25, 0.5, 0.125, 0.125]]), NO_MASK)
    # H = 1/2 . 1 + 1/4 . 2 + 2 . 1/8 . 3 = 1.75 bits
    assert token == [1] and np.allclose(numbers, [[0.5, 0.5, 0.25, 1.75 * math.log(2)]], atol=1e-6)


def test_degenerate_rows():
    inf = math.inf
    # Uniform: c = 1/V, H = ln V, and the tie goes to the lowest id.
    token, numbers = describe([[3.0] * 8], 7)
    assert token == [0] and np.allclose(numbers, [[0.125, 0.875, 0.0, math.log(8)]], atol=1e-6)
    # One-hot, with exact zeros: 0 ln 0 is 0, not NaN.
    token, numbers = describe([[-inf, 0.0, -inf, -inf]], NO_MASK)
    assert token == [1] and numbers.tolist() == [[1.0, 0.0, 1.0, 0.0]]
    # NaN is an error, never a selection; so is +inf, whose softmax is NaN. Only their own rows suffer.
    token, numbers = describe([[0.0, math.nan, 0, 0], [0.0, inf, 0, 0], [0.0, 1.0, 0, 0]], NO_MASK)
    assert token == [NOT_FINITE, NOT_FINITE, 1] and np.isnan(numbers[:2]).all() and np.isfinite(numbers[2]).all()
    token, _ = describe([[-inf, -inf, -inf, 1.0]], NO_MASK)
    assert token == [NOTHING_TO_PROPOSE]


def test_the_mask_is_never_proposed_but_keeps_its_probability():
    # p(mask) = .6: the proposal is the .3, and its confidence is .3, not the renormalised .75.
    token, numbers = describe(np.log([[0.1, 0.3, 0.6]]), 2)
    assert token == [1] and np.allclose(numbers[0, :3], [0.3, 0.7, 0.3], atol=1e-6)


def test_uncertainty_survives_where_one_minus_c_does_not():
    # exp(-40) = 4e-18 is lost in 1 - c, which is exactly 0.
    _, numbers = describe([[0.0, -40.0, -math.inf, -math.inf]], NO_MASK)
    assert numbers[0, 0] == 1.0 and math.isclose(numbers[0, 1], math.exp(-40), rel_tol=1e-6)
    # H = log(1 + u) + 40 u, of which log(1 + u) by itself would be 0.
    assert math.isclose(numbers[0, 3], 41 * math.exp(-40), rel_tol=1e-6)


def test_dream_filters_act_before_confidence_even_at_temperature_0():
    # Only the first survives top_p = .95, so c = 1 and H = 0.
    _, numbers = describe(np.log([[0.96, 0.02, 0.01, 0.01]]), NO_MASK, Proposal(top_p=0.95))
    assert numbers.tolist() == [[1.0, 0.0, 1.0, 0.0]]
    # The mass before the third is .90 <= .95, before the fourth .96: three stay.
    _, numbers = describe(np.log([[0.60, 0.30, 0.06, 0.04]]), NO_MASK, Proposal(top_p=0.95))
    assert np.allclose(numbers[0, [0, 2]], [0.625, 0.3125], atol=1e-6)
    # top_k = 2 with a tie at the boundary keeps three.
    _, numbers = describe([[2.0, 1.0, 1.0, 0.0]], NO_MASK, Proposal(top_k=2))
    assert math.isclose(numbers[0, 0], 1 / (1 + 2 * math.exp(-1)), rel_tol=1e-6)
    # A row that is all mask after the filter still proposes, with no confidence left.
    token, numbers = describe(np.log([[0.02, 0.03, 0.95]]), 2, Proposal(top_p=0.9))
    assert token == [1] and numbers.tolist() == [[0.0, 1.0, 0.0, 0.0]]
    token, _ = describe([[-math.inf, -math.inf, 1.0]], 2, Proposal(top_p=0.9))
    assert token == [NOTHING_TO_PROPOSE]


def test_end_of_text_options_of_llada():
    # Vocabulary {EOS, a, b, EoT} and a mask nobody sees.
    none = -math.inf
    rows = [[2.0, 1.0, 0.0, -1.0, none], [0.0, 1.0, 0.5, -1.0, none], [1.0, 1.0, 3.0, 0.0, none]]
    for proposal, c in [(Proposal(), [0.6439, 0.474, 0.7573]), (Proposal(demote=(0, 3)), [0.0, 0.6225, 0.8808])]:
        token, numbers = describe(rows, 4, proposal)
        assert token == [0, 1, 2] and np.allclose(numbers[:, 0], c, atol=5e-5)
        assert np.allclose(numbers[:, 0] + numbers[:, 1], 1, atol=1e-6)
    # `suppress` acts before the argmax: EOS is not proposed at all. 1 / (1 + e^-1 + e^-2) = .6652.
    token, numbers = describe(rows[:1], 4, Proposal(suppress=(0,)))
    assert token == [1] and math.isclose(numbers[0, 0], 0.6652, abs_tol=5e-5)
    token, numbers = describe([[1.0, none, none, none, none]], 4, Proposal(demote=(0,)))
    assert token == [0] and numbers.tolist() == [[0.0, 1.0, 0.0, 0.0]], "nothing is left to be confident of"


def test_sampling_follows_the_tempered_softmax_and_confidence_stays_clean():
    # T = 1/2 squares the odds: p ~ (.6^2, .4^2), so token 0 is drawn with .36 / .52 = .6923.
    n = 4000
    logits = torch.log(torch.tensor([0.6, 0.4, 1e-30])).repeat(n, 1)
    noise = gumbel_rows([(7, 3, position) for position in range(n)], 3, torch.device("cpu"))
    rows = row_statistics(logits, 2, Proposal(temperature=0.5), noise)
    chosen = rows.token.numpy()
    assert abs((chosen == 0).mean() - 0.6923) < 0.02
    assert np.allclose(rows.numbers[:, 0], np.where(chosen == 0, 0.6, 0.4), atol=1e-6)
    # Filtered, the tempered probability is what counts, and the noise has scale 1: the same tokens.
    filtered = row_statistics(logits, 2, Proposal(temperature=0.5, top_p=1.0), noise)
    assert abs((filtered.token.numpy() == 0).mean() - 0.6923) < 0.02
    assert np.allclose(
        filtered.numbers[:, 0], np.where(filtered.token.numpy() == 0, 0.36 / 0.52, 0.16 / 0.52), atol=1e-6
    )


def test_noise_depends_on_seed_step_and_position_alone():
    generator = torch.Generator()
    rows = {key: gumbel_row(*key, 100, generator) for key in [(7, 3, 5), (8, 3, 5), (7, 4, 5), (7, 3, 6)]}
    assert torch.equal(rows[7, 3, 5], gumbel_row(7, 3, 5, 100, torch.Generator()))
    values = [tuple(row.tolist()) for row in rows.values()]
    assert len(set(values)) == 4
    many = gumbel_rows([(1, 0, p) for p in range(100)], 1000, torch.device("cpu"))(0, 100)
    assert abs(many.mean() - 0.5772) < 0.01 and abs(many.var() - math.pi**2 / 6) < 0.03


def test_chunks_change_nothing(monkeypatch):
    torch.manual_seed(0)
    x = torch.randn(130, 500) * 5
    whole = row_statistics(x, 3, Proposal(top_p=0.9, top_k=40))
    monkeypatch.setattr(statistics, "CHUNK", 7)
    parts = row_statistics(x, 3, Proposal(top_p=0.9, top_k=40))
    assert torch.equal(whole.token, parts.token) and torch.equal(whole.numbers, parts.numbers)


def test_the_short_way_is_the_long_way():
    # The common case has a way of its own. A list of suppressed tokens that changes nothing takes the general one.
    torch.manual_seed(1)
    x = torch.randn(400, 12) * 4
    x[:100] = x[:100].round()  # ties
    x[100:200, 5] += 9.0  # the mask is the likeliest
    x[200:300][torch.rand(100, 12) < 0.4] = -math.inf
    x[300, :] = -math.inf
    x[301, 3], x[302, 5], x[303, 0] = math.nan, math.nan, math.inf
    x[304, :] = -math.inf
    x[304, 5] = 1.0  # only the mask
    never = torch.full((400, 1), -math.inf)
    for mask_id in (5, 0, 11):
        for dtype in (torch.float32, torch.bfloat16):
            y = torch.cat([x, never], dim=1).to(dtype)
            a, b = row_statistics(y, mask_id), row_statistics(y, mask_id, Proposal(suppress=(12,)))
            assert torch.equal(a.token, b.token)
            assert torch.allclose(a.numbers, b.numbers, atol=1e-6, equal_nan=True)


def test_guidance_moves_away_from_what_is_said_without_the_prompt():
    torch.manual_seed(0)
    logits, unguided = torch.randn(5, 40), torch.randn(5, 40)
    guided = unguided + 1.5 * (logits - unguided)
    got, want = row_statistics(logits, 3, unguided=unguided, guidance=0.5), row_statistics(guided, 3)
    assert torch.equal(got.token, want.token) and torch.allclose(got.numbers, want.numbers, atol=1e-6)
    assert torch.allclose(softmax_rows(logits, unguided, 0.5), torch.softmax(guided, 1), atol=1e-6)


def test_log_probabilities_keep_what_is_left_beside_certainty():
    x = torch.tensor([[0.0, -30.0, -31.0], [1.0, 2.0, 3.0]])
    got = target_log_probabilities(x, torch.tensor([0, 1])).double().numpy()
    want = [-math.log1p(math.exp(-30) + math.exp(-31)), 2 - np.logaddexp.reduce([1.0, 2.0, 3.0])]
    assert np.allclose(got, want, rtol=1e-6)


def test_impossible_proposals_are_refused():
    for bad, words in [
        (dict(temperature=-1.0), "temperature must be"),
        (dict(temperature=math.nan), "temperature must be"),
        (dict(top_p=0.0), "top_p must be above 0"),
        (dict(top_k=0), "top_k must be a whole number, 1 or more"),
    ]:
        with pytest.raises(Error, match=words):
            Proposal(**bad)
    with pytest.raises(Error, match="suppress must hold token ids from 0 to 3, but 4"):
        describe([[0.0] * 4], 0, Proposal(suppress=(4,)))


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_top_p_drops_what_it_should_at_a_large_vocabulary(top_p):
    # In f32 the sum of 126,464 probabilities passes 1 long before its end, and the tail would be dropped.
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(6, 126_464, generator=generator) * 2
    logits[0, 5] += 25
    got = row_statistics(logits, 126_336, Proposal(top_p=top_p)).numbers.double().numpy()
    for row, (c, u, _, entropy) in zip(logits.double().numpy(), got):
        order = np.argsort(-row, kind="stable")
        p = np.exp(row[order] - row[order[0]])
        p /= p.sum()
        before = np.cumsum(p) - p
        kept = p[(before <= top_p) | (np.arange(len(p)) == 0)] if top_p < 1 else p
        kept = kept / kept.sum()
        assert abs(c - kept[0]) < 1e-6 and abs(u - kept[1:].sum()) <= 1e-4 * kept[1:].sum() + 1e-12
        assert abs(entropy + (kept * np.log(kept)).sum()) < 1e-4


def test_logits_that_require_gradients_have_statistics_without():
    logits = torch.randn(3, 7, requires_grad=True)
    rows = row_statistics(logits * 1.0, 6)
    assert not rows.numbers.requires_grad
    assert torch.equal(rows.numbers, row_statistics(logits.detach(), 6).numbers)


@pytest.mark.parametrize(
    "shape, mask_id, words",
    [
        ((2, 3), -1, "mask_id must be a token id from 0 to 2, but -1 was given"),
        ((2, 3), 7, "mask_id must be a token id from 0 to 2, but 7 was given"),
        ((1, 2, 3), 0, r"logits has shape \(1, 2, 3\), but \[rows, vocab\] was expected; index the rows that are asked"),
    ],
)
def test_statistics_of_what_is_not_there_are_refused(shape, mask_id, words):
    with pytest.raises(Error, match=words):
        row_statistics(torch.zeros(shape), mask_id)
