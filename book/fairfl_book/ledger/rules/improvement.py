"""The rule `improvement`: a fall that a paper prints in percent."""

from __future__ import annotations

import math

from fairfl_book import cards
from fairfl_book.ledger.numbers import Estimate, Spread, estimate, fall
from fairfl_book.ledger.rules.base import SERIES, Finding, Rule, half_unit
from fairfl_book.ledger.rules.effect import against
from fairfl_book.ledger.series import Case, paired

TEXT = """
m = 1 - |mean of `to`| / |mean of `from`| over the same runs, its spread from jackknife pseudo-values. For the spread that is
not printed stands that of the same quotient, to first order, on runs that are not paired. Then as *effect*, with half the
printed percentage as margin.
"""


def change(case: Case) -> Estimate:
    start, end = paired(case.side("from"), case.side("to"))
    return fall(start["value"], end["value"])


def judge(case: Case) -> Finding:
    ours, printed = change(case), float(cards.number(case.entry.printed))
    spread = Spread(ours.sd, ours.seeds, case.card.printed_seeds, unpaired(case), borrowed=True)
    return against(ours, printed, half_unit(case.entry.printed), spread)


def unpaired(case: Case) -> float:
    """The standard deviation of 1 - |b| / |a| to first order, a and b independent."""
    a, b = (estimate(side["value"]) for side in paired(case.side("from"), case.side("to")))
    return math.hypot(b.sd, a.sd * b.mean / a.mean) / abs(a.mean)


RULE = Rule("improvement", "effect", TEXT, (*SERIES, "from", "to"), judge, (("results", "from", "to"),))
