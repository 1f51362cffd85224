"""What the tests share: the golden files, unpacked once."""

from __future__ import annotations

import gzip
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"


@pytest.fixture(scope="session")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder fixtures/goldens with every file unpacked."""
    packed, unpacked = FIXTURES / "goldens", tmp_path_factory.mktemp("goldens")
    for source in packed.rglob("*"):
        if not source.is_file():
            continue
        target = unpacked / source.relative_to(packed)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".gz":
            target.with_suffix("").write_bytes(gzip.decompress(source.read_bytes()))
        else:
            shutil.copyfile(source, target)
    return unpacked


@pytest.fixture(scope="session")
def golden_json(goldens: pathlib.Path) -> Callable[[str], Any]:
    """A golden file of models/ by its name."""
    return lambda name: json.loads((goldens / "models" / f"{name}.json").read_text())
