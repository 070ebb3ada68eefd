"""The rules `effect`, `gain` and `improvement`: against scipy's t-tests, and what no effect at all can never earn."""

from math import hypot, isnan, sqrt

import numpy as np
import pandas as pd
import pytest
from little import RUNS, by_scipy, card, exact, forecasts, judge, judged, runs, table

from fairfl_lite.ledger.claims import Claim
from fairfl_lite.ledger.numbers import estimate, fall


def effect(base: str, ours: str, gains: np.ndarray, **fields: object) -> Claim:
    """A printed cell less the printed baseline, by runs in which ours is higher by these gains."""
    read = card(tables={"t": table({"base": base, "ours": ours})}, **fields)
    start = np.linspace(0.3, 0.7, len(gains))  # far from run to run: only the pairs tell the gain
    keys = {"metric": "up"}
    return judge(read, "t.ours.effect", ({**keys, "method": "base"}, start), ({**keys, "method": "ours"}, start + gains))


@pytest.mark.parametrize("given", ["both", "one", "none"])
def test_two_one_sided_tests_by_scipy(given: str) -> None:
    rng = np.random.default_rng(11)
    seen = dict.fromkeys(("agrees", "differs", "cannot tell"), 0)
    for _ in range(120):
        n, k, decimals = int(rng.integers(3, 25)), int(rng.choice([5, 10, 20])), int(rng.integers(2, 4))
        first, second = (f"{x:.{decimals}f}" for x in (0.5, 0.5 + rng.choice([-1, 1]) * rng.uniform(0.03, 0.2)))
        s, d, h = 10 ** rng.uniform(-3, -1.3), float(second) - float(first), 10.0**-decimals
        qs = [f"{s * rng.uniform(0.2, 2):.4f}" for _ in range(2)]
        m = d * rng.uniform(-0.5, 2.2)
        base, ours = f"{first}±{qs[0]}" if given == "both" else first, second if given == "none" else f"{second}±{qs[1]}"
        found = effect(base, ours, exact(m, s, n), printed_seeds=k)
        q = hypot(*map(float, qs)) if given == "both" else None
        assert found.verdict == by_scipy(m, s, n, d, q, k, h, abs(d) / 2)
        assert (found.measured, found.margin, found.seeds) == (pytest.approx(m), pytest.approx(abs(d) / 2), n)
        assert found.printed == f"{d:+.{decimals}f}"
        seen[found.verdict] += 1
    assert min(seen.values()) > 10


def test_the_spreads_of_two_printed_cells_add_as_squares() -> None:
    # 3 and 4 hundredths are 5 together, of ten runs; ours spread by nothing: 9 degrees of freedom, t = 1.83311
    reach = 1.83311 * 0.05 / sqrt(10)
    for gain, verdict in ((0.2 - 0.1 + 0.01 + reach + 1e-5, "agrees"), (0.2 - 0.1 + 0.01 + reach - 1e-5, "cannot tell")):
        assert effect("0.50±0.03", "0.70±0.04", np.full(6, gain)).verdict == verdict


def test_no_effect_never_agrees_with_a_printed_one() -> None:
    rng = np.random.default_rng(12)
    for _ in range(150):
        decimals = int(rng.integers(1, 4))
        cells = sorted({f"{x:.{decimals}f}" for x in rng.uniform(0.2, 0.9, 2)})
        if len(cells) == 2:
            sd = f"±{10 ** rng.uniform(-4, -1):.4f}" if rng.random() < 0.5 else ""
            gains = exact(0.0, 10 ** rng.uniform(-5, -1), int(rng.integers(2, 40)))
            assert effect(cells[0] + sd, cells[1] + sd, gains).verdict != "agrees"
    nothing = effect("0.50±0.01", "0.60±0.01", np.zeros(20))
    assert (nothing.verdict, nothing.detail) == ("differs", "ours is 0.1 lower, a smaller effect")
    assert nothing.stand_in is True  # what we see is none


def test_none_and_the_printed_effect_never_both_pass() -> None:
    rng = np.random.default_rng(13)
    both = {
        (c.verdict == "agrees", c.stand_in)
        for c in (effect("0.500±0.004", "0.540±0.004", exact(rng.uniform(-0.01, 0.05), 0.003, 12)) for _ in range(120))
    }
    assert both == {(True, False), (False, True), (False, False)}


