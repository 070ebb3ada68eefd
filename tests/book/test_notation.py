"""The concordance of symbols: every row says which paper writes what, and what it calls a name in code is one."""

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


def papers(cell: str) -> list[str]:
    """The papers whose symbols a cell gives: "FairFed, EFFL: $a$; RankFF: $b$"."""
    return [paper for part in cell.split("; ") for paper in part.partition(": ")[0].split(", ")]


def test_the_columns_are_what_the_page_promises():
    assert concordance(PAGE.read_text())[0] == ["meaning", "here", "in the papers", "in code"]


def test_every_row_names_papers_once_each_with_their_symbols():
    rows = concordance(PAGE.read_text())[1:]
    assert len(rows) > 25 and len({row[0] for row in rows}) == len(rows)
    assert len(PAPERS) == len(cards.names())
    for row in rows:
        named = papers(row[2])
        assert len(row) == 4 and all(row) and named and set(named) <= set(PAPERS) and len(set(named)) == len(named), row
        assert all(part.partition(": ")[2] for part in row[2].split("; ")), row
    assert {paper for row in rows for paper in papers(row[2])} == set(PAPERS)


@pytest.mark.parametrize("row", concordance(PAGE.read_text())[1:], ids=lambda row: row[0])
def test_the_name_in_code_exists(row):
    names = re.findall(r"`([^`]+)`", row[-1])
    assert names, f"{row[0]} has no name in code"
    assert [name for name in names if missing(name)] == []


@pytest.mark.parametrize("name", ["FairFed.gamma", "metrics.eodd", "Fedaverage", "OneFederation.train.lr2"])
def test_a_name_that_is_not_there_is_found(name):
    assert missing(name)
