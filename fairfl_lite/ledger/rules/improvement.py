"""The rule `improvement`: a fall that a paper prints in percent."""

from __future__ import annotations

from fairfl_lite import papers
from fairfl_lite.ledger.numbers import Estimate, Spread, fall
from fairfl_lite.ledger.rules.base import SERIES, Finding, Rule, half_unit
from fairfl_lite.ledger.rules.effect import against, of_printed
from fairfl_lite.ledger.series import Case, paired

TEXT = """
m = 1 - |mean of `to`| / |mean of `from`| over the same runs, its spread from jackknife pseudo-values, which stand for the
printed spread too. Then as *effect*, with half the printed percentage as margin.
"""


def change(case: Case) -> Estimate:
    start, end = paired(case.side("from"), case.side("to"))
    return fall(start["value"], end["value"])


def judge(case: Case) -> Finding:
    ours, printed = change(case), float(papers.number(case.entry.printed))
    spread = Spread(ours.sd, ours.seeds, case.card.printed_seeds)
    return against(ours, printed, half_unit(case.entry.printed), of_printed(printed, 0.0), spread)


RULE = Rule("improvement", "effect", TEXT, (*SERIES, "from", "to"), judge, (("results", "from", "to"),))
