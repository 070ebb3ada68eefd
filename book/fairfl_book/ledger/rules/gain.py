"""The rule `gain`: a gain that a paper prints as a number, against the best of its baselines."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from fairfl_book import cards
from fairfl_book.ledger.numbers import Spread, estimate
from fairfl_book.ledger.rules.base import SERIES, Finding, Rule, equivalence, half_unit
from fairfl_book.ledger.rules.effect import against
from fairfl_book.ledger.series import Case

TEXT = """
m is the mean over runs of the method less the best of the named others, the one with the best mean in our runs, on the
same runs; or the mean of several such gains, run by run. In points, as the paper's rows of improvements are. Then as
*effect*, with the printed spreads of the cells behind it: the margin is half the printed gain, and that of the metric where 0
is printed.
"""


def spreads(case: Case, runs: pd.Index) -> tuple[float, bool]:
    """The standard deviation of one gain on runs that are not paired, and whether it is borrowed from these of ours.

    As printed with the two cells where both have one, else that of our runs.
    """
    sides = [case.side("better", case.sense), case.side("worse", case.sense)]
    chosen = [case.spec["better"], {**case.spec["worse"], **_option(case, sides[1])}]
    printed = [case.card.printed_sd({**case.spec.get("select", {}), "metric": case.metric, **where}) for where in chosen]
    if all(printed):
        return math.hypot(*(float(cards.number(str(sd))) for sd in printed)), False
    return math.hypot(*(float(side["value"].loc[runs].std(ddof=1)) for side in sides)), True


def _option(case: Case, side: pd.DataFrame) -> dict[str, str]:
    listed = (key for key, value in case.spec["worse"].items() if isinstance(value, list))
    return {key: side.attrs["option"] for key in listed}


def judge(case: Case) -> Finding:
    cases = [case.about(entry) for entry in case.named()] if "entries" in case.spec else [case]
    gains = pd.concat([one.gains() for one in cases], axis=1, join="inner").mean(axis=1)
    ours = estimate(gains)
    theirs, borrowed = zip(*(spreads(one, gains.index) for one in cases), strict=True)
    spread = Spread(ours.sd, ours.seeds, case.card.printed_seeds, math.hypot(*theirs) / len(cases), any(borrowed))
    best = "" if "entries" in case.spec else case.side("worse", case.sense).attrs.get("option", "")
    printed, half = float(cards.number(case.entry.printed)), half_unit(case.entry.printed)
    found = against(ours, printed, half, spread) if printed else equivalence(ours, 0.0, half, cases[0].margin, spread)
    return replace(found, note=f"the best of the others is {case.card.labels.get(best, best)}" if best else "")


RULE = Rule(
    "gain", "effect", TEXT, (*SERIES, "better", "worse", "entries"), judge, (("results", "better", "worse"), ("entries",))
)
