"""The table of all metrics, each value against fairlearn, scikit-learn or a formula by hand, from single rows."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fairlearn import metrics as oracle
from sklearn.metrics import accuracy_score, log_loss, recall_score
from toy import federation, rows, uneven

from fairfl_lite import metrics
from fairfl_lite.clients import ClientTraining
from fairfl_lite.data import Partition
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Federation
from fairfl_lite.methods import FairFed, FedAvg, GroupThresholds, LocalOnly
from fairfl_lite.scores import crossed, scorecard

pytestmark = pytest.mark.slow

LOCAL = ClientTraining("sgd", 0.2, 0, 1, 10)
OTHER = np.random.default_rng(5).integers(0, 3, 400)
METHODS = [FedAvg(), FairFed(), GroupThresholds("spd", bins=20)]


@pytest.fixture(scope="module")
def fed():
    return Federation.of(rows(), Partition.dirichlet(1.0, 4, over="sensitive+label"), (0, 1), LOCAL, minimum=10, test=0.4)


@pytest.fixture(scope="module")
def runs(fed):
    return fed.run(METHODS, 5)


@pytest.fixture(scope="module")
def own(fed):
    return fed.run(LocalOnly(), 5)


@pytest.fixture(scope="module")
def table(fed, runs, own):
    frame = scorecard(fed, runs, own=own, crossed_with=OTHER)
    return frame.set_index(["method", "seed", "metric"])["value"].sort_index()


def predictions(fed, answer, r, thresholds=None):
    """Labels, groups, second attribute, scores, predictions and client of every test row of a run, from the rows themselves."""
    part, out = fed.shards["test"], []
    for k in range(part.clients):
        i = part.rows(r, k)
        theta = (answer[r] if answer[r].ndim == 1 else answer[r][k]).astype(float)
        score = 1 / (1 + np.exp(-(fed.inputs(part.X[i].astype(float), r) @ theta[:-1] + theta[-1])))
        limit = 0.5 if thresholds is None else thresholds[r][part.a[i]]
        out.append(np.column_stack([part.y[i], part.a[i], OTHER[i], score, score > limit, np.full(len(i), k)]))
    return np.concatenate(out).T


def each_method(fed, runs):
    for label, history in runs.items():
        for r, seed in enumerate(fed.seeds):
            limits = history.state.memory.get("thresholds")
            yield label, seed, predictions(fed, history.state.params, r, limits)


def test_of_all_rows_against_fairlearn(fed, runs, table):
    for label, seed, (y, a, _, _, p, _) in each_method(fed, runs):
        value, by = table[label, seed], {"sensitive_features": a}
        assert value["acc"] == pytest.approx(accuracy_score(y, p))
        assert abs(value["eod"]) == pytest.approx(oracle.equal_opportunity_difference(y, p, **by))
        assert abs(value["spd"]) == pytest.approx(oracle.demographic_parity_difference(y, p, **by))
        assert value["equalised_odds"] == pytest.approx(oracle.equalized_odds_difference(y, p, **by))
        ratio = oracle.demographic_parity_ratio(y, p, **by)
        assert min(value["impact"], 1 / value["impact"]) == pytest.approx(ratio) and (value["impact"] < 1) == (value["spd"] < 0)
        frame = oracle.MetricFrame(metrics=accuracy_score, y_true=y, y_pred=p, **by)
        assert value["worst_group"] == pytest.approx(frame.group_min())
        rate = oracle.MetricFrame(metrics=oracle.selection_rate, y_true=y, y_pred=p, **by).by_group
        assert value["apsd"] == pytest.approx(rate.std(ddof=0))
        assert value["tpsd"] == pytest.approx(abs(value["eod"]) / 2)


def test_inside_and_between_clients(fed, runs, table):
    for label, seed, (y, a, _, _, p, k) in each_method(fed, runs):
        value = table[label, seed]
        accuracy, eod, spd = [], [], []
        for client in range(4):
            mine = k == client
            by = {"sensitive_features": a[mine]}
            accuracy.append(accuracy_score(y[mine], p[mine]))
            spd.append(oracle.demographic_parity_difference(y[mine], p[mine], **by) if np.ptp(a[mine]) else np.nan)
            rates = [recall_score(y[mine & (a == g)], p[mine & (a == g)], zero_division=np.nan) for g in (0, 1) if
                     (mine & (a == g) & (y == 1)).any()]  # fmt: skip
            eod.append(abs(rates[0] - rates[1]) if len(rates) == 2 else np.nan)
        for name, gaps in (("eod", eod), ("spd", spd)):
            assert value[f"local_{name}"] == pytest.approx(np.nanmean(gaps))
            assert value[f"most_{name}"] == pytest.approx(np.nanmax(gaps))
        assert value["min_acc"] == value["worst_acc"] == pytest.approx(min(accuracy))
        assert value["var_acc"] == pytest.approx(np.var(accuracy)) and value["equality"] == pytest.approx(np.std(accuracy))
        assert value["jain_acc"] == pytest.approx(sum(accuracy) ** 2 / (4 * sum(x**2 for x in accuracy)))
        held = fed.shards["train"].census()[fed.seeds.index(seed)].sum(2)
        groups = [[x for x, rows_of in zip(accuracy, held, strict=True) if (rows_of[1] > rows_of[0]) == g] for g in (False, True)]
        assert value["equity"] == pytest.approx(np.std([np.mean(group) for group in groups if group]))


def test_ranks_by_counting(fed, runs, table):
    for seed in fed.seeds:
        accuracy = {}
        for label, other, (y, _, _, _, p, k) in each_method(fed, runs):
            if other == seed:
                accuracy[label] = [np.mean(y[k == client] == p[k == client]) for client in range(4)]
        for label, mine in accuracy.items():
            ranks = [sum(theirs[k] >= mine[k] for theirs in accuracy.values()) / 3 for k in range(4)]
            assert table[label, seed, "worst_rank"] == pytest.approx(max(ranks))
            assert table[label, seed, "mean_rank"] == pytest.approx(np.mean(ranks))


def test_against_the_clients_own_models(fed, runs, own, table):
    for label, seed, (y, _, _, score, p, k) in each_method(fed, runs):
        _, _, _, alone, by_own, _ = predictions(fed, own.answer, fed.seeds.index(seed))
        gains, excess = [], []
        for client in range(4):
            mine = k == client
            gains.append(np.mean(y[mine] == p[mine]) - np.mean(y[mine] == by_own[mine]))
            excess.append(log_loss(y[mine], score[mine], labels=[0, 1]) - log_loss(y[mine], alone[mine], labels=[0, 1]))
        value = table[label, seed]
        assert value["mean_gain"] == pytest.approx(np.mean(gains)) and value["worst_gain"] == pytest.approx(min(gains))
        assert value["losers"] == np.mean(np.array(gains) < 0)
        if label == "group-thresholds":
            assert np.isnan(value["mean_loss_over_own"]) and np.isnan(value["worst_loss_over_own"])
        else:
            assert value["mean_loss_over_own"] == pytest.approx(np.mean(excess), abs=1e-5)
            assert value["worst_loss_over_own"] == pytest.approx(max(excess), abs=1e-5)


def test_intersections_against_fairlearn(fed, runs, table):
    for label, seed, (y, a, other, _, p, _) in each_method(fed, runs):
        value, by = table[label, seed], {"sensitive_features": np.column_stack([a, other])}
        assert value["pair_worst"] == pytest.approx(
            oracle.MetricFrame(metrics=accuracy_score, y_true=y, y_pred=p, **by).group_min()
        )
        assert value["pair_spd"] == pytest.approx(oracle.demographic_parity_difference(y, p, **by))
        rates = [p[(a == g) & (other == h) & (y == 1)].mean() for g in (0, 1) for h in range(3)]
        assert value["pair_eod"] == pytest.approx(max(abs(u - v) for u, v in combinations(rates, 2)))


def test_pairs_add_up_to_the_groups(fed):
    pairs = crossed(fed, np.array(["x", "y", "z"])[OTHER])
    census = pairs.shards["test"].census()
    np.testing.assert_array_equal(census.reshape(2, 4, 2, 3, 2).sum(3), fed.shards["test"].census())


def test_one_history_has_no_ranks_and_a_part_that_was_not_recorded_is_asked(fed, runs):
    frame = scorecard(fed, runs["fairfed"], on="train")
    assert not frame.metric.str.contains("rank").any() and set(frame.method) == {"fairfed"}
    again = fed.run(FairFed(), 5, record=("train",))
    assert frame.equals(scorecard(fed, again, on="train"))


def test_more_groups_and_classes_have_what_makes_sense():
    fed = federation([40, 60], groups=3, classes=3)
    frame = scorecard(fed, fed.run(FedAvg(), 1))
    assert set(frame.metric) == {"acc", "tpsd", "apsd", "worst_group", "min_acc", "worst_acc", "var_acc", "jain_acc", "equality",
                                 "equity"}  # fmt: skip


def test_what_a_scorecard_refuses(fed, runs):
    with pytest.raises(FairFLError, match="The history of fedavg has other seeds than the federation"):
        scorecard(replace(fed, seeds=(3, 4)), runs["fedavg"])
    with pytest.raises(FairFLError, match="Every client needs rows of its own in part 'test'"):
        scorecard(uneven(LOCAL), uneven(LOCAL).run(FedAvg(), 1))
    with pytest.raises(FairFLError, match="crossed_with needs one value for each of 400 rows, not values of shape .7,"):
        scorecard(fed, runs, crossed_with=np.zeros(7))


def test_new_statistics_by_hand():
    values = np.array([[0.5, np.nan, 1.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_allclose(metrics.worst(values), [0.5, np.nan])
    np.testing.assert_allclose(metrics.jain(values), [2.25 / (2 * 1.25), np.nan])
    assert metrics.jain(np.full(7, 0.3)) == pytest.approx(1) and metrics.jain(np.eye(5)[0]) == pytest.approx(1 / 5)
    gaps = np.array([0.2, -0.6, np.nan])
    assert metrics.mean_size(gaps) == pytest.approx(0.4) and metrics.largest_size(gaps) == pytest.approx(0.6)
    assert metrics.farthest_apart(gaps) == pytest.approx(0.8) and np.isnan(metrics.farthest_apart(values))[1]
    counts = np.array([[[6, 4], [0, 10]], [[2, 8], [5, 5]]])  # selection rates .7 and .65, TPR 1 and .5, FPR .4 and .8
    assert metrics.disparate_impact(counts) == pytest.approx(0.7 / 0.65)
    assert metrics.equalised_odds(counts) == pytest.approx(0.5) and metrics.worst_group(counts) == pytest.approx(7 / 20)
    nobody = np.array([[[5, 5], [5, 5]], [[9, 0], [9, 0]]])
    assert np.isnan(metrics.disparate_impact(nobody)) and metrics.worst_group(counts * [[[1]], [[0]]]) == pytest.approx(0.8)
    assert np.isnan(metrics.equalised_odds(np.array([[[5, 5], [5, 5]], [[9, 1], [0, 0]]])))
