"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairfl_book import cards
from fairfl_book.ledger.numbers import NAN, Estimate, Spread, inside, outside, wanted
from fairfl_book.ledger.series import Case, Missing

SERIES = ("results", "select", "metric", "mean_over", "relative", "beside")
"""The fields by which an entry selects runs."""
COMMON = (
    "note", "not_testable", "unless_measured", "until_measured", "would_decide", "by_construction", "check", "whose", "margin",
    "margin_reason", "quote",
)  # fmt: skip
"""The fields that every entry may have."""
NOT_DECIDABLE = "not decidable from what is printed"
IF_AS_OURS = "not decidable if their runs vary as ours"
"""The same where the paper prints no spread."""


@dataclass(frozen=True)
class Finding:
    """What a rule says of an entry.

    margin : how far apart may still be called the same. detail : of a verdict, in words: which way and how far, what would
    decide, or why it could not have failed. power : how likely the rule would say so if the paper were right: *agrees* if the
    truth is the printed number, *confirmed* if the gain is one margin. against : how likely it would say *differs* if the truth
    were two margins away.
    stand_in : whether the printed number of the plain baseline (for an effect: that of another row of the column) would have
    passed in place of the printed one.
    """

    measured: float = NAN
    low: float = NAN
    high: float = NAN
    seeds: int = 0
    margin: float = NAN
    verdict: str = "not yet measured"
    detail: str = ""
    power: float = NAN
    against: float = NAN
    stand_in: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Rule:
    """name : as in the cards. kind : of the entries it judges. text : what it does, for readers. fields : what an entry may
    give it. judge : what it finds of one. needs : what an entry must give it, in one of several ways."""

    name: str
    kind: str
    text: str
    fields: tuple[str, ...]
    judge: Callable[[Case], Finding]
    needs: tuple[tuple[str, ...], ...]


def measured(ours: Estimate) -> Finding:
    return Finding(ours.mean, ours.low, ours.high, ours.seeds)


def half_unit(printed: str) -> float:
    return float(cards.unit(printed)) / 2


def same(difference: float, half: float, margin: float, reach: float) -> str:
    """agrees, differs or cannot tell, by two one-sided tests of a difference."""
    if inside(difference, half, margin, reach):
        return "agrees"
    return "differs" if outside(difference, half, margin, reach) else "cannot tell"


def equivalence(ours: Estimate, printed: float, half: float, margin: float, spread: Spread, how: str = "") -> Finding:
    """The verdict on our mean against a printed number, with its direction in words or what would decide."""
    difference = ours.mean - printed
    verdict, detail = same(difference, half, margin, spread.reach()), ""
    if verdict == "differs":
        detail = f"ours is {abs(difference):.3g} {'higher' if difference > 0 else 'lower'}{how}"
    if verdict == "cannot tell":
        undecided = lambda n: same(difference, half, margin, spread.of(n).reach()) == verdict  # noqa: E731
        detail = wanted(lambda n: not undecided(n), ours.seeds, IF_AS_OURS if spread.borrowed else NOT_DECIDABLE)
        if abs(difference) - half > spread.reach(0.975):
            detail = f"surely {'higher' if difference > 0 else 'lower'}, by more than the margin or not; {detail}"
    return replace(
        measured(ours),
        margin=margin,
        power=spread.says_agrees(half, margin),
        against=spread.says_differs(half, margin),
        verdict=verdict,
        detail=detail,
    )


def beside(case: Case, measure: Callable[[Case], float]) -> str:
    """The same number under other selectors, in the words of the entry; what was not measured is left out."""
    notes = []
    for name, change in case.spec.get("beside", {}).items():
        try:
            notes.append(f"{name} {measure(case.changed(**change)):.3f}")
        except Missing:
            continue
    return "; ".join(notes)
