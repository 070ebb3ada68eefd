"""Cells on a Dask cluster of real processes: the bytes of a local run, whoever dies, and nobody who differs takes part."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small import ROOT

from fairfl_lite import results, store
from fairfl_lite.errors import BuildError, FairFLError
from fairfl_lite.experiments import clusters

EXTRA = ROOT / ".dask"
LOCAL = "127.0.0.1"
TOY = """
import os, time
from pathlib import Path
import numpy as np, pandas as pd
from fairfl_lite import metrics, results
from fairfl_lite.errors import FairFLError
from fairfl_lite.experiments.base import Experiment

def measure(level, seeds):
    time.sleep(0.4)
    if level == "wrong":
        raise FairFLError("This level is wrong.")
    if level == "broken":
        raise ZeroDivisionError("a slip")
    if level == "deadly":
        os.kill(os.getpid(), 9)
    before = results.load("toy/before")["value"][0]
    values = [float(np.random.default_rng([s, int(level)]).normal() / 3 + before) for s in seeds]
    return pd.DataFrame({"level": level, "seed": list(seeds), "metric": "acc", "value": values})

def toy(*levels):
    cells = [{"level": level} for level in levels]
    return Experiment("toy/levels", measure, cells, ("synthetic",), reads=("toy/before",), seeds=3)
"""


@pytest.fixture(scope="module", autouse=True)
def extra() -> Iterator[None]:
    """Dask is beside the environment, and behind it on the path."""
    assert EXTRA.is_dir(), "make test installs Dask into .dask: run make .dask/.installed"
    before = [*sys.path]
    sys.path.append(str(EXTRA))
    yield
    sys.path[:] = before


class Processes:
    """A scheduler and workers, each a process of its own, as somebody would start them by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, subprocess.Popen] = {}
        self.address = ""

    def start(self, name: str, *arguments: str, before: tuple[Path, ...] = (), **variables: str) -> None:
        path = os.pathsep.join(map(str, (*before, self.folder / "code", ROOT, EXTRA)))
        env = {**os.environ, "PYTHONPATH": path, **variables}
        log = (self.folder / f"{name}.log").open("w")
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], "--host", LOCAL, "--no-dashboard", *arguments[1:]]
        self.started[name] = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=self.folder)

    def scheduler(self) -> str:
        self.start("scheduler", "dask_scheduler", "--port", "0")
        log, ends = self.folder / "scheduler.log", time.monotonic() + 40
        while not (found := re.findall(r"Scheduler at: +(tcp://\S+)", log.read_text())):
            assert time.monotonic() < ends, log.read_text()
            time.sleep(0.05)
        self.address = found[0]
        return self.address

    def worker(self, name: str, **options: Any) -> None:
        memory = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--local-directory", str(self.folder / name))
        self.start(name, "dask_worker", self.address, "--name", name, *memory, **options)

    def kill(self, name: str) -> None:
        self.started[name].send_signal(signal.SIGKILL)

    def stop(self) -> None:
        for process in self.started.values():
            process.kill()
            process.wait()


def stored(root: Path, value: float) -> None:
    frame = pd.DataFrame({"name": ["a"], "value": [value]})
    results.save("toy/before", frame, parameters={}, seconds=1, command="test", datasets=())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dask")
    (folder / "code").mkdir()
    (folder / "code" / "toy_cells.py").write_text(TOY)
    return folder


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[Processes]:
    """A scheduler and two workers; the tests below use them up, in their order."""
    known = os.environ.get("FAIRFL_ROOT")
    os.environ["FAIRFL_ROOT"] = str(place)  # theirs too
    made = Processes(place)
    try:
        made.scheduler()
        made.worker("one")
        made.worker("two")
        yield made
    finally:
        made.stop()
        os.environ.pop("FAIRFL_ROOT")
        if known is not None:
            os.environ["FAIRFL_ROOT"] = known


