"""Every preference profile: agent 0's order is the identity by relabelling, so n orders of m models are (m!)^(n-1) profiles.

Three ways, each checked against the one before: `profiles` writes them down; `counts_by_maxima` needs only the sorted
largest ranks of the models, which the next agent's m! permutations change; `counts` needs only how many models all
agents have among their first B, since b >= B exactly when there is none. Counts are Python's whole numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from math import comb, factorial

import numpy as np

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.rankings import kernels
from fairfl_lite.rankings.bounds import SLACK, Check, Limit, ratio
from fairfl_lite.rankings.distances import DISTANCES, HOW
from fairfl_lite.rankings.ranks import Ints, sizes, worst_case


def total(n: int, m: int) -> int:
    """How many profiles there are, (m!)^(n-1): agent 0's order is the identity by relabelling.

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
    >>> rankings.total(3, 4)
    576
    """
    n, m = sizes(n, m)
    return factorial(m) ** (n - 1)


def profiles(n: int, m: int) -> Iterator[Ints]:
    """Every profile of n agents and m models.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Yields
    ------
    ndarray of int, shape (n, m)
        Rank of each model for each agent, from 0.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> [ranks.tolist() for ranks in rankings.profiles(2, 2)]
    [[[0, 1], [0, 1]], [[0, 1], [1, 0]]]
    """
    n, m = sizes(n, m)
    rows = list(itertools.permutations(range(m)))
    for others in itertools.product(rows, repeat=n - 1):
        yield np.array([rows[0], *others])


def apart(n: int, m: int, B: int) -> int:
    """How many profiles have b >= B, i.e. no model that all n agents have among their first B.

    The models that the first k agents have among their first B are s of them; the next agent's first B hold t of these
    in C(s, t) C(m - s, B - t) ways, and B! (m - B)! orders share each such set.
    """
    n, m = sizes(n, m)
    if m < B:
        return 0
    ways = {B: 1}
    for _ in range(n - 1):
        following: dict[int, int] = {}
        for s, w in ways.items():
            for t in range(max(0, s + B - m), min(s, B) + 1):
                following[t] = following.get(t, 0) + w * comb(s, t) * comb(m - s, B - t)
        ways = following
    return ways.get(0, 0) * (factorial(B) * factorial(m - B)) ** (n - 1)


def counts(n: int, m: int) -> list[int]:
    """How many profiles have b = 0, 1, ..., m-1, found from how many models all agents have among their first.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.counts(3, 4)
    [36, 236, 304, 0]
    """
    at_least = [apart(n, m, B) for B in range(m + 1)]
    return [at_least[b] - at_least[b + 1] for b in range(m)]


@cache
def _maxima(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted vectors of largest ranks, v_k >= k: int8 [S, m] with S a Catalan number; and how permutations move them."""
    rows: list[tuple[int, ...]] = [()]
    for k in range(m):
        rows = [(*row, v) for row in rows for v in range(max([k, *row[-1:]]), m)]
    states = np.array(rows, dtype=np.int8)
    place = np.full(m**m, -1, dtype=np.int32)
    place[states.astype(np.int64) @ m ** np.arange(m - 1, -1, -1)] = np.arange(len(states))
    return states, kernels.steps_of_maxima(states, place).astype(object)


def counts_by_maxima(n: int, m: int) -> list[int]:
    """The same as `counts` by a walk over sorted largest ranks, with every permutation of every agent tried.

    Parameters
    ----------
    n, m : int
        How many agents and models there are; m is up to 8.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.counts_by_maxima(3, 4) == rankings.counts(3, 4)
    True
    """
    n, m = sizes(n, m)
    if m > 8:
        raise FairFLError(f"The walk over sorted maxima tries m! permutations in each state: take m <= 8, not {m}.")
    found = [0] * m
    for row, w in zip(_maxima(m)[0], _walked(n, m), strict=True):
        found[row[0]] += w
    return found


@cache
def _walked(n: int, m: int) -> np.ndarray:
    """How many profiles of n agents have each of the sorted largest ranks, Python's whole numbers [S]."""
    states, steps = _maxima(m)
    if n == 1:
        return (states == np.arange(m)).all(axis=1).astype(int).astype(object)
    return _walked(n - 1, m) @ steps


