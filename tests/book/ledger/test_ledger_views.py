"""The ledger as tables: the paper's layout, every cell with its verdict, lists of claims, and how many there are of each."""

from collections.abc import Mapping

import pandas as pd
import pytest
from little import Save, exact, runs

from fairfl_book import cards, ledger
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.rules import KINDS, SYMBOLS

FAIRFED = cards.load("fairfed")
GRIDS = [f"{paper}.{grid}" for paper in cards.names() for grid in cards.load(paper).grids]


def as_printed(table: str, **shifts: float) -> pd.DataFrame:
    """Runs like the cells of a table of FairFed, moved for Local at the levels of α that are named."""
    cells = [FAIRFED.entries[i] for line in FAIRFED.grids[table].ids for i in line]
    moved = {e.id: shifts.get(f"alpha{e.keys['alpha'].replace('.', '_')}", 0.0) * (e.keys["method"] == "local") for e in cells}
    series = ((e.spec["select"], exact(float(cards.number(e.printed)) + moved[e.id], 0.001, 6)) for e in cells)
    return runs(*series).assign(selection="paper")


def test_a_table_shows_printed_ours_and_verdict(save: Save) -> None:
    save("fairfed/table1", as_printed("t1", alpha0_1=-0.3, alpha0_5=0.01, alpha10=0.1))
    view = ledger.table("fairfed.t1")
    page, lines = view._repr_html_(), repr(view).splitlines()
    assert page.count("<td ") == 120 and page == ledger.table("fairfed.t1")._repr_html_()
    for verdict in ("agrees", "differs", "cannot tell"):
        assert f"{SYMBOLS[verdict]} {verdict}" in page
    assert "COMPAS" in page and "overflow-x:auto" in page
    baseline, local = (next(line for line in lines if line.startswith(row)) for row in ("EOD FedAvg", "Acc. Local"))
    assert "-0.184 -0.184 ✓" in baseline
    assert "0.831 0.531 ✗" in local and "0.830 0.840 ?" in local and "0.827 0.927 ✗" in local
    counts = {
        v: sum(SYMBOLS[v] in cell for line in lines[2:-1] for cell in line.split()) for v in ("agrees", "differs", "cannot tell")
    }
    assert lines[-1] == ", ".join(f"{SYMBOLS[v]} {v} {n}" for v, n in counts.items())
    assert sum(counts.values()) == 120


@pytest.mark.parametrize("name", GRIDS)
def test_every_table_has_all_its_cells(save: Save, name: str) -> None:
    paper, _, grid = name.partition(".")
    layout = cards.load(paper).grids[grid]
    page = ledger.table(name)._repr_html_()
    assert page.count("<td ") == sum(map(len, layout.ids))
    assert page.count("<tr>") == len(layout.rows) + len(layout.column_keys)
    for id in (layout.ids[0][0], layout.ids[-1][-1]):
        assert ledger.claim(id).verdict in page and id in page


def test_lists_of_claims(save: Save) -> None:
    listing = ledger.listing("fairfed.s9")
    assert "fairfed.s9.acc-falls" in repr(listing) and "≠ does not hold" in listing._repr_html_()
    assert "fairfed.s8" not in repr(listing)
    prose = repr(ledger.prose("fair-fate"))
    assert ".sd" not in prose and ".effect" not in prose and "fair-fate.s5.4.average" in prose
    failed = ledger.only("fairfed", "does not hold")
    assert "fairfed.s9.acc-falls" in repr(failed) and "allows 1.8% to 2.1%" in failed._repr_html_()
    assert "fairfed.s9.acc-from" not in repr(failed)


def test_the_scoreboard_counts_every_claim_once(
    stored: Mapping[str, Mapping[str, Claim]], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = {paper: list(claims.values()) for paper, claims in stored.items()}
    monkeypatch.setattr(ledger, "judged", lambda paper=None: judged[paper] if paper else sum(judged.values(), []))
    board = ledger.scoreboard()
    assert board["all"].sum() == sum(map(len, judged.values()))
    assert (board.drop(columns="all").sum(axis=1) == board["all"]).all()
    for paper in cards.names():
        kinds = [kind for name, kind in board.index if name == paper]
        assert kinds == [kind for kind in KINDS if kind in kinds]  # effects first
    whole = ledger.scoreboard("fairfed")
    assert set(whole.index.get_level_values("paper")) == {"fairfed"}
    assert whole.loc[("fairfed", "level"), "all"] == sum(e.kind == "level" for e in FAIRFED.entries.values())
    assert list(whole.columns) == [*(v for v in SYMBOLS if v in whole), "all"]
