"""Which group a client belongs to: known from its rows, or inferred (E2FL, Section 5, Algorithms 2 and 3).

Rank clustering is done once, by the server, on rankings of everybody. The other three are done by a client each time it takes
part, from the groups' masks and its own training rows: the mask with the lowest loss, or a look at the superposition sum_q
alpha_q M_q of all masks. There the entropy H of the output says which mask to take more of: the one with the most negative
dH/dalpha_q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numba import njit

from fairfl_lite.clients.debias import TrainingRows
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Models, OneFederation
from fairfl_lite.methods.frl import supernet
from fairfl_lite.methods.settings import require_whole
from fairfl_lite.methods.vote import places, reputations


class Ballots(NamedTuple):
    """Clients who vote [voter], the group in which each of them does [voter], and the rows to train on for it (None: all)."""

    voters: np.ndarray
    group: np.ndarray
    rows: TrainingRows | None = None


class Groups(ABC):
    """Who belongs where. follow : a group that nobody has voted in takes the global model; otherwise it keeps its own start."""

    follow = True

    @abstractmethod
    async def begin(self, fed: OneFederation, params: np.ndarray) -> Models:
        """The groups' first models [group, P] and the group of each client [client]."""

    @abstractmethod
    async def ballots(self, fed: OneFederation, groups: Models, clients: np.ndarray, t: int) -> list[Ballots]:
        """Where these clients vote: in one entry, or in several where a client has more than one vote."""


def _alike(params: np.ndarray, count: int) -> np.ndarray:
    return np.repeat(params[None], count, axis=0)


@dataclass(frozen=True)
class KnownGroups(Groups):
    """The groups of the examples are the groups of `E2FL`.

    A client with rows of several groups trains a ranking on those of each, and votes in each (the paper does not say what
    such a client does; this is our reading of its Appendix A).

    Examples
    --------
    >>> from fairfl_lite import E2FL, KnownGroups
    >>> E2FL(KnownGroups()) == E2FL()
    True
    """

    async def begin(self, fed: OneFederation, params: np.ndarray) -> Models:
        counts = (await fed.group_label_counts(np.arange(fed.n))).sum(2)
        return Models(_alike(params, counts.shape[1]), counts.argmax(1))

    async def ballots(self, fed: OneFederation, groups: Models, clients: np.ndarray, t: int) -> list[Ballots]:
        has = (await fed.group_label_counts(clients)).sum(2) > 0
        if (has.sum(1) == 1).all():
            return [Ballots(clients, has.argmax(1))]
        voters = [clients[own] for own in has.T]
        return [Ballots(own, np.full(len(own), q), TrainingRows(group=q)) for q, own in enumerate(voters) if len(own)]


