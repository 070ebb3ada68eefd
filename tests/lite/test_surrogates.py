"""Soft biases: by hand, against numbers differentiated by differences, in the limit of hard predictions, on any engine."""

import numpy as np
import pytest
import torch
from asking import first_models, gradient
from toy import images, tables

from fairfl_lite import metrics
from fairfl_lite.clients.surrogates import LossAndBias, SoftBias
from fairfl_lite.engines import mean_loss
from fairfl_lite.errors import FairFLError

pytestmark = pytest.mark.slow

KINDS = ("tpsd", "apsd", "apsd_acc")


def drawn(seed, rows=60, groups=3, classes=2):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 0.3, rows if classes == 2 else (rows, classes))
    return torch.tensor(logits), torch.tensor(rng.integers(classes, size=rows)), torch.tensor(rng.integers(groups, size=rows))


def by_hand(kind, logits, y, a, sharpness=10.0):
    """The formula of section 3.2 with soft rates, one group and one class after the other."""
    z, y, a = (np.asarray(each) for each in (logits, y, a))
    if z.ndim == 1:
        p = 1 / (1 + np.exp(-sharpness * z))
        p = np.stack([1 - p, p], 1)
    else:
        e = np.exp(sharpness * (z - z.max(1, keepdims=True)))
        p = e / e.sum(1, keepdims=True)
    found = []
    for c in range(p.shape[1]) if kind != "apsd_acc" and z.ndim == 2 else [1]:
        rates = []
        for i in np.unique(a):
            mine = (a == i) & (y == c) if kind == "tpsd" else a == i
            if mine.any():
                rates.append(np.mean([p[row, y[row] if kind == "apsd_acc" else c] for row in np.flatnonzero(mine)]))
        found.append(np.sqrt(np.mean((np.array(rates) - np.mean(rates)) ** 2)) if len(rates) > 1 else 0.0)
    return max(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_formula_by_hand(kind, classes):
    for seed in range(5):
        data = drawn(seed, groups=2 + seed % 3, classes=classes)
        assert SoftBias(kind)(*data).item() == pytest.approx(by_hand(kind, *data), abs=1e-8)
        assert SoftBias(kind, 3.0)(*data).item() == pytest.approx(by_hand(kind, *data, 3.0), abs=1e-8)


def test_two_groups_give_half_their_difference():
    logits, y, a = torch.tensor([0.1, -0.2, 0.05, 0.3]), torch.tensor([1, 1, 0, 1]), torch.tensor([0, 1, 0, 0])
    p = torch.sigmoid(10 * logits)
    assert SoftBias("tpsd")(logits, y, a).item() == pytest.approx(abs((p[0] + p[3]) / 2 - p[1]).item() / 2)
    assert SoftBias("apsd")(logits, y, a).item() == pytest.approx(abs((p[0] + p[2] + p[3]) / 3 - p[1]).item() / 2)
    right = (p[0] + 1 - p[2] + p[3]) / 3
    assert SoftBias("apsd_acc")(logits, y, a).item() == pytest.approx(abs(right - p[1]).item() / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_without_rows_is_left_out_and_one_alone_has_no_bias(kind):
    logits, y, a = drawn(0, groups=2)
    assert SoftBias(kind)(logits, y, 3 * a) == SoftBias(kind)(logits, y, a)  # groups 1 and 2 are nobody's
    for only in (0, 2):
        leaf = logits.clone().requires_grad_()
        value = SoftBias(kind)(leaf, y, torch.full_like(a, only))
        value.backward()
        assert value == 0 and (leaf.grad == 0).all()
    none = torch.where(a == 1, 0, y)  # a group without positives has no true positive rate
    if kind == "tpsd":
        assert SoftBias(kind)(logits, none, a) == 0
        assert SoftBias(kind)(logits, torch.zeros_like(y), a) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_gradient_by_differences(kind, classes):
    logits, y, a = drawn(4, rows=25, classes=classes)
    leaf = logits.clone().requires_grad_()
    SoftBias(kind)(leaf, y, a).backward()
    for place in np.ndindex(*logits.shape):
        up, down = logits.clone(), logits.clone()
        up[place] += 1e-5
        down[place] -= 1e-5
        slope = (by_hand(kind, up, y, a) - by_hand(kind, down, y, a)) / 2e-5
        assert leaf.grad[place].item() == pytest.approx(slope, abs=1e-6)
    equal = torch.zeros(4, requires_grad=True)  # all rates alike: a gradient, and it is 0
    SoftBias(kind)(equal, torch.tensor([1, 1, 0, 0]), torch.tensor([0, 1, 0, 1])).backward()
    assert (equal.grad == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 4])
def test_a_sharp_surrogate_is_the_hard_metric(kind, classes):
    for seed in range(4):
        logits, y, a = drawn(seed, groups=3, classes=classes)
        yhat = (logits > 0).long() if classes == 2 else logits.argmax(1)
        counts = np.zeros((3, classes, classes))
        np.add.at(counts, (a.numpy(), y.numpy(), yhat.numpy()), 1)
        hard = metrics.MODEL[kind](counts)
        assert SoftBias(kind, 1e6)(logits, y, a).item() == pytest.approx(float(hard), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_by_group_and_label_give_the_same(kind):
    for seed in range(6):
        logits, y, a = drawn(seed, rows=8 + 6 * seed, groups=4)
        leaf = logits.clone().requires_grad_()
        value = SoftBias(kind)(leaf, y, a)
        value.backward()
        p = 1 / (1 + np.exp(-10 * logits.numpy()))
        rows, soft = np.zeros((4, 2)), np.zeros((4, 2))
        np.add.at(rows, (a.numpy(), y.numpy()), 1)
        np.add.at(soft, (a.numpy(), y.numpy()), p)
        found, slope = SoftBias(kind).by_sums(rows, soft)
        assert found == pytest.approx(value.item(), abs=1e-12)
        np.testing.assert_allclose(slope[a, y] * 10 * p * (1 - p), leaf.grad.numpy(), atol=1e-12)
    alone = np.array([[[3.0, 4.0], [0, 0]], [[0, 0], [0, 0]]])
    value, slope = SoftBias(kind).by_sums(alone, alone / 3)
    assert (value == 0).all() and (slope == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_bias_of_a_federation(kind):
    for fed in (tables(), images()):
        theta = first_models(fed)
        values, slopes = gradient(fed, theta, LossAndBias(SoftBias(kind)))
        loss, by_loss = gradient(fed, theta, mean_loss)
        bias, by_bias = gradient(fed, theta, SoftBias(kind))
        np.testing.assert_allclose(values, np.stack([loss, bias], 2), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slopes, np.stack([by_loss, by_bias], 2), rtol=1e-4, atol=1e-5)


def test_wrong_settings_are_refused():
    with pytest.raises(FairFLError, match="decision bias named"):
        SoftBias("eod")
    with pytest.raises(FairFLError, match="sharpness"):
        SoftBias(sharpness=0)
