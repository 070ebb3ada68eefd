"""The rule `level` against scipy's t-tests, by hand, and in simulation: how often it errs, and what its forecasts are worth."""

from math import isnan, nan, sqrt

import numpy as np
import pytest
from little import by_scipy, card, cell, exact, forecasts, judge, judged, table
from scipy import stats

from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.numbers import FEWEST, Estimate, Spread, estimate
from fairfl_book.ledger.rules.base import equivalence, same
from fairfl_lite.errors import FairFLError

M = 0.01


@pytest.mark.parametrize("given", [True, False], ids=["a printed sd", "no printed sd"])
def test_two_one_sided_tests_by_scipy(given: bool) -> None:
    rng = np.random.default_rng(1)
    seen = dict.fromkeys(("agrees", "differs", "cannot tell"), 0)
    for _ in range(150):
        n, k, decimals = int(rng.integers(2, 31)), int(rng.choice([2, 5, 10, 20])), int(rng.integers(2, 5))
        s, printed = 10 ** rng.uniform(-3.5, -1.7), f"{rng.uniform(0.2, 0.9):.{decimals}f}"
        sd = f"{s * rng.uniform(0.2, 3):.4f}" if given else None
        p, h = float(printed), 0.5 * 10.0**-decimals
        m = p + rng.uniform(-0.025, 0.025)
        found = cell(printed, exact(m, s, n), sd, printed_seeds=k)
        assert found.verdict == by_scipy(m, s, n, p, None if sd is None else float(sd), k, h, M)
        assert (found.measured, found.seeds, found.margin) == (pytest.approx(m), n, M)
        theirs = stats.t.interval(0.95, n - 1, m, s / sqrt(n))
        assert (found.low, found.high) == pytest.approx(theirs)
        seen[found.verdict] += 1
    assert min(seen.values()) > 15


def test_welch_s_degrees_of_freedom() -> None:
    assert Spread(0.04, 10, 10, 0.04).freedom == pytest.approx(18)  # the same spread on both sides
    assert Spread(0.0, 10, 8, 0.04).freedom == pytest.approx(7)  # only theirs
    assert Spread(0.04, 10, 8, 0.0).freedom == pytest.approx(9)  # only ours
    assert Spread(0.04, 10, 8, 0.04, borrowed=True).freedom == 9  # theirs is taken from ours
    assert Spread(0.04, 10, 8, 0.9, borrowed=True).freedom == 9 and Spread(0.0, 10, 8, 0.9, borrowed=True).freedom == 9
    borrowed = Spread(0.03, 4, 16, 0.08, borrowed=True)  # SE = sqrt(.015^2 + .02^2) = .025; t(3) = 2.35336 from a printed table
    assert (borrowed.error, borrowed.reach()) == pytest.approx((0.025, 2.35336 * 0.025), rel=1e-5)
    assert borrowed.of(9) == Spread(0.03, 9, 16, 0.08, borrowed=True)
    rng = np.random.default_rng(2)
    for n, k in ((3, 20), (20, 3), (7, 12)):
        a, b = rng.normal(0, 1, n), rng.normal(0, 3, k)
        theirs = stats.ttest_ind(a, b, equal_var=False)
        spread = Spread(float(a.std(ddof=1)), n, k, float(b.std(ddof=1)))
        assert spread.freedom == pytest.approx(theirs.df)
        interval = theirs.confidence_interval(0.9)  # its ends are those of two one-sided tests at 5%
        assert spread.reach() == pytest.approx((interval.high - interval.low) / 2)


