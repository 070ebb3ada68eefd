"""The rules `effect`, `tie`, `gain` and `improvement`: by scipy's t-tests, and what no effect at all can never earn."""

from collections.abc import Iterable
from math import hypot, isnan, sqrt
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from little import RUNS, by_scipy, card, exact, forecasts, judge, judged, runs, table

from fairfl_book.ledger.claims import Claim
from fairfl_book.ledger.numbers import Spread, estimate, fall
from fairfl_book.ledger.rules import improvement
from fairfl_book.ledger.rules.effect import Gap
from fairfl_book.ledger.rules.effect import found as compare


def effect(base: str, ours: str, gains: np.ndarray, apart: float = 0.2, others: Iterable[str] = (), **fields: object) -> Claim:
    """A printed cell less the printed baseline, by runs in which ours is higher by these gains; `others` are more rows."""
    rows = {"base": base, "ours": ours, **{f"other{i}": cell for i, cell in enumerate(others)}}
    read = card(tables={"t": table(rows)}, **fields)
    start = np.linspace(0.5 - apart, 0.5 + apart, len(gains))  # far from run to run: only the pairs tell the gain
    keys = {"metric": "up"}
    return judge(read, "t.ours.effect", ({**keys, "method": "base"}, start), ({**keys, "method": "ours"}, start + gains))


def unpaired(gains: np.ndarray, apart: float = 0.2) -> float:
    """The spread that the difference of those two would have on other runs for each."""
    start = np.linspace(0.5 - apart, 0.5 + apart, len(gains))
    return sqrt(np.var(start, ddof=1) + np.var(start + gains, ddof=1))


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
        found = effect(base, ours, exact(m, s, n), apart=0.01, printed_seeds=k)
        q = hypot(*map(float, qs)) if given == "both" else unpaired(exact(m, s, n), 0.01)
        assert found.verdict == by_scipy(m, s, n, d, q, k, h, abs(d) / 2, borrowed=given != "both")
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
    assert nothing.stand_in is None  # there is no other row


def test_stand_in_is_whether_the_effect_of_another_row_would_agree() -> None:
    rng = np.random.default_rng(13)
    seen = set()
    for _ in range(120):
        gains = exact(rng.uniform(-0.01, 0.08), 0.003, 12)
        others = [f"{x:.3f}±{q:.3f}" for x, q in zip(rng.uniform(0.45, 0.6, 2), rng.uniform(0.001, 0.02, 2), strict=True)]
        found = effect("0.500±0.004", "0.540±0.004", gains, others=[*others, "?±?", "0.500±0.004"])
        instead = [effect("0.500±0.004", other, gains).verdict == "agrees" for other in others if other[:5] != "0.500"]
        assert found.stand_in is any(instead)
        seen.add((found.verdict == "agrees", found.stand_in))
    assert len(seen) == 4
    # neither the row itself, nor the baseline, nor one that is printed as the baseline stands in
    agrees = effect("0.500±0.004", "0.540±0.004", exact(0.04, 0.003, 12), others=["0.500±0.004", "?±?"])
    assert (agrees.verdict, agrees.stand_in) == ("agrees", None)
    same = effect("0.500±0.004", "0.540±0.004", exact(0.04, 0.003, 12), others=["0.540±0.004"])
    assert same.stand_in is True  # another row has the same number


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
    assert {(c.kind, c.rule) for c in (small, large)} == {("tie", "tie")}
    among = effect("0.600±0.001", "0.600±0.001", exact(0.004, 0.001, 10), others=["0.604±0.001"])
    assert (among.verdict, among.stand_in) == ("agrees", None)  # nothing stands in for a tie


def test_ties_by_scipy() -> None:
    rng = np.random.default_rng(16)
    seen = dict.fromkeys(("agrees", "differs", "cannot tell"), 0)
    for _ in range(90):
        n, k, s, m = (
            int(rng.integers(3, 25)),
            int(rng.choice([5, 10, 20])),
            10 ** rng.uniform(-3.5, -2.3),
            rng.uniform(-0.03, 0.03),
        )
        gains, q = exact(m, s, n), f"{10 ** rng.uniform(-3, -2.3):.4f}"
        given = bool(rng.random() < 0.5)
        printed = f"0.600±{q}" if given else "0.600"
        found = effect(printed, printed, gains, apart=0.004, printed_seeds=k)
        theirs = hypot(float(q), float(q)) if given else unpaired(gains, 0.004)
        assert found.verdict == by_scipy(m, s, n, 0.0, theirs, k, 0.001, 0.01, borrowed=not given)
        assert (found.rule, found.margin) == ("tie", 0.01)
        seen[found.verdict] += 1
    assert min(seen.values()) > 10


