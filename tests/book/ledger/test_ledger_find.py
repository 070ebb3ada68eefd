"""Lines of the ledger are found by words in any order, and spellings that mean the same are equal."""

from __future__ import annotations

import pytest

from fairfl_book import cli, ledger
from fairfl_book.ledger import find
from fairfl_book.ledger.claims import Claim


def line(id: str, says: str = "", **more: object) -> Claim:
    given = {"paper": "fairfed", "where": "Table 1", "kind": "level", "whose": "paper", "printed": "0.1"} | more
    return Claim(id=id, says=says, **given)  # type: ignore[arg-type]


CELL = "fairfed.t1.adult.eod.alpha0.5"
LINES = [
    line(f"{CELL}.fedavg", "EOD, FedAvg, Adult, alpha = 0.5"),
    line(f"{CELL}.fairfed.effect", "EOD, FairFed, Adult, alpha = 0.5, less FedAvg", kind="effect"),
    line(f"{CELL}.fairfed", "EOD, FairFed, Adult, alpha = 0.5", printed="0.57"),
    line("fairfed.t1.adult.eod.alpha0.1.fairfed", "EOD, FairFed, Adult, alpha = 0.1", printed="-0.049"),
    line("fair-fate.t1.compas.acc.0.5.fedavg", "Accuracy of FAIR-FATE", paper="fair-fate"),
]


def ids(query: str) -> list[str]:
    return [c.id for c in find.find(LINES, query).claims]


@pytest.mark.parametrize(
    "query",
    ["FairFed EOD Adult alpha 0.5", "adult 0.5 alpha eod fairfed", "α=0.5 FairFed, Adult: EOD", "EOD alpha0.50 FAIRFED Adult",
     "fairfed EOD adult α .5"],
)  # fmt: skip
def test_words_in_any_order_and_spelling_find_the_line(query: str) -> None:
    assert ids(query) == [f"{CELL}.fairfed", f"{CELL}.fairfed.effect", f"{CELL}.fedavg"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("fairfate", [LINES[4].id]),
        ("FAIR_FATE", [LINES[4].id]),
        ("fair-fate accurac", [LINES[4].id]),
        ("0.04", [LINES[3].id]),
        ("-0.049", [LINES[3].id]),
        ("0.5 fairfed.effect", [LINES[1].id]),
        ("effects", [LINES[1].id]),
        ("", []),
        ("α=", [LINES[2].id, LINES[3].id, LINES[0].id, LINES[1].id]),
    ],
)
def test_parts_of_words_and_numbers(query: str, found: list[str]) -> None:
    assert sorted(ids(query)) == sorted(found)


def test_a_setting_is_no_beginning_of_a_result() -> None:
    assert find.matches(find.terms("0.5")[0], find.words("0.57")) == 0
    assert find.matches(find.terms("0.57")[0], find.words("0.571")) == 1
    assert find.matches(find.terms("1")[0], find.words("10 1000")) == 0


def test_a_word_that_no_line_has_is_named_and_the_others_are_looked_for() -> None:
    found = find.find(LINES, "adult qwertyuiop 0.049")
    assert found.missing == ["qwertyuiop"] and [c.id for c in found.claims] == [LINES[3].id]
    nothing = find.find(LINES, "qwertyuiop")
    assert nothing.missing == ["qwertyuiop"] and nothing.claims == []
    assert find.find(LINES, "compas eod") == find.Found([], []), "each is there, but not together"


@pytest.mark.parametrize("words", [["FairFed EOD Adult alpha 0.5"], ["adult", "α=0.5", "EOD", "FairFed"]])
def test_the_command_finds_the_right_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    right = "fairfed.t1.adult.eod.alpha0.5.fairfed"
    assert cli.main(["claims", *words]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == str(ledger.claim(right))
    assert last.startswith(f"The best {cli.MOST_CLAIMS} of ")


def test_the_command_names_a_word_that_no_line_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", "qwertyuiop adult"]) == 0
    shown = capsys.readouterr()
    assert "No line of the ledger has 'qwertyuiop'" in shown.err and "adult" in shown.out
    assert cli.main(["claims", "qwertyuiop"]) == 2
    assert "No line of the ledger has 'qwertyuiop': try" in capsys.readouterr().err
