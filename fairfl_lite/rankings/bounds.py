"""Bounds on beta by heterogeneity (Theorems 4.1-4.3), sharper ones, and what a check reports.

Write b = m beta, and H for the distance in whole numbers (md and fd times m). In this notation ::

    paper   md: b <= H        fd: b <= sqrt(2 (n-1) H)       ed: b <= (n-1) H
    ours    md: b <= H        fd: b <= (n-1) sqrt(H/n)       ed: b <= (n-1) H / 2

and "ours" holds as well for the mean over pairs (fd, ed), for the radius (md), for n H / 2 with the mean md, and for
the n-way distances, as b (b+1) / 2 <= H and b <= H/2. "sharp" is the largest whole number b that the same
arguments leave, never above floor(m (n-1) / n).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairfl_lite.errors import FairFLError, choose
from fairfl_lite.rankings.distances import DISTANCES, HOW, heterogeneity
from fairfl_lite.rankings.ranks import Ints, beta, sizes, worst_case

VERSIONS = ("paper", "ours", "sharp")
Limit = Callable[[float, int, int], float]  # (h in the paper's units, n, m) -> beta
SLACK = 1e-9  # ranks are whole numbers; square roots are not exact


@dataclass(frozen=True)
class Check:
    """What was seen of one statement.

    Attributes
    ----------
    statement : str
        Which one.
    n, m : int
        How many agents and models the largest instance had.
    how : str
        Where the instances come from.
    instances : int
        How many were checked, exact however large.
    violations : int
        In how many of these the statement does not hold.
    worst : float
        The largest value over its bound; 1 when the bound was attained. 0 over 0 is left out.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> check = rankings.check_existence_all("theorem-3.1", n=3, m=4)
    >>> check.instances, check.violations, check.worst
    (576, 0, 1.0)
    """

    statement: str
    n: int
    m: int
    how: str
    instances: int
    violations: int
    worst: float

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return self.violations == 0


def ratio(value: float, limit: float) -> float:
    """value / limit; for a limit of 0 or less, 0 when the value keeps it and inf when not."""
    return float(value / limit) if limit > 0 else inf if value > limit + SLACK else 0.0


def _together(b: int, n: int) -> int:
    """sum_{s=1}^b ceil(n s / (n-1))."""
    q, r = divmod(b, n - 1)
    return b * (b + 1) // 2 + (n - 1) * q * (q + 1) // 2 + r * (q + 1)


def need(distance: str, b: int, n: int, how: str = "max") -> float:
    """A lower bound on the distance of n orders whose beta is b, which the "sharp" bound inverts.

    Parameters
    ----------
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    b : int
        m beta.
    n : int
        How many orders there are.
    how : {"max", "mean", "radius", "nway"}
        The kind of heterogeneity, see `heterogeneity`.

    Returns
    -------
    float
        In whole numbers of ranks: md and fd of the paper times m. inf for one order and b above 0, since its beta is 0.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.need("fd", b=2, n=3)
    3.0
    """
    if b == 0 or n == 1:
        return 0.0 if b == 0 else inf
    if distance == "md":
        return 2 * b / n if how == "mean" else b
    if distance == "ed":
        return 2 * b if how == "nway" else 2 * b / (n - 1)
    if how == "nway":  # prefixes of length s <= b have nothing in common, so together they hold n s / (n-1) models
        return _together(b, n) + _together(-(-b // (n - 1)) - 1, n)
    q, r = divmod(b, n - 1)
    return (b * b + r * (q + 1) ** 2 + (n - 1 - r) * q * q) / (n - 1)


def bound(distance: str, h: ArrayLike, n: int, m: int, version: str = "paper", how: str = "max") -> Any:
    """The bound on beta at a heterogeneity h (Theorems 4.1-4.3).

    Parameters
    ----------
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    h : array_like
        Heterogeneity in the paper's units, see `heterogeneity`.
    n, m : int
        How many agents and models there are.
    version : {"paper", "ours", "sharp"}
        Which bound.
    how : {"max", "mean", "radius", "nway"}
        The kind of heterogeneity. The paper has "max" only, and "radius" is for md.

    Returns
    -------
    float, or ndarray for many h

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> [round(rankings.bound("fd", 0.5, n=3, m=20, version=version), 3) for version in ("paper", "ours", "sharp")]
    [0.316, 0.183, 0.15]
    """
    n, m = sizes(n, m)
    choose(distance, DISTANCES, "distance"), choose(version, VERSIONS, "version of a bound")
    if choose(how, HOW, "kind of heterogeneity") != "max" and version == "paper":
        raise FairFLError(f"The paper has no bound by the {how} of distances: take version 'ours' or 'sharp'.")
    if how == "radius" and distance != "md":
        raise FairFLError(f"The radius bounds beta for md, not for {distance}.")
    H = np.asarray(h, dtype=float) * (1 if distance == "ed" else m)
    if np.isnan(H).any() or (H < 0).any():
        raise FairFLError("Heterogeneity is a number of at least 0.")
    found = _sharp(distance, H, n, m, how) if version == "sharp" else _formula(distance, H, n, version, how)
    return found / m if found.ndim else float(found) / m


def _formula(distance: str, H: np.ndarray, n: int, version: str, how: str) -> np.ndarray:
    if distance == "md":
        return H * n / 2 if how == "mean" else H
    if version == "paper":
        return np.sqrt(2 * (n - 1) * H) if distance == "fd" else (n - 1) * H
    if how == "nway":
        return (np.sqrt(1 + 8 * H) - 1) / 2 if distance == "fd" else H / 2
    return (n - 1) * np.sqrt(H / n) if distance == "fd" else (n - 1) * H / 2


def _sharp(distance: str, H: np.ndarray, n: int, m: int, how: str) -> np.ndarray:
    return np.searchsorted(_needs(distance, n, m, how), H + SLACK, side="right") - 1.0


@cache
def _needs(distance: str, n: int, m: int, how: str) -> np.ndarray:
    """need(b) for b = 0..floor(m (n-1) / n), which increases with b."""
    return np.array([need(distance, b, n, how) for b in range(worst_case(n, m) + 1)])


def merge(checks: Iterable[Check]) -> Check:
    """One check of the same statement over the instances of all, with the largest n and m."""
    rows = list(checks)
    return replace(
        rows[0],
        n=max(c.n for c in rows),
        m=max(c.m for c in rows),
        instances=sum(c.instances for c in rows),
        violations=sum(c.violations for c in rows),
        worst=max(c.worst for c in rows),
    )


def gather(statement: str, how: str, seen: Iterable[tuple[int, int, bool, float]]) -> Check:
    """A check from (n, m, whether violated, value over bound) of each instance; n and m reported are the largest."""
    rows = list(seen)
    if not rows:
        raise FairFLError(f"There is no instance to check {statement} on.")
    n, m, bad, worst = zip(*rows, strict=True)
    return Check(statement, max(n), max(m), how, len(rows), sum(map(bool, bad)), max(worst))


def _compare(ranks: Ints, allowed: float) -> tuple[int, int, bool, float]:
    b = beta(ranks)
    return *ranks.shape, b > allowed + SLACK, ratio(b, allowed)


def check_existence(
    statement: str, instances: Iterable[Ints], limit: Callable[[int, int], float] = worst_case, how: str = "random"
) -> Check:
    """Whether b is within a limit for each table of ranks.

    Parameters
    ----------
    statement : str
        What the check is called.
    instances : iterable of ndarray of shape (n, m)
        Tables of ranks.
    limit : callable
        Gives the limit on b for n and m.
    how : str
        Where the instances come from.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.check_existence("theorem-3.1", rankings.profiles(2, 3)).holds
    True
    """
    return gather(statement, how, (_compare(ranks, limit(*ranks.shape)) for ranks in instances))


def check_heterogeneity(
    statement: str, instances: Iterable[Ints], distance: str, limit: Limit, kind: str = "max", how: str = "random"
) -> Check:
    """Whether beta is within a limit that depends on heterogeneity, for each table of ranks.

    Parameters
    ----------
    statement : str
        What the check is called.
    instances : iterable of ndarray of shape (n, m)
        Tables of ranks.
    distance : {"md", "fd", "ed"}
        Maximum displacement, footrule or edit distance.
    limit : callable
        Gives the limit on beta for h in the paper's units, n and m.
    kind : {"max", "mean", "radius", "nway"}
        The kind of heterogeneity.
    how : str
        Where the instances come from.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> limit = lambda h, n, m: rankings.bound("md", h, n, m)
    >>> rankings.check_heterogeneity("theorem-4.1", rankings.profiles(2, 3), "md", limit).holds
    True
    """

    def allowed(ranks: Ints) -> float:
        n, m = ranks.shape
        return m * limit(heterogeneity(ranks, distance, kind), n, m)

    return gather(statement, how, (_compare(ranks, allowed(ranks)) for ranks in instances))
