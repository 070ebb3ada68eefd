"""The concordance of symbols: every row has an entry for each paper, and what it calls a name in code is one."""

from __future__ import annotations

import dataclasses
import re

import pytest
from small import ROOT

import fairfl_lite
import fairfl_lite.rankings
from fairfl_book import cards

PAGE = ROOT / "book" / "notation.md"
PAPERS = ["FairFed", "FAIR-FATE", "RankFF", "EFFL", "E2FL"]


def concordance(text: str) -> list[list[str]]:
    """The cells of the first table, its head first."""
    table = re.search(r"## Concordance\n\n((?:\|.*\n)+)", text)
    assert table
    lines = [line for line in table[1].splitlines() if not re.fullmatch(r"[|-]+", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def missing(name: str) -> bool:
    """Whether no public name of the library, field of a class or attribute is called so."""
    value: object = fairfl_lite
    for part in name.split("."):
        fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        if not hasattr(value, part) and part not in fields:
            return True
        value = getattr(value, part, None)
    return False


def test_the_columns_are_the_papers():
    head = concordance(PAGE.read_text())[0]
    assert head == ["meaning", "here", *PAPERS, "in code"]
    assert len(cards.names()) == len(PAPERS)


def test_every_row_has_an_entry_for_each_paper_and_a_symbol_of_ours():
    rows = concordance(PAGE.read_text())[1:]
    assert len(rows) > 25 and len({row[0] for row in rows}) == len(rows)
    for row in rows:
        assert len(row) == len(PAPERS) + 3 and all(row), row
        assert any(cell != "–" for cell in row[2:-1]) or row[1] != "–", row


@pytest.mark.parametrize("row", concordance(PAGE.read_text())[1:], ids=lambda row: row[0])
def test_the_name_in_code_exists(row):
    names = re.findall(r"`([^`]+)`", row[-1])
    assert names, f"{row[0]} has no name in code"
    assert [name for name in names if missing(name)] == []


@pytest.mark.parametrize("name", ["FairFed.gamma", "metrics.eodd", "Fedaverage", "OneFederation.train.lr2"])
def test_a_name_that_is_not_there_is_found(name):
    assert missing(name)