@pytest.mark.parametrize(("n", "k", "together"), [(10, 10, 0.9), (20, 5, 0.95), (40, 20, 0.5), (10, 10, 0.0)])
def test_an_unprinted_spread_is_that_of_runs_which_are_not_paired(n: int, k: int, together: float) -> None:
    """Our two sides vary together, the paper's need not: at the margin it errs at most one time in twenty all the same."""
    rng, margin, draws = np.random.default_rng(17), 0.05, 2000
    ours = rng.multivariate_normal([margin, 0], [[1e-4, together * 1e-4], [together * 1e-4, 1e-4]], (draws, n))
    theirs = rng.normal(0, 0.01, (draws, k, 2)).mean(1)
    said, pairs = [], []
    for a, b in zip(ours, theirs[:, 0] - theirs[:, 1], strict=True):
        gains = estimate(a[:, 0] - a[:, 1] - b)  # the printed difference is taken away: what is left is judged as a tie
        alone = hypot(a[:, 0].std(ddof=1), a[:, 1].std(ddof=1))
        said.append(compare(gains, alone, Gap(0.0, 0.0, None), k, margin))
        pairs.append(compare(gains, gains.sd, Gap(0.0, 0.0, None), k, margin))
    for verdict in ("agrees", "differs"):
        assert 0.02 < np.mean([f.verdict == verdict for f in said]) < 0.065
        if together >= 0.9:  # by the spread of our pairs it would err far more often
            assert np.mean([f.verdict == verdict for f in pairs]) > 0.15


def test_one_unit_apart_cannot_be_told_from_the_print() -> None:
    found = effect("0.60±0.00", "0.61±0.00", exact(0.01, 0.001, 50))  # half a unit of each cell is more than half of .01
    assert (found.verdict, found.detail) == ("cannot tell", "not decidable from what is printed")
    alone = effect("0.60", "0.61", exact(0.01, 0.001, 50), apart=0.001)
    assert (alone.verdict, alone.detail) == ("cannot tell", "not decidable if their runs vary as ours")
    sure = effect("0.60±0.00", "0.61±0.00", exact(0.03, 0.001, 50))  # .02 away: more than a unit, and perhaps not one and a half
    assert sure.verdict == "differs"
    sure = effect("0.60±0.00", "0.62±0.00", exact(0.035, 0.001, 50))
    assert sure.detail == "surely higher, by more than the margin or not; not decidable from what is printed"
    assert effect("0.60±0.00", "0.62±0.00", exact(0.005, 0.001, 50)).detail == sure.detail.replace("higher", "lower")


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


@pytest.mark.parametrize(
    ("good", "ours", "printed", "signs", "plain"),
    [
        # |.04| - |.10| whatever the signs; the mean sizes of our runs are .05 and .12
        ("-0.10", "-0.04", "-0.06", (-1, -1), "+0.26"),
        ("-0.10", "0.04", "-0.06", (-1, 1), "+0.34"),
        ("0.10", "-0.04", "-0.06", (1, -1), "+0.26"),
        ("0.10", "0.04", "-0.06", (1, 1), "+0.34"),
        ("-0.04", "0.10", "+0.06", (-1, 1), "+0.40"),
        ("0.10", "-0.10", "+0.00", (1, -1), "+0.20"),
    ],
)
def test_a_contribution_to_what_should_be_near_zero_is_one_of_sizes(
    good: str, ours: str, printed: str, signs: tuple[int, int], plain: str
) -> None:
    read = card(tables={"t": table({"base": "-0.30", "good": good, "ours": ours}, metric="near", own=["ours"])})
    # some runs of ours are of the other sign: it is the size of the mean, not the mean of sizes
    sides = {"base": exact(-0.3, 0.01, 9), "good": signs[0] * exact(0.12, 0.01, 9)[::-1], "ours": signs[1] * exact(0.05, 0.06, 9)}
    series = [({"metric": "near", "method": m}, v) for m, v in sides.items()]
    found = judge(read, "t.ours.contribution", *series)
    assert (found.printed, found.measured) == (printed, pytest.approx(0.05 - 0.12))
    assert found.says.endswith("absolute values, less that of good")
    gains = np.abs(signs[1]) * exact(0.05, 0.06, 9) - exact(0.12, 0.01, 9)[::-1]
    d, s, theirs = float(printed), float(gains.std(ddof=1)), hypot(0.06, 0.01)
    assert (found.low + found.high) / 2 == pytest.approx(-0.07) and found.high == pytest.approx(estimate(gains).high)
    assert found.verdict == by_scipy(-0.07, s, 9, d, theirs, 10, 0.01, abs(d) / 2 or 0.02, borrowed=True)
    assert found.rule == ("effect" if d else "tie")
    assert judge(read, "t.ours.effect", *series).printed == plain  # with its sign
    assert read.entries["little.t.ours.effect"].spec.get("absolute") is None


