"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import pytest


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[Mapping[str, nbformat.NotebookNode]], object]:
    """Makes a project of small notebooks in a folder of this test."""
    from small import small_project

    return lambda notebooks: small_project(tmp_path / "project", notebooks)
