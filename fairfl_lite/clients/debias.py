"""Local debiasing: what a client does to its own training rows before it trains on them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args
from weakref import WeakKeyDictionary

import numpy as np

from fairfl_lite.data.shards import Examples, Shards
from fairfl_lite.errors import FairFLError

Kind = Literal["none", "local", "global", "fairbalance"]


class Asked(Protocol):
    """What debiasing asks of a federation."""

    @property
    def clients(self) -> int: ...

    @property
    def shards(self) -> Mapping[str, Shards]: ...

    def everybody(self) -> np.ndarray: ...

    def rng(self, purpose: str, t: int = 0) -> list[np.random.Generator]: ...

    def sum(self, messages: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Debias:
    """A `share` of the clients does `kind`, the others do `rest`.

    Which clients is drawn once per run, the same order for every share, so the clients of a smaller share are among those
    of a larger one. share = 1 is every client; share = 0 is `rest` alone; kind "none" changes nothing.
    """

    kind: Kind = "none"
    share: float = 1.0
    rest: Kind = "none"

    def __post_init__(self) -> None:
        for kind in (self.kind, self.rest):
            if kind not in get_args(Kind):
                raise FairFLError(f"There is no local debiasing {kind!r}: choose among {', '.join(get_args(Kind))}.")
        if not 0 <= self.share <= 1:
            raise FairFLError(f"The share of debiasing clients must be between 0 and 1, not {self.share}.")

    def choices(self, fed: Asked) -> np.ndarray:
        """What each client does, [run, client]."""
        place = np.stack([rng.permutation(fed.clients) for rng in fed.rng("debias")])
        return np.where(place < round(self.share * fed.clients), self.kind, self.rest)

    def rows(self, fed: Asked, who: np.ndarray | None = None) -> Shards:
        """The rows that the clients train on; `who` [run, participant] are those whose counts make the global weights (all).

        Those for all are made once for each federation. A client without rows has nothing to debias.
        """
        if who is not None:
            return self._rows(fed, who)
        made = _MADE.setdefault(fed, {})
        if self not in made:
            made[self] = self._rows(fed, None)
        return made[self]

    def _rows(self, fed: Asked, who: np.ndarray | None) -> Shards:
        choices, shards = self.choices(fed), fed.shards["train"]
        if np.isin(choices, ("local", "global")).any():
            census = shards.census()
            asked = fed.everybody() if who is None else who
            counted = np.where((asked >= 0)[..., None, None], np.take_along_axis(census, asked[..., None, None], 1), 0)
            kinds = {"local": reweighing(census), "global": reweighing(fed.sum(counted))[:, None]}
            weights = np.ones(census.shape)
            for kind, table in kinds.items():
                weights = np.where((choices == kind)[..., None, None], table, weights)
            shards = shards.weighted(weights)
        if (choices == "fairbalance").any():
            if shards.X.ndim != 2 or shards.examples.classes != 2:
                raise FairFLError("FairBalance fills up the rarer of two labels in a table: it has no meaning for other data.")
            shards = fairbalance(fed, shards, (choices == "fairbalance") & (shards.sizes > 0))
        return shards


_MADE: MutableMapping[Asked, dict[Debias, Shards]] = WeakKeyDictionary()


def require_debias(value: object) -> None:
    if not isinstance(value, Debias):
        raise FairFLError(f"Name the local debiasing as Debias(...), for example Debias('local'), not {value!r}.")


def reweighing(census: np.ndarray) -> np.ndarray:
    """Kamiran and Calders: P(a) P(y) / P(a, y) from counts [..., group, label]; 1 where there is nobody.

    Under these weights y does not depend on a. A client of one group has weights 1.
    """
    n, by_a, by_y = census.sum((-2, -1), keepdims=True), census.sum(-1, keepdims=True), census.sum(-2, keepdims=True)
    full = census > 0
    return np.where(full, by_a * by_y / np.where(full, n * census, 1), 1.0)


def fairbalance(fed: Asked, shards: Shards, who: np.ndarray) -> Shards:
    """Class balancing inside clusters, without the sensitive attribute (Yan, Kao and Ferrara, 2020), for clients in `who`.

    The client's rows are clustered by k-means; the quarter that fits its cluster least is left out; then the rarer label
    of each cluster is filled up to parity with rows made between one of its rows and a neighbour of any label. k from
    2 to 9 maximises the silhouette. Ours differs in two points, for speed: the silhouette is measured to cluster centres
    instead of to all rows, and where a feature has 50 values or fewer a made row takes the middle value of its neighbours
    instead of a mixture. The attribute `a` of a made row is that of the row it starts from; training never reads it.
    """
    from threadpoolctl import threadpool_limits

    X, y, a, pieces, weights = [shards.X], [shards.y], [shards.a], [], []
    made_rows = len(shards.X)
    drawn = np.stack([rng.integers(2**31, size=fed.clients) for rng in fed.rng("fairbalance")])
    few = np.array([len(np.unique(column)) <= 50 for column in shards.X.T])
    done: dict[tuple[int, int], np.ndarray] = {}  # runs that differ only in a setting share their rows
    for r, k in np.ndindex(*shards.sizes.shape):
        rows = shards.rows(r, k)
        weight = shards.weight[shards.start[r, k] : shards.start[r, k + 1]] if shards.weight.size else None
        if who[r, k]:
            same = (int(shards.start[r, k]), int(drawn[r, k]))
            if same not in done:
                with threadpool_limits(1):  # its threads and those of the kernels would wait for each other
                    kept, new_X, new_y, new_a = _balance(shards, rows, few, np.random.default_rng(drawn[r, k]))
                for whole, new in ((X, new_X), (y, new_y), (a, new_a)):
                    whole.append(new)
                done[same] = np.concatenate([kept, np.arange(made_rows, made_rows + len(new_X))])
                made_rows += len(new_X)
            rows, weight = done[same], None
        pieces.append(rows)
        weights.append(np.ones(len(rows), np.float32) if weight is None else weight)
    runs, clients = shards.sizes.shape
    grown = Examples(np.concatenate(X), np.concatenate(y), np.concatenate(a), shards.examples.classes, shards.examples.groups)
    dealt = Shards.deal(grown, [pieces[r * clients : (r + 1) * clients] for r in range(runs)])
    return replace(dealt, weight=np.concatenate(weights))


def _balance(shards: Shards, rows: np.ndarray, few: np.ndarray, rng: np.random.Generator):
    from sklearn.neighbors import NearestNeighbors

    X, y, a = shards.X[rows], shards.y[rows], shards.a[rows]
    label, fit = _clusters(X, rng)
    inside = fit >= np.quantile(fit, 0.25)
    made: list[list[np.ndarray]] = [[X[:0]], [y[:0]], [a[:0]]]
    for cluster in np.unique(label):
        members = np.flatnonzero((label == cluster) & inside)
        ones = y[members] == 1
        rare = members[ones] if ones.sum() <= (~ones).sum() else members[~ones]
        lacking = len(members) - 2 * len(rare)
        if len(rare) == 0 or lacking == 0:
            continue
        near = NearestNeighbors(n_neighbors=min(6, len(members))).fit(X[members])
        base = rng.integers(len(rare), size=lacking)
        neighbours = members[near.kneighbors(X[rare], return_distance=False)[:, 1:]]
        chosen = neighbours[base, rng.integers(neighbours.shape[1], size=lacking)] if neighbours.shape[1] else rare[base]
        between = X[rare[base]] + rng.random((lacking, 1), np.float32) * (X[chosen] - X[rare[base]])
        if neighbours.shape[1]:
            middle = np.sort(X[neighbours], axis=1)[:, (neighbours.shape[1] - 1) // 2]
            between[:, few] = middle[base][:, few]
        for whole, new in zip(made, (between, y[rare[base]], a[rare[base]]), strict=True):
            whole.append(new)
    return rows[inside], *map(np.concatenate, made)


def _clusters(X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cluster of each row, and its silhouette to centres (b - a) / max(a, b); k from 2 to 9 by the best mean."""
    from sklearn.cluster import KMeans

    best, result = -np.inf, (np.zeros(len(X), int), np.zeros(len(X)))
    sample = X if len(X) <= 2000 else X[rng.choice(len(X), 2000, replace=False)]
    for k in range(2, min(9, len(np.unique(sample, axis=0)) - 1) + 1):
        means = KMeans(k, n_init=2, random_state=int(rng.integers(2**31))).fit(sample)
        distance = np.sort(means.transform(X), axis=1)
        fit = (distance[:, 1] - distance[:, 0]) / np.maximum(distance[:, 1], 1e-12)
        if fit.mean() > best:
            best, result = fit.mean(), (means.predict(X), fit)
    return result
