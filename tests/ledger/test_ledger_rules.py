"""Each verdict rule on numbers worked by hand, and its statistics against a second implementation."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairfl_lite.ledger import verdicts as ledger
from fairfl_lite.ledger.verdicts import Estimate, estimate

FINITE = st.floats(-1, 1, allow_nan=False)


def exact(mean: float, seeds: int = 20) -> Estimate:
    return Estimate(mean, 0.0, seeds)


def test_estimate_of_three_seeds() -> None:
    # mean .82, sd .02, t(2) = 4.30265 from a printed t-table, 4.30265 * .02 / sqrt(3) = .04968
    ours = estimate([0.80, 0.82, 0.84])
    assert (ours.mean, ours.sd, ours.seeds) == pytest.approx((0.82, 0.02, 3))
    assert (ours.low, ours.high) == pytest.approx((0.77032, 0.86968), abs=1e-5)


def test_estimate_of_one_seed_has_no_interval() -> None:
    ours = estimate([0.5])
    assert ours.mean == 0.5 and np.isnan(ours.low) and np.isnan(ours.high)


@pytest.mark.parametrize(
    ("printed", "verdict"),
    # 4.30265 * .02 * sqrt(1/3 + 1/20) = .05328, and half a unit of the last digit
    [("0.873", "reproduced"), ("0.874", "not reproduced"), ("0.767", "reproduced"), ("0.766", "exceeds")],
)
def test_value_allows_for_the_spread_of_both_means(printed: str, verdict: str) -> None:
    assert ledger.value_verdict(printed, estimate([0.80, 0.82, 0.84]), sense="larger") == verdict


@pytest.mark.parametrize(
    ("printed", "mean", "verdict"),
    [
        ("0.830", 0.820, "reproduced"),  # .010 <= .01 + .0005
        ("0.831", 0.820, "not reproduced"),  # .011 > .0105
        ("0.83", 0.815, "reproduced"),  # .015 <= .01 + .005
        ("0.83", 0.814, "not reproduced"),
        ("0.831", 0.842, "exceeds"),
    ],
)
def test_value_floor_and_last_digit(printed: str, mean: float, verdict: str) -> None:
    assert ledger.value_verdict(printed, exact(mean), sense="larger") == verdict
    assert ledger.value_verdict(printed, Estimate(mean, float("nan"), 1), sense="larger") == verdict


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(-0.195, "reproduced"), (-0.10, "exceeds"), (0.10, "exceeds"), (-0.30, "direction only"), (0.30, "not reproduced")],
)
def test_value_of_a_signed_baseline_cell(mean: float, verdict: str) -> None:
    assert ledger.value_verdict("-0.200", exact(mean), sense="closer") == verdict


@pytest.mark.parametrize(
    ("mean", "fedavg", "verdict"),
    [
        (-0.075, -0.180, "reproduced"),
        (-0.050, -0.180, "exceeds"),
        (-0.150, -0.250, "direction only"),  # printed: +.114 from FedAvg, ours +.100
        (-0.300, -0.250, "not reproduced"),
        (0.300, -0.250, "direction only"),  # past zero by more than printed, but away from FedAvg as printed
    ],
)
def test_value_beside_fedavg(mean: float, fedavg: float, verdict: str) -> None:
    got = ledger.value_verdict("-0.070", exact(mean), sense="closer", baseline=("-0.184", fedavg))
    assert got == verdict


def test_value_where_the_paper_prints_no_difference() -> None:
    same = ledger.value_verdict("0.800", exact(0.7), sense="larger", baseline=("0.800", 0.7004))
    moved = ledger.value_verdict("0.800", exact(0.7), sense="larger", baseline=("0.800", 0.71))
    assert (same, moved) == ("direction only", "not reproduced")


def test_uniformity_is_better_when_smaller() -> None:
    assert ledger.value_verdict("0.082", exact(0.05), sense="smaller") == "exceeds"
    assert ledger.value_verdict("0.082", exact(0.20), sense="smaller") == "not reproduced"


@given(st.lists(FINITE, min_size=3, max_size=12))
def test_ordering_interval_is_that_of_the_paired_t_test(values: list[float]) -> None:
    b = np.asarray(values)
    a = b + np.linspace(-0.1, 0.3, len(b)) ** 2
    theirs = stats.ttest_rel(a, b).confidence_interval(0.95)
    ours = estimate(a - b)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ledger.ordering_verdict(ours) == ("reproduced" if theirs.low > 0 else "direction only")


@pytest.mark.parametrize(
    ("gains", "ordering", "no_gain"),
    [
        ([0.01, 0.02, 0.03], "direction only", "reproduced"),  # .02 +- 4.30265 * .01 / sqrt(3) = .0248
        ([0.02, 0.03, 0.04], "reproduced", "not reproduced"),  # .03 +- .0248
        ([-0.01, 0.00, 0.01], "not reproduced", "reproduced"),
        ([0.0, 0.0, 0.0], "not reproduced", "reproduced"),
        ([-0.04, -0.03, -0.02], "not reproduced", "reproduced"),
        ([0.05], "direction only", "not reproduced"),
        ([-0.05], "not reproduced", "direction only"),
    ],
)
def test_ordering_and_no_gain(gains: list[float], ordering: str, no_gain: str) -> None:
    assert ledger.ordering_verdict(estimate(gains)) == ordering
    assert ledger.no_gain_verdict(estimate(gains)) == no_gain


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([0.0, 0.0, 0.0], "reproduced"),
        ([-0.001, 0.0, 0.001], "reproduced"),
        ([-0.02, 0.0, 0.02], "direction only"),
        ([0.02, 0.02, 0.02], "not reproduced"),
    ],
)
def test_similar(differences: list[float], verdict: str) -> None:
    assert ledger.similar_verdict(estimate(differences)) == verdict


@given(st.lists(st.lists(FINITE, min_size=4, max_size=4), min_size=1, max_size=5))
def test_slopes_are_least_squares(rows: list[list[float]]) -> None:
    expected = [np.polyfit(np.arange(4), row, 1)[0] for row in rows]
    assert ledger.slopes(np.asarray(rows)) == pytest.approx(expected, abs=1e-9)


def test_score_points_upwards() -> None:
    values = pd.Series([-0.2, 0.1])
    assert ledger.score(values, "larger").tolist() == [-0.2, 0.1]
    assert ledger.score(values, "smaller").tolist() == [0.2, -0.1]
    assert ledger.score(values, "closer").tolist() == [-0.2, -0.1]


def test_improvement_over_a_constant_start_is_a_plain_mean() -> None:
    # with start -.2 everywhere, 1 - |mean end| / .2 is the mean of 1 - |end| / .2, so the jackknife changes nothing
    ours = ledger.improvement([-0.2] * 4, [-0.10, -0.12, -0.14, -0.16])
    plain = estimate([0.5, 0.4, 0.3, 0.2])
    assert (ours.mean, ours.sd, ours.seeds) == pytest.approx((plain.mean, plain.sd, 4))


def test_improvement_against_leave_one_out_by_hand() -> None:
    start, end = [-0.2, -0.3, -0.4], [-0.1, -0.2, 0.0]
    # whole: 1 - .1/.3; without the 1st, 2nd, 3rd seed: 1 - .1/.35, 1 - .05/.3, 1 - .15/.25
    whole, without = 2 / 3, [1 - 0.1 / 0.35, 1 - 0.05 / 0.3, 1 - 0.15 / 0.25]
    pseudo = [3 * whole - 2 * w for w in without]
    ours = ledger.improvement(start, end)
    assert ours.mean == pytest.approx(whole)
    assert ours.sd == pytest.approx(np.std(pseudo, ddof=1))


@pytest.mark.parametrize(
    ("mean", "sense", "verdict"),
    [
        (0.28, "larger", "reproduced"),
        (0.40, "larger", "exceeds"),
        (0.10, "larger", "direction only"),
        (-0.10, "larger", "not reproduced"),
        (0.10, "smaller", "exceeds"),
    ],
)
def test_improvement_verdict(mean: float, sense: str, verdict: str) -> None:
    assert ledger.improvement_verdict("27%", exact(mean), sense=sense) == verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (exact(0.020), "reproduced"),
        (Estimate(0.020, 0.02, 3), "direction only"),
        (exact(0.026), "not reproduced"),
        (Estimate(0.020, float("nan"), 1), "direction only"),
    ],
)
def test_at_most(ours: Estimate, verdict: str) -> None:
    assert ledger.at_most_verdict("2.5%", ours) == verdict


@pytest.mark.parametrize(
    ("printed", "value", "verdict"),
    [
        ("98.9%", Fraction(182, 184), "holds"),  # 98.913
        ("62%", Fraction(114, 184), "holds"),  # 61.957, by rounding
        ("0.3%", Fraction(3, 832), "holds"),  # 0.361, by truncation
        ("20%", Fraction(12, 62), "does not hold"),  # 19.355
        ("2.6%", Fraction(11, 567), "does not hold"),  # 1.940
        ("36,177", Fraction(361776, 10), "holds"),
        ("-0.05", Fraction(-49, 1000), "holds"),
        ("-0.05", Fraction(49, 1000), "does not hold"),
    ],
)
def test_arithmetic(printed: str, value: Fraction, verdict: str) -> None:
    assert ledger.arithmetic_verdict(printed, value)[0] == verdict


@given(st.decimals(-1000, 1000, places=5), st.integers(0, 3))
def test_arithmetic_rounds_and_truncates_as_decimal_does(value: Decimal, places: int) -> None:
    step = Decimal(1).scaleb(-places)
    cut = {value.quantize(step, ROUND_HALF_UP), value.quantize(step, ROUND_DOWN)}
    for candidate in (*cut, max(cut) + step, min(cut) - step):
        expected = "holds" if candidate in cut else "does not hold"
        assert ledger.arithmetic_verdict(f"{candidate:.{places}f}", Fraction(value))[0] == expected


@pytest.mark.parametrize(
    ("printed", "measured", "tolerance", "verdict"),
    [
        ("32,561", 32561, None, "holds"),
        ("32,561", 32562, None, "does not hold"),
        ("26%", 0.2644, None, "holds"),
        ("26%", 0.2656, None, "does not hold"),
        ("0.8603", 0.8551, 0.01, "holds"),
        ("0.8603", 0.6750, 0.01, "does not hold"),
    ],
)
def test_count(printed: str, measured: float, tolerance: float | None, verdict: str) -> None:
    assert ledger.count_verdict(printed, measured, tolerance) == verdict


def test_draw_identity_and_existence() -> None:
    assert [ledger.draw_verdict("269", low, 300) for low in (269, 270)] == ["reproduced", "not reproduced"]
    assert [ledger.identity_verdict(e, 1e-9) for e in (0.0, -1e-9, 1e-8)] == ["holds", "holds", "does not hold"]
    assert [ledger.exists_verdict(e, 0.01) for e in (0.5, -0.5, 0.01)] == ["holds", "holds", "does not hold"]


def test_welch_by_hand_and_against_scipy() -> None:
    # equal spreads .04 and ten runs each: 18 degrees of freedom, t = 2.10092 from a printed table
    assert ledger.welch(Estimate(0.5, 0.04, 10), 0.04, 10) == pytest.approx(2.10092 * 0.04 * np.sqrt(2 / 10), rel=1e-5)
    # one side without spread leaves the other's nine: t = 2.26216
    assert ledger.welch(Estimate(0.5, 0.0, 10), 0.04, 10) == pytest.approx(2.26216 * 0.04 / np.sqrt(10), rel=1e-5)
    assert ledger.welch(exact(0.5), 0.0, 10) == 0
    assert np.isnan(ledger.welch(Estimate(0.5, float("nan"), 1), 0.04, 10))
    a, b = np.random.default_rng(0).normal(0, [[1], [3]], (2, 8))
    theirs = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert ledger.welch(estimate(a), float(b.std(ddof=1)), len(b)) == pytest.approx((theirs.high - theirs.low) / 2)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    # 2.10092 * .04 * sqrt(2 / 10) = .03758, and half a unit of the last digit
    [(0.642, "reproduced"), (0.643, "exceeds"), (0.558, "reproduced"), (0.557, "not reproduced")],
)
def test_value_with_a_printed_standard_deviation(mean: float, verdict: str) -> None:
    assert ledger.value_verdict("0.60", Estimate(mean, 0.04, 10), sense="larger", printed_seeds=10, printed_sd="0.04") == verdict


def test_the_floor_holds_where_nothing_spreads() -> None:
    for mean, verdict in ((0.815, "reproduced"), (0.814, "not reproduced")):
        ours = exact(mean, 10)
        assert ledger.value_verdict("0.83", ours, sense="larger", printed_seeds=10, printed_sd="0.00") == verdict


@pytest.mark.parametrize(
    ("printed", "sd", "verdict"),
    # F(9, 9) has its 97.5% quantile at 4.02599, so sds may differ by a factor of 2.00649, and the print by .005
    [
        ("0.04", 0.0902, "reproduced"),  # .045 * 2.00649 = .09029
        ("0.04", 0.0904, "not reproduced"),
        ("0.04", 0.0175, "reproduced"),  # .035 / 2.00649 = .01744
        ("0.04", 0.0174, "not reproduced"),
        ("0.00", 0.0, "reproduced"),
        ("0.00", 0.0101, "not reproduced"),  # .005 * 2.00649 = .01003
        ("0.01", 0.0, "not reproduced"),
    ],
)
def test_standard_deviations(printed: str, sd: float, verdict: str) -> None:
    assert ledger.sd_verdict(printed, Estimate(0.5, sd, 10), printed_seeds=10) == verdict


def test_one_seed_has_no_standard_deviation() -> None:
    ours = estimate([0.5])
    assert ledger.sd_verdict("0.04", ours, printed_seeds=10) == "not testable"
    assert np.isnan(ours.sd_low) and np.isnan(ours.sd_high)


def test_interval_of_a_standard_deviation() -> None:
    # chi-square with 9 degrees of freedom: 2.70039 and 19.02277 from a printed table
    ours = Estimate(0.5, 0.1, 10)
    assert (ours.sd_low, ours.sd_high) == pytest.approx((0.1 * np.sqrt(9 / 19.02277), 0.1 * np.sqrt(9 / 2.70039)), rel=1e-5)


@pytest.mark.parametrize(
    ("printed", "won", "of", "verdict"),
    [
        ("78%", 7, 9, "reproduced"),  # 77.8, by rounding
        ("88%", 8, 9, "reproduced"),  # 88.9, by truncation
        ("78%", 8, 9, "exceeds"),
        ("78%", 5, 9, "direction only"),
        ("78%", 4, 9, "not reproduced"),
        ("100%", 8, 9, "direction only"),
        ("40%", 3, 9, "not reproduced"),
    ],
)
def test_share(printed: str, won: int, of: int, verdict: str) -> None:
    assert ledger.share_verdict(printed, Fraction(won, of)) == verdict
