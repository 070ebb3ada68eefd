"""The settings that a paper prints, from its card, for the experiments that train with them.

They are read without the rest of the card, so that what reads cards may change and no measured cell is another for it. What is
measured depends on them, and where an experiment reads printed numbers too, on the whole card: `digest` is part of the key of a
kept cell and of a notebook's run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from fairfl_lite import imports, store
from fairfl_lite.errors import FairFLError, did_you_mean

FOLDER = Path(__file__).parents[1] / "papers"


@cache
def _text(paper: str) -> str:
    """The card in the folder of a paper as it was when first read; nothing where there is no card."""
    card = FOLDER / paper / "card.yml"
    return card.read_text(encoding="utf-8") if card.is_file() else ""


def raw(text: str, file: str = "card.yml") -> Any:
    """The YAML of a card as loaded, not looked at."""
    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that is none, ten thousand brackets
        mark = getattr(error, "problem_mark", None)
        at = f"{file}, line {mark.line + 1}" if mark else file
        raise FairFLError(f"{at}: The card is not YAML: {' '.join(str(error).split())}.") from error


class Settings(dict[str, Any]):
    """The settings of a card, or those inside one of them; one that is not there is refused by the nearest name."""

    def __init__(self, file: str, given: Mapping[str, Any]) -> None:
        super().__init__({name: Settings(file, value) if isinstance(value, dict) else value for name, value in given.items()})
        self.file = file

    def __missing__(self, name: str) -> NoReturn:
        raise FairFLError(f"{self.file} prints no setting {name!r}{did_you_mean(name, self)}: correct the card, or who asks.")


@cache
def printed(paper: str) -> Mapping[str, Any]:
    """The `settings` of the card in the folder of a paper; none where there is no card."""
    file = f"book/papers/{paper}/card.yml"
    given = raw(_text(paper) or "settings: {}", file)
    if not isinstance(given, dict) or not isinstance(given.get("settings"), dict):
        raise FairFLError(f"{file} has no settings: write those that the paper prints as `settings: {{name: value}}`.")
    return Settings(file, given["settings"])


def digest(module: str) -> str:
    """That of what the experiments in a module of a paper may read of its card: all of it where the module imports what reads
    cards, otherwise the settings. Nothing for a module of no paper."""
    package, _, rest = module.partition(".")
    paper = rest.partition(".")[0]
    if package != "papers":
        return ""
    return store.fingerprint(_text(paper) if "fairfl_book.cards" in imports.modules(module) else printed(paper))
