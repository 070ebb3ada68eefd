"""Cells on a Dask cluster of real processes: the bytes of a local run, whoever dies, and nobody who differs takes part."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dask_processes import EXTRA, Processes, installed
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from small import ROOT
from waiting import FOR_EVER, LONG, MARK, marked, until

from fairfl_book import cli, results
from fairfl_book.cli import main
from fairfl_book.experiments import clusters
from fairfl_book.experiments.base import Task
from fairfl_book.site import lock
from fairfl_lite import store
from fairfl_lite.errors import BuildError, FairFLError

pytestmark = pytest.mark.slow

HELD = "FAIRFL_HELD"
"""A worker that has this variable makes a file of that name in its first cell, and stays there."""
TOY = f"""
import os
from pathlib import Path
import numpy as np, pandas as pd
from fairfl_book import results
from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError
from fairfl_book.experiments.base import Experiment

def measure(level, seeds):
    if os.environ.get("{HELD}"):
        Path(os.environ["{HELD}"]).touch()
        {FOR_EVER}
    if level == "wrong":
        raise FairFLError("This level is wrong.")
    if level == "broken":
        raise ZeroDivisionError("a slip")
    before = results.load("toy/before")["value"][0]
    values = [float(np.random.default_rng([s, int(level)]).normal() / 3 + before) for s in seeds]
    return pd.DataFrame({{"level": level, "seed": list(seeds), "metric": "acc", "value": values}})

def toy(*levels):
    cells = [{{"level": level}} for level in levels]
    return Experiment("toy/levels", measure, cells, ("synthetic",), reads=("toy/before",), seeds=3)
"""


@pytest.fixture(scope="module", autouse=True)
def extra() -> Iterator[None]:
    with installed():
        yield


REACH = clusters.REACH


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler on a busy machine is not gone."""
    monkeypatch.setattr(clusters, "REACH", LONG)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """A client that did not connect is closed when it is collected: not while the next one starts, which holds the same lock."""
    yield
    gc.collect()


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
    """A scheduler and two workers, of whom the second stays in its first cell; the tests below use them up, in their order."""
    known = os.environ.get("FAIRFL_ROOT")
    os.environ["FAIRFL_ROOT"] = str(place)  # theirs too
    made = Processes(place)
    try:
        made.scheduler()
        made.worker("one")
        made.worker("two", **{HELD: str(place / "held")})
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
    """Call `do` when the cell with this number was kept; returns those that are."""
    kept: list[Path] = []
    write = store.keep_text

    def keep(path: Path, text: str) -> None:
        write(path, text)
        kept.append(path)
        if len(kept) == count:
            do()

    monkeypatch.setattr(store, "keep_text", keep)
    return kept


def test_a_killed_worker_and_the_bytes_of_a_local_run(cluster, toy, place, tmp_path, monkeypatch, capsys):
    experiment = toy(*map(str, range(8)))
    whole = locally(experiment, tmp_path / "local", monkeypatch)
    kept = on_keeping(monkeypatch, 0, lambda: None)

    def kill() -> None:
        until((place / "held").is_file)  # it is in the middle of a cell
        cluster.kill("two")

    with clusters.dask(cluster.address, patience=LONG) as dask:
        until(lambda: len(dask.client.nthreads()) == 2)
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        dask.measure(experiment)
        killer.join()
        assert len(kept) == len(cells(place)) == 8
        assert cells(place) == cells(tmp_path / "local"), "the checkpoints themselves are equal"
        experiment.store()
        assert len(kept) == 8, "nothing is measured twice"
        assert results.path(experiment.name).read_bytes() == whole
        monkeypatch.setattr(dask.client.__class__, "submit", None)
        dask.measure(experiment)  # what is kept is not sent
    err = capsys.readouterr().err
    assert err.count("ended, and its cell goes to another one") == 1
    back = sum(len(store.kept_text(path)) for path in (place / ".fairfl" / "cells").glob("*.csv"))
    assert "toy/levels: 8 cells by 1 worker, " in err and f" bytes out, {back} bytes back" in err


def test_a_worker_that_differs_is_refused_by_name(cluster, toy, place, monkeypatch, capsys):
    """Its package differs by a line that the cell's module imports, and it says to have another numpy."""
    other = place / "other"
    shutil.copytree(store.PACKAGE, other / "fairfl_lite", ignore=shutil.ignore_patterns("__pycache__"))
    changed = other / "fairfl_lite" / "metrics.py"
    changed.write_text(f"{changed.read_text()}\nANOTHER = 1\n")
    (other / "numpy-9.9.dist-info").mkdir()
    (other / "numpy-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 9.9\n")
    cluster.worker("other", before=(other,))
    with clusters.dask(cluster.address, patience=LONG) as dask:
        (name,) = until(lambda: [a for a, w in dask.client.scheduler_info()["workers"].items() if w["name"] == "other"])
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


