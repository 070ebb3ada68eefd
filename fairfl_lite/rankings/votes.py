"""Votes on rankings (E2FL, Algorithm 1): reputations, VOTE, votes in two levels, masks, and what a ranking costs in bits.

A ranking lists edges, the least important first. A reputation is an edge's place in it, 0..d-1, so large is important: a
ranking and its reputations are inverse permutations of each other. Arrays may have leading axes; all is exact,
in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import lgamma, log

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings.ranks import Ints, Mask


def _rankings(given: ArrayLike, least: int) -> Ints:
    """`given` as int64 [..., d] of at least `least` axes, each last axis a permutation of 0..d-1."""
    R = np.asarray(given)
    if R.ndim < least or R.size == 0 or R.dtype.kind not in "iu":
        raise FairFLError(
            f"Rankings are whole numbers, voters x edges with none of them empty, not {R.dtype} of shape {R.shape}."
        )
    if (np.sort(R, axis=-1) != np.arange(R.shape[-1])).any():
        raise FairFLError(f"A ranking names each of the edges 0..{R.shape[-1] - 1} once.")
    return R.astype(np.int64)


def reputations(R: ArrayLike) -> Ints:
    """The place of each edge in a ranking, from the least important one: ARGSORT(R).

    Parameters
    ----------
    R : array_like of int, shape (..., d)
        A ranking: the edges, the least important first.

    Returns
    -------
    ndarray of int, shape (..., d)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.reputations([2, 0, 1])
    array([1, 2, 0])
    """
    return np.argsort(_rankings(R, 1), axis=-1)


def vote(rankings: ArrayLike) -> Ints:
    """VOTE: edges in the order of their summed reputations; of equal sums the lowest id comes first.

    Parameters
    ----------
    rankings : array_like of int, shape (..., n, d)
        One ranking of each of n voters.

    Returns
    -------
    ndarray of int, shape (..., d)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.vote([[0, 1, 2], [0, 2, 1], [2, 0, 1]])
    array([0, 2, 1])
    """
    return np.argsort(reputations(_rankings(rankings, 2)).sum(axis=-2), axis=-1, kind="stable")


def group_votes(rankings: ArrayLike, groups: Sequence[int] | Ints) -> Ints:
    """The vote inside each group, [..., n, d] -> [..., Q, d], groups in ascending order; groups [n] says who is in which."""
    R, of = _rankings(rankings, 2), np.asarray(groups)
    if of.shape != R.shape[-2:-1]:
        raise FairFLError(f"{R.shape[-2]} voters need as many groups, not an array of shape {of.shape}.")
    return np.stack([vote(R[..., of == q, :]) for q in np.unique(of)], axis=-2)


def two_level(rankings: ArrayLike, groups: Sequence[int] | Ints) -> Ints:
    """A vote in each group, then a vote of the groups (E2FL, Algorithm 1, lines 14 and 15).

    Parameters
    ----------
    rankings : array_like of int, shape (..., n, d)
        One ranking of each of n voters.
    groups : array_like of int, shape (n,)
        Who is in which group.

    Returns
    -------
    ndarray of int, shape (..., d)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.two_level([[0, 1, 2], [0, 1, 2], [2, 1, 0]], groups=[0, 0, 1])
    array([0, 1, 2])
    """
    return vote(group_votes(rankings, groups))


def kept(d: int, k: float = 0.5) -> int:
    """How many of d edges a mask keeps: d - int((1 - k) d), as Algorithm 5 has it."""
    if not 0 < k <= 1:
        raise FairFLError(f"A mask keeps a share of the edges above 0 and at most 1, not {k}.")
    return d - int((1 - k) * d)


def mask(R: ArrayLike, k: float = 0.5) -> Mask:
    """Whether each edge is among the most important ones that a mask keeps, d - int((1 - k) d) of d.

    Parameters
    ----------
    R : array_like of int, shape (..., d)
        A ranking: the edges, the least important first.
    k : float
        The share of the edges that is kept, above 0 and at most 1.

    Returns
    -------
    ndarray of bool, shape (..., d)

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.mask([2, 0, 1, 3], k=0.5)
    array([False,  True, False,  True])
    """
    places = reputations(R)
    return places >= places.shape[-1] - kept(places.shape[-1], k)


def preferences(rankings: ArrayLike) -> Ints:
    """How many voters put edge e above edge f, [..., n, d] -> [..., e, f]; counted pair by pair, without sums of places."""
    place = reputations(_rankings(rankings, 2))
    return (place[..., :, None] > place[..., None, :]).sum(axis=-3)


def footrule(one: ArrayLike, other: ArrayLike) -> Ints:
    """sum_e |place in one - place in the other|, [...]: E2FL's distance of two rankings; at most floor(d^2 / 2)."""
    return np.abs(reputations(one) - reputations(other)).sum(axis=-1)


