"""The rules `ordering` and `trend`: that one thing is better than another, and that something grows."""

from __future__ import annotations

from dataclasses import replace

from fairfl_book.ledger.numbers import MOST, Estimate, estimate, slopes, wanted
from fairfl_book.ledger.rules.base import SERIES, Finding, Rule, beside, measured
from fairfl_book.ledger.series import Case, Missing, paired

TEXT = """
The gain of A over B on the same runs, positive as claimed: a difference of accuracy, a fall of a spread, of |EOD| or of
|SPD|; where B is the best of several, it is the one with the best mean in our runs, and the note names those that have a
number in no run, because they diverge. To be chosen in the runs that measure it favours B; where the entry says `luck`, the
note has the bootstrap's estimate of how much, and the verdict without it. *confirmed*: the 95% t-interval of the mean gain lies
above 0. *reversed*: below 0. *no effect*: the interval lies within the margin of the metric on both sides, so that no gain worth
the name is left, even if its sign is sure; the words then say so. *cannot tell*: the rest, with the number of runs that would
decide. Where a run has but a yes or a no, the interval is that of two shares, exact and on the safe side, so that equal runs have
one too. A metric that should be near 0 is signed: the note has the other reading, larger is better.
"""
TREND = """
In each run the least-squares slope of the score (or of the gain of A over B) against the rank of the level, levels
ascending or in the order of the entry, signed so that positive is as claimed; other settings are averaged over. Then as
*ordering*, where no effect means that from the first level to the last less than the margin is gained.
"""


def confirm(gain: Estimate, margin: float) -> Finding:
    """confirmed, reversed, no effect or cannot tell, by the interval of a gain."""
    found = replace(measured(gain), margin=margin, power=gain.power(margin))
    if max(-gain.low, gain.high) <= margin:
        return replace(found, verdict="no effect", detail=_small(gain, margin))
    if gain.low > 0:
        return replace(found, verdict="confirmed")
    if gain.high < 0:
        return replace(found, verdict="reversed", detail=f"a loss of {-gain.mean:.3g}")

    def decided(n: int) -> bool:
        then = gain.of(n)
        return then.low > 0 or then.high < 0 or max(-then.low, then.high) <= margin

    return replace(found, verdict="cannot tell", detail=wanted(decided, gain.seeds, f"{MOST:,} runs would not decide"))


def _small(gain: Estimate, margin: float) -> str:
    """What is left of a gain within the margin, in words."""
    if gain.low == gain.high == 0:
        return "the same in every run"
    if gain.low > 0 or gain.high < 0:
        return f"surely a {'gain' if gain.low > 0 else 'loss'}, of {abs(gain.mean):.2g}, and below the margin"
    return f"any gain is below {margin:.3g}"


def judge(case: Case) -> Finding:
    sense = case.sense
    found = confirm(case.gain(), case.margin)
    notes = []
    if sense == "closer":
        other = case.gain("larger")
        notes.append(f"read as larger is better: {other.mean:.3f}, {confirm(other, case.margin).verdict}")
    about = case.side("worse", sense).attrs
    best, lost = about.get("option", ""), [case.card.labels.get(name, name) for name in about.get("lost", ())]
    notes.append(f"the best of the others is {case.card.labels.get(best, best)}" if best else "")
    notes.append(_lucky(case) if case.spec.get("luck") else "")
    notes.append(f"no model that is finite, in any run: {', '.join(lost)}" if lost else "")
    notes.append(beside(case, lambda other: float(other.gains(sense).mean())))
    return replace(found, note="; ".join(filter(None, notes)))


def _lucky(case: Case) -> str:
    """How much of the gain is owed to the choice of the rival in the same runs, and the verdict without it, in words."""
    luck, gain = case.luck("worse", case.sense), case.gain()
    without = confirm(replace(gain, mean=gain.mean + luck), case.margin).verdict
    return f"that it was chosen in these runs favours it by about {luck:.2g}, without which the verdict is {without}"


def slope(case: Case, sense: str) -> tuple[Estimate, int]:
    """The slope in each run, and the number of levels."""
    levels = [case.spec["levels"]]
    if "better" in case.spec:
        better, worse = paired(*(case.side(side, sense, levels) for side in ("better", "worse")))
        wide = (better - worse).dropna(axis=1)
    else:
        wide = case.side(None, sense, levels)
    if "order" in case.spec:  # of levels that are words
        absent = [level for level in case.spec["order"] if level not in wide]
        if absent:
            raise Missing(f"results/{case.spec['results']}.csv has no {levels[0]} {', '.join(absent)}")
        wide = wide[case.spec["order"]]
    if wide.shape[1] < 2:
        raise Missing(f"results/{case.spec['results']}.csv has fewer than two levels of {levels[0]}")
    return estimate(slopes(wide.to_numpy()) * (1 if case.spec["toward"] == "better" else -1)), wide.shape[1]


def judge_trend(case: Case) -> Finding:
    sense = case.sense
    ours, levels = slope(case, sense)
    note = ""
    if sense == "closer":
        other, _ = slope(case, "larger")
        note = f"read as larger is better: {other.mean:.3f}, {confirm(other, case.margin / (levels - 1)).verdict}"
    return replace(confirm(ours, case.margin / (levels - 1)), note=note)


SIDES = (*SERIES, "better", "worse", "sense")
RULE = Rule("ordering", "ordering", TEXT, (*SIDES, "luck"), judge, (("results", "better", "worse"),))
TRENDS = Rule("trend", "trend", TREND, (*SIDES, "levels", "order", "toward"), judge_trend, (("results", "levels", "toward"),))
