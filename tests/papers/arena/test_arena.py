"""The arena: its budget, its federations, its rules of choice and judgement, and a comparison on a reader's own table."""

import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fairfl_book import cli
from fairfl_lite import metrics
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition, Table
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation, Method, State
from fairfl_lite.methods import FedAvg
from papers.arena import protocol, runs
from papers.arena.federations import (
    CROWDS,
    FEDERATIONS,
    MADE_CLIENTS,
    SIZES,
    TARGET,
    attainable,
    biased,
    chances,
    made,
    second,
)

pytestmark = pytest.mark.slow

LOCAL = ClientTraining("sgd", 0.1, 0, 1, 32)


def little(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.6).astype(np.int8)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = (X[:, 0] + 0.5 * a + rng.normal(size=n) > 0.2).astype(np.int8)
    return Table("little", X, y, a, ("u", "v", "w"), "a", {}, "digest")


# Protocol


def test_every_contestant_has_the_same_budget_and_nothing_twice():
    for name, settings in protocol.CONTESTANTS.items():
        assert len(settings) == protocol.BUDGET == 9
        assert {one.method.name for one in settings} == {name} and all(isinstance(one.method, Method) for one in settings)
        assert len({(one.level, one.rate) for one in settings}) == 9
        assert len({(repr(one.method), one.local) for one in settings}) == 9
        levels = Counter(one.level for one in settings)
        assert sorted(levels.values()) in ([3, 3, 3], [9])


def test_every_margin_has_a_reason_and_its_arithmetic_holds():
    assert all(margin > 0 and len(reason) > 5 for margin, reason in protocol.MARGINS.values())
    for rate, people, deviation in ((0.7, 1200, 0.013), (0.5, 300, 0.029), (0.3, 3000, 0.008)):
        assert np.sqrt(rate * (1 - rate) / people) == pytest.approx(deviation, abs=5e-4)
    assert np.sqrt(5) == pytest.approx(2, abs=0.25)  # of a fifth of the rows a rate deviates about twice as much
    assert set(protocol.LARGER) < set(protocol.MARGINS) <= set(runs.KEPT + runs.CROSSED)


def invented():
    """Two methods of two settings on three seeds."""
    rows = []
    given = {
        ("fedavg", 0.1): (0.80, 0.20),
        ("fedavg", 0.3): (0.791, 0.05),
        ("other", 0.1): (0.792, -0.04),
        ("other", 0.3): (0.78, 0.0),
    }
    for (method, rate), (acc, eod) in given.items():
        for seed in range(3):
            for part, off in (("validation", 0.0), ("test", 0.01 * seed)):
                for metric, value in (("acc", acc), ("eod", eod)):
                    rows.append(("own", method, 0.0, rate, part, seed, metric, value + off))
    return pd.DataFrame(rows, columns=["federation", "method", "level", "rate", "part", "seed", "metric", "value"])


def test_settings_are_chosen_on_validation_rows_by_the_rule():
    frame = invented()
    assert dict(protocol.chosen(frame, "accurate")[["method", "rate"]].values) == {"fedavg": 0.1, "other": 0.1}
    # Within a point of .80 are both of fedavg, of which .3 is fairer, and of the other's only .1.
    assert dict(protocol.chosen(frame, "fair")[["method", "rate"]].values) == {"fedavg": 0.3, "other": 0.1}
    turned = frame.copy()
    test = turned["part"] == "test"
    turned.loc[test, "value"] = 1 - turned.loc[test, "value"]
    pd.testing.assert_frame_equal(protocol.chosen(turned, "fair"), protocol.chosen(frame, "fair"))
    diverged = frame.copy()
    diverged.loc[(diverged.method == "fedavg") & (diverged.rate == 0.1) & (diverged.seed == 1), "value"] = np.nan
    assert dict(protocol.chosen(diverged, "accurate")[["method", "rate"]].values)["fedavg"] == 0.3
    diverged.loc[diverged.method == "other", "value"] = np.nan
    with pytest.raises(FairFLError, match="Every setting of other diverged in own: give it lower rates"):
        protocol.chosen(diverged, "accurate")


