"""The example notebook does what its text promises. Needs nbclient, ipykernel and pandas, and no torch."""

from __future__ import annotations

import os
import pathlib
import re
import time
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

import cofill  # noqa: E402

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "examples" / "notebook" / "cofill.ipynb"
SECONDS = 120
"""The most that it may take, which is twice what its first cell says; on two cores it takes 10 to 30."""


def test_it_is_kept_without_outputs() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None), "nbconvert --clear-output --inplace"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with their outputs, from a kernel that finds this package and in which torch cannot be imported."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "torch.py").write_text("raise ImportError('this notebook needs no torch')\n")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    path = [str(folder), str(pathlib.Path(cofill.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    begun = time.monotonic()
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=os.environ | {"PYTHONPATH": os.pathsep.join(path)})  # an error in a cell raises here
    assert time.monotonic() - begun < SECONDS
    return notebook.cells


def shown(cells: list[Any], source: str) -> str:
    """All that the one cell with this in its source shows: HTML where there is any, else text."""
    (cell,) = [cell for cell in cells if cell.cell_type == "code" and source in cell.source]
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts.append(output.get("text", "") or data.get("text/html") or data.get("text/plain", ""))
    return "".join(texts)


def table(html: str) -> list[list[str]]:
    """The rows of a DataFrame's HTML."""
    rows = re.findall(r"<tr.*?</tr>", html, flags=re.DOTALL)
    return [re.findall(r"<td>(.*?)</td>", row) for row in rows if "<td>" in row]


def test_the_question_is_answered(cells: list[Any]) -> None:
    assert "#### 27\n\nchain: right | 19 forwards" in shown(cells, "engine.generate(question")


@pytest.mark.parametrize("source", ["answer.trace", "cofill.explain", "cofill.report", "cofill.diagnose.intervention"])
def test_pages_are_frames_that_hold_everything(cells: list[Any], source: str) -> None:
    page = shown(cells, source)
    assert page.startswith("<iframe") and "srcdoc=" in page and page.rstrip().endswith("</iframe>")
    assert not re.search(r"(src|href)\s*=\s*(&quot;|\"|')?(https?:)?//", page), "nothing is fetched"


def test_two_samplers_part_and_the_reason_is_told(cells: list[Any]) -> None:
    both = shown(cells, "surest = ")
    assert "topk:4, 4 forwards: predicates: wrong" in both and "topk:4+ad, 4 forwards: predicates: right" in both
    assert "why: B deferred position 13" in shown(cells, "trace_diff")


def test_commits_are_a_table_with_the_dearest_first(cells: list[Any]) -> None:
    discounts = [float(row[-1]) for row in table(shown(cells, 'frame["discount"]'))]
    assert len(discounts) == 5 and discounts == sorted(discounts, reverse=True) and discounts[0] > 1


def test_scores_are_those_that_the_text_speaks_of(cells: list[Any]) -> None:
    spread, topk, adas = range(3)
    rows = [[float(value) for value in row] for row in table(shown(cells, "class Spread"))]
    (_, chain), (_, predicates) = rows[:2], rows[2:]  # two and four a step
    assert predicates[spread] > predicates[adas] > predicates[topk]
    assert chain[spread] < chain[adas] < chain[topk]


def test_attention_tells_who_moves(cells: list[Any]) -> None:
    least, less, more, most = (float(row[0]) for row in table(shown(cells, "qcut")))
    assert max(least, less, more) < 0.1 < 0.5 < most
