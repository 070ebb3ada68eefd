"""`python -m chaos.workers [TRIALS]`: a federation whose workers are killed, hang, or lose their scheduler, at random moments.

The run must end with the bytes of one that nobody disturbed: by itself where it was too late, after going on from what was kept
where it stopped, or as the simulation without those who were left out. What it says must be one sentence with their clients.
`make chaos` does it 50 times; it needs Dask, see `make .venv/dask/.installed`.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from dask_processes import Processes, installed
from waiting import LONG, until

from fairfl_lite import ClientTraining, FairFed, Federation, Partition, load
from fairfl_lite.errors import LostError

ROUNDS = 60
HANGS = 5.0
"""Seconds after which a worker that was stopped counts as lost."""
KINDS = ("a worker killed", "a worker killed, its clients left out", "a worker hangs", "the scheduler killed")


@dataclass(frozen=True)
class Trial:
    how: str
    after: float
    problems: tuple[str, ...]


class Cluster(Processes):
    """Two workers, who are replaced when they ended."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.count = 0

    def whole(self) -> list[str]:
        """A scheduler and two workers that are at work; their names."""
        if "scheduler" not in self.started or self.started["scheduler"].poll() is not None:
            self.stop()
            self.started.clear()
            (self.folder / "scheduler.log").unlink(missing_ok=True)
            self.scheduler()
        while len(names := [name for name, one in self.started.items() if one.poll() is None and name != "scheduler"]) < 2:
            self.count += 1
            self.worker(f"worker{self.count}", NUMBA_NUM_THREADS="1")
        return names


def federation() -> Federation:
    return Federation.of(load("synthetic"), Partition.random(5), range(2), ClientTraining(lr=0.1), validation=0.1)


def same(found: Any, wanted: Any) -> bool:
    return found.answer.tobytes() == wanted.answer.tobytes() and np.array_equal(found.counts["test"], wanted.counts["test"])


def tried(trials: int, seed: int = 0) -> Iterator[Trial]:
    rng, fed, method = random.Random(seed), federation(), FairFed(beta=1)
    wanted = fed.run(method, ROUNDS)
    with installed(), tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder))
        try:
            seconds = 0.0
            for turn in range(trials):
                how = KINDS[turn % len(KINDS)]
                names = cluster.whole()
                with connected(cluster, names) as client:
                    if not seconds:
                        with fed.over(client) as spread:
                            spread.run(method, 2)  # what compiles does so now
                            began = monotonic()
                            spread.run(method, ROUNDS)
                            seconds = monotonic() - began
                    after = seconds * rng.random()
                    kept = Path(folder) / f"kept{turn}"
                    yield Trial(
                        how, after, tuple(_problems(cluster, client, how, after, rng.choice(names), fed, method, wanted, kept))
                    )
        finally:
            cluster.stop()


def connected(cluster: Cluster, names: list[str]) -> Any:
    from distributed import Client

    client = Client(cluster.address, timeout=LONG)
    until(lambda: {one["name"] for one in client.scheduler_info(n_workers=-1)["workers"].values()} >= set(names))
    return client


def _problems(
    cluster: Cluster, client: Any, how: str, after: float, name: str, fed: Federation, method: FairFed, wanted: Any, kept: Path
) -> Iterator[str]:
    leaves = how.endswith("left out")
    spread = fed.over(client, lost="leave out" if leaves else "stop", patience=LONG)
    spread.workers.patience = HANGS if how.endswith("hangs") else LONG  # a new worker takes long to begin
    where = {one["name"]: address for address, one in client.scheduler_info(n_workers=-1)["workers"].items()}
    clients = spread.clients_of([where[name]])
    process = cluster.started["scheduler" if how.startswith("the scheduler") else name]
    timer = threading.Timer(after, process.send_signal, [signal.SIGSTOP if how.endswith("hangs") else signal.SIGKILL])
    timer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = spread.run(method, ROUNDS, checkpoint_dir=kept)
        if leaves:
            if set(found.gone) not in (set(), set(clients)):
                yield f"clients {sorted(found.gone)} were left out, and {clients} were lost"
            if not same(found, replace(fed, gone=found.gone).run(method, ROUNDS)):
                yield f"not the simulation without {found.gone}"
        elif not same(found, wanted):
            yield "it ended with other bytes"
    except LostError as lost:
        other = not how.endswith("hangs") and not set(clients) <= set(lost.clients)  # a busy machine may be late with anybody
        if leaves or str(lost).count(". ") or other:
            yield f"it said: {lost}"
    finally:
        timer.cancel()
        timer.join()
        process.kill()  # one that hangs, or that was to be
        process.wait()
        if not how.startswith("the scheduler"):
            spread.close()
    if not leaves and not same(fed.run(method, ROUNDS, checkpoint_dir=kept), wanted):
        yield "what went on ended with other bytes"


def main(trials: int) -> int:
    bad = 0
    for number, trial in enumerate(tried(trials), 1):
        bad += bool(trial.problems)
        print(f"{number:>3} {trial.how} after {trial.after:.2f} s: {'; '.join(trial.problems) or 'same'}", flush=True)
    print(f"{trials} trials, {bad} bad")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