def test_verdicts_by_paired_intervals():
    rng = np.random.default_rng(0)
    base = rng.normal(0.8, 0.05, 20)
    cases = ((0.05, 0.01, "better"), (-0.05, 0.01, "worse"), (0.0, 0.005, "equal"), (0.01, 0.03, "cannot tell"))
    for shift, wobble, verdict in cases:
        mine = base + shift + wobble * rng.normal(size=20)
        found, mean, low, high = protocol.judged(mine, base, "acc")
        expected = ttest_rel(mine, base).confidence_interval(0.95)
        assert (found, mean) == (verdict, pytest.approx((mine - base).mean()))
        assert (low, high) == pytest.approx((expected.low, expected.high))
    # Of gaps it is the size that counts, and a smaller one is better.
    assert protocol.judged(np.full(5, -0.02) + 1e-3 * np.arange(5), np.full(5, 0.2), "eod")[0] == "better"
    assert protocol.judged(np.full(5, 0.2), np.full(5, -0.2) + 1e-3 * np.arange(5), "eod")[0] == "equal"
    with pytest.raises(FairFLError, match="There is no metric with a margin named 'auc'"):
        protocol.judged(base, base, "auc")


# Federations


@pytest.mark.parametrize("name", FEDERATIONS)
def test_a_federation_is_made_of_its_seeds_alone(name):
    one, both = (FEDERATIONS[name](little(), seeds, LOCAL) for seeds in ((4,), (3, 4)))
    for part in ("train", "validation", "test"):
        for k in range(one.clients):
            np.testing.assert_array_equal(one.shards[part].rows(0, k), both.shards[part].rows(1, k))
        taken = np.concatenate([one.shards[part].rows(0, k) for k in range(one.clients)])
        assert len(np.unique(taken)) == len(taken)


def gaps(fed, part="train"):
    """Share of positives of group 0 less that of group 1, [run, client]."""
    census = fed.shards[part].census()
    rate = census[..., 1] / census.sum(-1)
    return rate[..., 0] - rate[..., 1]


def test_biased_clients_reach_their_target_and_the_others_keep_their_rows():
    plain = Federation.of(little(), Partition.random(5), (0, 1), LOCAL, validation=0.2)
    fed = FEDERATIONS["opposite-bias"](little(), (0, 1), LOCAL)
    for part in ("train", "validation", "test"):
        found, within = gaps(fed, part), 0.6 / fed.shards[part].census().sum(-1).min()  # about half a row
        assert within < 0.05
        np.testing.assert_allclose(found[:, :2], -TARGET, atol=within)
        np.testing.assert_allclose(found[:, 3:], TARGET, atol=within)
        np.testing.assert_array_equal(found[:, 2], gaps(plain, part)[:, 2])
        for r in range(2):
            for k in range(5):
                kept, all_rows = fed.shards[part].rows(r, k), plain.shards[part].rows(r, k)
                gone = np.setdiff1d(all_rows, kept)
                assert set(kept) <= set(all_rows) and (k == 2) == (not len(gone))
                assert (little().y[gone] == 1).all() and (little().a[gone] == (0 if k < 2 else 1)).all()
    one_sided = gaps(FEDERATIONS["some-biased"](little(), (0, 1), LOCAL))
    assert (one_sided[:, :2] < -0.29).all() and (one_sided[:, 2:] > -0.25).all()
    census = biased({0: 0}, target=1.0)(little(), (0,), LOCAL).shards["train"].census()[0, 0]
    assert census[0, 1] == 0 and census[0, 0] > 0 and census[1, 1] > 0  # no more can be dropped


