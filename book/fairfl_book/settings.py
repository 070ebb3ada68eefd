"""The settings that a paper prints, from its card, for the experiments that train with them.

They are read without the rest of the card, so that what reads cards may change and no measured cell is another for it. What is
measured depends on them: `digest` is part of the key of a kept cell and of a notebook's run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fairfl_lite import store

FOLDER = Path(__file__).parents[1] / "papers"


@cache
def printed(paper: str) -> Mapping[str, Any]:
    """The `settings` of the card in the folder of a paper; none where there is no card."""
    card = FOLDER / paper / "card.yml"
    if not card.is_file():
        return {}
    read = yaml.load(card.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return read["settings"]


def digest(module: str) -> str:
    """That of the settings which the experiments in a module of a paper may read; nothing for a module of no paper."""
    package, _, rest = module.partition(".")
    return store.fingerprint(printed(rest.partition(".")[0])) if package == "papers" else ""
