"""The rules `effect` and `tie`: a printed difference between two cells of a column, which is what a paper claims."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairfl_book import cards
from fairfl_book.cards import Entry
from fairfl_book.ledger.numbers import Estimate, Spread, estimate
from fairfl_book.ledger.rules.base import Finding, Rule, equivalence, half_unit
from fairfl_book.ledger.series import Case, paired

TEXT = """
The printed effect d is a cell less the plain baseline of its column, or less the best row of other methods; m is the mean
difference of the same two on the same runs, s its standard deviation. Of a metric that should be near 0, what a method adds
to the best other row is the difference of the absolute values, |mean| by |mean|. The printed spread of d is q² = q1² + q2² of
the two cells; where they have none, our two standard deviations stand for q1 and q2: that a paper's own runs were paired is
nowhere said. The margin is half of |d|, so that no effect at all cannot pass. Then as *level*, with half
a unit of each cell for h. Since d is itself noisy and sets its own margin, *agrees* errs more often than 5% (up to about 14%)
where the true effect is half as large again as the printed one, and less often where it is smaller. In *differs* the words
say whether our effect is of the other sign, smaller or larger.
"""
TIE = """
Two cells of a column that are printed equal: as *effect*, with the margin of the metric. It is counted apart, because that
nothing differs is easier to agree with than a difference.
"""


@dataclass(frozen=True)
class Gap:
    """What is printed of an effect: its size d, half a unit of both cells, and the spread, None where none is printed."""

    d: float
    half: float
    sd: float | None


def printed(one: Entry, other: Entry, absolute: bool = False) -> Gap:
    a, b = (cards.number(cell.printed) for cell in (one, other))
    sds = [float(cards.number(cell.spec["sd"])) for cell in (one, other) if cell.spec.get("sd")]
    return Gap(
        float(abs(a) - abs(b) if absolute else a - b),
        sum(half_unit(cell.printed) for cell in (one, other)),
        math.hypot(*sds) if len(sds) == 2 else None,
    )


def measured(one: Case, other: Case, absolute: bool = False) -> tuple[Estimate, float]:
    """The mean difference on the same runs, and the standard deviation it would have on runs that are not paired."""
    first, second = (side["value"] for side in paired(one.side(), other.side()))
    if absolute:
        first, second = (side * np.sign(side.mean()) for side in (first, second))
    return estimate(first - second), math.hypot(first.std(ddof=1), second.std(ddof=1))


def against(ours: Estimate, d: float, half: float, spread: Spread) -> Finding:
    """The verdict on an effect that is printed as a number; its margin is half of it."""
    how = "of the other sign" if ours.mean * d < 0 else "a smaller effect" if abs(ours.mean) < abs(d) else "a larger effect"
    return equivalence(ours, d, half, abs(d) / 2, spread, f", {how}")


def found(ours: Estimate, unpaired: float, said: Gap, k: int, margin: float) -> Finding:
    """The verdict on our difference by what is printed of it; `margin` for cells that are printed equal."""
    theirs = unpaired if said.sd is None else said.sd
    spread = Spread(ours.sd, ours.seeds, k, theirs, borrowed=said.sd is None)
    return against(ours, said.d, said.half, spread) if said.d else equivalence(ours, 0.0, said.half, margin, spread)


def judge(case: Case) -> Finding:
    one, other = (case.about(case.card.entries[id]) for id in case.spec["cells"])
    absolute = case.spec.get("absolute", False)
    ours, unpaired = measured(one, other, absolute)

    def by(said: Gap) -> Finding:
        return found(ours, unpaired, said, case.card.printed_seeds, one.margin)

    here = by(printed(one.entry, other.entry, absolute))
    if case.entry.rule == "tie":
        return here
    others = [by(said).verdict == "agrees" for _, said in instead(case)]
    return replace(here, stand_in=any(others) if others else None)


def instead(case: Case) -> Iterator[tuple[str, Gap]]:
    """The printed effects of the other rows of the column, on the same baseline; those that are nothing are left out."""
    cell, baseline = (case.card.entries[id] for id in case.spec["cells"])
    for id in case.card.columns.get(cell.id, ()):
        said = printed(case.card.entries[id], baseline, case.spec.get("absolute", False))
        if id not in (cell.id, baseline.id) and said.d:
            yield id, said


RULE = Rule("effect", "effect", TEXT, ("cells", "absolute"), judge, (("cells",),))
TIES = Rule("tie", "tie", TIE, ("cells", "absolute"), judge, (("cells",),))
