"""What an entry selects from results: the right rows, one value for each independent run, paired and averaged as it says."""

import numpy as np
import pandas as pd
import pytest
from little import RUNS, card, cell, exact, judge, judged, runs, table

from fairfl_book.ledger.numbers import estimate
from fairfl_book.ledger.series import Results, score
from fairfl_lite.errors import FairFLError

LEVEL = {"kind": "level", "printed": "0.50", "metric": "up"}
ORDER = {"kind": "ordering", "metric": "up", "better": {"method": "a"}, "worse": {"method": "b"}}


def test_scores_point_upwards() -> None:
    values = pd.Series([-0.2, 0.1])
    assert score(values, "larger").tolist() == [-0.2, 0.1]
    assert score(values, "smaller").tolist() == [0.2, -0.1]
    assert score(values, "closer").tolist() == [-0.2, -0.1]


def trained(*values: list[float], **keys: object) -> pd.DataFrame:
    """One row per seed of each training: the seeds deal test rows to one trained set."""
    return pd.DataFrame([
        {"metric": "up", **keys, "training": t, "seed": s, "value": v} for t, of in enumerate(values) for s, v in enumerate(of)
    ])  # fmt: skip


def test_seeds_of_one_training_are_averaged_and_runs_are_trainings() -> None:
    frame = trained([0.1, 0.2, 0.3], [0.4, 0.5, 0.9], [0.5, 0.5, 0.5], [0.7, 0.7, 0.7])
    found, means = judged(LEVEL, frames={RUNS: frame}), estimate([0.2, 0.6, 0.5, 0.7])
    assert (found.seeds, found.measured) == (4, pytest.approx(means.mean))
    assert (found.low, found.high) == pytest.approx((means.low, means.high))
    plain = judged(LEVEL, frames={RUNS: frame.drop(columns="training").assign(seed=range(12))})
    assert (plain.seeds, plain.measured) == (12, pytest.approx(found.measured))
    assert plain.high - plain.low < found.high - found.low  # twelve runs would claim more than four trainings know


def test_many_seeds_of_one_training_are_one_run() -> None:
    found = judged(LEVEL, frames={RUNS: trained(list(exact(0.5, 0.01, 50)))})
    assert (found.seeds, found.verdict, found.detail) == (1, "cannot tell", "one run has no interval")


def test_trainings_are_paired() -> None:
    better = trained([0.3, 0.5], [0.6, 0.8], [0.7, 0.9], method="a")
    worse = trained([0.2, 0.4], [0.501, 0.701], method="b")
    found = judged(ORDER, frames={RUNS: pd.concat([better, worse])})
    assert (found.seeds, found.measured, found.verdict) == (2, pytest.approx(0.0995), "confirmed")
    spread = card(tables={"t": table({"a": "0.50±0.10"})})
    sd = judge(spread, "t.a.sd", frames={RUNS: better})
    assert (sd.seeds, sd.measured) == (3, pytest.approx(np.std([0.4, 0.7, 0.8], ddof=1)))


def test_a_trend_over_trainings() -> None:
    levels = [trained([0.0 + g, 0.2 + g], [0.3 + g, 0.5 + g], level=lv) for lv, g in ((1, 0.0), (2, 0.1), (3, 0.2))]
    found = judged({"kind": "trend", "metric": "up", "levels": "level", "toward": "better"}, frames={RUNS: pd.concat(levels)})
    assert (found.seeds, found.measured) == (2, pytest.approx(0.1))


def test_the_same_seed_in_two_trainings_is_not_ambiguous_but_twice_in_one_is() -> None:
    twice = pd.concat([trained([0.1, 0.2]), trained([0.3])])
    with pytest.raises(FairFLError, match="several values per seed for metric up: the card must select one"):
        judged(LEVEL, frames={RUNS: twice})


def test_several_values_per_seed_are_refused() -> None:
    with pytest.raises(FairFLError, match="several values per seed"):
        judged(LEVEL, ({"metric": "up", "beta": 1}, [0.1, 0.2]), ({"metric": "up", "beta": 2}, [0.3, 0.4]))
    chosen = judged(
        {**LEVEL, "select": {"beta": 2}}, ({"metric": "up", "beta": 1}, [0.1, 0.2]), ({"metric": "up", "beta": 2}, [0.3, 0.4])
    )
    assert chosen.measured == pytest.approx(0.35)
    same = judged(LEVEL, ({"metric": "up", "beta": 1}, [0.1, 0.2]), ({"metric": "up", "beta": 2}, [0.1, 0.2]))
    assert same.measured == pytest.approx(0.15)  # rows that say the same are one


@pytest.mark.parametrize("wanted", [0.1, "0.1", "0.10"])
def test_numbers_are_compared_as_numbers(wanted: object) -> None:
    found = judged(
        {**LEVEL, "select": {"alpha": wanted}}, ({"metric": "up", "alpha": 0.1}, [0.3]), ({"metric": "up", "alpha": 0.2}, [0.9])
    )
    assert found.measured == 0.3
    word = judged({**LEVEL, "select": {"alpha": "rnd"}}, ({"metric": "up", "alpha": 0.1}, [0.3]))
    assert word.note.startswith("results/little/runs.csv has no rows for alpha rnd, metric up")


