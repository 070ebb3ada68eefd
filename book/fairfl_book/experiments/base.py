"""Cells, checkpoints and the paper-scale run of one experiment."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from fairfl_book import results, settings
from fairfl_book.processes import end_with_parent
from fairfl_lite import data, imports, store
from fairfl_lite.errors import FairFLError

Cell = Mapping[str, Any]


def grid(**levels: Sequence[Any]) -> list[Cell]:
    """Every combination of the levels, the last varying fastest."""
    return [dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())]


def named(facts: Mapping[str, float]) -> pd.DataFrame:
    """A result of names and values."""
    return pd.DataFrame({"name": list(facts), "value": [float(v) for v in facts.values()]})


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """All rows of all cells: the `finish` of an experiment whose result they are."""
    return frame


@dataclass(frozen=True)
class Experiment:
    """`measure(**cell, seeds=...)` gives a tidy frame for one cell; `finish` turns all of them into the result.

    name : where the result is kept, e.g. "fairfed/table1". cells : settings at the paper's scale. data : datasets used.
    workers : processes for a run that keeps its cells; kernels use all cores by themselves, convolutions do not.
    reads : stored results that `measure` loads; it may load no others, since a cell is measured again when one of them changes.
    settings : what the cells do not say (optimiser, rates, rounds, ...), for the provenance.
    """

    name: str
    measure: Callable[..., pd.DataFrame]
    cells: Sequence[Cell]
    data: tuple[str, ...] = ()
    finish: Callable[[pd.DataFrame], pd.DataFrame] = whole
    seeds: int = 20
    workers: int = 1
    reads: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def frame(self, seeds: int | None = None, keep: Path | None = None, **only: Any) -> pd.DataFrame:
        """The result with `seeds` seeds, for the cells whose settings are among `only` (e.g. dataset=["compas"]).

        keep : a folder for finished cells. A cell found there under the same key is not measured again.
        """
        tasks = self.tasks(seeds, keep, **only)
        with each(Task.frame, tasks, self.workers if keep else 1) as done:
            frames = list(tqdm(done, total=len(tasks), desc=self.name, disable=keep is None))
        return self.finish(pd.concat(frames, ignore_index=True))

    def tasks(self, seeds: int | None = None, keep: Path | None = None, **only: Any) -> list[Task]:
        """The cells to be measured for `frame`."""
        seeds = self.seeds if seeds is None else seeds
        if seeds < 1:
            raise FairFLError(f"Experiment {self.name} needs at least one seed, not {seeds}.")
        return [Task(self.measure, dict(cell), seeds, self.data, self.reads, keep) for cell in self.select(**only)]

    def select(self, **only: Any) -> list[Cell]:
        for name in only:
            if not any(name in cell for cell in self.cells):
                raise FairFLError(f"Experiment {self.name} has no setting {name!r}: it has {', '.join(self.cells[0])}.")
        chosen = [c for c in self.cells if all(c.get(name) in values for name, values in only.items() if name in c)]
        if not chosen:
            raise FairFLError(f"Experiment {self.name} has no cell with {only}.")
        return chosen

    def part(self, **only: Any) -> list[Cell]:
        """The cells that are stored by themselves; FairFLError where the result cannot be made in parts."""
        if only and self.finish is not whole:
            raise FairFLError(f"Experiment {self.name} makes its result from all cells at once: leave --only out.")
        return self.select(**only)

    def store(self, **only: Any) -> None:
        """Measure every cell at full scale, go on from what an earlier run finished, and write results/<name>.csv.

        only : as for `frame`. What is stored of other cells stays, so that days of work can be done in parts.
        """
        cells = self.part(**only)
        for name in self.data:
            data.fetch(name)
        keep = store.root() / ".fairfl" / "cells"
        frame = self.frame(keep=keep, **only)
        said = json.loads(json.dumps(dict(self.settings), default=repr))
        parameters = {"seeds": self.seeds, "cells": len(self.cells), "data": list(self.data), "settings": said}
        results.save(self.name, frame, parameters=parameters,
                     seconds=sum(task.seconds() for task in self.tasks(keep=keep, **only)),
                     command=f"fairfl paper {self.name}", datasets=self.data,
                     module=self.measure.__module__, reads=self.reads, cells=cells if only else None)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One cell to be measured, or found under `keep` when it was measured before."""

    measure: Callable[..., pd.DataFrame]
    cell: dict[str, Any]
    seeds: int
    data: tuple[str, ...]
    reads: tuple[str, ...]
    keep: Path | None

    def key(self) -> str:
        """The same for as long as the cell's numbers are: made from all they depend on, the code as what `measure` imports."""
        where, libraries = self.measure.__module__, results.versions()
        del libraries["fairfl_lite"]  # the code counts, not what it is called
        return store.fingerprint(
            imports.digest(where), where, self.measure.__qualname__, self.cell, self.seeds if self._takes_seeds() else None,
            [data.digest(name) for name in self.data], [results.digest(name) for name in self.reads], libraries,
            settings.digest(where),
        )[:32]  # fmt: skip

    def frame(self) -> pd.DataFrame:
        if self.keep is None:
            return self._measured()
        path = self.keep / f"{self.key()}.csv"
        text = store.kept_text(path)
        if not text:
            with metered(path.with_suffix(".json")):
                text = self._measured().to_csv(index=False, float_format="%.17g")
            store.keep_text(path, text)
        words = {name: str for name, value in self.cell.items() if isinstance(value, str)}  # a level "1.0" beside a level "rnd"
        return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""], dtype=words)

    def seconds(self) -> float:
        """Processor time that this cell has taken so far, in all processes that were at it; 0 without a folder."""
        return spent(self.keep / f"{self.key()}.json") if self.keep else 0.0

    def _measured(self) -> pd.DataFrame:
        with results.reading(self.reads):
            return self.measure(**self.cell, **({"seeds": range(self.seeds)} if self._takes_seeds() else {}))

    def _takes_seeds(self) -> bool:
        return "seeds" in inspect.signature(self.measure).parameters


BEAT = 20.0
"""Seconds between two notes of what a cell has taken: as much can be missing when its process is killed."""


def spent(path: Path) -> float:
    """The seconds that `metered` noted at `path`; 0 where it noted none."""
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0


@contextmanager
def metered(path: Path) -> Iterator[None]:
    """Adds the processor time of this process, while within, to what is noted at `path`, also when it is killed on the way."""
    before, began, over = spent(path), time.process_time(), threading.Event()

    def note() -> None:
        store.write_json(path, {"seconds": round(before + time.process_time() - began, 1)})

    def beat() -> None:
        while not over.wait(BEAT):
            note()

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        note()


@contextmanager
def each(work: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Iterator[Iterator[Any]]:
    """work(task) for every task, in order, in `workers` processes of one thread each (1: in this one)."""
    if workers <= 1 or len(tasks) <= 1:
        yield map(work, tasks)
        return
    context, others = multiprocessing.get_context("spawn"), set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(workers, len(tasks)), context, _worker) as pool:
        try:
            with _untold_of_ctrl_c():
                done = pool.map(work, tasks)
            yield done
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # what it was at is measured again; to wait for it may take an hour
            raise


@contextmanager
def _untold_of_ctrl_c() -> Iterator[None]:
    """Processes started within never hear of Ctrl-C: it is for the one that starts them, which then ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _worker() -> None:
    """A process of the pool: it has one thread, and ends when the one that started it does."""
    end_with_parent()
    _one_thread()


def _one_thread() -> None:
    import numba
    import torch

    numba.set_num_threads(1)
    torch.set_num_threads(1)
