"""Fairness and accuracy, computed from confusion counts.

Counts are an array of shape (..., groups, classes, classes): how many rows there are by group a, label y and prediction yhat.
Every metric takes a whole stack of counts and returns the stack of its values, so that all runs and clients cost one call. Of
two groups a = 1 is the privileged one, and of two classes 1 is the favourable one. Accuracy and EFFL's deviations over groups
take any number of groups and classes; what compares two groups refuses anything else.

A rate with no rows behind it is undefined and gives NaN, which passes on to whatever needs it; a rate of zero is a value.
Differences are unprivileged minus privileged, so a negative one means that the unprivileged group is worse off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fairfl_lite.errors import FairFLError, choose


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.divide(top, bottom, out=np.full(np.shape(bottom), np.nan), where=bottom > 0)


def binary(counts: np.ndarray, metric: str, *, two_groups: bool = True) -> np.ndarray:
    """The counts that were given, if they are of two classes and two groups.

    Otherwise a metric that compares two groups means nothing, and this is said.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction.
    metric : str
        What the error calls the metric.
    two_groups : bool
        Whether the number of groups matters too.

    Returns
    -------
    ndarray of shape (..., groups, classes, classes)
        ``counts``, as they are.

    Raises
    ------
    FairFLError
        If there are more than two classes or, with `two_groups`, not two groups.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> metrics.binary(metrics.counts_of([0, 1], [0, 1], [0, 1]), "eod").shape
    (2, 2, 2)
    """
    groups, classes = counts.shape[-3:-1]
    if classes != 2 or (two_groups and groups != 2):
        raise FairFLError(
            f"{metric} compares {'two groups in ' if two_groups else ''}a choice of two: there are {groups} groups "
            f"and {classes} classes, so ask for acc or a statistic of it over clients, or merge them to two."
        )
    return counts


def accuracy(counts: np.ndarray) -> np.ndarray:
    """Share of the rows that are predicted correctly, ``P(yhat = y)``.

    Groups are pooled, and there may be any number of groups and classes. It is undefined (NaN) without rows.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1].

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.accuracy(counts).round(3))
    0.714
    """
    return _ratio(np.einsum("...ayy->...", counts), counts.sum((-3, -2, -1)))


def balanced_accuracy(counts: np.ndarray) -> np.ndarray:
    """Mean of the true positive rate and the true negative rate, with both groups pooled.

    It needs two classes, and is undefined (NaN) where a label has no rows. A constant classifier has 0.5.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1].

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.balanced_accuracy(counts).round(3))
    0.65
    """
    pooled = binary(counts, "balanced_acc", two_groups=False).sum(-3)
    return (_ratio(pooled[..., 1, 1], pooled[..., 1, :].sum(-1)) + _ratio(pooled[..., 0, 0], pooled[..., 0, :].sum(-1))) / 2


def mcc(counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation of labels and predictions, with groups pooled.

    ``(tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn))``. It is 0 where a margin is empty, as for a constant
    classifier, and undefined (NaN) only without rows. It needs two classes.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [-1, 1]; 0 is no correlation.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.mcc(counts).round(3))
    0.3
    """
    pooled = binary(counts, "mcc", two_groups=False).sum(-3).astype(float)
    tn, fp, fn, tp = pooled[..., 0, 0], pooled[..., 0, 1], pooled[..., 1, 0], pooled[..., 1, 1]
    bottom = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    found = np.where(bottom > 0, (tp * tn - fp * fn) / np.where(bottom > 0, bottom, 1), 0.0)
    return np.where(pooled.sum((-2, -1)) > 0, found, np.nan)


def selection_rate(counts: np.ndarray) -> np.ndarray:
    """Share of each group that is predicted 1, ``P(yhat = 1 | a)``.

    It needs two classes, and is undefined (NaN) for a group without rows.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (..., groups)
        One rate for each group.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.selection_rate(counts).round(3))
    [0.5 1. ]
    """
    return _ratio(binary(counts, "a selection rate", two_groups=False)[..., 1].sum(-1), counts.sum((-2, -1)))


def positive_rate(counts: np.ndarray) -> np.ndarray:
    """Share of all rows that are predicted 1, ``P(yhat = 1)``, with groups pooled.

    A value of 0 or 1 gives a constant classifier away. It needs two classes.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1].

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.positive_rate(counts).round(3))
    0.714
    """
    return _ratio(binary(counts, "positive", two_groups=False)[..., 1].sum((-2, -1)), counts.sum((-3, -2, -1)))