def test_what_goes_wrong_in_a_cell_is_said_as_here(cluster, toy, place):
    with clusters.dask(cluster.address, patience=LONG) as dask:
        with pytest.raises(FairFLError, match="^This level is wrong.$"):
            dask.measure(toy("wrong"))
        with pytest.raises(BuildError, match="(?s)'broken'.* failed on tcp://.*ZeroDivisionError: a slip"):
            dask.measure(toy("broken"))
        stored(place, 0.5)
        experiment = toy("4")
        with pytest.MonkeyPatch.context() as here:
            here.setattr(clusters, "fingerprints", lambda task: {"result toy/before": "0" * 64})
            with pytest.raises(FairFLError, match="No worker of tcp://.* can measure toy/levels, for .*other result toy/before"):
                dask.measure(experiment)
    assert cells(place) == {}


def test_a_scheduler_that_goes_away_loses_nothing(cluster, toy, place, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "REACH", REACH)
    experiment = toy(*map(str, range(8)))
    whole = locally(experiment, tmp_path / "local", monkeypatch)
    kept = on_keeping(monkeypatch, 2, lambda: cluster.kill("scheduler"))
    with (
        clusters.dask(cluster.address, patience=LONG) as dask,
        pytest.raises(BuildError, match="went away .* is kept; run the command again") as lost,
    ):
        dask.measure(experiment)
    assert len(str(lost.value).split(". ")) == 1 and cluster.address in str(lost.value)
    before = cells(place)
    assert len(before) == 2
    experiment.store()  # here, without a cluster
    assert len(kept) == 8 and before.items() <= cells(place).items()
    assert results.path(experiment.name).read_bytes() == whole
    until(lambda: cluster.started["one"].poll() is not None)  # a worker without a scheduler ends by itself


HOLD = f"""
import sys
from fairfl_book import cli
from fairfl_lite import store
keep = store.keep_text

def hold(path, text):
    keep(path, text)
    {FOR_EVER}

store.keep_text = hold
sys.exit(cli.main(sys.argv[1:]))
"""


def fairfl(root: Path, mark: str, *arguments: str, code: tuple[str, str] = ("-m", "fairfl_book.cli")) -> subprocess.Popen:
    env = {**os.environ, "FAIRFL_ROOT": str(root), "PYTHONPATH": f"{ROOT}{os.pathsep}{EXTRA}", MARK: mark}
    return subprocess.Popen([sys.executable, *code, *arguments], env=env, text=True, stderr=subprocess.PIPE)


def test_two_local_workers_end_with_a_killed_command_and_the_next_one_goes_on(tmp_path):
    """Killed when it has kept one of its cells; then as people type it. The stored result says what its bytes must be."""
    command, marks = ("paper", "e2fl/facts", "--on", "dask"), [str(uuid.uuid4()) for _ in range(2)]
    first = fairfl(tmp_path, marks[0], *command, code=("-c", HOLD))
    until(lambda: cells(tmp_path), first)
    workers = [one for one in marked(marks[0]) if "spawn_main" in " ".join(one.cmdline())]
    assert len(workers) == 2
    first.kill()
    until(lambda: not marked(marks[0]))  # no orphans
    first.communicate()
    before = cells(tmp_path)
    assert len(before) == 1
    second = fairfl(tmp_path, marks[1], *command)
    _, err = second.communicate(timeout=LONG)
    assert second.returncode == 0, err
    assert "Traceback" not in err and "distributed" not in err and "1/6" in err
    until(lambda: not marked(marks[1]))
    assert before.items() <= cells(tmp_path).items() and len(cells(tmp_path)) == 6
    assert (tmp_path / "results/e2fl/facts.csv").read_bytes() == (ROOT / "results/e2fl/facts.csv").read_bytes()


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "tcp//127.0.0.1:8786", "127.0.0.1:port", "tcp://nobody.invalid:8786", "-"]
)
def test_no_scheduler_at_an_address_is_one_sentence(address, capsys):
    assert main(["paper", "e2fl/facts", "--on", "dask", "--scheduler", address]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"fairfl: No Dask scheduler answers at {address!r}: start one by") and err.count("\n") == 1


