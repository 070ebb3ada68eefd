"""What the arena's results say, on small tables whose answers are worked out by hand or by another route."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.stats import ttest_rel

from fairfl_book import methodcards, results
from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError
from papers.arena import compare, protocol, runs
from papers.arena.federations import attainable, chances, table

SEEDS = 6


def tidy(values, federation="own"):
    """A frame as results have it, of {(method, level, rate): {metric: one value, or one per seed}}; validation rows are alike."""
    rows = []
    for (method, level, rate), by_metric in values.items():
        for metric, value in by_metric.items():
            for seed, one in enumerate(np.broadcast_to(np.asarray(value, float), SEEDS)):
                rows.append((federation, method, level, rate, "test", seed, metric, one))
                if metric in ("acc", "eod"):
                    rows.append((federation, method, level, rate, "validation", seed, metric, one))
    return pd.DataFrame(rows, columns=["federation", "method", "level", "rate", "part", "seed", "metric", "value"])


def noisy(seed=0, methods=("fedavg", "b", "c")):
    """Methods of two settings, with every metric drawn."""
    rng = np.random.default_rng(seed)
    made = {}
    for i, method in enumerate(methods):
        for rate in (0.1, 0.3):
            made[method, 0.0, rate] = {m: 0.6 + 0.02 * i + 0.1 * rate + 0.02 * rng.normal(size=SEEDS) for m in protocol.MARGINS}
            made[method, 0.0, rate]["eod"] = rng.normal(0, 0.2, SEEDS)
    return tidy(made)


# Verdicts


def test_verdicts_are_paired_t_intervals_of_the_chosen_settings():
    frame = noisy()
    for rule in compare.RULES:
        picks = protocol.chosen(frame, rule).set_index("method")["rate"]
        found = compare.verdicts(frame, rule).set_index(["method", "metric"])
        assert len(found) == 3 * len(protocol.MARGINS) and (found.loc["fedavg", "verdict"] == "").all()
        for method in ("b", "c"):
            for metric, (margin, _) in protocol.MARGINS.items():
                test = frame[(frame.part == "test") & (frame.metric == metric)].sort_values("seed")
                mine, other = (test[(test.method == m) & (test.rate == picks[m])].value.abs() for m in (method, "fedavg"))
                better, less = (mine, other) if metric in ("acc", "min_acc", "worst_group") else (other, mine)
                wanted = ttest_rel(better, less).confidence_interval(0.95)
                row = found.loc[method, metric]
                assert (row["mean"], row.low, row.high) == pytest.approx((mine.mean(), wanted.low, wanted.high))
                assert (row.verdict == "better") == (wanted.low > margin) and (row.verdict == "worse") == (wanted.high < -margin)
                assert (row.verdict == "equal") == (wanted.low >= -margin and wanted.high <= margin)


def test_verdicts_do_not_depend_on_the_order_of_rows_or_on_who_else_is_there():
    frame, found = noisy(), compare.verdicts(noisy(), "fair")
    mixed = compare.verdicts(frame.sample(frac=1, random_state=0), "fair")
    keys = ["method", "metric"]
    pd.testing.assert_frame_equal(mixed.sort_values(keys, ignore_index=True), found.sort_values(keys, ignore_index=True))
    alone = compare.verdicts(frame[frame.method != "c"], "fair")
    pd.testing.assert_frame_equal(alone, found[found.method != "c"].reset_index(drop=True))
    with pytest.raises(FairFLError, match="Methods are compared with fedavg: run it too"):
        compare.gains(compare.picked(frame[frame.method != "fedavg"], "accurate"))


def test_undefined_metrics_are_cannot_tell_and_not_counted():
    values = {(m, 0.0, 0.1): {"acc": 0.8, "eod": 0.1, "most_eod": np.nan} for m in ("fedavg", "b")}
    found = compare.verdicts(tidy(values), "accurate")
    row = found[(found.method == "b") & (found.metric == "most_eod")].iloc[0]
    assert row.verdict == "cannot tell" and np.isnan(row.gain)
    count = compare.counts(found, ["method", "metric"])
    assert count.to_dict("index") == {
        ("b", metric): {"better": 0, "equal": 1, "cannot tell": 0, "worse": 0} for metric in ("acc", "eod")
    }


def test_intervals_are_those_of_the_library_with_and_without_undefined_values():
    gain = np.random.default_rng(1).normal(size=(4, 7))
    gain[1, 2:] = np.nan
    gain[2, 1:] = np.nan
    gain[3] = np.nan
    _, *found = protocol.weighed(gain, 0.1)
    np.testing.assert_allclose(np.transpose(found), [metrics.interval(row, protocol.LEVEL) for row in gain])


def test_pairs_are_the_same_from_both_sides():
    frame = noisy()
    found = compare.pairs(frame, "accurate", "acc").set_index(["method", "other"])
    assert len(found) == 3 * 2
    opposite = {"better": "worse", "worse": "better", "equal": "equal", "cannot tell": "cannot tell"}
    for mine, other in found.index:
        one, back = found.loc[(mine, other)], found.loc[(other, mine)]
        assert one.gain == pytest.approx(-back.gain) and one.low == pytest.approx(-back.high)
        assert back.verdict == opposite[one.verdict]
    against = compare.verdicts(frame, "accurate").query("metric == 'acc' and method != 'fedavg'").set_index("method")
    for method, row in against.iterrows():
        said = ["gain", "low", "high", "verdict"]
        assert tuple(row[said]) == tuple(found.loc[(method, "fedavg")][said])
    swapped = compare.pairs(frame, "accurate", "eod").set_index(["method", "other"])
    gaps = compare.verdicts(frame, "accurate").query("metric == 'eod'").set_index("method")["mean"]
    assert swapped.loc[("b", "c"), "gain"] == pytest.approx(gaps["c"] - gaps["b"])  # a smaller gap is better


def test_what_chance_alone_would_call():
    sure = {("fedavg", 0.0, 0.1): {"acc": 0.7, "eod": 0.3}, ("b", 0.0, 0.1): {"acc": 0.8, "eod": 0.3}}
    many, called = compare.by_chance(tidy(sure), "accurate", times=200)
    # Six coins agree in 2 of 64 cases; then all gains are of one sign and the difference is called, otherwise the mean is small.
    assert many == 2 and 0 < called < 0.12
    frame = noisy()
    assert compare.by_chance(frame, "fair") == compare.by_chance(frame, "fair")


# Fronts


def by_cells(acc, gap, commonest, largest, n=2000):
    """A hypervolume by counting the cells of a grid that some point dominates."""
    a = commonest + (1 - commonest) * (np.arange(n) + 0.5) / n
    g = largest * (np.arange(n) + 0.5) / n
    covered = ((acc[:, None, None] >= a[:, None]) & (gap[:, None, None] <= g)).any(0)
    return covered.mean() * (1 - commonest) * largest


def test_hypervolume_by_hand():
    # One point: a rectangle of .2 by .4. A second point that is more accurate and less fair adds .1 by .2 above it.
    assert compare.hypervolume(np.array([0.8]), np.array([0.1]), 0.6, 0.5) == pytest.approx(0.2 * 0.4)
    both = compare.hypervolume(np.array([0.8, 0.9]), np.array([0.1, 0.3]), 0.6, 0.5)
    assert both == pytest.approx(0.2 * 0.4 + 0.1 * 0.2)
    for extra in ((0.75, 0.2), (0.8, 0.1), (0.5, 0.0), (0.99, 0.5), (0.99, 0.9)):  # dominated, the same, beyond the reference
        more = compare.hypervolume(np.array([0.8, 0.9, extra[0]]), np.array([0.1, 0.3, extra[1]]), 0.6, 0.5)
        assert more == pytest.approx(both)


def test_hypervolume_by_counting_cells_of_a_grid():
    rng = np.random.default_rng(0)
    acc, gap = rng.uniform(0.4, 0.95, (8, 5)), rng.uniform(0, 0.6, (8, 5))
    found = compare.hypervolume(acc, gap, 0.55, 0.5)
    np.testing.assert_allclose(found, [by_cells(a, g, 0.55, 0.5) for a, g in zip(acc, gap, strict=True)], atol=5e-4)
    assert found.min() < found.max() - 0.02
    np.testing.assert_allclose(compare.hypervolume(acc[:, ::-1], gap[:, ::-1], 0.55, 0.5), found)


def test_a_front_moved_by_the_margin_of_accuracy_gains_at_most_the_margin_of_volumes():
    rng = np.random.default_rng(0)
    acc, gap = rng.uniform(0.5, 0.95, (50, 5)), rng.uniform(0, 0.6, (50, 5))
    up = protocol.MARGINS["acc"][0]
    more = compare.hypervolume(acc + up, gap, 0.55) - compare.hypervolume(acc, gap, 0.55)
    assert more.max() <= protocol.VOLUME_MARGIN + 1e-12 and more.max() > 0.8 * protocol.VOLUME_MARGIN


def test_the_reference_is_what_the_commonest_label_has():
    for name, share in protocol.COMMONEST.items():
        positive = table(name).y.mean()
        assert share == pytest.approx(max(positive, 1 - positive), abs=1e-4)


def test_who_is_on_a_front():
    acc, gap = np.array([0.8, 0.8, 0.9, 0.7, 0.8, np.nan]), np.array([0.1, 0.2, 0.3, 0.05, 0.1, 0.0])
    assert compare.undominated(acc, gap).tolist() == [True, False, True, True, True, False]


def test_fronts_are_chosen_on_validation_rows_and_measured_on_test_rows():
    frame = tidy({
        ("fedavg", 0.0, 0.1): {"acc": 0.8, "eod": 0.2},
        ("b", 0.0, 0.1): {"acc": 0.8, "eod": -0.1},
        ("b", 0.0, 0.3): {"acc": 0.7, "eod": 0.2},  # dominated
        ("b", 0.0, 1.0): {"acc": [0.9, 0.9, 0.9, 0.9, 0.9, np.nan], "eod": 0.0},  # diverged once
    })  # fmt: skip
    rows = compare.settings(frame).set_index(["method", "rate"])
    assert rows["front"].to_dict() == {("fedavg", 0.1): True, ("b", 0.1): True, ("b", 0.3): False, ("b", 1.0): False}
    assert rows.loc[("b", 0.1), "eod"] == pytest.approx(0.1) and np.isnan(rows.loc[("b", 1.0), "acc"])
    # On test rows the dominated setting would be the best; it was not chosen, so it does not count.
    frame.loc[(frame.part == "test") & (frame.rate == 0.3) & (frame.metric == "acc"), "value"] = 0.99
    found = compare.fronts(frame, 0.6).set_index("method")
    assert found.loc["fedavg", "mean"] == pytest.approx(0.2 * 0.3) and found.loc["b", "mean"] == pytest.approx(0.2 * 0.4)
    assert found.loc["b", ["gain", "verdict"]].tolist() == [pytest.approx(0.02), "better"]
    assert compare.failed(frame).set_index("method")[["failed", "runs"]].to_numpy().tolist() == [[0, 6], [1, 18]]


def test_hypervolumes_are_compared_by_paired_intervals():
    frame = noisy()
    values = compare.volumes(frame, 0.5)
    found = compare.fronts(frame, 0.5).set_index("method")
    for method in ("b", "c"):
        wanted = ttest_rel(values.loc[("own", method)], values.loc[("own", "fedavg")]).confidence_interval(0.95)
        assert tuple(found.loc[method, ["low", "high"]]) == pytest.approx((wanted.low, wanted.high))


# Regret


def test_regret_is_what_the_program_could_have_had_at_the_same_gap():
    gaps = np.array([0.0, 0.021, 0.1, 0.17, 0.3, 0.333])
    best = np.array([attainable(gap, "eod") for gap in gaps])
    frame = tidy({
        ("fedavg", 0.0, 0.1): {"acc": best, "eod": gaps * [1, -1, 1, -1, 1, -1]},
        ("b", 0.0, 0.1): {"acc": best - 0.03, "eod": gaps},
    })  # fmt: skip
    found = compare.regret(frame, "accurate").set_index("method")
    assert found.loc["fedavg", "regret"] == pytest.approx(0, abs=2e-4)
    assert found.loc["b", "regret"] == pytest.approx(0.03, abs=2e-4)
    assert found.loc["b", "eod"] == pytest.approx(gaps.mean())


def test_nobody_has_less_regret_than_nothing_when_rows_are_the_whole_population():
    """Random rules by the true chances: their accuracy is below the best one at their gap, and the best rule is among them."""
    share, positive = chances()
    eta = np.broadcast_to(positive, share.shape)
    rng = np.random.default_rng(0)
    for _ in range(200):
        rule = rng.random(share.shape) ** rng.choice([0.1, 1, 10])
        acc = (share * (rule * eta + (1 - rule) * (1 - eta))).sum()
        rate = (share * eta * rule).sum((0, 2)) / (share * eta).sum((0, 2))
        assert acc <= attainable(abs(rate[0] - rate[1]), "eod") + 1e-9
    free = linprog(-(share * (2 * eta - 1)).ravel(), bounds=(0, 1))
    assert (share * (1 - eta)).sum() - free.fun == pytest.approx(attainable(1.0, "eod"))


# Names


def test_every_method_and_metric_has_its_place_once():
    placed = [method for group in compare.FOR_WHOM.values() for method in group]
    assert sorted(placed) == sorted(set(protocol.CONTESTANTS) - {"fedavg"})
    assert set(compare.WORDS) == set(protocol.MARGINS)
    for kind, group in compare.FOR_WHOM.items():
        for method in group:
            card = methodcards.load(type(protocol.CONTESTANTS[method][0].method).__name__).compares
            if method not in ("local", "global"):  # FedAvg with other weights of rows
                assert {"groups of people": "groups", "groups inside clients": "groups inside", "clients": "clients",
                        "several models": ""}[kind] in card  # fmt: skip


# Stored results


def test_a_stored_result_says_what_the_runs_said(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    here, there = noisy(), noisy(1).assign(federation="another")
    wide = pd.concat([runs.stored(one.drop(columns="federation"), "made", one["federation"].iloc[0]) for one in (here, there)])
    results.save("arena/made", wide, parameters={}, seconds=1, command="", datasets=())
    compare.load.cache_clear()
    try:
        assert len(compare.load("made")) == len(here) + len(there)
        found = compare.everywhere(lambda one: compare.verdicts(one, "fair"), ("made",))
        direct = pd.concat([compare.verdicts(one, "fair") for one in (here, there)])
        both = found.merge(direct, on=["federation", "method", "metric"], suffixes=("", " direct"))
        apart = both[["gain", "low", "high"]].to_numpy() - both[["gain direct", "low direct", "high direct"]].to_numpy()
        assert (np.abs(apart).max(1) <= both["metric"].map(lambda metric: 2 * 10.0 ** -runs.DIGITS[metric])).all()
        assert set(found["dataset"]) == {"made"} and len(both) == 2 * 3 * len(protocol.MARGINS)
        assert compare.counts(found, ["method"]).to_numpy().sum() == 2 * 2 * len(protocol.MARGINS)
        with pytest.raises(FairFLError, match="There is no result of the arena 'mada'"):
            compare.load("mada")
    finally:
        compare.load.cache_clear()
