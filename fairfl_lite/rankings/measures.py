"""Measures by grid and by Monte Carlo, on sets of models whose ranks are known in closed form; and Appendix A.

A finite set of points with the counting measure is itself an instance of Theorem 3.2, so its ranks are `positions` over
the number of points; as the points fill P they converge to the ranks of P.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings.bounds import Check
from fairfl_lite.rankings.continuous import EXAMPLE_2, PLATEAU, Piece, Piecewise
from fairfl_lite.rankings.ranks import Mask, pareto, positions, sizes

Points = NDArray[np.float64]
Function = Callable[[Points], NDArray[np.float64]]


@dataclass(frozen=True)
class Region:
    """A measurable set in a box, whose measure is known.

    Parameters
    ----------
    low, high : tuple of float
        The corners of the box.
    contains : callable
        Whether each of points of shape (k, d) is in the set, a mask of shape (k,).
    measure : float
        Its measure in closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import rankings
    >>> disc = rankings.Region((-1, -1), (1, 1), lambda c: (c**2).sum(axis=1) <= 1, np.pi)
    >>> disc.grid(10).shape, disc.sample(100, np.random.default_rng(0)).shape
    ((80, 2), (100, 2))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    contains: Callable[[Points], Mask]
    measure: float

    def grid(self, cells: int) -> Points:
        """Middles of the cells of a grid, `cells` along each side of the box, that lie in the set."""
        axes = [a + (np.arange(cells) + 0.5) * (b - a) / cells for a, b in zip(self.low, self.high, strict=True)]
        return self._inside(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        """`size` points drawn uniformly, by rejection from the box."""
        kept: list[Points] = []
        while sum(map(len, kept)) < size:
            kept.append(self._inside(rng.uniform(self.low, self.high, (size, len(self.low)))))
        return np.concatenate(kept)[:size]

    def _inside(self, points: Points) -> Points:
        kept = points[self.contains(points)]
        if not len(kept):
            raise FairFLError("No point of the grid or sample lies in the set: take more.")
        return kept


@dataclass(frozen=True)
class Closed:
    """An instance with ranks in closed form: utilities[i] and ranks[i] are functions of points [k, d]."""

    region: Region
    utilities: tuple[Function, ...]
    ranks: tuple[Function, ...]

    def table(self, points: Points) -> NDArray[np.float64]:
        """Utilities [n, k]."""
        return np.stack([u(points) for u in self.utilities])

    def exact(self, points: Points) -> NDArray[np.float64]:
        """Ranks [n, k] in P."""
        return np.stack([rank(points) for rank in self.ranks])

    def error(self, points: Points, sample: Points) -> float:
        """Largest difference at `points` between the rank in P and the share of the `sample` that is at least as good."""
        own, seen = self.table(points), np.sort(self.table(sample), axis=1)
        share = [1 - np.searchsorted(s, u, side="left") / len(sample) for s, u in zip(seen, own, strict=True)]
        return float(np.abs(np.stack(share) - self.exact(points)).max())


def on_a_line(*utilities: Piecewise) -> Closed:
    """Piecewise linear utilities as an instance in R^1."""
    pieces = utilities[0].pieces
    spans = np.array([[float(p.low), float(p.high)] for p in pieces])

    def inside(x: Points) -> Mask:
        return np.any((x >= spans[:, 0]) & (x < spans[:, 1]), axis=1)

    def rank(u: Piecewise) -> Function:
        return lambda x: np.array([float(u.rank(c)) for c in x.ravel().tolist()])

    region = Region((spans.min(),), (spans.max(),), inside, float(utilities[0].size))
    return Closed(region, tuple(u.values for u in utilities), tuple(map(rank, utilities)))


def _annulus() -> Closed:
    """1 <= |c| <= 2. Agents want a small radius, a large one, and a small angle in [0, 2 pi)."""
    radius, angle = (lambda c: np.hypot(*c.T)), (lambda c: np.arctan2(c[:, 1], c[:, 0]) % (2 * pi))
    region = Region((-2.0, -2.0), (2.0, 2.0), lambda c: (radius(c) >= 1) & (radius(c) <= 2), 3 * pi)
    utilities = (lambda c: -radius(c), radius, lambda c: -angle(c))
    ranks = (lambda c: (radius(c) ** 2 - 1) / 3, lambda c: (4 - radius(c) ** 2) / 3, lambda c: angle(c) / (2 * pi))
    return Closed(region, utilities, ranks)


def _l_shape() -> Closed:
    """[0, 2]^2 without (1, 2]^2: agents want a large x, a large y, and the third is content with c_1 < 1 (a plateau)."""
    region = Region((0.0, 0.0), (2.0, 2.0), lambda c: np.any(c <= 1, axis=1), 3.0)

    def far(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(t >= 1, 2 - t, 3 - 2 * t) / 3

    utilities = (lambda c: c[:, 0], lambda c: c[:, 1], lambda c: (c[:, 0] < 1).astype(float))
    ranks = (lambda c: far(c[:, 0]), lambda c: far(c[:, 1]), lambda c: np.where(c[:, 0] < 1, 2 / 3, 1.0))
    return Closed(region, utilities, ranks)


CLOSED = {
    "example 2": on_a_line(*EXAMPLE_2),
    "plateaus": on_a_line(PLATEAU, Piecewise.through((0, 0), (Fraction(1, 4), 1), (Fraction(3, 4), 1), (1, 0))),
    "jumps": on_a_line(
        Piecewise((Piece(0, Fraction(1, 2), 0, 1), Piece(Fraction(1, 2), 1, 0, 2, (True, True)))),
        Piecewise((Piece(0, Fraction(1, 2), 2, 1), Piece(Fraction(1, 2), 1, 3, 0, (True, True)))),
    ),
    "two intervals": on_a_line(
        Piecewise((Piece(0, 1, 0, 1, (True, True)), Piece(2, 4, 1, 3, (True, True)))),
        Piecewise((Piece(0, 1, 3, 2, (True, True)), Piece(2, 4, 2, 0, (True, True)))),
    ),
    "annulus": _annulus(),
    "L-shape": _l_shape(),
}


def alpha_position(utilities: ArrayLike) -> int:
    """Definition 2 with the counting measure: the largest over agents of the smallest position above m (1 - 1/n)."""
    p = positions(utilities)
    n, m = p.shape
    return int(np.where(n * p > m * (n - 1), p, m).min(axis=1).max())


def check_finite(statement: str, tables: Iterable[ArrayLike], limit: Callable[[ArrayLike], float] = alpha_position,
                 how: str = "counting measure") -> Check:  # fmt: skip
    """Theorem 3.2 on finite sets of points: is there a Pareto optimal model whose positions are all within a limit?

    Parameters
    ----------
    statement : str
        What the check is called.
    tables : iterable of array_like of shape (n, m)
        Utilities of each model for each agent.
    limit : callable
        Gives the limit on positions for a table.
    how : str
        Where the tables come from.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.check_finite("theorem-3.2", [[[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]]).holds
    True
    """
    seen = violations = n = m = 0
    worst = 0.0
    for table in tables:
        largest, allowed = positions(table).max(axis=0), limit(table)
        seen, n, m = seen + 1, max(n, len(np.asarray(table))), max(m, largest.size)
        violations += not (pareto(table) & (largest <= allowed)).any()
        worst = max(worst, float(largest.min() / allowed)) if allowed else np.inf
    return Check(statement, n, m, how, seen, violations, worst)


def check_measure(statement: str, instance: Closed, points: Points, sample: Points, tolerance: float, how: str) -> Check:
    """Ranks in P against shares of a sample, at every point and for every agent, within a tolerance.

    Parameters
    ----------
    statement : str
        What the check is called.
    instance : Closed
        An instance with ranks in closed form, one of ``CLOSED``.
    points : ndarray of shape (k, d)
        Where ranks are compared.
    sample : ndarray of shape (size, d)
        The models that stand for P.
    tolerance : float
        How far a rank may be from a share.
    how : str
        Where the sample comes from.

    Returns
    -------
    Check

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> ring = rankings.CLOSED["annulus"]
    >>> points, sample = ring.region.grid(10), ring.region.grid(200)
    >>> rankings.check_measure("ranks", ring, points, sample, tolerance=0.02, how="grid").holds
    True
    """
    error = instance.error(points, sample)
    return Check(statement, len(instance.utilities), len(points), how, points.shape[0], int(error > tolerance), error / tolerance)


@dataclass(frozen=True)
class AppendixA:
    """Two agents to whom no share of their maximum can be promised (Appendix A).

    ``u_1(c) = L max(0, 1/sqrt(L) - c)^2`` on [0, 1], and ``u_2(c) = u_1(1 - c)``. Both have maximum 1 and are 2L-smooth. At
    every c some agent has utility 0 exactly when L >= 4. Proportionality itself, half of the maximum for both, fails already
    for L > (2 - sqrt(2))^2 = 0.343...

    Parameters
    ----------
    L : float
        The steepness, above 0.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.AppendixA(1.0).promise, rankings.AppendixA(4.0).promise
    (0.25, 0.0)
    """

    L: float

    def __post_init__(self) -> None:
        if not self.L > 0:
            raise FairFLError(f"L must be positive, not {self.L}.")

    def utilities(self, c: ArrayLike) -> NDArray[np.float64]:
        """Utilities of shape (2, k) at the points c."""
        c = np.asarray(c, dtype=float)
        return np.stack([self.L * np.maximum(0, 1 / sqrt(self.L) - x) ** 2 for x in (c, 1 - c)])

    def gradients(self, c: ArrayLike) -> NDArray[np.float64]:
        c = np.asarray(c, dtype=float)
        return np.stack([s * 2 * self.L * np.maximum(0, 1 / sqrt(self.L) - x) for s, x in ((-1, c), (1, 1 - c))])

    @property
    def promise(self) -> float:
        """``max_c min_i u_i(c) / max u_i = max(0, 1 - sqrt(L)/2)^2``, attained at c = 1/2, since one utility falls and the other
        rises.
        """
        return max(0.0, 1 - sqrt(self.L) / 2) ** 2

    def ranks(self, c: ArrayLike) -> NDArray[np.float64]:
        """Continuous ranks of shape (2, k), c where u_1 > 0, and 1 on the plateau, so that alpha = 1 whenever L >= 4."""
        c = np.asarray(c, dtype=float)
        return np.stack([np.where(x < 1 / sqrt(self.L), x, 1.0) for x in (c, 1 - c)])


def tied(n: int, m: int, values: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Utilities [n, m] of few different values: plateaus."""
    n, m = sizes(n, m)
    return rng.integers(0, values, (n, m)).astype(float)
