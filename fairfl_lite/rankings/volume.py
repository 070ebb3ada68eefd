"""Volume of level sets of concave utilities by hit-and-run, and the utility that a share of the models reaches.

The share of {u >= alpha} in a convex body is a product of shares of nested level sets, each about half of the one
before, so that sampling works where a plain sample would find nothing (the idea of Dyer, Frieze and Kannan). Only
membership is asked of the sets: the ends of a chord are found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, gamma, pi
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairfl_lite.errors import FairFLError
from fairfl_lite.rankings.bounds import Check, gather

Points = NDArray[np.float64]
Oracle = Callable[[Points], NDArray[np.bool_]]
Utility = Callable[[Points], NDArray[np.float64]]
HALVINGS = 16  # of a chord's end, found from inside: what is left out is 2e-5 of the diameter, below any standard error here


class Volume(NamedTuple):
    value: float
    error: float


class Body(Protocol):
    """A convex set that can be sampled."""

    def contains(self, points: Points) -> NDArray[np.bool_]: ...
    def sample(self, size: int, rng: np.random.Generator) -> Points: ...
    @property
    def diameter(self) -> float: ...


@dataclass(frozen=True)
class Box:
    """The box of all points between low and high in each coordinate.

    Parameters
    ----------
    low, high : tuple of float
        The corners.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.Box.unit(2)
    Box(low=(0.0, 0.0), high=(1.0, 1.0))
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not self.low or not all(a < b for a, b in zip(self.low, self.high, strict=True)):
            raise FairFLError("A box needs as many lows as highs, each low below its high.")

    @classmethod
    def unit(cls, d: int) -> Box:
        """The box from 0 to 1 in d coordinates."""
        return cls((0.0,) * d, (1.0,) * d)

    def contains(self, points: Points) -> NDArray[np.bool_]:
        return np.all((points >= self.low) & (points <= self.high), axis=1)

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        return rng.uniform(self.low, self.high, (size, len(self.low)))

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(np.subtract(self.high, self.low)))


@dataclass(frozen=True)
class Ball:
    """The ball of all points within a radius of the centre.

    Parameters
    ----------
    centre : tuple of float
        The centre.
    radius : float
        The radius, above 0.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> rankings.Ball((0.0, 0.0)).diameter
    2.0
    """

    centre: tuple[float, ...]
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not self.centre or not self.radius > 0:
            raise FairFLError("A ball needs a centre of at least one coordinate and a positive radius.")

    def contains(self, points: Points) -> NDArray[np.bool_]:
        return ((points - self.centre) ** 2).sum(axis=1) <= self.radius**2

    def sample(self, size: int, rng: np.random.Generator) -> Points:
        d = len(self.centre)
        away = rng.standard_normal((size, d))
        away *= self.radius * rng.random((size, 1)) ** (1 / d) / np.linalg.norm(away, axis=1, keepdims=True)
        return away + self.centre

    @property
    def diameter(self) -> float:
        return 2 * self.radius


def hit_and_run(inside: Oracle, points: Points, diameter: float, steps: int, rng: np.random.Generator) -> Points:
    """Every point takes `steps` steps: a random direction, then a uniform place on its chord in the convex set."""
    for _ in range(steps):
        way = rng.standard_normal(points.shape)
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        ends = []
        for side in (-diameter, diameter):
            near, far = np.zeros((len(points), 1)), np.full((len(points), 1), side)
            for _ in range(HALVINGS):
                middle = (near + far) / 2
                within = inside(points + middle * way)[:, None]
                near, far = np.where(within, middle, near), np.where(within, far, middle)
            ends.append(near)
        points = points + (ends[0] + rng.random(ends[0].shape) * (ends[1] - ends[0])) * way
    return points


def _share(u: Utility, alpha: float, body: Body, size: int, steps: int, rng: np.random.Generator) -> float:
    """One estimate: halve the set at the median of u until alpha is below the median."""
    points, share, level = body.sample(size, rng), 1.0, -np.inf
    while True:
        values = u(points)
        median = float(np.median(values))
        if median >= alpha or median <= level:  # a level that does not rise is a plateau at the maximum
            return share * float((values >= alpha).mean())
        kept = points[values >= median]
        share *= len(kept) / size
        level = median
        start = kept[rng.integers(len(kept), size=size)]
        points = hit_and_run(lambda c, level=level: body.contains(c) & (u(c) >= level), start, body.diameter, steps, rng)  # type: ignore[misc]
        if share < 1e-30:
            return 0.0


