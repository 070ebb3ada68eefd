"""Cells of an experiment on a Dask cluster, under the same keys and checkpoints as in this process.

A cell goes out as its settings and comes back as the text of its checkpoint, which this process keeps. So workers need no disk
in common with it, only the same package, libraries and processor, the same data, and the stored results that the cell reads:
each of them compares its own with ours before it measures, and one that differs is refused. Then the experiment is run as
always, and finds its cells kept.

A worker has one cell at a time, in one thread: start as many workers as there are cores. Schedulers and workers run code that
they are sent, so they belong into a network where nobody else can reach them.
"""

from __future__ import annotations

import logging
import pickle
import platform
import socket
import sys
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, process_time, sleep
from typing import Any

from tqdm import tqdm

from fairfl_book import results, settings
from fairfl_book.experiments.base import Experiment, Task, _one_thread, spent
from fairfl_lite import data, imports, store
from fairfl_lite.errors import BuildError, FairFLError

REACH = 20.0
"""Seconds for a scheduler that is somewhere else to take a connection, after which it counts as gone."""
HERE = 600.0
"""Seconds for one that is in this process, whose machine may be busy."""
DEATHS = 3
"""Workers that may end while they measure the same cell."""


def fingerprints(task: Task) -> dict[str, str]:
    """All that the numbers of a cell depend on beside its settings, by name; digests have 64 digits.

    FairFLError when data or a stored result is not on this machine.
    """
    from llvmlite.binding import get_host_cpu_name

    found = results.versions()
    del found["fairfl_lite"]  # the code counts, not what it is called
    found["processor"] = f"{platform.machine()} {get_host_cpu_name()}"  # other kinds round otherwise
    found[f"code of {task.measure.__module__}"] = imports.digest(task.measure.__module__)
    if printed := settings.digest(task.measure.__module__):
        found[f"printed settings of {task.measure.__module__}"] = printed
    for name in task.data:
        data.fetch(name)  # checks the files
        found[f"data {name}"] = data.digest(name)
    return found | {f"result {name}": results.digest(name) for name in task.reads}


def answer(task: Task, ours: Mapping[str, str]) -> tuple[str, str, float]:
    """What a worker says to a cell: ("text", the checkpoint), or ("refused" | "failed" | "broken", why); and how long it took.

    ours : the fingerprints where the cell was sent from. The time is that of the processor, in seconds.
    """
    began = process_time()
    kind, text = _answer(task, ours)
    return kind, text, process_time() - began


def _answer(task: Task, ours: Mapping[str, str]) -> tuple[str, str]:
    try:
        theirs = fingerprints(task)
    except FairFLError as error:
        return "refused", str(error)
    other = [f"other {name}" if len(theirs.get(name, "")) == 64 else f"{name} {theirs.get(name, 'missing')} instead of {value}"
             for name, value in ours.items() if theirs.get(name) != value]  # fmt: skip
    if other:
        return "refused", f"it has {', '.join(other)}"
    try:
        _one_thread()
        return "text", task.frame().to_csv(index=False, float_format="%.17g")  # as Task.frame writes it
    except FairFLError as error:
        return "failed", str(error)
    except Exception:
        return "broken", traceback.format_exc()


@dataclass
class Load:
    """What a sweep took. seconds : of processor time, by worker. out, back : bytes of what was sent, without what Dask adds."""

    seconds: dict[str, float] = field(default_factory=dict)
    cells: int = 0
    out: int = 0
    back: int = 0

    def __str__(self) -> str:
        whole, busiest = sum(self.seconds.values()), max(self.seconds.values(), default=0.0)
        return (
            f"{self.cells} cells by {_workers(len(self.seconds))}, {whole:.1f} s of processor time, {busiest:.1f} s by the"
            f" busiest; {self.out} bytes out, {self.back} bytes back"
        )


