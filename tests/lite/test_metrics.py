"""Metrics against fairlearn and scikit-learn, hand-worked cases, and undefined ones."""

import warnings
from functools import partial

import numpy as np
import pytest
from fairlearn import metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, matthews_corrcoef

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError

close = partial(np.testing.assert_allclose, atol=1e-12)


def count(a, y, p):
    out = np.zeros((2, 2, 2), np.int64)
    np.add.at(out, (a, y, p), 1)
    return out


def by_group(function, a, y, p, group):
    return function(y[a == group], p[a == group])


rows = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(rows, st.integers(12, 60))
def test_against_fairlearn_and_scikit_learn(seed, n):
    rng = np.random.default_rng(seed)
    a, y, p = rng.integers(0, 2, (3, n))
    a[:4], y[:4] = [0, 0, 1, 1], [0, 1, 0, 1]
    c = count(a, y, p)
    rate = {"sensitive_features": a}
    tpr = oracle.MetricFrame(metrics=oracle.true_positive_rate, y_true=y, y_pred=p, **rate).by_group
    fpr = oracle.MetricFrame(metrics=oracle.false_positive_rate, y_true=y, y_pred=p, **rate).by_group
    sel = oracle.MetricFrame(metrics=oracle.selection_rate, y_true=y, y_pred=p, **rate).by_group
    close(metrics.eod(c), tpr[0] - tpr[1])
    close(metrics.spd(c), sel[0] - sel[1])
    close(abs(metrics.eod(c)), oracle.equal_opportunity_difference(y, p, **rate))
    close(abs(metrics.spd(c)), oracle.demographic_parity_difference(y, p, **rate))
    close(metrics.accuracy(c), accuracy_score(y, p))
    close(metrics.positive_rate(c), oracle.selection_rate(y, p))
    close(metrics.balanced_accuracy(c), balanced_accuracy_score(y, p))
    close(metrics.mcc(c), matthews_corrcoef(y, p))
    f1 = [by_group(lambda u, v: f1_score(u, v, zero_division=np.nan), a, y, p, g) for g in (0, 1)]
    close(metrics.di(c), f1[0] - f1[1])
    if sel.max() > 0:
        close(metrics.sp_ratio(c), oracle.demographic_parity_ratio(y, p, **rate))
    if tpr.max() > 0:
        close(metrics.eo_ratio(c), oracle.equal_opportunity_ratio(y, p, **rate))
    if tpr.max() > 0 and fpr.max() > 0:
        mean = oracle.equalized_odds_ratio(y, p, agg="mean", **rate)
        close(metrics.eqo_ratio(c), mean)


def test_a_stack_is_the_stack_of_its_parts():
    counts = np.random.default_rng(0).integers(1, 9, (3, 4, 2, 2, 2))
    for metric in metrics.MODEL.values():
        stacked = metric(counts)
        assert stacked.shape == (3, 4)
        for place in np.ndindex(3, 4):
            np.testing.assert_allclose(stacked[place], metric(counts[place]))


def test_undefined_is_nan_and_zero_is_a_value():
    counts = np.zeros((2, 2, 2), int)
    counts[0, 1] = [5, 0]  # group 0: five positives, none found
    counts[1, 0] = [4, 1]  # group 1: no positives at all
    assert np.isnan(metrics.eod(counts))
    assert metrics.spd(counts) == pytest.approx(0 - 1 / 5)
    counts[1, 1] = [0, 2]
    assert metrics.eod(counts) == -1.0
    assert metrics.eo_ratio(counts) == 0.0
    counts[1, 1] = [2, 0]
    assert metrics.eo_ratio(counts) == 0.0  # both rates are 0: uninformative, not perfect
    assert np.isnan(metrics.spd(np.zeros((2, 2, 2), int)))
    assert np.isnan(metrics.accuracy(np.zeros((2, 2, 2), int)))


def rates(p0, p1, n=1000):
    """Counts of two groups of n rows, all of label 1, of which these shares are chosen."""
    out = np.zeros((2, 2, 2), np.int64)
    out[:, 1, 1] = round(p0 * n), round(p1 * n)
    out[:, 1, 0] = n - out[:, 1, 1]
    return out


def test_sp_as_coded_by_hand():
    dutch = rates(0.29, 0.63)  # selection rates of about those of FedAvg on Dutch
    close(metrics.fairness(dutch, "sp"), 0.29 / 0.63)
    close(metrics.fairness(dutch, "sp", sp_as_coded=True), (0.29 / 1.29) / (0.63 / 1.63))
    assert metrics.fairness(dutch, "sp", rounded=True) == 0.46
    assert metrics.fairness(dutch, "sp", sp_as_coded=True, rounded=True) == 0.58
    close(metrics.MODEL["sp_code"](dutch), (0.29 / 1.29) / (0.63 / 1.63))
    close(metrics.MODEL["positive"](dutch), 0.46)


