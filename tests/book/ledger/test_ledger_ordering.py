"""The rules `ordering`, `trend`, `no gain`, `similar` and `at most`: against scipy's paired t-test and by hand."""

import re
from collections.abc import Mapping
from math import isnan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from little import RUNS, exact, forecasts, judged, pair, runs
from scipy import stats

from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.numbers import slopes

M = 0.01


def gains_of(rng: np.random.Generator) -> tuple[float, float, int]:
    return rng.uniform(-0.03, 0.03), 10 ** rng.uniform(-3.5, -1.5), int(rng.integers(2, 25))


def test_an_ordering_by_the_paired_t_test() -> None:
    rng = np.random.default_rng(31)
    seen, sure = dict.fromkeys(("confirmed", "reversed", "no effect", "cannot tell"), 0), 0
    for _ in range(150):
        mean, sd, n = gains_of(rng)
        found = pair("ordering", exact(mean * rng.choice([0.02, 1]), sd, n), metric=str(rng.choice(["up", "down"])))
        mean = found.measured
        low, high = stats.t.interval(0.95, n - 1, mean, sd / sqrt(n))
        more, less = (f(mean / (sd / sqrt(n)), n - 1) < 0.025 for f in (stats.t.sf, stats.t.cdf))
        if low >= -M and high <= M:  # whatever its sign
            wanted = "no effect"
            sure += bool(more or less)
            assert found.detail.startswith("surely a gain" if more else "surely a loss" if less else "any gain is below")
        else:
            wanted = "confirmed" if more else "reversed" if less else "cannot tell"
        assert (found.verdict, found.low, found.high) == (wanted, pytest.approx(low), pytest.approx(high))
        seen[found.verdict] += 1
    assert min(seen.values()) > 10 and sure > 5


@pytest.mark.parametrize(
    ("gains", "verdict", "detail"),
    [
        # three runs .01 apart: t(2) = 4.30265, so the interval is .0248 to either side
        ([0.02, 0.03, 0.04], "confirmed", ""),
        ([0.01, 0.02, 0.03], "cannot tell", "about 4 runs would decide"),  # t(3) = 3.18245: .0159
        ([-0.04, -0.03, -0.02], "reversed", "a loss of 0.03"),
        ([0.0] * 5, "no effect", "the same in every run"),
        ([0.0] * 4, "cannot tell", "about 5 runs would decide"),  # too few to say so
        ([0.05] * 4, "cannot tell", "about 5 runs would decide"),
        ([0.05] * 5, "confirmed", ""),
        ([-0.05] * 5, "reversed", "a loss of 0.05"),
        ([-0.001, 0.0, 0.001], "no effect", "any gain is below 0.01"),
        ([0.0001] * 5, "no effect", "surely a gain, of 0.0001, and below the margin"),
        ([0.003, 0.004, 0.005], "no effect", "surely a gain, of 0.004, and below the margin"),  # .0025 to either side
        ([-0.005, -0.004, -0.003], "no effect", "surely a loss, of 0.004, and below the margin"),
        ([0.007, 0.008, 0.009], "confirmed", ""),  # .0105 is more than the margin
        ([0.01] * 5, "no effect", "surely a gain, of 0.01, and below the margin"),  # the margin itself
        ([0.05], "cannot tell", "one run has no interval"),
        ([-0.05], "cannot tell", "one run has no interval"),
        ([0.0], "cannot tell", "one run has no interval"),
    ],
)
def test_orderings_by_hand(gains: list[float], verdict: str, detail: str) -> None:
    # the runs of `pair` add up with rounding errors; these come as they are
    sides = ({"metric": "up", "method": "a"}, gains), ({"metric": "up", "method": "b"}, [0.0] * len(gains))
    claim = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": "b"}}
    found = judged(claim, *sides)
    assert (found.verdict, found.detail, found.margin) == (verdict, detail, M)
    if len(gains) == 1:
        assert isnan(found.low) and found.measured == gains[0]


def test_the_other_reading_of_a_signed_metric_is_in_the_note() -> None:
    claim = {"kind": "ordering", "metric": "near", "better": {"method": "a"}, "worse": {"method": "b"}}
    found = judged(
        claim, ({"metric": "near", "method": "a"}, [0.30, 0.311, 0.319]), ({"metric": "near", "method": "b"}, [0.1, 0.11, 0.12])
    )
    assert (found.verdict, found.measured) == ("reversed", pytest.approx(-0.2))  # further from zero
    assert found.note == "read as larger is better: 0.200, confirmed"


