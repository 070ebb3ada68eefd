"""The rule `spread` against scipy's F distribution, at its limits, and in simulation."""

from dataclasses import replace
from math import isnan, sqrt

import numpy as np
import pytest
from little import card, exact, forecasts, judge, table
from scipy import stats

from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.rules.spread import without_one


def spread(printed: str, values: np.ndarray, **fields: object) -> Claim:
    read = card(tables={"t": table({"base": f"0.50±{printed}"})}, **fields)
    return judge(read, "t.base.sd", ({"metric": "up", "method": "base"}, values))


def said_of(values: np.ndarray, q: float, k: int, half: float) -> str:
    """By scipy, where leaving out any one run changes nothing, not even which is the larger."""
    n, whole = len(values), by_scipy(float(values.std(ddof=1)), len(values), q, k, half)
    others = [float(np.delete(values, i).std(ddof=1)) for i in range(n)] if n > 2 else []
    same = all(by_scipy(s, n - 1, q, k, half) == whole for s in others)
    if whole == "differs":
        same = same and len({s > q for s in (*others, values.std(ddof=1))}) == 1
    return whole if others and same else "cannot tell"


def by_scipy(s: float, n: int, q: float, k: int, half: float) -> str:
    """Whether the ratio of the true standard deviations lies between 1/2 and 2, by one-sided F tests at 5%."""

    def tail(theirs: float, ratio: float, upper: bool) -> float:
        f = (s / theirs / ratio) ** 2
        return float(stats.f.sf(f, n - 1, k - 1) if upper else stats.f.cdf(f, n - 1, k - 1))

    large, small = q + half, q - half
    if small > 0 and tail(large, 0.5, True) <= 0.05 and tail(small, 2, False) <= 0.05:
        return "agrees"
    if tail(large, 2, True) < 0.05 or (small > 0 and tail(small, 0.5, False) < 0.05):
        return "differs"
    return "cannot tell"


def test_the_ratio_of_two_spreads_by_scipy() -> None:
    rng = np.random.default_rng(21)
    seen, alone = dict.fromkeys(("agrees", "differs", "cannot tell"), 0), 0
    for _ in range(200):
        n, k, decimals = int(rng.integers(2, 60)), int(rng.choice([5, 10, 20, 60])), int(rng.integers(2, 4))
        s = 10 ** rng.uniform(-2, -0.5)
        printed = f"{s * 2 ** rng.uniform(-2.5, 2.5):.{decimals}f}"
        values = exact(0.5, s, n) if rng.random() < 0.5 else rng.normal(0.5, s, n)
        found = spread(printed, values, printed_seeds=k)
        assert found.verdict == said_of(values, float(printed), k, 0.5 * 10.0**-decimals)
        once = by_scipy(float(values.std(ddof=1)), n, float(printed), k, 0.5 * 10.0**-decimals)
        assert (found.detail == f"one run of {n} decides") is (found.verdict != once)
        assert (found.measured, found.seeds, found.margin) == (pytest.approx(values.std(ddof=1)), n, 2)
        seen[found.verdict] += 1
        alone += found.verdict != once
    assert min(seen.values()) > 10 and alone > 4


def test_leaving_out_each_run_in_turn() -> None:
    rng = np.random.default_rng(25)
    for n in (3, 4, 10, 40):
        for values in (rng.normal(0.5, 0.1, n), rng.exponential(1, n), np.r_[np.full(n - 1, 0.3), 0.9], np.full(n, 0.7)):
            others = [np.delete(values, i).std(ddof=1) for i in range(n)]
            assert without_one(values) == pytest.approx((min(others), max(others)), abs=1e-8)


def test_one_outlier_does_not_decide() -> None:
    calm = exact(0.5, 0.04, 19)
    assert spread("0.040", calm, printed_seeds=40).verdict == "agrees"
    wild = spread("0.040", np.r_[calm, 2.0], printed_seeds=40)  # eight times the printed, and without it as printed
    assert (wild.verdict, wild.detail) == ("cannot tell", "one run of 20 decides")
    made = spread("0.100", np.r_[exact(0.5, 0.02, 29), 1.0], printed_seeds=40)  # agrees, for one run only
    assert by_scipy(made.measured, 30, 0.1, 40, 0.0005) == "agrees"
    assert (made.verdict, made.detail) == ("cannot tell", "one run of 30 decides")
    # larger with the outlier and smaller without: it differs either way, and one run decides which
    turned = spread("0.040", np.r_[exact(0.5, 0.001, 19), 2.0])
    assert (turned.verdict, turned.detail) == ("cannot tell", "one run of 20 decides")
    two = spread("0.040", np.array([0.1, 0.9]))  # of two runs, one is the whole spread
    assert (two.verdict, two.detail) == ("cannot tell", "one run of 2 decides")


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_few_equal_runs_show_no_spread_and_not_that_there_is_none(n: int) -> None:
    found = spread("0.04", np.full(n, 0.5))
    assert (found.verdict, found.detail) == ("cannot tell", "about 5 runs would decide")
    assert spread("0.04", np.full(5, 0.5)).verdict == "differs"


