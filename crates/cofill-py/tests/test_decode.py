"""The decode loop that a caller drives, and samplers written in Python."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import cofill

MASK = 99


def answers(query: cofill.Query) -> dict:
    """A model in closed form: the position decides everything."""
    rows = query.rows
    confidence = 0.9 - 0.01 * rows
    return {
        "token": rows % 7,
        "confidence": confidence,
        "uncertainty": 1 - confidence,
        "margin": confidence / 2,
        "entropy": 1 - confidence,
        "attention": np.full((len(rows), len(rows)), 1e-3),
        "distributions": np.full((len(rows), 8), 0.125, dtype=np.float32),
    }


def run(decode: cofill.Decode, **replaced: object) -> list[list[int]]:
    order = []
    while (query := decode.query()) is not None:
        step = decode.absorb(**{**answers(query), **replaced})
        if step is not None:
            order.append(step.positions.tolist())
    return order


def test_a_decode_fills_the_canvas_and_counts_forwards() -> None:
    decode = cofill.Decode([5, MASK, MASK, 6, MASK], mask_id=MASK, sampler="topk:2")
    assert (decode.n_masked, decode.finish, decode.nfe, decode.sampler) == (3, None, 0, "topk:2")
    assert run(decode) == [[1, 2], [4]]
    assert (decode.tokens.tolist(), decode.nfe, decode.finish) == ([5, 1, 2, 6, 4], 2, "complete")
    assert decode.query() is None
    with pytest.raises(cofill.Error):
        decode.absorb([0], [0.5])


def test_a_query_says_what_to_ask() -> None:
    decode = cofill.Decode([5, MASK, MASK, MASK], mask_id=MASK, sampler="dawn", block=2)
    query = decode.query()
    assert query.tokens.dtype == np.uint32 and query.rows.dtype == np.int64
    assert (query.tokens.tolist(), query.free.tolist(), query.step, query.probing) == ([5, MASK, MASK, MASK], [1, 2, 3], 0, False)
    assert query.attention == "last 4" and not query.companion
    assert decode.needs == cofill.sampler("dawn").needs


def test_blocks_go_from_left_to_right() -> None:
    decode = cofill.Decode([MASK] * 6, mask_id=MASK, sampler="topk:4", block=3)
    assert run(decode) == [[0, 1, 2], [3, 4, 5]]


def test_a_cap_ends_a_decode_with_masks_left() -> None:
    decode = cofill.Decode([MASK] * 6, mask_id=MASK, sampler="topk:2", max_nfe=2)
    run(decode)
    assert (decode.finish, decode.n_masked, decode.nfe) == ("capped", 2, 2)


def test_a_sampler_that_looks_ahead_is_shown_copies() -> None:
    decode = cofill.Decode([MASK] * 4, mask_id=MASK, sampler="punt")
    probed = 0
    while (query := decode.query()) is not None:
        probed += query.probing
        assert decode.n_masked > 0 and (query.tokens == MASK).sum() <= decode.n_masked
        decode.absorb(**answers(query))
    assert probed > 0 and decode.nfe == sum(step.forwards for step in decode.steps)


def test_remasking_is_told() -> None:
    decode = cofill.Decode([MASK] * 8, mask_id=MASK, sampler="p2:6")
    remasked = 0
    calls = 0
    while (query := decode.query()) is not None:
        answer = answers(query)
        calls += 1
        # What was sure becomes unsure, so that it is taken back.
        answer["confidence"] = np.where((query.rows + calls) % 2 == 0, 0.9, 0.1)
        answer["uncertainty"] = 1 - answer["confidence"]
        step = decode.absorb(**answer)
        remasked += len(step.remasked)
        assert all(decode.tokens[position] == MASK for position in step.remasked)
    assert remasked > 0 and decode.finish == "complete"


def test_the_trace_is_the_decode() -> None:
    decode = cofill.Decode([5, MASK, MASK], mask_id=MASK, sampler="topk:1", model="mine", seed=4, pieces=["a", "_", "_"], piece=lambda t: f"<{t}>")
    assert decode.trace.end is None
    run(decode)
    trace = decode.trace
    assert (trace.model, trace.sampler, trace.seed, trace.pieces) == ("mine", "topk:1", 4, ["a", "_", "_"])
    columns = trace.commits()
    assert columns["position"].tolist() == [1, 2] and columns["piece"] == ["<1>", "<2>"]
    assert trace.end.tolist() == decode.tokens.tolist() and trace.nfe == decode.nfe


def test_a_text_that_cannot_be_had_loses_no_step() -> None:
    def piece(token: int) -> str:
        assert decode.n_masked == 2, "it may look at the decode"
        raise LookupError(token)

    decode = cofill.Decode([MASK] * 3, mask_id=MASK, sampler="topk:1", piece=piece)
    with pytest.raises(LookupError):
        decode.absorb(**answers(decode.query()))
    assert (decode.nfe, decode.n_masked, len(decode.steps)) == (1, 2, 1), "the trace has what the canvas has"


def test_noise_is_a_function_of_seed_step_and_position() -> None:
    def noise(seed: int) -> np.ndarray:
        return cofill.Decode([MASK] * 3, mask_id=MASK, sampler="topk:1", seed=seed, temperature=1.0).gumbel(50)

    assert noise(1).shape == (3, 50)
    np.testing.assert_array_equal(noise(1), noise(1))
    assert (noise(1) != noise(2)).all() and (noise(1)[0] != noise(1)[1]).all()
    # The mean of a standard Gumbel variable is Euler's constant; 150 draws have a standard error of 1.28 / sqrt(150) = 0.1.
    assert abs(noise(3).mean() - 0.5772) < 0.4


WRONG = {
    "confidence": ({"confidence": [0.5]}, r"confidence has shape \(1,\); give shape \(4,\), one per asked row"),
    "token": ({"token": [1, 2]}, r"token has shape \(2,\); give shape \(4,\)"),
    "mask": ({"token": [MASK] * 4}, "mask"),
    "attention": ({"attention": np.zeros((3, 4))}, r"attention has shape \(3, 4\).*give shape \(4, 4\)"),
    "missing attention": ({"attention": None}, "reads attention, and none was given"),
    "missing entropy": ({"entropy": None}, "reads entropy, and none was given"),
    "nan": ({"entropy": [np.nan] * 4}, "entropy.*NaN"),
    "uncertainty that is not 1 - c": ({"uncertainty": [0.0] * 4}, "uncertainty"),
    "distributions": ({"distributions": np.zeros((2, 8), np.float32)}, r"distributions has shape \(2, 8\).*\(4, 8\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_refused_and_changes_nothing(name: str) -> None:
    replaced, says = WRONG[name]
    decode = cofill.Decode([MASK] * 4, mask_id=MASK, sampler="eb:0.1+ad")
    with pytest.raises(cofill.Error, match=says):
        decode.absorb(**{**answers(decode.query()), **replaced})
    assert (decode.n_masked, decode.nfe) == (4, 0)
    run(decode)
    assert decode.finish == "complete"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tokens": [[1, 2]]}, "tokens has shape"),
        ({"sampler": "nope"}, "unknown sampler"),
        ({"block": 0}, "block"),
        ({"block": -1}, "block is -1, but must be a whole number"),
        ({"mask_id": -1}, "mask_id is -1, but must be a whole number, 0 or more and below 2.32"),
        ({"suppress": [-1]}, r"suppress\[0\] is -1"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 2.0}, "top_p"),
        ({"pieces": ["a"]}, "pieces has 1 texts"),
    ],
)
def test_settings_that_no_decode_can_have(arguments: dict, says: str) -> None:
    with pytest.raises(cofill.Error, match=says):
        cofill.Decode(**{"tokens": [MASK, MASK], "mask_id": MASK, "sampler": "topk:1", **arguments})


def test_threads_may_look_at_a_decode_that_computes() -> None:
    class Slow:
        def select(self, view: cofill.View) -> list[int]:
            seen.append(decode.needs is not None if threading.current_thread() is not main else True)
            return [0]

    main, seen, stop = threading.current_thread(), [], threading.Event()
    decode = cofill.Decode([MASK] * 60, mask_id=MASK, sampler=Slow)

    def look() -> None:
        while not stop.is_set():
            assert decode.nfe <= 60

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    run(decode)
    stop.set()
    thread.join(timeout=30)
    assert not thread.is_alive() and len(seen) == 60