def volume_share(u: Utility, alpha: float, body: Body, size: int = 500, repeats: int = 8, steps: int | None = None,
                 seed: int = 0) -> Volume:  # fmt: skip
    """The share of a convex body in which a concave utility reaches a level, by hit-and-run.

    ``vol{c in body : u(c) >= alpha} / vol(body)``, as a product of shares of nested level sets.

    Parameters
    ----------
    u : callable
        Concave; gives utilities of shape (k,) at points of shape (k, d).
    alpha : float
        The level.
    body : Box, Ball or alike
        The convex body.
    size : int
        How many points are in flight.
    repeats : int
        How many independent repeats there are.
    steps : int, optional
        How many steps of hit-and-run are between two levels; d + 5 if None.
    seed : int
        What the draws depend on.

    Returns
    -------
    value : float
        The share.
    error : float
        Its standard error over the repeats.

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> share = rankings.volume_share(lambda c: c.min(axis=1), 0.5, rankings.Box.unit(2))
    >>> abs(share.value - 0.25) < 4 * share.error
    True
    """
    if size < 2 or repeats < 2:
        raise FairFLError("A volume with a standard error needs at least two points and two repeats.")
    rngs = np.random.default_rng(seed).spawn(repeats)
    steps = body.sample(1, np.random.default_rng(0)).shape[1] + 5 if steps is None else steps
    found = np.array([_share(u, alpha, body, size, steps, rng) for rng in rngs])
    return Volume(float(found.mean()), float(found.std(ddof=1) / np.sqrt(repeats)))


def points_for(d: int, eps: float) -> int:
    """Points in flight for a share within 1 ± eps: the product of p shares of about a half has the relative variance p / points,
    and p = 2d shares go down to 4^-d."""
    return ceil(16 * d / eps**2)


def known(d: int) -> dict[str, tuple[Utility, float, Body, float]]:
    """Concave utilities in d dimensions with a level, the body, and the share of it that reaches the level, in closed form."""
    ball = pi ** (d / 2) / gamma(d / 2 + 1) * 0.5**d
    return {
        "ball in a box": (ball_utility([0.5] * d), -0.5, Box.unit(d), ball),
        "ball in a ball": (ball_utility([0.0] * d), -0.5, Ball((0.0,) * d), 0.5**d),
        "corner of a box": (lambda c: c.min(axis=1), 0.5, Box.unit(d), 0.5**d),
    }


def check_volume(d: int, eps: float, points: Callable[[int, float], int] = points_for, times: int = 20) -> Check:
    """Footnote 6 on bodies whose volume is known: at least 3/4 of `times` estimates are within 1 ± eps of it."""

    def one(name: str) -> tuple[int, int, bool, float]:
        u, alpha, body, share = known(d)[name]
        found = [_share(u, alpha, body, points(d, eps), d + 5, rng) for rng in np.random.default_rng(0).spawn(times)]
        far = np.abs(np.array(found) / share - 1)
        return 1, d, bool((far <= eps).mean() < 0.75), float(np.quantile(far, 0.75) / eps)

    return gather("volume", f"within {eps:g} in {d} dimensions", map(one, known(d)))


def level_of_rank(u: Utility, r: float, body: Body, halvings: int = 12, **options: int) -> float:
    """The utility that a share of the models reaches, alpha_i(r), by bisection on `volume_share` with the same draws each time.

    Parameters
    ----------
    u : callable
        Concave; gives utilities of shape (k,) at points of shape (k, d).
    r : float
        The share, between 0 and 1.
    body : Box, Ball or alike
        The convex body of models.
    halvings : int
        How many steps bisection takes.
    **options
        Arguments of `volume_share`.

    Returns
    -------
    float

    Examples
    --------
    >>> from fairfl_lite import rankings
    >>> level = rankings.level_of_rank(lambda c: c.min(axis=1), 0.25, rankings.Box.unit(2))
    >>> abs(level - 0.5) < 0.05
    True
    """
    if not 0 < r < 1:
        raise FairFLError(f"The share of models must be between 0 and 1, not {r}.")
    values = u(body.sample(2000, np.random.default_rng(1)))
    low, high = float(values.min()), float(values.max())
    while volume_share(u, high, body, **options).value > r:  # a small r lies above every value of a plain sample
        low, high = high, 2 * high - low
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if volume_share(u, middle, body, **options).value >= r else (low, middle)
    return (low + high) / 2


def ball_utility(centre: ArrayLike) -> Utility:
    """u(c) = -|c - centre|, concave; its level sets are balls."""
    return lambda c: -np.linalg.norm(c - np.asarray(centre), axis=1)