@pytest.mark.parametrize("rule", ["ordering", "no gain", "similar"])
def test_a_forecast_decides_and_fewer_runs_do_not(rule: str) -> None:
    def said(runs: int, mean: float, sd: float) -> Claim:
        return pair(rule, exact(mean, sd, runs))

    rng = np.random.default_rng(33)
    cases = [(n, mean, sd) for mean, sd, n in (gains_of(rng) for _ in range(80))]
    assert forecasts(said, cases) > 10


@pytest.mark.parametrize(("rule", "mean"), [("no gain", M), ("similar", -M), ("similar", M)])
def test_at_the_margin_itself_no_number_of_runs_decides(rule: str, mean: float) -> None:
    found = pair(rule, exact(mean, 0.05, 10))
    assert (found.verdict, found.detail) == ("cannot tell", "100,000 runs would not decide")


@pytest.mark.parametrize("rule", ["ordering", "no gain", "similar"])
@pytest.mark.parametrize("gain", [0.0, 0.05])
def test_a_few_equal_gains_decide_nothing(rule: str, gain: float) -> None:
    few, enough = pair(rule, [gain] * 4), pair(rule, [gain] * 5)  # equal but for the rounding errors of `pair`
    assert (few.verdict, few.detail) == ("cannot tell", "about 5 runs would decide") and isnan(few.power)
    assert enough.verdict != "cannot tell" and enough.power == 1
    assert pair(rule, [gain]).detail == "one run has no interval"


def test_a_trend_whose_sign_is_sure_may_be_none() -> None:
    levels = {k: list(0.5 + 0.001 * k + k * exact(0.0, 1e-4, 6)) for k in range(3)}  # .001 a level, .002 in all
    found = trend(levels)
    assert (found.verdict, found.detail) == ("no effect", "surely a gain, of 0.001, and below the margin")
    assert trend(levels, "worse").detail == "surely a loss, of 0.001, and below the margin"


def test_no_gain_by_scipy() -> None:
    rng = np.random.default_rng(35)
    for _ in range(120):
        mean, sd, n = gains_of(rng)
        error = sd / sqrt(n)
        wanted = "confirmed" if stats.t.cdf((mean - M) / error, n - 1) < 0.05 else "cannot tell"
        wanted = "reversed" if stats.t.sf((mean - M) / error, n - 1) < 0.05 else wanted
        found = pair("no gain", exact(mean, sd, n))
        assert (found.verdict, found.measured) == (wanted, pytest.approx(mean))
        assert wanted != "reversed" or found.detail == f"a gain of {mean:.3g}"


def test_similar_by_scipy() -> None:
    rng = np.random.default_rng(36)
    seen = set()
    for _ in range(150):
        mean, sd, n = gains_of(rng)
        error = sd / sqrt(n)
        below, above = stats.t.cdf((mean - M) / error, n - 1), stats.t.sf((mean + M) / error, n - 1)
        outside = min(stats.t.sf((mean - M) / error, n - 1), stats.t.cdf((mean + M) / error, n - 1))
        wanted = "agrees" if max(below, above) <= 0.05 else "differs" if outside < 0.05 else "cannot tell"
        found = pair("similar", exact(mean, sd, n))
        assert found.verdict == wanted
        seen.add(wanted)
    assert len(seen) == 3
    equal = judged({"kind": "ordering", "rule": "similar", "metric": "up", "better": {"method": "a"}, "worse": {"method": "b"}},
                   *(({"metric": "up", "method": m}, [0.3, 0.5, 0.4, 0.3, 0.5]) for m in "ab"))  # fmt: skip
    assert (equal.verdict, equal.power) == ("agrees", 1.0)
    apart = pair("similar", exact(-0.03, 0.001, 5))
    assert (apart.verdict, apart.detail) == ("differs", "0.03 apart")