@pytest.mark.parametrize(
    ("gain", "detail"),
    [
        (-0.05, "ours is 0.15 lower, of the other sign"),
        (0.02, "ours is 0.08 lower, a smaller effect"),
        (0.3, "ours is 0.2 higher, a larger effect"),
    ],
)
def test_the_words_of_what_differs(gain: float, detail: str) -> None:
    found = effect("0.50±0.01", "0.60±0.01", exact(gain, 0.002, 10))
    assert (found.verdict, found.detail) == ("differs", detail)
    other = detail.replace("lower", "?").replace("higher", "lower").replace("?", "higher")
    assert effect("0.60±0.01", "0.50±0.01", exact(-gain, 0.002, 10)).detail == other  # a printed loss


def test_equal_printed_numbers_are_judged_by_the_margin_of_the_metric() -> None:
    small, large = (effect("0.600±0.001", "0.600±0.001", exact(gain, 0.001, 10)) for gain in (0.004, 0.05))
    assert (small.printed, small.verdict, small.margin) == ("+0.000", "agrees", 0.01)
    assert (large.verdict, large.detail, large.stand_in) == ("differs", "ours is 0.05 higher", None)


def test_one_unit_apart_cannot_be_told_from_the_print() -> None:
    found = effect("0.60±0.00", "0.61±0.00", exact(0.01, 0.001, 50))  # half a unit of each cell is more than half of .01
    assert (found.verdict, found.detail) == ("cannot tell", "not decidable from what is printed")


def test_runs_are_paired_and_one_run_decides_nothing() -> None:
    read = card(tables={"t": table({"base": "0.50", "ours": "0.60"})})
    keys = {"metric": "up"}
    frame = runs(({**keys, "method": "base"}, [0.3, 0.5, 0.7]), ({**keys, "method": "ours"}, [0.4, 0.6, 0.8, 9.0]))
    found = judge(read, "t.ours.effect", frames={RUNS: frame})
    assert (found.seeds, found.measured) == (3, pytest.approx(0.1))
    one = judge(read, "t.ours.effect", frames={RUNS: frame[frame["seed"] == 0]})
    assert (one.verdict, one.detail) == ("cannot tell", "one run has no interval") and isnan(one.power)
    apart = frame.assign(seed=frame["seed"] + 10 * (frame["method"] == "ours"))
    none = judge(read, "t.ours.effect", frames={RUNS: apart})
    assert none.verdict == "not yet measured" and none.note.startswith("the two sides have no run in common")


def test_a_contribution_is_over_the_best_of_the_others() -> None:
    read = card(tables={"t": table({"base": "0.50", "good": "0.55", "fair": "0.52", "ours": "0.60"}, own=["ours"])})
    keys = {"metric": "up"}
    made = {"base": 0.4, "good": 0.5, "fair": 0.6, "ours": 0.7}  # in our runs `fair` is better: the print decides which
    series = [({**keys, "method": m}, exact(v, 0.001, 5) + exact(0, 0.1, 5)) for m, v in made.items()]
    found = judge(read, "t.ours.contribution", *series)
    assert (found.printed, found.measured, found.margin) == ("+0.05", pytest.approx(0.2), 0.025)
    assert found.says.endswith("less good")
    assert judge(read, "t.ours.effect", *series).measured == pytest.approx(0.3)
    assert {i for i in read.entries if i.endswith(".contribution")} == {"little.t.ours.contribution"}


def test_the_forecast_of_an_effect_decides() -> None:
    def said(runs: int, gain: float, s: float) -> Claim:
        return effect("0.500±0.010", "0.560±0.010", exact(gain, s, runs))

    rng = np.random.default_rng(14)
    cases = [(int(rng.integers(2, 20)), rng.uniform(0, 0.15), 10 ** rng.uniform(-2, -1)) for _ in range(60)]
    assert forecasts(said, cases) > 12


def gain(printed: str, **methods: np.ndarray | list[float]) -> Claim:
    """A printed gain of `ours` over the best of all others."""
    claim = {"kind": "effect", "rule": "gain", "printed": printed, "metric": "up", "better": {"method": "ours"},
             "worse": {"method": [m for m in methods if m != "ours"]}}  # fmt: skip
    return judged(claim, *(({"metric": "up", "method": m}, values) for m, values in methods.items()))


def test_a_gain_is_over_the_best_mean_on_the_same_runs() -> None:
    base = np.linspace(0.3, 0.7, 10)
    found = gain("+10%", ours=base + exact(0.1, 0.01, 10), one=base, two=base[::-1] - 0.01, three=base - 0.2)
    assert (found.measured, found.margin, found.note) == (pytest.approx(0.1), 0.05, "the best of the others is one")
    assert found.verdict == by_scipy(0.1, 0.01, 10, 0.1, None, 10, 0.005, 0.05) == "agrees"
    lost = gain("-10%", ours=base + exact(0.1, 0.01, 10), one=base)
    assert (lost.verdict, lost.detail) == ("differs", "ours is 0.2 higher, of the other sign")
    even = gain("0%", ours=base + exact(0.001, 0.001, 10), one=base)
    assert (even.margin, even.verdict, even.stand_in) == (0.01, "agrees", None)


