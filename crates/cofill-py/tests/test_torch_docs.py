"""Examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

pytest.importorskip("torch")

MODULES = [
    "cofill.adapters",
    "cofill.compat",
    "cofill.compat.dream",
    "cofill.compat.llada",
    "cofill.huggingface",
    "cofill.torch.canvases",
    "cofill.torch.capture",
    "cofill.torch.denoiser",
    "cofill.torch.forward",
    "cofill.torch.generate",
    "cofill.torch.statistics",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    # `sys.modules` and not the attribute: `cofill.torch.generate` is the function.
    importlib.import_module(name)
    import sys

    failed, _ = doctest.testmod(sys.modules[name])
    assert failed == 0
