"""A replay: stored results measured again, cell by cell, and compared row by row.

Cells are measured in one process beside this one, which is ended and started anew when a cell takes longer than the limit.
What was measured is kept under .fairfl/replay by the key of the cell, so a replay that was stopped goes on. Networks that
RankFF keeps in the cache folder are used, not trained again.
"""

from __future__ import annotations

import io
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from fairfl_book import results
from fairfl_book.experiments.base import Experiment, Task, whole
from fairfl_book.processes import end_with_parent, kill_children
from fairfl_lite import data, store
from fairfl_lite.errors import FairFLError

MEDIAN, LARGEST = 2e-4, 0.02
"""How far apart values may be: another CPU rounds differently, which flips a few predictions."""


@dataclass(frozen=True)
class Difference:
    """Rows that were measured again, against those that are stored under the same keys.

    apart : of every value in both, see `compare`. new, lost : rows only measured, only stored. where : keys of the largest.
    """

    apart: np.ndarray
    new: int = 0
    lost: int = 0
    where: str = ""

    @property
    def agrees(self) -> bool:
        near = not self.apart.size or bool(np.median(self.apart) <= MEDIAN and self.apart.max() <= LARGEST)
        return near and not self.new and not self.lost

    def __str__(self) -> str:
        said = ["agrees" if self.agrees else "DISAGREES", f"{self.apart.size} values"]
        if self.apart.size:
            said.append(f"largest difference {self.apart.max():.3g}")
        if self.where:
            said[-1] += f" at {self.where}"
        if self.new:
            said.append(f"{self.new} rows are not stored")
        if self.lost:
            said.append(f"{self.lost} stored rows are not made any more")
        return ", ".join(said)


def compare(stored: pd.DataFrame, fresh: pd.DataFrame, settings: Sequence[str] = (), digits: str = "%.10g") -> Difference:
    """Row by row. `settings` are the names that cells are called by, `digits` how the stored floats were written.

    A difference is |new - old| / max(1, |old|); where a row holds nothing but counts, it is a share of all it counts.
    Text is among the keys, so a row whose text changed is both new and lost.
    """
    text = {name: stored[name].dtype for name in stored if not pd.api.types.is_numeric_dtype(stored[name])}
    written = fresh.to_csv(index=False, float_format=digits)
    again = pd.read_csv(io.StringIO(written), low_memory=False, dtype={name: text[name] for name in fresh if name in text})
    if set(again) != set(stored):
        return Difference(np.empty(0), new=len(again), lost=len(stored))
    keys = _keys(stored, [*text, *settings])
    both = stored.merge(again, on=keys, how="outer", suffixes=("", " again"), indicator="in")
    new, lost = (both["in"] == "right_only").sum(), (both["in"] == "left_only").sum()
    both = both[both["in"] == "both"]
    values = [name for name in stored if name not in keys]
    old, now = both[values].to_numpy(float), both[[f"{name} again" for name in values]].to_numpy(float)
    counts = len(values) > 1 and all(pd.api.types.is_integer_dtype(stored[name]) for name in values)
    scale = np.maximum(1, np.abs(old).sum(1, keepdims=True) if counts else np.abs(old))
    with np.errstate(invalid="ignore"):
        apart = np.where((old == now) | (np.isnan(old) & np.isnan(now)), 0.0, np.abs(now - old) / scale)
    apart = np.nan_to_num(apart, nan=np.inf, posinf=np.inf)  # a number in one and none in the other
    where = ""
    if apart.size and apart.max() > 0:
        row, column = np.unravel_index(apart.argmax(), apart.shape)
        named = {**both[keys].iloc[row], "column": values[column]} if len(values) > 1 else dict(both[keys].iloc[row])
        where = _words(named)
    return Difference(apart.ravel(), int(new), int(lost), where)


def written(stored: pd.DataFrame) -> str:
    """How the floats of a result were written: with five digits if none has more, otherwise with ten."""
    floats = stored.select_dtypes(float)
    return "%.5g" if floats.map(lambda value: f"{value:.5g}" == f"{value:.10g}").all(axis=None) else "%.10g"


def _keys(stored: pd.DataFrame, named: Sequence[str]) -> list[str]:
    """All columns but `value`. Of a wide result those `named`, and then from the left as many as make its rows unique."""
    if "value" in stored:
        return [name for name in stored if name != "value"]
    keys = [name for name in stored if name in named]
    for name in stored:
        if name not in keys and (not keys or stored.duplicated(keys).any()):
            keys.append(name)
    return keys


