"""The built book, once for all tests that read it, whichever process they run in."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock
from small import ROOT

from fairfl_book.notebooks import runner
from fairfl_book.site import book


@pytest.fixture(scope="session")
def site() -> Path:
    # Two builders in one folder would read each other's half-written pages.
    state = ROOT / ".fairfl"
    state.mkdir(exist_ok=True)
    with FileLock(state / "tests.lock"):
        return book.build(runner.Project(ROOT)).parent
