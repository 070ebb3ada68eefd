"""The rule `spread`: a printed standard deviation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import fdtri

from fairfl_book import cards
from fairfl_book.ledger.numbers import FEWEST, estimate, wanted
from fairfl_book.ledger.rules.base import NOT_DECIDABLE, SERIES, Finding, Rule, half_unit
from fairfl_book.ledger.series import Case

FACTOR = 2.0
TEXT = """
Our standard deviation s over n runs against the printed q of k runs, both of samples (ddof 1). The one-sided 95% ends of the
ratio of the true ones follow from the F distribution; q may be half a unit of its last digit smaller or larger. The margin
is a factor of 2, because with ten printed runs no smaller one could be shown. *agrees*: the whole interval lies
between 1/2 and 2; *differs*: outside; *cannot tell*: the rest, and every verdict that would be lost by leaving out one of our
runs. The interval shown is the 95% chi-square interval of s.
"""


def ends(sd: float, q: float, half: float, n: int, k: int) -> tuple[float, float]:
    """The ends of the ratio of standard deviations, ours over theirs, rounding included."""
    upper, lower = (np.sqrt(fdtri(n - 1, k - 1, level)) for level in (0.95, 0.05))
    high = np.inf if q <= half else sd / (q - half) / lower
    return float(sd / (q + half) / upper), float(high)


def without_one(values: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest standard deviation of all runs but one; three runs at least."""
    n = len(values)
    squares = ((values - values.mean()) ** 2).sum() - (values - values.mean()) ** 2 * n / (n - 1)
    low, high = np.sqrt(np.maximum(squares, 0)[[squares.argmin(), squares.argmax()]] / (n - 2))
    return float(low), float(high)


def judge(case: Case) -> Finding:
    values = case.side()["value"].to_numpy(dtype=float)
    ours = estimate(values)
    found = Finding(ours.sd, ours.sd_bound(0.025), ours.sd_bound(0.975), ours.seeds, FACTOR)
    if case.entry.printed == "?":
        return found
    k = case.card.printed_seeds
    if ours.seeds < 2 or k < 2:
        return replace(found, verdict="not testable", detail="one run has no spread")
    q, half = float(cards.number(case.entry.printed)), half_unit(case.entry.printed)

    def verdict(n: int, sd: float = ours.sd) -> str:
        low, high = ends(sd, q, half, n, k)
        if low >= 1 / FACTOR and high <= FACTOR:
            return "agrees"
        return "differs" if low > FACTOR or high < 1 / FACTOR else "cannot tell"

    def stays(sd: float) -> bool:
        return verdict(ours.seeds - 1, sd) == said and (said == "agrees" or (sd > q) == (ours.sd > q))

    def few(n: int) -> bool:
        return n < FEWEST and not ours.sd

    said = "cannot tell" if few(ours.seeds) else verdict(ours.seeds)
    detail = ""
    if said != "cannot tell" and (ours.seeds < 3 or not all(map(stays, without_one(values)))):
        return replace(found, verdict="cannot tell", detail=f"one run of {ours.seeds} decides")
    if said == "differs":
        detail = f"ours is {ours.sd / q:.2g} times the printed" if q else "nothing is printed to spread"
    if said == "cannot tell":
        detail = wanted(lambda n: not few(n) and verdict(n) != "cannot tell", ours.seeds, NOT_DECIDABLE)
    return replace(found, verdict=said, detail=detail)


RULE = Rule("spread", "spread", TEXT, SERIES, judge, (("results",),))