def _words(settings: Mapping[Any, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items() if not pd.isna(value))


class Over(Exception):
    """A cell took longer than it may."""


class Worker:
    """A process that measures one task after the other; started when it is first needed, ended when a task is over its limit."""

    def __init__(self) -> None:
        self.process: Any = None
        self.line: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def measure(self, task: Task, one_thread: bool, limit: float) -> tuple[str, float]:
        """Put a task's frame where it is kept; returns what went wrong, "" if nothing did, and the seconds that it took.

        Over when they are more than `limit`. Starting the process is not counted.
        """
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.line, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,))
            self.process.start()
            theirs.close()
        try:
            self.line.send((task, one_thread))
            self.line.recv()  # it has the task, and imported all that it needs
            began = time.monotonic()
            if not self.line.poll(limit):
                self.stop()
                raise Over
            return str(self.line.recv()), time.monotonic() - began
        except (EOFError, ConnectionError):
            self.stop()
            return "its process ended", 0.0

    def stop(self) -> None:
        if self.process is not None:
            kill_children(self.process.pid)
            self.process.kill()
            self.process.join()
            self.line.close()
            self.process = None


def _serve(line: Any) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process hears it too, and ends this one
    end_with_parent()
    threads = torch.get_num_threads()
    while True:
        try:
            task, one_thread = line.recv()
        except EOFError:
            return
        with suppress(Exception):  # `frame` says what is wrong
            task.key()  # reads and digests the code, once in a process, which is no part of a cell's time
        line.send("begun")
        torch.set_num_threads(1 if one_thread else threads)
        try:
            task.frame()
            line.send("")
        except Exception as error:
            line.send(f"{type(error).__name__}: {error}")


@dataclass
class Report:
    """What a replay did: cells measured (of them `kept` by an earlier replay), skipped by reason, and what was compared.

    disagree : names of what differs or failed. uncompared : results of which too few cells were measured to say.
    """

    cells: int = 0
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    disagree: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    apart: list[np.ndarray] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.disagree

    def __str__(self) -> str:
        kept = f", {self.kept} of them in an earlier replay (remove .fairfl/replay to measure them again)" if self.kept else ""
        lines = [f"Cells replayed: {self.cells}{kept}.", f"Cells skipped: {sum(self.skipped.values())}."]
        lines += [f"  {count}: {reason}" for reason, count in self.skipped.most_common()]
        apart = np.concatenate([np.empty(0), *self.apart])
        if apart.size:
            lines.append(f"Values compared: {apart.size}, largest difference {apart.max():.3g}, median {np.median(apart):.3g}.")
        else:
            lines.append("Nothing was compared.")
        lines += [f"Not compared: {name}" for name in self.uncompared]
        return "\n".join([*lines, *(f"Disagrees: {name}" for name in self.disagree)])