def true_positive_rate(counts: np.ndarray) -> np.ndarray:
    """Share of each group's positives that are predicted 1, ``P(yhat = 1 | a, y = 1)``.

    It needs two classes, and is undefined (NaN) for a group without positives.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (..., groups)
        One rate for each group.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.true_positive_rate(counts).round(3))
    [0.667 1.   ]
    """
    return _ratio(binary(counts, "a true positive rate", two_groups=False)[..., 1, 1], counts[..., 1, :].sum(-1))


def false_positive_rate(counts: np.ndarray) -> np.ndarray:
    """Share of each group's negatives that are predicted 1, ``P(yhat = 1 | a, y = 0)``.

    It needs two classes, and is undefined (NaN) for a group without negatives.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (..., groups)
        One rate for each group.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.false_positive_rate(counts).round(3))
    [0. 1.]
    """
    return _ratio(binary(counts, "a false positive rate", two_groups=False)[..., 0, 1], counts[..., 0, :].sum(-1))


def f1(counts: np.ndarray) -> np.ndarray:
    """F1 score of each group, ``2 tp / (2 tp + fp + fn)``.

    It needs two classes, and is undefined (NaN) where a group has neither positives nor predictions of 1.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (..., groups)
        One score for each group.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.f1(counts).round(3))
    [0.8 0.8]
    """
    tp = binary(counts, "F1", two_groups=False)[..., 1, 1]
    return _ratio(2 * tp, 2 * tp + counts[..., 0, 1] + counts[..., 1, 0])


def eod(counts: np.ndarray) -> np.ndarray:
    """Equal opportunity difference, ``TPR(a=0) - TPR(a=1)``.

    A negative value means that the positives of the unprivileged group are found less often. It is undefined (NaN) where a
    group has no positives. It needs two classes and two groups; anything else is refused.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [-1, 1]; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.eod(counts).round(3))
    -0.333
    """
    rate = true_positive_rate(binary(counts, "eod"))
    return rate[..., 0] - rate[..., 1]


def spd(counts: np.ndarray) -> np.ndarray:
    """Statistical parity difference, ``P(yhat=1 | a=0) - P(yhat=1 | a=1)``.

    A negative value means that the unprivileged group is chosen less often. It is undefined (NaN) where a group has no rows.
    It needs two classes and two groups; anything else is refused.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [-1, 1]; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.spd(counts).round(3))
    -0.5
    """
    rate = selection_rate(binary(counts, "spd"))
    return rate[..., 0] - rate[..., 1]


def equalised_odds(counts: np.ndarray) -> np.ndarray:
    """Equalised odds difference, the larger of ``|TPR(a=0) - TPR(a=1)|`` and ``|FPR(a=0) - FPR(a=1)|``.

    It is undefined (NaN) where a group has no positives or no negatives. It needs two classes and two groups; anything else is
    refused.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1]; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.equalised_odds(counts).round(3))
    1.0
    """
    tpr, fpr = true_positive_rate(binary(counts, "equalised_odds")), false_positive_rate(counts)
    return np.maximum(np.abs(tpr[..., 0] - tpr[..., 1]), np.abs(fpr[..., 0] - fpr[..., 1]))


def di(counts: np.ndarray) -> np.ndarray:
    """Discrimination index, ``F1(a=0) - F1(a=1)``.

    A negative value means that the unprivileged group is served worse. It is undefined (NaN) where the F1 score of a group
    is. It needs two classes and two groups; anything else is refused.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [-1, 1]; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.di(counts).round(3))
    0.0
    """
    score = f1(binary(counts, "di"))
    return score[..., 0] - score[..., 1]


def _even(rate: np.ndarray) -> np.ndarray:
    """min(r0/r1, r1/r0) in [0, 1]: 1 is equal. Both rates 0 gives 0: it says nothing about either group."""
    return np.where(np.isnan(rate).any(-1), np.nan, np.nan_to_num(_ratio(rate.min(-1), rate.max(-1))))


def disparate_impact(counts: np.ndarray) -> np.ndarray:
    """Disparate impact, ``P(yhat=1 | a=0) / P(yhat=1 | a=1)``.

    A value below 1 means that the unprivileged group is chosen less often; the rule of four fifths asks for at least 0.8. It is
    undefined (NaN) where a group has no rows, or nobody of the privileged group is chosen. It needs two classes and two groups;
    anything else is refused.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values of at least 0; 1 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.disparate_impact(counts).round(3))
    0.5
    """
    rate = selection_rate(binary(counts, "impact"))
    return _ratio(rate[..., 0], rate[..., 1])


