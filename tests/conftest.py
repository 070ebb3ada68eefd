"""What tests of several rooms share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import chromium
import nbformat
import pytest
from hypothesis import HealthCheck, settings

# In CI the same examples are tried each time, so that a change is judged by what it changed; elsewhere new ones. On a busy
# machine an example, and to think of one, may take long.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, **PATIENT)
settings.register_profile("here", **PATIENT)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[Mapping[str, nbformat.NotebookNode]], object]:
    """Makes a project of small notebooks in a folder of this test."""
    from small import small_project

    return lambda notebooks: small_project(tmp_path / "project", notebooks)


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """An empty project; call it to put a result such as "fairfed/table1" there."""
    from fairfl_book import results

    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    return lambda name, frame: results.save(name, frame, parameters={}, seconds=1, command="test", datasets=())


@pytest.fixture(scope="session")
def stored() -> Mapping[str, Mapping[str, Any]]:
    """Every claim of every paper by the results that are stored, without what is kept of it."""
    from fairfl_book import cards
    from fairfl_book.ledger.judge import judge_all

    return {paper: judge_all(paper) for paper in cards.names()}


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    """A Chromium for all tests of a process that look at pages."""
    program = chromium.found()
    if program is None:
        pytest.skip(chromium.MISSING)
    with chromium.Browser(program) as one:
        yield one