def test_a_mean_of_gains_is_taken_run_by_run() -> None:
    def one(id: str) -> dict[str, object]:
        return {"id": id, "kind": "ordering", "metric": "up", "results": RUNS, "select": {"level": id},
                "better": {"method": "ours"}, "worse": {"method": "base"}}  # fmt: skip

    average = {"id": "mean", "kind": "effect", "rule": "gain", "printed": "10%", "entries": ["easy", "hard"]}
    read = card(one("easy"), one("hard"), average)
    gains = {"easy": [0.0, 0.1, 0.2], "hard": [0.22, 0.10, 0.0, 9.0]}  # the fourth run has no easy one
    series = [({"metric": "up", "level": level, "method": m}, [0.5 + g * (m == "ours") for g in values])
              for level, values in gains.items() for m in ("ours", "base")]  # fmt: skip
    found = judge(read, "mean", *series)
    by_run = estimate([0.11, 0.10, 0.10])
    assert (found.measured, found.low, found.seeds) == (pytest.approx(by_run.mean), pytest.approx(by_run.low), 3)
    assert (found.margin, found.verdict) == (0.05, "agrees")


def test_a_fall_from_a_constant_start_is_a_plain_mean() -> None:
    # from -.2 everywhere, 1 - |mean end| / .2 is the mean of 1 - |end| / .2, so the jackknife changes nothing
    ours, plain = fall([-0.2] * 4, [-0.10, -0.12, -0.14, -0.16]), estimate([0.5, 0.4, 0.3, 0.2])
    assert (ours.mean, ours.sd, ours.seeds) == pytest.approx((plain.mean, plain.sd, 4))


def test_a_fall_against_leave_one_out_by_hand() -> None:
    # whole: 1 - .1/.3; without the 1st, 2nd, 3rd run: 1 - .1/.35, 1 - .05/.3, 1 - .15/.25
    whole, without = 2 / 3, [1 - 0.1 / 0.35, 1 - 0.05 / 0.3, 1 - 0.15 / 0.25]
    ours = fall([-0.2, -0.3, -0.4], [-0.1, -0.2, 0.0])
    assert ours.mean == pytest.approx(whole)
    assert ours.sd == pytest.approx(np.std([3 * whole - 2 * w for w in without], ddof=1))
    assert isnan(fall([-0.2], [-0.1]).sd)


def test_the_spread_of_a_fall_is_that_of_many_experiments() -> None:
    rng = np.random.default_rng(15)
    start, end = rng.normal(0.2, 0.02, (4000, 20)), rng.normal(0.15, 0.02, (4000, 20))
    truth = (1 - end.mean(1) / start.mean(1)).std()
    claimed = np.median([fall(a, b).error for a, b in zip(start[:300], end[:300], strict=True)])
    assert claimed == pytest.approx(truth, rel=0.06)


@pytest.mark.parametrize(
    ("mean", "verdict", "detail"),
    [
        (0.28, "agrees", ""),
        (0.12, "differs", "ours is 0.15 lower, a smaller effect"),
        (0.42, "differs", "ours is 0.15 higher, a larger effect"),
        (-0.1, "differs", "ours is 0.37 lower, of the other sign"),
    ],
)
def test_an_improvement_has_half_of_itself_as_margin(mean: float, verdict: str, detail: str) -> None:
    claim = {"kind": "effect", "rule": "improvement", "printed": "27%", "metric": "near", "from": {"method": "base"},
             "to": {"method": "ours"}}  # fmt: skip
    start, kept = np.full(8, -0.2), 1 - exact(mean, 0.001, 8)
    found = judged(claim, ({"metric": "near", "method": "base"}, start), ({"metric": "near", "method": "ours"}, start * kept))
    assert (found.verdict, found.detail, found.margin) == (verdict, detail, pytest.approx(0.135))
    assert found.measured == pytest.approx(mean)


def test_an_improvement_pairs_by_seed_and_reads_the_size_of_a_gap() -> None:
    claim = {"kind": "effect", "rule": "improvement", "printed": "50%", "metric": "near", "from": {"method": "base"},
             "to": {"method": "ours"}}  # fmt: skip
    frame = pd.concat([
        runs(({"metric": "near", "method": "base"}, [-0.2, -0.2, -0.2])),
        runs(({"metric": "near", "method": "ours"}, [0.1, 0.1, 0.1, 9.0])),
    ])  # fmt: skip
    found = judged(claim, frames={RUNS: frame})
    assert (found.measured, found.seeds, found.verdict) == (pytest.approx(0.5), 3, "agrees")
