"""The rule `level`: a printed number against the mean of our runs."""

from __future__ import annotations

from dataclasses import replace

from fairfl_book import cards
from fairfl_book.ledger.numbers import MOST, Share, Spread, wanted
from fairfl_book.ledger.rules.base import SERIES, Finding, Rule, beside, equivalence, half_unit, measured
from fairfl_book.ledger.series import Case

TEXT = """
Our mean m over n runs with standard deviation s; the printed number p, the mean of k runs with the printed standard
deviation q; h half a unit of p's last digit; D = m - p and SE² = s²/n + q²/k. Where the paper prints no q, s stands for
it. The margin M of the metric is written on the card with its reason. *agrees*: |D| + h + t SE ≤ M, which is two
one-sided tests at 5% (t with Welch's degrees of freedom; n - 1 where s stands for q). *differs*: |D| - h - t SE > M,
at 5% on either side.
*cannot tell*: the rest, with the number of runs that would decide if m and s stayed as they are, or "not decidable from
what is printed" where the spread or the rounding of p alone is too large. Fewer than five runs that are all equal have no
interval. The interval shown is the 95% t-interval of m. Where a run has but a yes or a no, m is a share, its interval is
that of Clopper and Pearson, and p is taken as exact.
"""


def printed_spread(case: Case, ours: float, n: int) -> Spread:
    q = case.spec.get("sd")
    theirs = ours if q is None else float(cards.number(q))
    return Spread(ours, n, case.card.printed_seeds, theirs, borrowed=q is None)


def _share(ours: Share, printed: str, margin: float) -> Finding:
    p, room = float(cards.number(printed)), margin * (1 + 1e-9)

    def verdict(then: Share) -> str:
        low, high = then.ends(0.95)
        if max(high - p, p - low) + half_unit(printed) <= room:
            return "agrees"
        return "differs" if max(low - p, p - high) - half_unit(printed) > room else "cannot tell"

    found = replace(measured(ours), margin=margin, verdict=verdict(ours))
    if found.verdict == "differs":
        return replace(found, detail=f"ours is {abs(ours.mean - p):.3g} {'higher' if ours.mean > p else 'lower'}")
    if found.verdict == "cannot tell":
        would = wanted(lambda n: verdict(ours.of(n)) != "cannot tell", ours.seeds, f"{MOST:,} runs would not decide")
        return replace(found, detail=would)
    return found


def judge(case: Case) -> Finding:
    ours = case.level()
    note = beside(case, lambda other: float(other.side()["value"].mean()))
    if case.entry.printed == "?":
        return replace(measured(ours), note=note)
    if isinstance(ours, Share):
        return replace(_share(ours, case.entry.printed, case.margin), note=note)
    spread = printed_spread(case, ours.sd, ours.seeds)

    def against(printed: str) -> Finding:
        return equivalence(ours, float(cards.number(printed)), half_unit(printed), case.margin, spread)

    baseline = case.spec.get("baseline")
    theirs = case.card.entries[baseline].printed if baseline else "?"
    passes = None if theirs == "?" else against(theirs).verdict == "agrees"
    return replace(against(case.entry.printed), note=note, stand_in=passes)


RULE = Rule("level", "level", TEXT, (*SERIES, "baseline", "sd"), judge, (("results",),))
