"""Distances between orders and the heterogeneity of an instance (RankFF, Section 4).

Matrices hold whole numbers: a maximum displacement or a footrule here is the paper's times m, an edit distance is the
paper's. `heterogeneity` is in the paper's units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite.errors import choose
from fairfl_lite.rankings import kernels
from fairfl_lite.rankings.ranks import Ints, permutations

DISTANCES = ("md", "fd", "ed")
HOW = ("max", "mean", "radius", "nway")


def maximum_displacement(ranks: ArrayLike) -> Ints:
    """How far a model moves at most between the orders of two agents, ``max_theta |rank_i - rank_j|``.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Returns
    -------
    ndarray of int, shape (n, n)
        The paper's distance times m.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.maximum_displacement([[0, 1, 2], [2, 1, 0]])
    array([[0, 2],
           [2, 0]])
    """
    return kernels.pairwise_moves(permutations(ranks, "ranks").astype(np.int32))[0]


def footrule(ranks: ArrayLike) -> Ints:
    """How far all models move together between the orders of two agents, ``sum_theta |rank_i - rank_j|``.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Returns
    -------
    ndarray of int, shape (n, n)
        The paper's distance times m; always even.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.footrule([[0, 1, 2], [2, 1, 0]])
    array([[0, 4],
           [4, 0]])
    """
    return kernels.pairwise_moves(permutations(ranks, "ranks").astype(np.int32))[1]


def edit(ranks: ArrayLike) -> Ints:
    """Insertions and deletions between the orders of two agents, 2 m less twice their longest common subsequence.

    Read in i's order, j's ranks are a permutation whose longest increasing subsequence is that: O(m log m) a pair.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Returns
    -------
    ndarray of int, shape (n, n)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.edit([[0, 1, 2], [2, 1, 0]])
    array([[0, 4],
           [4, 0]])
    """
    ranks = permutations(ranks, "ranks")
    orders = np.argsort(ranks, axis=1).astype(np.int32)
    kernel = kernels.pairwise_common if len(ranks) * ranks.size < 1_000_000 else kernels.pairwise_common_in_parallel
    return 2 * ranks.shape[1] - 2 * kernel(orders, ranks.astype(np.int32))


def aligned(x: ArrayLike, y: ArrayLike) -> Ints:
    """The models that one optimal alignment of two orders matches, in their common order.

    Parameters
    ----------
    x, y : array_like of int, shape (m,)
        Orders of the same models, best first.

    Returns
    -------
    ndarray of int
        A longest common subsequence.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.aligned([0, 1, 2, 3], [1, 0, 2, 3]).size
    3
    """
    first, second = permutations(np.stack([np.asarray(x), np.asarray(y)]))
    return first[kernels.alignment(np.argsort(second)[first])]


def common(ranks: ArrayLike) -> int:
    """The length of the longest subsequence that all n orders have in common; O(n m^2).

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
    >>> rankings.common([[0, 1, 2], [2, 1, 0]])
    1
    """
    ranks = permutations(ranks, "ranks")
    along = np.ascontiguousarray(ranks[:, np.argsort(ranks[0])])
    return int(kernels.common_to_all(along, np.empty(ranks.shape[1], np.int64)))


PAIRWISE = {"md": maximum_displacement, "fd": footrule, "ed": edit}


def over_agents(far: Ints, how: str = "max") -> float:
    """One number of a matrix of pairwise distances: "max", "mean" or "radius" (see `heterogeneity`)."""
    if how == "mean":
        return float(far.sum() / max(far.size - len(far), 1))
    return float(far.max() if how == "max" else far.max(axis=1).min())


def spread(ranks: ArrayLike, distance: str, how: str = "max") -> float:
    """Heterogeneity in whole numbers of ranks, the units of the matrices of distances.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    how : {"max", "mean", "radius", "nway"}
        The kind, see `heterogeneity`.

    Returns
    -------
    float

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.spread([[0, 1, 2], [2, 1, 0]], "fd")
    4.0
    """
    choose(distance, DISTANCES, "distance")
    if choose(how, HOW, "kind of heterogeneity") != "nway":
        return over_agents(PAIRWISE[distance](ranks), how)
    ranks = permutations(ranks, "ranks")
    if distance == "ed":
        return 2.0 * (ranks.shape[1] - common(ranks))
    width = ranks.max(axis=0) - ranks.min(axis=0)
    return float(width.max() if distance == "md" else width.sum())


def heterogeneity(ranks: ArrayLike, distance: str, how: str = "max") -> float:
    """h(I), how different the orders of an instance are, in the paper's units.

    Parameters
    ----------
    ranks : array_like of int, shape (n, m)
        Rank of each model for each agent, from 0.
    distance : {"md", "fd", "ed"}
        Maximum displacement and footrule of ranks in [0, 1), or edit distance as a count.
    how : {"max", "mean", "radius", "nway"}
        "max" over pairs is the paper's; "mean" over pairs of different agents (0 for one agent); "radius", the smallest over
        agents of the distance to the farthest other one; or "nway", one number for all n orders: the largest or the total of
        ``max_i rank_i - min_i rank_i``, and 2 (m - longest common subsequence of all). With two agents all four are equal.

    Returns
    -------
    float

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> round(rankings.heterogeneity([[0, 1, 2], [2, 1, 0]], "fd"), 3)
    1.333
    """
    m = np.shape(ranks)[-1] if np.ndim(ranks) else 1
    return spread(ranks, distance, how) / (1 if distance == "ed" else m)
