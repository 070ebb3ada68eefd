"""Cells, checkpoints and the paper-scale run of one experiment."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from fairfl_lite import data, results, store
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
    workers : processes for a run that keeps its cells; kernels use all cores by themselves, convolutions do not.
    """

    name: str
    measure: Callable[..., pd.DataFrame]
    cells: Sequence[Cell]
    data: tuple[str, ...] = ()
    finish: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    seeds: int = 20
    workers: int = 1

    def frame(self, seeds: int | None = None, keep: Path | None = None, **only: Any) -> pd.DataFrame:
        """The result with `seeds` seeds, for the cells whose settings are among `only` (e.g. dataset=["compas"]).

        keep : a folder for finished cells. A cell found there under the same key is not measured again.
        """
        seeds = self.seeds if seeds is None else seeds
        if seeds < 1:
            raise FairFLError(f"Experiment {self.name} needs at least one seed, not {seeds}.")
        chosen = [dict(cell) for cell in self.select(**only)]
        jobs = [Job(self.measure, cell, seeds, self.data, keep) for cell in chosen]
        with each(Job.frame, jobs, self.workers if keep else 1) as done:
            frames = list(tqdm(done, total=len(jobs), desc=self.name, disable=keep is None))
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
        frame = self.frame(keep=store.root() / ".fairfl" / "cells")
        results.save(self.name, frame, parameters={"seeds": self.seeds, "cells": len(self.cells), "data": list(self.data)},
                     seconds=time.monotonic() - began, command=f"fairfl paper {self.name}",
                     datasets=self.data)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One cell to be measured, or found under `keep` when it was measured before."""

    measure: Callable[..., pd.DataFrame]
    cell: dict[str, Any]
    seeds: int
    data: tuple[str, ...]
    keep: Path | None

    def frame(self) -> pd.DataFrame:
        if self.keep is None:
            return self._measured()
        parts = [results.source_digest(), *map(data.digest, self.data), self.measure.__qualname__, self.cell, self.seeds]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
        path = self.keep / f"{key}.csv"
        if not path.exists():
            self.keep.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            self._measured().to_csv(part, index=False, float_format="%.17g")
            part.replace(path)
        words = {name: str for name, value in self.cell.items() if isinstance(value, str)}  # a level "1.0" beside a level "rnd"
        return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=words)

    def _measured(self) -> pd.DataFrame:
        takes_seeds = "seeds" in inspect.signature(self.measure).parameters
        return self.measure(**self.cell, **({"seeds": range(self.seeds)} if takes_seeds else {}))


@contextmanager
def each(work: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Iterator[Iterator[Any]]:
    """work(task) for every task, in order, in `workers` processes of one thread each (1: in this one)."""
    if workers <= 1 or len(tasks) <= 1:
        yield map(work, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(tasks)), context, _one_thread) as pool:
        try:
            yield pool.map(work, tasks)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
