"""Cells, checkpoints and the paper-scale run of one experiment."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from fairfl_lite import data, results
from fairfl_lite.errors import FairFLError

Cell = Mapping[str, Any]


def grid(**levels: Sequence[Any]) -> list[Cell]:
    """Every combination of the levels, the last varying fastest."""
    return [dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())]


def named(facts: Mapping[str, float]) -> pd.DataFrame:
    """A result of names and values."""
    return pd.DataFrame({"name": list(facts), "value": [float(v) for v in facts.values()]})


@dataclass(frozen=True)
class Experiment:
    """`measure(**cell, seeds=...)` gives a tidy frame for one cell; `finish` turns all of them into the result.

    name : where the result is kept, e.g. "fairfed/table1". cells : settings at the paper's scale. data : datasets used.
    """

    name: str
    measure: Callable[..., pd.DataFrame]
    cells: Sequence[Cell]
    data: tuple[str, ...] = ()
    finish: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    seeds: int = 20

    def frame(self, seeds: int | None = None, keep: Path | None = None, **only: Any) -> pd.DataFrame:
        """The result with `seeds` seeds, for the cells whose settings are among `only` (e.g. dataset=["compas"]).

        keep : a folder for finished cells. A cell found there under the same key is not measured again.
        """
        seeds = self.seeds if seeds is None else seeds
        if seeds < 1:
            raise FairFLError(f"Experiment {self.name} needs at least one seed, not {seeds}.")
        frames, chosen = [], self.select(**only)
        for cell in tqdm(chosen, desc=self.name, disable=keep is None):
            frames.append(self._cell(dict(cell), seeds, keep))
        return self.finish(pd.concat(frames, ignore_index=True))

    def select(self, **only: Any) -> list[Cell]:
        for name in only:
            if not any(name in cell for cell in self.cells):
                raise FairFLError(f"Experiment {self.name} has no setting {name!r}: it has {', '.join(self.cells[0])}.")
        chosen = [c for c in self.cells if all(c.get(name) in values for name, values in only.items() if name in c)]
        if not chosen:
            raise FairFLError(f"Experiment {self.name} has no cell with {only}.")
        return chosen

    def store(self) -> None:
        """Measure every cell at full scale, go on from what an earlier run finished, and write results/<name>.csv."""
        for name in self.data:
            data.fetch(name)
        began = time.monotonic()
        frame = self.frame(keep=results.root() / ".fairfl" / "cells")
        results.save(self.name, frame, parameters={"seeds": self.seeds, "cells": len(self.cells), "data": list(self.data)},
                     seconds=time.monotonic() - began, command=f"fairfl paper {self.name}",
                     datasets=self.data)  # fmt: skip

    def _cell(self, cell: dict[str, Any], seeds: int, keep: Path | None) -> pd.DataFrame:
        measure = lambda: self.measure(**cell, **({"seeds": range(seeds)} if self._takes_seeds else {}))  # noqa: E731
        if keep is None:
            return measure()
        parts = [results.source_digest(), *map(data.digest, self.data), self.measure.__qualname__, cell, seeds]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
        path = keep / f"{key}.csv"
        if not path.exists():
            keep.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            measure().to_csv(part, index=False, float_format="%.17g")
            part.replace(path)
        words = {name: str for name, value in cell.items() if isinstance(value, str)}  # a level "1.0" beside a level "rnd"
        return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=words)

    @property
    def _takes_seeds(self) -> bool:
        return "seeds" in inspect.signature(self.measure).parameters