@pytest.mark.parametrize(
    ("mean", "verdict", "detail"),
    [
        (0.835, "agrees", ""),  # .005 and half a unit are the margin of .01
        (0.825, "agrees", ""),
        (0.8351, "cannot tell", "surely higher, by more than the margin or not; not decidable {}"),  # more than half a unit
        (0.8249, "cannot tell", "surely lower, by more than the margin or not; not decidable {}"),
        # .015 less half a unit is the margin
        (0.845, "cannot tell", "surely higher, by more than the margin or not; not decidable {}"),
        (0.8451, "differs", "ours is 0.0151 higher"),
        (0.8149, "differs", "ours is 0.0151 lower"),
    ],
)
def test_the_rounding_of_the_print_at_the_boundary(mean: float, verdict: str, detail: str) -> None:
    for sd, why in ((None, "if their runs vary as ours"), ("0.00", "from what is printed")):
        found = cell("0.83", [mean] * 5, sd)
        assert (found.verdict, found.detail) == (verdict, detail.format(why))
        assert (found.power, found.against) == (1.0, 1.0)  # half a unit is half the margin, and nothing varies


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("sd", [None, "0.00", "0.02"])
def test_a_few_runs_that_are_all_equal_have_no_interval(n: int, sd: str | None) -> None:
    found = cell("0.830", [0.83] * n, sd, margins={"up": {"margin": 0.05, "reason": "for a test"}})
    assert (found.verdict, found.detail) == ("cannot tell", f"about {FEWEST} runs would decide")
    assert all(isnan(x) for x in (found.low, found.high, found.power, found.against))
    enough = cell("0.830", [0.83] * FEWEST, sd, margins={"up": {"margin": 0.05, "reason": "for a test"}})
    assert enough.verdict == "agrees" and enough.low == enough.high == pytest.approx(0.83)
    assert isnan(Spread(0.0, n, 10, 0.01).reach()) and isnan(Spread(0.0, n, 10, 0.01).power(1.0))
    assert isnan(Estimate(0.5, 0.0, n).low) and Estimate(0.5, 0.0, FEWEST).low == 0.5
    assert Spread(1e-9, n, 10, 0.0).reach() > 0  # nearly equal is another matter


def test_five_are_the_fewest() -> None:
    assert FEWEST == 5


def test_runs_that_are_equal_but_for_rounding_errors_are_equal() -> None:
    rounded = [0.3 - 0.2, 0.4 - 0.3, 0.9 - 0.8]
    assert np.std(rounded) > 0 and estimate(rounded).sd == 0
    assert estimate([1e6 + 0.1 - 0.1, 1e6, 1e6]).sd == 0 and estimate([0.1 + 0.2, 0.3]).sd == 0
    assert estimate([0.5, 0.5 + 1e-9]).sd == pytest.approx(1e-9 / sqrt(2), rel=1e-6)
    assert isnan(estimate([0.5]).sd)


@pytest.mark.parametrize(
    ("difference", "ours", "sign"), [(0.004, 0.015, ""), (0.012, 0.008, "surely higher"), (-0.012, 0.008, "surely lower")]
)
@pytest.mark.parametrize("given", [True, False], ids=["a printed sd", "no printed sd"])
def test_what_cannot_be_told_says_the_sign_where_it_is_sure(difference: float, ours: float, sign: str, given: bool) -> None:
    # a hundred runs of ours beside ten printed ones that spread alike: t SE is about .6 of the spread, .009 or .0047; so .004
    # may be nothing and .012 is sure, and neither is within .01 or beyond it however many runs we add
    found = cell("0.5000", exact(0.5 + difference, ours, 100), f"{ours:.4f}" if given else None)
    why = "from what is printed" if given else "if their runs vary as ours"
    assert found.verdict == "cannot tell"
    assert found.detail == (f"{sign}, by more than the margin or not; " if sign else "") + f"not decidable {why}"


def test_one_run_decides_nothing() -> None:
    for sd in (None, "0.02"):
        found = cell("0.83", [0.83], sd)
        assert (found.verdict, found.detail, found.seeds) == ("cannot tell", "one run has no interval", 1)
        assert isnan(found.low) and isnan(found.high) and isnan(found.power)


