"""A claim measured again: the one part of the ledger that runs experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import ledger
from fairfl_book.cards import PaperCard
from fairfl_book.experiments import catalogue
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.judge import Judge
from fairfl_book.ledger.judge import card as card_of
from fairfl_book.ledger.series import Results, equal
from fairfl_lite.errors import FairFLError


@dataclass
class Afresh(Results):
    """Results measured now and not read: of each experiment the cells that one of `needs` selects, with all seeds."""

    needs: Sequence[Mapping[str, Any]] = ()

    def frame(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            experiment = catalogue.get(name)
            settings = pd.DataFrame(list(experiment.cells))
            only: dict[str, Any] = {}
            for key in (c for c in settings if self.needs and all(c in need for need in self.needs)):
                values = [v for need in self.needs for v in (need[key] if isinstance(need[key], list) else [need[key]])]
                same = np.any([equal(settings[key], v) for v in values], axis=0)
                if same.any():
                    only[key] = list(settings[key][same].unique())
            self.frames[name] = experiment.frame(**only)
        return self.frames[name]


def remeasure(id: str) -> Claim:
    """The claim judged by a measurement made now; nothing that is stored changes."""
    stored = ledger.claim(id)
    if not stored.source.startswith(("results/", "entries")):
        raise FairFLError(f"Claim {id} is not judged by a measurement, so there is nothing to run again.")
    card = card_of(stored.paper)
    entry = card.entries[id]
    entry = replace(entry, spec={k: v for k, v in entry.spec.items() if k != "beside"})  # other readings may be other runs
    return Judge(card, Afresh(needs=needs(card, id.removesuffix(".sd")))).claim(entry)


def needs(card: PaperCard, id: str) -> list[dict[str, Any]]:
    """The selectors of all that an entry is judged by: itself or its two sides, and the baseline of its column."""
    spec = card.entries[id].spec
    if "cells" in spec:
        return [need for cell in spec["cells"] for need in needs(card, cell)]
    if "entries" in spec:
        return [need for pattern in spec["entries"] for entry in card.matching(pattern) for need in needs(card, entry.id)]
    select = dict(spec.get("select", {}))
    found = [select | spec[side] for side in ("better", "worse", "from", "to") if side in spec] or [select]
    found += [need | spec["relative"] for need in found if "relative" in spec]
    return found + (needs(card, spec["baseline"]) if spec.get("baseline") else [])