def test_a_row_may_be_left_out_of_the_best() -> None:
    rows = {"base": "0.50", "good": "0.55", "fair": "0.52", "ours": "0.60"}
    read = card(tables={"t": table(rows, own=["ours"], not_best=["good"])})
    assert read.entries["little.t.ours.contribution"].spec["cells"] == ["little.t.ours", "little.t.fair"]
    assert read.entries["little.t.good.effect"].printed == "+0.05"  # it has an effect all the same


def test_a_contribution_in_sizes_can_agree_and_another_row_can_stand_in() -> None:
    rows = {"base": "-0.30", "good": "-0.10", "fair": "0.17", "ours": "0.04"}
    read = card(tables={"t": table(rows, metric="near", own=["ours"])})
    made = {"base": -0.3, "good": -0.1, "fair": 0.2, "ours": 0.04}
    found = judge(read, "t.ours.contribution", *(({"metric": "near", "method": m}, exact(v, 0.001, 9)) for m, v in made.items()))
    assert (found.verdict, found.stand_in) == ("agrees", False)  # -.06; the others are |.17| - |.10| and |.30| - |.10|
    made |= {"ours": -0.17}
    found = judge(read, "t.ours.contribution", *(({"metric": "near", "method": m}, exact(v, 0.001, 9)) for m, v in made.items()))
    assert (found.verdict, found.stand_in) == ("differs", True)  # +.07, as |.17| - |.10|; with signs it would be +.27


def test_the_forecast_of_an_effect_decides() -> None:
    def said(runs: int, gain: float, s: float) -> Claim:
        return effect("0.500±0.010", "0.560±0.010", exact(gain, s, runs))

    rng = np.random.default_rng(14)
    cases = [(int(rng.integers(2, 20)), rng.uniform(0, 0.15), 10 ** rng.uniform(-2, -1)) for _ in range(80)]
    assert forecasts(said, cases) > 12


def gain(printed: str, **methods: np.ndarray | list[float]) -> Claim:
    """A printed gain of `ours` over the best of all others."""
    claim = {"kind": "effect", "rule": "gain", "printed": printed, "metric": "up", "better": {"method": "ours"},
             "worse": {"method": [m for m in methods if m != "ours"]}}  # fmt: skip
    return judged(claim, *(({"metric": "up", "method": m}, values) for m, values in methods.items()))


def test_a_gain_is_over_the_best_mean_on_the_same_runs() -> None:
    base = np.linspace(0.46, 0.54, 10)
    found = gain("+10%", ours=base + exact(0.1, 0.01, 10), one=base, two=base[::-1] - 0.01, three=base - 0.2)
    assert (found.measured, found.margin, found.note) == (pytest.approx(0.1), 0.05, "the best of the others is one")
    q = unpaired(exact(0.1, 0.01, 10), 0.04)
    assert found.verdict == by_scipy(0.1, 0.01, 10, 0.1, q, 10, 0.005, 0.05, borrowed=True) == "agrees"
    base = np.linspace(0.3, 0.7, 10)  # runs that are far apart: how the paper's vary nobody knows
    wide = gain("+10%", ours=base + exact(0.1, 0.01, 10), one=base)
    assert (wide.verdict, wide.detail) == ("cannot tell", "not decidable if their runs vary as ours")
    base = np.linspace(0.499, 0.501, 10)
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
    gains = {"easy": [0.09, 0.10, 0.11], "hard": [0.112, 0.10, 0.09, 9.0]}  # the fourth run has no easy one
    series = [({"metric": "up", "level": level, "method": m}, [0.5 + g * (m == "ours") for g in values])
              for level, values in gains.items() for m in ("ours", "base")]  # fmt: skip
    found = judge(read, "mean", *series)
    by_run = estimate([0.101, 0.10, 0.10])
    assert (found.measured, found.low, found.seeds) == (pytest.approx(by_run.mean), pytest.approx(by_run.low), 3)
    # the plain side does not vary; the mean of two gains has half of the spread of their sum
    theirs = hypot(np.std(gains["easy"], ddof=1), np.std(gains["hard"][:3], ddof=1)) / 2
    assert found.verdict == by_scipy(by_run.mean, by_run.sd, 3, 0.1, theirs, 10, 0.005, 0.05, borrowed=True) == "agrees"
    assert found.margin == 0.05
    spread = Spread(by_run.sd, 3, 10, theirs, borrowed=True)
    assert (found.power, found.against) == pytest.approx((spread.says_agrees(0.005, 0.05), spread.says_differs(0.005, 0.05)))


