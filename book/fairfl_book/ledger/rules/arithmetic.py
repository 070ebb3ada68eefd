"""The rule `arithmetic`: numbers that follow from other printed numbers, recomputed exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from fairfl_book import cards
from fairfl_book.cards import PaperCard
from fairfl_book.ledger.rules.base import Finding, Rule
from fairfl_book.ledger.series import Case
from fairfl_lite.errors import FairFLError

TEXT = """
Recomputed exactly, from the printed cells or by hand from the numbers of the entry. *holds*: rounded or truncated to the
printed number's last digit it is that number; for a percentage or a lead between cells, also where cells within half a
unit of the printed ones can give it. *does not hold*: else. The note says what it rounds and truncates to, and what the
rounding of the cells allows.
"""
Formula = Mapping[str, Any]


def recompute(card: PaperCard, spec: Formula) -> Fraction:
    """The value of an entry's formula; each is described at its function below."""
    formula = next((name for name in FORMULAS if name in spec), None)
    if formula is None:
        raise FairFLError(f"An arithmetic entry needs one of the formulas {', '.join(FORMULAS)}: correct the card.")
    return FORMULAS[formula](card, spec)


def below(card: PaperCard, spec: Formula) -> Fraction:
    """below {pattern: pattern}: the share of pairs with the first less than the second; one number stands beside every cell."""
    less = [x < y for a, b in spec["below"].items() for x, y in pairs(card, a, b)]
    return Fraction(sum(less), len(less))


def multiples(card: PaperCard, spec: Formula) -> Fraction:
    """multiples {of, cells}: the share of cells that are a multiple of `of` within half a unit of their last digit."""
    step = cards.number(str(spec["multiples"]["of"]))
    cells = [e.printed for pattern in spec["multiples"]["cells"] for e in card.printed(pattern)]
    fit = [abs(cards.number(p) - round(cards.number(p) / step) * step) <= cards.unit(p) / 2 for p in cells]
    return Fraction(sum(fit), len(fit))


def distinct(card: PaperCard, spec: Formula) -> Fraction:
    """distinct: how many different numbers there are."""
    return Fraction(len({x for pattern in spec["distinct"] for x in numbers(card, pattern)}))


def lead(card: PaperCard, spec: Formula) -> Fraction:
    """lead {of, over}: the largest cell of the one less the largest of the other."""
    return largest(card, spec["lead"]["of"]) - largest(card, spec["lead"]["over"])


def recomputed(card: PaperCard, spec: Formula) -> Fraction:
    """recomputed: the mean of what these arithmetic cells should be."""
    parts = [recompute(card, e.spec) for pattern in spec["recomputed"] for e in card.printed(pattern)]
    return sum(parts, Fraction(0)) / len(parts)


def positive(card: PaperCard, spec: Formula) -> Fraction:
    """positive: the share of cells above 0."""
    signs = [cards.number(e.printed) > 0 for pattern in spec["positive"] for e in card.printed(pattern)]
    return Fraction(sum(signs), len(signs))


def same(card: PaperCard, spec: Formula) -> Fraction:
    """same {pattern: pattern}: the share of pairs equal in value and standard deviation, to the power `power`."""
    equal = [
        (x.printed, x.spec.get("sd")) == (y.printed, y.spec.get("sd"))
        for a, b in spec["same"].items()
        for x, y in zip(card.printed(a), card.printed(b), strict=True)
    ]
    return Fraction(sum(equal), len(equal)) ** int(spec.get("power", 1))


def fall(card: PaperCard, spec: Formula) -> Fraction:
    """fall [from, to]: 1 - |to| / |from|."""
    start, end = (total(card, [pattern]) for pattern in spec["fall"])
    return 1 - abs(end) / abs(start)


def difference(card: PaperCard, spec: Formula) -> Fraction:
    """difference {plus, minus}: a sum of cells less another."""
    return total(card, spec["difference"]["plus"]) - total(card, spec["difference"]["minus"])


def differ(card: PaperCard, spec: Formula) -> Fraction:
    """differ {pattern: pattern}: in how many pairs two cells differ."""
    pairs = ((card.printed(a), card.printed(b)) for a, b in spec["differ"].items())
    return Fraction(sum(cards.number(x.printed) != cards.number(y.printed) for a, b in pairs for x, y in zip(a, b, strict=True)))


def scale(card: PaperCard, spec: Formula) -> Fraction:
    """scale, of: their product."""
    return cards.number(str(spec["scale"])) * cards.number(str(spec["of"]))


def quotient(card: PaperCard, spec: Formula) -> Fraction:
    """sum [/ over]: sums of cells, "=50" being the number 50, to the power `power`."""
    whole = total(card, spec["sum"]) / (total(card, spec["over"]) if "over" in spec else 1)
    return whole ** int(spec.get("power", 1))


