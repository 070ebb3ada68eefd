"""Metrics against fairlearn and scikit-learn, hand-worked cases, and undefined ones."""

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


def test_statistics_over_clients():
    values = np.array([0.5, 0.7, 0.9, np.nan])
    assert metrics.spread(values) == pytest.approx(np.sqrt(0.08 / 3))
    assert metrics.variance(values) == pytest.approx(0.08 / 3)
    hundred = np.random.default_rng(0).permutation(np.arange(100.0))
    assert metrics.tail(hundred) == pytest.approx(4.5)
    assert metrics.tail(hundred, best=True) == pytest.approx(94.5)
    assert metrics.tail(values) == 0.5 and metrics.tail(values, best=True) == 0.9


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
