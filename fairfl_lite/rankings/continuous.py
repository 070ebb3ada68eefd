"""Continuous models: ranks by Lebesgue measure, exact for piecewise linear utilities on unions of intervals.

rank(c) = measure{u >= u(c)} / measure(P). Everything here is computed with fractions: where a minimum is attained and
where it is only approached decides what Theorem 3.2 says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairfl_lite.errors import FairFLError

Number = Fraction | int | float
Span = tuple[Fraction, Fraction]


class Infimum(NamedTuple):
    """A smallest value, and whether it is attained or only approached."""

    value: Fraction
    attained: bool


class Stretch(NamedTuple):
    """An open interval on which the rank is linear, with its limits at both ends; a single point has low = high."""

    low: Fraction
    high: Fraction
    first: Fraction
    last: Fraction

    @property
    def point(self) -> bool:
        return self.low == self.high

    def at(self, c: Fraction) -> Fraction:
        return self.first if self.point else self.first + (self.last - self.first) * (c - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Piece:
    """A utility on one interval, linear from one end to the other.

    Parameters
    ----------
    low, high : Fraction, int or float
        The ends of the interval; equal for a single point.
    first, last : Fraction, int or float
        The utility at both ends.
    closed : tuple of two bool
        Which ends belong to it.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> piece = rankings.Piece(0, 2, first=1, last=3)
    >>> print(piece.value(1), 2 in piece)
    2 False
    """

    low: Number
    high: Number
    first: Number
    last: Number
    closed: tuple[bool, bool] = (True, False)

    def __post_init__(self) -> None:
        for name in ("low", "high", "first", "last"):
            object.__setattr__(self, name, Fraction(getattr(self, name)))
        if self.low > self.high or (self.low == self.high and (not all(self.closed) or self.first != self.last)):
            raise FairFLError(f"A piece goes from low to high, or is one point with one value, not {self}.")

    def __contains__(self, c: Fraction) -> bool:
        return self.low < c < self.high or (c == self.low and self.closed[0]) or (c == self.high and self.closed[1])

    def value(self, c: Fraction) -> Fraction:
        """The utility at a point of the interval, a Fraction."""
        if self.low == self.high:
            return Fraction(self.first)
        return Fraction(self.first + (self.last - self.first) * (c - self.low) / (self.high - self.low))

    def above(self, level: Fraction) -> Span | None:
        """Where u >= level, up to ends; None where it is nowhere."""
        if max(self.first, self.last) < level:
            return None
        if min(self.first, self.last) >= level:
            return Fraction(self.low), Fraction(self.high)
        cut = Fraction(self.low + (self.high - self.low) * (level - self.first) / (self.last - self.first))
        return (cut, Fraction(self.high)) if self.last > self.first else (Fraction(self.low), cut)


@dataclass(frozen=True)
class Piecewise:
    """A utility of finitely many linear pieces.

    The set P of models is the union of the pieces, any union of intervals and points. `Piecewise.through` and `Piecewise.steps`
    make one from points. Everything is computed with fractions.

    Parameters
    ----------
    pieces : tuple of Piece
        In order, and without a common point.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> u = rankings.Piecewise.through((0, 0), (1, 1))
    >>> print(u(0.25), u.rank(0.25), u.share(0.5))
    1/4 3/4 1/2
    """

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for a, b in pairwise(self.pieces):
            if b.low < a.high or (a.high == b.low and a.closed[1] and b.closed[0]):
                raise FairFLError("Pieces must come in order and share no point.")
        if self.size <= 0:
            raise FairFLError("The pieces must have a positive measure together.")

    @classmethod
    def through(cls, *points: tuple[Number, Number]) -> Piecewise:
        """The continuous utility on [first c, last c] through the points (c, u)."""
        ends = list(pairwise(points))
        return cls(tuple(Piece(a[0], b[0], a[1], b[1], (True, k == len(ends) - 1)) for k, (a, b) in enumerate(ends)))

    @classmethod
    def steps(cls, *steps: tuple[Number, Number, Number]) -> Piecewise:
        """Constant on each [low, high) of (low, high, u); an interval that ends at a gap or at the end of P is closed."""
        lows = {Fraction(low) for low, _, _ in steps}
        return cls(tuple(Piece(low, high, u, u, (True, Fraction(high) not in lows)) for low, high, u in steps))

    @cached_property
    def size(self) -> Fraction:
        """measure(P)."""
        return Fraction(sum(p.high - p.low for p in self.pieces))

    @cached_property
    def levels(self) -> list[Fraction]:
        """Values at the ends of pieces, in order. Between two of them the measure is linear in the level."""
        return sorted({Fraction(v) for p in self.pieces for v in (p.first, p.last)})

    def __contains__(self, c: Fraction) -> bool:
        return any(c in p for p in self.pieces)

    def __call__(self, c: Number) -> Fraction:
        c = Fraction(c)
        for p in self.pieces:
            if c in p:
                return p.value(c)
        raise FairFLError(f"{c} is not in P.")

    def above(self, level: Number) -> list[Span]:
        """{u >= level} as disjoint intervals in order, up to their ends (Proposition 1: finitely many)."""
        found: list[Span] = []
        for span in (p.above(Fraction(level)) for p in self.pieces):
            if span and found and found[-1][1] == span[0]:
                found[-1] = (found[-1][0], span[1])
            elif span:
                found.append(span)
        return found

    def share(self, level: Number) -> Fraction:
        """measure{u >= level} / measure(P); does not increase, and is continuous from below."""
        return sum((high - low for low, high in self.above(level)), Fraction(0)) / self.size

    def rank(self, c: Number) -> Fraction:
        return self.share(self(c))

    def cuts(self) -> set[Fraction]:
        """Ends of pieces, and points where u passes a value of `levels`: between neighbours the rank is linear."""
        ends = {Fraction(c) for p in self.pieces for c in (p.low, p.high)}
        spans = (p.above(v) for p in self.pieces if p.first != p.last for v in self.levels)
        return ends | {c for span in spans if span for c in span}

    def stretches(self, cuts: Sequence[Fraction] | None = None) -> list[Stretch]:
        """P as points and open intervals on which the rank is linear."""
        if cuts is None:
            return self._stretches
        found = [Stretch(c, c, self.rank(c), self.rank(c)) for c in cuts if c in self]
        for low, high in pairwise(cuts):
            third = (high - low) / 3
            if low + third in self:
                a, b = self.rank(low + third), self.rank(high - third)
                found.append(Stretch(low, high, 2 * a - b, 2 * b - a))
        return found

    @cached_property
    def _stretches(self) -> list[Stretch]:
        return self.stretches(sorted(self.cuts()))

    def alpha(self, above: Number) -> Infimum:
        """inf of the achievable ranks larger than `above` (Definition 2 with 1 - 1/n), and whether it is a minimum."""
        t, found = Fraction(above), []
        for s in self.stretches():
            low, high = sorted((s.first, s.last))
            if low == high > t:
                found.append(Infimum(low, True))
            elif high > max(t, low):
                found.append(Infimum(max(low, t), False))
        return min(found, key=lambda a: (a.value, not a.attained))

    def achieves(self, beta: Number) -> bool:
        """Whether some model has this rank."""
        return any(s.first == beta == s.last or min(s.first, s.last) < beta < max(s.first, s.last) for s in self.stretches())

    def within(self, beta: Number) -> Fraction:
        """measure{rank <= beta} / measure(P), the size of Lemma 1's set Z."""
        size = Fraction(0)
        for s in self.stretches():
            low, high = sorted((s.first, s.last))
            part = Fraction(low <= beta) if low == high else (Fraction(beta) - low) / (high - low)
            size += (s.high - s.low) * min(max(part, Fraction(0)), Fraction(1))
        return size / self.size

    def threshold(self, beta: Number) -> Fraction:
        """Claim 2's l* = inf{l : measure{u >= l} < beta measure(P)}, for 0 < beta <= 1."""
        if not 0 < beta <= 1:
            raise FairFLError(f"The threshold is for 0 < beta <= 1, not {beta}.")
        for low, high in pairwise(self.levels):
            top, bottom = 2 * self.share((low + high) / 2) - self.share(high), self.share(high)  # limits on (low, high]
            if top < beta:
                return low
            if bottom < beta:
                return low + (high - low) * (top - Fraction(beta)) / (top - bottom)
        return self.levels[-1]

    def top(self) -> Infimum:
        """sup u, and whether some model attains it."""
        value = self.levels[-1]
        flat = any(p.first == p.last == value for p in self.pieces)
        return Infimum(value, flat or any(c in self and self(c) == value for c in self.cuts()))

    def values(self, c: ArrayLike) -> NDArray[np.float64]:
        """u at many points, in floating point."""
        at = np.asarray(c, dtype=float).ravel()
        found = np.full(at.shape, np.nan)
        for p in self.pieces:
            low, high = float(p.low), float(p.high)
            own = (at > low) & (at < high) | (at == low) & p.closed[0] | (at == high) & p.closed[1]
            found[own] = np.interp(at[own], [low, high], [float(p.first), float(p.last)])
        if np.isnan(found).any():
            raise FairFLError(f"{at[np.isnan(found)][0]} is not in P.")
        return found


