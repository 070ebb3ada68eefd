"""The rule `mark`: a sign that a paper prints beside a number, by the paper's own legend."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from fairfl_book import cards
from fairfl_book.cards import PaperCard
from fairfl_book.ledger.rules.base import Finding, Rule
from fairfl_book.ledger.series import Case

CLOSE = Fraction(1, 10)
TEXT = """
The sign beside a printed cell, by the legend of its table: √ where the cell is at most its printed budget, ≈ where it is above it
by at most 10% of the budget, × where it is further above. The number shown is the violation, cell / budget - 1. *holds*: the
sign is the one that the legend asks for. *does not hold*: it is another; the words name the right one. A sign that is not
legible to us is not testable.
"""


def violation(card: PaperCard, spec: Mapping[str, Any]) -> Fraction:
    """cell / budget - 1, exactly."""
    (cell,), (budget,) = (card.printed(spec["mark"][name]) for name in ("cell", "budget"))
    return cards.number(cell.printed) / cards.number(budget.printed) - 1


def sign(violation: Fraction) -> str:
    """The sign that the legend asks for."""
    return "√" if violation <= 0 else "≈" if violation <= CLOSE else "×"


def judge(case: Case) -> Finding:
    found, printed = violation(case.card, case.spec), case.entry.printed
    right = sign(found)
    if printed == "?":
        return Finding(float(found), verdict="not testable", detail=f"not legible; by the legend {right}", note=NOT_LEGIBLE)
    if printed == right:
        return Finding(float(found), verdict="holds")
    return Finding(float(found), verdict="does not hold", detail=f"{100 * float(found):.0f}% above the budget, so {right}"
                   if found > 0 else f"within the budget, so {right}")  # fmt: skip


NOT_LEGIBLE = "the sign was lost in our text of the paper"
RULE = Rule("mark", "mark", TEXT, ("mark",), judge, (("mark",),))
