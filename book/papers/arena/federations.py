"""The federations of the arena, each made from a table and seeds alone, and one whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import linprog

from fairfl_lite import data, streams
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition, Table
from fairfl_lite.data.shards import Standard
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Shards
from fairfl_lite.store import fingerprint

CLIENTS, ALPHAS, VALIDATION = 5, (0.1, 0.5, 5.0), 0.2
SIZES = (1, 3, 10, 30, 100)
"""How many rows clients of unequal size have, relative to the smallest."""
TARGET = 0.3
"""How far apart the two groups' shares of positives are at a biased client."""

Make = Callable[[Table, Sequence[int], ClientTraining], Federation]


OTHER = {"adult": "race", "compas": "sex"}
"""A second attribute of each dataset, which no method knows: models are looked at by both attributes at once."""
ROWS = 40_000
"""Of the made federation."""


@lru_cache(maxsize=4)
def table(name: str) -> Table:
    """A dataset of the library, or the table of the federation whose truth is known."""
    return made(ROWS, 0) if name == "made" else data.load(name)


def second(name: str, rows: Table) -> np.ndarray | None:
    """Whether each row has the commonest value of the second attribute; None where there is no such attribute."""
    if name not in OTHER:
        return None
    values = np.asarray(rows.columns[OTHER[name]])
    kinds, count = np.unique(values, return_counts=True)
    return np.asarray(values == kinds[count.argmax()])


def dealt(partition: Partition) -> Make:
    """Rows are dealt by a partition, a fifth of the training rows for validation."""
    return lambda rows, seeds, local: Federation.of(rows, partition, seeds, local, validation=VALIDATION)


def unequal(shares: Sequence[float]) -> Make:
    """Clients whose rows are drawn from the same population, with these shares of them."""

    def make(rows: Table, seeds: Sequence[int], local: ClientTraining) -> Federation:
        whole = Federation.of(rows, Partition.random(1), seeds, local, validation=VALIDATION)
        cuts = np.cumsum(shares)[:-1] / np.sum(shares)
        parts = {}
        for name, part in whole.shards.items():
            mixed = [streams.stream(seed, f"unequal {name}").permutation(part.rows(r, 0)) for r, seed in enumerate(seeds)]
            parts[name] = Shards.deal(part.examples, [np.split(own, np.round(cuts * len(own)).astype(int)) for own in mixed])
        return replace(whole, shards=parts, inputs=Standard.of(parts["train"]))

    return make


def biased(disfavoured: Mapping[int, int], target: float = TARGET) -> Make:
    """Clients of equal rows, of whom some lose favourable rows of a group.

    disfavoured : for each biased client its group. Rows with y = 1 of that group are dropped, in an order drawn by the seed,
    until the group's share of positives is `target` below that of the other group, in each part of the data by itself.
    """

    def make(rows: Table, seeds: Sequence[int], local: ClientTraining) -> Federation:
        fed = Federation.of(rows, Partition.random(CLIENTS), seeds, local, validation=VALIDATION)
        parts = {}
        for name, part in fed.shards.items():
            kept = [[part.rows(r, k) for k in range(part.clients)] for r in range(len(seeds))]
            for r, seed in enumerate(seeds):
                for k, group in disfavoured.items():
                    own = kept[r][k]
                    kept[r][k] = own[~_dropped(part.y[own], part.a[own], group, target, seed, f"biased {name} {k}")]
            parts[name] = Shards.deal(part.examples, kept)
        return replace(fed, shards=parts, inputs=Standard.of(parts["train"]))

    return make


def _dropped(y: np.ndarray, a: np.ndarray, group: int, target: float, seed: int, purpose: str) -> np.ndarray:
    """Which rows of one client are dropped."""
    mine, out = a == group, np.zeros(len(y), bool)
    if not mine.any() or mine.all():
        return out
    wanted = max(0.0, y[~mine].mean() - target)
    positives = np.flatnonzero(mine & (y == 1))
    negatives = int((mine & (y == 0)).sum())
    keep = min(len(positives), round(negatives * wanted / (1 - wanted)))
    out[streams.stream(seed, purpose).permutation(positives)[keep:]] = True
    return out