class Existence(NamedTuple):
    """alpha of Definition 2, and the infimum over models of the largest rank."""

    alpha: Infimum
    beta: Infimum
    n: int

    @property
    def exists(self) -> bool:
        """Whether some model has all ranks <= alpha, alpha being the infimum where there is no minimum."""
        return self.beta.value < self.alpha.value or (self.beta.value == self.alpha.value and self.beta.attained)

    @property
    def strict(self) -> bool:
        """alpha > 1 - 1/n, the case in which a rankwise proportional model must exist."""
        return self.alpha.value > 1 - Fraction(1, self.n)


def existence(utilities: Sequence[Piecewise]) -> Existence:
    """Theorem 3.2 for one instance, exactly: on each stretch the largest rank is a maximum of lines.

    Parameters
    ----------
    utilities : sequence of Piecewise
        One for each agent, on the same set of models.

    Returns
    -------
    Existence
        alpha of Definition 2, the infimum over models of the largest rank, whether each is attained, and whether a rankwise
        proportional model exists.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> up, down = rankings.Piecewise.through((0, 0), (1, 1)), rankings.Piecewise.through((0, 1), (1, 0))
    >>> found = rankings.existence([up, down])
    >>> print(found.alpha.value, found.beta.value, found.exists)
    1/2 1/2 True
    """
    n = len(utilities)
    if n == 0:
        raise FairFLError("There must be at least one agent.")
    cuts = sorted(set().union(*(u.cuts() for u in utilities)))
    table = [u.stretches(cuts) for u in utilities]
    if len({tuple((s.low, s.high) for s in row) for row in table}) > 1:
        raise FairFLError("The utilities must be defined on the same set of models.")
    alphas = [u.alpha(1 - Fraction(1, n)) for u in utilities]
    alpha = max(alphas, key=lambda a: (a.value, not a.attained))
    beta = min((c for lines in zip(*table, strict=True) for c in _lowest(lines)), key=lambda a: (a.value, not a.attained))
    return Existence(alpha, beta, n)


