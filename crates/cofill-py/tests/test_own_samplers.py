"""Samplers written in Python: decoded, traced, evaluated and swept like ours."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cofill

PROMPT = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?"


class Top:
    """Top-k, written again."""

    def __init__(self, k: float = 2) -> None:
        self.k = int(k)

    def select(self, view: cofill.View) -> np.ndarray:
        return np.argsort(-view.confidence, kind="stable")[: self.k]


class Adas(Top):
    """The paper's Algorithm 1, written again from its text."""

    needs = cofill.Needs(attention="last")
    version = 7

    def select(self, view: cofill.View) -> list[int]:
        utility, chosen = view.confidence.copy(), []
        while len(chosen) < min(self.k, len(view)):
            best = int(np.argmax(np.where(np.isin(np.arange(len(view)), chosen), -np.inf, utility)))
            chosen.append(best)
            utility -= 40 * view.attention[:, best] * view.uncertainty[best]
        return chosen


@pytest.fixture(scope="module")
def engine() -> cofill.Engine:
    return cofill.Engine("tiny-llada")


@pytest.mark.parametrize(("own", "ours"), [(Top, "topk:2"), (Adas, "topk:2+ad")])
def test_the_same_rule_in_python_commits_the_same(engine: cofill.Engine, own: type, ours: str) -> None:
    mine, theirs = engine.generate(PROMPT, sampler=own), engine.generate(PROMPT, sampler=ours)
    assert [step.positions.tolist() for step in mine.steps] == [step.positions.tolist() for step in theirs.steps]
    assert mine.text == theirs.text and mine.trace.sampler == f"own-{own.__name__.lower()}"
    assert cofill.trace_diff(mine.trace, theirs.trace).equal


def test_an_object_is_copied_for_every_decode(engine: cofill.Engine) -> None:
    class Counting(Top):
        calls = 0

        def select(self, view: cofill.View) -> np.ndarray:
            self.calls += 1
            assert self.calls == view.step + 1, "what it remembers is of this decode alone"
            return super().select(view)

    both = engine.generate_batch([PROMPT, PROMPT], sampler=Counting(4))
    assert both[0].text == both[1].text


def test_a_registered_sampler_has_a_name_everywhere(engine: cofill.Engine, tmp_path) -> None:
    cofill.register("half", lambda share: Share(share), params=[("SHARE", 0.01, 1, 0.5)], version=1, about="the surest share")
    assert str(cofill.sampler("half")) == "half:0.5"
    assert engine.generate(PROMPT, sampler="half:0.25").trace.sampler == "half:0.25"
    assert any(entry["name"] == "half" for entry in cofill.samplers())
    evaluation = cofill.evaluate("chain", "tiny-llada", "half:0.1", limit=4, out=tmp_path / "half.jsonl")
    assert evaluation.n == 4 and evaluation.sampler == "half:0.1" and evaluation.records()["nfe"].shape == (4,)
    recipe = 'about = "own"\n[[sweep]]\nmodels = ["tiny-llada"]\ntasks = ["chain"]\nsamplers = ["half:{0.1,0.5}", "topk:2"]\n'
    done = cofill.sweep(recipe, tmp_path / "sweep", limit=4)
    assert done == {"points": 3, "units": 3, "examples": 12}
    assert cofill.sweep(recipe, tmp_path / "sweep", limit=4)["units"] == 0, "nothing is done twice"
    cofill.register("half", lambda share: Share(share), params=[("SHARE", 0.01, 1, 0.5)], version=2)
    assert cofill.sweep(recipe, tmp_path / "sweep", limit=4)["units"] == 2, "another version is another sampler"


class Share:
    def __init__(self, share: float) -> None:
        self.share = share

    def select(self, view: cofill.View) -> np.ndarray:
        return np.argsort(-view.confidence)[: max(1, int(self.share * len(view)))]


def test_a_factory_that_cannot_make_one_is_not_registered() -> None:
    with pytest.raises(ZeroDivisionError):
        cofill.register("broken", lambda: 1 / 0)
    assert all(entry["name"] != "broken" for entry in cofill.samplers())


def test_looking_ahead_and_waiting() -> None:
    seen = []

    class Ahead:
        needs = cofill.Needs(probes=True)

        def begin(self, job: cofill.Job) -> int:
            return 3 * job.masks

        def select(self, view: cofill.View) -> object:
            seen.append((view.step, view.revealed, view.tokens.tolist()))
            if view.step == 0:
                return cofill.Wait()
            if not view.revealed:
                return cofill.Reveal([(0, 4)])
            return [0]

    decode = cofill.Decode([9, 9], mask_id=9, sampler=Ahead())
    steps = []
    while (query := decode.query()) is not None:
        n = len(query.rows)
        steps.append(decode.absorb(np.zeros(n, dtype=int), np.full(n, 0.5)))
    # A wait, then twice: a look ahead (no step yet), and a commit.
    assert [None if step is None else step.positions.tolist() for step in steps] == [[], None, [0], None, [1]]
    assert seen[2] == (1, [(0, 4)], [4, 9]) and decode.nfe == 5


