"""What a notebook shows: traces as columns and pages, reports of tables, explanations, diagnoses."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest

import cofill

PROMPT = "Gus has 10 books, doubles, wins 1, gets 5, gets 4, drops 3. How many books?"


@pytest.fixture(scope="module")
def engine() -> cofill.Engine:
    return cofill.Engine("tiny-llada")


@pytest.fixture(scope="module")
def trace(engine: cofill.Engine) -> cofill.Trace:
    return engine.generate(PROMPT, sampler="topk:4+ad").trace


def test_columns_tell_the_whole_decode(trace: cofill.Trace) -> None:
    columns = trace.commits()
    assert list(columns) == ["step", "position", "token", "confidence", "entropy", "score", "utility", "piece"]
    assert len({len(column) for column in columns.values()}) == 1 and len(columns["step"]) == (trace.tokens == trace.mask_id).sum()
    canvas = trace.tokens.copy()
    canvas[columns["position"]] = columns["token"]
    assert canvas.tolist() == trace.end.tolist()
    assert (columns["utility"] <= columns["score"]).all(), "a discount takes"


def test_columns_are_frames(trace: cofill.Trace) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(trace.commits())
    assert frame.groupby("step").size().max() == 4 and frame["piece"].map(type).eq(str).all()
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(trace.commits()).height == len(frame)


def test_a_trace_is_written_and_read_again(trace: cofill.Trace, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    trace.write(path)
    again = cofill.Trace.read(path)
    assert cofill.trace_diff(trace, again).equal and not cofill.trace_diff(trace, again)
    assert (again.model, again.sampler, again.nfe, again.pieces) == (trace.model, trace.sampler, trace.nfe, trace.pieces)
    with pytest.raises(cofill.Error, match="force=True"):
        trace.write(path)
    trace.write(path, force=True)
    path.write_text("{}\n")
    with pytest.raises(cofill.Error, match="not a cofill trace"):
        cofill.Trace.read(path)
    with pytest.raises(cofill.Error, match="nowhere"):
        cofill.Trace.read(tmp_path / "nowhere.jsonl")


def test_two_decodes_part_for_a_reason(engine: cofill.Engine, trace: cofill.Trace) -> None:
    plain = engine.generate(PROMPT, sampler="topk:4").trace
    difference = cofill.trace_diff(trace, plain)
    assert difference and not difference.equal and "step" in str(difference)


def test_a_trace_is_a_page_that_needs_nothing_else(trace: cofill.Trace, tmp_path: pathlib.Path) -> None:
    page = trace.html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == page and page.lstrip().lower().startswith("<!doctype html>")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page), "nothing is fetched"
    cell = trace._repr_html_()
    assert cell.startswith("<iframe") and "srcdoc=" in cell and "<script" not in cell, "a cell's page is inside its frame"


def test_hostile_pieces_stay_text(tmp_path: pathlib.Path) -> None:
    evil = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    decode = cofill.Decode([1, 9], mask_id=9, sampler="topk:1", pieces=[evil, "_"], piece=lambda token: evil, model=evil)
    decode.absorb([3], [0.5])
    page = decode.trace.html()
    assert "<script>alert(1)" not in page and "<img src=x" not in page
    assert "<script>alert(1)" not in decode.trace._repr_html_()


def rows() -> list[dict]:
    return [
        {"model": "m", "rule": "topk", "param": k, "task": "chain", "variant": variant, "score": score, "nfe": 40 / k, "length": 40}
        for k, base in [(4, 70.0), (5, 60.0), (8, 40.0)]
        for variant, score in [("base", base), ("adas", base + 5)]
    ]


def test_a_report_of_rows_columns_and_frames_is_the_same() -> None:
    expected = cofill.report(rows(), resamples=100)
    assert repr(expected) == "Report(6 points)" and "| " in expected.markdown
    assert cofill.report((row for row in rows()), resamples=100).json == expected.json
    columns = {name: [row[name] for row in rows()] for name in rows()[0]}
    assert cofill.report(columns, resamples=100).json == expected.json
    pandas = pytest.importorskip("pandas")
    assert cofill.report(pandas.DataFrame(rows()), resamples=100).json == expected.json
    nullable = pandas.DataFrame(rows()).assign(n=pandas.array([pandas.NA] * 6, dtype="Int64"))
    assert cofill.report(nullable, resamples=100).json == expected.json
    polars = pytest.importorskip("polars")
    assert cofill.report(polars.DataFrame(rows()), resamples=100).json == expected.json


def test_a_report_finds_the_gain_that_is_there() -> None:
    report = json.loads(cofill.report(rows(), resamples=100).json)
    gains = [gain["gain"] for comparison in report["comparisons"] for gain in comparison["gains"]]
    assert gains == [pytest.approx(5)] * 3


def test_a_report_of_files(tmp_path: pathlib.Path) -> None:
    for sampler in ("topk:4", "topk:8", "topk:4+ad", "topk:8+ad"):
        cofill.evaluate("chain", "tiny-llada", sampler, limit=6, out=tmp_path / f"{sampler}.jsonl")
    whole = cofill.report(tmp_path, resamples=100)
    assert repr(whole) == "Report(4 points)"
    some = cofill.report([tmp_path / "topk:4.jsonl", str(tmp_path / "topk:8.jsonl")], resamples=100)
    assert repr(some) == "Report(2 points)"
    cell = whole._repr_html_()
    assert cell.startswith("<iframe") and "topk" in whole.csv


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([], "no column `model`"),
        ({"model": [], "rule": [], "param": [], "task": [], "variant": [], "score": [], "nfe": []}, "row"),
        ([{"model": "m"}], "rule|column"),
        ([{**rows()[0], "score": 815}], "score is `815`"),
        ([3], "neither paths nor rows"),
        ({**{name: [value] for name, value in rows()[0].items()}, "nfe": [1, 2]}, "the column `model` has 1 values, but another has 2"),
        ("/nowhere/at/all", "nowhere"),
    ],
)
def test_what_is_no_report(points: object, says: str) -> None:
    with pytest.raises(cofill.Error, match=says):
        cofill.report(points)


def test_an_explanation_tells_both_endings() -> None:
    story = cofill.explain(cofill.Engine("toy"), sampler="topk:2+ad", length=6)
    assert story.endings == ("Alan Turing visited San Diego again", "Alan Kelly visited San City again")
    assert "deferred 1 `Kelly`" in story.text and story._repr_html_().startswith("<iframe")
    assert json.loads(story.json)["steps"]
    with pytest.raises(cofill.Error, match="max_nfe"):
        cofill.explain(cofill.Engine("toy"), sampler="topk:2+ad", length=6, max_nfe=1)


def test_the_intervention_is_what_the_command_measures(engine: cofill.Engine, tmp_path: pathlib.Path) -> None:
    from test_engine import command

    prompts = tmp_path / "prompts.jsonl"
    texts = [PROMPT + "\n", "Ann has 3 pens, gets 4. How many pens?\n"]
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    said = command("diagnose", "intervention", "--prompts", str(prompts), "--length", "32", "--json", "--limit", "2")
    assert said.returncode == 0, said.stderr
    theirs = json.loads(said.stdout)["settings"][0]
    ours = json.loads(cofill.diagnose.intervention(engine, texts, length=32).json)["settings"][0]
    for name in ("states", "pairs", "attention", "gated", "state_confidence", "state_score", "mean_kl", "gain"):
        assert ours[name] == theirs[name], name


def test_an_object_that_answers_queries_can_be_diagnosed(engine: cofill.Engine) -> None:
    class Model:
        mask_id, vocab = engine.mask_id, engine.vocab_size

        def denoise(self, queries: list[cofill.Query]) -> list[dict]:
            fields = ("token", "confidence", "uncertainty", "margin", "entropy", "attention", "distributions")
            probes = [engine.probe(q.tokens, q.rows, distributions=q.distributions) for q in queries]
            return [{name: getattr(probe, name) for name in fields} for probe in probes]

    from cofill._cofill import measure

    start = engine.generate(PROMPT, max_nfe=1).start
    direct, through = measure(engine, [start]), measure(Model(), [start])
    assert direct.json == through.json and "<svg" in direct.html and direct._repr_html_().startswith("<iframe")
    columns = direct.pairs()
    assert len(columns["kl"]) == sum(state["pairs"] for state in json.loads(direct.json)["settings"])
    assert (columns["kl"] >= 0).all() and np.isfinite(columns["attention"]).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda e: cofill.diagnose.intervention(e, PROMPT), "inputs is one text"),
        (lambda e: cofill.diagnose.intervention(e, [[1, 2, 3]]), "has no mask"),
        (lambda e: cofill.diagnose.intervention(e, []), "canvases is empty"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], steps=[999]), "no step was probed"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], steps=[-1]), r"steps\[0\] is -1"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], length=-3), "length must be a whole number, 1 or more, but -3"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], k=1), "k is 1"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], scope="some"), "scope is `some`"),
        (lambda e: cofill.diagnose.intervention(e, [PROMPT], shift=True), "shift: for torch models"),
    ],
)
def test_what_cannot_be_diagnosed(engine: cofill.Engine, call, says: str) -> None:
    with pytest.raises(cofill.Error, match=says):
        call(engine)


def test_a_diagnosis_does_not_depend_on_what_ran_before(engine: cofill.Engine) -> None:
    start = engine.generate(PROMPT, max_nfe=1).start
    before = cofill.diagnose.intervention(engine, [start], resamples=50).json
    engine.score(start, [20], [1], cfg=1.0)
    assert cofill.diagnose.intervention(engine, [start], resamples=50).json == before


def test_deferral_reads_the_same_states(engine: cofill.Engine) -> None:
    diagnosis = cofill.diagnose.deferral(engine, [PROMPT + "\n"], length=38)
    assert "deferr" in diagnosis.markdown.lower() and "No figure: it would show 2 values" in diagnosis.html and repr(diagnosis).startswith("Diagnosis(5 states")