def _lowest(lines: Sequence[Stretch]) -> Iterator[Infimum]:
    """Candidates for the infimum of the largest line: ends, approached only; the middle and crossings, attained."""
    low, high = lines[0].low, lines[0].high
    if lines[0].point:
        yield Infimum(max(s.first for s in lines), True)
        return
    yield Infimum(max(s.first for s in lines), False)
    yield Infimum(max(s.last for s in lines), False)
    inside = {(low + high) / 2}
    for a, b in combinations(lines, 2):
        gap, end = a.first - b.first, a.last - b.last
        if gap * end < 0:
            inside.add(low + (high - low) * gap / (gap - end))
    for c in inside:
        yield Infimum(max(s.at(c) for s in lines), True)


def blocks(orders: ArrayLike, falling: bool = False) -> list[Piecewise]:
    """Orders of m models [n, m], best first, as utilities on [0, 1): model k is the block from k/m to (k+1)/m.

    falling : within each block utilities fall, so that no models but single ones are equal; otherwise a block is flat."""
    places = np.argsort(np.asarray(orders), axis=1)
    m = places.shape[1]
    ends = [Fraction(k, m) for k in range(m + 1)]
    return [
        Piecewise(tuple(Piece(ends[k], ends[k + 1], m - int(p), m - int(p) - falling) for k, p in enumerate(row)))
        for row in places
    ]


