"""Samplers from text and from bare numbers: the golden selections, what they need, and how wrong arrays are refused."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import cofill

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "fixtures"
CASES = json.loads((FIXTURES / "adas_selector_cases.json").read_text())


def spec_of(case: dict) -> str:
    rule = {"topk": "topk:{:.0f}", "fastdllm": "fast:{}", "fast": "fast:{}", "eb": "eb:{}"}[case["rule"]]
    return rule.format(case["threshold"]) + (f"+ad:{case['alpha']}" if case["alpha"] else "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['name']}-{case['rule']}-{case['threshold']}-{case['alpha']}")
def test_golden_selections(case: dict) -> None:
    picks = cofill.sampler(spec_of(case)).select(
        case["confidence"], entropy=case["entropy"], attention=np.array(case["attention"])
    )
    assert picks.positions.tolist() == case["selected"], "in pick order"
    assert picks.forced == case["forced"]
    np.testing.assert_allclose(picks.utility, case["utility"], rtol=0, atol=1e-7)  # the goldens have nine digits


def test_there_are_92_golden_selections() -> None:
    assert len(CASES) == 92


def test_text_is_normalised_and_read_again() -> None:
    sampler = cofill.sampler("eb:3+ad")
    assert str(sampler) == "eb:3+ad:40"
    assert cofill.sampler(str(sampler)) == sampler and cofill.sampler(sampler) == sampler
    assert hash(cofill.sampler("topk:2")) == hash(cofill.sampler("topk:2"))


def test_needs_are_what_the_sampler_reads() -> None:
    needs = cofill.sampler("eb:3+ad").needs
    assert (needs.attention, needs.distributions, needs.history, needs.probes, needs.scope) == ("last", False, False, False, "candidates")
    assert needs.entropy and not cofill.sampler("topk:2").needs.entropy
    assert cofill.sampler("klass").needs.distributions and cofill.sampler("klass").needs.history
    assert cofill.sampler("punt").needs.probes
    assert cofill.sampler("p2:8").needs.remasks
    assert "attention='last'" in repr(needs)


def test_float64_attention_is_not_rounded() -> None:
    # 1 loses 40 (1 - c_0) A = 40 * .22 * A. It falls behind 2 by 1e-9 at this A, which float32 cannot tell from a tie that 1 would win.
    c = np.array([0.78, 0.73, 0.70])
    a = (0.03 + 1e-9) / (40 * 0.22)
    attention = np.zeros((3, 3))
    attention[1, 0] = a
    assert cofill.sampler("topk:2+ad").select(c, attention=attention).positions.tolist() == [0, 2]
    attention[1, 0] = a - 2e-9 / (40 * 0.22)
    assert cofill.sampler("topk:2+ad").select(c, attention=attention).positions.tolist() == [0, 1]


def test_arrays_of_any_kind_give_the_same_picks() -> None:
    rng = np.random.default_rng(3)
    c, a = rng.random(19), rng.random((19, 19)) / 19
    sampler = cofill.sampler("topk:5+ad")
    expected = sampler.select(c.astype(np.float32).astype(np.float64), attention=a.astype(np.float32).astype(np.float64))
    for confidence in (c.astype(np.float32), c.astype(np.float32).tolist(), np.repeat(c.astype(np.float32), 2)[::2]):
        for attention in (
            a.astype(np.float32),
            np.asfortranarray(a.astype(np.float32)),
            np.asfortranarray(a.astype(np.float32).astype(np.float64)),
            a.astype(np.float32).tolist(),
        ):
            got = sampler.select(confidence, attention=attention)
            assert got.positions.tolist() == expected.positions.tolist()
            np.testing.assert_array_equal(got.utility, expected.utility)


def test_rows_are_queries_and_columns_keys() -> None:
    attention = np.zeros((3, 3))
    attention[1, 0] = 0.5
    assert cofill.sampler("topk:2+ad").select([0.78, 0.73, 0.70], attention=attention).positions.tolist() == [0, 2]
    assert cofill.sampler("topk:2+ad").select([0.78, 0.73, 0.70], attention=attention.T).positions.tolist() == [0, 1]


def test_the_reason_comes_with_the_picks() -> None:
    attention = np.zeros((3, 3))
    attention[1, 0] = 0.5
    deferred = cofill.sampler("topk:2+ad").select([0.78, 0.73, 0.70], attention=attention).deferred
    assert (deferred.position, deferred.by, deferred.instead, deferred.through, deferred.waits) == (1, 0, 2, [], True)
    assert deferred.discount == pytest.approx(40 * 0.5 * 0.22)
    assert cofill.sampler("topk:2").select([0.5, 0.4]).deferred is None


def test_uncertainty_survives_where_confidence_is_1() -> None:
    # c_0 rounds to 1, so that 1 - c_0 is 0 and nothing is discounted; told that it is 1e-3, ADAS defers 1.
    attention = np.zeros((3, 3))
    attention[1, 0] = 1.0
    sampler, c = cofill.sampler("topk:2+ad"), np.array([1.0, 0.73, 0.70])
    assert sampler.select(c, attention=attention).positions.tolist() == [0, 1]
    told = sampler.select(c, uncertainty=[1e-3, 0.27, 0.3], attention=attention)
    assert told.positions.tolist() == [0, 2]


def test_context_and_tokens() -> None:
    picks = cofill.sampler("topk:1").select([0.1, 0.9, 0.5], token=[7, 8, 9], candidates=[0, 2])
    assert (picks.positions.tolist(), picks.token.tolist()) == ([2], [9])


def test_distributions_reach_the_sampler() -> None:
    class Second:
        """The candidate whose second token is likeliest."""

        needs = cofill.Needs(distributions=True)

        def select(self, view: cofill.View) -> list[int]:
            return [int(np.argmax(np.sort(view.distributions, axis=1)[:, -2]))]

    p = np.array([[0.9, 0.1], [0.6, 0.4]], dtype=np.float32)
    assert cofill.sampler(Second).select([0.9, 0.6], distributions=p).positions.tolist() == [1]
    with pytest.raises(cofill.Error, match="distributions"):
        cofill.sampler(Second).select([0.9, 0.6])


WRONG = {
    "unknown sampler": (lambda: cofill.sampler("topkk:2"), r"unknown sampler `topkk:2` \(did you mean `topk:2`\?\)"),
    "no sampler": (lambda: cofill.sampler(3), "a int is no sampler"),
    "two dimensions": (lambda: cofill.sampler("topk:1").select(np.zeros((2, 2))), r"confidence has shape \(2, 2\)"),
    "length": (lambda: cofill.sampler("topk:1").select([0.1, 0.2], entropy=[1.0]), r"entropy has shape \(1,\); give shape \(2,\)"),
    "not square": (
        lambda: cofill.sampler("topk:1+ad").select([0.1, 0.2], attention=np.zeros((2, 3))),
        r"attention has shape \(2, 3\).*give shape \(2, 2\)",
    ),
    "flat attention": (
        lambda: cofill.sampler("topk:1+ad").select([0.1, 0.2], attention=np.zeros(4)),
        r"attention has shape \(4,\).*give shape \(2, 2\)",
    ),
    "no attention": (lambda: cofill.sampler("topk:1+ad").select([0.1, 0.2]), "attention"),
    "nan": (lambda: cofill.sampler("topk:1").select([0.1, np.nan]), "confidence.*NaN"),
    "not a probability": (lambda: cofill.sampler("topk:1").select([0.1, 1.5]), "confidence.*1.5"),
    "nan attention": (lambda: cofill.sampler("topk:1+ad").select([0.1], attention=[[np.nan]]), "attention.*NaN"),
    "texts": (lambda: cofill.sampler("topk:1").select(["a"]), "confidence: a list is no array of numbers"),
    "tokens that are no integers": (lambda: cofill.sampler("topk:1").select([0.1], token=[0.5]), "token has the type float64"),
    "negative": (lambda: cofill.sampler("topk:1").select([0.1], token=[-1]), r"token\[0\] is -1"),
    "nothing": (lambda: cofill.sampler("topk:1").select([]), "candidate"),
    "negative seed": (lambda: cofill.sampler("topk:1").select([0.1], seed=-1), "seed is -1, but must be a whole number, 0 or more and below 2.64"),
    "remembers": (lambda: cofill.sampler("credit").select([0.1], distributions=[[1.0]]), "cofill.Decode"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    call, says = WRONG[name]
    with pytest.raises(cofill.Error, match=says):
        call()


def test_a_wrong_request_is_a_value_error() -> None:
    assert issubclass(cofill.Error, ValueError) and issubclass(cofill.RunError, RuntimeError)
    assert cofill.Error.__module__ == "cofill"


def test_the_registry_lists_everything() -> None:
    listed = {entry["name"]: entry for entry in cofill.samplers()}
    assert len(listed) >= 25 and listed["topk"]["form"] == "topk:K" and listed["topk"]["discountable"]
    assert listed["dawn"]["needs"].attention is not None