def test_without_dask_the_command_says_what_to_install(monkeypatch, capsys):
    with monkeypatch.context() as bare:
        bare.setattr(cli, "find_spec", lambda name: None)  # somebody may have it in .venv
        assert main(["paper", "e2fl/facts", "--on", "dask"]) == 2
    err = capsys.readouterr().err
    assert err == f"fairfl: Dask is not installed: {sys.executable} -m pip install -r requirements-dask.lock\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scheduler", "tcp://127.0.0.1:8786"), "write --on dask"),
        (("--workers", "2"), "write --on dask"),
        (("--on", "dask", "--workers", "0"), "at least 1"),
        (("--on", "dask", "--workers", "2", "--scheduler", "tcp://127.0.0.1:8786"), "leave it out"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(arguments, said, capsys):
    assert main(["paper", "e2fl/facts", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and said in err


def task(**fields: Any) -> Task:
    return Task(clusters.fingerprints, **{"cell": {}, "seeds": 1, "data": (), "reads": (), "keep": None, **fields})


def test_each_difference_is_a_reason_of_its_own(tmp_path, monkeypatch):
    """Before anything is measured: code, a library, the processor, an owner's data, a result that is read."""

    def refusal(asked: Task, ours: dict[str, str]) -> str:
        with pytest.MonkeyPatch.context() as no:
            no.setattr(Task, "frame", lambda self: pytest.fail("measured"))
            kind, why, _ = clusters.answer(asked, ours)
        assert kind == "refused"
        return why

    (tmp_path / "tiles").mkdir()
    (tmp_path / "tiles" / "tiles.csv").write_text("occupation\n")
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    monkeypatch.setenv("FAIRFL_DATA", str(tmp_path))
    stored(tmp_path, 0.25)
    asked = task(data=("tiles",), reads=("toy/before",))
    ours = clusters.fingerprints(asked)
    where = clusters.__name__
    assert {"numpy", "torch", "processor", "data tiles", "result toy/before", f"code of {where}"} <= set(ours)
    assert refusal(asked, {**ours, "numpy": "9.9"}).endswith("instead of 9.9")
    assert refusal(asked, {**ours, "processor": "another"}).endswith("instead of another")
    assert refusal(asked, {**ours, f"code of {where}": "0" * 64}) == f"it has other code of {where}"
    stored(tmp_path, 0.5)
    assert refusal(asked, ours) == "it has other result toy/before"
    stored(tmp_path, 0.25)
    (tmp_path / "tiles" / "tiles.csv").write_text("occupation,\n")
    assert refusal(asked, ours) == "it has other data tiles"
    (tmp_path / "tiles" / "tiles.csv").unlink()
    assert "tiles" in refusal(asked, ours)
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path / "tiles"))
    assert "no result toy/before" in refusal(task(reads=("toy/before",)), ours)


class Mortal:
    """A client whose workers end as soon as they are given a cell."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def nthreads(self) -> dict[str, int]:
        return {f"tcp://w{len(self.given)}": 1}

    def submit(self, *_: Any, workers: list[str], pure: bool) -> None:
        self.given += workers


def test_a_cell_that_ends_every_worker_is_given_up(monkeypatch, capsys):
    import distributed

    def late(*_: Any, **__: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr(distributed, "wait", late)
    client = Mortal()
    with pytest.raises(BuildError, match="'x': 1.* of toy/levels ended 3 workers: measure it without --on"):
        list(clusters.Cluster(client, "here")._texts("toy/levels", {"key": task(cell={"x": 1})}, clusters.Load()))
    assert len(client.given) == clusters.DEATHS == 1 + capsys.readouterr().err.count("goes to another one")


def test_only_the_chosen_cells_go_out(toy, monkeypatch):
    sent: list[str] = []

    def asked(self: Any, name: str, tasks: dict[str, Task], load: Any) -> Iterator[tuple[str, str]]:
        sent.extend(one.cell["level"] for one in tasks.values())
        return iter(())

    monkeypatch.setattr(clusters.Cluster, "_texts", asked)
    clusters.Cluster(None, "here").measure(toy("1", "2", "3"), level=["2"])
    assert sent == ["2"]
    with pytest.raises(FairFLError, match="leave --only out"):  # before anything is measured, and not when it is to be stored
        clusters.Cluster(None, "here").measure(replace(toy("1", "2"), finish=lambda frame: frame.head(1)), level=["1"])
    assert sent == ["2"]


def test_no_worker_at_all_is_one_sentence():
    client = Mortal()
    client.nthreads = dict  # type: ignore[method-assign, assignment]
    with pytest.raises(FairFLError, match="here has no worker: start some"):
        list(clusters.Cluster(client, "here", patience=0.3)._texts("toy/levels", {"key": task()}, clusters.Load()))


def test_the_extra_is_installed_whole_and_the_default_install_does_not_grow():
    wanted = tomllib.loads((ROOT / "book" / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dask"]
    extra, default = ({one.name: one.version for one in lock.read(ROOT / name)} for name in (lock.DASK, lock.LOCK))
    assert wanted == [f"{name}=={extra[name]}" for name in ("dask", "distributed")]
    assert not extra.keys() & default.keys()
    there = {canonicalize_name(one.name): one for one in metadata.distributions(path=[str(EXTRA)])}
    assert {name: one.version for name, one in there.items()} == extra
    for name, one in there.items():
        for needed in map(Requirement, one.requires or []):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                version = (extra | default).get(canonicalize_name(needed.name))
                assert version and needed.specifier.contains(version), f"{name} asks for {needed}"
