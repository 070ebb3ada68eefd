"""Rows as they were dealt: who holds which rows of one shared table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Shards:
    """Ragged rows of clients: client k of run r has rows index[start[r, k]:start[r, k + 1]] of the shared X, y, a."""

    X: np.ndarray
    y: np.ndarray
    a: np.ndarray
    index: np.ndarray
    start: np.ndarray
    weight: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32))

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, a: np.ndarray, rows: Iterable[Sequence[np.ndarray]]) -> Shards:
        """From rows[run][client], arrays of row numbers; taken run by run, so that a generator keeps memory small."""
        sizes, pieces = [], [np.empty(0, np.int32)]
        for run in rows:
            sizes.append([len(client) for client in run])
            pieces += [np.asarray(client, np.int32) for client in run]
        size = np.array(sizes, np.int64).reshape(len(sizes), -1)
        ends = size.cumsum().reshape(size.shape)
        return cls(X, y, a, np.concatenate(pieces), np.concatenate([ends[:, :1] - size[:, :1], ends], axis=1))

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.start, axis=1)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in ("X", "y", "a", "index", "start", "weight"))

    def rows(self, run: int, client: int) -> np.ndarray:
        return self.index[self.start[run, client] : self.start[run, client + 1]]

    def head(self, most: int) -> Shards:
        """The first `most` rows of each client."""
        kept = [[self.rows(r, k)[:most] for k in range(self.sizes.shape[1])] for r in range(len(self.start))]
        return Shards.of(self.X, self.y, self.a, kept)

    def cells(self) -> np.ndarray:
        """Row counts by group and label, [run, client, a, y]."""
        out = np.zeros((*self.sizes.shape, 2, 2), np.int64)
        for r, k in np.ndindex(*self.sizes.shape):
            rows = self.rows(r, k)
            out[r, k] = np.bincount(2 * self.a[rows] + self.y[rows], minlength=4).reshape(2, 2)
        return out

    def weighted(self, cells: np.ndarray) -> Shards:
        """The same rows, each weighing what its client gives to its (group, label): cells [run, client, a, y]."""
        weight = np.empty(self.index.size, np.float32)
        for r, k in np.ndindex(*self.sizes.shape):
            rows = self.rows(r, k)
            weight[self.start[r, k] : self.start[r, k + 1]] = cells[r, k][self.a[rows], self.y[rows]]
        return replace(self, weight=weight)


def standardisation(shards: Shards) -> tuple[np.ndarray, np.ndarray]:
    """Mean and 1/sd of each run's rows, [run, d] float32 (scale 1 where a feature is constant)."""
    shift, scale = np.empty((len(shards.start), shards.X.shape[1])), np.ones((len(shards.start), shards.X.shape[1]))
    for r, start in enumerate(shards.start):
        rows = shards.index[start[0] : start[-1]]
        for j, column in enumerate(shards.X.T):  # a column at a time: no copy of the run's rows in double precision
            values = column[rows].astype(np.float64)
            sd = values.std()
            shift[r, j] = values.mean()
            if sd > 1e-6:
                scale[r, j] = 1 / sd
    return shift.astype(np.float32), scale.astype(np.float32)
