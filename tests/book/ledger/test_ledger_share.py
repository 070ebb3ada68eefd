"""The rules `share` and `draw` at their limits."""

from math import sqrt

import pandas as pd
import pytest
from little import RUNS, card, judge, judged
from scipy import stats

from fairfl_book.ledger.claims import Claim

WON, LOST, LEAD, LAG = [0.1, 0.1, 0.11], [-0.1, -0.1, -0.11], [0.3, 0.0, 0.0], [-0.3, 0.0, 0.0]
"""Gains whose whole interval is above 0, or below, and gains whose mean only is."""


def share(printed: str, *gains: list[float]) -> Claim:
    """The printed share of comparisons won, of these."""
    claims = [
        {"id": f"c{i}", "kind": "ordering", "metric": "up", "results": RUNS, "select": {"case": f"c{i}"},
         "better": {"method": "a"}, "worse": {"method": "b"}}
        for i in range(len(gains))
    ]  # fmt: skip
    series = [({"metric": "up", "case": f"c{i}", "method": m}, [g * (m == "a") for g in of])
              for i, of in enumerate(gains) for m in "ab"]  # fmt: skip
    read = card(*claims, {"kind": "effect", "rule": "share", "printed": printed, "entries": ["c*"]})
    return judge(read, "it", *series)


@pytest.mark.parametrize(
    ("printed", "won", "lead", "lag", "lost", "verdict"),
    [
        ("100%", 10, 0, 0, 0, "agrees"),
        ("100%", 9, 0, 0, 1, "differs"),  # not one may be otherwise
        ("100%", 8, 0, 0, 2, "differs"),
        ("100%", 9, 1, 0, 0, "cannot tell"),  # the open one may be either
        ("100%", 8, 2, 0, 0, "cannot tell"),
        ("100%", 0, 9, 1, 0, "cannot tell"),  # nothing is sure
        ("78%", 7, 0, 0, 2, "agrees"),  # 7/9 is 77.8%
        ("78%", 9, 0, 0, 0, "differs"),  # 100% is two more
        ("78%", 8, 0, 0, 1, "differs"),
        ("78%", 6, 1, 0, 2, "cannot tell"),
        ("78%", 5, 1, 0, 3, "differs"),
        ("78%", 5, 0, 0, 4, "differs"),
    ],
)
def test_a_share_agrees_where_not_one_comparison_is_otherwise(
    printed: str, won: int, lead: int, lag: int, lost: int, verdict: str
) -> None:
    found = share(printed, *[WON] * won, *[LEAD] * lead, *[LAG] * lag, *[LOST] * lost)
    every = won + lead + lag + lost
    assert found.verdict == verdict
    assert (found.measured, found.low, found.high) == pytest.approx(((won + lead) / every, won / every, 1 - lost / every))
    assert (found.margin, found.seeds) == (pytest.approx(0.5 / every), 3)
    assert found.note == f"{won + lead} of {every}, {won} with the whole interval above 0, {lost} with the whole below"
    words = {"agrees": "", "cannot tell": f"{lead + lag} of {every} are open"}
    way = "more are won than printed" if found.low > float(printed[:-1]) / 100 else "fewer are won than printed"
    assert found.detail == words.get(verdict, way)


def test_ties_and_single_runs_are_open() -> None:
    tied = share("100%", *[[0.0, 0.0]] * 5)
    assert (tied.measured, tied.low, tied.high, tied.verdict) == (0, 0, 1, "cannot tell")
    assert share("100%", *[[0.1]] * 5).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("printed", "low", "high", "possible", "verdict"),
    [
        ("100", 100, 400, 1000, "agrees"),  # the ends belong to it
        ("400", 100, 400, 1000, "agrees"),
        ("99", 100, 400, 1000, "differs"),
        ("401", 100, 400, 1000, "differs"),
        ("300", 100, 599, 1000, "agrees"),  # 49.9% of what is possible
        ("300", 100, 600, 1000, "cannot tell"),  # half: nearly any number would do
        ("99", 100, 600, 1000, "differs"),  # but not this one
        ("500", 0, 1000, 1000, "cannot tell"),
    ],
)
def test_a_draw_of_ours(printed: str, low: int, high: int, possible: int, verdict: str) -> None:
    frame = pd.DataFrame([{"cell": "x", "low": low, "median": 200, "high": high, "possible": possible}])
    found = judged({"kind": "draw", "printed": printed, "select": {"cell": "x"}}, frames={RUNS: frame})
    assert (found.verdict, found.measured, found.low, found.high) == (verdict, 200, low, high)
    assert found.detail.endswith(f"{(high - low) / possible:.0%} of what is possible")
    old = judged({"kind": "draw", "printed": printed, "select": {"cell": "x"}}, frames={RUNS: frame.drop(columns="possible")})
    assert old.verdict == "not yet measured" and "has no column possible" in old.note


@pytest.mark.parametrize(
    ("a", "b", "printed", "verdict"),
    [
        (5, 45, "10%", "agrees"),  # 99% of Beta(5, 45) is 2.4% to 23.2%
        (5, 45, "30%", "differs"),
        (0.5, 4.5, "40%", "cannot tell"),  # 0.0% to 53.6%
        (0.5, 4.5, "90%", "differs"),
    ],
)
def test_a_draw_by_its_law(a: float, b: float, printed: str, verdict: str) -> None:
    found = judged({"kind": "draw", "printed": printed, "beta": [a, b], "results": None})
    law = stats.beta(a, b)
    assert found.verdict == verdict
    assert (found.low, found.measured, found.high) == pytest.approx((law.ppf(0.005), law.median(), law.ppf(0.995)))


def test_the_law_of_a_client_s_share_of_a_group() -> None:
    # Dir(σ) among K clients: one share is Beta(σ, (K - 1) σ), of mean 1/K and this spread
    law = stats.beta(0.5, 4.5)
    assert (law.mean(), law.std()) == pytest.approx((0.1, sqrt(0.1 * 0.9 / 6)))