@pytest.mark.parametrize(
    ("sd", "verdict"),
    # F(19, 19) has its 95% quantile at 2.16825, so either end is a factor of 1.47250 away; .1 is printed to four digits
    [
        (0.0737, "agrees"),  # .07363 and a little for the rounding
        (0.0735, "cannot tell"),
        (0.1357, "agrees"),  # .13582
        (0.1360, "cannot tell"),
        (0.2940, "cannot tell"),  # 2 * 1.4725 * .1 = .2945
        (0.2950, "differs"),
        (0.0340, "cannot tell"),  # .1 / 2 / 1.4725 = .03396
        (0.0339, "differs"),
    ],
)
def test_a_factor_of_two_by_hand(sd: float, verdict: str) -> None:
    found = spread("0.1000", exact(0.5, sd, 20), printed_seeds=20)
    assert found.measured == pytest.approx(sd) and found.verdict == "cannot tell"  # so near the limit any one run decides
    assert (found.detail == "one run of 20 decides") is (verdict != "cannot tell")
    further = {"agrees": 0.1, "differs": 0.1 * (sd / 0.1) ** 1.2}.get(verdict)
    if further:
        found = spread("0.1000", exact(0.5, further, 20), printed_seeds=20)
        assert found.verdict == verdict
        assert found.detail == ("" if verdict == "agrees" else f"ours is {further / 0.1:.2g} times the printed")


def test_what_has_no_spread() -> None:
    one, single = spread("0.04", exact(0.5, 0, 1)), spread("0.04", exact(0.5, 0.04, 10), printed_seeds=1)
    assert (one.verdict, one.detail) == (single.verdict, single.detail) == ("not testable", "one run has no spread")
    assert isnan(one.measured) and isnan(one.low)


def test_a_printed_zero_never_agrees() -> None:
    same = spread("0.00", np.full(10, 0.5))
    assert (same.verdict, same.detail) == ("cannot tell", "not decidable from what is printed")
    for sd in (0.001, 0.004, 0.01, 0.02):
        assert spread("0.00", exact(0.5, sd, 10)).verdict != "agrees"
    wide = spread("0.00", exact(0.5, 0.1, 10))
    assert (wide.verdict, wide.detail) == ("differs", "nothing is printed to spread")
    still = spread("0.04", np.full(10, 0.5))  # ours does not spread at all
    assert (still.verdict, still.detail) == ("differs", "ours is 0 times the printed")


def test_the_forecast_decides_and_fewer_runs_do_not() -> None:
    def said(runs: int, s: float) -> Claim:
        """The forecast is of the test itself: it does not know which of the runs to come will decide alone."""
        found = spread("0.080", exact(0.5, s, runs), printed_seeds=20)
        alone = found.detail == f"one run of {runs} decides"
        return replace(found, verdict=by_scipy(s, runs, 0.08, 20, 0.0005)) if alone else found

    rng = np.random.default_rng(24)
    assert forecasts(said, [(int(rng.integers(2, 12)), 10 ** rng.uniform(-1.5, -0.8)) for _ in range(80)]) > 12


def test_what_is_not_decidable_stays_so_with_a_hundred_thousand_runs() -> None:
    never = spread("0.10", exact(0.5, 0.19, 10))
    assert (never.verdict, never.detail) == ("cannot tell", "not decidable from what is printed")
    assert spread("0.10", exact(0.5, 0.19, 100_000)).verdict == "cannot tell"


def test_the_interval_shown_is_that_of_chi_square() -> None:
    # with 9 degrees of freedom 2.70039 and 19.02277 from a printed table
    found = spread("0.10", exact(0.5, 0.1, 10))
    assert (found.low, found.high) == pytest.approx((0.1 * sqrt(9 / 19.02277), 0.1 * sqrt(9 / 2.70039)), rel=1e-5)