def test_runs_that_only_one_side_has_are_left_out() -> None:
    # the runs differ by far more than the gain of .02, which shows in the pairs only; run 0 has no b, run 6 no a
    base = np.array([9.0, -0.5, -0.1, -0.4, -0.2, -0.3, -9.0])
    frame = runs(({"metric": "up", "method": "a"}, base + 0.02), ({"metric": "up", "method": "b"}, base))
    frame = frame[~((frame["method"] == "b") & (frame["seed"] == 0)) & ~((frame["method"] == "a") & (frame["seed"] == 6))]
    for order in (frame, frame[::-1]):
        found = judged(ORDER, frames={RUNS: order})
        assert (found.seeds, found.measured, found.verdict) == (5, pytest.approx(0.02), "confirmed")


def test_a_mean_over_settings_takes_runs_that_have_them_all() -> None:
    values = {("a", 1): [0.1, 0.1, 0.1], ("a", 2): [0.5, 0.3], ("b", 1): [0.0, 0.0, 9.0], ("b", 2): [0.2, 0.0, 9.0]}
    series = [({"metric": "up", "method": m, "alpha": a}, v) for (m, a), v in values.items()]
    found = judged({**ORDER, "mean_over": ["alpha"]}, *series)
    assert (found.seeds, found.measured) == (2, pytest.approx((0.3 + 0.2) / 2 - (0.1 + 0.0) / 2))


def test_a_wide_file_has_a_column_for_each_metric() -> None:
    wide = pd.DataFrame({"seed": [0, 1], "up": [0.1, 0.3], "down": [5.0, 6.0]})
    assert judged(LEVEL, frames={RUNS: wide}).measured == pytest.approx(0.2)
    with pytest.raises(FairFLError, match="little.it: results/little/runs.csv has no column 'near'"):
        judged({**LEVEL, "metric": "near"}, frames={RUNS: wide})


def test_a_share_of_another_series() -> None:
    claim = {"kind": "ordering", "sense": "smaller", "margin": 0.1, "margin_reason": "for a test",
             "select": {"level": "low"}, "relative": {"level": "high"}, "better": {"method": "a"},
             "worse": {"method": "b"}}  # fmt: skip
    values = {("a", "low"): [1.0, 2.0], ("a", "high"): [4.0, 4.0], ("b", "low"): [3.0, 3.0], ("b", "high"): [4.0, 6.0]}
    found = judged(claim, *(({"method": m, "level": lv}, v) for (m, lv), v in values.items()))
    assert found.measured == pytest.approx(((3 / 4 - 1 / 4) + (3 / 6 - 2 / 4)) / 2)


def test_two_sides_in_two_files() -> None:
    claim = {**ORDER, "worse": {"results": "little/other", "method": "b"}}
    frames = {
        RUNS: runs(({"metric": "up", "method": "a"}, [0.4, 0.5])),
        "little/other": runs(({"metric": "up", "method": "b"}, [0.1, 0.2])),
    }
    assert judged(claim, frames=frames).measured == pytest.approx(0.3)


def test_the_way_of_selecting_settings() -> None:
    def frame(**ways: list[float]) -> pd.DataFrame:
        return pd.concat([runs(({"metric": "up", "selection": way}, v)) for way, v in ways.items()])

    both = frame(paper=[0.5] * 5, validation=[0.3] * 5, other=[9.0] * 5)
    found = judged(LEVEL, frames={RUNS: both})
    assert (found.measured, found.verdict) == (0.5, "agrees")
    assert (found.measured_validation, found.verdict_validation) == (0.3, "differs")
    named = judged(LEVEL, frames={RUNS: both}, selection="other")
    assert named.measured == 9.0
    only = judged(LEVEL, frames={RUNS: frame(paper=[0.5, 0.5])})
    assert np.isnan(only.measured_validation) and only.verdict_validation == ""
    itself = judged({**LEVEL, "select": {"selection": "validation"}}, frames={RUNS: both})
    assert (itself.measured, itself.verdict_validation) == (0.3, "")


def test_the_note_has_the_number_under_other_selectors() -> None:
    claim = {**LEVEL, "select": {"read": "last"}, "beside": {"on average": {"read": "mean"}, "at first": {"read": "first"}}}
    found = judged(claim, ({"metric": "up", "read": "last"}, [0.5, 0.5]), ({"metric": "up", "read": "mean"}, [0.4, 0.5]))
    assert found.note == "on average 0.450"  # what was not measured is left out


def test_a_value_that_is_none_is_no_run() -> None:
    assert cell("0.50", [0.5, float("nan"), 0.5]).seeds == 2
    none = cell("0.50", [float("nan")])
    assert none.verdict == "not yet measured" and "has no seed with all of" in none.note


def test_a_file_is_read_once_and_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(name: str) -> pd.DataFrame:
        asked.append(name)
        return runs(({"metric": "up"}, [0.5]))

    monkeypatch.setattr("fairfl_book.results.exists", lambda name: name == RUNS)
    monkeypatch.setattr("fairfl_book.results.load", load)
    files = Results()
    for _ in range(3):
        files.values(RUNS, {"metric": "up"}, "larger", "paper")
    assert asked == [RUNS]
    found = judged({**LEVEL, "results": "little/else"})
    assert found.note == "results/little/else.csv is not there: run `measure little/else`"
