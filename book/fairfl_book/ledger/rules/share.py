"""The rule `share`: in how many of several comparisons a method wins."""

from __future__ import annotations

from dataclasses import replace

from fairfl_book import cards
from fairfl_book.ledger.rules.base import Finding, Rule, half_unit
from fairfl_book.ledger.series import Case

TEXT = """
The share of the named orderings with a mean gain above 0. The interval counts, at its lower end, those whose whole 95%
interval lies above 0 and, at its upper, all but those whose whole interval lies below. The margin is half a comparison, so
that not one may be otherwise. *agrees*: the whole interval is within the margin of the printed share, rounding included;
*differs*: no part of it is; *cannot tell*: the rest.
"""


def judge(case: Case) -> Finding:
    gains = [case.about(entry).gain() for entry in case.named()]
    every = len(gains)
    won, sure, lost = (sum(map(test, gains)) for test in (lambda g: g.mean > 0, lambda g: g.low > 0, lambda g: g.high < 0))
    low, high, printed = sure / every, 1 - lost / every, float(cards.number(case.entry.printed))
    margin = 0.5 / every
    allowed = margin + half_unit(case.entry.printed) + 1e-9
    found = Finding(won / every, low, high, min(g.seeds for g in gains), margin)
    note = f"{won} of {every}, {sure} with the whole interval above 0, {lost} with the whole below"
    if low >= printed - allowed and high <= printed + allowed:
        return replace(found, verdict="agrees", note=note)
    if low > printed + allowed or high < printed - allowed:
        way = "more" if low > printed else "fewer"
        return replace(found, verdict="differs", detail=f"{way} are won than printed", note=note)
    return replace(found, verdict="cannot tell", detail=f"{every - sure - lost} of {every} are open", note=note)


RULE = Rule("share", "effect", TEXT, ("entries",), judge, (("entries",),))