def test_unequal_clients_have_every_row_once_and_the_same_population():
    rows, fed = little(), FEDERATIONS["unequal-sizes"](little(), (0, 1), LOCAL)
    for part in ("train", "validation", "test"):
        sizes = fed.shards[part].census()[0].sum((1, 2))
        np.testing.assert_allclose(sizes / sizes.sum(), np.array(SIZES) / sum(SIZES), atol=1 / sizes.sum())
    for r in range(2):
        dealt = [fed.shards[part].rows(r, k) for part in ("train", "validation", "test") for k in range(fed.clients)]
        assert sorted(np.concatenate(dealt)) == list(range(len(rows)))
        large = fed.shards["train"].rows(r, 4)
        assert rows.y[large].mean() == pytest.approx(rows.y.mean(), abs=0.05)


def test_crowds_have_their_clients_and_some_of_them_take_part():
    fed = CROWDS["10-of-50"](little(6000), (0,), LOCAL)
    assert fed.clients == 50 and fed.one().sample_clients(1).size == 10
    assert CROWDS["5-clients"](little(), (0,), LOCAL).one().sample_clients(1).size == 5


def test_methods_that_need_everybody_are_those_that_refuse_some():
    fed = CROWDS["10-of-50"](little(6000), (0,), LOCAL)
    refused = set()
    for name, settings in protocol.CONTESTANTS.items():
        try:
            fed.run(settings[0].method, 1)
        except FairFLError as error:
            assert "needs every client in every round" in str(error)
            refused.add(name)
    assert refused == set(protocol.NEED_ALL)


def test_the_second_attribute_says_who_is_of_the_majority():
    rows = Table("adult", np.zeros((4, 1), np.float32), np.zeros(4, np.int8), np.zeros(4, np.int8), ("x",), "sex",
                 {"race": np.array(["White", "Black", "White", "Other"])}, "digest")  # fmt: skip
    assert second("adult", rows).tolist() == [True, False, True, False] and second("made", rows) is None


def test_clients_of_one_group_have_one_group():
    census = FEDERATIONS["one-group"](little(), (0,), LOCAL).shards["train"].census()[0].sum(2)
    assert (census[:2, 1] == 0).all() and (census[2:, 0] == 0).all() and (census.sum(1) > 0).all()


# The made federation


def by_sorting(limit, metric):
    """The best accuracy by another way: in each group the surest rows are chosen first, on a fine grid of rates."""
    share, positive = chances()
    whole, curves = 0.0, []
    for g in (0, 1):
        weight, eta = share[:, g].sum(0), positive[g]
        order = np.argsort(-eta)
        behind = (weight * (eta if metric == "eod" else 1))[order]
        gain = (weight * (2 * eta - 1))[order]
        at = np.append(0, behind.cumsum() / behind.sum())
        curves.append(np.interp(np.linspace(0, 1, 2001), at, np.append(0, gain.cumsum())))
        whole += (weight * (1 - eta)).sum()
    reach = int(round(limit * 2000))
    return whole + max((curves[0][i] + curves[1][max(0, i - reach) : i + reach + 1].max()) for i in range(2001))


@pytest.mark.parametrize("metric", ["spd", "eod"])
def test_the_best_attainable_accuracy_by_another_way(metric):
    share, positive = chances()
    assert share.sum() == pytest.approx(1) and (share > 0).all()
    found = [attainable(limit, metric) for limit in (0.0, 0.02, 0.1, 0.3, 1.0)]
    np.testing.assert_allclose(found, [by_sorting(limit, metric) for limit in (0.0, 0.02, 0.1, 0.3, 1.0)], atol=2e-3)
    assert found == sorted(found) and found[-1] == pytest.approx((share * np.maximum(positive, 1 - positive)).sum())
    assert found[-1] - found[0] > 0.01  # there is something to give up


def test_made_rows_are_drawn_from_the_truth_and_the_base_model_finds_it():
    rows = made(40_000, 0)
    share, positive = chances()
    for g in (0, 1):
        for level in range(positive.shape[1]):
            mine = (rows.a == g) & (rows.X[:, 0] == np.unique(rows.X[:, 0])[level])
            assert mine.mean() == pytest.approx(share[:, g, level].sum(), abs=0.01)
            assert rows.y[mine].mean() == pytest.approx(positive[g, level], abs=0.05)
    fed = Federation.of(rows, Partition.by_column("client"), (0,), LOCAL)
    assert fed.clients == MADE_CLIENTS
    assert fed.run(FedAvg(), 15).values("acc")[0, -1] == pytest.approx(attainable(1.0), abs=0.012)