@dataclass(frozen=True)
class Cluster:
    """A cluster to measure on. client : of Dask. where : its address. patience : seconds to wait while there is no worker."""

    client: Any
    where: str
    patience: float = 60.0

    def measure(self, experiment: Experiment, **only: Any) -> None:
        """Measure the cells of an experiment that are not kept yet, and keep them where `Experiment.store` looks.

        only : as for `Experiment.part`.
        FairFLError when no worker can, BuildError when the cluster is lost or a cell fails: what was finished is kept.
        """
        experiment.part(**only)
        for name in experiment.data:
            data.fetch(name)
        tasks = {task.key(): task for task in experiment.tasks(keep=store.root() / ".fairfl" / "cells", **only)}
        missing = [key for key, task in tasks.items() if not store.kept_text(_path(task, key))]
        if not missing:
            return
        bar = tqdm(total=len(tasks), initial=len(tasks) - len(missing), desc=f"{experiment.name} on {self.where}")
        load = Load()
        with bar:
            for key, text, seconds in self._texts(experiment.name, {key: tasks[key] for key in missing}, load):
                path = _path(tasks[key], key)
                store.write_json(path.with_suffix(".json"), {"seconds": round(spent(path.with_suffix(".json")) + seconds, 1)})
                store.keep_text(path, text)
                bar.update()
        _say(f"{experiment.name}: {load}")

    def _texts(self, name: str, tasks: Mapping[str, Task], load: Load) -> Iterator[tuple[str, str, float]]:
        """The key of each task, its checkpoint, and the seconds it took, as they are finished.

        What a worker that ends had begun goes to another.
        """
        from distributed import CancelledError, wait
        from distributed.client import ClosedClientError

        ours = fingerprints(next(iter(tasks.values())))
        waiting = deque(tasks)
        flying: dict[str, tuple[str, Any]] = {}  # by worker its key and future
        refused: dict[str, str] = {}
        deaths: Counter[str] = Counter()
        seen = monotonic()
        try:
            while waiting or flying:
                here = set(self.client.nthreads())
                for gone in flying.keys() - here:
                    key, _ = flying.pop(gone)
                    waiting.appendleft(key)
                    deaths[key] += 1
                    if deaths[key] == DEATHS:
                        raise BuildError(f"The cell {tasks[key].cell} of {name} ended {DEATHS} workers: measure it without --on.")
                    _say(f"The worker {gone} ended, and its cell goes to another one.")
                for free in sorted(here - flying.keys() - refused.keys()):
                    if waiting:
                        key = waiting.popleft()
                        task = replace(tasks[key], keep=None)
                        flying[free] = key, self.client.submit(answer, task, ours, workers=[free], pure=False)
                        load.out += len(pickle.dumps((task, ours)))
                if flying:
                    seen = monotonic()
                elif here:
                    why = "; ".join(f"{worker}: {said}" for worker, said in refused.items() if worker in here)
                    raise FairFLError(f"No worker of {self.where} can measure {name}, for they are unlike this machine ({why}).")
                elif monotonic() - seen > self.patience:
                    raise FairFLError(
                        f"{self.where} has no worker: start some by `dask worker ADDRESS`, as many as there are cores."
                    )
                else:
                    sleep(0.2)
                    continue
                try:
                    wait([future for _, future in flying.values()], timeout=0.5, return_when="FIRST_COMPLETED")
                except TimeoutError:
                    continue  # to see who is still here
                for worker, (key, future) in [*flying.items()]:
                    if not future.done():
                        continue
                    kind, text, seconds = _said(future)
                    if kind == "gone":
                        continue
                    del flying[worker]
                    if kind == "text":
                        load.seconds[worker] = load.seconds.get(worker, 0.0) + seconds
                        load.cells += 1
                        load.back += len(text.encode())
                        yield key, text, seconds
                    elif kind == "refused":
                        refused[worker] = text.rstrip(".")
                        waiting.appendleft(key)
                        _say(f"The worker {worker} gets no cells of {name}: {refused[worker]}.")
                    elif kind == "failed":
                        raise FairFLError(text)
                    else:
                        raise BuildError(f"The cell {tasks[key].cell} of {name} failed on {worker}.\n{text}")
        except (OSError, CancelledError, ClosedClientError) as error:
            raise BuildError(
                f"The scheduler of {self.where} went away while {name} was measured: what was finished is kept; run the command"
                " again, with or without --on, and it goes on with the rest."
            ) from error


def _said(future: Any) -> tuple[str, str, float]:
    """The answer of a worker that is done with a cell; "gone" when it ended before it was asked for it."""
    if future.status == "error":  # before `answer` was begun: the package is missing there, or is another
        return "refused", f"it cannot load the cell ({str(future.exception()).partition(chr(10))[0]})", 0.0
    try:
        return future.result(timeout=10)
    except TimeoutError:
        return "gone", "", 0.0


def _path(task: Task, key: str) -> Path:
    assert task.keep is not None
    return task.keep / f"{key}.csv"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _say(line: str) -> None:
    tqdm.write(line, file=sys.stderr)


@contextmanager
def dask(scheduler: str | None = None, workers: int | None = None, patience: float = 60.0) -> Iterator[Cluster]:
    """The cluster of a scheduler, or one on this machine of so many processes (two if not said), which end with it.

    FairFLError when no scheduler answers.
    """
    import dask
    from distributed import Client, LocalCluster
    from distributed.comm import get_address_host_port

    for logger in ("distributed", "distributed.client"):  # what goes wrong is said here, in a sentence
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    options = {
        "distributed.comm.timeouts.connect": REACH if scheduler else HERE,
        "distributed.scheduler.worker-ttl": None,  # a long kernel keeps its process from saying that it lives
        "distributed.worker.daemon": False,  # a cell may start processes of its own
    }
    with dask.config.set(options), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on versions: each worker compares those that count
        if scheduler is None:
            folder = store.root() / ".fairfl" / "tmp"
            workers = workers or 2
            local = LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
                                 memory_limit=None, local_directory=folder, silence_logs=logging.CRITICAL)  # fmt: skip
            with local, Client(local) as client:
                yield Cluster(client, f"{_workers(workers)} here", patience)
            return
        try:
            socket.create_connection(get_address_host_port(scheduler), timeout=REACH).close()
            client = Client(scheduler, timeout=REACH)
        except (OSError, ValueError, TypeError) as error:
            raise FairFLError(
                f"No Dask scheduler answers at {scheduler!r}: start one by `dask scheduler`, and write its address as tcp://HOST:8786."
            ) from error
        with client:
            yield Cluster(client, scheduler, patience)