@pytest.mark.parametrize(
    ("values", "verdict", "detail"),
    [
        ([0.024] * 5, "confirmed", ""),
        ([0.025] * 5, "confirmed", ""),  # the bound itself
        ([0.024] * 4, "cannot tell", "about 5 runs would decide"),
        ([0.030, 0.031], "cannot tell", "about 3 runs would decide"),  # 12.7 * .0007 / sqrt(2) = .0064 > .0055
        ([0.0351, 0.0361], "reversed", "ours is 0.0106 above the bound"),
        ([0.020, 0.024], "cannot tell", "about 6 runs would decide"),  # t(5) = 2.571: 2.571 * .0028 / sqrt(6) = .00297
        ([0.020], "cannot tell", "one run has no interval"),
    ],
)
def test_at_most(values: list[float], verdict: str, detail: str) -> None:
    found = judged({"kind": "ordering", "rule": "at most", "printed": "2.5%", "metric": "up"}, ({"metric": "up"}, values))
    assert (found.verdict, found.detail) == (verdict, detail)


def test_a_bound_on_a_fall() -> None:
    claim = {
        "kind": "ordering",
        "rule": "at most",
        "printed": "2.5%",
        "metric": "up",
        "from": {"method": "a"},
        "to": {"method": "b"},
    }
    for end, verdict in ((0.49, "confirmed"), (0.48, "reversed")):
        sides = [({"metric": "up", "method": m}, [v] * 5) for m, v in (("a", 0.5), ("b", end))]
        found = judged(claim, *sides)
        assert (found.verdict, found.measured) == (verdict, pytest.approx(1 - end / 0.5))


def trend(levels: Mapping[Any, list[float]], toward: str = "better", **spec: object) -> Claim:
    series = [({"metric": "up", "level": level}, values) for level, values in levels.items()]
    return judged({"kind": "trend", "metric": "up", "levels": "level", "toward": toward, **spec}, *series)


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=5))
def test_slopes_are_least_squares(rows: list[list[float]]) -> None:
    expected = [np.polyfit(np.arange(4), row, 1)[0] for row in rows]
    assert slopes(np.asarray(rows)) == pytest.approx(expected, abs=1e-9)


def test_a_trend_is_a_slope_against_the_rank_of_the_level() -> None:
    # by rank 0, .3, .1 a run: (.1 - 0) / 2; by the level itself it would be much less
    levels = {0.1: [0.0, 0.01, 0.02], 1: [0.3, 0.31, 0.32], 1000: [0.1, 0.111, 0.119]}
    up = trend(levels)
    assert (up.measured, up.verdict, up.margin) == (pytest.approx(0.05), "confirmed", M / 2)
    down = trend(levels, "worse")
    assert (down.measured, down.verdict, down.detail) == (pytest.approx(-0.05), "reversed", "a loss of 0.05")
    shuffled = trend(dict(reversed(levels.items())))  # levels ascend, whatever order the rows have
    assert shuffled.measured == pytest.approx(0.05)
    named = trend({"low": [0.0, 0.1], "high": [0.4, 0.5], "mid": [0.2, 0.3]}, order=["low", "mid", "high"])
    assert named.measured == pytest.approx(0.2)


def test_no_trend_is_less_than_the_margin_from_first_to_last() -> None:
    flat = {k: list(0.5 + exact(0.0, 1e-4, 6) * (k + 1)) for k in range(5)}
    found = trend(flat)
    assert (found.verdict, found.margin) == ("no effect", M / 4)
    # a slope of .0024 to either side would be .0096 over four steps, one of .0026 more than the margin
    for sd, verdict in ((0.0024, "no effect"), (0.0026, "cannot tell")):
        reach = stats.t.ppf(0.975, 5) / sqrt(6)
        rows = {k: list(0.5 + k * exact(0.0, sd / reach, 6)) for k in range(5)}
        assert trend(rows).verdict == verdict


def test_a_trend_of_gains_and_levels_that_are_missing() -> None:
    spec = {"better": {"method": "a"}, "worse": {"method": "b"}}
    gains = {1: [0.1, 0.1], 2: [0.3, 0.3], 3: [0.2, 0.2]}
    series = [({"metric": "up", "level": lv, "method": m}, [0.5 * k + g * (m == "a") for k, g in enumerate(values)])
              for lv, values in gains.items() for m in "ab"]  # fmt: skip
    claim = {"kind": "trend", "metric": "up", "levels": "level", "toward": "better", **spec}
    assert judged(claim, *series).measured == pytest.approx(0.05)
    assert judged(claim, *series[:-1]).measured == pytest.approx(0.2)  # level 3 lacks b
    alone = judged(claim, *series[:2])
    assert alone.verdict == "not yet measured" and "fewer than two levels of level" in alone.note
    named = trend({"low": [0.0, 0.1], "high": [0.4, 0.5]}, order=["low", "mid", "high"])
    assert named.verdict == "not yet measured" and "has no level mid" in named.note


