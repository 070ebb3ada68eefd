"""A federation whose fair direction is known, to watch FAIR-FATE at work. Nothing in results/ comes from here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairfl_lite.clients import ClientTraining
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards, Standard
from fairfl_lite.models import Dense
from fairfl_lite.streams import stream

FEATURES = ("merit", "proxy")
FAIR_DIRECTION = np.array([0.0, -1.0, 0.0])  # of (w_merit, w_proxy, b): the proxy weighs less
LOCAL = ClientTraining("sgd", 0.1, 0.0, epochs=5, batch_size=10)


def people(rng: np.random.Generator, n: int, refused: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n rows (X [n, 2], y [n], a [n]): half of them of each group, on average.

    merit ~ N(0, 1) in both groups and P(y = 1) = sigmoid(3 merit), so the best model does not use the proxy, which is
    a's sign (+1 for a = 1, -1 for a = 0) and noise of sd 1. A share `refused` of the y = 1 of a = 0 is recorded as 0.
    """
    a = rng.integers(0, 2, n).astype(np.int8)
    merit, noise = rng.normal(size=(2, n))
    y = rng.random(n) < 1 / (1 + np.exp(-3 * merit))
    y &= (a == 1) | (rng.random(n) >= refused)
    return np.column_stack([merit, 2 * a - 1 + noise]).astype(np.float32), y.astype(np.int8), a


def federation(seeds: Sequence[int], *, clients: int = 10, fair: int = 3, participants: int = 3, rows: int = 100,
               refused: float = 0.6, server: int = 2000, local: ClientTraining = LOCAL) -> Federation:  # fmt: skip
    """Logistic regression on merit and proxy. The first `fair` clients have true labels, the others' are biased against
    a = 0 (see people). Validation and test rows are `server` each, at the server, with true labels; each seed has its own
    rows.
    """
    if not 0 <= fair <= clients:
        raise FairFLError(f"Of {clients} clients, {fair} cannot be fair: give a number from 0 to {clients}.")
    made: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    runs = []
    for seed in seeds:
        rng = stream(seed, "fair-fate toy")
        sizes = [*([rows] * clients), server, server]
        first = sum(len(part[1]) for part in made)
        made += [people(rng, n, refused if fair <= k < clients else 0.0) for k, n in enumerate(sizes)]
        runs.append(np.split(first + np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    X, y, a = (np.concatenate(parts) for parts in zip(*made, strict=True))
    parts = {"train": slice(0, clients), "validation": slice(clients, clients + 1), "test": slice(clients + 1, None)}
    shards = {part: Shards.of(X, y, a, [run[which] for run in runs]) for part, which in parts.items()}
    inputs = Standard.plain(len(runs), len(FEATURES))
    return Federation(shards, Dense(len(FEATURES)), local, tuple(seeds), inputs, participants=participants)


def cosine(v: np.ndarray, direction: np.ndarray = FAIR_DIRECTION) -> np.ndarray:
    """Cosine between v [..., P] and a direction [P], [...]; NaN where v is 0."""
    length = np.linalg.norm(v, axis=-1) * np.linalg.norm(direction)
    return np.where(length > 0, v @ direction / np.where(length > 0, length, 1.0), np.nan)