FAIRNESS = ("sp", "eo", "eqo")


def _two_decimals(values: np.ndarray) -> np.ndarray:
    """Python's round, as in the published code. numpy's multiplies by 100 first and so decides near ties otherwise, so those are
    left to Python."""
    rounded = np.asarray(np.round(values, 2))
    tie = np.abs(np.asarray(values) * 100 % 1 - 0.5) < 1e-6
    rounded[tie] = [round(value, 2) for value in np.asarray(values)[tie].tolist()]
    return rounded


def fairness(
    counts: np.ndarray, metric: str, *, zero_rule: bool = False, sp_as_coded: bool = False, rounded: bool = False
) -> np.ndarray:
    """FAIR-FATE's SP, EO and EQO (Eq. 2-4): ratios of the two groups' rates, the smaller over the larger.

    SP compares selection rates and EO true positive rates; EQO is the mean of that ratio and the one of false positive rates.
    The value is undefined (NaN) where a rate has no rows behind it, and two rates of 0 give 0. The options are what the
    published code does instead.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.
    metric : {"sp", "eo", "eqo"}
        Which of the three.
    zero_rule : bool
        A ratio is 0 if either group has none chosen or none left out. So a group whose positives are all found scores 0, as
        does a constant classifier, and nothing is undefined.
    sp_as_coded : bool
        SP of p / (1 + p) instead of the selection rates p: the group's size takes the place of those left out, also under the
        zero rule. It is never below the true ratio.
    rounded : bool
        Each ratio, and then their mean, to 2 decimals.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1]; 1 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.fairness(counts, "eo").round(3), metrics.fairness(counts, "eo", zero_rule=True))
    0.667 0.0
    """
    choose(metric, FAIRNESS, "fairness metric")
    binary(counts, metric)
    if metric == "sp":
        chosen = counts[..., 1].sum(-1)
        pairs = [(chosen, counts.sum((-2, -1)) if sp_as_coded else counts[..., 0].sum(-1))]
    else:
        labels = (1,) if metric == "eo" else (1, 0)
        pairs = [(counts[..., y, 1], counts[..., y, 0]) for y in labels]
    ratios = []
    for chosen, left in pairs:
        ratio = _even(_ratio(chosen, chosen + left))
        if zero_rule:
            ratio = np.where(((chosen == 0) | (left == 0)).any(-1), 0.0, ratio)
        ratios.append(_two_decimals(ratio) if rounded else ratio)
    mean = np.sum(ratios, axis=0) / len(ratios)
    return _two_decimals(mean) if rounded else mean


def sp_ratio(counts: np.ndarray) -> np.ndarray:
    """Statistical parity as a ratio of selection rates, the smaller over the larger (FAIR-FATE, Eq. 2).

    Undefined (NaN) where a group has no rows; two rates of 0 give 0. See `fairness` for the published code's version.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1]; 1 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.sp_ratio(counts).round(3))
    0.5
    """
    return fairness(counts, "sp")


def eo_ratio(counts: np.ndarray) -> np.ndarray:
    """Equal opportunity as a ratio of true positive rates, the smaller over the larger (FAIR-FATE, Eq. 3).

    Undefined (NaN) where a group has no positives; two rates of 0 give 0. See `fairness` for the published code's version.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1]; 1 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.eo_ratio(counts).round(3))
    0.667
    """
    return fairness(counts, "eo")


def eqo_ratio(counts: np.ndarray) -> np.ndarray:
    """Equalised odds: the mean of the ratios of true and of false positive rates (FAIR-FATE, Eq. 4).

    Each ratio is the smaller rate over the larger. Undefined (NaN) where a rate has no rows behind it; two rates of 0 give 0.
    See `fairness` for the published code's version.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1]; 1 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.eqo_ratio(counts).round(3))
    0.333
    """
    return fairness(counts, "eqo")


