"""Builds the Python package from the root of the repository: `pip install .`, `pip install git+https://...`.

The package is crates/cofill-py, and its pyproject.toml says everything about it; this only goes there and lets maturin build. Without it, people
would have to know the folder.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import maturin

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "crates" / "cofill-py"


def _there(name: str) -> Any:
    """A hook of maturin, called in the package's folder."""

    def hook(*args: Any, **keywords: Any) -> Any:
        here = [os.path.abspath(arg) if isinstance(arg, str) else arg for arg in args]
        before = os.getcwd()
        os.chdir(PACKAGE)
        try:
            return getattr(maturin, name)(*here, **keywords)
        finally:
            os.chdir(before)

    return hook


build_wheel = _there("build_wheel")
build_sdist = _there("build_sdist")
build_editable = _there("build_editable")
prepare_metadata_for_build_wheel = _there("prepare_metadata_for_build_wheel")
prepare_metadata_for_build_editable = _there("prepare_metadata_for_build_editable")
get_requires_for_build_wheel = _there("get_requires_for_build_wheel")
get_requires_for_build_sdist = _there("get_requires_for_build_sdist")
get_requires_for_build_editable = _there("get_requires_for_build_editable")
