"""The rule `at most`: a bound that a paper prints."""

from __future__ import annotations

from dataclasses import replace

from fairfl_book import cards
from fairfl_book.ledger.numbers import MOST, wanted
from fairfl_book.ledger.rules.base import SERIES, Finding, Rule, measured
from fairfl_book.ledger.rules.improvement import change
from fairfl_book.ledger.series import Case

TEXT = """
The mean over our runs, or the fall as in *improvement* where the entry has `from` and `to`. *confirmed*: the upper end of
its 95% interval is at most the bound. *reversed*: the lower end is above it. *cannot tell*: the rest.
"""


def judge(case: Case) -> Finding:
    ours = change(case) if "from" in case.spec else case.level()
    bound = float(cards.number(case.entry.printed))
    found = replace(measured(ours), margin=bound)
    if ours.high <= bound:
        return replace(found, verdict="confirmed")
    if ours.low > bound:
        return replace(found, verdict="reversed", detail=f"ours is {ours.mean - bound:.3g} above the bound")

    def decided(n: int) -> bool:
        then = ours.of(n)
        return then.high <= bound or then.low > bound

    return replace(found, verdict="cannot tell", detail=wanted(decided, ours.seeds, f"{MOST:,} runs would not decide"))


RULE = Rule("at most", "ordering", TEXT, (*SERIES, "from", "to"), judge, (("results",),))