def concave(rng: np.random.Generator, pieces: int = 4, flat: bool = False) -> Piecewise:
    """A random concave utility on [0, 1] of so many straight pieces; flat : its best piece is level, otherwise none is."""
    slopes = np.sort(rng.choice(np.arange(1, 40), size=pieces, replace=False))[::-1] - int(rng.integers(0, 40))
    slopes = slopes + (slopes <= 0) * -1  # none is 0, and they still fall
    if flat:
        slopes[int(rng.integers(0, pieces))] = 0
        slopes = np.sort(slopes)[::-1]
    ends = [Fraction(int(c), 60) for c in (0, *np.sort(rng.choice(np.arange(1, 60), size=pieces - 1, replace=False)), 60)]
    points = [(ends[0], Fraction(0))]
    for slope, (low, high) in zip(slopes.tolist(), pairwise(ends), strict=True):
        points.append((high, points[-1][1] + slope * (high - low)))
    return Piecewise.through(*points)


def steep(k: int) -> Piecewise:
    """Concave on [0, 1]: up from -2^k to 0 in the first quarter, then gently to 1. Its best half lies in the last unit."""
    return Piecewise.through((0, -(2**k)), (Fraction(1, 4), 0), (1, 1))


NEVER = 1000
"""Rounds of a binary search that are taken for no end."""


def rounds(u: Piecewise, r: Number, eps: Number) -> int | None:
    """Section 5.2: rounds of binary search between the smallest and the largest utility until a level has {u >= level}
    within (1 - eps) r and (1 + eps) r of P; None where there is no such level."""
    low, high = u.levels[0], u.levels[-1]
    for k in range(1, NEVER):
        middle = (low + high) / 2
        share = u.share(middle)
        if (1 - eps) * r <= share <= (1 + eps) * r:
            return k
        low, high = (middle, high) if share > r else (low, middle)
    return None


def drawn(n: int, rng: np.random.Generator, pieces: int = 4) -> list[Piecewise]:
    """n random utilities on one random union of intervals: half of the pieces flat, small whole values, jumps anywhere."""
    ends = np.sort(rng.choice(np.arange(1, 25), size=2 * pieces, replace=False)).reshape(-1, 2)
    ends[1:, 0] = np.where(rng.random(pieces - 1) < 0.5, ends[:-1, 1], ends[1:, 0])  # half of the gaps are closed

    def utility() -> Piecewise:
        first, last = rng.integers(0, 5, size=(2, pieces))
        last = np.where(rng.random(pieces) < 0.5, first, last)
        row = zip(ends.tolist(), first.tolist(), last.tolist(), strict=True)
        return Piecewise(tuple(Piece(a, b, u, v) for (a, b), u, v in row))

    return [utility() for _ in range(n)]


EXAMPLE_2 = (Piecewise.through((0, 0), (1, 1)), Piecewise.through((0, 1), (1, 0)))
PUNCTURED = tuple(  # Example 2 on [0, 1] without 1/2
    Piecewise((Piece(0, half, a, half), Piece(half, 1, half, 1 - a, (False, True)))) for half in [Fraction(1, 2)] for a in (0, 1)
)
OPEN = Piecewise((Piece(0, 1, 0, 1, (False, False)),))  # u = theta on (0, 1): no best model
PLATEAU = Piecewise.steps((0, Fraction(2, 5), 1), (Fraction(2, 5), 1, 0))
_END, _HALF = Fraction(2, 5), Fraction(1, 2)
LONE_POINT = Piecewise(  # the plateau with u = 1/2 at the single point 1/2, which has rank 2/5 too
    (
        Piece(0, _END, 1, 1),
        Piece(_END, _HALF, 0, 0),
        Piece(_HALF, _HALF, _HALF, _HALF, (True, True)),
        Piece(_HALF, 1, 0, 0, (False, True)),
    )
)
