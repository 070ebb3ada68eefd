"""The rule `spread` against scipy's F distribution, at its limits, and in simulation."""

from math import isnan, sqrt

import numpy as np
import pytest
from little import card, exact, forecasts, judge, table
from scipy import stats

from fairfl_lite.ledger.claims import Claim
from fairfl_lite.ledger.numbers import Estimate
from fairfl_lite.ledger.rules.spread import ends


def spread(printed: str, values: np.ndarray, **fields: object) -> Claim:
    read = card(tables={"t": table({"base": f"0.50±{printed}"})}, **fields)
    return judge(read, "t.base.sd", ({"metric": "up", "method": "base"}, values))


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
    seen = dict.fromkeys(("agrees", "differs", "cannot tell"), 0)
    for _ in range(150):
        n, k, decimals = int(rng.integers(2, 60)), int(rng.choice([5, 10, 20, 60])), int(rng.integers(2, 4))
        s = 10 ** rng.uniform(-2, -0.5)
        printed = f"{s * 2 ** rng.uniform(-2.5, 2.5):.{decimals}f}"
        found = spread(printed, exact(0.5, s, n), printed_seeds=k)
        assert found.verdict == by_scipy(s, n, float(printed), k, 0.5 * 10.0**-decimals)
        assert (found.measured, found.seeds, found.margin) == (pytest.approx(s), n, 2)
        seen[found.verdict] += 1
    assert min(seen.values()) > 10


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
    assert found.verdict == verdict
    if verdict == "differs":
        assert found.detail == f"ours is {sd / 0.1:.2g} times the printed"


def test_the_ends_hold_in_nineteen_of_twenty_experiments() -> None:
    rng = np.random.default_rng(22)
    ours, theirs = rng.normal(0, 2, (3000, 10)).std(1, ddof=1), rng.normal(0, 1, (3000, 20)).std(1, ddof=1)
    both = np.array([ends(Estimate(0, s, 10), q, 0.0, 10, 20) for s, q in zip(ours, theirs, strict=True)])
    low, high = both.T
    assert 0.938 < (low < 2).mean() < 0.962 and 0.938 < (high > 2).mean() < 0.962  # one-sided 95%, within three sds


def test_at_a_factor_of_two_it_agrees_at_most_one_time_in_twenty() -> None:
    rng = np.random.default_rng(23)
    for ratio in (2.0, 0.5):
        ours = rng.normal(0, 0.1 * ratio, (1000, 40)).std(1, ddof=1)
        theirs = rng.normal(0, 0.1, (1000, 40)).std(1, ddof=1)
        agrees = [
            low >= 0.5 and high <= 2
            for low, high in (ends(Estimate(0, s, 40), q, 0.0, 40, 40) for s, q in zip(ours, theirs, strict=True))
        ]
        assert 0.03 < np.mean(agrees) < 0.072


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
        return spread("0.080", exact(0.5, s, runs), printed_seeds=20)

    rng = np.random.default_rng(24)
    assert forecasts(said, [(int(rng.integers(2, 12)), 10 ** rng.uniform(-1.5, -0.8)) for _ in range(60)]) > 12


def test_what_is_not_decidable_stays_so_with_a_hundred_thousand_runs() -> None:
    never = spread("0.10", exact(0.5, 0.19, 10))
    assert (never.verdict, never.detail) == ("cannot tell", "not decidable from what is printed")
    assert spread("0.10", exact(0.5, 0.19, 100_000)).verdict == "cannot tell"


def test_the_interval_shown_is_that_of_chi_square() -> None:
    # with 9 degrees of freedom 2.70039 and 19.02277 from a printed table
    found = spread("0.10", exact(0.5, 0.1, 10))
    assert (found.low, found.high) == pytest.approx((0.1 * sqrt(9 / 19.02277), 0.1 * sqrt(9 / 2.70039)), rel=1e-5)