@pytest.mark.parametrize("whole", [True, False])
def test_a_gain_has_the_printed_spreads_of_its_two_cells(whole: bool) -> None:
    rows = {"base": "0.50±0.09", "good": "0.55±0.03", "ours": "0.65±0.04" if whole else "0.65"}
    claim = {"kind": "effect", "rule": "gain", "printed": "+10%", "metric": "up", "results": RUNS, "better": {"method": "ours"},
             "worse": {"method": ["base", "good"]}}  # fmt: skip
    # a number of the text about the same runs is no cell of the table
    said = {
        "id": "text",
        "kind": "level",
        "printed": "0.65",
        "sd": "0.90",
        "results": RUNS,
        "select": {"metric": "up", "method": "ours"},
    }
    read = card(claim, said, tables={"t": table(rows)})
    base = np.linspace(0.3, 0.7, 12)
    gains = exact(0.11, 0.02, 12)
    made = {"base": base - 0.2, "good": base, "ours": base + gains}
    found = judge(read, "it", *(({"metric": "up", "method": m}, v) for m, v in made.items()))
    q = hypot(0.03, 0.04) if whole else unpaired(gains)
    assert found.verdict == by_scipy(0.11, 0.02, 12, 0.1, q, 10, 0.005, 0.05, borrowed=not whole)
    spread = Spread(0.02, 12, 10, q, borrowed=not whole)
    assert (found.power, found.against) == pytest.approx((spread.says_agrees(0.005, 0.05), spread.says_differs(0.005, 0.05)))
    assert (found.verdict == "agrees") is whole


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
        runs(({"metric": "near", "method": "base"}, [-0.2] * 5)),
        runs(({"metric": "near", "method": "ours"}, [*[0.1] * 5, 9.0])),
    ])  # fmt: skip
    found = judged(claim, frames={RUNS: frame})
    assert (found.measured, found.seeds, found.verdict) == (pytest.approx(0.5), 5, "agrees")
    few = judged(claim, frames={RUNS: frame[frame["seed"] < 4]})
    assert (few.verdict, few.detail) == ("cannot tell", "about 5 runs would decide")


def test_the_unprinted_spread_of_a_fall_is_that_of_many_unpaired_runs() -> None:
    rng = np.random.default_rng(18)
    for start, end in ((-0.2, 0.15), (0.2, -0.05), (0.3, 0.3)):
        a, b = rng.normal(start, 0.02, 40), rng.normal(end, 0.03, 40)
        sides = {"from": pd.DataFrame({"value": a}), "to": pd.DataFrame({"value": b})}
        found = improvement.unpaired(SimpleNamespace(side=sides.__getitem__))
        # of means over a hundred runs, where the first order is all there is
        x, y = (rng.normal(v.mean(), v.std(ddof=1) / 10, 40_000) for v in (a, b))
        assert found == pytest.approx(10 * (1 - np.abs(y) / np.abs(x)).std(), rel=0.05)


def test_an_improvement_borrows_the_spread_of_runs_that_are_not_paired() -> None:
    claim = {"kind": "effect", "rule": "improvement", "printed": "50%", "metric": "near", "from": {"method": "base"},
             "to": {"method": "ours"}}  # fmt: skip
    start = np.linspace(0.15, 0.25, 10)
    kept = 1 - exact(0.5, 0.01, 10)[::-1]
    sides = {"base": start, "ours": start * kept}
    found = judged(claim, *(({"metric": "near", "method": m}, v) for m, v in sides.items()))
    ours = fall(start, start * kept)
    b, a = sides["ours"], start
    theirs = sqrt(b.var(ddof=1) / a.mean() ** 2 + b.mean() ** 2 * a.var(ddof=1) / a.mean() ** 4)
    assert theirs > 5 * ours.sd  # the runs are far apart, and the fall in each is nearly the same
    spread = Spread(ours.sd, 10, 10, theirs, borrowed=True)
    assert (found.power, found.against) == pytest.approx((spread.says_agrees(0.005, 0.25), spread.says_differs(0.005, 0.25)))
    assert found.verdict == by_scipy(ours.mean, ours.sd, 10, 0.5, theirs, 10, 0.005, 0.25, borrowed=True)