@cache
def joint(n: int, m: int) -> tuple[dict[tuple[str, str], np.ndarray], int]:
    """Profiles by heterogeneity and b, for each distance and kind of heterogeneity.

    Feasible are n = 2 to m = 11, n = 3 to m = 7 and n = 4 to m = 6.

    Parameters
    ----------
    n, m : int
        How many agents and models there are.

    Returns
    -------
    histograms : dict of (distance, kind) to ndarray of int64, shape (values, m)
        How many profiles have each distance in whole numbers and each b. For kind "mean" the rows are sums over the n (n-1) /
        2 pairs.
    not_pareto : int
        How many profiles have a minimiser of the largest rank that is not Pareto optimal.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> histograms, not_pareto = rankings.joint(2, 3)
    >>> histograms["md", "max"].tolist(), not_pareto
    ([[1, 0, 0], [1, 1, 0], [0, 3, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 0)
    """
    n, m = sizes(n, m)
    if n == 1 or (n - 1) * np.log(float(factorial(m))) > 21:
        raise FairFLError(f"All profiles of {n} agents and {m} models are too few or too many to enumerate.")
    if n == 2:
        found, bad = kernels.joint_two(m)
        return {(d, how): found[k] for k, d in enumerate(DISTANCES) for how in HOW}, int(bad)
    perms = kernels.all_permutations(m, factorial(m))
    size = n * (n - 1) // 2 * max(m * m // 2, 2 * m) + 1
    found, bad = kernels.joint_many(n, perms, kernels.all_distances(perms), size)
    named = {(name[:2], name[3:]): found[k] for k, name in enumerate(kernels.STATISTICS)}
    named["md", "nway"] = named["md", "max"]  # a largest difference of two ranks either way
    return named, int(bad)


def worst(distance: str, n: int, m: int, how: str = "max") -> dict[float, int]:
    """The largest b over all profiles of each heterogeneity that occurs.

    Parameters
    ----------
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    n, m : int
        How many agents and models there are.
    how : {"max", "mean", "radius", "nway"}
        The kind of heterogeneity.

    Returns
    -------
    dict of float to int
        b by h in the paper's units.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.worst("ed", 2, 4)
    {0.0: 0, 2.0: 1, 4.0: 2, 6.0: 2}
    """
    choose(distance, DISTANCES, "distance"), choose(how, HOW, "kind of heterogeneity")
    histogram = joint(n, m)[0][distance, how]
    unit = (1 if distance == "ed" else m) * (n * (n - 1) // 2 if how == "mean" else 1)
    return {value / unit: int(np.flatnonzero(row)[-1]) for value, row in enumerate(histogram) if row.any()}


def check_all(statement: str, distance: str, n: int, m: int, limit: Limit, kind: str = "max") -> Check:
    """Whether beta is within a limit that depends on heterogeneity, over all profiles.

    Parameters
    ----------
    statement : str
        What the check is called.
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    n, m : int
        How many agents and models there are.
    limit : callable
        Gives the limit on beta for h in the paper's units, n and m.
    kind : {"max", "mean", "radius", "nway"}
        The kind of heterogeneity.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.check_all("theorem-4.2", "fd", 3, 4, lambda h, n, m: rankings.bound("fd", h, n, m)).violations
    0
    """
    histogram = joint(n, m)[0][distance, kind]
    unit = (1 if distance == "ed" else m) * (n * (n - 1) // 2 if kind == "mean" else 1)
    violations, largest = 0, 0.0
    for value in np.flatnonzero(histogram.any(axis=1)):
        row, allowed = histogram[value], m * limit(value / unit, n, m)
        violations += int(row[np.arange(m) > allowed + SLACK].sum())
        largest = max(largest, ratio(np.flatnonzero(row)[-1], allowed))
    return Check(statement, n, m, "every profile", int(histogram.sum()), violations, largest)


def check_existence_all(
    statement: str, n: int, m: int, limit: Callable[[int, int], int] = worst_case, engine: str = "counts"
) -> Check:
    """Whether b is within a limit, over all profiles.

    Parameters
    ----------
    statement : str
        What the check is called.
    n, m : int
        How many agents and models there are.
    limit : callable
        Gives the limit on b for n and m.
    engine : {"counts", "maxima"}
        How profiles are counted, see `counts` and `counts_by_maxima`.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.check_existence_all("theorem-3.1", 4, 6).instances
    373248000
    """
    choose(engine, ("counts", "maxima"), "engine")
    found = counts(n, m) if engine == "counts" else counts_by_maxima(n, m)
    most, allowed = max(b for b in range(m) if found[b]), limit(n, m)
    how = "every profile, counted" if engine == "counts" else "every profile, by sorted maxima"
    return Check(statement, n, m, how, sum(found), sum(found[allowed + 1 :]), ratio(most, allowed))