FEDERATIONS: Mapping[str, Make] = {
    **{f"dirichlet-{alpha:g}": dealt(Partition.dirichlet(alpha, CLIENTS, over="sensitive+label")) for alpha in ALPHAS},
    "one-group": dealt(Partition.single_group(0.5, (2, 3))),
    "some-biased": biased({0: 0, 1: 0}),
    "opposite-bias": biased({0: 0, 1: 0, 3: 1, 4: 1}),
    "unequal-sizes": unequal(SIZES),
}
"""By name: strata of group and label dealt at three levels of heterogeneity; clients of one group each; equal clients of whom two
disfavour group 0; equal clients of whom two disfavour group 0 and two group 1; and clients of very unequal sizes, in which the
largest has a hundred times the rows of the smallest."""
MADE: Mapping[str, Make] = {"by-client": dealt(Partition.by_column("client"))}
"""Of the table whose truth is known, which says who holds a row."""


def crowd(clients: int, participants: int) -> Make:
    """Many clients, dealt as in "dirichlet-5", of whom some take part in each round; 0 for all."""

    def make(rows: Table, seeds: Sequence[int], local: ClientTraining) -> Federation:
        fed = dealt(Partition.dirichlet(5.0, clients, over="sensitive+label"))(rows, seeds, local)
        return replace(fed, participants=participants)

    return make


CROWDS: Mapping[str, Make] = {
    "5-clients": crowd(5, 0),
    "50-clients": crowd(50, 0),
    "500-clients": crowd(500, 0),
    "10-of-50": crowd(50, 10),
    "50-of-500": crowd(500, 50),
}
"""By name: how many clients there are, and how many of them are in a round."""
SOME = ("10-of-50", "50-of-500")
"""In which some clients take part in a round."""


# A federation whose truth is known

MADE_CLIENTS, LEVELS = 3, 6
SHARES = ((0.10, 0.30), (0.20, 0.15), (0.15, 0.10))
"""P(client, group), a row for each client."""
LEAN = (-0.3, 0.3)
"""Of each group: how fast, in log odds, rows become rarer or more frequent from one level to the next."""
CLIENT_LEAN = (-0.2, 0.0, 0.2)


def chances() -> tuple[np.ndarray, np.ndarray]:
    """P(client, group, score level), which adds up to 1, and P(y = 1 | group, level): the whole truth about `made`."""
    level = np.arange(LEVELS) - (LEVELS - 1) / 2
    frequent = np.exp(level * (np.array(CLIENT_LEAN)[:, None, None] + np.array(LEAN)[:, None]))
    share = np.array(SHARES)[..., None] * frequent / frequent.sum(-1, keepdims=True)
    return share, 1 / (1 + np.exp(-(1.1 * level + np.array([-0.4, 0.4])[:, None])))


def made(rows: int, seed: int) -> Table:
    """Rows of the made federation, whose column "client" says who holds them. Logistic regression holds the truth."""
    share, positive = chances()
    rng = streams.stream(seed, "made")
    cell = rng.choice(share.size, rows, p=share.ravel())
    client, group, level = np.unravel_index(cell, share.shape)
    y = (rng.random(rows) < positive[group, level]).astype(np.int8)
    X = np.column_stack([level, group]).astype(np.float32)
    names = np.array([f"client {k}" for k in range(MADE_CLIENTS)])[client]
    return Table("made", X, y, group.astype(np.int8), ("level", "group"), "group", {"client": names},
                 fingerprint("made", rows, seed, share.tolist(), positive.tolist()))  # fmt: skip


def attainable(limit: float, metric: Literal["spd", "eod"] = "spd") -> float:
    """The best accuracy of any classifier of client, group and level, drawn at random if need be, whose gap is at most `limit`.

    A linear program in P(yhat = 1 | client, group, level): accuracy and both rates are linear in it.
    """
    if not 0 <= limit <= 1:
        raise FairFLError(f"A limit of the gap is between 0 and 1, not {limit}.")
    share, positive = chances()
    eta = np.broadcast_to(positive, share.shape)
    gain = share * (2 * eta - 1)
    behind = share * (eta if metric == "eod" else 1)
    rate = behind / behind.sum((0, 2), keepdims=True)
    gap = (rate * np.array([1, -1])[:, None]).ravel()
    best = linprog(-gain.ravel(), A_ub=[gap, -gap], b_ub=[limit, limit], bounds=(0, 1))
    return float((share * (1 - eta)).sum() - best.fun)
