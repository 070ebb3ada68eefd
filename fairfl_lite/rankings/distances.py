"""Distances between orders and the heterogeneity of an instance (RankFF, Section 4).

Matrices hold whole numbers: a maximum displacement or a footrule here is the paper's times m, an edit distance is the
paper's. `heterogeneity` is in the paper's units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite.errors import FairFLError, did_you_mean
from fairfl_lite.rankings import kernels
from fairfl_lite.rankings.ranks import Ints, permutations

DISTANCES = ("md", "fd", "ed")
HOW = ("max", "mean", "radius", "nway")


def known(name: str, names: tuple[str, ...], what: str) -> str:
    if name not in names:
        raise FairFLError(f"There is no {what} {name!r}{did_you_mean(name, names)}: choose one of {', '.join(names)}.")
    return name


def maximum_displacement(ranks: ArrayLike) -> Ints:
    """max_theta |rank_i - rank_j|, int [n, n]."""
    return kernels.pairwise_moves(permutations(ranks, "ranks").astype(np.int32))[0]


def footrule(ranks: ArrayLike) -> Ints:
    """sum_theta |rank_i - rank_j|, int [n, n]; always even."""
    return kernels.pairwise_moves(permutations(ranks, "ranks").astype(np.int32))[1]


def edit(ranks: ArrayLike) -> Ints:
    """Insertions and deletions between two orders, int [n, n]: 2 m - 2 LCS.

    Read in i's order, j's ranks are a permutation whose longest increasing subsequence is the LCS: O(m log m) a pair.
    """
    ranks = permutations(ranks, "ranks")
    orders = np.argsort(ranks, axis=1).astype(np.int32)
    kernel = kernels.pairwise_common if len(ranks) * ranks.size < 1_000_000 else kernels.pairwise_common_in_parallel
    return 2 * ranks.shape[1] - 2 * kernel(orders, ranks.astype(np.int32))


def aligned(x: ArrayLike, y: ArrayLike) -> Ints:
    """Models matched by one optimal alignment of the orders x and y, in their common order."""
    first, second = permutations(np.stack([np.asarray(x), np.asarray(y)]))
    return first[kernels.alignment(np.argsort(second)[first])]


def common(ranks: ArrayLike) -> int:
    """Length of the longest subsequence common to all n orders; O(n m^2)."""
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
    """Heterogeneity in the units of the matrices (see `heterogeneity`)."""
    known(distance, DISTANCES, "distance")
    if known(how, HOW, "kind of heterogeneity") != "nway":
        return over_agents(PAIRWISE[distance](ranks), how)
    ranks = permutations(ranks, "ranks")
    if distance == "ed":
        return 2.0 * (ranks.shape[1] - common(ranks))
    width = ranks.max(axis=0) - ranks.min(axis=0)
    return float(width.max() if distance == "md" else width.sum())


def heterogeneity(ranks: ArrayLike, distance: str, how: str = "max") -> float:
    """h(I) in the paper's units: md and fd of ranks in [0, 1), ed as a count.

    how : "max" over pairs (the paper's), "mean" over pairs of different agents (0 for one agent), "radius", the
        smallest over agents of the distance to the farthest other one, or "nway", one number for all n orders: the
        largest or the total of max_i rank_i - min_i rank_i, and 2 (m - longest common subsequence of all). With two
        agents all four are equal.
    """
    m = np.shape(ranks)[-1] if np.ndim(ranks) else 1
    return spread(ranks, distance, how) / (1 if distance == "ed" else m)
