"""The experiments of all papers, found in their folders: those of a module stand in its EXPERIMENTS."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache, partial
from graphlib import TopologicalSorter
from importlib import import_module

import papers
from fairfl_book.experiments.base import Experiment
from fairfl_book.experiments.clusters import Cluster
from fairfl_book.experiments.replays import Replay, Report
from fairfl_lite.errors import FairFLError, choose

DISCOVERS = "papers"


@cache
def every() -> dict[str, Experiment]:
    """All experiments by name, each behind those whose results it reads."""
    found: dict[str, Experiment] = {}
    for module in pkgutil.walk_packages(papers.__path__, "papers."):
        for experiment in getattr(import_module(module.name), "EXPERIMENTS", ()):
            if experiment.name in found:
                raise FairFLError(f"Two experiments are called {experiment.name}: give the one in {module.name} another name.")
            found[experiment.name] = experiment
    order = TopologicalSorter({name: [read for read in one.reads if read in found] for name, one in found.items()})
    return {name: found[name] for name in order.static_order()}


def names() -> list[str]:
    return list(every())


def get(name: str) -> Experiment:
    return every()[choose(name, every(), "experiment named")]


def run(name: str, only: Mapping[str, Sequence[str]] | None = None, cluster: Cluster | None = None) -> None:
    """Measure one experiment at the paper's scale and store it in results/; `only` these values of its settings, as words.

    cluster : where its cells are measured, in this process if none is given.
    """
    experiment = get(name)
    chosen = {}
    for setting, words in (only or {}).items():
        known = {str(cell[setting]): cell[setting] for cell in experiment.cells if setting in cell}
        if not known:
            choose(setting, list(experiment.cells[0]), f"setting of {name}")
        chosen[setting] = [known[choose(word, known, f"{setting} of {name}")] for word in words]
    if cluster is not None:
        cluster.measure(experiment, **chosen)
    experiment.store(**chosen)


def replay(chosen: Sequence[str] = (), limit: float = 60.0) -> Report:
    """Measure the cells of these experiments (none named: of all) again, compare them with results/, and print how it goes.

    A cell that takes more than `limit` seconds, or whose data are not on this machine, is skipped.
    """
    report = Replay(limit, partial(print, flush=True)).run([get(name) for name in chosen or names()])
    print(report)
    return report
