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
    """Ranks from orders; each is the inverse permutation of the other.

    Parameters
    ----------
    orders : array_like of int, shape (n, m)
        The models of each agent, best first.

    Returns
    -------
    ndarray of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.ranks_of_orders([[2, 0, 1]])
    array([[1, 2, 0]])
    """
    return np.argsort(permutations(orders), axis=1)


def orders_of(utilities: ArrayLike) -> Ints:
    """Orders by utility, highest first; of two equal ones the lower index comes first (the paper's tie rule).

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.

    Returns
    -------
    ndarray of int, shape (n, m)
        The models of each agent, best first.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.orders_of([[0.2, 0.9, 0.9]])
    array([[1, 2, 0]])
    """
    return np.argsort(-table(utilities), axis=1, kind="stable")


def ranks_of(utilities: ArrayLike) -> Ints:
    """Ranks of the orders that utilities give with the paper's tie rule.

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.

    Returns
    -------
    ndarray of int, shape (n, m)
        How many models the agent prefers, from 0; the paper's rank is that number over m.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.ranks_of([[0.2, 0.9, 0.9]])
    array([[2, 0, 1]])
    """
    return np.argsort(orders_of(utilities), axis=1)


def positions(utilities: ArrayLike) -> Ints:
    """How many models are at least as good for the agent, ``#{theta' : u_i(theta') >= u_i(theta)}``.

    This is the continuous rank with the counting measure, times m. Tied models share the worst place of their tie; without
    ties a position is the rank plus 1.

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.

    Returns
    -------
    ndarray of int, shape (n, m)
        From 1 to m.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.positions([[0.2, 0.9, 0.9]])
    array([[3, 2, 2]])
    """
    u = table(utilities)
    m, ascending = u.shape[1], np.sort(u, axis=1)
    return np.stack([m - np.searchsorted(row, own, side="left") for row, own in zip(ascending, u, strict=True)])


def beta(ranks: ArrayLike) -> int:
    """b, the smallest over models of the largest rank that an agent gives it; b/m is the smallest share that some model attains.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Returns
    -------
    int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.beta([[0, 1, 2], [2, 1, 0]])
    1
    """
    return int(permutations(ranks, "ranks").max(axis=0).min())


def best(ranks: ArrayLike) -> int:
    """The model that attains `beta`, the one with the lowest index among equals.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Returns
    -------
    int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.best([[0, 1, 2], [2, 1, 0]])
    1
    """
    return int(permutations(ranks, "ranks").max(axis=0).argmin())


def paper_bound(n: int, m: int) -> int:
    """Definition 2's limit on the rank, ``ceil(m (n - 1) / n)``.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Returns
    -------
    int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.paper_bound(3, 10), rankings.worst_case(3, 10)
    (7, 6)
    """
    n, m = sizes(n, m)
    return -(-m * (n - 1) // n)


def worst_case(n: int, m: int) -> int:
    """The largest `beta` that any n orders of m models have, ``floor(m (n - 1) / n)``.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Returns
    -------
    int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.worst_case(3, 10), rankings.beta(rankings.ranks_of_orders(rankings.example1(3, 10)))
    (6, 6)
    """
    n, m = sizes(n, m)
    return m * (n - 1) // n


def proportional(ranks: ArrayLike, limit: float | None = None) -> Mask:
    """Which models are rankwise proportional: every agent ranks them within a limit (Definition 2).

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.
    limit : float, optional
        The limit; ``ceil(m (n - 1) / n)`` if None.

    Returns
    -------
    ndarray of bool, shape (m,)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.proportional([[0, 1, 2], [2, 1, 0]], limit=1)
    array([False,  True, False])
    """
    ranks = permutations(ranks, "ranks")
    return ranks.max(axis=0) <= (paper_bound(*ranks.shape) if limit is None else limit)


def pareto(utilities: ArrayLike) -> Mask:
    """Which models no other one dominates: at least as good for every agent, and better for one (Definition 1).

    For orders take ``-ranks``. A dominating model has a larger sum of ranks of utilities, so models are compared with those
    before them in that order only.

    Parameters
    ----------
    utilities : array_like of shape (n, m)
        Utility of each model for each agent.

    Returns
    -------
    ndarray of bool, shape (m,)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.pareto([[3.0, 2.0, 1.0], [1.0, 2.0, 1.0]])
    array([ True,  True, False])
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
    """Orders whose `beta` is `worst_case`: the paper's Example 1, for every n and m.

    Agent i's order is 0..m-1 turned so that a block of ceil(m/n) models ends it; the n blocks together cover all models, so
    each model is among the last ceil(m/n) of somebody. Where n divides m these are the paper's cyclic orders.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Returns
    -------
    ndarray of int, shape (n, m)
        The models of each agent, best first.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.example1(2, 4)
    array([[0, 1, 2, 3],
           [2, 3, 0, 1]])
    """
    n, m = sizes(n, m)
    starts = (np.arange(n) * m) // n  # consecutive starts are at most ceil(m/n) apart
    return (np.arange(m) + starts[:, None]) % m