def test_the_zero_rule_by_hand():
    all_found = rates(1.0, 1.0)  # TPR 1 in both groups: perfectly fair, and 0 as coded
    assert metrics.fairness(all_found, "eo") == 1 and metrics.fairness(all_found, "eo", zero_rule=True) == 0
    assert metrics.fairness(rates(0.8, 1.0), "eo", zero_rule=True) == 0  # FN = 0 in one group is enough
    assert metrics.fairness(all_found, "sp", zero_rule=True) == 0  # true SP: a constant classifier
    assert metrics.MODEL["sp_code"](all_found) == 1  # as coded, only "nobody chosen" is caught
    for metric in metrics.FAIRNESS:
        assert metrics.MODEL[f"{metric}_code"](rates(0.0, 0.0)) == 0
        assert metrics.MODEL[f"{metric}_code"](np.zeros((2, 2, 2), int)) == 0
    both = np.array([[[6, 4], [0, 10]], [[2, 8], [5, 5]]])  # TPR 1 and .5, FPR .4 and .8
    close(metrics.fairness(both, "eqo"), (0.5 + 0.5) / 2)
    close(metrics.fairness(both, "eqo", zero_rule=True), (0 + 0.5) / 2)  # each ratio by itself


def test_each_ratio_is_turned_by_itself_and_rounded_as_python_rounds():
    crossed = np.array([[[40, 60], [70, 30]], [[70, 30], [40, 60]]])  # FPR .6 and .3, TPR .3 and .6
    close(metrics.fairness(crossed, "eqo"), 0.5)
    odd = np.array([[[55, 45], [30, 70]], [[0, 100], [0, 100]]])  # ratios .45 and .70: their mean is just below .575
    assert metrics.fairness(odd, "eqo", rounded=True) == round((0.45 + 0.70) / 2, 2) == 0.57
    twice = np.array([[[560, 440], [554, 446]], [[0, 1000], [0, 1000]]])  # .440 and .446, of which the mean is .443
    for stacked in (twice, twice[None]):
        assert metrics.fairness(stacked, "eqo", rounded=True) == round((0.44 + 0.45) / 2, 2) == 0.45


@settings(max_examples=200)
@given(rows, st.integers(1, 20))
def test_ratios_are_symmetric_in_the_groups_and_ordered(seed, high):
    c = np.random.default_rng(seed).integers(0, high, (6, 2, 2, 2))
    for metric in metrics.FAIRNESS:
        for options in ({}, {"zero_rule": True}, {"sp_as_coded": True}, {"zero_rule": True, "sp_as_coded": True}):
            value = metrics.fairness(c, metric, **options)
            np.testing.assert_array_equal(value, metrics.fairness(c[:, ::-1], metric, **options))
            assert ((value >= 0) & (value <= 1) | np.isnan(value)).all()
            assert not ("zero_rule" in options and np.isnan(value).any())
        true = metrics.MODEL[metric](c)
        ruled = metrics.fairness(c, metric, zero_rule=True)
        assert (ruled <= true + 1e-12)[~np.isnan(true)].all()
        inside = (c > 0).all((-3, -2, -1))
        close(ruled[inside], true[inside])
    true, coded = metrics.MODEL["sp"](c), metrics.MODEL["sp_code"](c)
    assert (coded >= true - 1e-12)[~np.isnan(true)].all()


def test_unknown_fairness_metric_names_the_nearest():
    with pytest.raises(FairFLError, match="did you mean 'eqo'"):
        metrics.fairness(np.ones((2, 2, 2)), "eqodds")


def test_statistics_over_clients():
    values = np.array([0.5, 0.7, 0.9, np.nan])
    assert metrics.spread(values) == pytest.approx(np.sqrt(0.08 / 3))
    assert metrics.variance(values) == pytest.approx(0.08 / 3)
    hundred = np.random.default_rng(0).permutation(np.arange(100.0))
    assert metrics.tail(hundred) == pytest.approx(4.5)
    assert metrics.tail(hundred, best=True) == pytest.approx(94.5)
    assert metrics.tail(values) == 0.5 and metrics.tail(values, best=True) == 0.9


