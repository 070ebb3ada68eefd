"""`fairfl bench --spread`: how the time of a round falls with workers, for a federation that is spread over Dask workers.

The workers are processes of one thread on this machine. One of them, and two, are asked the same questions in turns. A round of
many clients of a network is several questions of PORTION clients, as of a method that has few models in memory at once. Beside
the seconds by the clock stand those of processors, of each worker and of the server, which other work on the machine disturbs
less. Of many alike questions some are asked, and the round is worked out from these.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairfl_book import bench, results
from fairfl_book.experiments import clusters
from fairfl_book.experiments.base import _one_thread
from fairfl_lite import data, store
from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import BuildError, FairFLError
from fairfl_lite.federation import Federation, alone
from fairfl_lite.federation.over import SpreadFederation
from fairfl_lite.models import LeNet

PORTION = 10
"""Clients of LeNet that are asked at once: their models are 65 MB."""
ASKED = 20
"""Of the questions of a round at most so many are asked, since they are alike."""
WORKERS = (1, 2)


def lenet(clients: int) -> Federation:
    """Clients with 60 images of MNIST each, who train one epoch in minibatches of ten."""
    local = ClientTraining("sgd", 0.01, 1e-4, 1, 10)
    return Federation.of_images(data.images("mnist"), [0.0] * clients, [0], local, LeNet(), train=60, test=1)


def table(clients: int) -> Federation:
    """Clients with 20 rows of a table each, who train as in FAIR-FATE."""
    return bench.federation((20,) * clients, 14, 10, bench.FAIR_FATE["local"], runs=1)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Size:
    """make : the federation of so many clients. most : how many of them are asked at once. repeats : of every question."""

    name: str
    make: Callable[[int], Federation]
    clients: int
    most: int
    repeats: int


SIZES = (
    *(Size("table", table, clients, 10**6, 7) for clients in (100, 1000, 10_000, 100_000)),
    *(Size("LeNet", lenet, clients, PORTION, repeats) for clients, repeats in ((10, 5), (100, 1), (1000, 1))),
)


@dataclass
class Taken:
    """What the questions to some workers took, a list entry each. workers : processor time of each worker, by question."""

    seconds: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    workers: list[list[float]] = field(default_factory=list)

    def ask(self, fed: SpreadFederation, params: np.ndarray, clients: np.ndarray) -> np.ndarray:
        one, run = fed.one(), fed.workers.client.run
        before = run(time.process_time)
        began, spent = time.perf_counter(), time.process_time()
        answer = alone(one.train(params, clients, 1))
        self.server.append(time.process_time() - spent)
        self.seconds.append(time.perf_counter() - began)
        after = run(time.process_time)
        self.workers.append([after[name] - before[name] for name in sorted(after)])
        return answer


def measured(size: Size, clients: Mapping[int, Any]) -> Iterator[dict[str, Any]]:
    """A row for each number of workers. clients : of Dask, by the number of their workers."""
    fed = size.make(size.clients)
    start = fed.one().init_params()
    portions = [np.arange(first, min(first + size.most, size.clients)) for first in range(0, size.clients, size.most)]
    asked = portions[:: -(-len(portions) // ASKED)]
    with ExitStack() as stack:
        spreads = {workers: stack.enter_context(fed.over(client)) for workers, client in clients.items()}
        taken = {workers: Taken() for workers in spreads}
        for spread in spreads.values():  # compiles
            Taken().ask(spread, start, portions[0][: 10 * len(clients)])
        before = {workers: spread.traffic.frame().loc["train"] for workers, spread in spreads.items()}
        for _ in range(size.repeats):
            for some in asked:
                answers = [taken[workers].ask(spread, start, some) for workers, spread in spreads.items()]
                gc.collect()  # models are large, and their number is small
                if any((answer != answers[0]).any() for answer in answers):
                    raise BuildError(f"{size.name}: the answer of {size.clients} clients depends on the number of workers.")
        for workers, spread in spreads.items():
            sent = (spread.traffic.frame().loc["train"] - before[workers]) * len(portions) / len(asked) / size.repeats
            yield row(size, workers, taken[workers], len(portions)) | {"MB out": _short(sent["bytes out"] / 1e6),
                                                                       "MB back": _short(sent["bytes back"] / 1e6)}  # fmt: skip


def row(size: Size, workers: int, taken: Taken, questions: int) -> dict[str, Any]:
    """The seconds of a round: of each question the least of its repeats, and the median; of processors the least.

    Questions of one round are alike, so the least is taken over those too.
    """
    busiest = [max(each) for each in taken.workers]
    return {
        "workload": size.name, "clients": size.clients, "workers": workers, "questions": questions, "asked": len(taken.seconds),
        "seconds": _short(questions * min(taken.seconds)),
        "seconds, median": _short(questions * statistics.median(taken.seconds)),
        "busiest worker": _short(questions * statistics.median(busiest)),
        "server": _short(questions * statistics.median(taken.server)),
    }  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def measure() -> Iterator[dict[str, Any]]:
    """What is known after each size."""
    sys.path.append(str(Path(sys.prefix) / "dask"))  # where the tests have Dask, if it is not installed otherwise
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise FairFLError("Dask is not installed: make .venv/dask/.installed installs it.") from None
    os.environ |= {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # of the workers, who are started with these
    data.fetch("mnist")
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        clients = {workers: stack.enter_context(clusters.dask(workers=workers)).client for workers in WORKERS}
        for client in clients.values():
            client.run(_one_thread)
        for size in SIZES:
            for one in measured(size, clients):
                rows.append(one)
                print(line(one), file=sys.stderr, flush=True)
            yield {"command": "fairfl bench --spread", "rows": rows, "git": results._git(), "versions": results.versions(),
                   "cpu": results._cpu(), "cores": os.cpu_count()}  # fmt: skip


def line(row: Mapping[str, Any]) -> str:
    return (f"{row['workload']:6} {row['clients']:7} clients, {row['workers']} workers: {row['seconds']:9.4f} s a round at best, "
            f"{row['seconds, median']:9.4f} in the middle; of processors {row['busiest worker']:.4f} s by the busiest worker, "
            f"{row['server']:.4f} s by the server; {row['MB out']:.4g} MB out, {row['MB back']:.4g} MB back")  # fmt: skip


def main() -> int:
    """Measure, and keep it in results/spread.json."""
    for found in measure():
        store.write_json(store.root() / "results" / "spread.json", found)
    return 0
