"""The sampling theory of the rules: means over runs, how far a printed number is from one, and what would decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc, betaincinv, chdtri, nctdtr, stdtr, stdtrit

NAN = float("nan")
MOST = 100_000
"""More runs than this would not be asked for."""
FEWEST = 5
"""Fewer runs that are all equal show no spread, and do not show that there is none."""


@dataclass(frozen=True)
class Estimate:
    """A mean over independent runs: sample standard deviation (ddof 1) and 95% t-interval, both nan with one run."""

    mean: float
    sd: float
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width()

    @property
    def high(self) -> float:
        return self.mean + self.half_width()

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.sd / math.sqrt(self.seeds)

    def half_width(self, level: float = 0.975) -> float:
        """t times the standard error; nan with one run, and with a few that are all equal."""
        if self.seeds < 2 or (self.seeds < FEWEST and not self.sd):
            return NAN
        return quantile(level, self.seeds - 1) * self.error

    def of(self, n: int) -> Estimate:
        """The same mean and spread with another number of runs."""
        return replace(self, seeds=n)

    def power(self, size: float) -> float:
        """How likely a two-sided test at 5% sees a real mean of that size."""
        return Spread(self.sd, self.seeds, 1, 0.0).power(size)

    def sd_bound(self, upper: float) -> float:
        """sd sqrt((n - 1) / q), q exceeded by chi-square with n - 1 degrees of freedom with probability `upper`."""
        return float(self.sd * np.sqrt((self.seeds - 1) / chdtri(self.seeds - 1, upper))) if self.seeds > 1 else NAN


@dataclass(frozen=True)
class Share(Estimate):
    """The share of runs with a yes, or the difference of two such shares on the same runs: `more` runs with a gain, `less` with a
    loss. Runs that are all equal have an interval too: it is that of Clopper and Pearson, and of a difference it goes from the
    lower end of one share less the upper end of the other to the reverse, each with half of the error, which is on the safe side.
    """

    more: int = 0
    less: int = 0
    paired: bool = False

    def ends(self, level: float = 0.975) -> tuple[float, float]:
        """Lower and upper end, each at `level`."""
        if not self.paired:
            return clopper_pearson(self.more, self.seeds, 1 - level)
        gain, loss = (clopper_pearson(count, self.seeds, (1 - level) / 2) for count in (self.more, self.less))
        return gain[0] - loss[1], gain[1] - loss[0]

    @property
    def low(self) -> float:
        return self.ends()[0]

    @property
    def high(self) -> float:
        return self.ends()[1]

    def of(self, n: int) -> Share:
        more, less = (round(count * n / self.seeds) for count in (self.more, self.less))
        return replace(self, seeds=n, more=more, less=less)

    def power(self, size: float) -> float:
        """How likely the interval lies above 0 if a share `size` of the runs gains and none loses."""
        fewest = next((k for k in range(self.seeds + 1) if replace(self, more=k, less=0).low > 0), self.seeds + 1)
        return float(bdtrc(fewest - 1, self.seeds, size)) if fewest <= self.seeds else 0.0


def clopper_pearson(count: int, n: int, tail: float) -> tuple[float, float]:
    """The shares under which a count so large, and so small, has the probability `tail`."""
    low = float(betaincinv(count, n - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0
    return low, high


def share(values: Iterable[float], paired: bool = False) -> Share:
    """Of 1 and 0 in each run, or of their differences on the same runs."""
    v = np.asarray(list(values), dtype=float)
    if not np.isin(v, (-1, 0, 1) if paired else (0, 1)).all():
        raise ValueError("A share is taken of yes and no.")
    plain = estimate(v)
    return Share(plain.mean, plain.sd, plain.seeds, int((v == 1).sum()), int((v == -1).sum()), paired)


def estimate(values: Iterable[float]) -> Estimate:
    """Mean and spread of one value per run; values that are equal but for rounding errors have none."""
    v = np.asarray(list(values), dtype=float)
    sd = float(v.std(ddof=1)) if len(v) > 1 else NAN
    return Estimate(float(v.mean()), 0.0 if sd <= 1e-12 * max(1.0, float(np.abs(v).max())) else sd, len(v))


def fall(start: Sequence[float], end: Sequence[float]) -> Estimate:
    """1 - |mean end| / |mean start| over the same runs; sd is that of the jackknife pseudo-values."""
    a, b = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    n = len(a)
    whole = float(1 - abs(b.mean()) / abs(a.mean()))
    if n < 2:
        return Estimate(whole, NAN, n)
    without = 1 - np.abs((b.sum() - b) / (n - 1)) / np.abs((a.sum() - a) / (n - 1))
    pseudo = n * whole - (n - 1) * without
    return Estimate(whole, float(pseudo.std(ddof=1)), n)


def slopes(scores: np.ndarray) -> np.ndarray:
    """Least-squares slope of each row [run, level] against the rank of the level 0, 1, 2, ..."""
    rank = np.arange(scores.shape[1]) - (scores.shape[1] - 1) / 2
    return scores @ rank / (rank @ rank)


def quantile(level: float, freedom: float) -> float:
    """Of Student's t; with no degree of freedom, nan."""
    return float(stdtrit(freedom, level)) if freedom > 0 else NAN