def test_clients_without_rows_leave_statistics_alone_and_nobody_is_warned():
    nan = np.nan
    values = np.array([[0.5, nan, 0.7, 0.9], [nan, nan, nan, nan], [nan, 0.4, nan, nan]])
    counts = np.zeros((2, 3, 2, 2, 2), int)
    counts[0, :, 0, 1] = [[3, 1], [0, 0], [1, 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {name: statistic(values) for name, statistic in metrics.CLIENTS.items()}
        close(metrics.of_federation("var_acc", counts), [0.015625, nan])
    for name, statistic in (("var_acc", np.var), ("std_acc", np.std), ("worst_acc", np.min), ("best_acc", np.max)):
        close(found[name], [statistic([0.5, 0.7, 0.9]), nan, statistic([0.4])])


def test_interval_is_students():
    from scipy.stats import ttest_1samp

    values = np.random.default_rng(1).normal(size=20)
    mean, low, high = metrics.interval(np.append(values, np.nan))
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean, low, high) == pytest.approx((values.mean(), expected.low, expected.high))
    assert np.isnan(metrics.interval([1.0])[1])


def test_unknown_metric_is_one_sentence():
    with pytest.raises(FairFLError, match="choose among"):
        metrics.of_federation("eodd", np.ones((1, 2, 2, 2, 2)))


# EFFL's deviations over groups.


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows, st.integers(12, 80), st.integers(2, 4))
def test_deviations_over_groups_against_fairlearn(seed, n, groups):
    rng = np.random.default_rng(seed)
    a, (y, p) = rng.integers(0, groups, n), rng.integers(0, 2, (2, n))
    c = np.zeros((groups, 2, 2), np.int64)
    np.add.at(c, (a, y, p), 1)
    positive = y == 1
    sel = oracle.MetricFrame(metrics=oracle.selection_rate, y_true=y, y_pred=p, sensitive_features=a).by_group
    acc = oracle.MetricFrame(metrics=accuracy_score, y_true=y, y_pred=p, sensitive_features=a).by_group
    close(metrics.apsd(c), sel.std(ddof=0))
    close(metrics.apsd_acc(c), acc.std(ddof=0))
    if positive.any():
        among = {"y_true": y[positive], "y_pred": p[positive], "sensitive_features": a[positive]}
        close(metrics.tpsd(c), oracle.MetricFrame(metrics=oracle.true_positive_rate, **among).by_group.std(ddof=0))
    if groups == 2 and len(acc) == 2:
        close(metrics.apsd(c), abs(metrics.spd(c)) / 2)
        if not np.isnan(metrics.eod(c)):
            close(metrics.tpsd(c), abs(metrics.eod(c)) / 2)


def test_deviations_over_groups_by_hand():
    c = np.array([[[2, 2], [1, 3]], [[0, 0], [0, 0]], [[1, 0], [2, 2]]])  # [a, y, yhat]; nobody is in group 1
    close(metrics.tpsd(c), abs(3 / 4 - 2 / 4) / 2)
    close(metrics.apsd(c), abs(5 / 8 - 2 / 5) / 2)
    close(metrics.apsd_acc(c), abs(5 / 8 - 3 / 5) / 2)
    alone, nobody = c * np.array([1, 0, 0])[:, None, None], 0 * c
    for metric in ("tpsd", "apsd", "apsd_acc"):
        assert metrics.MODEL[metric](alone) == 0 and np.isnan(metrics.MODEL[metric](nobody))
        close(metrics.MODEL[metric](np.stack([c, alone])), [metrics.MODEL[metric](c), 0])
    no_positives = c.copy()
    no_positives[2, 1] = 0
    assert metrics.tpsd(no_positives) == 0 and metrics.apsd(no_positives) > 0
    no_positives[:, 1] = 0
    assert np.isnan(metrics.tpsd(no_positives))


def test_deviations_of_three_classes_are_the_largest_over_classes():
    c = np.array([[[4, 0, 0], [1, 1, 0], [0, 0, 0]], [[1, 1, 2], [0, 2, 0], [0, 0, 0]]])
    close(metrics.tpsd(c), max(abs(4 / 4 - 1 / 4), abs(1 / 2 - 2 / 2)) / 2)  # class 2 has no rows
    close(metrics.apsd(c), max(abs(5 / 6 - 1 / 6), abs(1 / 6 - 3 / 6), abs(0 - 2 / 6)) / 2)
    close(metrics.apsd_acc(c), abs(5 / 6 - 3 / 6) / 2)


def test_what_effl_prints_over_clients():
    rng = np.random.default_rng(0)
    c = rng.integers(1, 9, (2, 5, 3, 2, 2, 2))  # [run, round, client, a, y, yhat]
    for metric in ("acc", "tpsd", "apsd_acc"):
        each = metrics.MODEL[metric](c)
        close(metrics.of_federation(f"mean_{metric}", c), each.mean(-1))
        close(metrics.of_federation(f"std_{metric}", c), each.std(-1))
        close(metrics.of_federation(f"sd_{metric}", c), each.std(-1, ddof=1))
    c[0, 0, 1] = 0  # a client without rows is left out
    close(metrics.of_federation("sd_acc", c)[0, 0], np.std(metrics.accuracy(c[0, 0, [0, 2]]), ddof=1))
    close(metrics.of_federation("mean_acc", c)[0, 0], np.mean(metrics.accuracy(c[0, 0, [0, 2]])))
    assert np.isnan(metrics.of_federation("sd_acc", c[:, :, :1])).all() and metrics.of_clients("mean_acc", c) is None
    assert np.isnan(metrics.mean(np.full(3, np.nan)))
    with pytest.raises(FairFLError, match="no metric 'mean_nothing'"):
        metrics.of_federation("mean_nothing", c)