def _over_groups(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Population standard deviation of the rates top / bottom over the groups, the last axis, that have rows; 0 for one group
    alone, undefined (NaN) without any."""
    there = bottom > 0
    many = there.sum(-1)
    rate = np.where(there, top / np.where(there, bottom, 1), 0.0)
    off = np.where(there, rate - rate.sum(-1, keepdims=True) / np.maximum(many, 1)[..., None], 0.0)
    return np.where(many > 0, np.sqrt((off**2).sum(-1) / np.maximum(many, 1)), np.nan)


def tpsd(counts: np.ndarray) -> np.ndarray:
    """EFFL's true positive rate parity: the standard deviation over groups of ``P(yhat = 1 | a, y = 1)``.

    It is the population standard deviation, and for two groups ``|TPR(a=0) - TPR(a=1)| / 2``. A group without positives is
    left out, and with one group left the value is 0; it is undefined (NaN) only where nobody is positive. For more than two
    classes it is the largest over classes c of that of ``P(yhat = c | a, y = c)``, with classes without rows left out.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values of at least 0; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.tpsd(counts).round(3))
    0.167
    """
    hits, rows = np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(-1)  # [..., a, y]
    if counts.shape[-1] == 2:
        return _over_groups(hits[..., 1], rows[..., 1])
    return _largest([_over_groups(hits[..., c], rows[..., c]) for c in range(counts.shape[-1])])


def apsd(counts: np.ndarray) -> np.ndarray:
    """EFFL's APSD as printed, demographic parity: the standard deviation over groups of ``P(yhat = 1 | a)``.

    It is the population standard deviation. Groups without rows are left out, and with one group left the value is 0; it is
    undefined (NaN) without rows. For more than two classes it is the largest over classes c of that of ``P(yhat = c | a)``.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values of at least 0; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.apsd(counts).round(3))
    0.25
    """
    chosen, rows = counts.sum(-2), counts.sum((-2, -1))
    if counts.shape[-1] == 2:
        return _over_groups(chosen[..., 1], rows)
    return _largest([_over_groups(chosen[..., c], rows) for c in range(counts.shape[-1])])


def apsd_acc(counts: np.ndarray) -> np.ndarray:
    """APSD as its name says, accuracy parity: the standard deviation over groups of ``P(yhat = y | a)``.

    It is the population standard deviation, for any number of classes. Groups without rows are left out, and with one group
    left the value is 0; it is undefined (NaN) without rows.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values of at least 0; 0 is equal.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.apsd_acc(counts).round(3))
    0.042
    """
    return _over_groups(np.trace(counts, axis1=-2, axis2=-1), counts.sum((-2, -1)))


def worst_group(counts: np.ndarray) -> np.ndarray:
    """The accuracy of the group that is predicted worst, ``min over a of P(yhat = y | a)``.

    There may be any number of groups and classes, such as the intersections of two attributes. Groups without rows are left
    out; it is undefined (NaN) without rows.

    Parameters
    ----------
    counts : ndarray of shape (..., groups, classes, classes)
        Confusion counts by group, label and prediction, as `counts_of` makes them. Leading axes are kept.

    Returns
    -------
    ndarray of shape (...)
        Values in [0, 1].

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> counts = metrics.counts_of([1, 1, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1, 1], list("ffffmmm"))
    >>> print(metrics.worst_group(counts).round(3))
    0.667
    """
    return worst(_ratio(np.einsum("...yy->...", counts), counts.sum((-2, -1))))


def farthest_apart(rates: np.ndarray) -> np.ndarray:
    """How far the rates of any two groups are apart at most, over the last axis.

    Parameters
    ----------
    rates : ndarray of shape (..., groups)
        One rate for each group, such as those of `selection_rate`. Undefined ones (NaN) are left out.

    Returns
    -------
    ndarray of shape (...)
        The largest rate minus the smallest; NaN where no rate is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.farthest_apart(np.array([0.5, 0.2, np.nan, 0.4])).round(3))
    0.3
    """
    return -worst(-rates) - worst(rates)


def _largest(values: list[np.ndarray]) -> np.ndarray:
    """The largest of values that are defined."""
    return np.fmax.reduce(values)


def mean(values: np.ndarray) -> np.ndarray:
    """Mean over clients, the last axis.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        The mean; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.mean(np.array([0.9, 0.8, np.nan, 0.4])).round(3))
    0.7
    """
    n = (~np.isnan(values)).sum(-1)
    return np.where(n > 0, np.nansum(values, axis=-1) / np.maximum(n, 1), np.nan)


def sample_spread(values: np.ndarray) -> np.ndarray:
    """Sample standard deviation over clients, the last axis, as EFFL's tables print it.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        The deviation, divided by n - 1; NaN for one client alone.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.sample_spread(np.array([0.9, 0.8, np.nan, 0.4])).round(3))
    0.265
    """
    n = (~np.isnan(values)).sum(-1)
    off = values - mean(values)[..., None]
    return np.where(n > 1, np.sqrt(np.nansum(off**2, axis=-1) / np.maximum(n - 1, 1)), np.nan)


def spread(values: np.ndarray) -> np.ndarray:
    """Population standard deviation over clients, the last axis (Std-Acc.).

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        The deviation, divided by n; 0 for one client alone, and NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.spread(np.array([0.9, 0.8, np.nan, 0.4])).round(3))
    0.216
    """
    return _where_some(np.nanstd, values)


def variance(values: np.ndarray) -> np.ndarray:
    """Population variance over clients, the last axis.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        The square of `spread`; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.variance(np.array([0.9, 0.8, np.nan, 0.4])).round(3))
    0.047
    """
    return _where_some(np.nanvar, values)


def _where_some(statistic: Callable[..., np.ndarray], values: np.ndarray) -> np.ndarray:
    """A statistic over the last axis; undefined, without a warning, where all values are."""
    some = (~np.isnan(values)).any(-1)
    return np.where(some, statistic(np.where(some[..., None], values, 0.0), axis=-1), np.nan)


def tail(values: np.ndarray, share: float = 0.1, best: bool = False) -> np.ndarray:
    """Mean of the worst or the best share of the clients, the last axis.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.
    share : float
        Which share of the clients counts, rounded down to a whole number of at least one client.
    best : bool
        Take the largest values instead of the smallest.

    Returns
    -------
    ndarray of shape (...)
        The mean of those; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.tail(np.array([0.9, 0.8, np.nan, 0.4]), share=0.5))
    0.4
    """
    ordered = np.sort(values, axis=-1)
    n = (~np.isnan(values)).sum(-1)
    take = np.maximum(1, np.floor(share * n + 1e-9)).astype(int)
    place = np.arange(values.shape[-1])
    first = (n - take)[..., None] if best else np.zeros_like(n)[..., None]
    inside = (place >= first) & (place < first + take[..., None])
    return np.where(inside, ordered, 0.0).sum(-1) / np.where(n > 0, take, np.nan)


def worst(values: np.ndarray) -> np.ndarray:
    """The smallest of the values of clients, the last axis.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out.

    Returns
    -------
    ndarray of shape (...)
        The smallest; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.worst(np.array([0.9, 0.8, np.nan, 0.4])))
    0.4
    """
    some = (~np.isnan(values)).any(-1)
    return np.where(some, np.where(np.isnan(values), np.inf, values).min(-1, initial=np.inf), np.nan)


def jain(values: np.ndarray) -> np.ndarray:
    """Jain's index of the values of clients, the last axis: ``(sum v)^2 / (n sum v^2)``.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client, none of them negative. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        From 1 / n, where one client has everything, to 1, where all have the same; NaN where no value is defined or all are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.jain(np.array([0.9, 0.8, np.nan, 0.4])).round(3))
    0.913
    """
    n = (~np.isnan(values)).sum(-1)
    return _ratio(np.nansum(values, axis=-1) ** 2, n * np.nansum(values**2, axis=-1))


def mean_size(values: np.ndarray) -> np.ndarray:
    """Mean over clients, the last axis, of the sizes of values that may be negative, such as gaps.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out, and all others weigh alike.

    Returns
    -------
    ndarray of shape (...)
        The mean of ``|v|``; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.mean_size(np.array([0.2, -0.4, np.nan])).round(3))
    0.3
    """
    return mean(np.abs(values))


def largest_size(values: np.ndarray) -> np.ndarray:
    """The largest size of values of clients, the last axis, that may be negative, such as gaps.

    Parameters
    ----------
    values : ndarray of shape (..., clients)
        One value for each client. Undefined ones (NaN) are left out.

    Returns
    -------
    ndarray of shape (...)
        The largest ``|v|``; NaN where no value is defined.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> print(metrics.largest_size(np.array([0.2, -0.4, np.nan])))
    0.4
    """
    return -worst(-np.abs(values))


def interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Mean over runs with its t interval.

    Parameters
    ----------
    values : array_like of shape (runs,)
        One value for each run. Undefined ones (NaN) are left out.
    level : float
        Confidence level of the interval.

    Returns
    -------
    tuple of three floats
        Mean, lower end and upper end. One run gives an interval of no known width (NaN), and no run gives NaN for all three.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> tuple(round(value, 3) for value in metrics.interval([0.80, 0.82, 0.84]))
    (0.82, 0.77, 0.87)
    """
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    n = values.size
    if n == 0:
        return np.nan, np.nan, np.nan
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


