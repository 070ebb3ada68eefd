"""Two editions of the ledger: which verdicts changed, and why."""

from pathlib import Path

import pytest

from fairfl_book.ledger import editions
from fairfl_book.ledger.numbers import Spread
from fairfl_lite.errors import FairFLError

HEAD = "id,rule,printed,margin,measured,low,high,seeds,verdict\n"
OLD = [f"{id},level,0.5,0.01,0.5,0.4,0.6,10,agrees" for id in ("a", "b", "c", "d", "e", "gone")]
NEW = ["a,level,0.5,0.01,0.5000001,0.4,0.6,10,agrees", "b,level,0.7,0.01,0.5,0.4,0.6,10,differs",
       "c,level,0.5,0.01,0.6,0.55,0.65,20,differs", "d,level,0.5,0.001,0.5,0.4,0.6,10,cannot tell",
       "e,level,0.5,0.01,0.5,0.4,0.6,10,cannot tell", "new,level,0.5,0.01,0.5,0.4,0.6,10,agrees"]  # fmt: skip


def write(path: Path, lines: list[str], without: int | None = None) -> str:
    rows = [line.split(",") for line in (HEAD + "\n".join(lines)).splitlines()]
    path.write_text("\n".join(",".join(cell for i, cell in enumerate(row) if i != without) for row in rows) + "\n")
    return str(path)


def test_each_change_has_its_cause(tmp_path: Path) -> None:
    table = editions.changes(write(tmp_path / "old.csv", OLD), write(tmp_path / "new.csv", NEW))
    assert table["cause"].to_dict() == {
        "a": "", "b": "transcription", "c": "result", "d": "rule", "e": "rule", "gone": "gone", "new": "new",
    }  # fmt: skip
    crossed = editions.crossed(table)
    assert crossed.loc["agrees"].to_dict() == {"agrees": 1, "cannot tell": 2, "differs": 2}


def test_an_edition_without_margins_does_not_blame_the_rule(tmp_path: Path) -> None:
    table = editions.changes(write(tmp_path / "old.csv", OLD, without=3), write(tmp_path / "new.csv", NEW))
    assert table["cause"].to_dict() | {"d": ""} == {
        "a": "", "b": "transcription", "c": "result", "d": "", "e": "rule", "gone": "gone", "new": "new",
    }  # fmt: skip


def test_what_is_no_edition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FairFLError, match="There is no edition 'frist'"):
        editions.read("frist")
    with pytest.raises(FairFLError, match="lacks verdict"):
        editions.read(write(tmp_path / "short.csv", OLD, without=8))
    assert len(editions.read("first")) == 2131


def test_power_far_out_is_certain() -> None:
    for n in (3, 10, 40, 200, 1000):
        for shift in (5, 20, 100, 1e6):
            assert 0.4 < Spread(1.0, n, 1, 0.0).power(shift / n**0.5) <= 1
    assert Spread(1e-6, 40, 10, 1e-6).power(1) == 1