# A cell, and a reader's own table


@pytest.fixture
def short(monkeypatch):
    """Three contestants with two settings each."""
    names = ("fedavg", "group-thresholds", "fedgft")
    few = {name: [protocol.CONTESTANTS[name][3], protocol.CONTESTANTS[name][5]] for name in names}
    monkeypatch.setattr(runs, "CONTESTANTS", few)
    return few


def test_a_cell_has_every_setting_on_both_parts_as_if_it_were_run_alone(short):
    settings = short["group-thresholds"]
    frame = runs.measured(little(600), FEDERATIONS["dirichlet-5"], settings, range(2), 3)
    assert len(frame) == 2 * 2 * 2 * len(runs.KEPT) and set(frame.part) == {"validation", "test"}
    fed = FEDERATIONS["dirichlet-5"](little(600), range(2), settings[1].local)
    for part in ("validation", "test"):
        counts = fed.run(settings[1].method, 3, record=(part,)).counts[part][:, -1]
        mine = frame[(frame.rate == settings[1].rate) & (frame.part == part)].set_index(["metric", "seed"])["value"]
        for metric in ("acc", "eod", "most_spd", "min_acc"):
            np.testing.assert_array_equal(mine[metric], metrics.of_federation(metric, counts))


def test_what_is_stored_is_what_was_measured_to_a_fortieth_of_a_margin(short):
    frame = runs.measured(little(600), FEDERATIONS["one-group"], short["fedavg"], range(2), 2)
    back = runs.tidy(runs.stored(frame, "little", "one-group"))
    keys = ["method", "level", "rate", "part", "seed", "metric"]
    wanted = frame[frame.metric.isin(protocol.MARGINS) & ((frame.part == "test") | frame.metric.isin(["acc", "eod"]))]
    both = wanted.merge(back, on=keys, how="outer", validate="one_to_one", indicator=True)
    lost = both[both["_merge"] != "both"]
    assert set(lost.metric) <= {"most_eod"} and lost.value_x.isna().all()  # no client has both groups, so it is never defined
    there = both[both["_merge"] == "both"]
    assert (there.value_x.isna() == there.value_y.isna()).all()
    assert (
        (there.value_y - there.value_x).abs().fillna(0) <= there.metric.map(lambda m: protocol.MARGINS[m][0]) / 40 + 1e-9
    ).all()
    assert set(back.dataset) == {"little"} and set(back.federation) == {"one-group"}


class Wild(FedAvg):
    """Its model leaves the numbers in the first round."""

    async def round(self, fed, state, t):
        return State(state.params * np.float32(np.nan), state.memory)


def test_a_diverged_setting_is_kept_without_metrics():
    usual = protocol.CONTESTANTS["fedavg"][3]
    frame = runs.measured(little(600), FEDERATIONS["dirichlet-5"], [protocol.Setting(Wild(), 1.0, 0.1), usual], [0], 2)
    assert frame[frame.level == 1].value.isna().all() and frame[frame.level == 0].query("metric == 'acc'").value.notna().all()


