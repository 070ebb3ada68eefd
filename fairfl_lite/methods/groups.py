"""Which group a client belongs to: known from its rows, or inferred (E2FL, Section 5, Algorithms 2 and 3).

Rank clustering is done once, by the server, on rankings of everybody. The other three are done by a client each time it takes
part, from the groups' masks and its own training rows: the mask with the lowest loss, or a look at the superposition sum_q
alpha_q M_q of all masks. There the entropy H of the output says which mask to take more of: the one with the most negative
dH/dalpha_q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numba import njit

from fairfl_lite import streams
from fairfl_lite.data.shards import Shards
from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.federation import Federation, Models, gather
from fairfl_lite.methods.frl import supernet
from fairfl_lite.methods.settings import require_whole
from fairfl_lite.methods.vote import places, reputations

Ballots = Iterator[tuple[np.ndarray, Shards | None]]


class Groups(ABC):
    """Who belongs where. follow : a group that nobody has voted in takes the global model; otherwise it keeps its own start."""

    follow = True

    @abstractmethod
    def begin(self, fed: Federation, params: np.ndarray) -> Models:
        """The groups' first models [run, group, P] and the group of each client [run, client]."""

    @abstractmethod
    def ballots(self, fed: Federation, groups: Models, who: np.ndarray, t: int) -> Ballots:
        """The group in which each of `who` votes, [run, participant], -1 for none, and the rows to train on for it (None: all).
        More than once where a client has more than one vote."""


def _alike(params: np.ndarray, count: int) -> np.ndarray:
    return np.repeat(params[:, None], count, axis=1)


@dataclass(frozen=True)
class Known(Groups):
    """The groups of the examples. A client with rows of several groups trains a ranking on those of each, and votes in each
    (the paper does not say what such a client does; this is our reading of its Appendix A)."""

    def begin(self, fed: Federation, params: np.ndarray) -> Models:
        census = fed.shards["train"].census().sum(3)
        return Models(_alike(params, census.shape[2]), census.argmax(2))

    def ballots(self, fed: Federation, groups: Models, who: np.ndarray, t: int) -> Ballots:
        train = fed.shards["train"]
        has = train.census().sum(3) > 0
        if (has.sum(2) <= 1).all():
            yield np.where(who >= 0, gather(has.argmax(2), who), -1), None
            return
        for q in range(has.shape[2]):
            rows = [[own[train.a[own] == q] for own in (train.rows(r, k) for k in range(train.clients))] for r in range(len(who))]
            yield np.where((who >= 0) & gather(has[..., q], who).astype(bool), q, -1), Shards.deal(train.examples, rows)


@dataclass(frozen=True)
class RankClustering(Groups):
    """Algorithm 2: everybody trains a ranking from the start, and the server clusters them, once. Distance is the sum of
    |difference of reputations|, a centre the vote of its members; an empty cluster keeps its centre.

    layer : the one whose rankings are compared, counted as in a list; None for all of them. edges : how many edges of a layer,
    drawn at random where it has more; a ranking of some edges is the full one with the others struck out, and m of n edges stand
    for a distance (n / m)^2 times as large: there are n / m times as many edges, each that many times as far away.
    starts : how many times it is begun, by k-means++; the smallest total distance wins. iterations : at most. plus : False begins
    at random clients instead, as the paper does.
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

    def begin(self, fed: Federation, params: np.ndarray) -> Models:
        return Models(_alike(params, self.count), self.cluster(fed, self.rankings(fed, params)))

    def rankings(self, fed: Federation, params: np.ndarray, at_once: int = 25) -> list[list[np.ndarray]]:
        """What everybody sends: reputations int32 [client, edge] for each run and layer that is compared."""
        model, everybody, layers = supernet(fed), fed.everybody(), self._layers(fed)
        drawn = [[np.sort(rng.permutation(part.stop - part.start)[: self.edges]) + part.start for part in layers]
                 for rng in fed.rng("clustered edges")]  # fmt: skip
        found = [[np.zeros((fed.clients, len(edges)), np.int32) for edges in run] for run in drawn]
        for first in range(0, everybody.shape[1], at_once):
            who = everybody[:, first : first + at_once]
            local = fed.train(params, 0, who=who)
            for r, own in enumerate(local):
                for client, ranked in zip(who[r], reputations(model, own), strict=True):
                    for layer, edges in zip(found[r], drawn[r], strict=True):
                        if client >= 0:
                            layer[client] = _ranked(ranked[edges])
        return found

    def cluster(self, fed: Federation, rankings: list[list[np.ndarray]]) -> np.ndarray:
        """The cluster of each client, [run, client]."""
        of = np.zeros((len(rankings), fed.clients), np.int64)
        for r, own in enumerate(rankings):
            has = np.flatnonzero(fed.sizes()[r])
            rng = streams.stream(fed.seeds[r], "clusters")
            scales = [
                (part.stop - part.start) ** 2 / layer.shape[1] ** 2 for part, layer in zip(self._layers(fed), own, strict=True)
            ]
            of[r, has] = self.kmeans([layer[has] for layer in own], rng, scales)
        return of

    def _layers(self, fed: Federation) -> list[slice]:
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

    def ballots(self, fed: Federation, groups: Models, who: np.ndarray, t: int) -> Ballots:
        yield np.where(who >= 0, gather(groups.of, who), -1), None


def _ranked(values: np.ndarray) -> np.ndarray:
    """Places of whole numbers [n] in their order, int32."""
    order = np.argsort(values, kind="stable")
    out = np.empty(len(values), np.int32)
    out[order] = np.arange(len(values), dtype=np.int32)
    return out


@njit(nogil=True, cache=True)
def _far(rankings, centres):
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

    def begin(self, fed: Federation, params: np.ndarray) -> Models:
        model = supernet(fed)
        models = [[model.scored(places(model, model.init(streams.stream(seed, "group", q))), signs) for q in range(self.count)]
                  for seed, signs in zip(fed.seeds, params, strict=True)]  # fmt: skip
        return Models(np.array(models), np.zeros((len(params), fed.clients), np.int64))

    def ballots(self, fed: Federation, groups: Models, who: np.ndarray, t: int) -> Ballots:
        yield np.where(who >= 0, self.infer(fed, groups.models, who), -1), None

    @abstractmethod
    def infer(self, fed: Federation, models: np.ndarray, who: np.ndarray) -> np.ndarray:
        """The group that each of `who` takes itself for, [run, participant]."""


@dataclass(frozen=True)
class LowestLoss(_AtTheClient):
    """argmin_q of the loss of mask q on the client's training rows; at most Q forward passes."""

    def infer(self, fed: Federation, models: np.ndarray, who: np.ndarray) -> np.ndarray:
        return fed.lowest(models, who=who)


