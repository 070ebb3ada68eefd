"""The rules `no gain` and `similar`: claims that there is no difference, which too few runs must not earn."""

from __future__ import annotations

from dataclasses import replace

from fairfl_book.ledger.numbers import MOST, Estimate, Spread, estimate, inside, outside, wanted
from fairfl_book.ledger.rules.base import Finding, Rule, beside, measured
from fairfl_book.ledger.rules.ordering import SIDES
from fairfl_book.ledger.series import Case

TEXT = """
A claim that A does not gain over B. The gain of A over B on the same runs, as in *ordering*. *confirmed*: the upper end of
its one-sided 95% interval is below the margin. *reversed*: the lower end is above the margin. *cannot tell*: the rest, so
that a claim of no difference has to be shown, and too few runs do not show it.
"""
SIMILAR = """
A claim that two things are alike: the mean difference d of the same runs. *agrees*: |d| + t SE is at most the margin, by
two one-sided tests at 5%; *differs*: |d| - t SE is above it; *cannot tell*: the rest.
"""


def judge(case: Case) -> Finding:
    gain, margin = estimate(case.gains()), case.margin
    found = replace(measured(gain), margin=margin, power=Spread(gain.sd, gain.seeds, 1, 0.0).power(margin))
    reach = gain.half_width(0.95)
    if gain.mean + reach <= margin:
        verdict, detail = "confirmed", ""
    elif gain.mean - reach > margin:
        verdict, detail = "reversed", f"a gain of {gain.mean:.3g}"
    else:

        def decided(n: int) -> bool:
            return Estimate(0, gain.sd, n).half_width(0.95) < abs(gain.mean - margin)

        verdict, detail = "cannot tell", wanted(decided, gain.seeds, f"{MOST:,} runs would not decide")
    note = f"read as larger is better: {case.gains('larger').mean():.3f}" if case.sense == "closer" else ""
    return replace(found, verdict=verdict, detail=detail, note=note)


def judge_similar(case: Case) -> Finding:
    gap, margin = estimate(case.gains()), case.margin
    found = replace(measured(gap), margin=margin, power=Spread(gap.sd, gap.seeds, 1, 0.0).power(margin))
    found = replace(found, note=beside(case, lambda other: float(other.gains().mean())))

    def reach(n: int) -> float:
        return Estimate(0, gap.sd, n).half_width(0.95)

    if inside(gap.mean, 0, margin, reach(gap.seeds)):
        return replace(found, verdict="agrees")
    if outside(gap.mean, 0, margin, reach(gap.seeds)):
        return replace(found, verdict="differs", detail=f"{abs(gap.mean):.3g} apart")

    def decided(n: int) -> bool:
        return inside(gap.mean, 0, margin, reach(n)) or outside(gap.mean, 0, margin, reach(n))

    return replace(found, verdict="cannot tell", detail=wanted(decided, gap.seeds, f"{MOST:,} runs would not decide"))


RULE = Rule("no gain", "ordering", TEXT, SIDES, judge, (("results", "better", "worse"),))
SIMILARS = Rule("similar", "ordering", SIMILAR, SIDES, judge_similar, (("results", "better", "worse"),))