def test_what_is_not_legible_is_measured_and_not_judged() -> None:
    read = card(tables={"t": table({"base": "0.70", "ours": "?±?"})})
    series = ({"metric": "up", "method": "ours"}, [0.8, 0.9]), ({"metric": "up", "method": "base"}, [0.7, 0.7])
    cells = [judge(read, f"t.ours{end}", *series) for end in ("", ".sd")]
    assert [c.verdict for c in cells] == ["not testable"] * 2 and {c.note for c in cells} == {"not legible"}
    assert [c.measured for c in cells] == pytest.approx([0.85, 0.1 / sqrt(2)])
    assert "little.t.ours.effect" not in read.entries


def verdicts(true: float, sd: float, n: int, k: int, given: bool, draws: int = 3000) -> dict[str, float]:
    """How often it agrees, and differs upwards and downwards, when the true means are so far apart and both sides are normal."""
    rng = np.random.default_rng(3)
    count = dict.fromkeys(("agrees", "higher", "lower", "cannot tell"), 0)
    for ours, theirs in zip(rng.normal(true, sd, (draws, n)), rng.normal(0, sd, (draws, k)), strict=True):
        mine = estimate(ours)
        spread = Spread(mine.sd, n, k, float(theirs.std(ddof=1)) if given else mine.sd, borrowed=not given)
        found = equivalence(mine, float(theirs.mean()), 0.0, M, spread)
        count[found.detail.split()[-1] if found.verdict == "differs" else found.verdict] += 1
    return {verdict: times / draws for verdict, times in count.items()}


SIZES = [(n, k, given) for n, k in ((10, 10), (20, 10), (5, 20), (30, 1)) for given in (True, False) if k > 1 or not given]


@pytest.mark.parametrize(("n", "k", "given"), SIZES)
def test_at_the_margin_it_errs_at_most_one_time_in_twenty(n: int, k: int, given: bool) -> None:
    often = verdicts(M, 0.001, n, k, given)
    assert 0.035 < often["agrees"] < 0.062  # 5%, within three standard deviations of 3,000 draws and a little more
    assert 0.015 < often["higher"] < 0.062 and often["lower"] == 0


@pytest.mark.parametrize("sd", [0.002, 0.02, 0.2])
@pytest.mark.parametrize("given", [True, False], ids=["a printed sd", "no printed sd"])
def test_where_the_means_are_the_same_it_hardly_ever_differs(sd: float, given: bool) -> None:
    often = verdicts(0.0, sd, 10, 10, given)
    assert max(often["higher"], often["lower"]) < 0.062
    if sd == 0.002:
        assert often["agrees"] > 0.99
    if sd == 0.2:
        assert often["agrees"] == 0  # noise alone earns nothing


def test_the_forecast_decides_and_fewer_runs_do_not() -> None:
    def said(runs: int, m: float, s: float, ratio: float, k: int) -> Claim:
        return cell("0.500", exact(m, s, runs), f"{s * ratio:.4f}" if ratio < 0.5 else None, printed_seeds=k)

    rng = np.random.default_rng(4)
    cases = [(int(rng.integers(2, 25)), 0.5 + rng.uniform(-0.03, 0.03), 10 ** rng.uniform(-2.7, -1.3), rng.uniform(0.1, 0.7),
              int(rng.choice([10, 20]))) for _ in range(140)]  # fmt: skip
    assert forecasts(said, cases, 20_000) > 15


@pytest.mark.parametrize(
    ("printed", "sd", "mean", "ours", "detail"),
    [
        ("0.50", "0.20", 0.50, 0.02, "not decidable from what is printed"),  # the printed spread alone is too large
        ("0.50", None, 0.50, 0.05, "not decidable if their runs vary as ours"),  # ours stands for it
        ("0.5", "0.00", 0.50, 0.001, "not decidable from what is printed"),  # one digit: half a unit is five margins
        # exactly at the margin
        ("0.500", "0.0000", 0.51, 0.001, "surely higher, by more than the margin or not; not decidable from what is printed"),
    ],
)
def test_what_is_not_decidable_stays_so_with_a_hundred_thousand_runs(
    printed: str, sd: str | None, mean: float, ours: float, detail: str
) -> None:
    few = cell(printed, exact(mean, ours, 10), sd)
    assert (few.verdict, few.detail) == ("cannot tell", detail)
    assert cell(printed, exact(mean, ours, 100_000), sd).verdict == "cannot tell"


