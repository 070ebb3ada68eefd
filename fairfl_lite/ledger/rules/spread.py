"""The rule `spread`: a printed standard deviation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import fdtri

from fairfl_lite import papers
from fairfl_lite.ledger.numbers import Estimate, estimate, wanted
from fairfl_lite.ledger.rules.base import NOT_DECIDABLE, SERIES, Finding, Rule, half_unit
from fairfl_lite.ledger.series import Case

FACTOR = 2.0
TEXT = """
Our standard deviation s over n runs against the printed q of k runs, both of samples (ddof 1). The one-sided 95% ends of the
ratio of the true ones follow from the F distribution; q may be half a unit of its last digit smaller or larger. The margin
is a factor of 2, because with ten printed runs no smaller one could be shown. *agrees*: the whole interval lies
between 1/2 and 2; *differs*: outside; *cannot tell*: the rest. The interval shown is the 95% chi-square interval of s.
"""


def ends(ours: Estimate, q: float, half: float, n: int, k: int) -> tuple[float, float]:
    """The ends of the ratio of standard deviations, ours over theirs, rounding included."""
    upper, lower = (np.sqrt(fdtri(n - 1, k - 1, level)) for level in (0.95, 0.05))
    high = np.inf if q <= half else ours.sd / (q - half) / lower
    return float(ours.sd / (q + half) / upper), float(high)


def judge(case: Case) -> Finding:
    ours = estimate(case.side()["value"])
    found = Finding(ours.sd, ours.sd_bound(0.025), ours.sd_bound(0.975), ours.seeds, FACTOR)
    if case.entry.printed == "?":
        return found
    k = case.card.printed_seeds
    if ours.seeds < 2 or k < 2:
        return replace(found, verdict="not testable", detail="one run has no spread")
    q, half = float(papers.number(case.entry.printed)), half_unit(case.entry.printed)

    def verdict(n: int) -> str:
        low, high = ends(ours, q, half, n, k)
        if low >= 1 / FACTOR and high <= FACTOR:
            return "agrees"
        return "differs" if low > FACTOR or high < 1 / FACTOR else "cannot tell"

    said = verdict(ours.seeds)
    detail = ""
    if said == "differs":
        detail = f"ours is {ours.sd / q:.2g} times the printed" if q else "nothing is printed to spread"
    if said == "cannot tell":
        detail = wanted(lambda n: verdict(n) != "cannot tell", ours.seeds, NOT_DECIDABLE)
    return replace(found, verdict=said, detail=detail)


RULE = Rule("spread", "spread", TEXT, SERIES, judge, (("results",),))
