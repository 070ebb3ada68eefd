"""The rule `gain`: a gain that a paper prints as a number, against the best of its baselines."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from fairfl_lite import papers
from fairfl_lite.ledger.numbers import Spread, estimate
from fairfl_lite.ledger.rules.base import SERIES, Finding, Rule, half_unit
from fairfl_lite.ledger.rules.effect import against, of_printed
from fairfl_lite.ledger.series import Case

TEXT = """
m is the mean over runs of the method less the best of the named others, the one with the best mean in our runs, on the
same runs; or the mean of several such gains, run by run. In points, as the paper's rows of improvements are. Then as
*effect*: the margin is half the printed gain, and that of the metric where 0 is printed; no spread is printed, so ours
stands for it.
"""


def judge(case: Case) -> Finding:
    if "entries" in case.spec:
        cases = [case.about(entry) for entry in case.named()]
        ours = estimate(pd.concat([one.gains() for one in cases], axis=1, join="inner").mean(axis=1))
        margin, note = cases[0].margin, ""
    else:
        ours, margin = estimate(case.gains()), case.margin
        best = case.side("worse", case.sense).attrs.get("option", "")
        note = f"the best of the others is {case.card.labels.get(best, best)}" if best else ""
    printed = float(papers.number(case.entry.printed))
    spread = Spread(ours.sd, ours.seeds, case.card.printed_seeds)
    found = against(ours, printed, half_unit(case.entry.printed), of_printed(printed, margin), spread)
    return replace(found, note=note)


RULE = Rule(
    "gain", "effect", TEXT, (*SERIES, "better", "worse", "entries"), judge, (("results", "better", "worse"), ("entries",))
)
