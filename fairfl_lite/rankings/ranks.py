"""Ranks, positions, rankwise proportionality and Pareto optimality of finitely many models (RankFF, Section 3).

An order lists the models of one agent, best first. A rank is a whole number 0..m-1, how many models the agent prefers;
the paper's rank is that number over m. A position counts with ">=", so that tied models share the worst place of their
tie; without ties it is rank + 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairfl_lite.errors import FairFLError

Ints = NDArray[np.integer]
Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]


def sizes(n: int, m: int) -> tuple[int, int]:
    """(n, m) as whole numbers of at least 1."""
    if int(n) != n or int(m) != m or n < 1 or m < 1:
        raise FairFLError(f"There must be at least one agent and one model, in whole numbers, not {n} and {m}.")
    return int(n), int(m)


def permutations(rows: ArrayLike, what: str = "orders") -> Ints:
    """`rows` as int64 [n, m], each row a permutation of 0..m-1."""
    given = np.asarray(rows)
    if given.ndim != 2 or given.size == 0:
        raise FairFLError(f"The {what} must be a table of agents x models, not of shape {given.shape}.")
    if given.dtype.kind not in "iu":
        raise FairFLError(f"The {what} must be whole numbers, not {given.dtype}.")
    wrong = np.flatnonzero((np.sort(given, axis=1) != np.arange(given.shape[1])).any(axis=1))
    if wrong.size:
        raise FairFLError(f"Row {wrong[0]} of the {what} is not a permutation of 0..{given.shape[1] - 1}.")
    return np.ascontiguousarray(given, dtype=np.int64)


def table(utilities: ArrayLike) -> Floats:
    """`utilities` as float64 [n, m] without NaN."""
    u = np.asarray(utilities, dtype=np.float64)
    if u.ndim != 2 or u.size == 0:
        raise FairFLError(f"Utilities must be a table of agents x models, not of shape {u.shape}.")
    if np.isnan(u).any():
        agent, model = np.argwhere(np.isnan(u))[0]
        raise FairFLError(f"The utility of model {model} for agent {agent} is not a number.")
    return u


def ranks_of_orders(orders: ArrayLike) -> Ints:
    """ranks[i, theta] for orders[i] = models, best first; each is the inverse permutation of the other."""
    return np.argsort(permutations(orders), axis=1)


def orders_of(utilities: ArrayLike) -> Ints:
    """Orders [n, m] by utility, highest first; of two equal ones the lower index comes first (the paper's tie rule)."""
    return np.argsort(-table(utilities), axis=1, kind="stable")


def ranks_of(utilities: ArrayLike) -> Ints:
    """Ranks [n, m] of the orders that utilities give with the paper's tie rule."""
    return np.argsort(orders_of(utilities), axis=1)


def positions(utilities: ArrayLike) -> Ints:
    """#{theta' : u_i(theta') >= u_i(theta)}, int [n, m] in 1..m: the continuous rank with the counting measure, times m."""
    u = table(utilities)
    m, ascending = u.shape[1], np.sort(u, axis=1)
    return np.stack([m - np.searchsorted(row, own, side="left") for row, own in zip(ascending, u, strict=True)])


def beta(ranks: ArrayLike) -> int:
    """b = min over models of the largest rank that an agent gives it: the smallest b/m that some model attains."""
    return int(permutations(ranks, "ranks").max(axis=0).min())


def best(ranks: ArrayLike) -> int:
    """The model that attains `beta`, the one with the lowest index among equals."""
    return int(permutations(ranks, "ranks").max(axis=0).argmin())


def paper_bound(n: int, m: int) -> int:
    """ceil(m (n - 1) / n), Definition 2's limit on the rank."""
    n, m = sizes(n, m)
    return -(-m * (n - 1) // n)


def worst_case(n: int, m: int) -> int:
    """floor(m (n - 1) / n), the largest `beta` that any n orders of m models have."""
    n, m = sizes(n, m)
    return m * (n - 1) // n


def proportional(ranks: ArrayLike, limit: float | None = None) -> Mask:
    """Models [m] that every agent ranks at most `limit`; without a limit Definition 2's ceil(m (n - 1) / n)."""
    ranks = permutations(ranks, "ranks")
    return ranks.max(axis=0) <= (paper_bound(*ranks.shape) if limit is None else limit)


def pareto(utilities: ArrayLike) -> Mask:
    """Models [m] that no other one dominates: at least as good for every agent, better for one (Definition 1).

    For orders take `-ranks`. A dominating model has a larger sum of ranks of utilities, so models are compared with
    those before them in that order only.
    """
    u = table(utilities)
    dense = np.stack([np.unique(row, return_inverse=True)[1] for row in u])
    keep = np.ones(u.shape[1], dtype=bool)
    front = np.empty((len(u), 0), dtype=dense.dtype)
    for model in np.argsort(-dense.sum(axis=0), kind="stable"):
        own = dense[:, model, None]
        keep[model] = not ((front >= own).all(axis=0) & (front > own).any(axis=0)).any()
        if keep[model]:  # whoever dominates is dominated by, or is, a model of the front
            front = np.concatenate([front, own], axis=1)
    return keep


def example1(n: int, m: int) -> Ints:
    """Orders [n, m] whose `beta` is worst_case(n, m): Example 1 for every n and m.

    Agent i's order is 0..m-1 turned so that a block of ceil(m/n) models ends it; the n blocks together cover all
    models, so each model is among the last ceil(m/n) of somebody. For n | m these are the paper's cyclic orders.
    """
    n, m = sizes(n, m)
    starts = (np.arange(n) * m) // n  # consecutive starts are at most ceil(m/n) apart
    return (np.arange(m) + starts[:, None]) % m