def kendall(one: ArrayLike, other: ArrayLike) -> Ints:
    """Pairs of edges that the two rankings order differently, [...]; at most d (d-1) / 2."""
    a, b = (reputations(R)[..., :, None] for R in (one, other))
    return ((a > np.swapaxes(a, -1, -2)) & (b < np.swapaxes(b, -1, -2))).sum(axis=(-1, -2))


def swapped(one: ArrayLike, other: ArrayLike, k: float = 0.5) -> Ints:
    """Edges that are in one mask and not in the other, [...]; at most 2 min(kept, d - kept)."""
    return (mask(one, k) ^ mask(other, k)).sum(axis=-1)


def reach(n: int, d: int, m: int = 1, ties: bool = True) -> int:
    """How many places m voters can move an edge when the other n - m all send one ranking: floor(m (d-1) / (n-m)), at most d - 1.

    To pass an edge s places away takes (n-m) s, and m voters have m (d-1) to give. `ties` False: equal sums go against them.
    """
    if not 0 <= m <= n or d < 1 or n < 1:
        raise FairFLError(f"Of {n} voters on {d} edges {m} cannot change theirs.")
    return d - 1 if m == n else min(d - 1, max(0, m * (d - 1) - (not ties)) // (n - m))


def fewest(n: int, d: int, places: int, ties: bool = True) -> int:
    """The smallest m with reach(n, d, m) >= places: how many of n voters move an edge that far against all others."""
    if not 0 <= places < d:
        raise FairFLError(f"An edge of {d} can be moved by 0..{d - 1} places, not {places}.")
    return next(m for m in range(n + 1) if reach(n, d, m, ties) >= places)


def can_leave(rest: ArrayLike, d: int, edge: int, m: int, keep: int) -> bool:
    """Whether m voters can put `edge` out of a mask of `keep` edges, when the others' reputations sum to rest [d].

    They put it last. `keep` others have to end above it. The sums that m rankings can give to d - 1 edges are those that
    m (d-1, ..., 1) majorises, so it is enough that the j largest needs are within m times the j largest reputations, for each j.
    """
    sums = [int(x) for x in np.asarray(rest)]
    needs = [sums[edge] - sums[f] + (f < edge) for f in range(d) if f != edge]
    chosen = sorted((max(0, x) for x in sorted(needs)[:keep]), reverse=True)
    given = accumulate(range(d - 1, 0, -1))
    return len(chosen) == keep and all(need <= m * most for need, most in zip(accumulate(chosen), given, strict=False))


def dictators(sizes: Iterable[int]) -> int:
    """How many voters, well placed, give a vote in two levels any ranking they like, whatever the others send.

    A strict majority of n dictates a vote: it cancels the others with their rankings reversed and has at least one voter left.
    So a strict majority in each of the smallest floor(Q/2) + 1 groups dictates. One group: floor(n/2) + 1.
    """
    groups = sorted(sizes)
    return sum(n // 2 + 1 for n in groups[: len(groups) // 2 + 1])


def bits(layers: Iterable[int]) -> int:
    """Bits of a ranking of each layer, as the paper counts them: sum_l n_l ceil(log2 n_l)."""
    return sum(n * (n - 1).bit_length() for n in layers)


def least_bits(layers: Iterable[int]) -> float:
    """sum_l log2(n_l!): no code for all rankings of these layers is shorter on average."""
    return sum(lgamma(n + 1) / log(2) for n in layers)
