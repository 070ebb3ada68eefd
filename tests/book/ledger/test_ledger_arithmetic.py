"""The rule `arithmetic`: rounding and truncating as decimals do, each formula by hand, and what rounded cells allow."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little import card, judge, judged, table

from fairfl_book import cards
from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.rules.arithmetic import printed_so, recompute, rounded
from fairfl_lite.errors import FairFLError

RANKFF = cards.load("rankff")


@given(st.decimals(-1000, 1000, places=5), st.integers(0, 3))
def test_a_number_is_printed_rounded_or_truncated(value: Decimal, places: int) -> None:
    unit = Decimal(1).scaleb(-places)
    cut = {value.quantize(unit, ROUND_HALF_UP), value.quantize(unit, ROUND_DOWN)}
    assert set(rounded(Fraction(value), Fraction(unit))) == {Fraction(c) for c in cut}
    for candidate in (*cut, max(cut) + unit, min(cut) - unit):
        assert printed_so(f"{candidate:.{places}f}", Fraction(value)) == (candidate in cut)


@pytest.mark.parametrize(
    ("printed", "value", "verdict", "note"),
    [
        ("98.9%", "182/184", "holds", "rounds to 98.9%, truncates to 98.9%"),
        ("62%", "114/184", "holds", "rounds to 62%, truncates to 61%"),
        ("0.3%", "3/832", "holds", "rounds to 0.4%, truncates to 0.3%"),
        ("20%", "12/62", "does not hold", "rounds to 19%, truncates to 19%"),
        ("2.6%", "11/567", "does not hold", "rounds to 1.9%, truncates to 1.9%"),
        ("36,177", "36177.6", "holds", "rounds to 36,178, truncates to 36,177"),
        ("36,178", "36177.6", "holds", "rounds to 36,178, truncates to 36,177"),
        ("36,176", "36177.6", "does not hold", "rounds to 36,178, truncates to 36,177"),
        ("-0.05", "-0.049", "holds", "rounds to -0.05, truncates to -0.04"),
        ("-0.05", "0.049", "does not hold", "rounds to 0.05, truncates to 0.04"),
        ("51", "51", "holds", ""),
    ],
)
def test_recomputed_numbers(printed: str, value: str, verdict: str, note: str) -> None:
    found = judged({"kind": "arithmetic", "printed": printed, "sum": [f"={value}"], "results": None})
    assert (found.verdict, found.note, found.source) == (verdict, note, "printed cells")
    assert found.measured == pytest.approx(float(Fraction(value)))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ({"below": {"=1": "=2", "=2": "=1", "=3": "=3"}}, Fraction(1, 3)),
        ({"below": {"t1.mnist.*.rankff.beta": "=0.2"}}, Fraction(2, 3)),  # 0.39 0.19 0.07
        ({"below": {"=0.2": "t1.mnist.*.rankff.beta"}}, Fraction(1, 3)),
        ({"below": {"t1.mnist.*.rankff.beta": "t2.mnist.*.fedavg.beta"}}, Fraction(0)),
        ({"below": {"t1.mnist.mid.rankff.beta": "t1.mnist.*.fedavg.beta"}}, Fraction(2, 3)),  # 0.19 beside 0.97 0.60 0.17
        ({"multiples": {"of": "1/10", "cells": ["t1.mnist.*.fedavg.beta"]}}, Fraction(1, 3)),  # 0.97 0.60 0.17
        ({"multiples": {"of": "1/6", "cells": ["t1.mnist.low.fedavg.beta"]}}, Fraction(1)),  # 0.17 is 1/6 within 0.005
        ({"multiples": {"of": "1/101", "cells": ["t2.mnist.low.rankff.beta"]}}, Fraction(1)),
        ({"distinct": ["=1", "=1.0", "=2", "t1.mnist.low.*.beta"]}, Fraction(4)),  # 0.17 twice, 0.07
        ({"lead": {"of": ["t1.mnist.*.rankff.sum"], "over": ["t1.mnist.*.fedavg.sum"]}}, Fraction("0.2")),  # 9.71 - 9.51
        ({"positive": ["t1.mnist.*.beta"]}, Fraction(1)),
        ({"same": {"t1.*.low.fedavg.*": "t1.*.low.rankff.*"}}, Fraction(1, 2)),  # CIFAR-10 yes, MNIST no
        ({"same": {"t1.*.low.fedavg.*": "t1.*.low.rankff.*"}, "power": 3}, Fraction(1, 8)),
        ({"differ": {"t1.*.low.fedavg.*": "t1.*.low.rankff.*"}}, Fraction(2)),
        ({"fall": ["t1.mnist.mid.fedavg.beta", "t1.mnist.mid.rankff.beta"]}, 1 - Fraction(19, 60)),
        ({"difference": {"plus": ["t1.mnist.*.rankff.beta"], "minus": ["=0.5"]}}, Fraction("0.15")),  # 0.39 + 0.19 + 0.07
        ({"scale": "0.8", "of": "32,561"}, Fraction("26048.8")),
        ({"sum": ["=3"], "over": ["=2"], "power": 3}, Fraction(27, 8)),
    ],
)
def test_formulas(formula: dict[str, Any], value: Fraction) -> None:
    assert recompute(RANKFF, formula) == value


def test_what_was_recomputed_can_be_averaged() -> None:
    rows = {"base": "0.50", "good": "0.55", "ours": "0.60", "gain": "+9%"}
    over = {"method": {"gain": {"kind": "arithmetic", "lead": {"of": ["t.ours"], "over": ["t.base", "t.good"]}}}}
    read = card({"kind": "arithmetic", "printed": "5%", "recomputed": ["t.gain"]}, tables={"t": table(rows, override=over)})
    assert (judge(read, "it").measured, judge(read, "it").verdict) == (pytest.approx(0.05), "holds")
    assert judge(read, "t.gain").verdict == "does not hold"


def test_formulas_that_do_not_fit() -> None:
    with pytest.raises(FairFLError, match="has 3 cells and .* 6: correct"):
        recompute(RANKFF, {"below": {"t1.mnist.*.rankff.beta": "t1.*.rankff.beta"}})
    with pytest.raises(FairFLError, match="needs one of the formulas below, multiples"):
        recompute(RANKFF, {"summ": ["=1"]})
    with pytest.raises(FairFLError, match="no cell t9.nothing: correct the formula"):
        recompute(RANKFF, {"sum": ["t9.nothing"]})


def cells(first: str, second: str, printed: str, formula: str) -> Claim:
    """What two printed cells say of a fall from the one to the other, or of the lead of the other."""
    rule = {"fall": ["t.first", "t.second"]} if formula == "fall" else {"lead": {"of": ["t.second"], "over": ["t.first"]}}
    read = card({"kind": "arithmetic", "printed": printed, **rule}, tables={"t": table({"first": first, "second": second})})
    return judge(read, "it")


def reachable(first: str, second: str, formula: str, unit: Fraction) -> set[Fraction]:
    """What may be printed, rounded or truncated, where each cell is any of many numbers within half a unit of itself."""
    near = []
    for cell in (first, second):
        value, half = Fraction(cell), Fraction(1, 2 * 10 ** len(cell.partition(".")[2]))
        near.append([value + half * Fraction(i, 10) for i in range(-10, 11)])
    found = set()
    for a, b in product(*near):
        value = 1 - abs(b) / abs(a) if formula == "fall" else b - a
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        step = Decimal(unit.numerator) / Decimal(unit.denominator)
        found |= {Fraction((exact / step).quantize(Decimal(1), how)) * unit for how in (ROUND_HALF_UP, ROUND_DOWN)}
    return found


@pytest.mark.parametrize("formula", ["fall", "lead"])
def test_a_fall_and_a_lead_hold_where_the_rounding_of_the_cells_allows_it_and_nowhere_else(formula: str) -> None:
    rng = np.random.default_rng(41)
    verdicts = {"holds": 0, "does not hold": 0}
    for _ in range(12):
        first, second = (f"{x:.2f}" for x in rng.uniform(0.3, 0.9, 2))
        decimals = int(rng.integers(0, 2))
        unit = Fraction(1, 100 * 10**decimals)
        wanted = reachable(first, second, formula, unit)
        for value in (min(wanted) + i * unit for i in range(-3, int((max(wanted) - min(wanted)) / unit) + 4)):
            found = cells(first, second, f"{float(100 * value):.{decimals}f}%", formula)
            assert (found.verdict == "holds") == (value in wanted), (first, second, value, found.note)
            verdicts[found.verdict] += 1
    assert verdicts["does not hold"] >= 72 and verdicts["holds"] > 24


@pytest.mark.parametrize(
    ("first", "second", "formula", "allowed", "hold", "fail"),
    [
        ("0.062", "0.050", "fall", "17.9% to 20.8%", ["17%", "18%", "20%", "21%"], ["16%", "22%"]),  # 17 truncated, 21 rounded
        ("0.567", "0.556", "fall", "1.8% to 2.1%", ["1.7%", "1.8%", "2.1%"], ["1.6%", "2.2%", "2.6%"]),
        ("0.73", "0.84", "lead", "10.0% to 12.0%", ["+10%", "+12%"], ["+9%", "+13%"]),
        ("0.67", "0.79", "lead", "11.0% to 13.0%", ["+11%", "+13%"], ["+8%", "+10%", "+14%"]),
    ],
)
def test_falls_and_leads_of_the_papers(
    first: str, second: str, formula: str, allowed: str, hold: list[str], fail: list[str]
) -> None:
    found = {printed: cells(first, second, printed, formula) for printed in hold + fail}
    assert [p for p, c in found.items() if c.verdict == "holds"] == hold
    assert [p for p, c in found.items() if c.verdict == "does not hold"] == fail
    assert all(c.note.endswith(f"; the rounding of the cells allows {allowed}") for c in found.values())


def test_other_formulas_have_no_such_allowance() -> None:
    read = card({"kind": "arithmetic", "printed": "0.12", "difference": {"plus": ["t.b"], "minus": ["t.a"]}},
                tables={"t": table({"a": "0.73", "b": "0.84"})})  # fmt: skip
    assert judge(read, "it").verdict == "does not hold"