@pytest.mark.parametrize(("n", "k", "ratio"), [(10, 10, 1.0), (20, 10, 2.0), (10, 20, 0.5), (20, 20, 1.0)])
@pytest.mark.parametrize("size", [0.5, 1.5, 3.0])
def test_power_is_that_of_the_test_in_simulation(n: int, k: int, ratio: float, size: float) -> None:
    rng = np.random.default_rng(5)
    difference = size * sqrt(1 / n + ratio**2 / k)
    a, b = rng.normal(difference, 1, (20_000, n)), rng.normal(0, ratio, (20_000, k))
    seen = (stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert Spread(1.0, n, k, ratio).power(difference) == pytest.approx(seen, abs=0.04)


def test_power_at_its_ends() -> None:
    assert Spread(1.0, 10, 10, 1.0).power(0.0) == pytest.approx(0.05)
    assert Spread(1.0, 10, 10, 1.0).power(100.0) == pytest.approx(1)
    assert Spread(0.0, 10, 10, 0.0).power(0.01) == 1
    assert isnan(Spread(nan, 1, 10, 0.0).power(0.01))


def simulated(sd: float, theirs: float, n: int, k: int, half: float, true: float, borrowed: bool, draws: int = 3000) -> list[str]:
    """What is said of normal runs on both sides, where the true means are so far apart."""
    rng = np.random.default_rng(6)
    said = []
    for ours, printed in zip(rng.normal(true, sd, (draws, n)), rng.normal(0, theirs, (draws, k)), strict=True):
        mine = estimate(ours)
        q = mine.sd * theirs / sd if borrowed else float(printed.std(ddof=1))
        reach = Spread(mine.sd, n, k, q, borrowed).reach()
        said.append(same(mine.mean - float(printed.mean()), half, M, reach))
    return said


@pytest.mark.parametrize("borrowed", [True, False], ids=["borrowed", "printed"])
@pytest.mark.parametrize(
    ("n", "k", "sd", "theirs", "half"),
    [(10, 10, 0.006, 0.006, 0.0), (20, 10, 0.01, 0.005, 0.0005), (40, 20, 0.01, 0.012, 0.0), (10, 20, 0.008, 0.004, 0.002),
     (200, 20, 0.02, 0.015, 0.0005), (10, 10, 0.002, 0.002, 0.0005), (10, 10, 0.05, 0.05, 0.0)],
)  # fmt: skip
def test_how_often_the_rule_would_speak_is_that_of_simulation(
    n: int, k: int, sd: float, theirs: float, half: float, borrowed: bool
) -> None:
    spread = Spread(sd, n, k, theirs, borrowed)
    agrees = simulated(sd, theirs, n, k, half, 0.0, borrowed).count("agrees") / 3000
    assert spread.says_agrees(half, M) == pytest.approx(agrees, abs=0.07)
    for way in (1, -1):
        differs = simulated(sd, theirs, n, k, half, way * 2 * M, borrowed).count("differs") / 3000
        assert spread.says_differs(half, M) == pytest.approx(differs, abs=0.07)


def test_the_power_of_the_rule_by_hand() -> None:
    # SE = .01 sqrt(1/8 + 1/8) = .005 with 7 degrees of freedom: t = 1.894579 at 95%, so that .02 - .0005 - .0094729 are left,
    # 2.00542 SE; T(7) is .957544 there by scipy
    spread = Spread(0.01, 8, 8, 0.01, borrowed=True)
    left = (0.02 - 0.0005 - 1.894579 * 0.005) / 0.005
    assert left == pytest.approx(2.00542, abs=1e-5)
    assert spread.says_agrees(0.0005, 0.02) == pytest.approx(2 * stats.t.cdf(left, 7) - 1, abs=1e-6)
    assert spread.says_differs(0.0005, 0.02) == pytest.approx(stats.t.cdf(left, 7), abs=1e-6)
    assert Spread(0.01, 8, 8, 0.01).says_differs(0.0005, 0.02) > spread.says_differs(0.0005, 0.02)  # 14 degrees of freedom
    # where the margin is smaller than the reach it never agrees, and seldom differs
    assert spread.says_agrees(0.0, 0.005) == 0 and 0 < spread.says_differs(0.0, 0.005) < 0.25
    # without any spread the rounding alone decides
    still = Spread(0.0, 10, 10, 0.0)
    assert (still.says_agrees(0.005, 0.01), still.says_differs(0.005, 0.01)) == (1, 1)
    assert (still.says_agrees(0.02, 0.01), still.says_differs(0.02, 0.01)) == (0, 0)
    assert (still.says_agrees(0.01, 0.01), still.says_differs(0.01, 0.01)) == (1, 0)  # the margin itself is inside, not outside
    for none in (Spread(nan, 1, 10, 0.0), Spread(0.0, FEWEST - 1, 10, 0.01)):
        assert isnan(none.says_agrees(0.0, 0.01)) and isnan(none.says_differs(0.0, 0.01))


def test_a_claim_has_the_power_of_its_rule() -> None:
    found = cell("0.500", exact(0.53, 0.02, 40), "0.010", printed_seeds=20)  # whatever our mean
    spread = Spread(0.02, 40, 20, 0.01)
    assert (found.power, found.against) == pytest.approx((spread.says_agrees(0.0005, M), spread.says_differs(0.0005, M)))
    assert 0.2 < found.power < found.against < 1
    alone = cell("0.500", exact(0.49, 0.01, 40), printed_seeds=20)
    spread = Spread(0.01, 40, 20, 0.01, borrowed=True)
    assert (alone.power, alone.against) == pytest.approx((spread.says_agrees(0.0005, M), spread.says_differs(0.0005, M)))


@pytest.mark.parametrize(
    ("baseline", "ours", "verdict", "stand_in"),
    [
        ("0.800", "0.803", "agrees", True),  # both within a point of .801
        ("0.700", "0.803", "agrees", False),
        ("0.803", "0.700", "differs", True),  # ours is the baseline's number, not the printed one
        ("?", "0.803", "agrees", None),
    ],
)
def test_whether_the_baseline_s_number_would_have_passed(baseline: str, ours: str, verdict: str, stand_in: bool | None) -> None:
    read = card(tables={"t": table({"base": f"{baseline}±0.002", "ours": f"{ours}±0.002"})})
    series = [({"metric": "up", "method": method}, exact(0.801, 0.002, 10)) for method in ("ours", "base")]
    found = judge(read, "t.ours", *series)
    assert (found.verdict, found.stand_in) == (verdict, stand_in)
    assert judge(read, "t.base", *series).stand_in is None  # the baseline stands in for nothing


def test_an_entry_has_its_own_margin_before_that_of_its_metric() -> None:
    claim = {"kind": "level", "printed": "0.500", "metric": "up"}
    series = ({"metric": "up"}, exact(0.53, 0.001, 10))
    assert judged(claim, series).verdict == "differs"
    wide = judged({**claim, "margin": 0.05, "margin_reason": "for a test"}, series)
    assert (wide.verdict, wide.margin) == ("agrees", 0.05)
    for reason in ({}, {"margin_reason": ""}):
        with pytest.raises(FairFLError, match="little.it has a margin of its own and no margin_reason: say in a few words why"):
            judged({**claim, "margin": 0.05, **reason}, series)


def test_an_estimate_of_three_runs_by_hand() -> None:
    # mean .82, sd .02; t(2) = 4.30265 at 97.5% from a printed table, 4.30265 * .02 / sqrt(3) = .04968
    ours = estimate([0.80, 0.82, 0.84])
    assert (ours.mean, ours.sd, ours.seeds) == pytest.approx((0.82, 0.02, 3))
    assert (ours.low, ours.high) == pytest.approx((0.77032, 0.86968), abs=1e-5)
    assert isnan(Estimate(0.5, nan, 1).low) and isnan(estimate([0.5]).sd)