def test_a_comparison_that_was_stopped_goes_on_with_the_other_methods(short, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    written(tmp_path / "my.csv", little(600))
    own = runs.OwnTable.read(tmp_path / "my.csv", "paid", "sex", "region", "yes")
    usual, asked = runs.measured, []

    def measured(rows, make, settings, *more):
        if len(asked) == 1:
            raise KeyboardInterrupt
        asked.append(settings[0].method.name)
        return usual(rows, make, settings, *more)

    monkeypatch.setattr(runs, "measured", measured)
    with pytest.raises(KeyboardInterrupt):
        runs.compared(own, ["fedavg", "fedgft"], 2, 2)
    monkeypatch.setattr(runs, "measured", lambda *given: asked.append(given[2][0].method.name) or usual(*given))
    frame = runs.compared(own, ["fedavg", "fedgft"], 2, 2)
    assert asked == ["fedavg", "fedgft"] and set(frame.method) == set(asked)
    alone = usual(own.rows, own.make, short["fedavg"], range(2), 2)
    np.testing.assert_array_equal(frame[frame.method == "fedavg"].value, alone.value)
    written(tmp_path / "my.csv", little(600, seed=1))
    changed = runs.OwnTable.read(tmp_path / "my.csv", "paid", "sex", "region", "yes")
    assert len(runs.compared(changed, ["fedavg"], 2, 2)) == len(alone) and asked == ["fedavg", "fedgft", "fedavg"]
    with pytest.raises(FairFLError, match="my.csv changed while it was being compared: start again"):
        runs.compared(own, ["group-thresholds"], 2, 2)


def written(path, rows):
    """A table of four regions as a CSV file."""
    frame = pd.DataFrame(rows.X, columns=list(rows.features))
    frame["paid"], frame["sex"] = np.where(rows.y == 1, "yes", "no"), np.where(rows.a == 1, "m", "f")
    frame["region"] = np.array(list("nsew"))[np.arange(len(frame)) % 4]
    frame.to_csv(path, index=False)


def test_a_readers_own_table_is_compared(short, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FAIRFL_ROOT", str(tmp_path))
    rows = little(900)
    written(tmp_path / "my.csv", rows)
    given = ["arena", "--federation", str(tmp_path / "my.csv"), "--label", "paid", "--sensitive", "sex", "--clients", "region",
             "--favourable", "yes", "--seeds", "3", "--rounds", "4", "--out", str(tmp_path / "all.csv"),
             "--page", str(tmp_path / "front.html")]  # fmt: skip
    assert cli.main([*given, "--estimate"]) == 0
    said = capsys.readouterr().out
    assert "4 clients" in said and "takes about" in said and not (tmp_path / "all.csv").exists()
    assert cli.main(given) == 0
    said = capsys.readouterr().out
    for name in short:
        assert said.count(f"\n{name} ") == 2
    assert f"Open {tmp_path / 'front.html'}" in said
    whole = pd.read_csv(tmp_path / "all.csv")
    assert len(whole) == 3 * 2 * 2 * 3 * len(runs.KEPT)
    page = (tmp_path / "front.html").read_text()
    drawn = json.loads(re.search(r'id="front-data">(.*?)</script>', page)[1])
    assert drawn["datasets"] == {"my.csv": "my.csv"} and [len(one["settings"]) for one in drawn["methods"]] == [2, 2, 2]
    test = whole[(whole.part == "test") & (whole.metric == "eod")].assign(size=lambda rows: rows.value.abs())
    means = test.groupby(["method", "level", "rate"])["size"].mean()
    found = [number * 1e-4 for number in drawn["federations"][0]["values"]["eod"][0]]
    np.testing.assert_allclose(sorted(found), sorted(means), atol=6e-5)
    own = runs.OwnTable.read(tmp_path / "my.csv", "paid", "sex", "region", "yes")
    np.testing.assert_array_equal(own.rows.y, rows.y)
    assert own.rows.features == ("u", "v", "w") and own.rows.a.tolist() == rows.a.tolist()


def test_what_the_arena_refuses(tmp_path, capsys):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0, 1, 0], "g": list("abc"), "k": list("uvu")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FairFLError, match="The arena compares two groups, and g has 3: say --privileged VALUE"):
        runs.OwnTable.read(tmp_path / "t.csv", "y", "g", "k")
    with pytest.raises(FairFLError, match="There is no column of t.csv named 'kk'"):
        runs.OwnTable.read(tmp_path / "t.csv", "y", "g", "kk")
    with pytest.raises(FairFLError, match="cannot be read as a table: give a CSV file"):
        runs.OwnTable.read(tmp_path / "none.csv", "y", "g", "k")
    with pytest.raises(FairFLError, match="A limit of the gap is between 0 and 1, not 2"):
        attainable(2)
