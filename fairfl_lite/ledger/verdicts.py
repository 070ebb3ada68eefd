"""The verdict rules: pure functions of a printed number and what was measured. The cards say which applies where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
from scipy import stats

from fairfl_lite import papers

NAN = float("nan")
SYMBOLS = {
    "reproduced": "✓",
    "exceeds": "▲",
    "direction only": "↗",
    "not reproduced": "✗",
    "holds": "=",
    "does not hold": "≠",
    "not testable": "–",
    "not yet measured": "…",
}
"""The verdicts, best first, and the sign each has in tables."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds: sample standard deviation (ddof 1) and 95% t-interval, both nan with one seed."""

    mean: float
    sd: float
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width(1 / self.seeds)

    @property
    def high(self) -> float:
        return self.mean + self.half_width(1 / self.seeds)

    @property
    def sd_low(self) -> float:
        """Lower end of the 95% interval of the standard deviation, by chi-square."""
        return self.sd_bound(0.975)

    @property
    def sd_high(self) -> float:
        return self.sd_bound(0.025)

    def sd_bound(self, quantile: float) -> float:
        """sd sqrt((n - 1) / q), q the quantile of chi-square with n - 1 degrees of freedom; nan with one seed."""
        if self.seeds < 2:
            return NAN
        return float(self.sd * np.sqrt((self.seeds - 1) / stats.chi2.ppf(quantile, self.seeds - 1)))

    def half_width(self, variance_factor: float) -> float:
        """t sd sqrt(variance_factor), t the 97.5% quantile with seeds - 1 degrees of freedom."""
        if self.seeds < 2:
            return NAN
        return float(stats.t.ppf(0.975, self.seeds - 1) * self.sd * np.sqrt(variance_factor))


def estimate(values: Iterable[float]) -> Estimate:
    """Mean and spread of one value per seed."""
    v = np.asarray(list(values), dtype=float)
    return Estimate(float(v.mean()), float(v.std(ddof=1)) if len(v) > 1 else NAN, len(v))


def improvement(start: Sequence[float], end: Sequence[float]) -> Estimate:
    """1 - |mean end| / |mean start| over the same seeds; sd is that of the jackknife pseudo-values."""
    a, b = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    n = len(a)
    whole = float(1 - abs(b.mean()) / abs(a.mean()))
    if n < 2:
        return Estimate(whole, NAN, n)
    without = 1 - np.abs((b.sum() - b) / (n - 1)) / np.abs((a.sum() - a) / (n - 1))
    pseudo = n * whole - (n - 1) * without
    return Estimate(whole, float(pseudo.std(ddof=1)), n)


def slopes(scores: np.ndarray) -> np.ndarray:
    """Least-squares slope of each row [seed, level] against the rank of the level 0, 1, 2, ..."""
    rank = np.arange(scores.shape[1]) - (scores.shape[1] - 1) / 2
    return scores @ rank / (rank @ rank)


def score(values: pd.Series, sense: str) -> pd.Series:
    """Larger is better: v for "larger", -v for "smaller", -|v| for "closer" (to zero)."""
    return {"larger": values, "smaller": -values, "closer": -values.abs()}[sense]


def value_verdict(
    printed: str,
    ours: Estimate,
    *,
    sense: str,
    printed_seeds: int = 20,
    floor: float = 0.01,
    baseline: tuple[str, float] | None = None,
    printed_sd: str | None = None,
) -> str:
    """The rule `value`: reproduced, exceeds, direction only, not reproduced; the first that fits.

    Where the paper prints a standard deviation, the spread of its mean is taken from it (Welch), else from ours.
    `baseline` is the (printed, measured) FedAvg of the same column. Without it (the cell is FedAvg's own, or
    stands alone) the direction is the sign of the value, which only signed metrics (sense "closer") have.
    """
    p, u = float(papers.number(printed)), float(papers.unit(printed))
    spread = None if printed_sd is None else welch(ours, float(papers.number(printed_sd)), printed_seeds)
    if _near(printed, ours, printed_seeds, floor, spread):
        return "reproduced"
    if _better(ours.mean, p, sense):
        return "exceeds"
    if baseline is not None:
        theirs, mine = p - float(papers.number(baseline[0])), ours.mean - baseline[1]
        same = _sign(theirs, u / 2) == _sign(mine, u / 2)
    else:
        same = sense == "closer" and _sign(ours.mean, 0) == _sign(p, 0)
    return "direction only" if same else "not reproduced"


def welch(ours: Estimate, sd: float, seeds: int) -> float:
    """t sqrt(a + b), a = our sd^2 / n and b = sd^2 / seeds; t with Welch's degrees of freedom.

    (a + b)^2 / (a^2 / (n - 1) + b^2 / (seeds - 1)); 0 when neither side spreads, nan with one seed of ours.
    """
    if ours.seeds < 2:
        return NAN
    a, b = ours.sd**2 / ours.seeds, sd**2 / seeds
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (ours.seeds - 1) + b**2 / (seeds - 1))
    return float(stats.t.ppf(0.975, freedom) * np.sqrt(a + b))