def test_the_best_of_several_is_the_one_with_the_best_mean() -> None:
    claim = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": ["b", "c"]}}
    values = {"a": [0.5, 0.6, 0.7], "b": [0.401, 0.5, 0.599], "c": [0.9, 0.2, 0.2]}
    found = judged(claim, *(({"metric": "up", "method": m}, v) for m, v in values.items()))
    assert (found.measured, found.verdict, found.note) == (pytest.approx(0.1), "confirmed", "the best of the others is b")
    down = {**claim, "metric": "down"}  # then the smallest mean is the best
    found = judged(down, *(({"metric": "down", "method": m}, v) for m, v in values.items()))
    assert (found.measured, found.note) == (pytest.approx(-1 / 6), "the best of the others is c")
    absent = judged(claim, frames={RUNS: runs(*(({"metric": "up", "method": m}, values[m]) for m in "ab"))})
    assert absent.verdict == "not yet measured" and "method c" in absent.note  # a missing rival is not passed over


def unrelated(n: int) -> np.ndarray:
    """Two series of n runs with mean 0, spread 1 and no correlation at all."""
    drawn = np.random.default_rng(5).normal(size=(n, 2))
    return np.linalg.qr(drawn - drawn.mean(0))[0].T * sqrt(n)


def test_how_much_the_choice_of_the_best_in_the_same_runs_favours_it() -> None:
    """The larger of two means of n runs of spread s is too large by s / sqrt(n pi) on average; a clear winner by nothing."""
    claim = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": ["b", "c"]}, "luck": True}
    noise = unrelated(400)

    def note(c: float) -> str:
        values = {"a": 0.05 + noise[0], "b": noise[0], "c": c + noise[1]}
        return judged(claim, *(({"metric": "up", "method": m}, list(v)) for m, v in values.items())).note

    said = re.search(r"favours it by about ([\d.e-]+), without which the verdict is ([a-z ]+)", note(0.0))
    assert said and float(said[1]) == pytest.approx(1 / np.sqrt(400 * np.pi), rel=0.1)  # 0.028
    assert "favours it by about 0," in note(9.0) and "favours it by about 0," in note(-9.0)
    plain = judged({**claim, "luck": False}, *(({"metric": "up", "method": m}, [0.1, 0.2]) for m in "abc"))
    assert "favours" not in plain.note


def test_the_luck_of_a_rival_can_turn_a_verdict() -> None:
    """A sure loss of 0.01 against the best of two, which is favoured by 0.028 for having been chosen, is a gain without that."""
    claim = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": ["b", "c"]},
             "luck": True, "margin": 0.001, "margin_reason": "small"}  # fmt: skip
    noise = unrelated(400)
    wobble = 1e-3 * np.linspace(-1, 1, 400)
    values = {"a": noise[0] - 0.01 + wobble, "b": noise[0], "c": noise[1] - 1e-9}
    found = judged(claim, *(({"metric": "up", "method": m}, list(v)) for m, v in values.items()))
    assert (found.verdict, found.measured) == ("reversed", pytest.approx(-0.01))
    assert found.note.endswith("without which the verdict is confirmed")


def test_a_rival_that_diverges_in_every_run_is_named_and_one_that_does_in_some_counts_in_the_others() -> None:
    claim = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": ["b", "c"]}}

    def found(c: list[float], b: tuple[float, ...] = (0.401, 0.5, 0.599)) -> Claim:
        values = {"a": [0.5, 0.6, 0.7], "b": list(b), "c": c}
        return judged(claim, *(({"metric": "up", "method": m}, v) for m, v in values.items()))

    lost = found([np.nan] * 3)
    assert (lost.measured, lost.seeds, lost.verdict) == (pytest.approx(0.1), 3, "confirmed")
    assert lost.note == "the best of the others is b; no model that is finite, in any run: c"
    some = found([0.9, np.nan, 0.2])
    assert (some.measured, some.seeds, some.note) == (pytest.approx(0.05), 2, "the best of the others is c")
    assert found([np.nan] * 3, (np.nan,) * 3).verdict == "not yet measured"  # nobody to be better than
