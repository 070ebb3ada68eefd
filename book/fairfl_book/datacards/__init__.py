"""What to know about each dataset before using it: origin, meaning, harms, limits. One file per dataset, named as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from fairfl_lite.errors import FairFLError, choose

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class DataCard:
    """The facts of a data card; texts are plain sentences, `published` holds counts by description.

    provenance : who collected it, where and when. measured : what a row and its columns are.
    label : what y = 1 means. sensitive : what a = 1 means and how the attribute was recorded.
    decisions : what the loader does where the papers leave it open.
    Title, licence and publisher are those of the `Dataset`.
    """

    provenance: str
    measured: str
    label: str
    sensitive: str
    citation: str
    published: Mapping[str, float]
    harms: tuple[str, ...]
    limits: tuple[str, ...]
    decisions: tuple[str, ...]


def files() -> dict[str, Path]:
    """The file of each card, by the name of its dataset."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}


def load(name: str) -> DataCard:
    """The card of a dataset; FairFLError when it has none, or when a field of it is missing or unknown."""
    path = files()[choose(name, files(), "data card named")]
    written: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = [field.name for field in fields(DataCard)]
    for field in written:
        choose(field, known, f"field of a data card (in {path.name}) named")
    if missing := [field for field in known if field not in written]:
        raise FairFLError(f"The data card {path.name} says nothing of {missing[0]!r}: add it.")
    texts: dict[str, Any] = {field: tuple(said) if isinstance(said, list) else said for field, said in written.items()}
    return DataCard(**texts)