@dataclass(frozen=True)
class OneShot(_AtTheClient):
    """argmax_q of -dH/dalpha_q at alpha = 1/Q for all; one forward and one backward pass."""

    def infer(self, fed: Federation, models: np.ndarray, who: np.ndarray) -> np.ndarray:
        return slopes(fed, models, who, np.full((*who.shape, models.shape[1]), 1 / models.shape[1])).argmin(2)


@dataclass(frozen=True)
class BinarySearch(_AtTheClient):
    """Half of the masks are dropped until one is left, alpha anew 1/n for the n that remain.

    drop : "large" keeps the ceil(n / 2) with the smallest dH/dalpha_q, so that entropy goes down, as in the work that the idea
    is from; "small" keeps the floor(n / 2) with the largest, which is what Algorithm 3 prints. Of equals the lower number stays.
    """

    drop: Literal["large", "small"] = "large"

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(self.drop, ("large", "small"), "way to drop masks named")

    def infer(self, fed: Federation, models: np.ndarray, who: np.ndarray) -> np.ndarray:
        alive = np.ones((*who.shape, models.shape[1]), bool)
        left = models.shape[1]
        while left > 1:
            slope = slopes(fed, models, who, alive / left)
            slope = np.where(alive, slope if self.drop == "large" else -slope, np.inf)
            left = -(-left // 2) if self.drop == "large" else left // 2
            alive = np.zeros_like(alive)
            np.put_along_axis(alive, np.argsort(slope, axis=2, kind="stable")[..., :left], True, 2)
        return alive.argmax(2)


def entropy(logits: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """The mean over rows of the entropy of the predicted distribution, in nats. It needs no labels."""
    both = torch.stack([torch.zeros_like(logits), logits], 1) if logits.ndim == 1 else logits
    log = both.log_softmax(1)
    return -(log.exp() * log).sum(1).mean()


def slopes(fed: Federation, models: np.ndarray, who: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """dH/dalpha_q of the entropy of the network with weights w * sum_q alpha_q M_q on the training rows of each of `who`:
    [run, participant, group], for models [run, group, P] and alpha [run, participant, group]."""
    model = supernet(fed)
    masks, weights = model.mask(models), model.weights(models[:, 0])
    raw = replace(fed, model=model.network, engine="plain", first=None)
    found = np.zeros(alpha.shape)
    for i in range(who.shape[1]):  # one participant at a time: its superposition is a network of its own
        shares = alpha[:, i].astype(weights.dtype)
        mixed = np.stack([w * (share @ mask) for w, share, mask in zip(weights, shares, masks, strict=True)])
        _, gradient = raw.gradient(mixed, entropy, who=who[:, i : i + 1])
        found[:, i] = np.einsum("rqp,rp->rq", masks, gradient[:, 0] * weights, optimize=True)
    return found