@dataclass(frozen=True)
class RankClustering(Groups):
    """Groups of `E2FL` by clustering, once, what everybody's ranking looks like after a first training (Algorithm 2).

    Everybody trains a ranking from the start, and the server clusters them. The distance is the sum of ``|difference of
    reputations|``, and a centre is the vote of its members; an empty cluster keeps its centre.

    Parameters
    ----------
    count : int
        How many groups there are.
    layer : int, optional
        The layer whose rankings are compared, counted as in a list; None for all of them.
    edges : int
        How many edges of a layer are compared, drawn at random where it has more. A ranking of some edges is the full one
        with the others struck out, and m of n edges stand for a distance (n / m)^2 times as large: there are n / m times as
        many edges, each that many times as far away.
    starts : int
        How many times clustering is begun; the smallest total distance wins.
    iterations : int
        How many steps one clustering takes at most.
    plus : bool
        Begin by k-means++; False begins at random clients instead, as the paper does.

    Examples
    --------
    >>> from fairfl_lite import E2FL, ClientTraining, Federation, Partition, Perceptron, RankClustering, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), local, model=model)
    >>> fed.run(E2FL(RankClustering(2)), rounds=1).state["of"].shape
    (1, 4)
    """

    count: int
    layer: int | None = -1
    edges: int = 20_000
    starts: int = 10
    iterations: int = 20
    plus: bool = True

    def __post_init__(self) -> None:
        for name in ("count", "edges", "starts", "iterations"):
            require_whole(f"RankClustering.{name}", getattr(self, name))

    async def begin(self, fed: OneFederation, params: np.ndarray) -> Models:
        return Models(_alike(params, self.count), self.cluster(fed, await self.rankings(fed, params)))

    async def rankings(self, fed: OneFederation, params: np.ndarray, at_once: int = 25) -> list[np.ndarray]:
        """What everybody sends: reputations int32 [client, edge] for each layer that is compared."""
        model, rng = supernet(fed), fed.rng("clustered edges")
        drawn = [np.sort(rng.permutation(part.stop - part.start)[: self.edges]) + part.start for part in self._layers(fed)]
        found = [np.zeros((fed.n, len(edges)), np.int32) for edges in drawn]
        for first in range(0, len(fed.all_clients), at_once):
            clients = fed.all_clients[first : first + at_once]
            local = await fed.train(params, clients, 0)
            for client, ranked in zip(clients, reputations(model, local), strict=True):
                for layer, edges in zip(found, drawn, strict=True):
                    layer[client] = _ranked(ranked[edges])
        return found

    def cluster(self, fed: OneFederation, rankings: list[np.ndarray]) -> np.ndarray:
        """The cluster of each client, [client]."""
        of, clients = np.zeros(fed.n, np.int64), fed.all_clients
        sizes = [part.stop - part.start for part in self._layers(fed)]
        scales = [size**2 / layer.shape[1] ** 2 for size, layer in zip(sizes, rankings, strict=True)]
        of[clients] = self.kmeans([layer[clients] for layer in rankings], fed.rng("clusters"), scales)
        return of

    def _layers(self, fed: OneFederation) -> list[slice]:
        layers = supernet(fed).layers
        return layers if self.layer is None else [layers[self.layer]]

    def kmeans(self, rankings: list[np.ndarray], rng: np.random.Generator, scales: Sequence[float] = ()) -> np.ndarray:
        """The cluster of each of the n clients with rankings [n, edge] of each layer; scales : what a layer's distance is
        multiplied by (1 if none are given)."""
        n = len(rankings[0])
        scales = scales or [1.0] * len(rankings)

        def far_from(centres: list[np.ndarray]) -> np.ndarray:
            return np.sum([scale * _far(*both) for scale, *both in zip(scales, rankings, centres, strict=True)], axis=0)

        if n < self.count:
            raise FairFLError(f"{n} clients cannot be dealt to {self.count} clusters: ask for fewer.")
        best, least = np.zeros(n, np.int64), np.inf
        for _ in range(self.starts):
            first = self._seeds(n, lambda k: far_from([layer[[k]] for layer in rankings])[:, 0], rng)
            centres, of = [layer[first] for layer in rankings], np.full(n, -1)
            for _ in range(self.iterations):
                far = far_from(centres)
                now = far.argmin(1)
                if (now == of).all():
                    break
                of = now
                for q in np.unique(of):
                    for layer, centre in zip(rankings, centres, strict=True):
                        centre[q] = _ranked(layer[of == q].sum(0, dtype=np.int64))
            whole = float(far[np.arange(n), of].sum())
            if whole < least:
                best, least = of, whole
        return best

    def _seeds(self, n: int, far: Callable[[int], np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """The clients that are the first centres; far(k) are the distances of all to client k."""
        if not self.plus:
            return rng.choice(n, self.count, replace=False)
        chosen = [int(rng.integers(n))]
        near = np.full(n, np.inf)
        while len(chosen) < self.count:
            near = np.minimum(near, far(chosen[-1]))
            share = near**2
            whole = share.sum()
            chosen.append(int(rng.choice(n, p=share / whole) if whole else rng.integers(n)))
        return np.array(chosen)

    async def ballots(self, fed: OneFederation, groups: Models, clients: np.ndarray, t: int) -> list[Ballots]:
        return [Ballots(clients, groups.of[clients])]


def _ranked(values: np.ndarray) -> np.ndarray:
    """Places of whole numbers [n] in their order, int32."""
    order = np.argsort(values, kind="stable")
    out = np.empty(len(values), np.int32)
    out[order] = np.arange(len(values), dtype=np.int32)
    return out


@njit(nogil=True, cache=True)
def _far(rankings: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Sum of |difference|, [n, centre]."""
    out = np.empty((len(rankings), len(centres)))
    for i in range(len(rankings)):
        for q in range(len(centres)):
            whole = np.int64(0)
            for e in range(rankings.shape[1]):
                whole += abs(rankings[i, e] - centres[q, e])
            out[i, q] = whole
    return out


@dataclass(frozen=True)
class _AtTheClient(Groups):
    """What clients find out. count : how many groups there are. They begin with random rankings, since equal masks would all
    be chosen alike."""

    count: int
    follow = False

    def __post_init__(self) -> None:
        require_whole(f"{type(self).__name__}.count", self.count)

    async def begin(self, fed: OneFederation, params: np.ndarray) -> Models:
        model = supernet(fed)
        models = [model.scored(places(model, model.init(fed.rng("group", q))), params) for q in range(self.count)]
        return Models(np.array(models), np.zeros(fed.n, np.int64))

    async def ballots(self, fed: OneFederation, groups: Models, clients: np.ndarray, t: int) -> list[Ballots]:
        return [Ballots(clients, await self.infer(fed, groups.models, clients))]

    @abstractmethod
    async def infer(self, fed: OneFederation, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """The group that each of these clients takes itself for, [client], by models [group, P]."""


@dataclass(frozen=True)
class LowestLossInference(_AtTheClient):
    """Each client takes itself for the group whose mask has the lowest loss on its training rows.

    It takes one forward pass for each group at most.

    Parameters
    ----------
    count : int
        How many groups there are. They begin with random rankings, since equal masks would all be chosen alike.

    Examples
    --------
    >>> from fairfl_lite import E2FL, ClientTraining, Federation, LowestLossInference, Partition, Perceptron, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), local, model=model)
    >>> fed.run(E2FL(LowestLossInference(2)), rounds=1).state["of"].shape
    (1, 4)
    """

    async def infer(self, fed: OneFederation, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        return await fed.best_model(models, clients)


@dataclass(frozen=True)
class OneShotInference(_AtTheClient):
    """Each client takes itself for the group whose mask lowers the entropy of a superposition of all masks most.

    ``argmax_q of -dH/dalpha_q`` at alpha = 1/Q for all, which takes one forward and one backward pass.

    Parameters
    ----------
    count : int
        How many groups there are. They begin with random rankings, since equal masks would all be chosen alike.

    Examples
    --------
    >>> from fairfl_lite import E2FL, ClientTraining, Federation, OneShotInference, Partition, Perceptron, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), local, model=model)
    >>> fed.run(E2FL(OneShotInference(2)), rounds=1).state["of"].shape
    (1, 4)
    """

    async def infer(self, fed: OneFederation, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        return (await slopes(fed, models, clients, np.full((len(clients), len(models)), 1 / len(models)))).argmin(1)


@dataclass(frozen=True)
class BinarySearchInference(_AtTheClient):
    """Each client drops half of the masks until one is left (Algorithm 3).

    In each step alpha is anew 1/n for the n masks that remain, and the slopes dH/dalpha_q of the entropy say which of them
    are dropped.

    Parameters
    ----------
    count : int
        How many groups there are. They begin with random rankings, since equal masks would all be chosen alike.
    drop : {"large", "small"}
        "large" keeps the ceil(n / 2) with the smallest dH/dalpha_q, so that entropy goes down, as in the work that the idea
        is from; "small" keeps the floor(n / 2) with the largest, which is what Algorithm 3 prints. Of equals the lower number
        stays.

    Examples
    --------
    >>> from fairfl_lite import E2FL, BinarySearchInference, ClientTraining, Federation, Partition, Perceptron, Supernet, load
    >>> local, model = ClientTraining(lr=0.1), Supernet(Perceptron((3, 16, 2)))
    >>> fed = Federation.of(load("synthetic"), Partition.random(4), range(1), local, model=model)
    >>> fed.run(E2FL(BinarySearchInference(2)), rounds=1).state["of"].shape
    (1, 4)
    """

    drop: Literal["large", "small"] = "large"

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(self.drop, ("large", "small"), "way to drop masks named")

    async def infer(self, fed: OneFederation, models: np.ndarray, clients: np.ndarray) -> np.ndarray:
        alive, left = np.ones((len(clients), len(models)), bool), len(models)
        while left > 1:
            slope = await slopes(fed, models, clients, alive / left)
            slope = np.where(alive, slope if self.drop == "large" else -slope, np.inf)
            left = -(-left // 2) if self.drop == "large" else left // 2
            alive = np.zeros_like(alive)
            np.put_along_axis(alive, np.argsort(slope, axis=1, kind="stable")[:, :left], True, 1)
        return alive.argmax(1)


def entropy(logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """The mean over rows of the entropy of the predicted distribution, in nats. It needs no labels."""
    both = torch.stack([torch.zeros_like(logits), logits], 1) if logits.ndim == 1 else logits
    log = both.log_softmax(1)
    return -(log.exp() * log).sum(1).mean()


async def slopes(fed: OneFederation, models: np.ndarray, clients: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """dH/dalpha_q of the entropy of the network with weights w * sum_q alpha_q M_q on the training rows of each client:
    [client, group], for models [group, P] and alpha [client, group]."""
    model = supernet(fed)
    masks, weights = model.mask(models), model.weights(models[0])
    raw = fed.with_model(model.network, "plain")
    found = np.zeros(alpha.shape)
    for i, share in enumerate(alpha.astype(weights.dtype)):  # one client at a time: its superposition is a network of its own
        _, (gradient,) = await raw.value_and_gradient(weights * (share @ masks), clients[i : i + 1], entropy)
        found[i] = np.einsum("qp,p->q", masks, gradient * weights, optimize=True)
    return found
