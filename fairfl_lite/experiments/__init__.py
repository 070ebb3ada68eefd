"""The papers' tables and figures as runs: what has to be measured for each, at which scale.

An experiment is a list of cells; a cell is a dictionary of settings and is measured by itself. Finished cells are
kept, so a run that was stopped goes on where it was and ends with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fairfl_lite.errors import choose
from fairfl_lite.experiments.base import Experiment
from fairfl_lite.experiments.clusters import Cluster
from fairfl_lite.experiments.e2fl import statements as e2fl_theory
from fairfl_lite.experiments.e2fl import tables as e2fl
from fairfl_lite.experiments.effl import facts as effl_facts
from fairfl_lite.experiments.effl import tables as effl
from fairfl_lite.experiments.fair_fate import facts as fair_fate_facts
from fairfl_lite.experiments.fair_fate import tables as fair_fate
from fairfl_lite.experiments.fairfed import facts as fairfed_facts
from fairfl_lite.experiments.fairfed import tables as fairfed
from fairfl_lite.experiments.rankff import failed as rankff_failed
from fairfl_lite.experiments.rankff import statements as rankff_theory
from fairfl_lite.experiments.rankff import tables as rankff
from fairfl_lite.experiments.replays import Replay, Report

_ROOMS = (fairfed, fairfed_facts, fair_fate, fair_fate_facts, rankff, rankff_failed, rankff_theory, effl, effl_facts, e2fl,
          e2fl_theory)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for room in _ROOMS for experiment in room.EXPERIMENTS}


def names() -> list[str]:
    return list(EXPERIMENTS)


def get(name: str) -> Experiment:
    return EXPERIMENTS[choose(name, EXPERIMENTS, "experiment named")]


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
