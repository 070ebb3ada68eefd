"""Five lenders, some of whose records work against one group: one sees what FairFed does. Nothing in results/ comes from here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import choose
from fairfl_lite.federation import Federation, Shards, Standard
from fairfl_lite.models import Dense
from fairfl_lite.streams import stream

LENDERS = {"North": 1000, "East": 1000, "West": 1000, "Coast": 1000, "South": 1500}
"""Each lender's training rows; it has as many test rows."""
FEATURES = ("income", "district")
LOCAL = ClientTraining("sgd", 0.1, 0.0, epochs=2, batch_size=50)


def customers(rng: np.random.Generator, n: int, apart: bool, refused: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features [n, 2], labels [n] and groups [n] of n customers of one lender.

    income ~ N(0, 1) in both groups and P(y = 1) = sigmoid(2 income), so whoever would repay has nothing to do with the
    district (+1 or -1). Where the groups live `apart`, 95 % of group 1 live in district +1 and 95 % of group 0 in -1. Of group
    0's customers with y = 1 a share `refused` is recorded as y = 0.
    """
    a = rng.integers(0, 2, n).astype(np.int8)
    income = rng.normal(size=n)
    own = rng.random(n) < (0.95 if apart else 0.5)
    y = rng.random(n) < 1 / (1 + np.exp(-2 * income))
    y &= (a == 1) | (rng.random(n) >= refused)
    return np.column_stack([income, np.where(own, 2 * a - 1, 1 - 2 * a)]).astype(np.float32), y.astype(np.int8), a


def federation(seeds: Sequence[int], biased: Collection[str] = ("South",), *, refused: float = 0.8) -> Federation:
    """Logistic regression on income and district for the five LENDERS; the records of the `biased` ones work against group 0.

    There the groups live in different districts and a share `refused` of group 0's good customers is recorded as bad, so a
    model trained there learns to use the district. Test rows have true labels everywhere.
    """
    biased = {choose(name, LENDERS, "lender") for name in biased}
    made: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    runs: dict[str, list[list[np.ndarray]]] = {"train": [], "test": []}
    first = 0
    for seed in seeds:
        rng = stream(seed, "fairfed toy")
        for part, of_run in runs.items():
            clients = []
            for name, n in LENDERS.items():
                made.append(customers(rng, n, name in biased, refused if part == "train" and name in biased else 0.0))
                clients.append(first + np.arange(n))
                first += n
            of_run.append(clients)
    X, y, a = (np.concatenate(parts) for parts in zip(*made, strict=True))
    shards = {part: Shards.of(X, y, a, of_run) for part, of_run in runs.items()}
    return Federation(shards, Dense(len(FEATURES)), LOCAL, tuple(seeds), Standard.plain(len(seeds), len(FEATURES)))