MODEL: dict[str, Callable[..., np.ndarray]] = {
    "acc": accuracy, "balanced_acc": balanced_accuracy, "mcc": mcc, "eod": eod, "spd": spd, "di": di,
    "equalised_odds": equalised_odds, "impact": disparate_impact, "worst_group": worst_group,
    "sp": sp_ratio, "eo": eo_ratio, "eqo": eqo_ratio, "positive": positive_rate,
    "tpsd": tpsd, "apsd": apsd, "apsd_acc": apsd_acc,
    **{f"{metric}_code": partial(fairness, metric=metric, zero_rule=True, sp_as_coded=True) for metric in FAIRNESS},
}  # fmt: skip
CLIENTS = {
    "std_acc": spread, "var_acc": variance, "worst_acc": tail, "best_acc": lambda v: tail(v, best=True), "min_acc": worst,
    "jain_acc": jain,
}  # fmt: skip
SUMMARIES = {"mean": mean, "std": spread, "sd": sample_spread, "local": mean_size, "most": largest_size}
"""Of any metric over clients, by the name before it: "mean_tpsd", "std_tpsd" (divided by n), "sd_tpsd" (by n - 1), and of gaps
of either sign "local_eod" and "most_eod", the mean and the largest size."""
FEDERATION = ("acc", "eod", "spd", "std_acc")