@dataclass
class Replay:
    """Experiments measured again, one after the other; a cell that several of them share is measured once.

    limit : seconds that a cell may take. say : where each line goes.
    """

    limit: float
    say: Callable[[str], None]
    report: Report = field(default_factory=Report)
    worker: Worker = field(default_factory=Worker)
    outcomes: dict[str, tuple[bool, str]] = field(default_factory=dict)
    """By key of a cell: whether it was measured, and in which time or why not."""

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise FairFLError(f"A replay gives each cell more than {self.limit:g} seconds: name a larger limit.")
        self.available = lru_cache(maxsize=None)(data.available)

    def run(self, experiments: Sequence[Experiment]) -> Report:
        with self.worker:
            for experiment in experiments:
                self._replay(experiment)
        return self.report

    def _replay(self, experiment: Experiment) -> None:
        name, tasks = experiment.name, experiment.tasks(keep=store.root() / ".fairfl" / "replay")
        if not results.exists(name):
            self.report.uncompared.append(f"{name}, which is not stored")
            return self.say(f"{name}: skipped, it is not stored")
        try:
            stored = results.load(name)
        except FairFLError as error:
            self.report.disagree.append(f"{name}: {error}")
            return self.say(f"{name}: DISAGREES, {error}")
        digits = written(stored)
        by_cell = experiment.finish is whole and all(set(task.cell) <= set(stored) for task in tasks)
        frames, unclaimed = [], stored
        parts = [part["cells"] for part in results.parts(name)]
        if None not in parts:  # measured in parts, and maybe not all of it yet
            tasks = [task for task in tasks if any(task.cell in cells for cells in parts)]
        for task in tasks:
            label, before = f"{name} {_words(task.cell)}".strip(), len(self.outcomes)
            done, text = self._outcome(task, label, one_thread=experiment.workers > 1)
            if done:
                frames.append(fresh := task.frame())
            if done and by_cell:
                mine = stored
                for setting, value in task.cell.items():  # a cell may also give rows of other names, such as "rankff-last"
                    mine = mine[mine[setting].isin([value, *fresh[setting]])]
                unclaimed = unclaimed.drop(mine.index, errors="ignore")
                self._compared(label, compare(mine, fresh, list(task.cell), digits), text)
            elif len(self.outcomes) > before:
                self.say(f"{label}: {text}")
        if by_cell:
            if len(frames) == len(tasks) and len(unclaimed):
                self._compared(f"{name} besides its cells", Difference(np.empty(0), lost=len(unclaimed)))
        elif frames:
            self._finished(experiment, frames, stored, digits)
        return None

    def _finished(self, experiment: Experiment, frames: Sequence[pd.DataFrame], stored: pd.DataFrame, digits: str) -> None:
        """Compare what `finish` makes of the cells; of some cells, where it can, only what is made of them."""
        every = len(experiment.cells)
        some, label = len(frames) < every, f"{experiment.name} from {len(frames)} of {every} cells"
        try:
            fresh = experiment.finish(pd.concat(frames, ignore_index=True))
        except Exception as error:
            if not some:
                self.report.disagree.append(f"{label}: {error}")
                return self.say(f"{label}: FAILED, {type(error).__name__}: {error}")
            self.report.uncompared.append(f"{label}, which are too few: {error}")
            return self.say(f"{label}: not compared, which are too few: {error}")
        difference = compare(stored, fresh, list(experiment.cells[0]), digits)
        if some:
            difference = Difference(difference.apart, difference.new, 0, difference.where)
        return self._compared(label, difference)

    def _compared(self, label: str, difference: Difference, text: str = "") -> None:
        self.report.apart.append(difference.apart)
        if not difference.agrees:
            self.report.disagree.append(f"{label}: {difference}")
        self.say(f"{label}: {difference}" + (f", {text}" if text else ""))

    def _outcome(self, task: Task, label: str, one_thread: bool) -> tuple[bool, str]:
        """Whether a cell was measured, and in which time or why not."""
        try:
            key = task.key()
        except FairFLError as error:
            return self._skip(label, str(error))
        if key in self.outcomes:
            return self.outcomes[key]
        assert task.keep is not None
        kept, over = task.keep / f"{key}.csv", task.keep / f"{key}.json"
        if kept.exists():
            self.report.kept += 1
            return self._measured(key, "measured in an earlier replay")
        named = task.cell.get("dataset")
        absent = [name for name in ((named,) if named in task.data else task.data) if not self.available(name)]
        if absent:
            return self._skip(key, f"{' and '.join(absent)} not on this machine")
        if store.kept(over).get("over", 0) >= self.limit:
            return self._skip(key, f"over {self.limit:g} s")
        try:
            wrong, seconds = self.worker.measure(task, one_thread, self.limit)
        except Over:
            store.keep(over, {"over": self.limit})
            return self._skip(key, f"over {self.limit:g} s")
        if not wrong and not kept.exists():
            raise FairFLError("The package was changed during the replay: start it again, and it goes on with what is unchanged.")
        if wrong:
            self.report.disagree.append(f"{label}: {wrong}")
            self.outcomes[key] = False, f"FAILED, {wrong}"
            return self.outcomes[key]
        return self._measured(key, f"{seconds:.1f} s")

    def _measured(self, key: str, text: str) -> tuple[bool, str]:
        self.report.cells += 1
        self.outcomes[key] = True, text
        return self.outcomes[key]

    def _skip(self, key: str, reason: str) -> tuple[bool, str]:
        self.report.skipped[reason] += 1
        self.outcomes[key] = False, f"skipped, {reason}"
        return self.outcomes[key]
