"""Lines that could not have failed: they are named so, with the reason, and no count has them among those that could."""

import json
import re
from typing import Any

import pytest
from little import RUNS, card, exact, judge, table

from fairfl_book import ledger
from fairfl_book.ledger import views
from fairfl_book.ledger.claims import Claim
from fairfl_book.site import ledger_page as page
from fairfl_lite.errors import FairFLError

WHY = "It was copied."
NAME = "holds by construction"
ROWS = {"plain": "0.500±0.010", "own": "0.600±0.010"}
SERIES = [({"method": m, "metric": "up"}, exact(mean, 0.01, 40)) for m, mean in (("plain", 0.5), ("own", 0.6))]
SIDES = {"kind": "ordering", "metric": "up", "results": RUNS, "better": {"method": "own"}, "worse": {"method": "plain"}}


def said(id: str, *claims: dict[str, Any], **fields: Any) -> Claim:
    return judge(card(*claims, tables={"t": table(ROWS, **fields)}, printed_seeds=40), id, *SERIES)


def test_a_claim_says_that_it_holds_by_construction_and_why() -> None:
    plain, marked = (said("it", {**SIDES, **more}) for more in ({}, {"by_construction": WHY}))
    assert (plain.verdict, plain.detail) == ("confirmed", "") and plain.power == plain.power
    assert (marked.verdict, marked.detail) == (NAME, WHY) and marked.power != marked.power
    assert (marked.measured, marked.low, marked.seeds) == (plain.measured, plain.low, plain.seeds)
    wrong = {**SIDES, "better": SIDES["worse"], "worse": SIDES["better"], "by_construction": WHY}
    assert said("it", wrong).verdict == "reversed"  # what fails is never excused
    assert said("it", {**SIDES, "by_construction": WHY, "would_decide": "more rounds"}).verdict == "cannot tell"
    assert said("it", {**SIDES, "by_construction": WHY, "not_testable": "no data"}).verdict == "not testable"


def test_a_whole_table_or_some_of_its_cells() -> None:
    ids = ("t.plain", "t.own", "t.own.sd", "t.own.effect")
    assert [said(id).verdict for id in ids] == ["agrees"] * 4
    assert [said(id, by_construction=WHY).verdict for id in ids] == [NAME] * 4
    one = {"override": {"method": {"own": {"by_construction": WHY}}}}
    assert [said(id, **one).verdict for id in ids] == ["agrees", NAME, NAME, "agrees"]  # the effect has a side that could differ
    marked = table({"plain": "0.500", "own": "*0.600"}, marks={"*": {"by_construction": WHY}})
    assert [judge(card(tables={"t": marked}), id, *SERIES).verdict for id in ids[:2]] == ["agrees", NAME]


def test_a_reason_is_needed() -> None:
    with pytest.raises(FairFLError, match="little.it is said to hold by construction: say in a sentence why"):
        card({**SIDES, "by_construction": " "})
    with pytest.raises(FairFLError, match="by_construction"):
        card({**SIDES, "by_construction": True})


def test_every_count_has_such_lines_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lines that could have failed and two that could not, counted wherever verdicts are."""
    head = ("fairfed", "Table 1", "count", "paper", "rows", "1")
    claims = [Claim(f"fairfed.t1.a{n}", *head, verdict="holds", rule="count") for n in range(3)]
    claims += [Claim(f"fairfed.t1.b{n}", *head, verdict=NAME, detail=WHY, rule="count") for n in range(2)]
    monkeypatch.setattr(ledger, "judged", lambda paper=None: claims)
    assert ledger.scoreboard().loc[("fairfed", "count")].to_dict() == {"holds": 3, NAME: 2, "all": 5}
    assert ledger.claims()["verdict"].value_counts().to_dict() == {"holds": 3, NAME: 2}
    assert repr(views.listing("fairfed.t1")).splitlines()[-1] == f"= holds 3, ≡ {NAME} 2"
    text = page.markup(claims, {})
    assert re.findall(r'<td data-verdict="([^"]+)" class="([^"]+)">(\d+)</td>', text) == [
        ("agrees, confirmed, holds", "fairfl-agrees", "3"), (NAME, "fairfl-holds-by-construction", "2"),
    ]  # fmt: skip
    assert text.count(f"≡ {NAME} <small>{WHY}</small>") == 2
    assert [line["detail"] for line in json.loads(page.as_json(claims)) if line["verdict"] == NAME] == [WHY] * 2