@dataclass(frozen=True)
class Spread:
    """Of the difference between our mean over `n` runs and a printed mean of `k`, with standard deviations sd and `theirs`.

    SE^2 = sd^2 / n + theirs^2 / k. The degrees of freedom are Welch's, and n - 1 where `theirs` is `borrowed` from our runs
    because the paper prints no spread.
    """

    sd: float
    n: int
    k: int
    theirs: float
    borrowed: bool = False

    @property
    def error(self) -> float:
        return math.sqrt(self.sd**2 / self.n + self.theirs**2 / self.k)

    @property
    def freedom(self) -> float:
        if self.borrowed:
            return self.n - 1
        a, b = self.sd**2 / self.n, self.theirs**2 / self.k
        if not a + b:
            return math.inf
        return (a + b) ** 2 / (a**2 / (self.n - 1) + (b**2 / (self.k - 1) if self.k > 1 else math.inf if b else 0))

    def reach(self, level: float = 0.95) -> float:
        """t times the standard error; nan where our runs cannot have one."""
        if self.n < 2 or (self.n < FEWEST and not self.sd):
            return NAN
        return 0.0 if not self.error else quantile(level, self.freedom) * self.error

    def of(self, n: int) -> Spread:
        """The same with another number of our runs."""
        return replace(self, n=n)

    def power(self, size: float) -> float:
        """How likely a two-sided test at 5% sees a real difference of that size; nan where there is no test."""
        if self.reach() != self.reach() or size != size:
            return NAN
        if not self.error:
            return 1.0
        t, shift = quantile(0.975, self.freedom), size / self.error
        if shift > t + 6:  # seen for certain; the function has no answer far out
            return 1.0
        return float(1 - nctdtr(self.freedom, shift, t) + nctdtr(self.freedom, shift, -t))

    def says_agrees(self, half: float, margin: float) -> float:
        """How likely `inside` is true where the truth is the printed number: the power of *agrees*."""
        room = margin * (1 + 1e-9) - half - self.reach()
        if room != room or not self.error:
            return NAN if room != room else float(room >= 0)
        return max(0.0, 2 * float(stdtr(self.freedom, room / self.error)) - 1)

    def says_differs(self, half: float, margin: float) -> float:
        """How likely `outside` is true where the truth is two margins away: the power of *differs*."""
        room = margin - half - self.reach()
        if room != room or not self.error:
            return NAN if room != room else float(room > 0)
        return float(stdtr(self.freedom, room / self.error))


def inside(difference: float, half: float, margin: float, reach: float) -> bool:
    """Two one-sided tests: the whole interval of the difference, rounding included, lies within the margin."""
    return abs(difference) + half + reach <= margin * (1 + 1e-9)


def outside(difference: float, half: float, margin: float, reach: float) -> bool:
    return abs(difference) - half - reach > margin * (1 + 1e-9)


def runs_that_decide(decided: Callable[[int], bool], have: int) -> int:
    """The fewest runs, more than we have, with which the same mean and spread would decide; 0 if MOST do not."""
    if have < 2 or not decided(MOST):
        return 0
    low, high = have, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def wanted(decided: Callable[[int], bool], have: int, never: str) -> str:
    """What would decide, in words; `never` where no number of our runs does."""
    if have < 2:
        return "one run has no interval"
    runs = runs_that_decide(decided, have)
    return f"about {_round(runs):,} runs would decide" if runs else never


def _round(runs: int) -> int:
    """Upwards to two digits: a forecast has no more."""
    step = 10 ** max(len(str(runs)) - 2, 0)
    return -(-runs // step) * step
