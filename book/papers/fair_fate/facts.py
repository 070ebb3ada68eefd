"""What FAIR-FATE's text implies beyond its tables: facts of the datasets, and limits of its equations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairfl_book.experiments.base import Experiment, grid, named
from fairfl_lite.data import Partition
from fairfl_lite.methods import FairFate, FedAvg
from papers.fair_fate import tables as fair_fate


def counts(dataset: str) -> pd.DataFrame:
    """Rows, and the accuracy of the better constant classifier."""
    y = fair_fate.table(dataset).y
    return named({f"{dataset}.rows": len(y), f"{dataset}.majority": max(y.mean(), 1 - y.mean())})


def identities(dataset: str, seeds: Sequence[int]) -> pd.DataFrame:
    """The largest error of each limit over the printed grid, on the rows of `dataset`."""
    fed = fair_fate.federation(dataset, "0.5", seeds)
    methods = [fair_fate.method("fair-fate-sp", setting) for setting in fair_fate.settings("fair-fate-sp")]
    trust = np.array([[method.trust(t) for method in methods] for t in range(1, fair_fate.ROUNDS + 1)])  # type: ignore[attr-defined]
    caps = [setting["cap"] for setting in fair_fate.settings("fair-fate-sp")]
    assert (np.diff(trust, axis=0) >= 0).all()
    last = FairFate.published("sp", beta0=0.99, rounds=3)
    without = FairFate("eo", lambda0=0.0, rounds=3)
    return named(
        {
            "beta.last": np.abs(fed.run(last, 3, remember=("beta",)).memory["beta"][:, -1]).max(),
            "lambda.over": (trust - caps).max(),
            "lambda0.fedavg": np.abs(fed.run(without, 3).state.params - fed.run(FedAvg(), 3).state.params).max(),
            "dirichlet.iid": max(_far_from_equal(dataset, seed) for seed in seeds),
        }
    )


def _far_from_equal(dataset: str, seed: int) -> float:
    """Largest distance of a client's share of a (s, y) cell from 1 / clients, at a very large sigma."""
    rows, clients = fair_fate.table(dataset), fair_fate.CLIENTS[dataset][0]
    partition = Partition.dirichlet(1e9, clients, over="sensitive+label")
    drawn = partition.draw(rows, rows.split(seed, validation=fair_fate.HELD), seed).proportions
    return float(np.abs(drawn - 1 / clients).max())


EXPERIMENTS = (
    Experiment("fair-fate/counts", counts, grid(dataset=fair_fate.DATASETS), fair_fate.DATASETS),
    Experiment("fair-fate/identities", identities, grid(dataset=("compas",)), ("compas",), seeds=3),
)
