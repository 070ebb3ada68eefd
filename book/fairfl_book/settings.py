"""The settings that a paper prints, from its card, for the experiments that train with them.

They are read without the rest of the card, so that what reads cards may change and no measured cell is another for it. What is
measured depends on them, and where an experiment reads printed numbers too, on the whole card: `digest` is part of the key of a
kept cell and of a notebook's run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fairfl_lite import imports, store

FOLDER = Path(__file__).parents[1] / "papers"


@cache
def _text(paper: str) -> str:
    """The card in the folder of a paper as it was when first read; nothing where there is no card."""
    card = FOLDER / paper / "card.yml"
    return card.read_text(encoding="utf-8") if card.is_file() else ""


@cache
def printed(paper: str) -> Mapping[str, Any]:
    """The `settings` of the card in the folder of a paper; none where there is no card."""
    read = yaml.load(_text(paper), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return read["settings"] if read else {}


def digest(module: str) -> str:
    """That of what the experiments in a module of a paper may read of its card: all of it where the module imports what reads
    cards, otherwise the settings. Nothing for a module of no paper."""
    package, _, rest = module.partition(".")
    paper = rest.partition(".")[0]
    if package != "papers":
        return ""
    return store.fingerprint(_text(paper) if "fairfl_book.cards" in imports.modules(module) else printed(paper))