@pytest.fixture
def toy(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """An experiment of these levels, in a project without any kept cell."""
    monkeypatch.setenv("FAIRFL_ROOT", str(place))
    monkeypatch.syspath_prepend(str(place / "code"))
    shutil.rmtree(place / ".fairfl", ignore_errors=True)
    stored(place, 0.25)
    import toy_cells

    return toy_cells.toy


def locally(experiment: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The result of a run in this process, in a project of its own."""
    with monkeypatch.context() as other:
        other.setenv("FAIRFL_ROOT", str(root))
        root.mkdir()
        stored(root, 0.25)
        experiment.store()
        return results.path(experiment.name).read_bytes()


def cells(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / ".fairfl" / "cells").glob("*.csv")}


def on_keeping(monkeypatch: pytest.MonkeyPatch, count: int, do: Callable[[], None]) -> list[Path]:
    """Call `do` a little after the cell with this number was kept; returns those that are."""
    kept: list[Path] = []
    write = store.keep_text

    def keep(path: Path, text: str) -> None:
        write(path, text)
        kept.append(path)
        if len(kept) == count:
            threading.Timer(0.2, do).start()  # others are in the middle of a cell then

    monkeypatch.setattr(store, "keep_text", keep)
    return kept


def test_a_killed_worker_and_the_bytes_of_a_local_run(cluster, toy, place, tmp_path, monkeypatch, capsys):
    experiment = toy(*map(str, range(8)))
    whole = locally(experiment, tmp_path / "local", monkeypatch)
    kept = on_keeping(monkeypatch, 3, lambda: cluster.kill("two"))
    with clusters.dask(cluster.address) as dask:
        dask.measure(experiment)
        assert len(kept) == len(cells(place)) == 8
        assert cells(place) == cells(tmp_path / "local"), "the checkpoints themselves are equal"
        experiment.store()
        assert len(kept) == 8, "nothing is measured twice"
        assert results.path(experiment.name).read_bytes() == whole
        monkeypatch.setattr(dask.client.__class__, "submit", None)
        dask.measure(experiment)  # what is kept is not sent
    assert capsys.readouterr().err.count("ended, and its cell goes to another one") == 1


def test_a_worker_that_differs_is_refused_by_name(cluster, toy, place, monkeypatch, capsys):
    """Its package differs by a line that the cell's module imports, and it says to have another numpy."""
    other = place / "other"
    shutil.copytree(store.PACKAGE, other / "fairfl_lite", ignore=shutil.ignore_patterns("__pycache__"))
    changed = other / "fairfl_lite" / "metrics.py"
    changed.write_text(f"{changed.read_text()}\nANOTHER = 1\n")
    (other / "numpy-9.9.dist-info").mkdir()
    (other / "numpy-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
    cluster.worker("other", before=(other,))
    with clusters.dask(cluster.address) as dask:
        ends = time.monotonic() + 40
        while len(dask.client.nthreads()) < 2:
            assert time.monotonic() < ends, (place / "other.log").read_text()
            time.sleep(0.1)
        (name,) = (a for a, w in dask.client.scheduler_info()["workers"].items() if w["name"] == "other")
        said = on_keeping(monkeypatch, 0, lambda: None)
        dask.measure(toy("1", "2", "3"))
        assert len(said) == 3
        err = capsys.readouterr().err
        assert (
            err.count("gets no cells")
            == err.count(f"The worker {name} gets no cells of toy/levels: it has numpy 9.9 instead")
            == 1
        )
        assert "other code of toy_cells" in err and "pandas" not in err
        cluster.kill("other")
        cluster.started["other"].wait()


def test_what_goes_wrong_in_a_cell_is_said_as_here(cluster, toy, place):
    with clusters.dask(cluster.address) as dask:
        with pytest.raises(FairFLError, match="^This level is wrong.$"):
            dask.measure(toy("wrong"))
        with pytest.raises(BuildError, match="(?s)'broken'.* failed on tcp://.*ZeroDivisionError: a slip"):
            dask.measure(toy("broken"))
        stored(place, 0.5)
        experiment = toy("4")
        with pytest.MonkeyPatch.context() as here:
            here.setattr(clusters, "fingerprints", lambda task: {"result toy/before": "0" * 64})
            with pytest.raises(FairFLError, match="No worker of tcp://.* can measure toy/levels: .* other result toy/before"):
                dask.measure(experiment)
    assert cells(place) == {}


def test_a_scheduler_that_goes_away_loses_nothing(cluster, toy, place, tmp_path, monkeypatch):
    experiment = toy(*map(str, range(4)))
    whole = locally(experiment, tmp_path / "local", monkeypatch)
    kept = on_keeping(monkeypatch, 2, lambda: cluster.kill("scheduler"))
    with (
        clusters.dask(cluster.address) as dask,
        pytest.raises(BuildError, match="went away .* is kept; run the command again") as lost,
    ):
        dask.measure(experiment)
    assert len(str(lost.value).split(". ")) == 1 and cluster.address in str(lost.value)
    before = cells(place)
    assert 2 <= len(before) < 4
    experiment.store()  # here, without a cluster
    assert len(kept) == 4 and before.items() <= cells(place).items()
    assert results.path(experiment.name).read_bytes() == whole
    ends = time.monotonic() + 30  # workers without a scheduler end by themselves
    while cluster.started["one"].poll() is None:
        assert time.monotonic() < ends
        time.sleep(0.1)
