"""The rule `effect`: a printed difference between two cells of a column, which is what a paper claims."""

from __future__ import annotations

import math
from dataclasses import replace

from fairfl_lite import papers
from fairfl_lite.ledger.numbers import Estimate, Spread, estimate
from fairfl_lite.ledger.rules.base import Finding, Rule, equivalence, half_unit
from fairfl_lite.ledger.series import Case, paired

TEXT = """
The printed effect d is a cell less the plain baseline of its column, or less the best row of other methods; m is the mean
difference of the same two on the same runs, s its standard deviation. The printed spread of d is q² = q1² + q2² of the two
cells, or s where they have none: that a paper's own runs were paired is nowhere said. The margin is half of |d|, so that
no effect at all cannot pass; where the two printed numbers are equal, it is that of the metric. Then as *level*, with half
a unit of each cell for h. In *differs* the words say whether our effect is of the other sign, smaller or larger.
"""


def of_printed(d: float, case_margin: float) -> float:
    """The margin of a printed effect."""
    return abs(d) / 2 if d else case_margin


def against(ours: Estimate, d: float, half: float, margin: float, spread: Spread) -> Finding:
    """The verdict on an effect, and whether no effect would have passed in its place."""
    if d and ours.mean * d < 0:
        how = ", of the other sign"
    elif d:
        how = ", a smaller effect" if abs(ours.mean) < abs(d) else ", a larger effect"
    else:
        how = ""
    none = equivalence(ours, 0.0, half, margin, spread).verdict == "agrees" if d else None
    return replace(equivalence(ours, d, half, margin, spread, how), stand_in=none)


def judge(case: Case) -> Finding:
    one, other = (case.about(case.card.entries[id]) for id in case.spec["cells"])
    first, second = paired(one.side(), other.side())
    ours = estimate(first["value"] - second["value"])
    cells = one.entry, other.entry
    d = float(papers.number(cells[0].printed) - papers.number(cells[1].printed))
    sds = [float(papers.number(cell.spec["sd"])) for cell in cells if cell.spec.get("sd")]
    theirs = math.hypot(*sds) if len(sds) == 2 else None
    spread = Spread(ours.sd, ours.seeds, case.card.printed_seeds, theirs)
    half = sum(half_unit(cell.printed) for cell in cells)
    return against(ours, d, half, of_printed(d, one.margin), spread)


RULE = Rule("effect", "effect", TEXT, ("cells",), judge, (("cells",),))