def of_federation(metric: str, counts: np.ndarray) -> np.ndarray:
    """A metric of one model over a whole federation, by its name.

    A metric among ``MODEL``, such as "acc" or "eod", is that of all clients' rows pooled. One among ``CLIENTS``, such as
    "std_acc" or "worst_acc", is a statistic over the accuracies of clients: "min_acc" is that of the worst client, "worst_acc"
    the mean of the worst tenth, and "jain_acc" Jain's index. ``mean_``, ``std_`` (divided by n) or ``sd_`` (by n - 1) before a
    name of ``MODEL``, as in "mean_tpsd", is that statistic over the clients' own values. ``local_`` and ``most_`` are the mean
    and the largest of their sizes, as in "local_eod": how unfair a model is inside a client, on average and at worst.

    Parameters
    ----------
    metric : str
        The name.
    counts : ndarray of shape (..., clients, groups, classes, classes)
        Confusion counts of the model on the rows of each client.

    Returns
    -------
    ndarray of shape (...)
        One value for each stack of clients.

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> counts = np.array([[[[4, 1], [2, 3]], [[5, 0], [1, 4]]], [[[2, 3], [0, 5]], [[3, 2], [2, 3]]]])
    >>> [float(metrics.of_federation(name, counts).round(3)) for name in ("acc", "std_acc", "mean_eod")]
    [0.725, 0.075, 0.1]
    """
    if metric in MODEL:
        return MODEL[metric](counts.sum(-4))
    if metric in CLIENTS:
        return CLIENTS[metric](accuracy(counts))
    statistic, _, of = metric.partition("_")
    if statistic in SUMMARIES and of in MODEL:
        return SUMMARIES[statistic](MODEL[of](counts))
    raise FairFLError(f"There is no metric {metric!r}: choose among {', '.join([*MODEL, *CLIENTS])}.")


def of_clients(metric: str, counts: np.ndarray) -> np.ndarray | None:
    """The same metric for every client, or None where it only exists for the federation.

    Parameters
    ----------
    metric : str
        A name that `of_federation` takes.
    counts : ndarray of shape (..., clients, groups, classes, classes)
        Confusion counts of the model on the rows of each client.

    Returns
    -------
    ndarray of shape (..., clients), or None
        One value for each client; None for a statistic over clients, such as "std_acc".

    Examples
    --------
    >>> import numpy as np
    >>> from fairfl_lite import metrics
    >>> counts = np.array([[[[4, 1], [2, 3]], [[5, 0], [1, 4]]], [[[2, 3], [0, 5]], [[3, 2], [2, 3]]]])
    >>> metrics.of_clients("acc", counts), metrics.of_clients("std_acc", counts)
    (array([0.8 , 0.65]), None)
    """
    return MODEL[metric](counts) if metric in MODEL else None


