"""The rule `draw`: a number of a random example."""

from __future__ import annotations

from scipy.special import betaincinv

from fairfl_book import cards
from fairfl_book.ledger.rules.base import Finding, Rule
from fairfl_book.ledger.series import Case, Missing

MOST = 0.5
TEXT = """
A number of one random example, against the central 99% of what it can be: of 2,000 draws of ours, or of its law (a client's
share of a group under Dir(σ) among K clients is Beta(σ, (K - 1) σ)). *differs*: outside. *agrees*: inside, where that
interval is less than half of all that is possible. *cannot tell*: inside, where it is half or more: then nearly any
number would do.
"""


def judge(case: Case) -> Finding:
    if "beta" in case.spec:
        a, b = case.spec["beta"]
        low, middle, high = (float(betaincinv(a, b, level)) for level in (0.005, 0.5, 0.995))
        possible = 1.0
    else:
        name, ends = case.spec["results"], ["low", "median", "high", "possible"]
        if "possible" not in case.files.frame(name):
            raise Missing(f"results/{name}.csv has no column possible", name)
        low, middle, high, possible = case.files.rows(name, case.spec["select"])[ends].iloc[0].astype(float)
    covered = (high - low) / possible
    printed = float(cards.number(case.entry.printed))
    if not low <= printed <= high:
        verdict, detail = "differs", f"outside the central 99%, which is {covered:.0%} of what is possible"
    else:
        detail = f"the central 99% is {covered:.0%} of what is possible"
        verdict = "cannot tell" if covered >= MOST else "agrees"
    return Finding(middle, low, high, verdict=verdict, detail=detail)


RULE = Rule("draw", "draw", TEXT, ("results", "select", "beta"), judge, (("results", "select"), ("beta",)))
