"""What the tests of the ledger share: an empty project to put results into, and the stored results judged once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from little import Save

from fairfl_book import cards, results
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.judge import judge_all


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """An empty project; call it to put a result such as "fairfed/table1" there."""
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))

    def put(name: str, frame: pd.DataFrame) -> None:
        results.save(name, frame, parameters={}, seconds=1, command="test", datasets=())

    return put


@pytest.fixture(scope="session")
def stored() -> Mapping[str, Mapping[str, Claim]]:
    """Every claim of every paper by the results that are stored, without what is kept of it."""
    return {paper: judge_all(paper) for paper in cards.names()}