def test_an_object_may_hold_what_cannot_change(engine: cofill.Engine) -> None:
    class Holding(Top):
        def __init__(self) -> None:
            super().__init__(2)
            self.needs, self.inner, self.tokenizer = cofill.Needs(attention="last"), cofill.sampler("topk:2"), engine.tokenizer

        def select(self, view: cofill.View) -> np.ndarray:
            return self.inner.select(view.confidence).positions

    assert engine.generate(PROMPT, sampler=Holding()).text == engine.generate(PROMPT, sampler="topk:2").text


def test_needs_and_samplers_travel() -> None:
    needs = cofill.Needs(attention="last", scope="masked", entropy=True)
    assert pickle.loads(pickle.dumps(needs)) == needs == copy.deepcopy(needs)
    sampler = cofill.sampler("eb:3+ad")
    assert pickle.loads(pickle.dumps(sampler)) == sampler and copy.deepcopy(sampler) is sampler
    with pytest.raises(cofill.Error, match="cofill.register"):
        pickle.dumps(cofill.sampler(Top))


def test_a_sampler_cannot_use_the_decode_that_asks_it() -> None:
    class Curious:
        decode: cofill.Decode

        def select(self, view: cofill.View) -> list[int]:
            return [Curious.decode.nfe]

    Curious.decode = cofill.Decode([9, 9], mask_id=9, sampler=Curious)
    with pytest.raises(cofill.Error, match="cannot use the decode that asks it"):
        Curious.decode.absorb([0, 0], [0.5, 0.5])
    assert Curious.decode.nfe == 0


def test_nothing_chosen_commits_the_surest_and_says_so(engine: cofill.Engine) -> None:
    class Nobody:
        def select(self, view: cofill.View) -> list[int]:
            return []

    steps = engine.generate(PROMPT, sampler=Nobody, max_nfe=2).steps
    assert all(step.forced and len(step.positions) == 1 for step in steps)


def test_what_a_sampler_raises_comes_out(engine: cofill.Engine) -> None:
    class Broken:
        def select(self, view: cofill.View) -> list[int]:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engine.generate(PROMPT, sampler=Broken)
    with pytest.raises(KeyError, match="mine"):
        cofill.evaluate("chain", "tiny-llada", Broken, limit=2)
    assert engine.generate(PROMPT).judged == "chain: right", "the engine goes on"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([99], "returned 99, but the view has"),
        ([0, 0], "returned 0 twice"),
        (3, "returned a int"),
        (["a"], "must be whole numbers"),
        ([0.5], "whole numbers"),
        ([-1], "is -1"),
    ],
)
def test_answers_that_mean_nothing(answer: object, says: str) -> None:
    class Wrong:
        def select(self, view: cofill.View) -> object:
            return answer

    decode = cofill.Decode([9, 9], mask_id=9, sampler=Wrong)
    with pytest.raises(cofill.Error, match=says):
        decode.absorb([0, 0], [0.5, 0.5])


def test_a_sampler_cannot_use_the_engine_that_asks_it(engine: cofill.Engine) -> None:
    class Greedy:
        def select(self, view: cofill.View) -> list[int]:
            return [engine.mask_id]

    class Nested:
        inner = cofill.sampler(Top)

        def select(self, view: cofill.View) -> list[int]:
            self.inner.select(view.confidence)
            return [engine.mask_id]

    class Begun(Top):
        def __init__(self) -> None:
            super().__init__(engine.mask_id)

    for sampler in (Greedy, Nested, Begun):
        with pytest.raises(cofill.Error, match="cannot use the engine that asks it"):
            engine.generate(PROMPT, sampler=sampler)


def test_a_sampler_may_ask_another_engine(engine: cofill.Engine) -> None:
    draft = cofill.Engine("tiny-dream")

    class Drafted(Top):
        def select(self, view: cofill.View) -> np.ndarray:
            assert draft.probe(np.where(view.tokens == view.mask_id, draft.mask_id, view.tokens)).rows.tolist() == view.positions.tolist()
            return super().select(view)

    assert engine.generate(PROMPT, sampler=Drafted, max_nfe=2).finish == "capped"


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("topk", {}, "the name is taken"),
        ("Half", {}, "small letters"),
        ("x", {"params": [("A", 0)]}, "a parameter is a tuple"),
        ("x", {"params": [("A", 5, 1)]}, "must not be below the first"),
    ],
)
def test_names_that_cannot_be(name: str, options: dict, says: str) -> None:
    with pytest.raises(cofill.Error, match=says):
        cofill.register(name, Top, **options)
