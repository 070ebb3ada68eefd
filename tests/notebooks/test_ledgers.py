"""Every paper with a card has its ledger page, and the pages are one page under different parameters."""

import re

import nbformat

from fairfl_lite import papers, store

LEDGERS = sorted((store.root() / "notebooks" / "ledger").glob("*.ipynb"))


def test_every_paper_has_its_ledger_and_all_are_alike():
    cells = {path.stem: [cell.source for cell in nbformat.read(path, as_version=4).cells] for path in LEDGERS}
    assert set(cells) == {name for name in papers.names()}
    own = re.compile(r"^# The ledger of .*|str = \S+")
    alike = {name: [own.sub("", cell, count=1) for cell in lines] for name, lines in cells.items()}
    assert all(lines == alike["fairfed"] for lines in alike.values())
