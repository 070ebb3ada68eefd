"""Local debiasing: what a client does to its own training rows before it trains on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from fairfl_lite import streams
from fairfl_lite.data.shards import Examples
from fairfl_lite.errors import FairFLError

if TYPE_CHECKING:
    from fairfl_lite.engines import Work
    from fairfl_lite.federation.one import OneFederation, Request

Kind = Literal["none", "local", "global", "fairbalance"]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What clients do to their own rows before they train on them.

    weights : what a row of each group and label weighs, [client, group, label]; None where all weigh alike. balanced : which
    clients fill up their rarer label, see `fairbalance`, [client]; None for nobody. Their rows all weigh alike. group : train on
    the rows of this group alone; None for all.
    """

    weights: np.ndarray | None = None
    balanced: np.ndarray | None = None
    group: int | None = None

    @cached_property
    def key(self) -> bytes:
        """What tells two of them apart."""
        arrays = [b"" if part is None else part.tobytes() for part in (self.weights, self.balanced)]
        return b"|".join([*arrays, str(self.group).encode()])


@dataclass(frozen=True)
class Debias:
    """What clients do to their own rows before they train, and which of the clients do it.

    Which clients is drawn once per run, in the same order for every share, so the clients of a smaller share are among those
    of a larger one. ``share=1`` is every client, ``share=0`` is `rest` alone, and kind "none" changes nothing.

    Parameters
    ----------
    kind : {"none", "local", "global", "fairbalance"}
        "local" reweighs rows by ``P(a) P(y) / P(a, y)`` of the client's own counts (Kamiran and Calders), "global" by that of
        the counts of all who take part, and "fairbalance" fills up the rarer label in clusters of the client's rows.
    share : float
        Which share of the clients does it, from 0 to 1.
    rest : {"none", "local", "global", "fairbalance"}
        What the other clients do.

    Examples
    --------
    >>> from fairfl_lite import ClientTraining, Debias, FedAvg, Federation, Partition, load
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), ClientTraining(lr=0.1))
    >>> half = Debias("local", share=0.5)
    >>> fed.run(FedAvg(half), rounds=2)
    History('fedavg', seeds=0, rounds=2, recorded on test)

    The examples of the methods below go on from these lines.
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

    def kinds(self, fed: OneFederation) -> np.ndarray:
        """What each of all clients does.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.

        Returns
        -------
        ndarray of str, shape (n,)

        Examples
        --------
        >>> sorted(half.kinds(fed.one()).tolist())
        ['local', 'local', 'none', 'none']
        """
        return np.where(fed.rng("debias").permutation(fed.n) < round(self.share * fed.n), self.kind, self.rest)

    async def training_rows(self, fed: OneFederation, clients: np.ndarray) -> TrainingRows | None:
        """What these clients do to their rows before they train, as `OneFederation.train` takes it.

        Weights of kind "global" come from the counts of all that are named, added up; those of "local" from each client's
        own.

        Parameters
        ----------
        fed : OneFederation
            The clients of one seed.
        clients : ndarray of int, shape (n_clients,)
            Who trains.

        Returns
        -------
        TrainingRows, or None where nobody does anything

        Examples
        --------
        >>> rows = fed.ask(lambda one: half.training_rows(one, one.all_clients))[0]
        >>> rows.weights.shape
        (4, 2, 2)
        """
        key = (self, clients.tobytes())
        if key not in fed.remembered:  # the same in every round with the same clients
            fed.remembered.clear()
            fed.remembered[key] = await self._training_rows(fed, clients)
        return fed.remembered[key]

    async def _training_rows(self, fed: OneFederation, clients: np.ndarray) -> TrainingRows | None:
        kinds = self.kinds(fed)[clients]
        weights = None
        if np.isin(kinds, ("local", "global")).any():
            counts = await fed.group_label_counts(clients)
            tables = {"local": reweighing(counts)}
            if (kinds == "global").any():
                tables["global"] = reweighing(fed.sum(counts))
            weights = np.ones(counts.shape)
            for kind, table in tables.items():
                weights = np.where((kinds == kind)[:, None, None], table, weights)
        balanced = kinds == "fairbalance"
        return TrainingRows(weights, balanced) if weights is not None or balanced.any() else None


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


Balanced = dict[tuple[int, int], tuple[np.ndarray, ...]]
"""What `fairbalance` gave for a client of a run: made once, since it costs more than many rounds."""


def prepared(work: Work, requests: Sequence[Request], balanced: Balanced) -> Work:
    """The replicas of these requests to train, on their rows as each request's TrainingRows wants them. What several of them do
    alike, such as clients of one seed under several methods, is made once."""
    fed, examples, grown = requests[0].fed, work.examples, list[tuple[np.ndarray, ...]]()
    asked = [(request, i) for request in requests for i in range(len(request.clients))]
    made, first, index, weight, sizes = dict[Any, int](), list[int](), list[np.ndarray](), list[np.ndarray](), list[int]()
    for (request, i), start, stop in zip(asked, work.start, work.stop, strict=True):
        wanted: TrainingRows = request.own[1]
        by = None if wanted.weights is None else wanted.weights[i]
        fill = wanted.balanced is not None and bool(wanted.balanced[i]) and stop > start
        place = (request.run, int(request.clients[i]))
        key = (*place, fill, wanted.group, b"" if by is None or fill else by.tobytes())
        if key not in made:
            made[key], rows = len(sizes), work.index[start:stop]
            rows = rows if wanted.group is None else rows[examples.a[rows] == wanted.group]
            if fill:
                if place not in balanced:
                    balanced[place] = fairbalance(examples, rows, balancing_rng(fed.seeds[place[0]], fed.clients, place[1]))
                (rows, *new), by = balanced[place], None
                behind = len(examples) + sum(len(each[0]) for each in grown)
                grown.append(tuple(new))
                rows = np.concatenate([rows, np.arange(behind, behind + len(new[0]))]).astype(np.int32)
            index.append(rows)
            weight.append(
                np.ones(len(rows), np.float32) if by is None else by[examples.a[rows], examples.y[rows]].astype(np.float32)
            )
            sizes.append(len(rows))
        first.append(made[key])
    if grown:
        X, y, a = (
            np.concatenate([old, *(new[j] for new in grown)]) for j, old in enumerate((examples.X, examples.y, examples.a))
        )
        examples = Examples(X, y, a, examples.classes, examples.groups)
    ends = np.cumsum(sizes)
    return replace(work, examples=examples, index=np.concatenate(index), weight=np.concatenate(weight),
                   start=(ends - sizes)[first], stop=ends[first])  # fmt: skip


def balancing_rng(seed: int, clients: int, client: int) -> np.random.Generator:
    """What one of so many clients draws from to balance its rows."""
    return np.random.default_rng(streams.stream(seed, "fairbalance", 0).integers(2**31, size=clients)[client])


def fairbalance(examples: Examples, own: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Class balancing inside clusters, without the sensitive attribute (Yan, Kao and Ferrara, 2020), of a client's `own` rows:
    those that it keeps, and X, y and a of those that it makes.

    The client's rows are clustered by k-means; the quarter that fits its cluster least is left out; then the rarer label
    of each cluster is filled up to parity with rows made between one of its rows and a neighbour of any label. k from
    2 to 9 maximises the silhouette. Ours differs in two points, for speed: the silhouette is measured to cluster centres
    instead of to all rows, and where a feature has 50 values or fewer a made row takes the middle value of its neighbours
    instead of a mixture. The attribute `a` of a made row is that of the row it starts from; training never reads it.
    """
    if examples.X.ndim != 2 or examples.classes != 2:
        raise FairFLError("FairBalance fills up the rarer of two labels in a table: it has no meaning for other data.")
    with threadpool_limits(1):  # its threads and those of the kernels would wait for each other
        return _filled(examples, own, examples.few_valued, rng)


def _filled(examples: Examples, rows: np.ndarray, few: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    from sklearn.neighbors import NearestNeighbors

    X, y, a = examples.X[rows], examples.y[rows], examples.a[rows]
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