def counts_of(y_true: ArrayLike, y_pred: ArrayLike, sensitive_features: ArrayLike) -> np.ndarray:
    """Confusion counts from one value per row, as the metrics of this module take them.

    Parameters
    ----------
    y_true, y_pred : array_like of int, shape (n,)
        Labels and predictions, whole numbers from 0; of two classes 1 is the favourable one.
    sensitive_features : array_like, shape (n,)
        The group of each row, of any kind of value. Groups are numbered from 0 in the sorted order of their values, so of two
        the second is the privileged one, a = 1, in the words of this module.

    Returns
    -------
    ndarray of int64, shape (groups, classes, classes)
        How many rows there are by group, label and prediction.

    Raises
    ------
    FairFLError
        If the three differ in length, are empty, or hold what is missing or no class.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> metrics.counts_of([0, 1, 1, 1], [0, 1, 0, 1], ["f", "f", "f", "m"]).tolist()
    [[[1, 0], [1, 1]], [[0, 0], [0, 1]]]
    """
    y, p = _classes(y_true, "y_true"), _classes(y_pred, "y_pred")
    group = np.asarray(sensitive_features)
    group = group[:, 0] if group.ndim == 2 and group.shape[1] == 1 else group
    if group.ndim != 1 or not len(y) == len(p) == len(group) > 0:
        raise FairFLError(f"y_true, y_pred and sensitive_features need one value for each row, of shapes alike, not {y.shape}, "
                          f"{p.shape} and {group.shape}.")  # fmt: skip
    missing = group != group  # NaN alone differs from itself; None and NaT among other values cannot be sorted
    if np.any(missing) or (group.dtype == object and any(value is None for value in group)):
        raise FairFLError("sensitive_features has missing values: fill them in, or leave out their rows.")
    try:
        values, a = np.unique(group, return_inverse=True)
    except TypeError as error:
        raise FairFLError("sensitive_features mixes values that cannot be sorted: make all of them text.") from error
    classes = max(2, int(y.max()) + 1, int(p.max()) + 1)
    cell = (a * classes + y) * classes + p
    return np.bincount(cell, minlength=len(values) * classes**2).reshape(len(values), classes, classes).astype(np.int64)


def _classes(values: ArrayLike, name: str) -> np.ndarray:
    """Classes as whole numbers from 0."""
    given = np.asarray(values)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.dtype == object and all(isinstance(value, int | float | np.number) for value in given.ravel()):
        given = given.astype(float)
    if given.dtype.kind not in "iubf" or not (np.isfinite(given) & (given >= 0) & (given == np.rint(given))).all():
        raise FairFLError(f"{name} must hold classes as whole numbers from 0, such as 0 and 1: recode it, e.g. (y == 'yes').")
    return given.astype(np.int64)


def evaluate(
    y_true: ArrayLike, y_pred: ArrayLike, *, sensitive_features: ArrayLike, metrics: Sequence[str] = ("acc", "eod", "spd")
) -> dict[str, float]:
    """Metrics of predictions, from one value per row.

    Parameters
    ----------
    y_true, y_pred : array_like of int, shape (n,)
        Labels and predictions, see `counts_of`.
    sensitive_features : array_like, shape (n,)
        The group of each row, see `counts_of`.
    metrics : sequence of str
        Names among those of ``MODEL``: "acc", "balanced_acc", "mcc", "eod", "spd", "di", "sp", "eo", "eqo", "positive",
        "tpsd", "apsd", "apsd_acc", "equalised_odds", "impact", "worst_group", and "sp_code", "eo_code", "eqo_code" for
        FAIR-FATE's published code.

    Returns
    -------
    dict of str to float
        The value of each metric by its name; NaN where it is undefined.

    Examples
    --------
    >>> from fairfl_lite import metrics
    >>> metrics.evaluate([0, 1, 1, 1], [0, 1, 0, 1], sensitive_features=["f", "f", "f", "m"], metrics=("acc", "eod"))
    {'acc': 0.75, 'eod': -0.5}
    """
    names = [choose(name, MODEL, "metric named") for name in ([metrics] if isinstance(metrics, str) else metrics)]
    counts = counts_of(y_true, y_pred, sensitive_features)
    return {name: float(MODEL[name](counts)) for name in names}