def sd_verdict(printed: str, ours: Estimate, *, printed_seeds: int) -> str:
    """The rule `sd`: our variance over the printed one lies inside the central 95% of F(n - 1, printed_seeds - 1).

    The printed standard deviation may be half a unit smaller or larger than printed. One seed has none to judge.
    """
    if ours.seeds < 2:
        return "not testable"
    p, half = float(papers.number(printed)), float(papers.unit(printed)) / 2
    low, high = np.sqrt(stats.f.ppf([0.025, 0.975], ours.seeds - 1, printed_seeds - 1))
    inside = max(p - half, 0) * low - 1e-12 <= ours.sd <= (p + half) * high + 1e-12
    return "reproduced" if inside else "not reproduced"


def share_verdict(printed: str, share: Fraction) -> str:
    """The rule `share`: the printed share, more than it, or like it more than half."""
    p = papers.number(printed)
    if arithmetic_verdict(printed, share)[0] == "holds":
        return "reproduced"
    if share > p:
        return "exceeds"
    return "direction only" if share > Fraction(1, 2) and p > Fraction(1, 2) else "not reproduced"


def improvement_verdict(printed: str, ours: Estimate, *, sense: str, printed_seeds: int = 20, floor: float = 0.01) -> str:
    """The rule `improvement`: as `value`, the direction being the sign of the improvement."""
    p = float(papers.number(printed))
    if _near(printed, ours, printed_seeds, floor):
        return "reproduced"
    if _better(ours.mean, p, sense):
        return "exceeds"
    return "direction only" if _sign(ours.mean, 0) == _sign(p, 0) else "not reproduced"


def at_most_verdict(printed: str, ours: Estimate) -> str:
    """The rule `at most`: the whole interval, or only the mean, is not above the printed bound."""
    bound = float(papers.number(printed))
    if ours.high <= bound:
        return "reproduced"
    return "direction only" if ours.mean <= bound else "not reproduced"


def ordering_verdict(gain: Estimate) -> str:
    """The rules `ordering` and `trend`: the whole interval, or only the mean, of the gain is above 0."""
    if gain.low > 0:
        return "reproduced"
    return "direction only" if gain.mean > 0 else "not reproduced"


def no_gain_verdict(gain: Estimate) -> str:
    """The rule `no gain`: the interval is not wholly above 0; one seed can only give the direction."""
    if gain.seeds < 2:
        return "direction only" if gain.mean <= 0 else "not reproduced"
    return "not reproduced" if gain.low > 0 else "reproduced"


def similar_verdict(difference: Estimate, margin: float = 0.01) -> str:
    """The rule `similar`: the whole interval, or only the mean, of the difference is inside +-margin."""
    if difference.low >= -margin and difference.high <= margin:
        return "reproduced"
    return "direction only" if abs(difference.mean) <= margin else "not reproduced"


def arithmetic_verdict(printed: str, recomputed: Fraction) -> tuple[str, str]:
    """The rule `arithmetic`, with a note that shows the value rounded and truncated where it is not exact."""
    u, p = papers.unit(printed), papers.number(printed)
    if recomputed == p:
        return "holds", ""
    size = abs(recomputed) / u
    sign = -1 if recomputed < 0 else 1
    truncated = sign * (size.numerator // size.denominator) * u
    rounded = sign * ((2 * size.numerator + size.denominator) // (2 * size.denominator)) * u
    note = f"rounds to {_as_printed(rounded, printed)}, truncates to {_as_printed(truncated, printed)}"
    return ("holds" if p in (rounded, truncated) else "does not hold"), note


def count_verdict(printed: str, measured: float, tolerance: float | None = None) -> str:
    """The rule `count`: within half a unit of the last printed digit, or within the tolerance."""
    allowed = float(papers.unit(printed)) / 2 if tolerance is None else tolerance
    return "holds" if abs(measured - float(papers.number(printed))) <= allowed * (1 + 1e-9) else "does not hold"


def draw_verdict(printed: str, low: float, high: float) -> str:
    """The rule `draw`: inside the central 99% of our draws, ends included."""
    return "reproduced" if low <= float(papers.number(printed)) <= high else "not reproduced"


def identity_verdict(error: float, tolerance: float) -> str:
    """The rule `identity`: the largest error found is within the tolerance."""
    return "holds" if abs(error) <= tolerance else "does not hold"


def exists_verdict(shown: float, tolerance: float) -> str:
    """The rule `exists`: the example shows more than the tolerance."""
    return "holds" if abs(shown) > tolerance else "does not hold"


def checked_verdict(violations: float) -> str:
    """The rule `checked`: none of the instances violates the statement."""
    return "holds" if violations == 0 else "does not hold"


def _near(printed: str, ours: Estimate, printed_seeds: int, floor: float, spread: float | None = None) -> bool:
    # Both numbers are means of seeds, so both spread; Python's max keeps the floor when the spread is nan.
    if spread is None:
        spread = ours.half_width(1 / ours.seeds + 1 / printed_seeds)
    allowed = max(floor, spread) + float(papers.unit(printed)) / 2
    return abs(ours.mean - float(papers.number(printed))) <= allowed + 1e-12


def _better(ours: float, printed: float, sense: str) -> bool:
    if sense == "closer":
        return abs(ours) < abs(printed)
    return ours > printed if sense == "larger" else ours < printed


def _sign(value: float, zero: float) -> int:
    return 0 if abs(value) <= zero + 1e-12 else (1 if value > 0 else -1)


def _as_printed(value: Fraction, printed: str) -> str:
    percent = "%" if printed.endswith("%") else ""
    decimals = len(printed.rstrip("%").partition(".")[2])
    return f"{float(value) * (100 if percent else 1):,.{decimals}f}{percent}"