FORMULAS: dict[str, Callable[[PaperCard, Formula], Fraction]] = {
    "below": below, "multiples": multiples, "distinct": distinct, "lead": lead, "recomputed": recomputed,
    "positive": positive, "same": same, "fall": fall, "difference": difference, "differ": differ, "scale": scale,
    "sum": quotient,
}  # fmt: skip


def largest(card: PaperCard, patterns: Sequence[str]) -> Fraction:
    """The largest of the cells that fit any of the patterns."""
    return max(x for pattern in patterns for x in numbers(card, pattern))


def total(card: PaperCard, patterns: Sequence[str]) -> Fraction:
    """Sum of the cells that fit any of the patterns."""
    return sum((x for pattern in patterns for x in numbers(card, pattern)), Fraction(0))


def numbers(card: PaperCard, pattern: str) -> list[Fraction]:
    """The cells that fit a pattern, in the card's order; "=50" is the number 50."""
    if pattern.startswith("="):
        return [cards.number(pattern[1:])]
    return [cards.number(e.printed) for e in card.printed(pattern)]


def pairs(card: PaperCard, first: str, second: str) -> list[tuple[Fraction, Fraction]]:
    """The cells of two patterns side by side; one number, as "=0.9" is, or one cell stands beside every cell of the other."""
    a, b = numbers(card, first), numbers(card, second)
    a, b = (a * len(b) if len(a) == 1 else a), (b * len(a) if len(b) == 1 else b)
    if len(a) != len(b):
        raise FairFLError(f"{first} has {len(a)} cells and {second} {len(b)}: correct the formula that compares them.")
    return list(zip(a, b, strict=True))


def rounded(value: Fraction, unit: Fraction) -> tuple[Fraction, Fraction]:
    """A number rounded and truncated to a unit."""
    size, sign = abs(value) / unit, -1 if value < 0 else 1
    nearest = (2 * size.numerator + size.denominator) // (2 * size.denominator)
    return sign * nearest * unit, sign * (size.numerator // size.denominator) * unit


def printed_so(printed: str, low: Fraction, high: Fraction | None = None) -> bool:
    """Whether a number, or one between two ends, is printed so when it is rounded or truncated."""
    p, unit = cards.number(printed), cards.unit(printed)
    if p in rounded(low, unit) or high is None:
        return p in rounded(low, unit)
    if p in rounded(high, unit):
        return True
    first, last = (p - unit / 2, p + unit) if p > 0 else (p - unit, p + unit / 2) if p < 0 else (p - unit, p + unit)
    return low < last and high > first


def allowed(card: PaperCard, spec: Formula, value: Fraction) -> tuple[Fraction, Fraction] | None:
    """What a fall or a lead can be with cells within half a unit of the printed ones."""
    if "fall" in spec:
        (a,), (b,) = (card.printed(pattern) for pattern in spec["fall"])
        a0, b0 = abs(cards.number(a.printed)), abs(cards.number(b.printed))
        ha, hb = cards.unit(a.printed) / 2, cards.unit(b.printed) / 2
        return 1 - (b0 + hb) / (a0 - ha), 1 - max(b0 - hb, Fraction(0)) / (a0 + ha)
    if "lead" in spec:
        cells = [[e.printed for pattern in spec["lead"][side] for e in card.printed(pattern)] for side in ("of", "over")]
        half = sum((cards.unit(max(side, key=cards.number)) / 2 for side in cells), Fraction(0))
        return value - half, value + half
    return None


def judge(case: Case) -> Finding:
    printed, value = case.entry.printed, recompute(case.card, case.spec)
    notes = []
    if value != cards.number(printed):
        nearest, truncated = (_as_printed(v, printed) for v in rounded(value, cards.unit(printed)))
        notes.append(f"rounds to {nearest}, truncates to {truncated}")
    ends = allowed(case.card, case.spec, value)
    true = printed_so(printed, value) or bool(ends and printed_so(printed, *ends))
    if ends and not printed_so(printed, value):
        notes.append(f"the rounding of the cells allows {100 * float(ends[0]):.1f}% to {100 * float(ends[1]):.1f}%")
    return Finding(float(value), verdict="holds" if true else "does not hold", note="; ".join(notes))


def _as_printed(value: Fraction, printed: str) -> str:
    percent = "%" if printed.endswith("%") else ""
    decimals = len(printed.rstrip("%").partition(".")[2])
    return f"{float(value) * (100 if percent else 1):,.{decimals}f}{percent}"


RULE = Rule("arithmetic", "arithmetic", TEXT, (*FORMULAS, "over", "of", "power"), judge, tuple((name,) for name in FORMULAS))
