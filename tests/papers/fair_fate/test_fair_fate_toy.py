"""The small federation of the first FAIR-FATE notebook: its bias, its fair direction, its cosine."""

import numpy as np
import pytest
from asking import confusion

from fairfl_lite import metrics
from fairfl_lite.errors import FairFLError
from fairfl_lite.methods import FedAvg
from papers.fair_fate import toy

pytestmark = pytest.mark.slow

close = np.testing.assert_allclose


def test_true_labels_do_not_depend_on_the_group_and_biased_ones_do():
    rng = np.random.default_rng(0)
    for refused in (0.0, 0.6):
        X, y, a = toy.people(rng, 100_000, refused)
        rate = [y[a == group].mean() for group in (0, 1)]
        close(rate, [0.5 * (1 - refused), 0.5], atol=0.01)
        close([X[a == group].mean(0) for group in (0, 1)], [[0, -1], [0, 1]], atol=0.02)


def test_the_first_clients_have_true_labels_and_so_has_the_server():
    fed = toy.federation([0, 1], clients=6, fair=2, rows=4000, server=4000)
    assert fed.sizes().tolist() == [[4000] * 6] * 2
    cells = fed.shards["train"].census()
    gap = cells[..., 0, 1] / cells[..., 0, :].sum(-1) - cells[..., 1, 1] / cells[..., 1, :].sum(-1)
    close(gap[:, :2], 0, atol=0.05)
    assert (gap[:, 2:] < -0.25).all()
    for part in ("validation", "test"):
        cells = fed.shards[part].census()
        assert cells.shape == (2, 1, 2, 2) and (cells.sum((1, 2, 3)) == 4000).all()
        close(cells[:, 0, :, 1] / cells[:, 0].sum(-1), 0.5, atol=0.04)


def test_a_seed_has_its_own_rows_whatever_the_others():
    alone, among = toy.federation([3]), toy.federation([1, 3])
    for part in ("train", "validation", "test"):
        one, two = alone.shards[part], among.shards[part]
        for k in range(one.sizes.shape[1]):
            for name in ("X", "y", "a"):
                close(getattr(one, name)[one.rows(0, k)], getattr(two, name)[two.rows(1, k)])
    rows = [set(shards.rows(r, k)) for shards in among.shards.values() for r in (0, 1) for k in range(shards.sizes.shape[1])]
    assert len(set.union(*rows)) == sum(map(len, rows)), "no row is used twice"


def test_a_step_in_the_fair_direction_makes_a_model_trained_on_biased_labels_fairer():
    fed = toy.federation(range(3), fair=0)
    biased = fed.run(FedAvg(), 10).state.params
    assert (biased[:, 1] > 0.2).all(), "it uses the proxy against a = 0"
    fairer = (biased + 0.2 * toy.FAIR_DIRECTION).astype(np.float32)
    for metric in ("sp", "eo"):
        before, after = (metrics.of_federation(metric, confusion(fed, theta, "validation")) for theta in (biased, fairer))
        assert (after > before + 0.05).all()


def test_cosine_by_hand():
    v = np.array([[0.0, -2.0, 0.0], [3.0, 4.0, 0.0], [1.0, 0.0, 5.0]])
    close(toy.cosine(v), [1, -0.8, 0], atol=1e-12)
    close(toy.cosine(v, np.array([2.0, 0.0, 0.0])), [0, 0.6, 26**-0.5])
    assert np.isnan(toy.cosine(np.zeros(3)))


def test_more_fair_clients_than_clients_are_refused():
    with pytest.raises(FairFLError, match="Of 4 clients, 5 cannot be fair"):
        toy.federation([0], clients=4, fair=5)
